//! BBR version 1, as in Linux: a model of the path (its rate, its length) paces the packets; losses do not.
//!
//! Source: Cardwell et al., "BBR: Congestion-Based Congestion Control" (ACM Queue 14, 2016) and the draft
//! draft-cardwell-iccrg-bbr-congestion-control-00. Where those choose at random (the phase in which probing for
//! bandwidth begins), the replica always takes the same.

use super::{Control, Feedback, Pacing, Window};
use crate::replica::{
    Model,
    clock::{MILLISECOND, Nanos, SECOND},
};

/// 2 ÷ ln 2: the least gain that doubles the rate each round.
const HIGH_GAIN: f64 = 2.885;
/// What is paced below the measured rate, so that no queue stands.
const MARGIN: f64 = 0.99;
/// One phase per round trip while the rate is probed for.
const PHASES: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// For so many rounds a measured rate counts.
const RATE_ROUNDS: u64 = 10;
/// For so long a measured round-trip time counts; then, for a moment, next to nothing is sent.
const RTT_TIME: Nanos = 10 * SECOND;
const PROBE_RTT_TIME: Nanos = 200 * MILLISECOND;
const LEAST_WINDOW: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Startup,
    Drain,
    ProbeRate {
        phase: usize,
        since: Nanos,
    },
    /// Until then, once the window is down.
    ProbeRtt {
        until: Option<Nanos>,
    },
}

#[derive(Debug)]
pub(super) struct Bbr {
    mode: Mode,
    /// Payload of a packet, and the whole packet.
    mss: f64,
    packet: f64,
    initial_window: u32,
    /// Rounds, in packets per nanosecond each: a decreasing list, of which the first is the rate.
    rates: std::collections::VecDeque<(u64, f64)>,
    rounds: u64,
    round_ends: u64,
    least_rtt: Nanos,
    least_rtt_at: Nanos,
    /// The rate at which the pipe last looked fuller, and for how many rounds it has not.
    full_rate: f64,
    full_rounds: u32,
    pacing: f64,
    /// The window before losses were repaired, or before the round-trip time was probed.
    prior: u32,
    repairing: bool,
    conserves: bool,
}

impl Bbr {
    pub(super) fn new(model: &Model, now: Nanos, rtt: Nanos) -> Self {
        let (mss, window) = (model.sender.mss.0 as f64, model.sender.initial_window);
        // Nobody has measured: so a round trip of nothing counts for a millisecond.
        let least = if rtt == 0 { MILLISECOND } else { rtt };
        let mut bbr = Self {
            mode: Mode::Startup,
            mss,
            packet: mss + model.path.headers.0 as f64,
            initial_window: window,
            rates: std::collections::VecDeque::new(),
            rounds: 0,
            round_ends: 0,
            least_rtt: rtt,
            least_rtt_at: now,
            full_rate: 0.0,
            full_rounds: 0,
            pacing: 0.0,
            prior: 0,
            repairing: false,
            conserves: false,
        };
        bbr.pacing = bbr.bytes_per_second(f64::from(window) / least as f64 * HIGH_GAIN);
        bbr
    }

    /// What is paced for so many packets per nanosecond. Linux reckons the rate in whole packets, and spends it on
    /// their payload.
    fn bytes_per_second(&self, packets: f64) -> f64 {
        packets * self.packet * MARGIN * SECOND as f64
    }

    fn rate(&self) -> f64 {
        self.rates.front().map_or(0.0, |(_, rate)| *rate)
    }

    fn is_full(&self) -> bool {
        self.full_rounds >= 3
    }

