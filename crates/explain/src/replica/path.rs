//! The way of the data: losses, then a queue in front of a link of limited rate, then distance.

use std::collections::VecDeque;

use units::Rate;

use super::{
    Loss, Path,
    clock::{Nanos, nanos},
};

/// The narrow link and what is under way behind it; packets arrive in the order in which they entered.
#[derive(Debug)]
pub(super) struct Way {
    distance: Nanos,
    /// Bits per second.
    rate: Option<u64>,
    queue: u64,
    headers: u64,
    /// By their first bytes, and how many bytes the longest has.
    losses: Vec<Loss>,
    longest: u64,
    /// When the link has sent all it was given.
    free: Nanos,
    /// The packets that wait for the link: when each begins to be sent, and its size.
    waiting: VecDeque<(Nanos, u64)>,
    waiting_bytes: u64,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives(Nanos),
    Lost,
    /// There was no room in the queue.
    Dropped,
}

impl Way {
    pub(super) fn new(path: &Path) -> Self {
        let mut losses = path.losses.clone();
        losses.sort_by_key(|loss| loss.bytes.start);
        Self {
            distance: nanos(path.rtt / 2),
            rate: path.rate.map(Rate::as_bits_per_second),
            queue: path.queue.map_or(u64::MAX, |queue| queue.0),
            headers: path.headers.0,
            longest: losses.iter().map(|loss| loss.bytes.end.saturating_sub(loss.bytes.start)).max().unwrap_or(0),
            losses,
            free: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// A packet of so much payload enters, for the `times`-th time.
    pub(super) fn send(&mut self, start: u64, payload: u64, times: u32, now: Nanos) -> Fate {
        let size = payload + self.headers;
        if let Some(rate) = self.rate {
            while let Some((_, size)) = self.waiting.pop_front_if(|(begins, _)| *begins <= now) {
                self.waiting_bytes -= size;
            }
            if self.free > now {
                if self.waiting_bytes + size > self.queue {
                    return Fate::Dropped;
                }
                self.waiting.push_back((self.free, size));
                self.waiting_bytes += size;
            }
            let took = u128::from(size) * 8 * 1_000_000_000 / u128::from(rate);
            self.free = self.free.max(now).saturating_add(Nanos::try_from(took).unwrap_or(Nanos::MAX));
        } else {
            self.free = now;
        }
        // Lost behind the narrow link: what is lost has used it.
        if self.loses(start, times) { Fate::Lost } else { Fate::Arrives(self.free.saturating_add(self.distance)) }
    }

    fn loses(&self, start: u64, times: u32) -> bool {
        let from = self.losses.partition_point(|loss| loss.bytes.start.saturating_add(self.longest) <= start);
        let begun = self.losses[from..].iter().take_while(|loss| loss.bytes.start <= start);
        { begun }.any(|loss| loss.bytes.contains(&start) && times <= loss.times)
    }
}
