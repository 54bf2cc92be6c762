//! The sender's timers: reordering, tail loss probe, retransmission and persist.

use std::collections::VecDeque;

use super::{
    Arrival, Sender,
    on_ack::{RecoveryState, TailLossProbe},
};
use crate::replica::{
    Bottleneck,
    clock::{MILLISECOND, Nanos},
};

/// What Linux adds to the probe timeout: two of its ticks, of which there are 250 per second.
const TICKS: Nanos = 8 * MILLISECOND;

/// The maximum RTO (Linux: `TCP_RTO_MAX`).
const MAX_RTO: Nanos = 120_000 * MILLISECOND;

/// A timer, and when it expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Overtaken packets are marked as lost (RFC 8985 §6.2).
    Reordering(Nanos),
    /// A tail loss probe is sent (RFC 8985 §7).
    Probe(Nanos),
    /// Everything is retransmitted (RFC 6298).
    Retransmission(Nanos),
    /// The receive window has no room for a packet and nothing is in flight: it is probed (RFC 9293 §3.8.6.1).
    Persist(Nanos),
}

impl Timer {
    pub(super) fn at(self) -> Nanos {
        match self {
            Self::Reordering(at) | Self::Probe(at) | Self::Retransmission(at) | Self::Persist(at) => at,
        }
    }
}

impl Sender {
    /// The reordering window (RFC 8985 §6.2: `RACK.reo_wnd`).
    pub(super) fn reo_wnd(&self) -> Nanos {
        self.rtt.min_rtt() / 4
    }

    pub(super) fn arm_reordering_timer(&mut self, now: Nanos) {
        if let Some(at) = self.scoreboard.reordering_timeout(self.reo_wnd()) {
            self.timer = Some(Timer::Reordering(at.max(now + 1)));
        }
    }

    /// The RTO with its exponential backoff (RFC 6298 §5.5).
    pub(super) fn backed_off_rto(&self) -> Nanos {
        self.rtt.rto().saturating_mul(1 << self.backoff.min(16)).min(MAX_RTO)
    }

    /// Sets the timer for the packets in flight: a tail loss probe if one is allowed, otherwise the RTO.
    pub(super) fn arm_timer(&mut self, now: Nanos) {
        let rto = now.saturating_add(self.backed_off_rto());
        let may_probe = self.settings.tail_loss_probe
            && self.recovery.state == RecoveryState::Open
            && self.recovery.tlp.is_none()
            && self.scoreboard.sacked() == 0;
        // RFC 8985 §7.2: PTO.
        let mut pto = self.rtt.srtt().saturating_mul(2);
        pto += if self.scoreboard.in_flight() == 1 { self.rtt.min_rto() } else { TICKS };
        let pto = now.saturating_add(pto).min(rto);
        self.timer = Some(if may_probe { Timer::Probe(pto) } else { Timer::Retransmission(rto) });
    }

    /// Handles the timer whose time [`Sender::next_event`] named.
    pub(in crate::replica) fn on_timer(
        &mut self,
        bottleneck: &mut Bottleneck,
        now: Nanos,
        out: &mut VecDeque<Arrival>,
    ) {
        let Some(timer) = self.timer.take_if(|timer| timer.at() <= now) else { return };
        match timer {
            Timer::Reordering(_) => {
                let lost = self.scoreboard.mark_overtaken_lost(now, self.reo_wnd());
                self.update_recovery(self.snd_una(), lost);
                if lost > 0 && !self.control.controls_recovery() {
                    self.reduce_cwnd(0, false);
                }
                self.arm_timer(now);
            }
            Timer::Probe(_) => {
                self.counters.probes += 1;
                let new_data = self.next_packet_end();
                let end_seq = new_data.unwrap_or(self.snd_nxt);
                self.recovery.tlp = Some(TailLossProbe { end_seq, is_retrans: new_data.is_none() });
                if let Some(end) = new_data {
                    self.send_new(end, bottleneck, now, out);
                } else {
                    let packet = self.scoreboard.retransmit_last(now);
                    self.counters.retransmissions += 1;
                    self.transmit(packet, bottleneck, now, out);
                }
                self.timer = Some(Timer::Retransmission(now.saturating_add(self.backed_off_rto())));
            }
            Timer::Retransmission(_) => self.on_timeout(now),
            Timer::Persist(_) => {
                let end = self.written.min(self.right_edge).min(self.snd_nxt + self.settings.mss.0);
                if end > self.snd_nxt {
                    self.send_new(end, bottleneck, now, out);
                }
            }
        }
    }

    fn on_timeout(&mut self, now: Nanos) {
        self.counters.timeouts += 1;
        if !matches!(self.recovery.state, RecoveryState::Loss(_)) {
            self.window.ssthresh = self.control.on_loss(self.window);
        }
        self.control.on_timeout();
        self.scoreboard.mark_all_lost();
        self.window.cwnd = 1;
        self.recovery.state = RecoveryState::Loss(self.snd_nxt);
        (self.recovery.dup_acks, self.recovery.tlp, self.pacing.quantum_left) = (0, None, 0);
        self.backoff += 1;
        self.timer = Some(Timer::Retransmission(now.saturating_add(self.backed_off_rto())));
    }
}
