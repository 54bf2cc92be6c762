//! What a sender does when nothing comes: it probes, and takes for lost.

use std::collections::VecDeque;

use super::{Arrival, Sender, State};
use crate::replica::{
    Way,
    clock::{MILLISECOND, Nanos},
};

/// What Linux adds to the time of a probe: two of its ticks, of which there are 250 a second.
const TICKS: Nanos = 8 * MILLISECOND;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// A packet that was overtaken is taken for lost (RFC 8985 §6.2).
    Overtaken(Nanos),
    /// The end of the flight is probed (RFC 8985 §7).
    Probe(Nanos),
    /// RFC 6298.
    Retransmission(Nanos),
    /// The window has no room for a packet and nothing is under way (RFC 9293 §3.8.6.1).
    Persist(Nanos),
}

impl Timer {
    pub(super) fn at(self) -> Nanos {
        match self {
            Self::Overtaken(at) | Self::Probe(at) | Self::Retransmission(at) | Self::Persist(at) => at,
        }
    }
}

impl Sender {
    pub(super) fn await_overtaken(&mut self, now: Nanos) {
        if let Some(at) = self.flight.overtaken_at(self.estimator.least() / 4) {
            self.timer = Some(Timer::Overtaken(at.max(now + 1)));
        }
    }

    pub(super) fn timeout(&self) -> Nanos {
        self.estimator.timeout().saturating_mul(1 << self.backoff.min(16)).min(120_000 * MILLISECOND)
    }

    /// Sets the timer for what is under way: a probe of its end, if one may be sent, or the timeout.
    pub(super) fn arm(&mut self, now: Nanos) {
        let timeout = now.saturating_add(self.timeout());
        let probes = self.settings.tail_loss_probe
            && self.state == State::Open
            && self.probe.is_none()
            && !self.flight.has_gaps();
        let mut wait = self.estimator.smooth().saturating_mul(2);
        wait += if self.flight.under_way() == 1 { self.estimator.least_timeout() } else { TICKS };
        let probe = now.saturating_add(wait).min(timeout);
        self.timer = Some(if probes { Timer::Probe(probe) } else { Timer::Retransmission(timeout) });
    }

    /// The time named by [`Sender::wake`] has come.
    pub(in crate::replica) fn poll(&mut self, way: &mut Way, now: Nanos, out: &mut VecDeque<Arrival>) {
        let Some(timer) = self.timer.take_if(|timer| timer.at() <= now) else { return };
        match timer {
            Timer::Overtaken(_) => {
                let lost = self.flight.lose_overtaken(now, self.estimator.least() / 4);
                self.change_state(self.acknowledged(), lost);
                if lost > 0 && !self.control.repairs() {
                    self.reduce(0, false);
                }
                self.arm(now);
            }
            Timer::Probe(_) => {
                self.counts.probes += 1;
                let new = self.next_packet();
                self.probe = Some((new.unwrap_or(self.next), new.is_none()));
                if let Some(end) = new {
                    self.send_new(end, way, now, out);
                } else {
                    let packet = self.flight.repeat_last(now);
                    self.counts.retransmissions += 1;
                    self.put(packet, way, now, out);
                }
                self.timer = Some(Timer::Retransmission(now.saturating_add(self.timeout())));
            }
            Timer::Retransmission(_) => self.time_out(now),
            Timer::Persist(_) => {
                let end = self.written.min(self.edge).min(self.next + self.settings.mss.0);
                if end > self.next {
                    self.send_new(end, way, now, out);
                }
            }
        }
    }

    fn time_out(&mut self, now: Nanos) {
        self.counts.timeouts += 1;
        if !matches!(self.state, State::Loss(_)) {
            self.window.threshold = self.control.lost(self.window);
        }
        self.control.timed_out();
        self.flight.lose_all();
        (self.state, self.window.size) = (State::Loss(self.next), 1);
        (self.duplicates, self.probe, self.burst) = (0, None, 0);
        self.backoff += 1;
        self.timer = Some(Timer::Retransmission(now.saturating_add(self.timeout())));
    }
}
