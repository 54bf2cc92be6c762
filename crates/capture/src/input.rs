//! Reading in large blocks.
//!
//! A capture of two gigabytes is two million packets, and what costs time in reading it is neither the
//! disk nor the format but a system call, an allocation or a copy for each of them. So a file is read
//! in blocks, and a packet is lent from where it lies in its block. Only one that lies across the end
//! of a block is moved, together with nothing else, to before the next.
//!
//! A record may claim any length. The space grows with what has arrived, never with what is claimed.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Error, ahead::Ahead};

/// How much is read at a time: it stays in a processor's second cache until it is looked at.
pub(crate) const BLOCK: usize = 256 << 10;

/// A file under way, and the number of the packet to come.
#[derive(Debug)]
pub(crate) struct Input<R> {
    file: PathBuf,
    supply: Supply<R>,
    space: Vec<u8>,
    /// What has arrived and is not passed yet lies from here …
    start: usize,
    /// … to here.
    end: usize,
    /// The number of the packet to come, from 1.
    pub(crate) packet: u64,
}

/// Who reads.
#[derive(Debug)]
enum Supply<R> {
    Here(R),
    Ahead(Ahead),
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R, file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), supply: Supply::Here(source), space: vec![0; BLOCK], start: 0, end: 0, packet: 1 }
    }

    /// What is read ahead.
    pub(crate) fn ahead(ahead: Ahead, file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), supply: Supply::Ahead(ahead), space: Vec::new(), start: 0, end: 0, packet: 1 }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// All that lies ready: `len` bytes at least, unless the file ends before.
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

    /// The next `len` bytes, which a record must have.
    pub(crate) fn record(&mut self, len: usize) -> Result<&[u8], Error> {
        if self.ready(len)?.len() < len {
            return Err(self.truncated());
        }
        Ok(&self.space[self.start..self.start + len])
    }

    /// The next `N` bytes, which a file must begin with to be of this `format`.
    pub(crate) fn beginning<const N: usize>(&mut self, format: &'static str) -> Result<[u8; N], Error> {
        let wrong = Error::Format { file: self.file.clone(), format };
        self.ready(N)?.first_chunk().copied().ok_or(wrong)
    }

    /// Passes `len` bytes that lie ready.
    pub(crate) fn pass(&mut self, len: usize) {
        self.start += len;
    }

    /// The last `len` bytes passed.
    pub(crate) fn passed(&self, len: usize) -> &[u8] {
        &self.space[self.start - len..self.start]
    }

    /// Reads once, into space that holds `len` bytes or twice what has arrived, whichever is less.
    #[cold]
    fn read_on(&mut self, len: usize) -> io::Result<usize> {
        let source = match &mut self.supply {
            Supply::Here(source) => source,
            Supply::Ahead(ahead) => return ahead.read_on(&mut self.space, &mut self.start, &mut self.end),
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

    /// What a failed read means. A decompressor fails by the same way as a disk.
    fn broken(&self, source: io::Error) -> Error {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => self.truncated(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                self.damaged("what it is compressed in contradicts itself")
            }
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

/// What has arrived is given first, so that a file can be looked at and then decompressed.
impl<R: Read> Read for Input<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            if let Supply::Here(source) = &mut self.supply {
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

    /// Gives what it has a little at a time, as a pipe does.
    struct Drops(io::Cursor<Vec<u8>>, usize);

    impl Read for Drops {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let most = into.len().min(self.1);
            self.0.read(&mut into[..most])
        }
    }

    #[test]
    fn records_are_whole_wherever_blocks_end() {
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at * 7 / 5) as u8).collect();
        let lengths = [16, 1514, 70_000, 300_000, 1, 65_552, 900_000];
        for most in [usize::MAX, 100_000, 999] {
            let source = || Drops(io::Cursor::new(bytes.clone()), most);
            let ahead = || Input::<io::Empty>::ahead(Ahead::new(source()).unwrap(), "ahead");
            records(&mut Input::new(source(), "here"), &bytes, &lengths);
            records(&mut ahead(), &bytes, &lengths);
            // To be read on by somebody else.
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
