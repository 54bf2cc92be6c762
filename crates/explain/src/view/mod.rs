//! What a page draws of captures: schema `longhaul.view/1`.
//!
//! The explanation for programs ([`crate::json`]) says what took how long. A page shows *when*: each transfer's time
//! piece by piece, and the packets themselves, so that whoever doubts a finding can look at it. So while captures are
//! explained, a [`Keeper`] keeps packets ([`crate::explain_keeping`]), and afterwards [`document`] writes both down,
//! those transfers first that lost most.
//!
//! Everything in it is bounded, whatever the capture: packets by [`PACKETS`], transfers by [`TRANSFERS`], transfers
//! that are run again by [`PREDICTED`]. What was left out is counted, so that the page can say so.

mod keeper;
mod predict;
mod trace;

use std::{borrow::Cow, collections::BTreeMap, ptr, sync::MutexGuard, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;

use crate::{Cause, Finding, Page, Seen, Step, Times, Transfer, json::Asked, pages, report::Direction, text};

pub(crate) use keeper::Slot;
pub use keeper::{Keeper, PACKETS};
use predict::Predictions;
use trace::Trace;

/// The name of the schema.
pub const SCHEMA: &str = "longhaul.view/1";

/// How many transfers a page lists: those that lost most.
pub const TRANSFERS: usize = 2000;

/// For how many of them it is predicted how long they would take otherwise.
pub const PREDICTED: usize = 50;

/// What a page draws. Times that end in `_s` are in seconds, from the first cause of the first connection on.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    captures: &'a [String],
    answer: String,
    /// How many packets were read, and how many stand below.
    packets: u64,
    packets_kept: u64,
    /// How many transfers there were.
    transfers_seen: usize,
    causes: Vec<CauseName>,
    connections: Vec<Connection>,
    /// Those that lost most first.
    transfers: Vec<TransferView>,
    pages: Vec<PageView>,
}

/// What a client did over several connections.
#[derive(Debug, Serialize)]
struct PageView {
    client: String,
    duration_s: f64,
    transfers: usize,
    /// Along the critical path; adds up to `duration_s`.
    time_s: BTreeMap<&'static str, f64>,
    /// Its steps in order, but for those that are not listed: places in `transfers`.
    path: Vec<usize>,
}

/// A cause; [`Trace`]'s pieces name its place in the list.
#[derive(Debug, Serialize)]
struct CauseName {
    name: &'static str,
    title: &'static str,
    avoidable: bool,
}

#[derive(Debug, Serialize)]
struct Connection {
    client: String,
    server: String,
    /// Its capture, and the others that it is in: places in `captures`.
    capture: usize,
    also: Vec<usize>,
    rtt_s: f64,
    mss: u64,
    rate_bits: Option<f64>,
    chunk: Option<u64>,
    vantage: &'static str,
    packets: u64,
    trace: Option<TraceView>,
}

/// A [`Trace`] as text.
#[derive(Debug, Serialize)]
struct TraceView {
    begin_s: f64,
    count: u64,
    packets: String,
    pieces: String,
}

#[derive(Debug, Serialize)]
struct TransferView {
    /// Its place in `connections`.
    connection: usize,
    what: String,
    status: String,
    direction: &'static str,
    start_s: f64,
    duration_s: f64,
    bytes: u64,
    time_s: BTreeMap<&'static str, f64>,
    cause: Option<&'static str>,
    findings: Vec<FindingView>,
    predictions: Option<Predictions>,
}

#[derive(Debug, Serialize)]
struct FindingView {
    cause: &'static str,
    title: &'static str,
    cost_s: f64,
    packets: Vec<u32>,
    why: String,
    fix: Vec<FixView>,
    /// The change that stands for taking the cause away.
    change: Option<String>,
}

#[derive(Debug, Serialize)]
struct FixView {
    system: &'static str,
    how: Cow<'static, str>,
    but: &'static str,
}

