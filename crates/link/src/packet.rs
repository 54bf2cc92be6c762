//! One IP packet on a cable.

/// Maximum length of an IP packet (RFC 791 §3.1: a 16-bit total length), and so of an unsplit segment.
pub const MAX_PACKET: usize = 65_535;

/// An IP packet, from its IP header on, with complete checksums.
///
/// If the cable passes unsplit segments (see [`crate::offload`]), `offload` keeps the kernel's header of the segment; no
/// stage that needs single packets ever gets one.
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
