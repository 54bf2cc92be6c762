//! The evidence from which a cause describes a finding, and the fixes it returns.

use std::borrow::Cow;

use crate::{
    critical_path::message_history::HeldBody,
    infer::sender_properties::SenderProperties,
    read::Protocol,
    side::{PerSide, Side},
    system::System,
};

/// The initial window that RFC 6928 §2 allows, in full segments.
pub(crate) const RFC_6928: u64 = 10;

/// A change that removes a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// The system or software to change, and its end.
    pub system: &'static str,
    /// The command or setting.
    pub how: Cow<'static, str>,
    /// Its side effects; empty if none are known.
    pub but: &'static str,
    /// The operating system and the end for which it is, if it is for one only.
    target: Option<(System, Role)>,
}

/// The end at which a setting has to be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Sender,
    Receiver,
    Client,
    Server,
    Both,
}

impl Fix {
    /// A fix for software, a device, or any system.
    pub(crate) fn new(system: &'static str, how: impl Into<Cow<'static, str>>, but: &'static str) -> Self {
        Self { system, how: how.into(), but, target: None }
    }

    /// A setting of one operating system, at one end.
    pub(crate) fn on(system: System, role: Role, how: impl Into<Cow<'static, str>>, but: &'static str) -> Self {
        Self { system: label(system, role), how: how.into(), but, target: Some((system, role)) }
    }

    /// Against losses: a congestion control of Linux that does not take each for congestion.
    pub(crate) fn bbr() -> Self {
        Self::on(
            System::Linux,
            Role::Sender,
            "sysctl -w net.core.default_qdisc=fq net.ipv4.tcp_congestion_control=bbr",
            "mostly ignores packet loss; may starve other flows in a shallow queue",
        )
    }

    /// Against losses: their place.
    pub(crate) fn lossy_hop() -> Self {
        Self::new("the path", "find the hop that drops packets: mtr, ethtool -S, the router's drop counters", "")
    }

    /// The operating system that it is a setting of, if it is of one.
    pub(crate) fn target_system(&self) -> Option<System> {
        self.target.map(|(system, _)| system)
    }

    /// Whether it is for the systems of this connection: none where that is not known.
    pub(crate) fn applies(&self, situation: &Situation) -> Option<bool> {
        let Some((system, role)) = self.target else { return Some(true) };
        let sides: &[Side] = match role {
            Role::Sender => &[situation.sender],
            Role::Receiver => &[!situation.sender],
            Role::Client => &[Side::Client],
            Role::Server => &[Side::Server],
            Role::Both => &[Side::Client, Side::Server],
        };
        let known = || sides.iter().map(|side| situation.systems[*side]);
        // A setting that both ends need does nothing if either is another system.
        if known().flatten().any(|other| other != system) {
            return Some(false);
        }
        known().all(|known| known.is_some()).then_some(true)
    }
}

/// A system and an end in words.
fn label(system: System, role: Role) -> &'static str {
    macro_rules! labels {
        ($name:literal) => {
            match role {
                Role::Sender => concat!($name, " sender"),
                Role::Receiver => concat!($name, " receiver"),
                Role::Client => concat!($name, " client"),
                Role::Server => concat!($name, " server"),
                Role::Both => concat!($name, " at both ends"),
            }
        };
    }
    match system {
        System::Linux => labels!("Linux"),
        System::Windows => labels!("Windows"),
        System::Apple => labels!("macOS"),
        System::FreeBsd => labels!("FreeBSD"),
        System::OpenBsd => labels!("OpenBSD"),
        System::Solaris => labels!("Solaris/illumos"),
    }
}

/// What decides which fixes are worth showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Situation {
    /// Who sent the data that the finding is about.
    pub(crate) sender: Side,
    /// The operating systems, where they are known.
    pub(crate) systems: PerSide<Option<System>>,
    /// The sender's write size, if it waits for the acknowledgement of each write.
    pub(crate) chunk: Option<Chunk>,
    /// Whether both ends agreed to selective acknowledgements.
    pub(crate) has_sack: bool,
    /// The initial window in full segments, if the data is the first of its connection and had to wait for it.
    pub(crate) initial_window: Option<u64>,
    /// Whether the sender had sent data on this connection before, and then nothing for a retransmission timeout: it may have
    /// returned to slow start (RFC 5681 §4.1).
    pub(crate) was_idle: bool,
    /// Whether the sender does not reduce its window after losses, as BBR.
    pub(crate) ignores_losses: bool,
    /// How many packets the sender retransmitted, if the receiver had most of them already: they were only late.
    pub(crate) needless_retransmissions: Option<u64>,
    /// The bytes of a full packet, if none of them arrived although smaller ones did.
    pub(crate) too_large: Option<u64>,
    /// What fired when no acknowledgement came.
    pub(crate) timer: Timer,
    /// The body that the client held back until a `100 Continue`, if it did.
    pub(crate) held_body: Option<HeldBody>,
    /// What the connection carries.
    pub(crate) protocol: Protocol,
}

