//! What is known of a sender when it sends: what let this packet go.

/// What made a sender send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetransmitTrigger {
    /// Acknowledgements told it of the loss.
    Acks,
    /// It heard nothing until its timer fired.
    Timer,
}

/// What is known of a sender that went on within a message.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "observations that do not depend on each other")]
pub(crate) struct SendContext {
    /// The acknowledgement on whose arrival it went on.
    pub(crate) released: Option<ReleasingAck>,
    /// Since when its windows would have let it go on.
    pub(crate) room: Option<u64>,
    /// Whether it went on at a time of its own: no acknowledgement came, and longer passed than packets are spread by.
    pub(crate) idle: bool,
    /// When the receiver's window was closed: less than a segment.
    pub(crate) closed: Option<(u64, u64)>,
    /// Whether what was left of the receiver's window was less than a segment until then.
    pub(crate) window: bool,
    /// What it was recovering from.
    pub(crate) recovers: Option<RetransmitTrigger>,
    /// Whether anything was lost so far.
    pub(crate) lost: bool,
    /// Whether what is outstanding grows by a quarter or more each round trip, as in slow start.
    pub(crate) grows: bool,
    /// Whether so much of the connection was seen that something is known of its congestion window.
    pub(crate) known: bool,
    /// Whether what is outstanding has been the same for many round trips.
    pub(crate) steady: bool,
    /// Whether the sender waits for chunks of the same size to be acknowledged.
    pub(crate) chunks: bool,
    /// Whether it mostly goes on when an acknowledgement comes, and not at times of its own.
    pub(crate) answers_acks: bool,
    /// Whether the segment is not full.
    pub(crate) small: bool,
    /// Whether the path was full: as much was outstanding as a round trip carries.
    pub(crate) full: bool,
    /// Whether it went on when the other side said something.
    pub(crate) answers: bool,
    /// Whether the other side gave it room in the protocol above TCP.
    pub(crate) flow_control: bool,
}

/// An acknowledgement that let a sender go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReleasingAck {
    /// When it came.
    pub(crate) at: u64,
    /// For how long the receiver had held it back.
    pub(crate) held: u64,
    /// Whether it acknowledged everything.
    pub(crate) all: bool,
    /// Its packet.
    pub(crate) number: u32,
}
