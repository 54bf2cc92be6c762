//! Reading in large blocks.
//!
//! A capture of two gigabytes has two million packets. Reading it is slow if each needs a system call, an allocation or a
//! copy. So a file is read in blocks, and a packet is borrowed from its block. Only a packet that crosses the end of a
//! block is copied, to before the next block.
//!
//! A record may claim any length. The buffer grows with the bytes that have arrived, never with the claimed length.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Error, read_ahead::ReadAhead};

/// Block size: fits into the processor's L2 cache.
pub(crate) const BLOCK: usize = 256 << 10;

/// An input file, and the number of the next packet.
#[derive(Debug)]
pub(crate) struct Input<R> {
    file: PathBuf,
    supply: Supply<R>,
    space: Vec<u8>,
    /// The unread bytes are from here …
    start: usize,
    /// … to here.
    end: usize,
    /// The number of the next packet, from 1.
    pub(crate) packet: u64,
}

/// Where bytes come from.
#[derive(Debug)]
enum Supply<R> {
    Direct(R),
    Thread(ReadAhead),
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R, file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), supply: Supply::Direct(source), space: vec![0; BLOCK], start: 0, end: 0, packet: 1 }
    }

    /// An input that a thread reads ahead.
    pub(crate) fn ahead(ahead: ReadAhead, file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), supply: Supply::Thread(ahead), space: Vec::new(), start: 0, end: 0, packet: 1 }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// All buffered bytes; at least `len`, unless the file ends before.
    pub(crate) fn ready(&mut self, len: usize) -> Result<&[u8], Error> {
        while self.end - self.start < len {
            match self.read_on(len) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(&self.space[self.start..self.end])
    }

    /// The next `len` bytes; an error if the file ends before.
    pub(crate) fn record(&mut self, len: usize) -> Result<&[u8], Error> {
        if self.ready(len)?.len() < len {
            return Err(self.truncated());
        }
        Ok(&self.space[self.start..self.start + len])
    }

    /// The first `N` bytes of a file of this `format`; an error if it is shorter.
    pub(crate) fn beginning<const N: usize>(&mut self, format: &'static str) -> Result<[u8; N], Error> {
        let wrong = Error::Format { file: self.file.clone(), format };
        self.ready(N)?.first_chunk().copied().ok_or(wrong)
    }

    /// Consumes `len` buffered bytes.
    pub(crate) fn pass(&mut self, len: usize) {
        self.start += len;
    }

    /// The last `len` consumed bytes.
    pub(crate) fn passed(&self, len: usize) -> &[u8] {
        &self.space[self.start - len..self.start]
    }

    /// Reads once, into a buffer of `len` bytes or twice its size, whichever is less.
    #[cold]
    fn read_on(&mut self, len: usize) -> io::Result<usize> {
        let source = match &mut self.supply {
            Supply::Direct(source) => source,
            Supply::Thread(ahead) => return ahead.read_on(&mut self.space, &mut self.start, &mut self.end),
        };
        if self.start > 0 {
            self.space.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.space.len() {
            let longer = len.min(2 * self.space.len());
            self.space.resize(longer, 0);
        }
        let read = loop {
            match source.read(&mut self.space[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.end += read;
        Ok(read)
    }

    /// The error for a failed read, which may be one of decompression.
    fn broken(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => self.truncated(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => self.damaged("the compressed data is damaged"),
            _ => Error::Read { file: self.file.clone(), packet: self.packet, source },
        }
    }

    pub(crate) fn truncated(&self) -> Error {
        Error::Truncated { file: self.file.clone(), packet: self.packet }
    }

    pub(crate) fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { file: self.file.clone(), packet: self.packet, what }
    }
}

/// Returns the buffered bytes first, so that the beginning of a file can be inspected before it is decompressed.
impl<R: Read> Read for Input<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            if let Supply::Direct(source) = &mut self.supply {
                return source.read(into);
            }
            self.read_on(1)?;
        }
        let len = into.len().min(self.end - self.start);
        into[..len].copy_from_slice(&self.space[self.start..self.start + len]);
        self.pass(len);
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns at most this many bytes at a time, as a pipe does.
    struct Pipe(io::Cursor<Vec<u8>>, usize);

    impl Read for Pipe {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = into.len().min(self.1);
            self.0.read(&mut into[..most])
        }
    }

    #[test]
    fn records_across_blocks_are_complete() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7 / 5) as u8).collect();
        let lengths = [16, 1514, 70_000, 300_000, 1, 65_552, 900_000];
        for most in [usize::MAX, 100_000, 999] {
            let source = || Pipe(io::Cursor::new(bytes.clone()), most);
            let ahead = || Input::<io::Empty>::ahead(ReadAhead::new(source()).unwrap(), "ahead");
            records(&mut Input::new(source(), "here"), &bytes, &lengths);
            records(&mut ahead(), &bytes, &lengths);
            // Another reader continues after the buffered bytes.
            let mut input = ahead();
            assert_eq!(input.ready(5).unwrap()[..5], bytes[..5]);
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            assert!(all == bytes);
        }
    }

    /// Reads records of these lengths in turn.
    fn records(input: &mut Input<impl Read>, bytes: &[u8], lengths: &[usize]) {
        let mut at = 0;
        for len in lengths.iter().cycle() {
            if at + len > bytes.len() {
                assert!(input.record(*len).is_err());
                assert_eq!(input.ready(*len).unwrap(), &bytes[at..]);
                return;
            }
            assert!(input.record(*len).unwrap() == &bytes[at..at + len]);
            input.pass(*len);
            at += len;
            assert!(input.passed(*len) == &bytes[at - len..at]);
            assert!(input.space.len() < 2 * lengths.iter().max().unwrap() + 2 * BLOCK, "{}", input.space.len());
        }
    }
}
