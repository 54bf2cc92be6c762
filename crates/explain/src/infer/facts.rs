//! What is true of one direction of a connection: inferred, where nobody said it.

use std::collections::HashMap;

use crate::{
    collect::{CapturedConnection, Syn},
    side::Side,
};

/// What is true of what one side sends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// Payload of a full segment, in bytes.
    pub(crate) mss: u64,
    /// Bytes of headers that each packet has on the path.
    pub(crate) headers: u64,
    /// The narrowest link's rate for whole IP packets, in bits per second.
    pub(crate) rate: Option<f64>,
    /// The size of the chunks whose acknowledgement the sender waits for.
    pub(crate) chunk: Option<u64>,
    /// What is outstanding at most in one round trip after another, without growing and without a loss: the sender's
    /// buffer, in bytes.
    pub(crate) level: Option<u64>,
    /// Whether a sender that could have sent earlier mostly goes on when an acknowledgement comes.
    pub(crate) answers_acks: bool,
    /// Whether it sends small segments before the small ones before them are acknowledged, as it would not with Nagle's
    /// algorithm (RFC 896), nor with Minshall's variant of it, which is Linux's.
    pub(crate) nodelay: bool,
    /// HTTP/2's window that stopped the sender again and again, as far as TLS hides it, in bytes.
    pub(crate) stops_at: Option<u64>,
    /// Whether the connection was seen from its beginning.
    pub(crate) from_start: bool,
}

impl Facts {
    /// For how long the narrowest link carries so many bytes of payload, in nanoseconds.
    pub(crate) fn carry(&self, payload: u64) -> u64 {
        let packets = payload.div_ceil(self.mss.max(1));
        let bits = (payload + packets * self.headers) * 8;
        self.rate.map_or(0, |rate| (bits as f64 * 1e9 / rate) as u64)
    }

    /// Whether so much outstanding payload fills the path for a round trip.
    pub(crate) fn fills(&self, flight: u64, rtt: u64) -> bool {
        self.rate.is_some() && self.carry(flight) * 10 >= rtt * 9
    }

    /// What can be inferred without following the sender.
    pub(super) fn from_headers(connection: &CapturedConnection, side: Side) -> Self {
        let headers = headers(connection);
        let mss = mss(connection, side);
        Self {
            mss,
            headers,
            rate: None,
            chunk: None,
            level: None,
            answers_acks: true,
            nodelay: false,
            stops_at: None,
            from_start: connection.syn.client.is_some() || connection.syn.server.is_some(),
        }
    }
}

/// Bytes of headers that each packet has on the path.
fn headers(connection: &CapturedConnection) -> u64 {
    let ip = if connection.ends.client.is_ipv6() { 60 } else { 40 };
    ip + options(connection)
}

/// Bytes of TCP's options that each packet has.
fn options(connection: &CapturedConnection) -> u64 {
    if connection.timestamps { 12 } else { 0 }
}

/// The payload of a full segment, as the SYNs said, or by what was sent.
pub(crate) fn mss(connection: &CapturedConnection, side: Side) -> u64 {
    let said = [side, !side].map(|side| connection.syn[side].and_then(|syn| syn.mss));
    let said = said.into_iter().flatten().min().map(|mss| u64::from(mss).saturating_sub(options(connection)));
    said.filter(|mss| *mss > 0).unwrap_or_else(|| seen_mss(connection, side, headers(connection)))
}

/// The payload of a full segment by what was sent: the largest size that came twice and fits a packet, as larger
/// ones were put together or not yet taken apart by a network card.
fn seen_mss(connection: &CapturedConnection, side: Side, headers: u64) -> u64 {
    let mut sizes: HashMap<u32, u32> = HashMap::new();
    for segment in connection.segments.iter().filter(|segment| segment.from() == side && segment.len > 0) {
        if sizes.len() < 4096 {
            *sizes.entry(segment.len).or_default() += 1;
        }
    }
    let fits = |len: u32| u64::from(len) + headers <= 1500;
    let twice = sizes.iter().filter(|(len, count)| **count > 1 && fits(**len)).map(|(len, _)| *len).max();
    match (twice, sizes.keys().max()) {
        (Some(len), _) => len.into(),
        (None, Some(len)) if fits(*len) => (*len).into(),
        (None, Some(_)) => 1500 - headers,
        (None, None) => 1460,
    }
}

/// By how many bits a side's windows are shifted: as its SYN said, if both did (RFC 7323 §2.2), else just enough for
/// what was outstanding.
pub(crate) fn scale(connection: &CapturedConnection, side: Side) -> u8 {
    match (connection.syn[side], connection.syn[!side]) {
        (Some(own), Some(other)) => own.scale.filter(|_| other.scale.is_some()).unwrap_or(0),
        (Some(Syn { scale: Some(scale), .. }), None) => scale,
        _ => 0,
    }
}
