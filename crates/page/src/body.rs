//! Bodies: recorded or synthesised.
//!
//! A synthesised body is a function of its seed and the offset. So any part can be generated without the rest, a body of
//! a gigabyte needs no memory, and the receiver can check every byte. Its bytes look random, so that they cannot be
//! compressed.

use bytes::{Bytes, BytesMut};

/// The body of a request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The recorded bytes.
    Kept(Bytes),
    /// Synthetic bytes of the right length.
    Synthetic {
        /// Bytes.
        len: u64,
        /// Bodies of different seeds differ.
        seed: u64,
    },
}

impl Body {
    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Kept(bytes) => bytes.len() as u64,
            Self::Synthetic { len, .. } => *len,
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes from `offset` on, at most `most` of them; none from the end on.
    pub fn part(&self, offset: u64, most: usize) -> Bytes {
        let len = self.len().saturating_sub(offset).min(most as u64) as usize;
        match self {
            Self::Kept(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
                bytes.slice(start..start + len)
            }
            Self::Synthetic { seed, .. } => {
                let mut part = BytesMut::with_capacity(len + 16);
                let skip = (offset % 8) as usize;
                for word in offset / 8..=(offset + len as u64) / 8 {
                    part.extend_from_slice(&scramble(seed.wrapping_add(word)).to_le_bytes());
                }
                part.freeze().slice(skip..skip + len)
            }
        }
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA
/// 2014): neighbours have nothing in common.
pub(crate) fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A seed from a name: FNV-1a.
pub(crate) fn seed(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_of_a_body_join_to_the_whole(len in 0u64..3000, cuts in proptest::collection::vec(0usize..700, 0..20)) {
            for body in [Body::Synthetic { len, seed: 7 }, Body::Kept((0..len).map(|at| at as u8).collect())] {
                let whole = body.part(0, usize::MAX);
                prop_assert_eq!(whole.len() as u64, len);
                let mut joined = BytesMut::new();
                for most in cuts.iter().copied().chain([3000]) {
                    joined.extend_from_slice(&body.part(joined.len() as u64, most));
                }
                prop_assert_eq!(&whole, &joined);
                prop_assert!(body.part(len, 10).is_empty() && body.part(u64::MAX, 10).is_empty());
            }
        }
    }

    #[test]
    fn synthetic_body_does_not_repeat() {
        let bytes = Body::Synthetic { len: 1 << 16, seed: seed("x") }.part(0, 1 << 16);
        let mut words: Vec<&[u8]> = bytes.chunks(8).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 1 << 13);
        assert_ne!(seed("x"), seed("y"));
    }
}
