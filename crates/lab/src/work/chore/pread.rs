//! pread(2) of 4 KiB in the middle of each file: what a database or a viewer of a large document does.

use std::{fs::File, os::unix::fs::FileExt};

use super::{Done, Failure, Place, WorkError, timed};
use crate::contenders::io_failure;

/// The bytes that are read.
pub(super) const LENGTH: usize = 4096;

pub(super) fn run(place: &Place) -> Result<Done, Failure> {
    let (parts, done) = timed(|| place.task.files().map(|(name, content)| part(place, &name, content)).collect())?;
    let parts: Vec<Vec<u8>> = parts;
    for (part, (name, content)) in parts.iter().zip(place.task.files()) {
        if content.get(middle(content)..).is_none_or(|rest| !rest.starts_with(part)) {
            let wrong = format!("{name} has other bytes in its middle");
            return Err(WorkError::Wrong(wrong).into());
        }
    }
    Ok(done)
}

fn part(place: &Place, name: &str, content: &[u8]) -> Result<Vec<u8>, Failure> {
    let path = place.file(name);
    let mut part = vec![0; LENGTH.min(content.len())];
    let read = File::open(&path).and_then(|file| file.read_exact_at(&mut part, middle(content) as u64));
    read.map_err(io_failure("read", &path))?;
    Ok(part)
}

/// Where the middle begins, aligned to a page.
fn middle(content: &[u8]) -> usize {
    content.len() / 2 / LENGTH * LENGTH
}
