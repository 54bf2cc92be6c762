//! Read-ahead in a thread.
//!
//! Reading two gigabytes from the page cache takes as long as parsing the packets in them, and decompressing takes longer.
//! So one thread reads and another parses. Blocks are passed without a copy: a copy would load every byte of every packet
//! into the caches of the processor that needs only the headers.

use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::input::BLOCK;

/// Maximum number of blocks read ahead.
const BLOCKS: usize = 4;

/// Free space before a block's bytes, for a packet that began in the previous block. Longer packets are rare.
const HEADROOM: usize = 64 << 10;

/// A thread that reads ahead. It ends with its source, or with its next block after this is dropped.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    full: Receiver<io::Result<Block>>,
    spent: SyncSender<Vec<u8>>,
    ended: bool,
}

/// Bytes in order: from [`HEADROOM`] on, up to `end`.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    end: usize,
}

impl ReadAhead {
    /// Starts to read `source`. Fails if the system cannot start a thread.
    pub(crate) fn new(source: impl Read + Send + 'static) -> io::Result<Self> {
        let (to_user, full) = sync_channel(BLOCKS);
        let (spent, from_user) = sync_channel(BLOCKS + 2);
        thread::Builder::new().name("capture".into()).spawn(move || read(source, &to_user, &from_user))?;
        Ok(Self { full, spent, ended: false })
    }

    /// Appends the next block to `start..end` of `space`; returns its length, 0 at the end. Other bytes of `space` are
    /// discarded, and the kept ones may move.
    pub(crate) fn read_on(&mut self, space: &mut Vec<u8>, start: &mut usize, end: &mut usize) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        // Without a last block the thread has panicked, and the input is incomplete.
        let Block { mut bytes, end: read } =
            self.full.recv().map_err(|_| io::Error::other("the reading thread failed"))??;
        self.ended = read == HEADROOM;
        let kept = *end - *start;
        if let Some(begin) = HEADROOM.checked_sub(kept) {
            bytes[begin..HEADROOM].copy_from_slice(&space[*start..*end]);
            (*start, *end) = (begin, read);
            std::mem::swap(space, &mut bytes);
        } else {
            space.truncate(*end);
            space.drain(..*start);
            space.extend_from_slice(&bytes[HEADROOM..read]);
            (*start, *end) = (0, space.len());
        }
        if bytes.len() == HEADROOM + BLOCK {
            let _gone = self.spent.try_send(bytes);
        }
        Ok(read - HEADROOM)
    }
}

/// Reads until the source ends or fails, or the receiver is dropped.
fn read(mut source: impl Read, to_user: &SyncSender<io::Result<Block>>, from_user: &Receiver<Vec<u8>>) {
    loop {
        let mut bytes = from_user.try_recv().unwrap_or_else(|_| vec![0; HEADROOM + BLOCK]);
        let block = match source.read(&mut bytes[HEADROOM..]) {
            Ok(read) => Ok(Block { bytes, end: HEADROOM + read }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = !matches!(block, Ok(Block { end, .. }) if end > HEADROOM);
        if to_user.send(block).is_err() || last {
            return;
        }
    }
}
