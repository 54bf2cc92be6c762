//! Reading in large blocks.
//!
//! A capture of two gigabytes is two million packets, and what costs time in reading it is neither the
//! disk nor the format but a system call, an allocation or a copy for each of them. So a file is read
//! in blocks, and a packet is lent from where it lies in its block. Only one that lies across the end
//! of a block is moved, together with nothing else, to the beginning of the next.
//!
//! A record may claim any length. The space grows with what has arrived, never with what is claimed.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::Error;

/// How much is read at a time: it stays in a processor's second cache until it is looked at.
pub(crate) const BLOCK: usize = 256 << 10;

/// A file under way, and the number of the packet to come.
#[derive(Debug)]
pub(crate) struct Input<R> {
    file: PathBuf,
    source: R,
    space: Vec<u8>,
    /// What has arrived and is not passed yet lies from here …
    start: usize,
    /// … to here.
    end: usize,
    /// The number of the packet to come, from 1.
    pub(crate) packet: u64,
}

impl<R: Read> Input<R> {
    pub(crate) fn new(source: R, file: impl Into<PathBuf>) -> Self {
        Self { file: file.into(), source, space: vec![0; BLOCK], start: 0, end: 0, packet: 1 }
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
        if self.start > 0 {
            self.space.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.space.len() {
            let longer = len.min(2 * self.space.len());
            self.space.resize(longer, 0);
        }
        let read = loop {
            match self.source.read(&mut self.space[self.end..]) {
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
            return self.source.read(into);
        }
        let len = into.len().min(self.end - self.start);
        into[..len].copy_from_slice(&self.space[self.start..self.start + len]);
        self.pass(len);
        Ok(len)
    }
}
