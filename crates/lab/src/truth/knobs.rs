//! The knobs: what a case turns, and which cause of `explain` is then right.
//!
//! To add a knob, write a function that draws its scenarios (with the knob turned, and turned back), and add a line to
//! [`KNOBS`]. The labels are the names of causes in `explain`'s JSON. A label may be a name that `explain` does not know
//! (yet): then every case of the knob shows what it says instead.

mod failures;
mod path;
mod programs;
mod shaping;
mod windows;

use super::{draw::Draw, scenario::Scenario};

/// Who can turn a knob back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Party {
    /// The client's host or program.
    Client,
    /// The server's host or program.
    Server,
    /// The network between them.
    Path,
    /// Nobody: what TCP does at the start of any connection, and the distance.
    Nobody,
}

/// A kind of cases: the knob that they turn.
pub struct Knob {
    /// Its name in tables, folders and the JSON.
    pub name: &'static str,
    /// What it turns, for people.
    pub turns: &'static str,
    /// The causes that are right, as in `explain`'s JSON.
    pub expected: &'static [&'static str],
    /// Whether it is an event, such as a reset, and no part of a transfer's time. Then any finding may name it, and there
    /// is no cost to compare.
    pub is_event: bool,
    /// Draws the scenario with the knob turned, and with it turned back; none if the programs are missing.
    pub(crate) draw: fn(&mut Draw) -> Option<[Scenario; 2]>,
}

/// All knobs, in the order of the tables.
pub const KNOBS: &[Knob] = &[
    Knob {
        name: "receive-buffer",
        turns: "a small receive buffer",
        expected: &["receive_window"],
        is_event: false,
        draw: windows::receive_buffer,
    },
    Knob {
        name: "http2-window",
        turns: "node's small window of HTTP/2, in an upload",
        expected: &["http_flow_control"],
        is_event: false,
        draw: windows::http2_window,
    },
    Knob {
        name: "slow-reader",
        turns: "a program that reads slowly or stops reading",
        expected: &["receiver_stalled"],
        is_event: false,
        draw: programs::slow_reader,
    },
    Knob {
        name: "send-buffer",
        turns: "a small send buffer",
        expected: &["send_buffer"],
        is_event: false,
        draw: windows::send_buffer,
    },
    Knob {
        name: "pacing",
        turns: "a low SO_MAX_PACING_RATE",
        expected: &["pacing"],
        is_event: false,
        draw: shaping::pacing,
    },
    Knob {
        name: "shaper",
        turns: "a shaper with a bucket in the sender's host",
        // From outside, it looks like a bottleneck.
        expected: &["pacing", "path_rate"],
        is_event: false,
        draw: shaping::shaper,
    },
    Knob {
        name: "slow-writer",
        turns: "a program that writes slowly",
        expected: &["sender_idle"],
        is_event: false,
        draw: programs::slow_writer,
    },
    Knob {
        name: "nagle",
        turns: "Nagle's algorithm, with a head and a small body in two writes",
        expected: &["nagle", "delayed_ack"],
        is_event: false,
        draw: programs::nagle,
    },
    Knob {
        name: "server-think",
        turns: "a server that computes before it responds",
        expected: &["server_think"],
        is_event: false,
        draw: programs::server_think,
    },
    Knob {
        name: "client-think",
        turns: "a client that pauses between requests",
        expected: &["client_think"],
        is_event: false,
        draw: programs::client_think,
    },
    Knob {
        name: "loss",
        turns: "random loss",
        expected: &["fast_recovery", "retransmission_timeout", "congestion_window", "connect_retry"],
        is_event: false,
        draw: path::loss,
    },
    Knob { name: "link-rate", turns: "a slow link", expected: &["path_rate"], is_event: false, draw: path::link_rate },
    Knob {
        name: "bufferbloat",
        turns: "a long queue, filled by another download",
        expected: &["queueing", "shared_link"],
        is_event: false,
        draw: path::bufferbloat,
    },
    Knob {
        name: "competitor",
        turns: "other downloads over the same link",
        expected: &["shared_link", "queueing"],
        is_event: false,
        draw: path::competitor,
    },
    Knob {
        name: "reset",
        turns: "a middlebox that resets the connection",
        expected: &["reset"],
        is_event: true,
        draw: failures::reset,
    },
    Knob {
        name: "refused",
        turns: "a server that does not listen yet",
        expected: &["refused"],
        is_event: true,
        draw: failures::refused,
    },
    Knob {
        name: "two-knobs",
        turns: "a small receive buffer and a server that computes",
        expected: &["receive_window", "server_think"],
        is_event: false,
        draw: windows::receive_buffer_and_think,
    },
];

impl Knob {
    /// The knob with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOBS.iter().find(|knob| knob.name == name)
    }

    /// Who can turn it back, for a transfer in this direction.
    pub fn party(&self, is_upload: bool) -> Party {
        self.expected.first().map_or(Party::Nobody, |cause| party(cause, is_upload))
    }
}

/// Whom a cause blames, in a transfer in this direction.
pub fn party(cause: &str, is_upload: bool) -> Party {
    let (sender, receiver) = if is_upload { (Party::Client, Party::Server) } else { (Party::Server, Party::Client) };
    match cause {
        "receive_window" | "receiver_stalled" | "delayed_ack" | "http_flow_control" => receiver,
        // Either end can turn off what makes the two wait for each other; it is the sender's first.
        "send_buffer" | "pacing" | "sender_idle" | "nagle" => sender,
        "server_think" | "tls" | "refused" => Party::Server,
        "client_think" => Party::Client,
        "propagation" | "connect" | "slow_start" | "name_lookup" => Party::Nobody,
        _ => Party::Path,
    }
}
