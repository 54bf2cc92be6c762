//! An explanation: the connections of a capture, their transfers, the time of each by cause, and the findings.

use std::{net::SocketAddr, time::Duration};

use capture::Drops;
use units::Size;

use crate::{
    causes::{Cause, CauseTimes},
    counters::Counters,
    ending::Ending,
    finding::Finding,
    infer::{ack_policy::AckPolicy, vantage::Vantage},
    packet_store::Slot,
    phases::Phases,
    replica::{Predicted, Prediction, PredictionError, RecordedTransfer, WhatIf},
    segment::SegmentRecord,
    side::{PerSide, Side},
    system::Inferred,
};

/// A capture explained.
#[derive(Debug, Default)]
pub struct Explanation {
    /// The number of packets read.
    pub packets: u64,
    /// When the first packet passed, since the epoch.
    pub start: Duration,
    /// The connections, in the order of their first packets.
    pub connections: Vec<Connection>,
    /// What the capture lacks, and what it has twice.
    pub coverage: Coverage,
}

/// How well a capture represents what passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Coverage {
    /// The packets that the capturing machine lost, as far as the capture says it.
    pub drops: Drops,
    /// The number of packets of TCP connections that were captured again and removed.
    pub duplicates: u64,
}

/// The direction in which most of a transfer's bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Upload,
    /// From the server to the client.
    Download,
}

impl Direction {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
        }
    }

    /// The side that sends most of the bytes.
    pub(crate) fn sender(self) -> Side {
        match self {
            Self::Upload => Side::Client,
            Self::Download => Side::Server,
        }
    }
}

/// A connection explained. It is flat, like its JSON.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The end that opened the connection.
    pub client: SocketAddr,
    /// The other end.
    pub server: SocketAddr,
    /// The names of client and server, where the capture contains them.
    pub names: [Option<String>; 2],
    /// The client's initial sequence number, if its SYN was captured. It identifies the connection in other captures.
    pub isn: Option<u32>,
    /// When the first packet passed, since the epoch.
    pub start: Duration,
    /// The number of the first packet in the capture.
    pub packet: u32,
    /// The number of packets, without duplicates.
    pub packets: u64,
    /// The number of packets that were captured again.
    pub duplicates: u64,
    /// The number of bytes that were acknowledged and not captured: the capture lost them, or they took another path.
    pub uncaptured: u64,
    /// The end that sent all captured packets, although it had received some. Little can be said of such a connection.
    pub only_from: Option<Side>,
    /// Whether nothing shows the round-trip time to the sender of most bytes, and so what it waited for.
    pub is_rtt_unknown: bool,
    /// The base round-trip time, without queues and delayed acknowledgements.
    pub rtt: Duration,
    /// The payload of a full segment in bytes, in the direction of most bytes.
    pub mss: u64,
    /// The bottleneck's rate in bits per second, counting whole IP packets, in the direction of most bytes; where the
    /// packets show it.
    pub rate: Option<f64>,
    /// The size in bytes of the sender's writes, if it waits for the acknowledgement of each.
    pub chunk: Option<u64>,
    /// The round-trip time between the capture point and the client.
    pub(crate) rtt_to_client: Duration,
    /// Whether the window of the receiver of most bytes is known: its scale was captured, or the sender often stopped at
    /// the window's end.
    pub knows_window: bool,
    /// When the receiver of most bytes acknowledges, where the packets show it.
    pub acks: Option<AckPolicy>,
    /// The operating systems of both ends, where their SYNs show them.
    pub(crate) systems: PerSide<Option<Inferred>>,
    /// Where the capture was taken.
    pub vantage: Vantage,
    /// Counters of the packets of each side.
    pub(crate) counters: PerSide<Counters>,
    /// How it failed, if it did.
    pub ending: Option<Ending>,
    /// The transfers, in order.
    pub transfers: Vec<Transfer>,
    /// The packets, where they are kept for a page.
    pub(crate) packets_kept: Option<Slot>,
    /// The packets, where they are kept to compare captures.
    pub(crate) segments: Vec<SegmentRecord>,
}

