//! One IP packet on a cable.

/// The largest IP packet there is (RFC 791 §3.1: a 16-bit total length), and so the largest segment
/// the kernel hands over whole.
pub const MAX_PACKET: usize = 65_535;

/// An IP packet, from its IP header on, with its checksums complete.
///
/// Where a cable passes offloaded segments whole (see [`crate::offload`]), `offload` keeps what the
/// kernel said about the segment; no stage that looks at single packets ever sees such a one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The bytes, IP header first.
    pub bytes: Vec<u8>,
    pub(crate) offload: Option<crate::offload::Header>,
}

impl Packet {
    /// A packet of these bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, offload: None }
    }

    /// The length of the IP packet in bytes.
    #[allow(clippy::len_without_is_empty, reason = "no packet is empty")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}
