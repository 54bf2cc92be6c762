//! The path of the data: a queue, the bottleneck, losses and the propagation delay.

use std::collections::VecDeque;

use units::Rate;

use super::{
    Loss, Path,
    clock::{Nanos, nanos},
};

/// The bottleneck with its queue. Packets arrive in the order in which they entered.
#[derive(Debug)]
pub(super) struct Bottleneck {
    propagation: Nanos,
    /// Bits per second.
    rate: Option<u64>,
    queue_limit: u64,
    /// Header bytes per packet.
    headers: u64,
    /// Sorted by their first bytes.
    losses: Vec<Loss>,
    /// The number of bytes of the longest.
    longest_loss: u64,
    /// When the bottleneck has transmitted all packets so far.
    busy_until: Nanos,
    /// The queued packets: when the transmission of each begins, and its size.
    queue: VecDeque<(Nanos, u64)>,
    queued_bytes: u64,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Arrives(Nanos),
    Lost,
    /// The queue was full.
    Dropped,
}

impl Bottleneck {
    pub(super) fn new(path: &Path) -> Self {
        let mut losses = path.losses.clone();
        losses.sort_by_key(|loss| loss.bytes.start);
        Self {
            propagation: nanos(path.rtt / 2),
            rate: path.rate.map(Rate::as_bits_per_second),
            queue_limit: path.queue.map_or(u64::MAX, |queue| queue.0),
            headers: path.headers.0,
            longest_loss: losses.iter().map(|loss| loss.bytes.end.saturating_sub(loss.bytes.start)).max().unwrap_or(0),
            losses,
            busy_until: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
        }
    }

    /// A packet with this much payload enters; `transmission` is 1 for the original.
    pub(super) fn send(&mut self, start: u64, payload: u64, transmission: u32, now: Nanos) -> Fate {
        let size = payload + self.headers;
        if let Some(rate) = self.rate {
            while let Some((_, size)) = self.queue.pop_front_if(|(begins, _)| *begins <= now) {
                self.queued_bytes -= size;
            }
            if self.busy_until > now {
                if self.queued_bytes + size > self.queue_limit {
                    return Fate::Dropped;
                }
                self.queue.push_back((self.busy_until, size));
                self.queued_bytes += size;
            }
            let took = u128::from(size) * 8 * 1_000_000_000 / u128::from(rate);
            self.busy_until = self.busy_until.max(now).saturating_add(Nanos::try_from(took).unwrap_or(Nanos::MAX));
        } else {
            self.busy_until = now;
        }
        // Packets are lost after the bottleneck: they have used it.
        if self.loses(start, transmission) {
            Fate::Lost
        } else {
            Fate::Arrives(self.busy_until.saturating_add(self.propagation))
        }
    }

    fn loses(&self, start: u64, transmission: u32) -> bool {
        let from = self.losses.partition_point(|loss| loss.bytes.start.saturating_add(self.longest_loss) <= start);
        let begun = self.losses[from..].iter().take_while(|loss| loss.bytes.start <= start);
        { begun }.any(|loss| loss.bytes.contains(&start) && transmission <= loss.times)
    }
}
