//! A TCP segment in 32 bytes, so that millions fit into memory.

use capture::tcp::{Flags, Segment};

use crate::{send_order::Order, side::Side};

/// A segment of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentRecord {
    /// When it was captured, in nanoseconds since the epoch; never before the record ahead of it.
    pub(crate) time: u64,
    /// Its packet number in the capture.
    pub(crate) number: u32,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// Bytes of data.
    pub(crate) len: u32,
    /// The time since the packet that it echoes, in microseconds, if [`SegmentRecord::ECHO`].
    echoed: u32,
    /// The header field, not scaled.
    pub(crate) window: u16,
    flags: u8,
    bits: u8,
}

impl SegmentRecord {
    const SERVER: u8 = 1;
    const SACKED: u8 = 2;
    const DUPLICATE_SACK: u8 = 4;
    const ECHO: u8 = 8;
    const RESENT: u8 = 16;
    const ORIGINAL: u8 = 32;
    /// The lowest of the bits that count missing packets, up to three.
    const MISSING: u8 = 64;
    /// What its headers do not say.
    const INFERRED: u8 = Self::ECHO | Self::RESENT | Self::ORIGINAL | (3 * Self::MISSING);

    pub(crate) fn new(segment: &Segment, time: u64, from: Side) -> Self {
        let mut blocks = segment.sack();
        let (first, second) = (blocks.next(), blocks.next());
        // A block below the acknowledgement, or within the next block, is a duplicate SACK (RFC 2883 §4).
        let is_before = |a: u32, b: u32| b.wrapping_sub(a) as i32 >= 0;
        let is_duplicate = |(start, end): (u32, u32)| {
            let is_within = second.is_some_and(|outer| is_before(outer.0, start) && is_before(end, outer.1));
            is_before(end, segment.acknowledgement) || is_within
        };
        let duplicate = if first.is_some_and(is_duplicate) { Self::DUPLICATE_SACK } else { 0 };
        let server = if from == Side::Server { Self::SERVER } else { 0 };
        Self {
            time,
            number: u32::try_from(segment.number).unwrap_or(u32::MAX),
            seq: segment.sequence,
            ack: segment.acknowledgement,
            len: segment.data,
            echoed: 0,
            window: segment.window,
            flags: segment.flags.0,
            bits: server | duplicate | if first.is_some() { Self::SACKED } else { 0 },
        }
    }

    pub(crate) fn from(&self) -> Side {
        if self.bits & Self::SERVER == 0 { Side::Client } else { Side::Server }
    }

    /// Whether it has SACK blocks.
    pub(crate) fn has_sack(&self) -> bool {
        self.bits & Self::SACKED != 0
    }

    /// Notes that it has SACK blocks, which were not captured.
    pub(crate) fn set_sack(&mut self) {
        self.bits |= Self::SACKED;
    }

    /// Notes that it echoes the timestamp of a packet that passed this long before, in nanoseconds.
    pub(crate) fn set_echo(&mut self, ago: u64) {
        self.bits |= Self::ECHO;
        self.echoed = u32::try_from(ago / 1000).unwrap_or(u32::MAX);
    }

    /// How long before it the packet passed whose timestamp it echoes, in nanoseconds: the latest that its sender had
    /// received (RFC 7323 §4.3).
    pub(crate) fn echo(&self) -> Option<u64> {
        (self.bits & Self::ECHO != 0).then(|| u64::from(self.echoed) * 1000)
    }

    /// Notes what the order of its sender's packets says about it.
    pub(crate) fn set_order(&mut self, order: Order) {
        self.bits |= match order.is_resent {
            Some(true) => Self::RESENT,
            Some(false) => Self::ORIGINAL,
            None => 0,
        };
        self.bits |= Self::MISSING * order.missing.min(3) as u8;
    }

    /// How many packets were lost that its end had sent just before it, up to three; only if the end counts.
    pub(crate) fn missing(&self) -> u8 {
        self.bits / Self::MISSING
    }

    /// For data that fills a gap: whether it is a retransmission, or was overtaken, if its headers tell.
    pub(crate) fn is_resent(&self) -> Option<bool> {
        match (self.bits & Self::RESENT != 0, self.bits & Self::ORIGINAL != 0) {
            (false, false) => None,
            (is_resent, _) => Some(is_resent),
        }
    }

    /// Whether it reports that data arrived twice: a retransmission was spurious (RFC 2883).
    pub(crate) fn has_duplicate_sack(&self) -> bool {
        self.bits & Self::DUPLICATE_SACK != 0
    }

    pub(crate) fn has(&self, flag: Flags) -> bool {
        Flags(self.flags).has(flag)
    }

    /// The control bits; FIN is the lowest.
    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    /// Whether its headers equal those of `other`: the same packet captured twice, or sent twice.
    pub(crate) fn repeats(&self, other: &Self) -> bool {
        let headers = |record: &Self| {
            (record.seq, record.ack, record.len, record.window, record.flags, record.bits & !Self::INFERRED)
        };
        headers(self) == headers(other)
    }
}
