//! What time is spent on: one file for each cause.
//!
//! A cause looks at a wait and says which part of it is its own. The causes are asked in the order of [`RULES`], and
//! what one claims, no later one gets: so every instant belongs to exactly one, and none to nobody, as the last
//! ones claim whatever is left. The order is from what is certain by itself (a handshake, a timer that fired) to what
//! is told by what it is not (a congestion window is what is left when no other reason is seen).
//!
//! To add a cause is to add a file and a line.

mod client_think;
mod congestion_window;
mod connect;
mod connect_retry;
mod delayed_ack;
pub(crate) mod evidence;
mod fast_recovery;
mod http_flow_control;
mod nagle;
mod name_lookup;
mod path_rate;
mod propagation;
mod receive_window;
mod receiver_stalled;
mod retransmission_timeout;
mod send_buffer;
mod sender_idle;
mod server_think;
mod slow_start;
mod tls;
pub(crate) mod wait;

use std::ops::{Index, IndexMut};

pub(crate) use crate::{
    format::{bytes, ms, plural, rate_text},
    infer::send_context::{RetransmitTrigger, SendContext},
    side::Side,
};
pub(crate) use evidence::{Chunk, Evidence, Fix};
pub(crate) use wait::{Wait, WaitEnd};

/// What a piece of a transfer's time was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The name server's answer was waited for.
    NameLookup,
    /// A SYN was lost or ignored, and its sender waited before it tried again.
    ConnectRetry,
    /// The TCP handshake was waited for.
    Connect,
    /// The TLS handshake was waited for.
    Tls,
    /// The sender heard nothing, and waited for its timer before it sent again.
    RetransmissionTimeout,
    /// The narrowest link was busy with the transfer's own bytes.
    PathRate,
    /// Lost packets were being repaired as acknowledgements told of them.
    FastRecovery,
    /// The receiver's window was closed.
    ReceiverStalled,
    /// The receiver held an acknowledgement back, and the sender waited for it.
    DelayedAck,
    /// HTTP/2's own window was closed.
    HttpFlowControl,
    /// As much was outstanding as the receiver's window allowed.
    ReceiveWindow,
    /// A small segment waited until all before it was acknowledged.
    Nagle,
    /// The sender waited for its own data to be acknowledged before it wrote on.
    SendBuffer,
    /// The sending program had nothing to send in the midst of a message.
    SenderIdle,
    /// The congestion window was still opening.
    SlowStart,
    /// As much was outstanding as the congestion window allowed.
    CongestionWindow,
    /// Packets were on their way, at the speed of light and of routers.
    Propagation,
    /// The server had the request and had not begun to answer.
    ServerThink,
    /// The client could have sent its next request, and had not yet.
    ClientThink,
}

/// How a cause is told, and what is said of it.
pub(crate) struct Rule {
    pub(crate) cause: Cause,
    /// What the time was lost to, in a few words.
    pub(crate) title: &'static str,
    /// Whether a setting, a program or another path could take it away; false for what physics asks.
    pub(crate) avoidable: bool,
    /// From when to when of a wait it claims, in nanoseconds; what lies outside the wait or belongs to another
    /// cause already is left out.
    pub(crate) claim: fn(&Wait) -> Option<(u64, u64)>,
    /// One paragraph that a person understands.
    pub(crate) why: fn(&Evidence) -> String,
    /// What would take it away.
    pub(crate) fixes: fn(Option<Chunk>) -> Vec<Fix>,
}

/// In the order in which they are asked.
pub(crate) const RULES: [Rule; COUNT] = [
    name_lookup::RULE,
    connect_retry::RULE,
    connect::RULE,
    tls::RULE,
    retransmission_timeout::RULE,
    path_rate::RULE,
    fast_recovery::RULE,
    receiver_stalled::RULE,
    delayed_ack::RULE,
    http_flow_control::RULE,
    receive_window::RULE,
    nagle::RULE,
    send_buffer::RULE,
    sender_idle::RULE,
    slow_start::RULE,
    congestion_window::RULE,
    propagation::RULE,
    server_think::RULE,
    client_think::RULE,
];

/// How many causes there are.
const COUNT: usize = 19;

impl Cause {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        RULES.iter().map(|rule| rule.cause)
    }

    pub(crate) fn rule(self) -> &'static Rule {
        &RULES[self as usize]
    }

    /// Whether a setting, a program or another path could take it away.
    pub fn is_avoidable(self) -> bool {
        self.rule().avoidable
    }

    /// What would take it away, where nothing is known of the sender's writes.
    pub fn fixes(self) -> Vec<Fix> {
        (self.rule().fixes)(None)
    }

    /// What the time was lost to, in a few words.
    pub fn title(self) -> &'static str {
        self.rule().title
    }

    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NameLookup => "name_lookup",
            Self::ConnectRetry => "connect_retry",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::RetransmissionTimeout => "retransmission_timeout",
            Self::PathRate => "path_rate",
            Self::FastRecovery => "fast_recovery",
            Self::ReceiverStalled => "receiver_stalled",
            Self::DelayedAck => "delayed_ack",
            Self::HttpFlowControl => "http_flow_control",
            Self::ReceiveWindow => "receive_window",
            Self::Nagle => "nagle",
            Self::SendBuffer => "send_buffer",
            Self::SenderIdle => "sender_idle",
            Self::SlowStart => "slow_start",
            Self::CongestionWindow => "congestion_window",
            Self::Propagation => "propagation",
            Self::ServerThink => "server_think",
            Self::ClientThink => "client_think",
        }
    }
}

/// A time for each cause, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CauseTimes([u64; COUNT]);

impl CauseTimes {
    /// All of them added up.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes that took any time, those that took most first.
    pub fn ranked(&self) -> Vec<(Cause, u64)> {
        let mut ranked: Vec<_> = Cause::all().map(|cause| (cause, self[cause])).filter(|(_, time)| *time > 0).collect();
        ranked.sort_by_key(|(cause, time)| (std::cmp::Reverse(*time), *cause));
        ranked
    }
}

impl Index<Cause> for CauseTimes {
    type Output = u64;
    fn index(&self, cause: Cause) -> &u64 {
        &self.0[cause as usize]
    }
}

impl IndexMut<Cause> for CauseTimes {
    fn index_mut(&mut self, cause: Cause) -> &mut u64 {
        &mut self.0[cause as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::{Cause, RULES};

    #[test]
    fn rules_stand_in_the_order_of_their_causes() {
        assert!(Cause::all().enumerate().all(|(place, cause)| cause as usize == place));
        assert!(RULES.iter().all(|rule| rule.cause.rule().cause == rule.cause));
    }
}
