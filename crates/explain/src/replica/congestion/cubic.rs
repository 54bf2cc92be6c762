//! CUBIC (RFC 9438), with HyStart as it is in Linux: slow start ends when a round's first acknowledgements come
//! spread over half a round trip, or later than they did; not only when packets drop.
//!
//! HyStart decides whether a transfer of a few megabytes overflows the queue or not, so a replica without it would
//! be wrong by seconds. Source: Ha and Rhee, "Hybrid Slow Start for High-Bandwidth and Long-Distance Networks"
//! (PFLDNeT 2008), and Linux' values for its thresholds.

use super::{Control, Feedback, Window};
use crate::replica::clock::{MILLISECOND, Nanos, SECOND};

/// The cube's factor, in packets per second³ (RFC 9438 §5).
const C: f64 = 0.4;
/// What is left of the window after a loss: Linux' 717/1024, near RFC 9438's 0.7.
const BETA: f64 = 717.0 / 1024.0;
/// Below this window, HyStart does not look.
const LEAST_WINDOW: u32 = 16;
/// Acknowledgements no further apart belong to one train.
const TRAIN_GAP: Nanos = 2 * MILLISECOND;
/// What is added to the round trip for acknowledgements that offloading delays.
const ACK_DELAY: Nanos = MILLISECOND;
/// How many samples tell a round's delay.
const SAMPLES: u32 = 8;

#[derive(Debug)]
pub(super) struct Cubic {
    /// The window before the last reduction.
    largest: f64,
    epoch: Option<Epoch>,
    /// Packets acknowledged, as shares of what makes the window grow by one.
    counted: f64,
    hystart: HyStart,
}

/// Growth since the last reduction.
#[derive(Debug)]
struct Epoch {
    begin: Nanos,
    /// Seconds until the window is at `origin`.
    k: f64,
    origin: f64,
    /// What Reno's window would be.
    reno: f64,
}

#[derive(Debug)]
struct HyStart {
    begin: Nanos,
    end: u64,
    last: Nanos,
    least: Nanos,
    samples: u32,
}

impl HyStart {
    /// Whether slow start should end here.
    fn found(&mut self, feedback: &Feedback, rtt: Nanos, window: u32) -> bool {
        if feedback.una > self.end {
            *self = Self { begin: feedback.now, end: feedback.next, last: feedback.now, least: Nanos::MAX, samples: 0 };
        }
        if window < LEAST_WINDOW {
            return false;
        }
        if feedback.now - self.last <= TRAIN_GAP {
            self.last = feedback.now;
            if feedback.now - self.begin > u64::midpoint(feedback.least_rtt, ACK_DELAY) {
                return true;
            }
        }
        self.least = self.least.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        let rise = (feedback.least_rtt / 8).clamp(4 * MILLISECOND, 16 * MILLISECOND);
        self.least > feedback.least_rtt + rise
    }
}

impl Cubic {
    pub(super) fn new(now: Nanos) -> Self {
        let hystart = HyStart { begin: now, end: 0, last: now, least: Nanos::MAX, samples: 0 };
        Self { largest: 0.0, epoch: None, counted: 0.0, hystart }
    }

    /// How many acknowledged packets make the window grow by one.
    fn packets_per_growth(&mut self, feedback: &Feedback, size: f64, acknowledged: u32) -> f64 {
        let largest = self.largest;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            begin: feedback.now,
            k: ((largest - size).max(0.0) / C).cbrt(),
            origin: largest.max(size),
            reno: size,
        });
        let seconds = (feedback.now - epoch.begin + feedback.least_rtt) as f64 / SECOND as f64;
        let target = epoch.origin + C * (seconds - epoch.k).powi(3);
        let mut packets = if target > size { size / (target - size) } else { 100.0 * size };
        if largest == 0.0 {
            packets = packets.min(20.0); // nothing is known of the path yet
        }
        // RFC 9438 §4.3: no slower than Reno with the same reductions.
        epoch.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) * f64::from(acknowledged) / size;
        if epoch.reno > size {
            packets = packets.min(size / (epoch.reno - size));
        }
        packets.max(2.0)
    }
}

impl Control for Cubic {
    fn acknowledged(&mut self, feedback: &Feedback, window: &mut Window) {
        if let Some(rtt) = feedback.rtt
            && window.in_slow_start()
            && self.hystart.found(feedback, rtt, window.size)
        {
            window.threshold = window.size;
        }
        if !feedback.limited {
            return;
        }
        let left =
            if window.in_slow_start() { window.slow_start(feedback.acknowledged) } else { feedback.acknowledged };
        if left == 0 {
            return;
        }
        self.counted += f64::from(left) / self.packets_per_growth(feedback, f64::from(window.size), left);
        window.size += self.counted as u32;
        self.counted = self.counted.fract();
    }

    fn lost(&mut self, window: Window) -> u32 {
        let size = f64::from(window.size);
        // RFC 9438 §4.7: below the last maximum, make room for others.
        self.largest = if size < self.largest { size * (1.0 + BETA) / 2.0 } else { size };
        (self.epoch, self.counted) = (None, 0.0);
        ((size * BETA) as u32).max(2)
    }

    fn timed_out(&mut self) {
        *self = Self::new(self.hystart.last);
    }

    fn resumes(&mut self, idle: Nanos, now: Nanos) {
        // The cube does not grow while nothing is sent (RFC 9438 §4.2).
        if let Some(epoch) = &mut self.epoch {
            epoch.begin = (epoch.begin + idle).min(now);
        }
    }
}
