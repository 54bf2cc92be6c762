//! Reading ahead, in a thread.
//!
//! To bring two gigabytes out of the system's cache takes as long as to look at the packets in them,
//! and to decompress them takes longer. Neither needs the other's processor. The blocks change hands
//! as they are: to copy them would bring every byte of every packet to the processor that looks at
//! headers only.

use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::input::BLOCK;

/// How many blocks lie ready at most.
const BLOCKS: usize = 4;

/// The bytes before a block's own: room for the packet that began in the block before. Longer ones are
/// rare, as links carry.
const ROOM: usize = 64 << 10;

/// What a thread reads ahead of its user. It ends with its source, or with its next block once the
/// user is gone.
#[derive(Debug)]
pub(crate) struct Ahead {
    full: Receiver<io::Result<Block>>,
    spent: SyncSender<Vec<u8>>,
    ended: bool,
}

/// Bytes in order: from [`ROOM`] on, up to `end`.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    end: usize,
}

impl Ahead {
    /// Begins to read `source`. It fails where the system has no thread to spare.
    pub(crate) fn new(source: impl Read + Send + 'static) -> io::Result<Self> {
        let (to_user, full) = sync_channel(BLOCKS);
        let (spent, from_user) = sync_channel(BLOCKS + 2);
        thread::Builder::new().name("capture".into()).spawn(move || read(source, &to_user, &from_user))?;
        Ok(Self { full, spent, ended: false })
    }

    /// Puts what comes next behind `start..end` of `space`; how much that is, nothing at the end. What
    /// else `space` held is gone, and the bytes that it keeps may lie elsewhere in it.
    pub(crate) fn read_on(&mut self, space: &mut Vec<u8>, start: &mut usize, end: &mut usize) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        // Without a last block the thread has panicked, and what it read is not all there is.
        let Block { mut bytes, end: read } =
            self.full.recv().map_err(|_| io::Error::other("the thread that reads it has failed"))??;
        self.ended = read == ROOM;
        let kept = *end - *start;
        if let Some(begin) = ROOM.checked_sub(kept) {
            bytes[begin..ROOM].copy_from_slice(&space[*start..*end]);
            (*start, *end) = (begin, read);
            std::mem::swap(space, &mut bytes);
        } else {
            space.truncate(*end);
            space.drain(..*start);
            space.extend_from_slice(&bytes[ROOM..read]);
            (*start, *end) = (0, space.len());
        }
        if bytes.len() == ROOM + BLOCK {
            let _gone = self.spent.try_send(bytes);
        }
        Ok(read - ROOM)
    }
}

/// Reads until the source ends or fails, or its user is gone.
fn read(mut source: impl Read, to_user: &SyncSender<io::Result<Block>>, from_user: &Receiver<Vec<u8>>) {
    loop {
        let mut bytes = from_user.try_recv().unwrap_or_else(|_| vec![0; ROOM + BLOCK]);
        let block = match source.read(&mut bytes[ROOM..]) {
            Ok(read) => Ok(Block { bytes, end: ROOM + read }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = !matches!(block, Ok(Block { end, .. }) if end > ROOM);
        if to_user.send(block).is_err() || last {
            return;
        }
    }
}
