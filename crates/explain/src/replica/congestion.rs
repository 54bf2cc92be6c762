//! Congestion control: how much may be under way, and how fast it goes out.
//!
//! Windows are counted in packets, as Linux does, whatever their size.

mod bbr;
mod cubic;
mod reno;

use super::{Congestion, Model, clock::Nanos};

/// What all of them decide about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    /// Packets that may be under way.
    pub(super) size: u32,
    /// Where slow start ends.
    pub(super) threshold: u32,
}

impl Window {
    pub(super) fn in_slow_start(self) -> bool {
        self.size < self.threshold
    }

    /// Slow start by what was acknowledged (RFC 3465, without its limit, as Linux); returns what is left of it.
    fn slow_start(&mut self, acknowledged: u32) -> u32 {
        let size = self.size.saturating_add(acknowledged).min(self.threshold.max(self.size));
        let left = acknowledged - (size - self.size);
        self.size = size;
        left
    }
}

/// What an acknowledgement tells.
#[derive(Debug, Clone, Copy)]
pub(super) struct Feedback {
    pub(super) now: Nanos,
    /// Packets newly acknowledged in order.
    pub(super) acknowledged: u32,
    /// Packets that left the path: acknowledged in order or selectively for the first time.
    pub(super) delivered: u32,
    /// Packets newly found to be lost.
    pub(super) lost: u32,
    /// The round-trip time of the newest packet that it tells of.
    pub(super) rtt: Option<Nanos>,
    pub(super) least_rtt: Nanos,
    /// Whether the window, and nothing else, keeps the sender from sending.
    pub(super) limited: bool,
    /// Packets under way, before and after.
    pub(super) before: u32,
    pub(super) in_flight: u32,
    /// Offsets: what is acknowledged, what has been sent.
    pub(super) una: u64,
    pub(super) next: u64,
    /// Whether losses are being repaired.
    pub(super) repairing: bool,
    pub(super) sample: Option<RateSample>,
    /// All packets ever delivered.
    pub(super) total: u64,
}

/// How fast packets were delivered between the sending of one and its acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateSample {
    /// Packets delivered, and in which time.
    pub(super) delivered: u64,
    pub(super) interval: Nanos,
    /// All that had been delivered when the packet was sent.
    pub(super) prior: u64,
    /// The sender had nothing to send at that time.
    pub(super) app_limited: bool,
}

/// How packets are spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pacing {
    /// Payload bytes per second.
    pub(super) rate: f64,
    /// Packets that go together.
    pub(super) burst: u32,
}

/// A congestion control.
pub(super) trait Control: std::fmt::Debug {
    /// An acknowledgement came. Those for which [`Control::repairs`] is false are not asked while losses are
    /// repaired.
    fn acknowledged(&mut self, feedback: &Feedback, window: &mut Window);

    /// Packets were lost; says where slow start ends henceforth.
    fn lost(&mut self, window: Window) -> u32;

    /// The retransmission timer has expired.
    fn timed_out(&mut self) {}

    /// The sender sends again, with nothing under way, so long after it last did.
    fn resumes(&mut self, _idle: Nanos, _now: Nanos) {}

    /// Whether it sets the window while losses are repaired; otherwise that is RFC 6937's proportional reduction.
    fn repairs(&self) -> bool {
        false
    }

    /// How packets are spread; none: they go as soon as the window allows.
    fn pacing(&self) -> Option<Pacing> {
        None
    }
}

/// The congestion control of a model, when the connection is set up.
pub(super) fn of(model: &Model, now: Nanos, rtt: Nanos) -> Box<dyn Control> {
    match model.sender.congestion {
        Congestion::Reno => Box::new(reno::Reno::default()),
        Congestion::Cubic => Box::new(cubic::Cubic::new(now)),
        Congestion::Bbr => Box::new(bbr::Bbr::new(model, now, rtt)),
    }
}
