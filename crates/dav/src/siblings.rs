//! Which files of a folder to fetch before somebody reads them: for a mount, and for a gateway.
//!
//! `tar c`, `cp -r`, `grep -r` and `git status` read the files of a folder one after another, in the order in which a
//! mount lists them, which is that of their names. Each small file would cost a round trip. So a second file read in order opens a
//! window of the next ones, which doubles as long as the program goes on, and closes when it reads elsewhere. The window is
//! refilled when half of it has been read, so that the link does not fall idle. Where the folder ends, the window goes on with
//! the files of the folders that come next (`walk`), as far as they are listed.
//!
//! The budget: at most [`FILES`] files and [`BYTES`] bytes beyond what is read, and no file above [`LARGEST`], whose own
//! read-ahead fills the link. A program that stops in the middle has cost no more than that.

use std::cmp::Ordering;

/// The largest window, in files.
const FILES: usize = 256;
/// The largest window, in bytes: at 100 Mbit/s and 200 ms, 2.5 MB are in flight.
const BYTES: u64 = 4 * 1024 * 1024;
/// The first window, in files.
const FIRST: usize = 8;
/// The size of the largest file that is fetched ahead, in bytes.
pub const LARGEST: u64 = 256 * 1024;
/// How many files a program may leave out, and still reads in order: several threads, or a filter by name.
const LEFT_OUT: usize = 16;

/// A file after the one that is read, in the order of names. `F` is what the caller calls it.
#[derive(Debug, Clone)]
pub struct Sibling<F> {
    /// Its name, or whatever else the caller orders files by.
    pub name: Vec<u8>,
    /// The file.
    pub file: F,
    /// Its length in bytes.
    pub length: u64,
}

/// What a window has left for other folders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// The number of files.
    pub files: usize,
    bytes: u64,
}

/// How a folder's files are read.
#[derive(Debug, Default)]
pub struct Siblings {
    /// The last file in order.
    last: Option<Vec<u8>>,
    /// The number of files to have ahead.
    window: usize,
    /// The last file that was fetched ahead.
    until: Vec<u8>,
}

impl Siblings {
    /// A program begins to read the file `name`. `after` gives the files after a name. Returns those to fetch now, and what
    /// is left for the next folders.
    pub fn read<F, I: Iterator<Item = Sibling<F>>>(
        &mut self,
        name: &[u8],
        after: impl Fn(&[u8]) -> I,
    ) -> (Vec<F>, Room) {
        if !self.is_in_order(name, &after) {
            *self = Self { last: Some(name.to_vec()), ..Self::default() };
            return <_>::default();
        }
        if self.last.as_deref().is_none_or(|last| last < name) {
            self.last = Some(name.to_vec());
        }
        let last = self.last.as_deref().unwrap_or(name);
        let is_fetched = |sibling: &Sibling<F>| sibling.name <= self.until;
        let ahead = after(last).take(self.window).take_while(is_fetched).count();
        if ahead > self.window / 2 {
            return <_>::default();
        }
        self.window = (self.window * 2).clamp(FIRST, FILES);
        let room = Room { files: self.window, bytes: BYTES };
        let files = after(last);
        self.fill(room, files)
    }

    /// A program that reads in order will come to this folder, with these files, when it has read the ones before. Returns
    /// those to fetch now, and what is left of `room`.
    pub fn enter<F>(&mut self, room: Room, files: impl Iterator<Item = Sibling<F>>) -> (Vec<F>, Room) {
        if self.last.is_some() {
            // It was read before, perhaps by another program.
            *self = Self::default();
        }
        self.window = self.window.max(room.files);
        self.fill(room, files)
    }

    fn fill<F>(&mut self, mut room: Room, files: impl Iterator<Item = Sibling<F>>) -> (Vec<F>, Room) {
        let mut wanted = Vec::new();
        for sibling in files.take(room.files) {
            let is_small = sibling.length <= LARGEST;
            let bytes = if is_small { sibling.length } else { 0 };
            if bytes > room.bytes {
                return (wanted, Room::default());
            }
            room = Room { files: room.files - 1, bytes: room.bytes - bytes };
            if sibling.name > self.until {
                wanted.extend(is_small.then_some(sibling.file));
                self.until = sibling.name;
            }
        }
        (wanted, room)
    }

