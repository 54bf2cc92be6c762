//! Where a capture was taken: how far it is from there to each end, and back.
//!
//! What goes to an end comes back answered: a SYN with a SYN-ACK, data with an acknowledgement, a timestamp with
//! its echo. The shortest answer is the distance; deferred acknowledgements and queues only make it longer. The
//! two distances add up to the round-trip time, and what happened at the sender can be told from any vantage: a
//! packet seen here left it half a distance earlier, and an acknowledgement seen here reaches it half a distance
//! later ([`crate::infer::sender_state`]). Paxson's tcpanaly (SIGCOMM 1997) taught that the place comes first.

use std::collections::VecDeque;

use capture::tcp::Flags;

use crate::{
    collect::CapturedConnection,
    side::{PerSide, Side},
    stream_offset::{ORIGIN, StreamOffsets},
};

/// Where a capture was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vantage {
    /// At the client's end.
    Client,
    /// At the server's end.
    Server,
    /// On the way between them.
    Middle,
    /// It cannot be told: nothing was answered.
    Unknown,
}

impl Vantage {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Middle => "middle",
            Self::Unknown => "unknown",
        }
    }
}

/// Who answers within this is at the capture, in nanoseconds.
const NEAR: u64 = 1_000_000;

/// The distances of a capture from both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VantagePoint {
    pub(crate) position: Vantage,
    /// From here to the end and back, in nanoseconds.
    pub(crate) rtt_to: PerSide<u64>,
}

impl VantagePoint {
    /// The round-trip time between the ends when nothing waits, in nanoseconds.
    pub(crate) fn rtt(&self) -> u64 {
        self.rtt_to.client + self.rtt_to.server
    }

    /// Whether it is a side's own end.
    pub(crate) fn is_at(&self, side: Side) -> bool {
        self.position == if side == Side::Client { Vantage::Client } else { Vantage::Server }
    }

    /// Whether a side that sends at a time may have heard what the other sent at another, seen from here.
    pub(crate) fn has_heard(&self, side: Side, other: u64, now: u64) -> bool {
        now >= other + self.rtt_to[side] * 4 / 5
    }

    /// Where `connection` was captured.
    pub(crate) fn of(connection: &CapturedConnection) -> Self {
        let shake = handshake(connection);
        let answers = PerSide::of(|sender| answers(connection, sender));
        // How soon a side answers a SYN, a timestamp, data; the last being that it goes on when all is acknowledged.
        let least = |side: Side| {
            let sure = [shake[side], connection.echoes[side].least, answers[!side].receiver];
            sure.into_iter().flatten().min()
        };
        let to = PerSide::of(|side| least(side).or(answers[side].sender).unwrap_or(0));
        let rtt = to.client + to.server;
        let known = least(Side::Client).is_some() || least(Side::Server).is_some();
        let position = match connection.at {
            Some(Side::Client) => Vantage::Client,
            Some(Side::Server) => Vantage::Server,
            None if !known => Vantage::Unknown,
            // Who answers at once is here; who is only seen to ask may be anywhere.
            None if least(Side::Client).is_none() && answers.client.sender.is_none() => {
                if to.server < NEAR {
                    Vantage::Server
                } else {
                    Vantage::Client
                }
            }
            // An end answers its own packets within the time that its kernel takes.
            None if to.client <= (rtt / 10).max(200_000) && to.client <= to.server => Vantage::Client,
            None if to.server <= (rtt / 10).max(200_000) => Vantage::Server,
            None => Vantage::Middle,
        };
        Self { position, rtt_to: to }
    }
}

/// How long SYN and SYN-ACK took to be answered.
fn handshake(connection: &CapturedConnection) -> PerSide<Option<u64>> {
    let (mut asked, mut answered, mut found) = (None, None, PerSide::default());
    for segment in connection.segments.iter().take(64) {
        match (segment.from(), segment.has(Flags::SYN), segment.has(Flags::ACK)) {
            (Side::Client, true, false) => asked = Some(segment.time),
            (Side::Server, true, true) => {
                if let Some(asked) = asked.take() {
                    found.server = Some(segment.time - asked);
                }
                answered = Some(segment.time);
            }
            (Side::Client, false, true) => {
                found.client = answered.map(|answered| segment.time - answered);
                return found;
            }
            _ => {}
        }
    }
    found
}

/// How soon each end does something about the other's packets, where one of them sends data.
#[derive(Debug, Default)]
struct Answers {
    /// The receiver acknowledges data.
    receiver: Option<u64>,
    /// The sender sends new data when all it had sent was acknowledged.
    sender: Option<u64>,
}

fn answers(connection: &CapturedConnection, sender: Side) -> Answers {
    let mut found = Answers::default();
    let Some(mut offsets) = connection.offsets[sender].map(StreamOffsets::rewound) else { return found };
    let mut flying: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut next, mut again_until, mut all_acked) = (ORIGIN, 0, None);
    let shorter = |known: &mut Option<u64>, took: u64| *known = Some(known.map_or(took, |known| known.min(took)));
    for segment in &connection.segments {
        if segment.from() == sender && segment.len > 0 && !segment.has(Flags::SYN) {
            let Some(start) = offsets.of(segment.seq) else { continue };
            let end = start + u64::from(segment.len);
            if start < next {
                // What is sent again may be acknowledged for what was sent before (Karn).
                again_until = next;
                continue;
            }
            if let Some(acked) = all_acked.take() {
                shorter(&mut found.sender, segment.time - acked);
            }
            next = end;
            flying.push_back((end, segment.time));
        } else if segment.from() != sender && segment.has(Flags::ACK) {
            let ack = offsets.near(segment.ack);
            let mut latest = None;
            while let Some((end, at)) = flying.front().copied()
                && end <= ack
            {
                latest = Some((end, at));
                flying.pop_front();
            }
            if let Some((end, at)) = latest {
                if end > again_until {
                    shorter(&mut found.receiver, segment.time - at);
                }
                all_acked = flying.is_empty().then_some(segment.time);
            }
            if segment.len > 0 {
                // The answer of a program, not of its TCP.
                all_acked = None;
            }
        }
    }
    found
}
