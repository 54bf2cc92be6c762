//! Whether a sender reduces its window after a loss.
//!
//! Reno halves its congestion window, CUBIC takes three tenths of it (RFC 5681 §3.1, RFC 9438 §4.6). BBR goes on as before:
//! its window follows from the measured rate and round-trip time (draft-ietf-ccwg-bbr). What shows is the most data in flight
//! per round trip: before a loss, and in the two round trips after its repair.
//!
//! A sender that was limited by something else than its window may go on as before too, so its flight must be well below the
//! receive window, and it must never run out of data, nor send it at times of its own. One whose buffer limits it would notice after some losses in a row.
//! Some senders restore their window when a retransmission was spurious (RFC 4015), so duplicate SACKs count against it.

/// The smallest flight before a loss that is compared, in full segments: less is a matter of rounding.
const MIN_FLIGHT: u64 = 10;

/// The number of losses without effect that it takes, and how many for each with effect.
const MIN_IGNORED: u32 = 3;
const FOR_EACH: u32 = 2;

/// The round trips after a repair in which the flight is observed.
const ROUNDS: usize = 2;

/// The response of a sender to its losses.
#[derive(Debug, Default)]
pub(crate) struct LossResponse {
    ignored: u32,
    heeded: u32,
    spurious: u32,
    current: Option<Observed>,
}

/// The loss that is being observed, in bytes in flight.
#[derive(Debug)]
struct Observed {
    before: u64,
    after: u64,
    /// The round trip in which it was repaired.
    repaired: Option<usize>,
}

impl LossResponse {
    /// Acknowledgements reported a loss: the most in flight before, of full segments of `mss` bytes, and the receive window.
    ///
    /// A second loss comes too soon to tell what the first one did.
    pub(crate) fn lose(&mut self, before: u64, mss: u64, window: u64, rtt: u64) {
        let is_limited = before * 10 >= window * 8;
        // CUBIC grows with time and not with round trips: on a long path, a small window is soon back at nine tenths, after
        // 0.28 s × ∛segments (RFC 9438 §4.2).
        let observed = (ROUNDS + 3) as f64 * rtt as f64 / 1e9;
        let is_soon_back = before as f64 / mss.max(1) as f64 <= (observed / 0.28).powi(3);
        let can_tell = before >= MIN_FLIGHT * mss && !is_limited && !is_soon_back;
        self.current = can_tell.then_some(Observed { before, after: 0, repaired: None });
    }

    /// Everything that was in flight at the loss is acknowledged.
    pub(crate) fn repair(&mut self, round: usize) {
        if let Some(observed) = &mut self.current {
            observed.repaired.get_or_insert(round);
        }
    }

    /// A timer fired, and every sender begins again; or nothing is in flight, and the program was the limit.
    pub(crate) fn forget(&mut self) {
        self.current = None;
    }

    /// A retransmission was spurious.
    pub(crate) fn is_spurious(&mut self) {
        self.spurious += 1;
    }

    /// New data was sent.
    pub(crate) fn send(&mut self, flight: u64, round: usize) {
        if let Some(Observed { after, repaired: Some(repaired), .. }) = &mut self.current {
            *after = flight.max(*after);
            if round > *repaired + ROUNDS {
                self.conclude();
            }
        }
    }

    fn conclude(&mut self) {
        let Some(Observed { before, after, .. }) = self.current.take() else { return };
        let is_ignored = after * 10 >= before * 9;
        self.ignored += u32::from(is_ignored);
        self.heeded += u32::from(!is_ignored);
    }

    /// Whether losses do not make it reduce its window.
    pub(crate) fn ignores(&self) -> bool {
        self.ignored >= MIN_IGNORED && self.ignored >= FOR_EACH * (self.heeded + self.spurious)
    }
}

#[cfg(test)]
mod tests {
    use super::LossResponse;

    const MSS: u64 = 1000;

    /// Whether a sender ignores losses that take its flight from 100 segments to this many thousandths of it.
    fn ignores(losses: u32, flight: u64, window: u64) -> LossResponse {
        let mut response = LossResponse::default();
        for loss in 0..losses as usize {
            response.lose(100 * MSS, MSS, window, 40_000_000);
            // During the repair, everything up to its end counts as in flight.
            response.send(150 * MSS, 10 * loss);
            response.repair(10 * loss);
            (1..5).for_each(|round| response.send(flight * MSS / 10, 10 * loss + round));
        }
        response
    }

    #[test]
    fn sender_that_keeps_its_flight_after_losses_ignores_them() {
        assert!(ignores(3, 1000, 1 << 20).ignores());
        // CUBIC, Reno, and BBR after too few losses.
        for (losses, flight) in [(50, 700), (50, 500), (2, 1000)] {
            assert!(!ignores(losses, flight, 1 << 20).ignores(), "{losses}, {flight}");
        }
        // Whoever runs out of data is not limited by the window.
        let mut idle = LossResponse::default();
        for loss in 0..9 {
            idle.lose(100 * MSS, MSS, 1 << 20, 40_000_000);
            idle.repair(10 * loss);
            idle.send(100 * MSS, 10 * loss + 1);
            idle.forget();
            idle.send(100 * MSS, 10 * loss + 5);
        }
        assert!(!idle.ignores());
        // On a path of 0.6 s, CUBIC would be back as well.
        let mut far = LossResponse::default();
        for loss in 0..9 {
            far.lose(40 * MSS, MSS, 1 << 20, 600_000_000);
            far.repair(10 * loss);
            (1..5).for_each(|round| far.send(40 * MSS, 10 * loss + round));
        }
        assert!(!far.ignores());
        // The receive window is the limit, whatever the congestion window.
        assert!(!ignores(9, 1000, 110 * MSS).ignores());
        // It restores its window after spurious retransmissions.
        let mut spurious = ignores(4, 1000, 1 << 20);
        (0..3).for_each(|_| spurious.is_spurious());
        assert!(!spurious.ignores());
    }
}
