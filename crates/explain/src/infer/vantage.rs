//! The vantage point of a capture: the round-trip time between it and each end.
//!
//! Each end answers what it receives: a SYN with a SYN-ACK, data with an acknowledgement, a timestamp with its echo. The
//! fastest answer gives the round-trip time to that end; delayed acknowledgements and queues only add to it. Both
//! together are the RTT of the connection. With them, the events at the sender can be reconstructed from any vantage
//! point: a packet was sent half the round-trip time to the sender before it was captured, and an acknowledgement
//! arrives half of it later ([`crate::infer::sender_state`]). Paxson's tcpanaly (SIGCOMM 1997) showed that an analysis
//! has to begin with the vantage point.

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
    /// On the path between them.
    Middle,
    /// It cannot be inferred, because no end answered anything.
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

/// An end that answers within this time is at the capture point, in nanoseconds.
const NEAR: u64 = 1_000_000;

/// The position of the capture point between both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VantagePoint {
    pub(crate) position: Vantage,
    /// The round-trip time to each end, in nanoseconds.
    pub(crate) rtt_to: PerSide<u64>,
    /// Whether nothing shows it: no handshake, no timestamp that is echoed, and only the other end acknowledges.
    pub(crate) is_unknown: PerSide<bool>,
}

impl VantagePoint {
    /// The base round-trip time between the ends, in nanoseconds.
    pub(crate) fn rtt(&self) -> u64 {
        self.rtt_to.client + self.rtt_to.server
    }

    /// Whether the capture was taken at this end.
    pub(crate) fn is_at(&self, side: Side) -> bool {
        self.position == if side == Side::Client { Vantage::Client } else { Vantage::Server }
    }

    /// Whether the capture was taken so near to this end that its packets were captured about when it sent them.
    pub(crate) fn is_near(&self, side: Side) -> bool {
        self.is_at(side) || self.rtt_to[side] * 8 < self.rtt()
    }

    /// Whether a side may have received a packet of the other side, captured at `sent`, when it sent one that was
    /// captured at `now`.
    pub(crate) fn has_heard(&self, side: Side, sent: u64, now: u64) -> bool {
        now >= sent + self.rtt_to[side] * 4 / 5
    }

    /// Infers where `connection` was captured.
    pub(crate) fn of(connection: &CapturedConnection) -> Self {
        let handshake = handshake(connection);
        let answers = PerSide::of(|sender| answers(connection, sender));
        // The fastest answer of a side to a SYN, a timestamp or data.
        let fastest = |side: Side| {
            let (echo, others) = (connection.echoes[side].min, connection.surroundings.least[side]);
            // Which of several SYNs was answered, only timestamps show.
            let shake = handshake[side].filter(|shake| !shake.is_ambiguous || echo.is_none()).map(|shake| shake.took);
            let answers = [shake, echo, answers[!side].receiver, others];
            answers.into_iter().flatten().min()
        };
        let rtt_to = PerSide::of(|side| fastest(side).or(answers[side].sender).unwrap_or(0));
        // At the receiver's end, everything that has arrived is acknowledged at once: what comes next is no answer to that.
        let goes_on = |side: Side| answers[side].sender.is_some_and(|took| took >= NEAR);
        let is_unknown = PerSide::of(|side| fastest(side).is_none() && !goes_on(side));
        let rtt = rtt_to.client + rtt_to.server;
        let is_known = fastest(Side::Client).is_some() || fastest(Side::Server).is_some();
        let position = match connection.captured_at {
            // A router's interface has directions too, but an end answers at once.
            Some(side) if fastest(side).is_none_or(|took| took < NEAR.max(rtt / 8)) => match side {
                Side::Client => Vantage::Client,
                Side::Server => Vantage::Server,
            },
            None if !is_known => Vantage::Unknown,
            // An end that answers at once is here; where the end is that only asks is unknown.
            None if fastest(Side::Client).is_none() && answers.client.sender.is_none() => {
                if rtt_to.server < NEAR {
                    Vantage::Server
                } else {
                    Vantage::Client
                }
            }
            // At an end, the answers to its packets take as long as its kernel does.
            None if rtt_to.client <= (rtt / 10).max(200_000) && rtt_to.client <= rtt_to.server => Vantage::Client,
            None if rtt_to.server <= (rtt / 10).max(200_000) => Vantage::Server,
            Some(_) | None => Vantage::Middle,
        };
        Self { position, rtt_to, is_unknown }
    }
}

