//! The explanation as JSON for programs: schema `longhaul.explain/1`.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer};
use units::Size;

use super::{PredictionRequest, ReadCapture};
use crate::{
    AckPolicy, Cause, CauseTimes, PairedConnection, Side,
    counters::BothDirections,
    explanation, page_loads, parallel,
    phases::PhaseSeconds,
    replica::{AckRule, WhatIf},
    system::Inferred,
};

/// The number of connections that are converted together, by all processors: their predictions take time.
const TOGETHER: usize = 1024;

/// The number of packets of which predictions take longer than to start threads.
const MANY_PACKETS: u64 = 10_000;

/// The name of the schema.
pub const SCHEMA: &str = "longhaul.explain/1";

/// An explanation. Times are in seconds; those of `time_s` add up to `duration_s`.
///
/// It is built while it is written, connection by connection, because there may be very many.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    captures: Vec<&'a str>,
    coverage: Vec<CaptureCoverage<'a>>,
    connections: Connections<'a>,
    pages: Vec<Page>,
}

/// What a capture lacks, and what it has twice.
#[derive(Debug, Serialize)]
struct CaptureCoverage<'a> {
    capture: &'a str,
    packets: u64,
    dropped: u64,
    duplicates: u64,
    error: Option<&'a str>,
}

#[derive(Debug)]
struct Connections<'a> {
    captures: &'a [ReadCapture],
    all: &'a [PairedConnection],
    request: &'a PredictionRequest,
}

/// The fields of the JSON object, in their order.
#[derive(Debug, Serialize)]
struct Connection {
    client: String,
    server: String,
    capture: String,
    also: Vec<String>,
    rtt_ms: f64,
    mss: u64,
    rate_bits: Option<f64>,
    chunk: Option<u64>,
    acks: Option<Acks>,
    knows_window: bool,
    system: Systems,
    ending: Option<Ending>,
    ways: Option<OneWayDelays>,
    vantage: &'static str,
    packets: u64,
    duplicates: u64,
    uncaptured_bytes: u64,
    only_from: Option<&'static str>,
    counters: BothDirections,
    /// Since the epoch.
    start_s: f64,
    transfers: Vec<Transfer>,
}

#[derive(Debug, Serialize)]
struct Ending {
    failure: &'static str,
    by: Option<&'static str>,
    packet: u32,
    /// Since the connection's first packet.
    after_s: f64,
    why: String,
}

impl Ending {
    fn of(ending: &crate::Ending) -> Self {
        Self {
            failure: ending.failure.name(),
            by: ending.by.map(|side| if side == Side::Client { "client" } else { "server" }),
            packet: ending.packet,
            after_s: ending.after.as_secs_f64(),
            why: ending.why.clone(),
        }
    }
}

/// The operating systems of the ends, by their SYNs.
#[derive(Debug, Serialize)]
pub(super) struct Systems {
    client: Option<&'static str>,
    server: Option<&'static str>,
    signs: Signs,
}

#[derive(Debug, Serialize)]
struct Signs {
    client: Option<Sign>,
    server: Option<Sign>,
}

#[derive(Debug, Serialize)]
struct Sign {
    packet: u32,
    why: String,
}

impl Systems {
    pub(super) fn of(connection: &explanation::Connection) -> Self {
        let systems = &connection.systems;
        let name = |inferred: &Inferred| inferred.system.name();
        let sign = |inferred: &Inferred| Sign { packet: inferred.packet, why: inferred.signs() };
        Self {
            client: systems.client.as_ref().map(name),
            server: systems.server.as_ref().map(name),
            signs: Signs { client: systems.client.as_ref().map(sign), server: systems.server.as_ref().map(sign) },
        }
    }
}

#[derive(Debug, Serialize)]
struct OneWayDelays {
    captures: [String; 2],
    clock_ahead_ms: f64,
    up: OneWayDelay,
    down: OneWayDelay,
}

#[derive(Debug, Serialize)]
struct OneWayDelay {
    least_ms: f64,
    typical_ms: f64,
    most_ms: f64,
    sent: u64,
    lost: u64,
    packets: Vec<u32>,
}

impl OneWayDelay {
    fn of(one_way: &crate::OneWay) -> Self {
        let [least_ms, typical_ms, most_ms] =
            [one_way.min, one_way.median, one_way.max].map(|time| time.as_secs_f64() * 1e3);
        Self {
            least_ms,
            typical_ms,
            most_ms,
            sent: one_way.sent,
            lost: one_way.lost,
            packets: one_way.lost_packets.clone(),
        }
    }
}

