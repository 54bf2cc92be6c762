//! Properties of one direction of a connection: announced in the handshake, or inferred.

use std::collections::HashMap;

use super::{pacing::Pacing, shared_link::SharedLink, vantage::VantagePoint, window_scale::WindowScale};
use crate::{collect::CapturedConnection, side::Side};

/// Properties of one side as a sender.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "independent observations")]
pub(crate) struct SenderProperties {
    /// Payload of a full segment, in bytes.
    pub(crate) mss: u64,
    /// IP and TCP header bytes per packet.
    pub(crate) headers: u64,
    /// The bottleneck's rate in bits per second, counting whole IP packets.
    pub(crate) rate: Option<f64>,
    /// The size in bytes of the chunks whose acknowledgement the sender waits for.
    pub(crate) chunk: Option<u64>,
    /// The number of bytes in flight per round trip, if it stays the same without loss: the size of the send buffer, or of an
    /// HTTP/2 window.
    pub(crate) steady_flight: Option<u64>,
    /// Whether an HTTP/2 window stopped the sender repeatedly.
    pub(crate) is_flow_controlled: bool,
    /// The even rate at which it sends, if neither a window nor the path requires that.
    pub(crate) pacing: Option<Pacing>,
    /// Whether a sender that could have sent earlier mostly sends when an acknowledgement arrives.
    pub(crate) is_ack_clocked: bool,
    /// Whether it sends small segments while earlier small ones are unacknowledged, which neither Nagle's algorithm
    /// (RFC 896) nor Minshall's variant of it (Linux) would do.
    pub(crate) nodelay: bool,
    /// The HTTP/2 flow-control window, of which no frame can be read, that stopped the sender repeatedly, in bytes.
    pub(crate) http2_window: Option<u64>,
    /// The shift of the window field of the receiver's packets, and the largest that is possible.
    pub(crate) window_shift: u8,
    pub(crate) most_window_shift: u8,
    /// Whether the receive window is known. If its scale was not captured, only a window of zero bytes is.
    pub(crate) knows_window: bool,
    /// Whether it may be the receive window that limits the sender, although its scale is not known: with the least that is
    /// possible, the sender stops at its end.
    pub(crate) may_be_window_limited: bool,
    /// The link that it filled together with other connections.
    pub(crate) shared_link: Option<SharedLink>,
    /// Whether the capture contains the start of the connection.
    pub(crate) from_start: bool,
}

impl SenderProperties {
    /// For how long the bottleneck transmits this many bytes of payload, in nanoseconds.
    pub(crate) fn transmission_time(&self, payload: u64) -> u64 {
        let packets = payload.div_ceil(self.mss.max(1));
        let bits = (payload + packets * self.headers) * 8;
        self.rate.map_or(0, |rate| (bits as f64 * 1e9 / rate) as u64)
    }

    /// The bytes of a full packet for each byte of its payload.
    pub(crate) fn wire_factor(&self) -> f64 {
        (self.mss + self.headers) as f64 / self.mss as f64
    }

    /// Whether this many bytes in flight keep the bottleneck busy for a round trip.
    pub(crate) fn fills_path(&self, flight: u64, rtt: u64) -> bool {
        self.rate.is_some() && self.transmission_time(flight) * 10 >= rtt * 9
    }

    /// What can be inferred without following the sender.
    pub(super) fn from_headers(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Self {
        let headers = headers(connection);
        let mss = mss(connection, side);
        let scale = WindowScale::of(connection, vantage, !side);
        Self {
            mss,
            headers,
            rate: None,
            chunk: None,
            steady_flight: None,
            is_flow_controlled: false,
            pacing: None,
            is_ack_clocked: true,
            nodelay: false,
            http2_window: None,
            shared_link: None,
            window_shift: scale.shift,
            most_window_shift: *scale.bounds.end(),
            knows_window: scale.is_known,
            may_be_window_limited: false,
            from_start: connection.syn.client.is_some() || connection.syn.server.is_some(),
        }
    }
}

/// IP and TCP header bytes per packet.
fn headers(connection: &CapturedConnection) -> u64 {
    let ip = if connection.ends.client.is_ipv6() { 60 } else { 40 };
    ip + options(connection)
}

/// Bytes of TCP options per packet.
fn options(connection: &CapturedConnection) -> u64 {
    if connection.timestamps { 12 } else { 0 }
}

/// The least payload of a full segment. No sender takes a smaller maximum seriously (Linux: `tcp_min_snd_mss` is 48 with
/// options), and where all segments are smaller, none is full.
const MIN_MSS: u64 = 36;

/// The payload of a full segment: as the SYNs announced, or by the sizes of the segments.
pub(crate) fn mss(connection: &CapturedConnection, side: Side) -> u64 {
    let announced = [side, !side].map(|side| connection.syn[side].and_then(|syn| syn.mss));
    let announced = announced.into_iter().flatten().min().map(|mss| u64::from(mss).saturating_sub(options(connection)));
    let announced = announced.filter(|mss| *mss > 0);
    announced.unwrap_or_else(|| mss_by_segments(connection, side, headers(connection))).max(MIN_MSS)
}

/// The payload of a full segment by the sizes of the segments: the largest that occurs twice and fits a packet. Larger
/// ones are due to segmentation offload.
fn mss_by_segments(connection: &CapturedConnection, side: Side, headers: u64) -> u64 {
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
