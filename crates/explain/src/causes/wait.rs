//! A wait: the time before a step of a connection, and what is known of the event that ended it.
//!
//! A wait is an edge of the critical path. The event that ends it let the connection go on: an acknowledgement arrived,
//! a window opened, a timer fired, a program wrote. Each cause ([`crate::causes`]) claims a part of the wait.

use crate::{
    infer::send_context::{RetransmitTrigger, SendContext},
    side::Side,
};

/// The time before a step of a connection, in nanoseconds since the epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// When the step before happened.
    pub(crate) from: u64,
    /// When the wait was over.
    pub(crate) to: u64,
    /// Until when the bottleneck was busy with what had been sent before.
    pub(crate) busy_until: u64,
    /// For how long packets were in queues at that time, beyond the shortest round trip.
    pub(crate) queued: u64,
    /// Whether the link was full with the packets of several connections.
    pub(crate) is_shared: bool,
    pub(crate) end: WaitEnd,
}

/// What ended a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WaitEnd {
    /// The answer of a name server.
    Lookup,
    /// A repeated SYN or SYN-ACK.
    SynRetry,
    /// A step of the TCP handshake.
    Connect,
    /// A step of the TLS handshake.
    Tls {
        /// Whether the handshake is over: this is the client's first application data, which it may have prepared in
        /// this time.
        over: bool,
        /// The part of the wait that packets spent on the path, in nanoseconds.
        travel: u64,
    },
    /// The first data of a message.
    Turn {
        /// Who sent it.
        side: Side,
        /// The part of the wait that packets spent on the path, in nanoseconds.
        travel: u64,
        /// Since when Nagle's algorithm held it, if it did: since it could have been written.
        held: Option<u64>,
    },
    /// `100 Continue`, or the body for which the client had waited for it.
    Continue,
    /// New data within a message.
    Data(SendContext),
    /// Retransmitted data.
    Retransmission(RetransmitTrigger),
    /// The arrival of the last data.
    Arrival,
}
