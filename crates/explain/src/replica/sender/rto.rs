//! Round-trip times, and the retransmission timeout that follows from them (RFC 6298).

use crate::replica::clock::Nanos;

#[derive(Debug)]
pub(super) struct RttEstimator {
    srtt: Nanos,
    rttvar: Nanos,
    min_rtt: Nanos,
    min_rto: Nanos,
}

impl RttEstimator {
    /// The handshake was the first measurement (RFC 6298 §2.2).
    pub(super) fn new(rtt: Nanos, min_rto: Nanos) -> Self {
        Self { srtt: rtt, rttvar: rtt / 2, min_rtt: rtt, min_rto }
    }

    /// A subsequent measurement (RFC 6298 §2.3).
    pub(super) fn sample(&mut self, rtt: Nanos) {
        self.rttvar = self.rttvar / 4 * 3 + self.srtt.abs_diff(rtt) / 4;
        self.srtt = self.srtt / 8 * 7 + rtt / 8;
        self.min_rtt = self.min_rtt.min(rtt);
    }

    pub(super) fn srtt(&self) -> Nanos {
        self.srtt
    }

    pub(super) fn min_rtt(&self) -> Nanos {
        self.min_rtt
    }

    pub(super) fn min_rto(&self) -> Nanos {
        self.min_rto
    }

    /// The timeout. As in Linux, the minimum applies to the variance term only.
    pub(super) fn rto(&self) -> Nanos {
        self.srtt.saturating_add(self.rttvar.saturating_mul(4).max(self.min_rto))
    }
}