    fn gains(&self) -> (f64, f64) {
        match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            Mode::ProbeRate { phase, .. } => (PHASES[phase], 2.0),
            Mode::ProbeRtt { .. } => (1.0, 1.0),
        }
    }

    fn burst(&self) -> u32 {
        ((self.pacing / 1000.0 / self.mss) as u32).clamp(if self.pacing < 150_000.0 { 1 } else { 2 }, 44)
    }

    /// The packets that fill the path so many times, and some for bursts at both ends.
    fn target(&self, gain: f64) -> u32 {
        if self.rates.is_empty() {
            return self.initial_window;
        }
        let packets = ((self.rate() * self.least_rtt as f64 * gain).ceil() as u32).min(1 << 30) + 3 * self.burst();
        let even = packets.next_multiple_of(2);
        if gain > 1.0 && matches!(self.mode, Mode::ProbeRate { phase: 0, .. }) { even + 2 } else { even }
    }

    /// The rate's largest sample in the last rounds; says whether a round has begun.
    fn measure(&mut self, feedback: &Feedback) -> bool {
        let Some(sample) = feedback.sample else { return false };
        let begins = sample.prior >= self.round_ends;
        if begins {
            self.round_ends = feedback.total;
            self.rounds += 1;
        }
        let rate = sample.delivered as f64 / sample.interval as f64;
        if !sample.app_limited || rate >= self.rate() {
            while self.rates.pop_back_if(|(_, other)| *other <= rate).is_some() {}
            self.rates.push_back((self.rounds, rate));
        }
        while self.rates.len() > 1 && self.rates.pop_front_if(|(round, _)| *round + RATE_ROUNDS < self.rounds).is_some()
        {
        }
        if begins && !sample.app_limited && !self.is_full() {
            if self.rate() >= self.full_rate * 1.25 {
                (self.full_rate, self.full_rounds) = (self.rate(), 0);
            } else {
                self.full_rounds += 1;
            }
        }
        begins
    }

    fn change_mode(&mut self, feedback: &Feedback) {
        let now = feedback.now;
        if self.mode == Mode::Startup && self.is_full() {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && feedback.in_flight <= self.target(1.0) {
            self.mode = Mode::ProbeRate { phase: 2, since: now };
        }
        if let Mode::ProbeRate { phase, since } = self.mode {
            let lasted = now - since > self.least_rtt;
            let over = match phase {
                0 => lasted && (feedback.lost > 0 || feedback.before >= self.target(PHASES[0])),
                1 => lasted || feedback.before <= self.target(1.0),
                _ => lasted,
            };
            if over {
                self.mode = Mode::ProbeRate { phase: (phase + 1) % PHASES.len(), since: now };
            }
        }
    }

    fn probe_rtt(&mut self, feedback: &Feedback, begins: bool, window: &mut Window) {
        let now = feedback.now;
        let old = now > self.least_rtt_at.saturating_add(RTT_TIME);
        if let Some(rtt) = feedback.rtt
            && (rtt <= self.least_rtt || old)
        {
            (self.least_rtt, self.least_rtt_at) = (rtt, now);
        }
        match self.mode {
            Mode::ProbeRtt { until: None } if feedback.in_flight <= LEAST_WINDOW => {
                self.mode = Mode::ProbeRtt { until: Some(now + PROBE_RTT_TIME) };
            }
            Mode::ProbeRtt { until: Some(until) } if now >= until && begins => {
                self.least_rtt_at = now;
                window.size = window.size.max(self.prior);
                self.mode = if self.is_full() { Mode::ProbeRate { phase: 2, since: now } } else { Mode::Startup };
            }
            Mode::ProbeRtt { .. } => {}
            _ if old => {
                self.prior = window.size;
                self.mode = Mode::ProbeRtt { until: None };
            }
            _ => {}
        }
    }

    fn set_window(&mut self, feedback: &Feedback, begins: bool, window: &mut Window) {
        window.size = window.size.saturating_sub(feedback.lost).max(1);
        if feedback.repairing && !self.repairing {
            (self.repairing, self.conserves) = (true, true);
            self.round_ends = feedback.total;
            window.size = feedback.in_flight + feedback.delivered;
        } else if !feedback.repairing && self.repairing {
            (self.repairing, self.conserves) = (false, false);
            window.size = window.size.max(self.prior);
        } else if begins {
            self.conserves = false;
        }
        if self.conserves {
            window.size = window.size.max(feedback.in_flight + feedback.delivered);
        } else {
            let target = self.target(self.gains().1);
            if self.is_full() {
                window.size = (window.size + feedback.delivered).min(target);
            } else if window.size < target || feedback.total < u64::from(self.initial_window) {
                window.size += feedback.delivered;
            }
        }
        window.size = window.size.max(LEAST_WINDOW);
        if matches!(self.mode, Mode::ProbeRtt { .. }) {
            window.size = window.size.min(LEAST_WINDOW);
        }
    }
}

impl Control for Bbr {
    fn acknowledged(&mut self, feedback: &Feedback, window: &mut Window) {
        let begins = self.measure(feedback);
        self.change_mode(feedback);
        self.probe_rtt(feedback, begins, window);
        let pacing = self.bytes_per_second(self.rate() * self.gains().0);
        if self.is_full() || pacing > self.pacing {
            self.pacing = pacing;
        }
        self.set_window(feedback, begins, window);
    }

    fn lost(&mut self, window: Window) -> u32 {
        self.prior = if self.repairing { self.prior.max(window.size) } else { window.size };
        window.threshold
    }

    fn timed_out(&mut self) {
        if !self.is_full() {
            self.full_rate = 0.0;
        }
    }

    fn repairs(&self) -> bool {
        true
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(Pacing { rate: self.pacing, burst: self.burst() })
    }
}
