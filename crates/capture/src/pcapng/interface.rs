//! Interfaces, and the times their packets carry.

use std::time::Duration;

use crate::{LinkType, byte_order::ByteOrder};

/// Nanoseconds in a second.
const NANOS: u128 = 1_000_000_000;

/// The bytes of a description before its options.
const FIXED: usize = 16;

/// The options of it that are used (§4.2).
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

/// An interface, as a file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, where the file tells and it is text.
    pub name: Option<String>,
    /// What its packets begin with.
    pub link: LinkType,
    /// The most bytes kept of a packet; `None` is all.
    pub snaplen: Option<u32>,
    unit: Unit,
    /// Seconds to add to every time.
    offset: i64,
}

impl Interface {
    /// The interface that `block` describes (§4.2).
    pub(super) fn new(block: &[u8], order: ByteOrder) -> Result<Self, &'static str> {
        const SHORT: &str = "the description of its interface is too short";
        let [_, _, link, snaplen] = order.words(block).ok_or(SHORT)?;
        let link = match order {
            ByteOrder::Little => link as u16,
            ByteOrder::Big => (link >> 16) as u16,
        };
        let (mut name, mut resolution, mut offset) = (None, 6, 0);
        for (code, value) in options(block.get(FIXED..block.len() - 4).ok_or(SHORT)?, order) {
            match (code, value) {
                (NAME, value) => name = std::str::from_utf8(value).ok().map(str::to_owned),
                (RESOLUTION, [value, ..]) => resolution = *value,
                (OFFSET, value) => offset = value.try_into().map_or(0, |bytes| order.i64(bytes)),
                _ => {}
            }
        }
        let unit = Unit::new(resolution).ok_or("the time resolution of its interface is too fine")?;
        Ok(Self { name, link: LinkType(link), snaplen: Some(snaplen).filter(|len| *len > 0), unit, offset })
    }

    /// The time since the epoch that a packet's two halves of a count mean here.
    pub(super) fn time(&self, high: u32, low: u32) -> Option<Duration> {
        let time = self.unit.time(u64::from(high) << 32 | u64::from(low))?;
        let offset = Duration::from_secs(self.offset.unsigned_abs());
        if self.offset < 0 { time.checked_sub(offset) } else { time.checked_add(offset) }
    }
}

/// The unit in which an interface counts time. Nearly all count micro- or nanoseconds, for which a
/// division by a constant does; the others take one in 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Nanosecond,
    /// This many make a second.
    Fraction(u128),
}

impl Unit {
    /// The unit of an `if_tsresol` (§4.2): 10⁻ⁿ s, or 2⁻ⁿ s where the highest bit is set. Below
    /// 10⁻¹⁹ s and 2⁻⁶³ s, 64 bits hold no second.
    fn new(resolution: u8) -> Option<Self> {
        let exponent = u32::from(resolution & 0x7F);
        match (resolution & 0x80, exponent) {
            (0, 6) => Some(Self::Microsecond),
            (0, 9) => Some(Self::Nanosecond),
            (0, 0..=19) => Some(Self::Fraction(10u128.pow(exponent))),
            (0x80, 0..=63) => Some(Self::Fraction(1 << exponent)),
            _ => None,
        }
    }

    fn time(self, count: u64) -> Option<Duration> {
        match self {
            Self::Microsecond => Some(Duration::from_micros(count)),
            Self::Nanosecond => Some(Duration::from_nanos(count)),
            Self::Fraction(second) => {
                let nanos = u128::from(count) * NANOS / second;
                Some(Duration::new(u64::try_from(nanos / NANOS).ok()?, (nanos % NANOS) as u32))
            }
        }
    }
}

/// The options in `area`, each with its code, up to their end or where they make no sense (§3.5).
pub(super) fn options(area: &[u8], order: ByteOrder) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = area;
    std::iter::from_fn(move || {
        let [c0, c1, l0, l1, ..] = *rest else { return None };
        let (code, len) = (order.u16([c0, c1]), usize::from(order.u16([l0, l1])));
        let value = rest.get(4..4 + len)?;
        rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        (code != 0).then_some((code, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(resolution: u8, offset: i64) -> Interface {
        let unit = Unit::new(resolution).expect("a usable unit");
        Interface { name: None, link: LinkType::RAW, snaplen: None, unit, offset }
    }

    #[test]
    fn units_are_powers_of_ten_or_of_two() {
        assert_eq!(interface(9, 0).time(0, 1_000_000_001), Some(Duration::new(1, 1)));
        assert_eq!(interface(6, 0).time(0, 1_000_001), Some(Duration::new(1, 1000)));
        assert_eq!(interface(0, 0).time(1, 0), Some(Duration::from_secs(1 << 32)));
        assert_eq!(interface(0x8A, 0).time(0, 1536), Some(Duration::from_millis(1500)));
        assert_eq!(Unit::new(20), None);
        assert_eq!(Unit::new(0xC0), None);
    }

    #[test]
    fn the_drafts_example_is_a_day_in_june_2012() {
        // §4.6: 97 c3 04 00 aa 47 ca 64, little-endian, is 2012-06-29 07:28:25.298858 UTC.
        let time = interface(6, 0).time(0x0004_C397, 0x64CA_47AA);
        assert_eq!(time, Some(Duration::new(1_340_954_905, 298_858_000)));
    }

    #[test]
    fn an_offset_moves_times_but_not_before_the_epoch() {
        assert_eq!(interface(9, 5).time(0, 7), Some(Duration::new(5, 7)));
        assert_eq!(interface(0, -5).time(0, 7), Some(Duration::from_secs(2)));
        assert_eq!(interface(0, -8).time(0, 7), None);
        assert_eq!(interface(0, i64::MIN).time(0, 7), None);
        assert_eq!(interface(0, i64::MAX).time(u32::MAX, u32::MAX), None);
    }
}
