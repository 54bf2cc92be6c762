//! Blocks: their types and lengths (draft-ietf-opsawg-pcapng §3.1).

use crate::byte_order::ByteOrder;

/// The length of a block's type, its length and, in a section header, the byte order. It is also the minimum length of a
/// block: type, length, and the length again.
pub(super) const HEADER_LEN: usize = 12;

/// Maximum length of a block, as in Wireshark. A packet's is a few kilobytes.
const MAX_LENGTH: u32 = 16 << 20;

pub(super) const SECTION_HEADER: u32 = 0x0A0D_0D0A;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
pub(super) const OBSOLETE_PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const INTERFACE_STATISTICS: u32 = 5;
pub(super) const ENHANCED_PACKET: u32 = 6;

/// A block's type and length in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockHeader {
    pub(super) kind: u32,
    pub(super) len: usize,
}

impl BlockHeader {
    /// Parses the header of a block in a section with this byte `order`. A section header changes the order.
    pub(super) fn new(head: [u8; HEADER_LEN], order: &mut ByteOrder) -> Result<Self, &'static str> {
        let [k0, k1, k2, k3, l0, l1, l2, l3, m0, m1, m2, m3] = head;
        let kind = order.u32([k0, k1, k2, k3]);
        if kind == SECTION_HEADER {
            *order = match [m0, m1, m2, m3] {
                [0x4D, 0x3C, 0x2B, 0x1A] => ByteOrder::Little,
                [0x1A, 0x2B, 0x3C, 0x4D] => ByteOrder::Big,
                _ => return Err("a section header has no valid byte order"),
            };
        }
        let len = order.u32([l0, l1, l2, l3]);
        if len < HEADER_LEN as u32 || !len.is_multiple_of(4) || len > MAX_LENGTH {
            return Err("a block has an invalid length");
        }
        Ok(Self { kind, len: len as usize })
    }
}

/// The complete blocks at the beginning of a truncated capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WholeBlocks {
    /// Their length.
    pub bytes: usize,
    /// The number of packets among them.
    pub packets: u64,
}

/// Finds the complete blocks of a capture that a [`Writer`](super::Writer) on this machine wrote, and that may be truncated
/// because the disk was full.
pub fn whole_blocks(written: &[u8]) -> WholeBlocks {
    let mut whole = WholeBlocks::default();
    let mut order = ByteOrder::NATIVE;
    while let Some(head) = written[whole.bytes..].first_chunk()
        && let Ok(header) = BlockHeader::new(*head, &mut order)
        && header.len <= written.len() - whole.bytes
    {
        whole.bytes += header.len;
        whole.packets += u64::from(header.kind == ENHANCED_PACKET);
    }
    whole
}
