//! The data of the page that shows captures: schema `longhaul.view/1`.
//!
//! The explanation for programs ([`super::json`]) says what took how long. A page shows *when*: each transfer's time
//! interval by interval, and the packets themselves, so that readers can check a finding. While captures are explained,
//! a [`PacketStore`](crate::PacketStore) keeps packets ([`crate::explain_keeping`]); afterwards [`document`] writes both,
//! the transfers that lost most first.
//!
//! Everything in it is bounded, whatever the capture: the packets by the store, the transfers by [`TRANSFERS`], the
//! predictions by [`PREDICTED`]. What is left out is counted, so that the page can say so.

mod predictions;

use std::{collections::BTreeMap, ptr, sync::MutexGuard, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;

use super::{
    PredictionRequest,
    json::{Fix, Systems},
    summary,
};
use crate::{
    Cause, CauseTimes, Finding, PageLoad, PageStep, PairedConnection, Transfer, counters::BothDirections,
    packet_trace::PacketTrace, page_loads, phases::PhaseSeconds,
};

use predictions::Predictions;

/// The name of the schema.
pub const SCHEMA: &str = "longhaul.view/1";

/// The maximum number of transfers on a page: those that lost most.
pub const TRANSFERS: usize = 2000;

/// The number of transfers with predictions.
pub const PREDICTED: usize = 50;

/// The data of a page. Fields that end in `_s` are in seconds since the trigger of the first transfer.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    captures: &'a [String],
    answer: String,
    /// The number of packets read, and of those below.
    packets: u64,
    packets_kept: u64,
    /// The number of transfers, including those left out below.
    transfers_seen: usize,
    causes: Vec<CauseName>,
    connections: Vec<Connection>,
    /// Those that lost most first.
    transfers: Vec<TransferView>,
    pages: Vec<PageView>,
}

/// A page load.
#[derive(Debug, Serialize)]
struct PageView {
    client: String,
    duration_s: f64,
    transfers: usize,
    /// Along the critical path; adds up to `duration_s`.
    time_s: BTreeMap<&'static str, f64>,
    /// The listed transfers on the path in order, as indices of `transfers`.
    path: Vec<usize>,
}

/// A cause; the intervals of [`PacketTrace`] refer to it by index.
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
    /// Its capture, and the others that contain it, as indices of `captures`.
    capture: usize,
    also: Vec<usize>,
    rtt_s: f64,
    mss: u64,
    rate_bits: Option<f64>,
    chunk: Option<u64>,
    system: Systems,
    vantage: &'static str,
    packets: u64,
    counters: BothDirections,
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
    /// The index in `connections`.
    connection: usize,
    name: String,
    what: String,
    status: String,
    direction: &'static str,
    start_s: f64,
    duration_s: f64,
    bytes: u64,
    time_s: BTreeMap<&'static str, f64>,
    /// Adds up to `duration_s` as well.
    phases_s: PhaseSeconds,
    cause: Option<&'static str>,
    findings: Vec<FindingView>,
    /// Avoidable causes that took too little for a finding, in a line each.
    also: Vec<String>,
    predictions: Option<Predictions>,
}

#[derive(Debug, Serialize)]
struct FindingView {
    cause: &'static str,
    title: &'static str,
    cost_s: f64,
    packets: Vec<u32>,
    why: String,
    fix: Vec<Fix>,
    /// The what-if change that removes the cause.
    change: Option<String>,
}

