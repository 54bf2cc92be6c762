//! A wait: the time before something happened, and everything that is known of what let it happen.
//!
//! This is an edge of the critical path. What follows a wait was let go by its end: an acknowledgement came, a
//! window opened, a timer fired, a program wrote. The causes ([`crate::causes`]) are asked in turn which part of
//! it they claim.

use crate::event::Side;

/// The time before something happened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// When what happened before it happened, in nanoseconds.
    pub(crate) from: u64,
    /// When it was over.
    pub(crate) to: u64,
    /// Until when the narrowest link was busy with what had been sent before.
    pub(crate) busy_until: u64,
    /// What ended it.
    pub(crate) end: End,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// The answer of a name server.
    Lookup,
    /// A SYN, sent once more.
    SynAgain,
    /// A step of the TCP handshake.
    Connect,
    /// A step of the TLS handshake.
    Tls {
        /// Whether it is the client's first data behind it, which it may have taken time to think of.
        over: bool,
        /// How much of the wait packets spent on their way, in nanoseconds.
        travel: u64,
    },
    /// The first data of a message.
    Turn {
        /// Who had the turn.
        side: Side,
        /// How much of the wait packets spent on their way, in nanoseconds.
        travel: u64,
    },
    /// New data within a message.
    Data(Data),
    /// Data that was sent before.
    Again(Repair),
    /// The arrival of the last data.
    Arrival,
}

/// What made a sender send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repair {
    /// Acknowledgements told it of the loss.
    Acks,
    /// It heard nothing until its timer fired.
    Timer,
}

/// What is known of a sender that went on within a message.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_excessive_bools, reason = "observations that do not depend on each other")]
pub(crate) struct Data {
    /// The acknowledgement on whose arrival it went on.
    pub(crate) released: Option<Release>,
    /// Since when its windows would have let it go on.
    pub(crate) room: Option<u64>,
    /// Whether it went on at a time of its own: no acknowledgement came, and longer passed than packets are spread by.
    pub(crate) idle: bool,
    /// When the receiver's window was closed: less than a segment.
    pub(crate) closed: Option<(u64, u64)>,
    /// Whether what was left of the receiver's window was less than a segment until then.
    pub(crate) window: bool,
    /// What it was recovering from.
    pub(crate) recovers: Option<Repair>,
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
pub(crate) struct Release {
    /// When it came.
    pub(crate) at: u64,
    /// For how long the receiver had held it back.
    pub(crate) held: u64,
    /// Whether it acknowledged everything.
    pub(crate) all: bool,
    /// Its packet.
    pub(crate) number: u32,
}
