//! Numbers in little-endian or big-endian byte order.

/// The byte order of a file, or of a section of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    pub(crate) const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(crate) fn i64(self, bytes: [u8; 8]) -> i64 {
        match self {
            Self::Little => i64::from_le_bytes(bytes),
            Self::Big => i64::from_be_bytes(bytes),
        }
    }

    /// The first `N` numbers of 32 bits in `bytes`, if it is long enough.
    pub(crate) fn words<const N: usize>(self, bytes: &[u8]) -> Option<[u32; N]> {
        let (words, _) = bytes.as_chunks::<4>();
        let words = words.first_chunk::<N>()?;
        Some(words.map(|word| self.u32(word)))
    }
}