#[derive(Debug, Serialize)]
struct Page {
    client: String,
    /// Since the epoch.
    start_s: f64,
    duration_s: f64,
    connections: usize,
    transfers: usize,
    bytes: u64,
    time_s: BTreeMap<&'static str, f64>,
    path: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Step {
    connection: usize,
    transfer: usize,
    /// Since the page began.
    start_s: f64,
    duration_s: f64,
}

impl Page {
    fn of(page: &crate::PageLoad) -> Self {
        let step = |step: &crate::PageStep| Step {
            connection: step.connection,
            transfer: step.transfer,
            start_s: step.start.saturating_sub(page.start).as_secs_f64(),
            duration_s: step.duration.as_secs_f64(),
        };
        Self {
            client: page.client.to_string(),
            start_s: page.start.as_secs_f64(),
            duration_s: page.duration.as_secs_f64(),
            connections: page.connections,
            transfers: page.transfers,
            bytes: page.bytes,
            time_s: seconds(&page.times),
            path: page.path.iter().map(step).collect(),
        }
    }
}

/// Seconds by cause.
fn seconds(times: &CauseTimes) -> BTreeMap<&'static str, f64> {
    times.ranked().into_iter().map(|(cause, time)| (cause.name(), time as f64 / 1e9)).collect()
}

#[derive(Debug, Serialize)]
struct Acks {
    rule: &'static str,
    /// Packets, segments or bytes, as the rule counts.
    count: u64,
    timer_ms: Option<f64>,
    quick: u32,
}

impl Acks {
    fn of(policy: AckPolicy) -> Self {
        let (rule, count) = match policy.rule {
            AckRule::Packets(count) => ("packets", count.into()),
            AckRule::Segments(count) => ("segments", count.into()),
            AckRule::MoreThanSegment => ("more_than_segments", 1),
            AckRule::Bytes(Size(count)) => ("bytes", count),
        };
        Self { rule, count, timer_ms: policy.timer.map(|timer| timer.as_secs_f64() * 1e3), quick: policy.quick }
    }
}

#[derive(Debug, Serialize)]
struct Transfer {
    what: String,
    status: String,
    direction: &'static str,
    /// From the connection's first packet.
    start_s: f64,
    duration_s: f64,
    bytes: u64,
    time_s: BTreeMap<&'static str, f64>,
    phases_s: PhaseSeconds,
    cause: Option<&'static str>,
    findings: Vec<Finding>,
    what_if: Option<Predicted>,
}

#[derive(Debug, Serialize)]
struct Finding {
    cause: &'static str,
    cost_s: f64,
    packets: Vec<u32>,
    why: String,
    neighbours: Vec<Neighbour>,
    fix: Vec<Fix>,
    predicted_s: Option<f64>,
    range_s: Option<[f64; 2]>,
    model_error: Option<f64>,
}

/// Other connections on the link, by server.
#[derive(Debug, Serialize)]
struct Neighbour {
    server: String,
    connections: usize,
    bytes: u64,
}

impl Neighbour {
    fn of(neighbour: &crate::Neighbour) -> Self {
        let crate::Neighbour { server, connections, bytes } = neighbour;
        Self { server: server.clone(), connections: *connections, bytes: *bytes }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Fix {
    system: &'static str,
    how: Cow<'static, str>,
    but: &'static str,
    /// Whether it is for the systems of the connection; none where they are unknown.
    applies: Option<bool>,
}

impl Fix {
    /// All of a finding, those that apply first.
    pub(super) fn all(finding: &crate::Finding) -> Vec<Self> {
        let fixes = finding.ranked_fixes().into_iter();
        fixes.map(|(fix, applies)| Self { system: fix.system, how: fix.how, but: fix.but, applies }).collect()
    }
}

#[derive(Debug, Serialize)]
#[allow(clippy::struct_field_names, reason = "the schema's names")]
struct Predicted {
    change: String,
    bytes: Option<u64>,
    predicted_s: f64,
    model_error: Option<f64>,
}

/// The explanation of these captures.
pub fn document<'a>(
    captures: &'a [ReadCapture],
    connections: &'a [PairedConnection],
    request: &'a PredictionRequest,
) -> Document<'a> {
    let coverage = |capture: &'a ReadCapture| CaptureCoverage {
        capture: &capture.name,
        packets: capture.packets,
        dropped: capture.coverage.drops.total(),
        duplicates: capture.coverage.duplicates,
        error: capture.error.as_deref(),
    };
    Document {
        schema: SCHEMA,
        captures: captures.iter().map(|capture| &*capture.name).collect(),
        coverage: captures.iter().map(coverage).collect(),
        connections: Connections { captures, all: connections, request },
        pages: page_loads(connections).iter().map(Page::of).collect(),
    }
}