/// One HTTP message or byte stream, from its trigger to its last byte.
#[derive(Debug, Clone)]
pub struct Transfer {
    /// The request line's method and target, `PUT /file?page=2`, where it can be read. Secrets in the query are masked.
    pub request: Box<str>,
    /// The response's status, where it can be read.
    pub status: Box<str>,
    /// The direction in which most of its bytes went.
    pub direction: Direction,
    /// When its trigger happened, since the epoch.
    pub start: Duration,
    /// From its trigger to its last byte.
    pub duration: Duration,
    /// Bytes of data, in both directions.
    pub bytes: u64,
    /// The time by cause; adds up to `duration`.
    pub times: CauseTimes,
    /// The time by phase; adds up to `duration`.
    pub(crate) phases: Phases,
    /// The avoidable cause that took the most time.
    pub cause: Option<Cause>,
    /// What is worth a change, most expensive first.
    pub findings: Vec<Finding>,
    pub(crate) recorded: Option<Box<RecordedTransfer>>,
}

impl Transfer {
    /// The time that its findings' causes took.
    pub fn avoidable(&self) -> Duration {
        Duration::from_nanos(self.findings.iter().map(|finding| self.times[finding.cause]).sum())
    }

    /// Bits of data per second.
    pub fn rate(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.duration.as_secs_f64().max(1e-9)
    }

    /// The basis of predictions, if a replica reproduces this transfer; none where it carried no data.
    pub fn prediction(&self) -> Option<Result<Prediction, PredictionError>> {
        Some(self.recorded.as_deref()?.prediction().cloned().map_err(Clone::clone))
    }

    /// How long this transfer would take without a finding's cause; none if nothing can be said.
    pub fn without(&self, finding: &Finding) -> Option<Predicted> {
        let recorded = self.recorded.as_deref()?;
        let what_if = finding.what_if.as_ref()?;
        if let Some(saved) = recorded.saved_before_data(what_if) {
            let duration = self.duration.saturating_sub(saved);
            return Some(Predicted { duration, range: None, model_error: None });
        }
        // Without a smaller cause, the others' cost remains, and must be right.
        let alike = self.findings.iter().filter(|other| other.what_if.as_ref() == Some(what_if));
        let is_main = alike.map(|other| other.cost).sum::<Duration>() * 3 >= self.duration;
        if is_main { recorded.without(what_if).ok() } else { recorded.what_if(what_if, None).ok() }
    }

    /// How long this transfer would take with these changes and, if given, with another number of bytes; none where
    /// it carried no data.
    pub fn what_if(&self, what_if: &WhatIf, bytes: Option<Size>) -> Option<Result<Predicted, PredictionError>> {
        Some(self.recorded.as_deref()?.what_if(what_if, bytes))
    }
}

impl Connection {
    /// `host22:1742 → yangtze:443`.
    pub fn ends(&self) -> String {
        self.end_names().join(" → ")
    }

    /// The client and the server with their ports, by name where the capture has one.
    pub(crate) fn end_names(&self) -> [String; 2] {
        let [client, server] = &self.names;
        let end = |name: &Option<String>, end: SocketAddr| match name {
            Some(name) => format!("{name}:{}", end.port()),
            None => end.to_string(),
        };
        [end(client, self.client), end(server, self.server)]
    }

    /// The direction in which most of its bytes went.
    pub fn direction(&self) -> Direction {
        let sent = |direction| {
            let transfers = self.transfers.iter().filter(|transfer| transfer.direction == direction);
            transfers.map(|transfer| transfer.bytes).sum::<u64>()
        };
        if sent(Direction::Upload) > sent(Direction::Download) { Direction::Upload } else { Direction::Download }
    }
}
