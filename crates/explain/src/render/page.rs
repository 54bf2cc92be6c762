//! What a page draws of captures: schema `longhaul.view/1`.
//!
//! The explanation for programs ([`crate::render::json`]) says what took how long. A page shows *when*: each transfer's time
//! piece by piece, and the packets themselves, so that whoever doubts a finding can look at it. So while captures are
//! explained, a [`Keeper`] keeps packets ([`crate::explain_keeping`]), and afterwards [`document`] writes both down,
//! those transfers first that lost most.
//!
//! Everything in it is bounded, whatever the capture: packets by [`PACKETS`], transfers by [`TRANSFERS`], transfers
//! that are run again by [`PREDICTED`]. What was left out is counted, so that the page can say so.

mod predictions;

use std::{borrow::Cow, collections::BTreeMap, ptr, sync::MutexGuard, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;

use super::{PredictionRequest, summary};
use crate::{
    Cause, CauseTimes, Finding, PageLoad, PageStep, PairedConnection, Transfer, packet_trace::PacketTrace, page_loads,
};

use predictions::Predictions;

/// The name of the schema.
pub const SCHEMA: &str = "longhaul.view/1";

/// How many transfers a page lists: those that lost most.
pub const TRANSFERS: usize = 2000;

/// For how many of them it is predicted how long they would take otherwise.
pub const PREDICTED: usize = 50;

/// What a page draws. CauseTimes that end in `_s` are in seconds, from the first cause of the first connection on.
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

/// A cause; [`PacketTrace`]'s pieces name its place in the list.
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

/// A [`PacketTrace`] as text.
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
pub fn document<'a>(
    captures: &'a [String],
    seen: &[PairedConnection],
    packets: u64,
    request: &PredictionRequest,
) -> Document<'a> {
    let ranked = summary::ranked(seen);
    let begin = seen.iter().filter_map(begin_of).min().unwrap_or_default();
    let mut shown: Vec<usize> = ranked.iter().take(TRANSFERS).map(|(place, _)| *place).collect();
    shown.sort_unstable();
    shown.dedup();
    let connections: Vec<Connection> = shown.iter().map(|place| connection(&seen[*place], begin)).collect();
    let transfers = ranked.iter().take(TRANSFERS).enumerate().map(|(rank, (place, transfer))| {
        let connection = shown.binary_search(place).unwrap_or_default();
        transfer_view(transfer, connection, begin, (rank < PREDICTED).then_some(request))
    });
    Document {
        schema: SCHEMA,
        captures,
        answer: summary::answer(seen, &ranked, packets),
        packets,
        packets_kept: connections.iter().filter_map(|one| one.trace.as_ref()).map(|trace| trace.count).sum(),
        transfers_seen: ranked.len(),
        causes: Cause::all()
            .map(|cause| CauseName { name: cause.name(), title: cause.title(), avoidable: cause.is_avoidable() })
            .collect(),
        transfers: transfers.collect(),
        connections,
        pages: page_loads(seen).iter().map(|page| page_view(page, seen, &ranked)).collect(),
    }
}

fn page_view(page: &PageLoad, seen: &[PairedConnection], ranked: &[(usize, &Transfer)]) -> PageView {
    let place = |step: &PageStep| {
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
fn begin_of(seen: &PairedConnection) -> Option<Duration> {
    let one = &seen.connection;
    one.transfers.iter().map(|transfer| transfer.start).chain([one.start]).min()
}

fn connection(seen: &PairedConnection, begin: Duration) -> Connection {
    let one = &seen.connection;
    let [client, server] = one.end_names();
    let slot = one.packets_kept.as_ref().and_then(|slot| slot.lock().ok());
    Connection {
        client,
        server,
        capture: seen.capture,
        also: seen.also_in.clone(),
        rtt_s: one.rtt.as_secs_f64(),
        mss: one.mss,
        rate_bits: one.rate,
        chunk: one.chunk,
        vantage: one.vantage.name(),
        packets: one.packets,
        trace: slot.and_then(|slot| trace(&slot, begin)),
    }
}

fn trace(slot: &MutexGuard<Option<PacketTrace>>, begin: Duration) -> Option<TraceView> {
    let trace = slot.as_ref()?;
    Some(TraceView {
        begin_s: Duration::from_nanos(trace.begin).saturating_sub(begin).as_secs_f64(),
        count: trace.count,
        packets: BASE64_STANDARD.encode(&trace.packets),
        pieces: BASE64_STANDARD.encode(&trace.intervals),
    })
}

fn transfer_view(
    transfer: &Transfer,
    connection: usize,
    begin: Duration,
    request: Option<&PredictionRequest>,
) -> TransferView {
    TransferView {
        connection,
        what: transfer.request.to_string(),
        status: transfer.status.to_string(),
        direction: transfer.direction.name(),
        start_s: transfer.start.saturating_sub(begin).as_secs_f64(),
        duration_s: transfer.duration.as_secs_f64(),
        bytes: transfer.bytes,
        time_s: seconds(&transfer.times),
        cause: transfer.cause.map(Cause::name),
        findings: transfer.findings.iter().map(finding).collect(),
        predictions: request.and_then(|request| Predictions::of(transfer, request)),
    }
}

fn seconds(times: &CauseTimes) -> BTreeMap<&'static str, f64> {
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
