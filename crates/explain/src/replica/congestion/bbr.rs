//! BBR version 1, as in Linux: packets are paced by a model of the path, its bandwidth and its round-trip time, and not by
//! losses.
//!
//! Source: Cardwell et al., "BBR: Congestion-Based Congestion Control" (ACM Queue 14, 2016) and
//! draft-cardwell-iccrg-bbr-congestion-control-00, whose names are used here. Where these choose at random (the phase in
//! which ProbeBW begins), the replica always chooses the same, so that a replay is reproducible. Newer drafts
//! (draft-ietf-ccwg-bbr) describe version 3, which the captured hosts do not run.

use std::collections::VecDeque;

use super::{AckEvent, CongestionControl, Cwnd, Pacing};
use crate::replica::{
    Model,
    clock::{MILLISECOND, Nanos, SECOND},
};

/// `BBRHighGain`, 2 ÷ ln 2: the smallest gain that doubles the rate each round.
const HIGH_GAIN: f64 = 2.885;
/// The part of the estimated bandwidth that is paced, so that no queue builds up (Linux: `bbr_pacing_margin_percent`).
const PACING_MARGIN: f64 = 0.99;
/// `pacing_gain` of ProbeBW, one phase per round trip.
const PACING_GAIN_CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// `BtlBwFilterLen`, in rounds.
const BTL_BW_FILTER_LEN: u64 = 10;
/// `RTpropFilterLen`: after this time, the round-trip time is measured anew with a minimal window.
const RT_PROP_FILTER_LEN: Nanos = 10 * SECOND;
const PROBE_RTT_DURATION: Nanos = 200 * MILLISECOND;
/// `BBRMinPipeCwnd`.
const MIN_PIPE_CWND: u32 = 4;

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Startup,
    Drain,
    ProbeBw {
        cycle_index: usize,
        cycle_stamp: Nanos,
    },
    ProbeRtt {
        /// Until when, as soon as the window is down.
        done_stamp: Option<Nanos>,
    },
}

#[derive(Debug)]
pub(super) struct Bbr {
    state: State,
    path: PathModel,
    round: RoundCounter,
    full_pipe: FullPipe,
    /// Payload of a packet, and the whole packet, in bytes.
    mss: f64,
    packet_size: f64,
    initial_cwnd: u32,
    /// Payload bytes per second.
    pacing_rate: f64,
    /// The window before loss recovery or ProbeRTT.
    prior_cwnd: u32,
    in_recovery: bool,
    packet_conservation: bool,
}

/// The model of the path.
#[derive(Debug)]
struct PathModel {
    /// `BtlBwFilter`: rounds and packets per nanosecond, decreasing, so that the first is the maximum.
    btl_bw_filter: VecDeque<(u64, f64)>,
    rt_prop: Nanos,
    rt_prop_stamp: Nanos,
}

#[derive(Debug, Default)]
struct RoundCounter {
    round_count: u64,
    next_round_delivered: u64,
}

/// Whether the pipe is full: the bandwidth has stopped growing.
#[derive(Debug, Default)]
struct FullPipe {
    full_bw: f64,
    full_bw_count: u32,
}

impl Bbr {
    pub(super) fn new(model: &Model, now: Nanos, rtt: Nanos) -> Self {
        let (mss, initial_cwnd) = (model.sender.mss.0 as f64, model.sender.initial_window);
        // As in the draft, an unknown round-trip time counts as a millisecond.
        let first_rtt = if rtt == 0 { MILLISECOND } else { rtt };
        let mut bbr = Self {
            state: State::Startup,
            path: PathModel { btl_bw_filter: VecDeque::new(), rt_prop: rtt, rt_prop_stamp: now },
            round: RoundCounter::default(),
            full_pipe: FullPipe::default(),
            mss,
            packet_size: mss + model.path.headers.0 as f64,
            initial_cwnd,
            pacing_rate: 0.0,
            prior_cwnd: 0,
            in_recovery: false,
            packet_conservation: false,
        };
        bbr.pacing_rate = bbr.bytes_per_second(f64::from(initial_cwnd) / first_rtt as f64 * HIGH_GAIN);
        bbr
    }

