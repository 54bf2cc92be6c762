//! A set of byte ranges of a file.

use std::{collections::BTreeMap, ops::Range};

/// Disjoint byte ranges. Adjacent ones are joined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// The end of each range by its start.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // Those that overlap or touch it, from the last one.
        while let Some((&first, &last)) = self.ends.range(..=end).next_back()
            && last >= start
        {
            self.ends.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.ends.insert(start, end);
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&first, &last)) = self.ends.range(..range.end).next_back()
            && last > range.start
        {
            self.ends.remove(&first);
            if last > range.end {
                self.ends.insert(range.end, last);
            }
            if first < range.start {
                self.ends.insert(first, range.start);
            }
        }
    }

    /// The parts of `range` that are not in the set.
    pub(crate) fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        let before = self.ends.range(..range.start).next_back();
        for (&start, &end) in before.into_iter().chain(self.ends.range(range.start..range.end)) {
            if start > at {
                gaps.push(at..start);
            }
            at = at.max(end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }

    /// The parts of `range` that are in the set.
    pub(crate) fn within(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut all = Self::default();
        all.insert(range.clone());
        for gap in self.missing(range) {
            all.remove(gap);
        }
        all.ends.into_iter().map(|(start, end)| start..end).collect()
    }

    /// The number of bytes in the set.
    pub(crate) fn total(&self) -> u64 {
        self.ends.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: u64 = 40;

    proptest! {
        #[test]
        fn ranges_are_a_set_of_bytes(changes in prop::collection::vec((any::<bool>(), 0..LENGTH, 0..LENGTH), 0..30)) {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; LENGTH as usize]);
            for (insert, start, end) in changes {
                if insert { ranges.insert(start..end) } else { ranges.remove(start..end) }
                (start..end).for_each(|at| bytes[at as usize] = insert);
            }
            let missing: Vec<u64> = ranges.missing(0..LENGTH).into_iter().flatten().collect();
            let expected: Vec<u64> = (0..LENGTH).filter(|at| !bytes[*at as usize]).collect();
            prop_assert_eq!(missing, expected);
            prop_assert_eq!(ranges.total(), bytes.iter().filter(|is_in| **is_in).count() as u64);
            prop_assert!(ranges.ends.iter().zip(ranges.ends.keys().skip(1)).all(|((_, end), next)| end < next));
            let part: Vec<u64> = ranges.missing(7..23).into_iter().flatten().collect();
            prop_assert!(ranges.within(7..23).into_iter().flatten().eq((7..23).filter(|at| bytes[*at as usize])));
            prop_assert_eq!(part, (7..23).filter(|at| !bytes[*at as usize]).collect::<Vec<_>>());
        }
    }
}
