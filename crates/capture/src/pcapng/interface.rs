//! Interfaces, and the times their packets carry.

use std::time::Duration;

use pcap_parser::{InterfaceDescriptionBlock, OptionCode, PcapNGOption};

use super::frame::Order;
use crate::LinkType;

/// Nanoseconds in a second.
const NANOS: u128 = 1_000_000_000;

/// An interface, as a file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, where the file tells and it is text.
    pub name: Option<String>,
    /// What its packets begin with.
    pub link: LinkType,
    /// The most bytes kept of a packet; `None` is all.
    pub snaplen: Option<u32>,
    /// Nanoseconds per unit of time, as a fraction.
    unit: (u128, u128),
    /// Seconds to add to every time.
    offset: i64,
}

impl Interface {
    pub(super) fn new(block: &InterfaceDescriptionBlock, order: Order) -> Result<Self, &'static str> {
        let options = &block.options;
        let name = option(options, OptionCode::IfName).and_then(|name| std::str::from_utf8(name).ok());
        let resolution = option(options, OptionCode::IfTsresol).and_then(|value| value.first().copied()).unwrap_or(6);
        let offset = option(options, OptionCode::IfTsoffset).and_then(|value| value.try_into().ok());
        Ok(Self {
            name: name.map(str::to_owned),
            link: LinkType(u16::try_from(block.linktype.0).map_err(|_| "its interface has an impossible link type")?),
            snaplen: Some(block.snaplen).filter(|len| *len > 0),
            unit: unit(resolution).ok_or("its interface counts time in units too small to use")?,
            offset: offset.map_or(0, |bytes| order.i64(bytes)),
        })
    }

    /// The time since the epoch that a packet's two halves of a count mean here.
    pub(super) fn time(&self, high: u32, low: u32) -> Option<Duration> {
        let count = u128::from(high) << 32 | u128::from(low);
        let nanos = count * self.unit.0 / self.unit.1;
        let time = Duration::new(u64::try_from(nanos / NANOS).ok()?, (nanos % NANOS) as u32);
        let offset = Duration::from_secs(self.offset.unsigned_abs());
        if self.offset < 0 { time.checked_sub(offset) } else { time.checked_add(offset) }
    }
}

/// Nanoseconds per unit, as a fraction, of an `if_tsresol` (§4.2): the unit is 10⁻ⁿ s, or 2⁻ⁿ s
/// where the highest bit is set. Below 10⁻¹⁹ s and 2⁻⁶³ s, 64 bits hold no second.
fn unit(resolution: u8) -> Option<(u128, u128)> {
    let exponent = u32::from(resolution & 0x7F);
    match (resolution & 0x80, exponent) {
        (0, 0..=19) => Some((NANOS, 10u128.pow(exponent))),
        (0x80, 0..=63) => Some((NANOS, 1 << exponent)),
        _ => None,
    }
}

/// The value of the first option of this `code`.
pub(super) fn option<'a>(options: &'a [PcapNGOption], code: OptionCode) -> Option<&'a [u8]> {
    let mut set = options.iter().take_while(|option| option.code != OptionCode::EndOfOpt);
    set.find(|option| option.code == code).and_then(|option| option.as_bytes().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(resolution: u8, offset: i64) -> Interface {
        let unit = unit(resolution).expect("a usable unit");
        Interface { name: None, link: LinkType::RAW, snaplen: None, unit, offset }
    }

    #[test]
    fn units_are_powers_of_ten_or_of_two() {
        assert_eq!(interface(9, 0).time(0, 1_000_000_001), Some(Duration::new(1, 1)));
        assert_eq!(interface(6, 0).time(0, 1_000_001), Some(Duration::new(1, 1000)));
        assert_eq!(interface(0, 0).time(1, 0), Some(Duration::from_secs(1 << 32)));
        assert_eq!(interface(0x8A, 0).time(0, 1536), Some(Duration::from_millis(1500)));
        assert_eq!(unit(20), None);
        assert_eq!(unit(0xC0), None);
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