impl Situation {
    /// A sentence about a sender that does what is advised against losses already.
    pub(crate) fn loss_response(&self) -> &'static str {
        if self.ignores_losses {
            " It does not reduce its window after a loss: its congestion control is BBR or similar."
        } else {
            ""
        }
    }
}

impl Default for Situation {
    /// Nothing is known: every fix is worth showing.
    fn default() -> Self {
        Self {
            sender: Side::Server,
            systems: PerSide::default(),
            chunk: None,
            has_sack: false,
            initial_window: None,
            was_idle: false,
            ignores_losses: false,
            needless_retransmissions: None,
            too_large: None,
            timer: Timer::default(),
            held_body: None,
            protocol: Protocol::Unknown,
        }
    }
}

/// What makes a sender retransmit that hears nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timer {
    /// The retransmission timeout.
    #[default]
    Rto,
    /// That, or a tail loss probe: on a long path both take about as long.
    Either,
    /// Something that waits for less: a tail loss probe, or a lower minimum.
    Probe,
    /// Something that waits for less than two round trips: the reordering timer of RACK.
    Reordering,
}

impl Timer {
    /// The least timeout of Linux, in nanoseconds (`TCP_RTO_MIN`). RFC 6298 §2.4 wants a second, and others have less:
    /// FreeBSD 30 ms (`net.inet.tcp.rexmit_min`).
    pub(crate) const MIN_RTO: u64 = 200_000_000;

    /// By the longest wait for it, and the round-trip time.
    pub(crate) fn of(longest: u64, rtt: u64) -> Self {
        // A tail loss probe waits for two round trips after the last acknowledgement (RFC 8985 §7.2), which came a round
        // trip or less after the last packet. Jitter may take or add a part. A timeout waits for a round trip and the least.
        let is_long_for_probe = longest > rtt * 3 + Self::MIN_RTO / 10;
        match longest {
            Self::MIN_RTO.. if is_long_for_probe => Self::Rto,
            _ if longest * 2 < rtt * 3 => Self::Reordering,
            _ if longest >= Self::MIN_RTO + rtt * 3 / 4 => Self::Either,
            _ => Self::Probe,
        }
    }
}

/// The sizes in bytes of the chunks whose acknowledgement a sender waits for, and of its full segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) bytes: u64,
    pub(crate) segment: u64,
}

/// What is known of a cause in a transfer. Times are in nanoseconds.
pub(crate) struct Evidence<'a> {
    /// The properties of the direction with most bytes.
    pub(crate) properties: &'a SenderProperties,
    /// The base round-trip time.
    pub(crate) rtt: u64,
    /// The time in total, of the longest interval, and of the median one.
    pub(crate) total: u64,
    pub(crate) longest: u64,
    pub(crate) typical: u64,
    /// The number of intervals.
    pub(crate) count: u32,
    /// The shortest and the longest time for which an acknowledgement was delayed, and how many were.
    pub(crate) held: Option<(u64, u64, usize)>,
    /// The largest receive window and the most data in flight, in bytes.
    pub(crate) window: u64,
    pub(crate) max_in_flight: u64,
    /// What the fixes depend on.
    pub(crate) situation: Situation,
    /// Whether anything was lost.
    pub(crate) has_loss: bool,
}

impl Evidence<'_> {
    /// A time in round trips, rounded; at least one.
    pub(crate) fn round_trips(&self, time: u64) -> u64 {
        (time + self.rtt / 2).checked_div(self.rtt).unwrap_or(0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::Timer;

    #[test]
    fn timer_is_told_by_how_long_it_took() {
        const MS: u64 = 1_000_000;
        let cases = [
            (240, 40, Timer::Rto),
            (1200, 40, Timer::Rto),
            (15, 6, Timer::Probe),
            (4, 6, Timer::Reordering),
            (300, 150, Timer::Probe),
            (450, 150, Timer::Either),
            (900, 150, Timer::Rto),
        ];
        for (longest, rtt, timer) in cases {
            assert_eq!(Timer::of(longest * MS, rtt * MS), timer, "{longest} ms at an RTT of {rtt} ms");
        }
    }
}
