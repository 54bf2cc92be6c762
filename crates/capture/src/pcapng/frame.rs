//! Where blocks begin and end (draft-ietf-opsawg-pcapng §3.1).

use crate::byte_order::ByteOrder;

/// The bytes that tell a block's kind, length and, of a section header, byte order. No block is
/// shorter: kind, length, and the length again at its end.
pub(super) const HEAD: usize = 12;

/// The longest block that is believed, as in Wireshark. A packet's is a few kilobytes.
const MAX_LENGTH: u32 = 16 << 20;

pub(super) const SECTION_HEADER: u32 = 0x0A0D_0D0A;
pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
pub(super) const OBSOLETE_PACKET: u32 = 2;
pub(super) const SIMPLE_PACKET: u32 = 3;
pub(super) const ENHANCED_PACKET: u32 = 6;

/// A block's kind and its whole length in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) kind: u32,
    pub(super) len: usize,
}

impl Frame {
    /// The frame that begins with `head` in a section of this `order`; a section header brings its
    /// own, which it leaves there.
    pub(super) fn new(head: [u8; HEAD], order: &mut ByteOrder) -> Result<Self, &'static str> {
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
        if len < HEAD as u32 || !len.is_multiple_of(4) || len > MAX_LENGTH {
            return Err("a block has an invalid length");
        }
        Ok(Self { kind, len: len as usize })
    }
}

/// How much of a run of blocks is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Whole {
    /// The bytes up to the end of the last whole block.
    pub bytes: usize,
    /// The packets among these blocks.
    pub packets: u64,
}

/// The whole blocks at the beginning of `written`, which a [`Writer`](super::Writer) on this machine
/// wrote and the disk may have cut.
pub fn whole_blocks(written: &[u8]) -> Whole {
    let mut whole = Whole::default();
    let mut order = ByteOrder::NATIVE;
    while let Some(head) = written[whole.bytes..].first_chunk()
        && let Ok(frame) = Frame::new(*head, &mut order)
        && frame.len <= written.len() - whole.bytes
    {
        whole.bytes += frame.len;
        whole.packets += u64::from(frame.kind == ENHANCED_PACKET);
    }
    whole
}
