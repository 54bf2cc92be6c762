//! What is kept of a packet: 32 bytes, so that millions fit into memory.

use std::ops::{Index, IndexMut, Not};

use capture::tcp::{Flags, Segment};

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The one that opened it.
    Client,
    /// The one that was asked.
    Server,
}

impl Not for Side {
    type Output = Self;
    fn not(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Something that each end has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Both<T> {
    pub(crate) client: T,
    pub(crate) server: T,
}

impl<T> Both<T> {
    pub(crate) fn of(mut make: impl FnMut(Side) -> T) -> Self {
        Self { client: make(Side::Client), server: make(Side::Server) }
    }
}

impl<T> Index<Side> for Both<T> {
    type Output = T;
    fn index(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

impl<T> IndexMut<Side> for Both<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// A segment of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    /// When it passed, in nanoseconds since the epoch; never before the event ahead of it.
    pub(crate) time: u64,
    /// Its number in the capture.
    pub(crate) number: u32,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// Bytes of data.
    pub(crate) len: u32,
    /// The end of the highest block acknowledged selectively, if [`Event::SACKED`].
    pub(crate) sacked: u32,
    /// Not scaled.
    pub(crate) window: u16,
    flags: u8,
    bits: u8,
}

impl Event {
    const SERVER: u8 = 1;
    const SACKED: u8 = 2;
    const TWICE: u8 = 4;

    pub(crate) fn new(segment: &Segment, time: u64, from: Side) -> Self {
        let newer = |a: u32, b: u32| if (b.wrapping_sub(a) as i32) > 0 { b } else { a };
        let mut blocks = segment.sack().map(|(_, end)| end);
        let first = blocks.next();
        // A block that lies behind the acknowledgement came once more than needed (RFC 2883 §4).
        let behind = |end: u32| segment.acknowledgement.wrapping_sub(end) as i32 >= 0;
        let twice = if first.is_some_and(behind) { Self::TWICE } else { 0 };
        let sacked = first.map(|first| blocks.fold(first, newer));
        let server = if from == Side::Server { Self::SERVER } else { 0 };
        Self {
            time,
            number: u32::try_from(segment.number).unwrap_or(u32::MAX),
            seq: segment.sequence,
            ack: segment.acknowledgement,
            len: segment.data,
            sacked: sacked.unwrap_or(0),
            window: segment.window,
            flags: segment.flags.0,
            bits: server | twice | if sacked.is_some() { Self::SACKED } else { 0 },
        }
    }

    pub(crate) fn from(&self) -> Side {
        if self.bits & Self::SERVER == 0 { Side::Client } else { Side::Server }
    }

    pub(crate) fn sacked(&self) -> Option<u32> {
        (self.bits & Self::SACKED != 0).then_some(self.sacked)
    }

    /// Whether it says that something came twice: it had been sent again needlessly.
    pub(crate) fn came_twice(&self) -> bool {
        self.bits & Self::TWICE != 0
    }

    pub(crate) fn has(&self, flag: Flags) -> bool {
        Flags(self.flags).has(flag)
    }

    /// The control bits, FIN the lowest.
    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether it says the same as `other`: the same packet seen twice, or sent twice.
    pub(crate) fn repeats(&self, other: &Self) -> bool {
        let said = |event: &Self| (event.seq, event.ack, event.len, event.window, event.flags, event.bits);
        said(self) == said(other)
    }
}

/// Sequence numbers as offsets that do not wrap (RFC 9293 §3.4): the first byte of data is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Offsets {
    base: u32,
    latest: u64,
}

/// Where the first byte is: far enough from zero that what lies before it is no negative number.
pub(crate) const ORIGIN: u64 = 1 << 32;

impl Offsets {
    /// Counts from the byte with this sequence number.
    pub(crate) fn from(first: u32) -> Self {
        Self { base: first, latest: ORIGIN }
    }

    /// Counts from the same byte, as if nothing had been sent yet.
    pub(crate) fn rewound(self) -> Self {
        Self { latest: ORIGIN, ..self }
    }

    /// The offset of a byte that was sent; none where it is further from the latest than any window reaches
    /// (RFC 7323 §2.3: 1 GiB), and so is not of this connection.
    pub(crate) fn of(&mut self, seq: u32) -> Option<u64> {
        let offset = self.near(seq);
        if offset.abs_diff(self.latest) > 1 << 30 {
            return None;
        }
        self.latest = self.latest.max(offset);
        Some(offset)
    }

    /// The offset of a number nearest to the latest byte sent.
    pub(crate) fn near(&self, seq: u32) -> u64 {
        let expected = self.base.wrapping_add((self.latest - ORIGIN) as u32);
        self.latest.saturating_add_signed(i64::from(seq.wrapping_sub(expected) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::{ORIGIN, Offsets};

    #[test]
    fn offsets_go_on_where_sequence_numbers_wrap() {
        let mut offsets = Offsets::from(u32::MAX - 999);
        let numbers = [u32::MAX - 999, 0, 1000, u32::MAX - 500, 1 << 30, 1 << 31, 3 << 30, 0, 999];
        let seen = numbers.map(|seq| offsets.of(seq).unwrap() - ORIGIN);
        assert_eq!(seen[..4], [0, 1000, 2000, 499]);
        assert_eq!(seen[7..], [(1 << 32) + 1000, (1 << 32) + 1999]);
    }

    #[test]
    fn what_no_window_reaches_is_of_no_connection() {
        let mut offsets = Offsets::from(5);
        assert_eq!(
            [4, 5, 1 << 31, 6].map(|seq| offsets.of(seq)),
            [Some(ORIGIN - 1), Some(ORIGIN), None, Some(ORIGIN + 1)]
        );
    }
}
