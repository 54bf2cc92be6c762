//! What an acknowledgement does: to the packets under way, to what is taken for lost, to the window.

use super::Sender;
use crate::replica::{clock::Nanos, congestion::Feedback, receiver::Ack};

/// Whether losses are being repaired, and up to which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// By what is acknowledged (RFC 6675).
    Recovery(u64),
    /// After a timeout.
    Loss(u64),
}

/// RFC 6937: how far the window has come down in this recovery.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reduction {
    pub(super) prior: u32,
    pub(super) delivered: u32,
    pub(super) sent: u32,
}

impl Sender {
    /// An acknowledgement comes.
    pub(in crate::replica) fn hear(&mut self, ack: &Ack, now: Nanos) {
        let before = self.under_way();
        let una = self.acknowledged();
        self.widest = self.widest.max(ack.edge.saturating_sub(ack.upto));
        self.edge = self.edge.max(ack.edge);
        let news = self.flight.acknowledge(ack, self.settings.sack, now);
        if let Some(rtt) = news.rtt {
            self.estimator.sample(rtt);
        }
        let advanced = ack.upto > una;
        if advanced {
            (self.duplicates, self.backoff) = (0, 0);
        } else if ack.sack.is_some() {
            self.duplicates += 1;
        }
        self.end_probe(ack, advanced);
        let lost = self.find_lost(advanced, now);
        self.change_state(ack.upto, lost);
        let repairing = matches!(self.state, State::Recovery(_));
        let feedback = Feedback {
            now,
            acknowledged: news.acknowledged,
            delivered: news.delivered,
            lost,
            rtt: news.rtt,
            least_rtt: self.estimator.least(),
            limited: self.limit.holds || (self.window.in_slow_start() && self.window.size < 2 * self.limit.most),
            before,
            in_flight: self.under_way(),
            una: ack.upto,
            next: self.next,
            repairing: repairing || matches!(self.state, State::Loss(_)),
            sample: news.sample,
            total: self.flight.delivered(),
        };
        if self.control.repairs() || !repairing {
            self.control.acknowledged(&feedback, &mut self.window);
        } else {
            self.reduce(news.delivered, advanced && lost == 0);
        }
        self.window.size = self.window.size.min(self.clamp);
        if self.flight.is_empty() {
            self.timer = None;
        } else if advanced || lost > 0 || news.delivered > 0 {
            self.arm(now);
        }
        if !self.flight.is_empty() && self.state == State::Open && self.settings.sack && self.flight.has_gaps() {
            self.await_overtaken(now);
        }
    }

    /// RFC 8985 §7.4: the probe was answered; if it repaired something, that was a loss.
    fn end_probe(&mut self, ack: &Ack, advanced: bool) {
        let Some((sent, repeats)) = self.probe else { return };
        if ack.duplicate {
            self.probe = None;
        } else if advanced && ack.upto >= sent {
            self.probe = None;
            if repeats && self.state == State::Open && !self.control.repairs() {
                self.window.threshold = self.control.lost(self.window);
                self.window.size = self.window.threshold;
            }
        }
    }

    /// Marks packets as lost that later ones have overtaken; says how many.
    fn find_lost(&mut self, advanced: bool, now: Nanos) -> u32 {
        let repairing = self.state != State::Open;
        if !self.settings.sack {
            let third = self.duplicates == 3 && !repairing;
            let partial = advanced && matches!(self.state, State::Recovery(end) if self.acknowledged() < end);
            return if third || partial { self.flight.lose_first() } else { 0 };
        }
        let at_once = repairing || self.flight.gaps_seen() >= 3;
        let patience = if at_once { 0 } else { self.estimator.least() / 4 };
        self.flight.lose_overtaken(now, patience)
    }

    pub(super) fn change_state(&mut self, una: u64, lost: u32) {
        match self.state {
            State::Recovery(end) if una >= end => {
                self.state = State::Open;
                if !self.control.repairs() {
                    self.window.size = self.window.threshold;
                }
            }
            State::Loss(end) if una >= end => self.state = State::Open,
            _ => {}
        }
        if lost > 0 && self.state == State::Open {
            self.state = State::Recovery(self.next);
            self.reduction = Reduction { prior: self.window.size, delivered: 0, sent: 0 };
            self.window.threshold = self.control.lost(self.window);
        }
    }

    /// RFC 6937, with its slow-start reduction bound.
    pub(super) fn reduce(&mut self, delivered: u32, heals: bool) {
        self.reduction.delivered += delivered;
        let (pipe, threshold) = (self.under_way(), self.window.threshold);
        let Reduction { prior, delivered: all, sent } = self.reduction;
        let send = if pipe > threshold {
            let share = u64::from(threshold) * u64::from(all) / u64::from(prior.max(1));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_add(1).saturating_sub(sent)
        } else {
            let bound = all.saturating_sub(sent).max(delivered) + u32::from(heals);
            bound.min(threshold - pipe)
        };
        self.window.size = pipe + send.max(u32::from(sent == 0));
    }
}