/// What a page draws of captures of these names, of which so many packets were read.
pub fn document<'a>(captures: &'a [String], seen: &[Seen], packets: u64, asked: &Asked) -> Document<'a> {
    let ranked = text::ranked(seen);
    let begin = seen.iter().filter_map(begin_of).min().unwrap_or_default();
    let mut shown: Vec<usize> = ranked.iter().take(TRANSFERS).map(|(place, _)| *place).collect();
    shown.sort_unstable();
    shown.dedup();
    let connections: Vec<Connection> = shown.iter().map(|place| connection(&seen[*place], begin)).collect();
    let transfers = ranked.iter().take(TRANSFERS).enumerate().map(|(rank, (place, transfer))| {
        let connection = shown.binary_search(place).unwrap_or_default();
        transfer_view(transfer, connection, begin, (rank < PREDICTED).then_some(asked))
    });
    Document {
        schema: SCHEMA,
        captures,
        answer: text::answer(seen, &ranked, packets),
        packets,
        packets_kept: connections.iter().filter_map(|one| one.trace.as_ref()).map(|trace| trace.count).sum(),
        transfers_seen: ranked.len(),
        causes: Cause::all()
            .map(|cause| CauseName { name: cause.name(), title: cause.title(), avoidable: cause.is_avoidable() })
            .collect(),
        transfers: transfers.collect(),
        connections,
        pages: pages(seen).iter().map(|page| page_view(page, seen, &ranked)).collect(),
    }
}

fn page_view(page: &Page, seen: &[Seen], ranked: &[(usize, &Transfer)]) -> PageView {
    let place = |step: &Step| {
        let wanted = &seen[step.connection].connection.transfers[step.transfer];
        ranked.iter().take(TRANSFERS).position(|(_, transfer)| ptr::eq(*transfer, wanted))
    };
    PageView {
        client: page.client.to_string(),
        duration_s: page.duration.as_secs_f64(),
        transfers: page.transfers,
        time_s: seconds(&page.times),
        path: page.path.iter().filter_map(place).collect(),
    }
}

/// When a connection's first cause was.
fn begin_of(seen: &Seen) -> Option<Duration> {
    let one = &seen.connection;
    one.transfers.iter().map(|transfer| transfer.start).chain([one.start]).min()
}

fn connection(seen: &Seen, begin: Duration) -> Connection {
    let one = &seen.connection;
    let [client, server] = one.ends_apart();
    let slot = one.packets_kept.as_ref().and_then(|slot| slot.lock().ok());
    Connection {
        client,
        server,
        capture: seen.capture,
        also: seen.also.clone(),
        rtt_s: one.rtt.as_secs_f64(),
        mss: one.mss,
        rate_bits: one.rate,
        chunk: one.chunk,
        vantage: one.vantage.name(),
        packets: one.packets,
        trace: slot.and_then(|slot| trace(&slot, begin)),
    }
}

fn trace(slot: &MutexGuard<Option<Trace>>, begin: Duration) -> Option<TraceView> {
    let trace = slot.as_ref()?;
    Some(TraceView {
        begin_s: Duration::from_nanos(trace.begin).saturating_sub(begin).as_secs_f64(),
        count: trace.count,
        packets: BASE64_STANDARD.encode(&trace.packets),
        pieces: BASE64_STANDARD.encode(&trace.pieces),
    })
}

fn transfer_view(transfer: &Transfer, connection: usize, begin: Duration, asked: Option<&Asked>) -> TransferView {
    TransferView {
        connection,
        what: transfer.what.to_string(),
        status: transfer.status.to_string(),
        direction: match transfer.direction {
            Direction::Upload => "upload",
            Direction::Download => "download",
        },
        start_s: transfer.start.saturating_sub(begin).as_secs_f64(),
        duration_s: transfer.duration.as_secs_f64(),
        bytes: transfer.bytes,
        time_s: seconds(&transfer.times),
        cause: transfer.cause.map(Cause::name),
        findings: transfer.findings.iter().map(finding).collect(),
        predictions: asked.and_then(|asked| Predictions::of(transfer, asked)),
    }
}

fn seconds(times: &Times) -> BTreeMap<&'static str, f64> {
    times.ranked().into_iter().map(|(cause, time)| (cause.name(), time as f64 / 1e9)).collect()
}

fn finding(finding: &Finding) -> FindingView {
    let fixes = finding.fixes().into_iter();
    FindingView {
        cause: finding.cause.name(),
        title: finding.cause.title(),
        cost_s: finding.cost.as_secs_f64(),
        packets: finding.packets.clone(),
        why: finding.why.clone(),
        fix: fixes.map(|fix| FixView { system: fix.system, how: fix.how, but: fix.but }).collect(),
        change: finding.what_if.as_ref().map(ToString::to_string),
    }
}
