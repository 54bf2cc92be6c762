//! The counters of packets that the capture lost: in interface statistics blocks (§4.6) and at packets (§4.3.1).

use super::interface::options;
use crate::{Drops, byte_order::ByteOrder};

/// The length of a statistics block before its options.
const FIXED_LEN: usize = 20;

/// The size of the length at a block's end.
const TRAILER_LEN: usize = 4;

/// Options of a statistics block: `isb_ifdrop` and `isb_osdrop`.
const BY_INTERFACE: u16 = 5;
const BY_SYSTEM: u16 = 7;

/// The counters of a file.
#[derive(Debug, Default)]
pub(super) struct DropCounters {
    /// The latest counters of each interface of the section: they count from the start of the capture.
    current: Vec<Drops>,
    /// All else: earlier sections, and the counts at packets.
    sum: Drops,
}

impl DropCounters {
    /// Reads a statistics block in a section that has described `interfaces` interfaces.
    pub(super) fn read(&mut self, block: &[u8], order: ByteOrder, interfaces: usize) {
        let Some([_, _, interface]) = order.words(block) else { return };
        let (interface, end) = (interface as usize, block.len().saturating_sub(TRAILER_LEN));
        let Some(area) = block.get(FIXED_LEN..end).filter(|_| interface < interfaces) else { return };
        if self.current.len() <= interface {
            self.current.resize(interface + 1, Drops::default());
        }
        let drops = &mut self.current[interface];
        for (code, value) in options(area, order) {
            match code {
                BY_INTERFACE => drops.by_interface = count(value, order),
                BY_SYSTEM => drops.by_system = count(value, order),
                _ => {}
            }
        }
    }

    /// Adds the count at a packet.
    pub(super) fn add_at_packet(&mut self, count: u64) {
        self.sum.at_packets = self.sum.at_packets.saturating_add(count);
    }

    /// A section ends.
    pub(super) fn end_section(&mut self) {
        self.sum = self.total();
        self.current.clear();
    }

    pub(super) fn total(&self) -> Drops {
        self.current.iter().fold(self.sum, |sum, drops| Drops {
            by_interface: sum.by_interface.saturating_add(drops.by_interface),
            by_system: sum.by_system.saturating_add(drops.by_system),
            ..sum
        })
    }
}

/// A counter of 64 bits. All bits set is no count: some programs write it for an unknown one.
pub(super) fn count(value: &[u8], order: ByteOrder) -> u64 {
    let count = value.try_into().map_or(0, |bytes| order.i64(bytes).cast_unsigned());
    if count == u64::MAX { 0 } else { count }
}
