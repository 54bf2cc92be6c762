//! Each file read from front to back in pieces of 128 KiB, as cat(1) does; by us, since the bytes are kept for the check.

use std::{fs::File, io::Read};

use super::{Done, Failure, Place, WorkError, timed};
use crate::contenders::io_failure;

/// What cat(1) of coreutils reads at a time.
const PIECE: usize = 128 << 10;

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    // Memory that is touched for the first time costs more than a cached read: it is no part of the work.
    let mut kept: Vec<Vec<u8>> = place.task.files().map(|(_, content)| vec![1; content.len() + PIECE]).collect();
    let read = || place.task.files().zip(&mut kept).map(|((name, _), bytes)| whole(place, &name, bytes)).collect();
    let (lengths, done) = timed(read)?;
    let lengths: Vec<usize> = lengths;
    for ((length, bytes), (name, content)) in lengths.into_iter().zip(&kept).zip(place.task.files()) {
        if bytes.get(..length).is_none_or(|read| read != content) {
            return Err(WorkError::Wrong(format!("{name} was read with other content")).into());
        }
    }
    Ok(done)
}

/// Reads the file into `bytes`, which has room for a piece more than expected; returns its length.
fn whole(place: &Place, name: &str, bytes: &mut [u8]) -> Result<usize, Failure> {
    let path = place.file(name);
    let mut file = File::open(&path).map_err(io_failure("open", &path))?;
    let mut length = 0;
    while length < bytes.len() {
        let piece = bytes.len().min(length + PIECE);
        match file.read(&mut bytes[length..piece]).map_err(io_failure("read", &path))? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}
