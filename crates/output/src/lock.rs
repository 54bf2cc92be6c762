//! Files that belong to one process at a time.

use std::{
    fs::{File, TryLockError},
    io, thread,
    time::{Duration, Instant},
};

const PAUSE: Duration = Duration::from_millis(20);

/// Takes the exclusive lock of an open file (flock(2)); who has it may keep it for so long. Returns whether it was taken: it
/// ends with the file.
pub fn lock(file: &File, patience: Duration) -> io::Result<bool> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if begin.elapsed() < patience => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_is_taken_once_it_is_free() {
        let scratch = tempfile::tempdir().unwrap();
        let open = || File::create(scratch.path().join("lock")).unwrap();
        let (first, second) = (open(), open());
        assert!(lock(&first, Duration::ZERO).unwrap());
        assert!(!lock(&second, Duration::ZERO).unwrap());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&second, Duration::from_mins(1)).unwrap());
            drop(first);
            assert!(waiting.join().unwrap());
        });
    }
}