    /// Whether a file follows the last one or lies between it and what was fetched ahead; or, if the order is known,
    /// precedes it.
    fn is_in_order<F, I: Iterator<Item = Sibling<F>>>(&self, name: &[u8], after: impl Fn(&[u8]) -> I) -> bool {
        let Some(last) = self.last.as_deref() else { return self.window > 0 && name <= self.until.as_slice() };
        let follows = |one: &[u8], other: &[u8]| after(one).take(LEFT_OUT).any(|sibling| sibling.name == other);
        match last.cmp(name) {
            Ordering::Less => name <= self.until.as_slice() || follows(last, name),
            Ordering::Equal => self.window > 0,
            Ordering::Greater => self.window > 0 && follows(name, last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u64) -> Vec<u8> {
        format!("{number:06}").into_bytes()
    }

    /// What a program's read of the file `number` fetches, in a folder of `count` files of this length.
    fn read(siblings: &mut Siblings, number: u64, count: u64, length: u64) -> Vec<u64> {
        let after = |last: &[u8]| {
            let first = String::from_utf8_lossy(last).parse::<u64>().unwrap() + 1;
            (first..count).map(move |file| Sibling { name: name(file), file, length })
        };
        siblings.read(&name(number), after).0
    }

    #[test]
    fn files_in_order_are_fetched_once_each_and_within_the_budget() {
        for length in [1000, 100_000, LARGEST + 1] {
            let mut siblings = Siblings::default();
            let mut fetched = Vec::new();
            for number in 0..5000 {
                fetched.extend(read(&mut siblings, number, 5000, length));
                let ahead = fetched.iter().filter(|fetched| **fetched > number).count();
                assert!(ahead <= FILES && ahead as u64 * length <= BYTES, "{ahead}");
            }
            // The first two show the order.
            let expected: Vec<_> = if length > LARGEST { Vec::new() } else { (2..5000).collect() };
            assert_eq!(fetched, expected);
        }
    }

    #[test]
    fn files_out_of_order_are_not_fetched() {
        let mut siblings = Siblings::default();
        for number in [500, 100, 900, 300] {
            assert_eq!(read(&mut siblings, number, 1000, 1000), [0; 0]);
        }
        assert_eq!(read(&mut siblings, 301, 1000, 1000), (302..302 + FIRST as u64).collect::<Vec<_>>());
    }

    #[test]
    fn the_window_goes_on_in_the_next_folder() {
        let (mut first, mut second, mut fetched) = (Siblings::default(), Siblings::default(), Vec::new());
        let file = |file| Sibling { name: name(file), file, length: 1000 };
        let after = |last: &[u8], count| {
            (String::from_utf8_lossy(last).parse().map_or(0, |last: u64| last + 1)..count).map(file)
        };
        for number in 0..20 {
            let (wanted, room) = first.read(&name(number), |last| after(last, 20));
            let (more, _) = second.enter(room, after(b"", 30));
            assert!(wanted.len() + more.len() <= FILES);
            fetched.extend(more);
        }
        for number in 0..30 {
            fetched.extend(second.read(&name(number), |last| after(last, 30)).0);
        }
        assert_eq!(fetched, (0..30).collect::<Vec<_>>(), "each once, the first as well");
    }

    #[test]
    fn several_threads_that_share_the_files_read_in_order() {
        let mut siblings = Siblings::default();
        let mut fetched = Vec::new();
        for number in (0..200).step_by(4) {
            for number in [number + 2, number, number + 3, number + 1] {
                fetched.extend(read(&mut siblings, number, 1000, 1000));
            }
        }
        assert!(fetched.len() > 190 && fetched.windows(2).all(|pair| pair[0] < pair[1]), "{fetched:?}");
    }
}