    /// The pacing rate for this many packets per nanosecond. Linux computes it in whole packets and spends it on their
    /// payload.
    fn bytes_per_second(&self, packets: f64) -> f64 {
        packets * self.packet_size * PACING_MARGIN * SECOND as f64
    }

    /// `BtlBw`, in packets per nanosecond.
    fn btl_bw(&self) -> f64 {
        self.path.btl_bw_filter.front().map_or(0.0, |(_, rate)| *rate)
    }

    fn filled_pipe(&self) -> bool {
        self.full_pipe.full_bw_count >= 3
    }

    /// `pacing_gain` and `cwnd_gain`.
    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (HIGH_GAIN, HIGH_GAIN),
            State::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            State::ProbeBw { cycle_index, .. } => (PACING_GAIN_CYCLE[cycle_index], 2.0),
            State::ProbeRtt { .. } => (1.0, 1.0),
        }
    }

    fn send_quantum(&self) -> u32 {
        let segments = (self.pacing_rate / 1000.0 / self.mss) as u32;
        segments.clamp(if self.pacing_rate < 150_000.0 { 1 } else { 2 }, 44)
    }

    /// `BBRInflight`: this many bandwidth-delay products, and some packets for bursts at both ends.
    fn inflight(&self, gain: f64) -> u32 {
        if self.path.btl_bw_filter.is_empty() {
            return self.initial_cwnd;
        }
        let bdp = self.btl_bw() * self.path.rt_prop as f64;
        let packets = ((bdp * gain).ceil() as u32).min(1 << 30) + 3 * self.send_quantum();
        let even = packets.next_multiple_of(2);
        if gain > 1.0 && matches!(self.state, State::ProbeBw { cycle_index: 0, .. }) { even + 2 } else { even }
    }

    /// Updates `BtlBw` and `filled_pipe`; returns `round_start`.
    fn update_btl_bw(&mut self, ack: &AckEvent) -> bool {
        let Some(sample) = ack.rate_sample else { return false };
        let round_start = sample.prior_delivered >= self.round.next_round_delivered;
        if round_start {
            self.round.next_round_delivered = ack.total_delivered;
            self.round.round_count += 1;
        }
        let delivery_rate = sample.delivered as f64 / sample.interval as f64;
        let round = self.round.round_count;
        if !sample.is_app_limited || delivery_rate >= self.btl_bw() {
            let filter = &mut self.path.btl_bw_filter;
            while filter.pop_back_if(|(_, other)| *other <= delivery_rate).is_some() {}
            filter.push_back((round, delivery_rate));
        }
        let filter = &mut self.path.btl_bw_filter;
        let is_old = |(sampled, _): &mut (u64, f64)| *sampled + BTL_BW_FILTER_LEN < round;
        while filter.len() > 1 && filter.pop_front_if(is_old).is_some() {}
        if round_start && !sample.is_app_limited && !self.filled_pipe() {
            if self.btl_bw() >= self.full_pipe.full_bw * 1.25 {
                self.full_pipe = FullPipe { full_bw: self.btl_bw(), full_bw_count: 0 };
            } else {
                self.full_pipe.full_bw_count += 1;
            }
        }
        round_start
    }

    fn update_state(&mut self, ack: &AckEvent) {
        let now = ack.now;
        if self.state == State::Startup && self.filled_pipe() {
            self.state = State::Drain;
        }
        if self.state == State::Drain && ack.in_flight <= self.inflight(1.0) {
            self.state = State::ProbeBw { cycle_index: 2, cycle_stamp: now };
        }
        if let State::ProbeBw { cycle_index, cycle_stamp } = self.state {
            let is_full_length = now - cycle_stamp > self.path.rt_prop;
            let is_next = match cycle_index {
                0 => is_full_length && (ack.lost > 0 || ack.prior_in_flight >= self.inflight(PACING_GAIN_CYCLE[0])),
                1 => is_full_length || ack.prior_in_flight <= self.inflight(1.0),
                _ => is_full_length,
            };
            if is_next {
                let cycle_index = (cycle_index + 1) % PACING_GAIN_CYCLE.len();
                self.state = State::ProbeBw { cycle_index, cycle_stamp: now };
            }
        }
    }

    fn update_rt_prop(&mut self, ack: &AckEvent, round_start: bool, window: &mut Cwnd) {
        let now = ack.now;
        let is_expired = now > self.path.rt_prop_stamp.saturating_add(RT_PROP_FILTER_LEN);
        if let Some(rtt) = ack.rtt
            && (rtt <= self.path.rt_prop || is_expired)
        {
            (self.path.rt_prop, self.path.rt_prop_stamp) = (rtt, now);
        }
        match self.state {
            State::ProbeRtt { done_stamp: None } if ack.in_flight <= MIN_PIPE_CWND => {
                self.state = State::ProbeRtt { done_stamp: Some(now + PROBE_RTT_DURATION) };
            }
            State::ProbeRtt { done_stamp: Some(done_stamp) } if now >= done_stamp && round_start => {
                self.path.rt_prop_stamp = now;
                window.cwnd = window.cwnd.max(self.prior_cwnd);
                self.state = if self.filled_pipe() {
                    State::ProbeBw { cycle_index: 2, cycle_stamp: now }
                } else {
                    State::Startup
                };
            }
            State::ProbeRtt { .. } => {}
            _ if is_expired => {
                self.prior_cwnd = window.cwnd;
                self.state = State::ProbeRtt { done_stamp: None };
            }
            _ => {}
        }
    }

    fn set_cwnd(&mut self, ack: &AckEvent, round_start: bool, window: &mut Cwnd) {
        window.cwnd = window.cwnd.saturating_sub(ack.lost).max(1);
        if ack.in_recovery && !self.in_recovery {
            (self.in_recovery, self.packet_conservation) = (true, true);
            self.round.next_round_delivered = ack.total_delivered;
            window.cwnd = ack.in_flight + ack.delivered;
        } else if !ack.in_recovery && self.in_recovery {
            (self.in_recovery, self.packet_conservation) = (false, false);
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        } else if round_start {
            self.packet_conservation = false;
        }
        if self.packet_conservation {
            window.cwnd = window.cwnd.max(ack.in_flight + ack.delivered);
        } else {
            let target_cwnd = self.inflight(self.gains().1);
            if self.filled_pipe() {
                window.cwnd = (window.cwnd + ack.delivered).min(target_cwnd);
            } else if window.cwnd < target_cwnd || ack.total_delivered < u64::from(self.initial_cwnd) {
                window.cwnd += ack.delivered;
            }
        }
        window.cwnd = window.cwnd.max(MIN_PIPE_CWND);
        if matches!(self.state, State::ProbeRtt { .. }) {
            window.cwnd = window.cwnd.min(MIN_PIPE_CWND);
        }
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, ack: &AckEvent, window: &mut Cwnd) {
        let round_start = self.update_btl_bw(ack);
        self.update_state(ack);
        self.update_rt_prop(ack, round_start, window);
        let pacing_rate = self.bytes_per_second(self.btl_bw() * self.gains().0);
        if self.filled_pipe() || pacing_rate > self.pacing_rate {
            self.pacing_rate = pacing_rate;
        }
        self.set_cwnd(ack, round_start, window);
    }

    fn on_loss(&mut self, window: Cwnd) -> u32 {
        self.prior_cwnd = if self.in_recovery { self.prior_cwnd.max(window.cwnd) } else { window.cwnd };
        window.ssthresh
    }

    fn on_timeout(&mut self) {
        if !self.filled_pipe() {
            self.full_pipe.full_bw = 0.0;
        }
    }

    fn controls_recovery(&self) -> bool {
        true
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(Pacing { rate: self.pacing_rate, send_quantum: self.send_quantum() })
    }
}
