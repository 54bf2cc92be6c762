//! Which bytes of a stream were delivered: each counts once, whenever it arrives.
//!
//! At the receiver's end of a lossy path, the first packet that passes may follow a gap, which a retransmission fills
//! later. And what is acknowledged was delivered, whether it was captured or not.

/// The parts of a stream that passed the capture point, or were acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// The first byte that passed, and the end of the last.
    span: Option<(u64, u64)>,
    /// What is missing between them, in order.
    gaps: Vec<(u64, u64)>,
}

/// The maximum number of gaps that are kept; a path with more at a time carries nothing.
const MAX_GAPS: usize = 4096;

impl Delivered {
    /// Bytes passed.
    pub(crate) fn add(&mut self, from: u64, to: u64) {
        let Some((first, end)) = self.span else {
            self.span = Some((from, to));
            return;
        };
        if from > end && self.gaps.len() < MAX_GAPS {
            self.gaps.push((end, from));
        } else if from < end && !self.gaps.is_empty() {
            self.fill(from, to);
        }
        self.span = Some((first.min(from), end.max(to)));
    }

    /// Everything before this byte is acknowledged.
    pub(crate) fn acknowledge(&mut self, ack: u64) {
        if self.gaps.first().is_some_and(|(from, _)| *from < ack) {
            self.fill(0, ack);
        }
        if let Some((_, end)) = &mut self.span {
            *end = ack.max(*end);
        }
    }

    fn fill(&mut self, from: u64, to: u64) {
        let begin = self.gaps.partition_point(|(_, end)| *end <= from);
        let end = self.gaps.partition_point(|(start, _)| *start < to);
        let Some(&(start, _)) = self.gaps.get(begin).filter(|_| begin < end) else { return };
        let (_, stop) = self.gaps[end - 1];
        let rest = [(start, from.max(start)), (to.min(stop), stop)];
        self.gaps.splice(begin..end, rest.into_iter().filter(|(start, end)| start < end));
    }

    /// How many bytes of this range were delivered.
    pub(crate) fn within(&self, from: u64, to: u64) -> u64 {
        let Some((first, end)) = self.span else { return 0 };
        let overlap = |(a, b): (u64, u64)| b.min(to).saturating_sub(a.max(from));
        let missing = self.gaps.iter().map(|gap| overlap(*gap)).sum();
        overlap((first, end)).saturating_sub(missing)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Delivered;

    proptest! {
        #[test]
        fn each_byte_counts_once_in_any_order(parts in prop::collection::vec((0_u64..200, 1_u64..40, prop::bool::weighted(0.1)), 1..60), from in 0_u64..200, len in 0_u64..100) {
            let (mut delivered, mut bytes) = (Delivered::default(), BTreeSet::new());
            let first = parts[0].0;
            for (start, len, is_ack) in parts {
                if is_ack && !bytes.is_empty() {
                    delivered.acknowledge(start);
                    // Only from the first byte that was captured.
                    let begin = *bytes.first().unwrap();
                    bytes.extend(begin..start.max(begin));
                } else {
                    // A capture knows nothing of what was sent before it began.
                    let start = start.max(first);
                    delivered.add(start, start + len);
                    bytes.extend(start..start + len);
                }
            }
            prop_assert_eq!(delivered.within(from, from + len), bytes.range(from..from + len).count() as u64);
        }
    }
}
