//! Reading ahead, in a thread.
//!
//! To bring two gigabytes out of the system's cache takes as long as to look at the packets in them,
//! and to decompress them takes longer. Neither needs the other's processor.

use std::{
    io::{self, Read},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::input::BLOCK;

/// How many blocks lie ready at most.
const BLOCKS: usize = 4;

/// What a thread reads ahead of its user. It ends with its source, or with its next block once the
/// user is gone.
pub(crate) struct Ahead {
    full: Receiver<io::Result<Block>>,
    spent: SyncSender<Vec<u8>>,
    current: Block,
    ended: bool,
}

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Ahead {
    /// Begins to read `source`. It fails where the system has no thread to spare.
    pub(crate) fn new(source: impl Read + Send + 'static) -> io::Result<Self> {
        let (to_user, full) = sync_channel(BLOCKS);
        let (spent, from_user) = sync_channel(BLOCKS + 2);
        thread::Builder::new().name("capture".into()).spawn(move || read(source, &to_user, &from_user))?;
        Ok(Self { full, spent, current: Block::default(), ended: false })
    }
}

/// Reads until the source ends or fails, or its user is gone.
fn read(mut source: impl Read, to_user: &SyncSender<io::Result<Block>>, from_user: &Receiver<Vec<u8>>) {
    loop {
        let mut bytes = from_user.try_recv().unwrap_or_else(|_| vec![0; BLOCK]);
        let block = match source.read(&mut bytes) {
            Ok(end) => Ok(Block { bytes, start: 0, end }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = !matches!(block, Ok(Block { end: 1.., .. }));
        if to_user.send(block).is_err() || last {
            return;
        }
    }
}

impl Read for Ahead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.current.start == self.current.end {
            if self.ended {
                return Ok(0);
            }
            // Without a last block the thread has panicked, and what it read is not all there is.
            let next = self.full.recv().map_err(|_| io::Error::other("the thread that reads it has failed"))??;
            self.ended = next.end == 0;
            let spent = std::mem::replace(&mut self.current, next).bytes;
            if !spent.is_empty() {
                let _gone = self.spent.try_send(spent);
            }
        }
        let Block { bytes, start, end } = &mut self.current;
        let len = into.len().min(*end - *start);
        into[..len].copy_from_slice(&bytes[*start..*start + len]);
        *start += len;
        Ok(len)
    }
}
