//! The digest algorithms, from the weakest to the strongest, and their running state.

use std::fmt;

use md5::{Digest as _, Md5};
use ring::digest;

/// A digest algorithm. The order is that of strength: of several digests, only the strongest is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    /// Adler-32 (RFC 1950 §8.2): detects accidental errors.
    Adler32,
    /// CRC-32C (Castagnoli's polynomial, RFC 9260 appendix A): detects accidental errors.
    Crc32c,
    /// MD5 (RFC 1321): detects accidental errors, but no longer attacks.
    Md5,
    /// SHA-1: the same.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// All algorithms, weakest first.
    pub const ALL: [Self; 6] = [Self::Adler32, Self::Crc32c, Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512];

    /// Its name in the field `Digest`, in the registry's own case.
    pub(super) fn legacy_name(self) -> &'static str {
        match self {
            Self::Adler32 => "ADLER32",
            Self::Crc32c => "CRC32c",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA",
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
        }
    }

    /// Its key in a structured dictionary (RFC 9530 §5). Four-byte checksums are registered too, but without a byte
    /// order, so they are neither read nor written.
    pub(super) fn key(self) -> Option<&'static str> {
        match self {
            Self::Adler32 | Self::Crc32c => None,
            Self::Md5 => Some("md5"),
            Self::Sha1 => Some("sha"),
            Self::Sha256 => Some("sha-256"),
            Self::Sha512 => Some("sha-512"),
        }
    }

    /// Its name in ownCloud's `OC-Checksum`.
    pub(super) fn owncloud_name(self) -> Option<&'static str> {
        match self {
            Self::Adler32 => Some("ADLER32"),
            Self::Md5 => Some("MD5"),
            Self::Sha1 => Some("SHA1"),
            Self::Sha256 => Some("SHA256"),
            Self::Crc32c | Self::Sha512 => None,
        }
    }

    /// The length of its digest in bytes.
    pub(super) fn length(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32c => 4,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adler32 => "Adler-32",
            Self::Crc32c => "CRC-32C",
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
        })
    }
}

/// The running state of an algorithm.
#[derive(Clone)]
pub(super) enum Hasher {
    Adler32(adler2::Adler32),
    Crc32c(u32),
    Md5(Md5),
    Sha(digest::Context),
}

impl Hasher {
    pub(super) fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Adler32 => Self::Adler32(adler2::Adler32::new()),
            Algorithm::Crc32c => Self::Crc32c(0),
            Algorithm::Md5 => Self::Md5(Md5::new()),
            Algorithm::Sha1 => Self::Sha(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            Algorithm::Sha256 => Self::Sha(digest::Context::new(&digest::SHA256)),
            Algorithm::Sha512 => Self::Sha(digest::Context::new(&digest::SHA512)),
        }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Adler32(sum) => sum.write_slice(bytes),
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            Self::Md5(sum) => sum.update(bytes),
            Self::Sha(sum) => sum.update(bytes),
        }
    }

    pub(super) fn finish(self) -> Vec<u8> {
        match self {
            Self::Adler32(sum) => sum.checksum().to_be_bytes().to_vec(),
            Self::Crc32c(sum) => sum.to_be_bytes().to_vec(),
            Self::Md5(sum) => sum.finalize().to_vec(),
            Self::Sha(sum) => sum.finish().as_ref().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_match_known_digests() {
        let digest = |algorithm, bytes: &[u8]| {
            let mut hasher = Hasher::new(algorithm);
            bytes.chunks(1).for_each(|byte| hasher.update(byte));
            let digest = hasher.finish();
            assert_eq!(digest.len(), algorithm.length());
            super::super::field::hex(&digest)
        };
        // The first two are the examples of IANA's registry of digest algorithms, the others those of their RFCs.
        assert_eq!(digest(Algorithm::Adler32, b"Wiki"), "03da0195");
        assert_eq!(digest(Algorithm::Crc32c, b"dog"), "0a72a4df");
        assert_eq!(digest(Algorithm::Md5, b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(digest(Algorithm::Sha1, b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(
            digest(Algorithm::Sha256, b"abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert!(digest(Algorithm::Sha512, b"abc").starts_with("ddaf35a193617abacc417349ae204131"));
    }
}
