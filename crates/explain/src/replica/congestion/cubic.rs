//! CUBIC (RFC 9438) with HyStart as in Linux: slow start ends when the first acknowledgements of a round are spread over
//! half a round trip, or arrive later than before; not only when packets are dropped.
//!
//! HyStart decides whether a transfer of a few megabytes overflows the queue, so a replica without it would be wrong by
//! seconds. It is not RFC 9406's HyStart++, but the algorithm of Ha and Rhee, "Hybrid Slow Start for High-Bandwidth and
//! Long-Distance Networks" (PFLDNeT 2008), with Linux's thresholds and names (`net/ipv4/tcp_cubic.c`).

use super::{AckEvent, CongestionControl, Cwnd};
use crate::replica::clock::{MILLISECOND, Nanos, SECOND};

/// RFC 9438 §5: `C`, in packets per second³.
const C: f64 = 0.4;
/// RFC 9438 §4.6: `beta_cubic`, the part of the window that is left after a loss. Linux has 717/1024, near the RFC's 0.7.
const BETA_CUBIC: f64 = 717.0 / 1024.0;
/// Linux's `hystart_low_window`: HyStart ignores smaller windows.
const HYSTART_LOW_WINDOW: u32 = 16;
/// Linux's `hystart_ack_delta_us`: acknowledgements no further apart belong to one train.
const HYSTART_ACK_DELTA: Nanos = 2 * MILLISECOND;
/// Linux's `hystart_ack_delay`: the extra delay that offloading adds to acknowledgements.
const HYSTART_ACK_DELAY: Nanos = MILLISECOND;
/// Linux's `HYSTART_MIN_SAMPLES`: the number of samples that give a round's delay.
const HYSTART_MIN_SAMPLES: u32 = 8;

#[derive(Debug)]
pub(super) struct Cubic {
    /// RFC 9438 §4.1.2: the window before the last reduction.
    w_max: f64,
    epoch: Option<Epoch>,
    /// Acknowledged packets, as a share of what makes the window grow by one (Linux: `snd_cwnd_cnt`).
    cwnd_cnt: f64,
    hystart: HyStart,
}

/// The growth since the last reduction: RFC 9438 §4.1.2's congestion avoidance stage.
#[derive(Debug)]
struct Epoch {
    /// RFC 9438: `t_epoch`.
    start: Nanos,
    /// RFC 9438 §4.2: `K`, the seconds until the window reaches `origin_point`.
    k: f64,
    /// Linux's `bic_origin_point`: `W_max`, or the window at the start if that is larger.
    origin_point: f64,
    /// RFC 9438 §4.3: `W_est`, the window that Reno would have.
    w_est: f64,
}

#[derive(Debug)]
struct HyStart {
    round_start: Nanos,
    /// The round ends when this offset is acknowledged.
    end_seq: u64,
    last_ack: Nanos,
    /// The smallest RTT of this round.
    curr_rtt: Nanos,
    sample_cnt: u32,
}

impl HyStart {
    fn new(now: Nanos) -> Self {
        Self { round_start: now, end_seq: 0, last_ack: now, curr_rtt: Nanos::MAX, sample_cnt: 0 }
    }

    /// Whether slow start should end at this acknowledgement.
    fn found(&mut self, ack: &AckEvent, rtt: Nanos, cwnd: u32) -> bool {
        if ack.snd_una > self.end_seq {
            *self = Self { end_seq: ack.snd_nxt, ..Self::new(ack.now) };
        }
        if cwnd < HYSTART_LOW_WINDOW {
            return false;
        }
        if ack.now - self.last_ack <= HYSTART_ACK_DELTA {
            self.last_ack = ack.now;
            let threshold = u64::midpoint(ack.min_rtt, HYSTART_ACK_DELAY);
            if ack.now - self.round_start > threshold {
                return true;
            }
        }
        self.curr_rtt = self.curr_rtt.min(rtt);
        if self.sample_cnt < HYSTART_MIN_SAMPLES {
            self.sample_cnt += 1;
            return false;
        }
        let delay_thresh = (ack.min_rtt / 8).clamp(4 * MILLISECOND, 16 * MILLISECOND);
        self.curr_rtt > ack.min_rtt + delay_thresh
    }
}

impl Cubic {
    pub(super) fn new(now: Nanos) -> Self {
        Self { w_max: 0.0, epoch: None, cwnd_cnt: 0.0, hystart: HyStart::new(now) }
    }

    /// How many acknowledged packets make the window grow by one (Linux: `cnt` of `bictcp_update`).
    fn cnt(&mut self, ack: &AckEvent, cwnd: f64, acked: u32) -> f64 {
        let w_max = self.w_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: ack.now,
            k: ((w_max - cwnd).max(0.0) / C).cbrt(),
            origin_point: w_max.max(cwnd),
            w_est: cwnd,
        });
        // RFC 9438 §4.2: the window of one RTT later, W_cubic(t + RTT).
        let t = (ack.now - epoch.start + ack.min_rtt) as f64 / SECOND as f64;
        let target = epoch.origin_point + C * (t - epoch.k).powi(3);
        let mut cnt = if target > cwnd { cwnd / (target - cwnd) } else { 100.0 * cwnd };
        if w_max == 0.0 {
            // Before the first loss, nothing is known of the path.
            cnt = cnt.min(20.0);
        }
        // RFC 9438 §4.3: the Reno-friendly region.
        let alpha_cubic = 3.0 * (1.0 - BETA_CUBIC) / (1.0 + BETA_CUBIC);
        epoch.w_est += alpha_cubic * f64::from(acked) / cwnd;
        if epoch.w_est > cwnd {
            cnt = cnt.min(cwnd / (epoch.w_est - cwnd));
        }
        cnt.max(2.0)
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &AckEvent, window: &mut Cwnd) {
        if let Some(rtt) = ack.rtt
            && window.in_slow_start()
            && self.hystart.found(ack, rtt, window.cwnd)
        {
            window.ssthresh = window.cwnd;
        }
        if !ack.is_cwnd_limited {
            return;
        }
        let acked = if window.in_slow_start() { window.slow_start(ack.acked) } else { ack.acked };
        if acked == 0 {
            return;
        }
        self.cwnd_cnt += f64::from(acked) / self.cnt(ack, f64::from(window.cwnd), acked);
        window.cwnd += self.cwnd_cnt as u32;
        self.cwnd_cnt = self.cwnd_cnt.fract();
    }

    fn on_loss(&mut self, window: Cwnd) -> u32 {
        let cwnd = f64::from(window.cwnd);
        // RFC 9438 §4.7, fast convergence: below the last maximum, release bandwidth for other flows.
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA_CUBIC) / 2.0 } else { cwnd };
        (self.epoch, self.cwnd_cnt) = (None, 0.0);
        ((cwnd * BETA_CUBIC) as u32).max(2)
    }

    fn on_timeout(&mut self) {
        *self = Self::new(self.hystart.last_ack);
    }

    fn on_restart(&mut self, idle: Nanos, now: Nanos) {
        // The window does not grow while nothing is sent (RFC 9438 §5.8).
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + idle).min(now);
        }
    }
}
