//! Interfaces, and the times of their packets.

use std::time::Duration;

use crate::{LinkRates, LinkType, byte_order::ByteOrder};

/// Nanoseconds in a second.
const NANOS: u128 = 1_000_000_000;

/// The length of a description before its options.
const FIXED_LEN: usize = 16;

/// Options of a description: `opt_comment` (§3.5), `if_name`, `if_tsresol` and `if_tsoffset` (§4.2).
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

/// An interface, as a file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, if it has one in valid UTF-8.
    pub name: Option<String>,
    /// The link-layer header of its packets.
    pub link: LinkType,
    /// Maximum number of captured bytes of a packet; `None` is no limit.
    pub snaplen: Option<u32>,
    /// The rates of its link, if an emulator says them.
    pub(super) link_rates: Option<LinkRates>,
    unit: TimeUnit,
    /// Seconds to add to each time.
    offset: i64,
}

impl Interface {
    /// Parses an interface description block (§4.2).
    pub(super) fn new(block: &[u8], order: ByteOrder) -> Result<Self, &'static str> {
        const SHORT: &str = "the description of its interface is too short";
        let [_, _, link, snaplen] = order.words(block).ok_or(SHORT)?;
        let link = match order {
            ByteOrder::Little => link as u16,
            ByteOrder::Big => (link >> 16) as u16,
        };
        let (mut name, mut link_rates, mut resolution, mut offset) = (None, None, 6, 0);
        for (code, value) in options(block.get(FIXED_LEN..block.len() - 4).ok_or(SHORT)?, order) {
            match (code, value) {
                (COMMENT, value) => {
                    link_rates = link_rates.or_else(|| LinkRates::of_comment(std::str::from_utf8(value).ok()?));
                }
                (NAME, value) => name = std::str::from_utf8(value).ok().map(str::to_owned),
                (RESOLUTION, [value, ..]) => resolution = *value,
                (OFFSET, value) => offset = value.try_into().map_or(0, |bytes| order.i64(bytes)),
                _ => {}
            }
        }
        let unit = TimeUnit::new(resolution).ok_or("the time resolution of its interface is too fine")?;
        let snaplen = Some(snaplen).filter(|len| *len > 0);
        Ok(Self { name, link: LinkType(link), snaplen, link_rates, unit, offset })
    }

    /// The time since the epoch of a packet with this timestamp.
    pub(super) fn time(&self, high: u32, low: u32) -> Option<Duration> {
        let time = self.unit.time(u64::from(high) << 32 | u64::from(low))?;
        let offset = Duration::from_secs(self.offset.unsigned_abs());
        if self.offset < 0 { time.checked_sub(offset) } else { time.checked_add(offset) }
    }
}

/// The unit of an interface's times. Nearly all are micro- or nanoseconds, where a division by a constant is enough; the
/// others need 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeUnit {
    Microsecond,
    Nanosecond,
    /// The number of units in a second.
    Fraction(u128),
}

impl TimeUnit {
    /// The unit of an `if_tsresol` (§4.2): 10⁻ⁿ s, or 2⁻ⁿ s if the highest bit is set. With smaller units than 10⁻¹⁹ s and
    /// 2⁻⁶³ s, a second does not fit into 64 bits.
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

/// The options in `area`, each with its code, up to their end or the first invalid one (§3.5).
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
        let unit = TimeUnit::new(resolution).expect("a usable unit");
        Interface { name: None, link: LinkType::RAW, snaplen: None, link_rates: None, unit, offset }
    }

    #[test]
    fn resolution_is_a_power_of_ten_or_two() {
        assert_eq!(interface(9, 0).time(0, 1_000_000_001), Some(Duration::new(1, 1)));
        assert_eq!(interface(6, 0).time(0, 1_000_001), Some(Duration::new(1, 1000)));
        assert_eq!(interface(0, 0).time(1, 0), Some(Duration::from_secs(1 << 32)));
        assert_eq!(interface(0x8A, 0).time(0, 1536), Some(Duration::from_millis(1500)));
        assert_eq!(TimeUnit::new(20), None);
        assert_eq!(TimeUnit::new(0xC0), None);
    }

    #[test]
    fn the_drafts_example_timestamp_is_in_june_2012() {
        // §4.6: 97 c3 04 00 aa 47 ca 64, little-endian, is 2012-06-29 07:28:25.298858 UTC.
        let time = interface(6, 0).time(0x0004_C397, 0x64CA_47AA);
        assert_eq!(time, Some(Duration::new(1_340_954_905, 298_858_000)));
    }

    #[test]
    fn offset_is_added_and_times_before_the_epoch_are_rejected() {
        assert_eq!(interface(9, 5).time(0, 7), Some(Duration::new(5, 7)));
        assert_eq!(interface(0, -5).time(0, 7), Some(Duration::from_secs(2)));
        assert_eq!(interface(0, -8).time(0, 7), None);
        assert_eq!(interface(0, i64::MIN).time(0, 7), None);
        assert_eq!(interface(0, i64::MAX).time(u32::MAX, u32::MAX), None);
    }
}
