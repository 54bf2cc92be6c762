//! Congestion control: how many packets may be in flight, and how fast they are sent.
//!
//! Windows are counted in packets of any size, as in Linux.

mod bbr;
mod cubic;
mod reno;

use super::{Congestion, Model, clock::Nanos};

/// The congestion window, in packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cwnd {
    pub(super) cwnd: u32,
    pub(super) ssthresh: u32,
}

impl Cwnd {
    pub(super) fn in_slow_start(self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start by appropriate byte counting (RFC 3465, without its limit, as in Linux); returns how many of the
    /// acknowledged packets are left for congestion avoidance.
    fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh.max(self.cwnd));
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }
}

/// An acknowledgement, with everything that the congestion controls use of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckEvent {
    pub(super) now: Nanos,
    /// Packets newly acknowledged in order.
    pub(super) acked: u32,
    /// Packets newly delivered: acknowledged in order, or selectively for the first time.
    pub(super) delivered: u32,
    /// Packets newly found to be lost.
    pub(super) lost: u32,
    /// The round-trip time of the newest packet that it acknowledges.
    pub(super) rtt: Option<Nanos>,
    pub(super) min_rtt: Nanos,
    /// Whether the congestion window, and nothing else, limits the sender.
    pub(super) is_cwnd_limited: bool,
    /// Packets in flight before the acknowledgement.
    pub(super) prior_in_flight: u32,
    /// Packets in flight after it.
    pub(super) in_flight: u32,
    /// Offsets: the first unacknowledged byte, and the next byte to send.
    pub(super) snd_una: u64,
    pub(super) snd_nxt: u64,
    /// Whether the sender is repairing losses.
    pub(super) in_recovery: bool,
    pub(super) rate_sample: Option<RateSample>,
    /// All packets delivered so far.
    pub(super) total_delivered: u64,
}

/// A delivery rate sample (draft-cheng-iccrg-delivery-rate-estimation: `rs`).
#[derive(Debug, Clone, Copy)]
pub(super) struct RateSample {
    /// Packets delivered between the sending of the newest packet and its acknowledgement.
    pub(super) delivered: u64,
    pub(super) interval: Nanos,
    /// All that had been delivered when that packet was sent.
    pub(super) prior_delivered: u64,
    /// Whether the sender had nothing to send at that time.
    pub(super) is_app_limited: bool,
}

/// How packets are paced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pacing {
    /// Payload bytes per second.
    pub(super) rate: f64,
    /// Packets that are sent back to back.
    pub(super) send_quantum: u32,
}

/// A congestion control algorithm.
pub(super) trait CongestionControl: std::fmt::Debug {
    /// An acknowledgement arrived. During loss recovery, only an algorithm that [controls
    /// it](CongestionControl::controls_recovery) is called.
    fn on_ack(&mut self, ack: &AckEvent, window: &mut Cwnd);

    /// Packets were lost; returns the new `ssthresh`.
    fn on_loss(&mut self, window: Cwnd) -> u32;

    /// The retransmission timer has expired.
    fn on_timeout(&mut self) {}

    /// The sender restarts from idle, this long after it last sent.
    fn on_restart(&mut self, _idle: Nanos, _now: Nanos) {}

    /// Whether it sets the window during loss recovery; otherwise RFC 6937's proportional rate reduction does.
    fn controls_recovery(&self) -> bool {
        false
    }

    /// How packets are paced; none if they are sent as soon as the window allows.
    fn pacing(&self) -> Option<Pacing> {
        None
    }
}

/// The congestion control of a model, for a new connection.
pub(super) fn of(model: &Model, now: Nanos, rtt: Nanos) -> Box<dyn CongestionControl> {
    match model.sender.congestion {
        Congestion::Reno => Box::new(reno::Reno::default()),
        Congestion::Cubic => Box::new(cubic::Cubic::new(now)),
        Congestion::Bbr => Box::new(bbr::Bbr::new(model, now, rtt)),
    }
}