/// The answer to a SYN or SYN-ACK.
#[derive(Debug, Clone, Copy)]
struct HandshakeAnswer {
    /// Since the latest of them.
    took: u64,
    /// Whether there were several: it may answer an earlier one (Karn's algorithm, RFC 6298 §3). If a SYN-ACK is lost, the
    /// server's timer repeats it at about the time at which the client repeats its SYN.
    is_ambiguous: bool,
}

/// How SYN and SYN-ACK were answered, by the side that answered.
fn handshake(connection: &CapturedConnection) -> PerSide<Option<HandshakeAnswer>> {
    // When the latest passed, and how many did.
    let mut asked = PerSide::<Option<(u64, u32)>>::default();
    let mut answers = PerSide::<Option<HandshakeAnswer>>::default();
    let answer = |(at, count): (u64, u32), now: u64| HandshakeAnswer { took: now - at, is_ambiguous: count > 1 };
    let ask = |asked: &mut Option<(u64, u32)>, now| *asked = Some((now, asked.map_or(0, |(_, count)| count) + 1));
    for segment in connection.segments.iter().take(64) {
        match (segment.from(), segment.has(Flags::SYN), segment.has(Flags::ACK)) {
            (Side::Client, true, false) => ask(&mut asked.client, segment.time),
            (Side::Server, true, true) => {
                answers.server = answers.server.or(asked.client.map(|syn| answer(syn, segment.time)));
                ask(&mut asked.server, segment.time);
            }
            (Side::Client, false, true) => {
                answers.client = asked.server.map(|syn_ack| answer(syn_ack, segment.time));
                return answers;
            }
            _ => {}
        }
    }
    answers
}

/// The fastest reactions of both ends, for the data of one of them.
#[derive(Debug, Default)]
struct Answers {
    /// The receiver acknowledges data.
    receiver: Option<u64>,
    /// The sender sends new data after all it had sent was acknowledged.
    sender: Option<u64>,
}

fn answers(connection: &CapturedConnection, sender: Side) -> Answers {
    let mut fastest = Answers::default();
    let Some(mut offsets) = connection.offsets[sender].map(StreamOffsets::rewound) else { return fastest };
    let mut in_flight: VecDeque<(u64, u64)> = VecDeque::new();
    let (mut snd_nxt, mut ambiguous_until, mut all_acked) = (ORIGIN, 0, None);
    let keep_min = |min: &mut Option<u64>, took: u64| *min = Some(min.map_or(took, |min| min.min(took)));
    for segment in &connection.segments {
        if segment.from() == sender && segment.len > 0 && !segment.has(Flags::SYN) {
            let Some(start) = offsets.of(segment.seq) else { continue };
            let end = start + u64::from(segment.len);
            if start < snd_nxt {
                // The acknowledgement of a retransmission may be for the original (Karn's algorithm, RFC 6298 §3).
                ambiguous_until = snd_nxt;
                continue;
            }
            if let Some(acked) = all_acked.take() {
                keep_min(&mut fastest.sender, segment.time - acked);
            }
            snd_nxt = end;
            in_flight.push_back((end, segment.time));
        } else if segment.from() != sender && segment.has(Flags::ACK) {
            let ack = offsets.near(segment.ack);
            let mut last_acked = None;
            while let Some((end, sent)) = in_flight.front().copied()
                && end <= ack
            {
                last_acked = Some((end, sent));
                in_flight.pop_front();
            }
            if let Some((end, sent)) = last_acked {
                if end > ambiguous_until {
                    keep_min(&mut fastest.receiver, segment.time - sent);
                }
                all_acked = in_flight.is_empty().then_some(segment.time);
            }
            if segment.len > 0 {
                // The response of a program, not of its TCP.
                all_acked = None;
            }
        }
    }
    fastest
}
