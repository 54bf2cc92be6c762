//! Sequence numbers as offsets that do not wrap (RFC 9293 §3.4).

/// Turns the sequence numbers of one direction into offsets; the first byte of data is at [`ORIGIN`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamOffsets {
    base: u32,
    latest: u64,
}

/// The offset of the first byte: far enough from zero that offsets before it are not negative.
pub(crate) const ORIGIN: u64 = 1 << 32;

impl StreamOffsets {
    /// Counts from the byte with this sequence number.
    pub(crate) fn from(first: u32) -> Self {
        Self { base: first, latest: ORIGIN }
    }

    /// Counts from the same byte, as if nothing had been sent yet.
    pub(crate) fn rewound(self) -> Self {
        Self { latest: ORIGIN, ..self }
    }

    /// The offset of a byte that was sent; none if it is further from the latest than any window (RFC 7323 §2.3: 1 GiB),
    /// and so does not belong to this connection.
    pub(crate) fn of(&mut self, seq: u32) -> Option<u64> {
        let offset = self.near(seq);
        if offset.abs_diff(self.latest) > 1 << 30 {
            return None;
        }
        self.latest = self.latest.max(offset);
        Some(offset)
    }

    /// The offset with this sequence number that is nearest to the latest byte sent.
    pub(crate) fn near(&self, seq: u32) -> u64 {
        let expected = self.base.wrapping_add((self.latest - ORIGIN) as u32);
        self.latest.saturating_add_signed(i64::from(seq.wrapping_sub(expected) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::{ORIGIN, StreamOffsets};

    #[test]
    fn offsets_continue_when_sequence_numbers_wrap() {
        let mut offsets = StreamOffsets::from(u32::MAX - 999);
        let numbers = [u32::MAX - 999, 0, 1000, u32::MAX - 500, 1 << 30, 1 << 31, 3 << 30, 0, 999];
        let seen = numbers.map(|seq| offsets.of(seq).unwrap() - ORIGIN);
        assert_eq!(seen[..4], [0, 1000, 2000, 499]);
        assert_eq!(seen[7..], [(1 << 32) + 1000, (1 << 32) + 1999]);
    }

    #[test]
    fn offset_is_none_for_bytes_beyond_any_window() {
        let mut offsets = StreamOffsets::from(5);
        assert_eq!(
            [4, 5, 1 << 31, 6].map(|seq| offsets.of(seq)),
            [Some(ORIGIN - 1), Some(ORIGIN), None, Some(ORIGIN + 1)]
        );
    }
}
