//! The causes: what the time of a transfer is spent on; one file for each.
//!
//! A cause examines a wait and claims a part of it. The causes are tried in the order of [`RULES`], and what one claims,
//! no later one gets: so every instant belongs to exactly one cause. None is left over, because the last causes claim
//! whatever remains. The order goes from causes with direct evidence (a handshake, a timer that fired) to those that
//! are inferred from the absence of others (a full congestion window is left when there is no other reason to wait).
//!
//! To add a cause, add a file and a line to [`RULES`].

mod client_think;
mod congestion_window;
mod connect;
mod connect_retry;
mod delayed_ack;
pub(crate) mod evidence;
mod expect_continue;
mod fast_recovery;
mod http_flow_control;
pub(crate) mod nagle;
mod name_lookup;
mod pacing;
mod path_rate;
mod propagation;
mod queueing;
mod receive_window;
mod receiver_stalled;
mod retransmission_timeout;
mod send_buffer;
mod sender_idle;
mod server_think;
mod shared_link;
mod slow_start;
mod tls;
pub(crate) mod wait;

use std::ops::{Index, IndexMut};

pub(crate) use crate::{
    infer::send_context::{RetransmitTrigger, SendContext},
    number_format::{bytes, ms, plural, rate_text},
    side::Side,
    system::System,
};
pub(crate) use evidence::{Chunk, Evidence, Fix, Role, Situation, Timer};
pub(crate) use wait::{Wait, WaitEnd};

/// What a part of a transfer's time was spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The client waited for a DNS answer.
    NameLookup,
    /// A SYN was lost or ignored, and its sender waited before it tried again.
    ConnectRetry,
    /// Packets waited in a queue that others had filled.
    Queueing,
    /// The TCP handshake.
    Connect,
    /// The TLS handshake.
    Tls,
    /// The client held a body back until the server's `100 Continue`.
    ExpectContinue,
    /// The sender received no acknowledgements, and waited for its timer before it retransmitted.
    RetransmissionTimeout,
    /// The bottleneck was busy with the transfer's own bytes.
    PathRate,
    /// The link was full with the packets of other connections.
    SharedLink,
    /// The sender repaired losses that acknowledgements reported.
    FastRecovery,
    /// The receive window was closed, because the program did not read.
    ReceiverStalled,
    /// The receiver delayed an acknowledgement that the sender waited for.
    DelayedAck,
    /// An HTTP/2 flow-control window was closed.
    HttpFlowControl,
    /// The receive window was full.
    ReceiveWindow,
    /// Nagle's algorithm held a small segment until everything before it was acknowledged.
    Nagle,
    /// The sender's own host spaced its packets, below what windows and path allow.
    Pacing,
    /// The sender waited for its own data to be acknowledged before it wrote more.
    SendBuffer,
    /// The sending program had nothing to send in the middle of a message.
    SenderIdle,
    /// The congestion window was still growing.
    SlowStart,
    /// The congestion window was full.
    CongestionWindow,
    /// Packets were on the path.
    Propagation,
    /// The server had the request and had not begun to respond.
    ServerThink,
    /// The client could have sent its next request, and had not yet.
    ClientThink,
}

/// The causes before a request, in their order.
pub(crate) const LEAD: [Cause; 4] = [Cause::NameLookup, Cause::ConnectRetry, Cause::Connect, Cause::Tls];

/// How a cause is recognised and described.
pub(crate) struct Rule {
    pub(crate) cause: Cause,
    /// Its name for a person, in every form of output: a noun phrase in a few words.
    pub(crate) title: &'static str,
    /// Whether a setting, a program or another path could remove it; false for what physics requires.
    pub(crate) avoidable: bool,
    /// The option that removes it alone, if one does: worth a line even where the cause took little.
    pub(crate) switch: Option<&'static str>,
    /// The part of a wait that it claims, in nanoseconds since the epoch. The parts outside the wait and those that
    /// belong to another cause already are ignored.
    pub(crate) claim: fn(&Wait) -> Option<(u64, u64)>,
    /// One paragraph for a person.
    pub(crate) why: fn(&Evidence) -> String,
    /// The changes that remove it.
    pub(crate) fixes: fn(&Situation) -> Vec<Fix>,
}

