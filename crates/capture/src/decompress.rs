//! Decompression of gzip and zstd captures.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;

/// Magic numbers: RFC 1952 §2.3.1, RFC 8878 §3.1.1.
const GZIP: &[u8] = &[0x1F, 0x8B];
const ZSTD: &[u8] = &[0x28, 0xB5, 0x2F, 0xFD];

/// A compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// The format of a file that begins with `bytes`; `None` if it is not compressed.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            _ if bytes.starts_with(GZIP) => Some(Self::Gzip),
            _ if bytes.starts_with(ZSTD) => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Decompresses `source`. Concatenated files are read as one, as gzip and zstd do.
    pub(crate) fn decompress<'a>(self, source: impl Read + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Self::Gzip => Box::new(Decompressed(MultiGzDecoder::new(source))),
            Self::Zstd => Box::new(Decompressed(zstd::Decoder::new(source)?)),
        })
    }
}

/// A decompressor that reports damaged data as [`io::ErrorKind::InvalidData`], unlike I/O errors.
struct Decompressed<D>(D);

impl<D: Read> Read for Decompressed<D> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => error,
            _ if error.raw_os_error().is_some() => error,
            _ => io::Error::new(io::ErrorKind::InvalidData, error),
        })
    }
}