/// The page of the captures with these names; `packets` is the number of packets read.
pub fn document<'a>(
    captures: &'a [String],
    connections: &[PairedConnection],
    packets: u64,
    request: &PredictionRequest,
) -> Document<'a> {
    let ranked = summary::ranked(connections);
    let begin = connections.iter().filter_map(begin_of).min().unwrap_or_default();
    let mut shown: Vec<usize> = ranked.iter().take(TRANSFERS).map(|(index, _)| *index).collect();
    shown.sort_unstable();
    shown.dedup();
    let views: Vec<Connection> = shown.iter().map(|index| connection(&connections[*index], begin)).collect();
    let transfers = ranked.iter().take(TRANSFERS).enumerate().map(|(rank, (index, transfer))| {
        let connection = shown.binary_search(index).unwrap_or_default();
        let explained = &connections[*index].connection;
        let name = summary::name(*index, explained, transfer);
        let predictions = if rank < PREDICTED { Predictions::of(explained, transfer, request) } else { None };
        transfer_view(name, transfer, connection, begin, predictions)
    });
    let worst = ranked.first().into_iter().flat_map(|(_, transfer)| summary::also(transfer));
    let answer = [summary::answer(connections, &ranked, packets)].into_iter().chain(worst.map(summary::sentence));
    Document {
        schema: SCHEMA,
        captures,
        answer: answer.collect::<Vec<_>>().join(" "),
        packets,
        packets_kept: views.iter().filter_map(|view| view.trace.as_ref()).map(|trace| trace.count).sum(),
        transfers_seen: ranked.len(),
        causes: Cause::all()
            .map(|cause| CauseName { name: cause.name(), title: cause.title(), avoidable: cause.is_avoidable() })
            .collect(),
        transfers: transfers.collect(),
        connections: views,
        pages: page_loads(connections).iter().map(|page| page_view(page, connections, &ranked)).collect(),
    }
}

impl Document<'_> {
    /// Adds sentences about the captures to the answer.
    #[must_use]
    pub fn with_notes(mut self, notes: &[String]) -> Self {
        for note in notes {
            self.answer.push(' ');
            self.answer.push_str(note);
        }
        self
    }
}

fn page_view(page: &PageLoad, connections: &[PairedConnection], ranked: &[(usize, &Transfer)]) -> PageView {
    let index = |step: &PageStep| {
        let wanted = &connections[step.connection].connection.transfers[step.transfer];
        ranked.iter().take(TRANSFERS).position(|(_, transfer)| ptr::eq(*transfer, wanted))
    };
    PageView {
        client: page.client.to_string(),
        duration_s: page.duration.as_secs_f64(),
        transfers: page.transfers,
        time_s: seconds(&page.times),
        path: page.path.iter().filter_map(index).collect(),
    }
}

/// When the trigger of a connection's first transfer happened.
fn begin_of(paired: &PairedConnection) -> Option<Duration> {
    let connection = &paired.connection;
    connection.transfers.iter().map(|transfer| transfer.start).chain([connection.start]).min()
}

fn connection(paired: &PairedConnection, begin: Duration) -> Connection {
    let connection = &paired.connection;
    let [client, server] = connection.end_names();
    let slot = connection.packets_kept.as_ref().and_then(|slot| slot.lock().ok());
    Connection {
        client,
        server,
        capture: paired.capture,
        also: paired.also_in.clone(),
        rtt_s: connection.rtt.as_secs_f64(),
        mss: connection.mss,
        rate_bits: connection.rate,
        chunk: connection.chunk,
        system: Systems::of(connection),
        vantage: connection.vantage.name(),
        packets: connection.packets,
        counters: BothDirections::from(&connection.counters),
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
    name: String,
    transfer: &Transfer,
    connection: usize,
    begin: Duration,
    predictions: Option<Predictions>,
) -> TransferView {
    TransferView {
        connection,
        name,
        what: transfer.request.to_string(),
        status: transfer.status.to_string(),
        direction: transfer.direction.name(),
        start_s: transfer.start.saturating_sub(begin).as_secs_f64(),
        duration_s: transfer.duration.as_secs_f64(),
        bytes: transfer.bytes,
        time_s: seconds(&transfer.times),
        phases_s: transfer.phases.seconds(),
        cause: transfer.cause.map(Cause::name),
        findings: transfer.findings.iter().map(finding).collect(),
        also: summary::also(transfer).map(summary::sentence).collect(),
        predictions,
    }
}

fn seconds(times: &CauseTimes) -> BTreeMap<&'static str, f64> {
    times.ranked().into_iter().map(|(cause, time)| (cause.name(), time as f64 / 1e9)).collect()
}

fn finding(finding: &Finding) -> FindingView {
    FindingView {
        cause: finding.cause.name(),
        title: finding.cause.title(),
        cost_s: finding.cost.as_secs_f64(),
        packets: finding.packets.clone(),
        why: finding.why.clone(),
        fix: Fix::all(finding),
        change: finding.what_if.as_ref().map(ToString::to_string),
    }
}
