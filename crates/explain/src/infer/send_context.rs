//! What is known of a sender when it sends new data within a message.

/// What made a sender retransmit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetransmitTrigger {
    /// Acknowledgements reported the loss (fast retransmit).
    Acks,
    /// No acknowledgement came until a timer fired.
    Timer,
}

/// What is known of a sender that sent new data within a message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendContext {
    /// The acknowledgement upon which it sent.
    pub(crate) released_by: Option<ReleasingAck>,
    /// Since when both windows would have allowed it to send.
    pub(crate) room_since: Option<u64>,
    /// How the loss was noticed that it is recovering from.
    pub(crate) recovery: Option<RetransmitTrigger>,
    /// Whether anything was lost so far.
    pub(crate) has_loss: bool,
    /// Whether the receiver enlarged an HTTP/2 flow-control window just before.
    pub(crate) flow_control_opened: bool,
    pub(crate) receive_window: ReceiveWindowState,
    pub(crate) flight: FlightTrend,
    pub(crate) writer: WriterState,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReceiveWindowState {
    /// From when to when it was closed: smaller than a segment.
    pub(crate) closed: Option<(u64, u64)>,
    /// Whether less than a segment was left of it until the sender sent.
    pub(crate) is_limiting: bool,
    /// Whether it may be what limits the sender, although its scale is not known.
    pub(crate) may_limit: bool,
    /// Whether it was less than half of the largest before: unread data took the rest.
    pub(crate) is_shrunk: bool,
}

/// How the number of bytes in flight changes from round trip to round trip.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent observations")]
pub(crate) struct FlightTrend {
    /// Whether it grows by a quarter or more per round trip, as in slow start.
    pub(crate) is_growing: bool,
    /// Whether it has been the same for many round trips.
    pub(crate) is_steady: bool,
    /// Whether HTTP/2 windows stop the sender: then a steady flight is theirs, not a send buffer's.
    pub(crate) is_flow_controlled: bool,
    /// Whether enough of the connection was captured to know its congestion window.
    pub(crate) is_known: bool,
    /// Whether it fills the path: at least a bandwidth-delay product.
    pub(crate) fills_path: bool,
}

/// What is known of the sending program and its socket.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent observations")]
pub(crate) struct WriterState {
    /// Whether it sent by itself: no acknowledgement came, and more time passed than the spacing of packets.
    pub(crate) is_unprompted: bool,
    /// Whether it sent when the other side had sent data.
    pub(crate) follows_peer: bool,
    /// Whether it waits for chunks of the same size to be acknowledged.
    pub(crate) waits_for_chunks: bool,
    /// Whether it sends evenly, by a timer.
    pub(crate) is_paced: bool,
    /// Whether it mostly sends when an acknowledgement arrives.
    pub(crate) is_ack_clocked: bool,
    /// Whether the segment is smaller than the MSS, from a sender that may use Nagle's algorithm.
    pub(crate) sent_small_segment: bool,
    /// Whether an acknowledgement without data released it, and acknowledged the small segment before: until then,
    /// Nagle's algorithm holds another (RFC 896, and Minshall's variant in Linux and others).
    pub(crate) follows_small_ack: bool,
}

/// An acknowledgement upon which a sender sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReleasingAck {
    /// When it reached the sender.
    pub(crate) time: u64,
    /// For how long the receiver had delayed it, in nanoseconds.
    pub(crate) held: u64,
    /// Whether it acknowledged everything in flight.
    pub(crate) acks_all: bool,
    /// Its packet number.
    pub(crate) packet: u32,
}