/// All causes, in the order in which they are tried.
pub(crate) const RULES: [Rule; COUNT] = [
    name_lookup::RULE,
    connect_retry::RULE,
    queueing::RULE,
    connect::RULE,
    tls::RULE,
    expect_continue::RULE,
    retransmission_timeout::RULE,
    path_rate::RULE,
    shared_link::RULE,
    fast_recovery::RULE,
    receiver_stalled::RULE,
    delayed_ack::RULE,
    http_flow_control::RULE,
    receive_window::RULE,
    nagle::RULE,
    pacing::RULE,
    send_buffer::RULE,
    sender_idle::RULE,
    slow_start::RULE,
    congestion_window::RULE,
    propagation::RULE,
    server_think::RULE,
    client_think::RULE,
];

/// The number of causes.
const COUNT: usize = 23;

impl Cause {
    /// All causes.
    pub fn all() -> impl Iterator<Item = Self> {
        RULES.iter().map(|rule| rule.cause)
    }

    pub(crate) fn rule(self) -> &'static Rule {
        &RULES[self as usize]
    }

    /// Whether a setting, a program or another path could remove it.
    pub fn is_avoidable(self) -> bool {
        self.rule().avoidable
    }

    /// The changes that remove it, if nothing is known of the connection.
    pub fn fixes(self) -> Vec<Fix> {
        (self.rule().fixes)(&Situation::default())
    }

    /// Its name for a person: the same on the terminal, in reports and in the book.
    pub fn title(self) -> &'static str {
        self.rule().title
    }

    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NameLookup => "name_lookup",
            Self::ConnectRetry => "connect_retry",
            Self::Queueing => "queueing",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::ExpectContinue => "expect_continue",
            Self::RetransmissionTimeout => "retransmission_timeout",
            Self::PathRate => "path_rate",
            Self::SharedLink => "shared_link",
            Self::FastRecovery => "fast_recovery",
            Self::ReceiverStalled => "receiver_stalled",
            Self::DelayedAck => "delayed_ack",
            Self::HttpFlowControl => "http_flow_control",
            Self::ReceiveWindow => "receive_window",
            Self::Nagle => "nagle",
            Self::Pacing => "pacing",
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
    /// The sum of all.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The same for somebody to whom all connections on the link belong: waiting for one another, they filled it.
    #[must_use]
    pub fn of_all_connections(mut self) -> Self {
        self[Cause::PathRate] += std::mem::take(&mut self[Cause::SharedLink]);
        self
    }

    /// The causes that took any time, most expensive first.
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

    /// The report page and the Python package have colours for the causes, and so a list of their own.
    #[test]
    fn report_and_python_name_causes_alike() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lists = [("web/src/causes.ts", "{ title: "), ("python/src/longhaul/causes.py", "(")];
        for (file, before_title) in lists {
            // The packaged crate is alone.
            let Ok(text) = std::fs::read_to_string(root.join(file)) else { continue };
            for cause in Cause::all() {
                let entry =
                    |quote: &str| format!("{quote}{}{quote}: {before_title}\"{}\"", cause.name(), cause.title());
                let is_listed = text.contains(&entry("\"")) || text.contains(&format!("\n  {}", entry("")));
                assert!(is_listed, "{file} lacks {} as {:?}", cause.name(), cause.title());
            }
        }
    }

    #[test]
    fn rules_are_in_the_order_of_their_causes() {
        assert!(Cause::all().enumerate().all(|(index, cause)| cause as usize == index));
        assert!(RULES.iter().all(|rule| rule.cause.rule().cause == rule.cause));
    }
}
