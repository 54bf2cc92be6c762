//! The processing of an acknowledgement: which packets it covers, which are lost, and the new window.

use super::Sender;
use crate::replica::{clock::Nanos, congestion::AckEvent, receiver::Ack};

/// The state of loss recovery; it ends when the offset is acknowledged (RFC 6675: `RecoveryPoint`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RecoveryState {
    #[default]
    Open,
    /// Fast recovery (RFC 6675).
    Recovery(u64),
    /// After a timeout.
    Loss(u64),
}

/// Proportional rate reduction (RFC 6937): how far the window has been reduced in this recovery.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProportionalRateReduction {
    pub(super) prior_cwnd: u32,
    pub(super) prr_delivered: u32,
    pub(super) prr_out: u32,
}

/// A tail loss probe that is not acknowledged yet (RFC 8985 §7).
#[derive(Debug, Clone, Copy)]
pub(super) struct TailLossProbe {
    /// `TLP.end_seq`: SND.NXT when it was sent.
    pub(super) end_seq: u64,
    /// `TLP.is_retrans`: whether it repeated data.
    pub(super) is_retrans: bool,
}

/// The state of loss recovery.
#[derive(Debug, Default)]
pub(super) struct LossRecovery {
    pub(super) state: RecoveryState,
    pub(super) prr: ProportionalRateReduction,
    pub(super) dup_acks: u32,
    pub(super) tlp: Option<TailLossProbe>,
}

impl Sender {
    /// An acknowledgement arrives.
    pub(in crate::replica) fn on_ack(&mut self, ack: &Ack, now: Nanos) {
        let prior_in_flight = self.in_flight();
        let advances = ack.number > self.snd_una();
        self.max_window = self.max_window.max(ack.right_edge.saturating_sub(ack.number));
        self.right_edge = self.right_edge.max(ack.right_edge);
        let outcome = self.scoreboard.acknowledge(ack, self.settings.sack, now);
        if let Some(rtt) = outcome.rtt {
            self.rtt.sample(rtt);
        }
        if advances {
            (self.recovery.dup_acks, self.backoff) = (0, 0);
        } else if ack.sack.is_some() {
            self.recovery.dup_acks += 1;
        }
        self.end_tail_loss_probe(ack, advances);
        let lost = self.detect_loss(advances, now);
        self.update_recovery(ack.number, lost);
        let in_fast_recovery = matches!(self.recovery.state, RecoveryState::Recovery(_));
        let uses_half_of_cwnd = self.window.in_slow_start() && self.window.cwnd < 2 * self.cwnd_usage.max_in_flight;
        let event = AckEvent {
            now,
            acked: outcome.acked,
            delivered: outcome.delivered,
            lost,
            rtt: outcome.rtt,
            min_rtt: self.rtt.min_rtt(),
            is_cwnd_limited: self.cwnd_usage.is_cwnd_limited || uses_half_of_cwnd,
            prior_in_flight,
            in_flight: self.in_flight(),
            snd_una: ack.number,
            snd_nxt: self.snd_nxt,
            in_recovery: self.recovery.state != RecoveryState::Open,
            rate_sample: outcome.rate_sample,
            total_delivered: self.scoreboard.delivered(),
        };
        if self.control.controls_recovery() || !in_fast_recovery {
            self.control.on_ack(&event, &mut self.window);
        } else {
            self.reduce_cwnd(outcome.delivered, advances && lost == 0);
        }
        self.window.cwnd = self.window.cwnd.min(self.clamp);
        if self.scoreboard.is_empty() {
            self.timer = None;
        } else if advances || lost > 0 || outcome.delivered > 0 {
            self.arm_timer(now);
        }
        let is_open = self.recovery.state == RecoveryState::Open;
        if !self.scoreboard.is_empty() && is_open && self.settings.sack && self.scoreboard.sacked() > 0 {
            self.arm_reordering_timer(now);
        }
    }

    /// RFC 8985 §7.4.2: the probe was acknowledged. If it repaired a loss, the window is reduced.
    fn end_tail_loss_probe(&mut self, ack: &Ack, advances: bool) {
        let Some(probe) = self.recovery.tlp else { return };
        if ack.duplicate {
            self.recovery.tlp = None;
        } else if advances && ack.number >= probe.end_seq {
            self.recovery.tlp = None;
            let is_open = self.recovery.state == RecoveryState::Open;
            if probe.is_retrans && is_open && !self.control.controls_recovery() {
                self.window.ssthresh = self.control.on_loss(self.window);
                self.window.cwnd = self.window.ssthresh;
            }
        }
    }

    /// Marks packets as lost; returns how many.
    fn detect_loss(&mut self, advances: bool, now: Nanos) -> u32 {
        let in_recovery = self.recovery.state != RecoveryState::Open;
        if !self.settings.sack {
            // RFC 6582: the third duplicate acknowledgement, and each partial acknowledgement.
            let is_third = self.recovery.dup_acks == 3 && !in_recovery;
            let recovery_point = if let RecoveryState::Recovery(end) = self.recovery.state { end } else { 0 };
            let is_partial = advances && self.snd_una() < recovery_point;
            return if is_third || is_partial { self.scoreboard.mark_first_lost() } else { 0 };
        }
        // RFC 8985 §6.2, step 4: no reordering window once three segments are SACKed.
        let reo_wnd = if in_recovery || self.scoreboard.sacked() >= 3 { 0 } else { self.reo_wnd() };
        self.scoreboard.mark_overtaken_lost(now, reo_wnd)
    }

    pub(super) fn update_recovery(&mut self, snd_una: u64, lost: u32) {
        match self.recovery.state {
            RecoveryState::Recovery(end) if snd_una >= end => {
                self.recovery.state = RecoveryState::Open;
                if !self.control.controls_recovery() {
                    self.window.cwnd = self.window.ssthresh;
                }
            }
            RecoveryState::Loss(end) if snd_una >= end => self.recovery.state = RecoveryState::Open,
            _ => {}
        }
        if lost > 0 && self.recovery.state == RecoveryState::Open {
            self.recovery.state = RecoveryState::Recovery(self.snd_nxt);
            self.recovery.prr =
                ProportionalRateReduction { prior_cwnd: self.window.cwnd, ..ProportionalRateReduction::default() };
            self.window.ssthresh = self.control.on_loss(self.window);
        }
    }

    /// RFC 6937 §3, with the slow start reduction bound (PRR-SSRB).
    pub(super) fn reduce_cwnd(&mut self, delivered_data: u32, is_repairing: bool) {
        self.recovery.prr.prr_delivered += delivered_data;
        let (pipe, ssthresh) = (self.in_flight(), self.window.ssthresh);
        let ProportionalRateReduction { prior_cwnd, prr_delivered, prr_out } = self.recovery.prr;
        let sndcnt = if pipe > ssthresh {
            let share = u64::from(ssthresh) * u64::from(prr_delivered) / u64::from(prior_cwnd.max(1));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_add(1).saturating_sub(prr_out)
        } else {
            let limit = prr_delivered.saturating_sub(prr_out).max(delivered_data) + u32::from(is_repairing);
            limit.min(ssthresh - pipe)
        };
        self.window.cwnd = pipe + sndcnt.max(u32::from(prr_out == 0));
    }
}
