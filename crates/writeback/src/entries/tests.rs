//! Random programs, uploads and crashes, against a map of what the server should have in the end.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use dav::ETag;

use super::*;
use crate::record;

#[derive(Debug, Clone)]
enum Step {
    Close(u8),
    Unlink(u8),
    Rename(u8, u8),
    Begin,
    /// The oldest upload on its way ends: it is stored, refused, or nobody knows.
    End(u8),
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_u8).prop_map(Step::Close),
        1 => (0..4_u8).prop_map(Step::Unlink),
        2 => (0..4_u8, 0..4_u8).prop_map(|(from, to)| Step::Rename(from, to)),
        4 => Just(Step::Begin),
        4 => (0..3_u8).prop_map(Step::End),
        1 => Just(Step::Crash),
    ]
}

fn path(number: u8) -> RemotePath {
    RemotePath::root().join(&[b'a' + number], false).unwrap()
}

#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
struct Nothing {}

/// A version of the server: its number is its entity tag.
fn version(number: u64) -> Facts {
    Facts { length: 1, modified: None, etag: ETag::parse(&format!("\"{number}\"")) }
}

/// The server, and what it should have.
#[derive(Default)]
struct World {
    entries: Entries<Nothing>,
    records: Vec<Record<Nothing>>,
    /// The content of each entry, by its number.
    contents: HashMap<Id, u64>,
    /// Version and content of each file.
    server: BTreeMap<RemotePath, (u64, u64)>,
    versions: u64,
    expected: BTreeMap<RemotePath, u64>,
    /// Uploads on their way, and whether they have taken effect.
    sending: Vec<Entry<Nothing>>,
    now: Option<Instant>,
}

impl World {
    fn base(&self, path: &RemotePath) -> Base {
        self.server.get(path).map_or(Base::New, |(number, _)| Base::Version(version(*number)))
    }

    /// What a program that opens the file begins with.
    fn known(&self, path: &RemotePath) -> Base {
        self.entries.latest(path).map_or_else(|| self.base(path), |entry| entry.base.clone())
    }

    fn is_busy(&self, path: &RemotePath) -> bool {
        self.sending.iter().any(|entry| entry.path == *path)
    }

    fn begin(&mut self) -> bool {
        let begun = self.entries.begin(self.now.unwrap());
        begun.map(|entry| self.sending.push(entry)).is_ok()
    }

    /// A PUT with its precondition. An upload that may have arrived before is compared first, as the queue does.
    fn put(&mut self, entry: &Entry<Nothing>) -> Option<Facts> {
        let content = self.contents[&entry.id];
        if let Some((number, is)) = self.server.get(&entry.path)
            && entry.is_doubtful
            && *is == content
        {
            return Some(version(*number));
        }
        if self.base(&entry.path) != entry.base {
            return None;
        }
        self.versions += 1;
        self.server.insert(entry.path.clone(), (self.versions, content));
        Some(version(self.versions))
    }

    fn fail(&mut self, id: Id, how: Failure) {
        let failed = Failed { how, errno: Errno::EIO, why: format!("{how:?}"), retry_after: None };
        self.entries.failed(id, failed, self.now.unwrap());
    }

    fn end(&mut self, how: u8) -> Result<(), TestCaseError> {
        let entry = self.sending.remove(0);
        if how == 1 {
            self.fail(entry.id, Failure::Passing);
        } else {
            let stored = self.put(&entry);
            prop_assert!(stored.is_some(), "a conflict with itself: {entry:?}, {:?}", self.server.get(&entry.path));
            if let Some(facts) = stored.filter(|_| how == 0) {
                self.entries.uploaded(entry.id, &facts);
            } else {
                self.fail(entry.id, Failure::Unknown);
            }
        }
        self.entries.give_back(std::slice::from_ref(&entry.path));
        Ok(())
    }

    fn apply(&mut self, step: &Step, content: u64) -> Result<(), TestCaseError> {
        match step {
            Step::Close(file) => {
                let (path, id) = (path(*file), self.entries.next_id());
                let entry = Entry::new(id, path.clone(), self.known(&path), 1, None);
                self.contents.insert(id, content);
                self.entries.close(entry);
                self.expected.insert(path, content);
            }
            // Names wait for uploads of the same file; what the server may have is deleted and renamed there.
            Step::Unlink(file) if !self.is_busy(&path(*file)) => {
                let path = path(*file);
                self.server.remove(&path);
                self.entries.unlink(&path);
                self.expected.remove(&path);
            }
            Step::Rename(from, to) if from != to && ![from, to].into_iter().any(|file| self.is_busy(&path(*file))) => {
                let (from, to) = (path(*from), path(*to));
                if !self.entries.is_only_here(&from) || self.entries.is_doubtful(&to) {
                    return Ok(());
                }
                let base = self.known(&to);
                self.entries.rename(&from, &to, Some(&base));
                let content = self.expected.remove(&from).unwrap();
                self.expected.insert(to, content);
            }
            Step::Begin => drop(self.begin()),
            Step::End(how) if !self.sending.is_empty() => self.end(*how)?,
            Step::Crash => {
                // Some of what was on its way has arrived.
                for (number, entry) in std::mem::take(&mut self.sending).into_iter().enumerate() {
                    if number % 2 == 0 {
                        self.put(&entry);
                    }
                }
                let text: String = self.records.iter().map(record::line).collect();
                self.entries = Entries::replayed(record::parse(text.as_bytes()).unwrap().records);
                self.records = self.entries.records();
            }
            _ => {}
        }
        self.records.extend(self.entries.take_changes().records);
        self.now = self.now.map(|now| now + Duration::from_mins(10));
        Ok(())
    }
}

proptest! {
    /// Whatever programs do, whichever uploads fail and whenever the mount is killed: in the end the server has the last closed
    /// version of every file, and no upload takes another of ours for somebody else's.
    #[test]
    fn the_server_gets_the_last_closed_version_of_each_file(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World { entries: Entries::replayed(Vec::new()), now: Some(Instant::now()), ..World::default() };
        for (number, step) in steps.iter().enumerate() {
            world.apply(step, number as u64)?;
        }
        while world.begin() || !world.sending.is_empty() {
            world.end(0)?;
        }
        let is: BTreeMap<_, _> = world.server.iter().map(|(path, (_, content))| (path.clone(), *content)).collect();
        prop_assert_eq!(is, world.expected);
        prop_assert_eq!((world.entries.bytes(), world.entries.iter().count()), (0, 0));
    }
}
