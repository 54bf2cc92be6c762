//! Round-trip times and the timeout that follows from them (RFC 6298).

use crate::replica::clock::Nanos;

#[derive(Debug)]
pub(super) struct Estimator {
    smooth: Nanos,
    variance: Nanos,
    least: Nanos,
    least_timeout: Nanos,
}

impl Estimator {
    /// The handshake was the first sample.
    pub(super) fn new(rtt: Nanos, least_timeout: Nanos) -> Self {
        Self { smooth: rtt, variance: rtt / 2, least: rtt, least_timeout }
    }

    pub(super) fn sample(&mut self, rtt: Nanos) {
        self.variance = self.variance / 4 * 3 + self.smooth.abs_diff(rtt) / 4;
        self.smooth = self.smooth / 8 * 7 + rtt / 8;
        self.least = self.least.min(rtt);
    }

    pub(super) fn smooth(&self) -> Nanos {
        self.smooth
    }

    pub(super) fn least(&self) -> Nanos {
        self.least
    }

    pub(super) fn least_timeout(&self) -> Nanos {
        self.least_timeout
    }

    /// The least timeout counts from the smoothed round trip on, as in Linux.
    pub(super) fn timeout(&self) -> Nanos {
        self.smooth.saturating_add(self.variance.saturating_mul(4).max(self.least_timeout))
    }
}