impl Serialize for Connections<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.all.chunks(TOGETHER).flat_map(|part| {
            let convert = |paired: &PairedConnection| self.connection(paired);
            if part.iter().map(|paired| paired.connection.packets).sum::<u64>() > MANY_PACKETS {
                parallel::map(part, convert)
            } else {
                part.iter().map(convert).collect()
            }
        }))
    }
}

impl Connections<'_> {
    fn connection(&self, paired: &PairedConnection) -> Connection {
        let name =
            |capture: &usize| self.captures.get(*capture).map(|capture| capture.name.clone()).unwrap_or_default();
        let connection = &paired.connection;
        let [client, server] = connection.end_names();
        Connection {
            client,
            server,
            capture: name(&paired.capture),
            also: paired.also_in.iter().map(name).collect(),
            rtt_ms: connection.rtt.as_secs_f64() * 1e3,
            mss: connection.mss,
            rate_bits: connection.rate,
            chunk: connection.chunk,
            acks: connection.acks.map(Acks::of),
            knows_window: connection.knows_window,
            system: Systems::of(connection),
            ending: connection.ending.as_ref().map(Ending::of),
            ways: paired.one_way.as_ref().map(|ways| OneWayDelays {
                captures: ways.captures.each_ref().map(name),
                clock_ahead_ms: ways.clock_ahead as f64 / 1e6,
                up: OneWayDelay::of(&ways.up),
                down: OneWayDelay::of(&ways.down),
            }),
            vantage: connection.vantage.name(),
            packets: connection.packets,
            duplicates: connection.duplicates,
            uncaptured_bytes: connection.uncaptured,
            only_from: connection.only_from.map(Side::name),
            counters: BothDirections::from(&connection.counters),
            start_s: connection.start.as_secs_f64(),
            transfers: connection
                .transfers
                .iter()
                .map(|transfer| Transfer::of(transfer, connection.start, self.request))
                .collect(),
        }
    }
}

impl Transfer {
    fn of(transfer: &explanation::Transfer, start: Duration, request: &PredictionRequest) -> Self {
        let predict = |what_if: &WhatIf, bytes| transfer.what_if(what_if, bytes)?.ok();
        let findings = transfer.findings.iter().map(|finding| {
            let predicted = transfer.without(finding);
            Finding {
                cause: finding.cause.name(),
                cost_s: finding.cost.as_secs_f64(),
                packets: finding.packets.clone(),
                why: finding.why.clone(),
                neighbours: finding.neighbours.iter().map(Neighbour::of).collect(),
                fix: Fix::all(finding),
                predicted_s: predicted.map(|predicted| predicted.duration.as_secs_f64()),
                range_s: predicted
                    .and_then(|predicted| predicted.range)
                    .map(|range| range.map(|end| end.as_secs_f64())),
                model_error: predicted.and_then(|predicted| predicted.model_error),
            }
        });
        let bytes = request.bytes.map(Size);
        let wanted = request.what_if.is_some() || bytes.is_some();
        let change = request.what_if.clone().unwrap_or_default();
        let what_if = wanted.then(|| predict(&change, bytes)).flatten().map(|predicted| Predicted {
            change: change.to_string(),
            bytes: request.bytes,
            predicted_s: predicted.duration.as_secs_f64(),
            model_error: predicted.model_error,
        });
        Self {
            what: transfer.request.to_string(),
            status: transfer.status.to_string(),
            direction: transfer.direction.name(),
            start_s: transfer.start.as_secs_f64() - start.as_secs_f64(),
            duration_s: transfer.duration.as_secs_f64(),
            bytes: transfer.bytes,
            time_s: seconds(&transfer.times),
            phases_s: transfer.phases.seconds(),
            cause: transfer.cause.map(Cause::name),
            findings: findings.collect(),
            what_if,
        }
    }
}
