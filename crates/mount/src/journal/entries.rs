//! What the server does not have yet, and when to try which upload. No I/O.
//!
//! Every closed version of a file is an entry. An entry that was never sent is replaced by the next version of its file; one
//! that was sent stays until its outcome is known, because the next version replaces that one on the server, and has to name
//! it. So the versions of a file are uploaded one after another, and different files at the same time.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, SystemTime},
};

use dav::{RemotePath, Retry};
use nix::errno::Errno;
use tokio::time::Instant;

use super::record::{Id, Record, Version, path_of, path_text, seconds, time};
use crate::{
    file_state::Base,
    tree::{Facts, Ino},
};

/// A closed version of a file that the server lacks.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: Id,
    pub(crate) path: RemotePath,
    /// Its node, once it has one.
    pub(crate) ino: Option<Ino>,
    /// The version that its upload replaces.
    pub(crate) base: Base,
    pub(crate) length: u64,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) closed: SystemTime,
    /// Whether an upload is on its way.
    is_sending: bool,
    /// Whether an earlier upload may have reached the server without our knowledge.
    is_doubtful: bool,
    pub(crate) failures: u32,
    /// Why the last upload failed.
    pub(crate) failure: Option<(Errno, String)>,
    /// When to try (again).
    pub(crate) due: Option<Instant>,
}

/// How an upload has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server has refused it, and would again.
    Refused,
    /// The server does not have it; next time, it may take it.
    Passing,
    /// The outcome is unknown.
    Unknown,
}

/// An upload that has failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) how: Failure,
    pub(crate) errno: Errno,
    pub(crate) why: String,
    /// The pause that the server asks for.
    pub(crate) retry_after: Option<Duration>,
}

/// Something that somebody has to know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) what: String,
}

/// The journal's content. Methods that change it return the records to write.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    all: BTreeMap<Id, Entry>,
    /// The versions of each file, in their order.
    files: HashMap<RemotePath, Vec<Id>>,
    /// The bytes of all entries.
    bytes: u64,
    next: u64,
    /// The paths that an upload, a renaming or a removal is about.
    busy: HashSet<RemotePath>,
    messages: Vec<Message>,
}

impl Entries {
    /// What the records of an earlier mount have left. Any of it may have been sent.
    pub(crate) fn replayed(records: Vec<Record>) -> Self {
        let mut entries = Self { next: 1, ..Self::default() };
        for record in records {
            entries.replay(record);
        }
        entries
    }

    fn replay(&mut self, record: Record) {
        match record {
            Record::Closed { id, path, base, length, modified, at, replaced } => {
                self.remove(&replaced);
                self.next = self.next.max(id.0 + 1);
                let Some(path) = path_of(&path) else { return };
                let (base, modified, closed) = ((&base).into(), modified.map(time), time(at));
                self.insert(Entry { is_doubtful: true, closed, ..Entry::new(id, path, base, length, modified) });
            }
            Record::Renamed { id, path, base, replaced } => {
                self.remove(&replaced);
                if let (Some(entry), Some(path)) = (self.take_out(id), path_of(&path)) {
                    self.insert(Entry { path, base: (&base).into(), ..entry });
                }
            }
            Record::Modified { id, modified } => {
                self.all.entry(id).and_modify(|entry| entry.modified = Some(time(modified)));
            }
            Record::Uploaded { id, version } => self.settle(id, &(&version).into()),
            Record::Removed { ids } => self.remove(&ids),
            Record::Failed { id, why } => {
                self.all.entry(id).and_modify(|entry| entry.failure = Some((Errno::EIO, why)));
            }
            Record::Told { number, at, what } => {
                self.next = self.next.max(number + 1);
                self.messages.push(Message { number, at: time(at), what });
            }
        }
    }

    /// Records that say the same as the whole journal.
    pub(crate) fn records(&self) -> Vec<Record> {
        let mut records: Vec<_> = self.messages.iter().map(Message::record).collect();
        for entry in self.all.values() {
            records.push(entry.record(Vec::new()));
            let failed = entry.failure.as_ref().map(|(_, why)| Record::Failed { id: entry.id, why: why.clone() });
            records.extend(failed);
        }
        records
    }

    fn insert(&mut self, entry: Entry) {
        self.bytes += entry.length;
        let versions = self.files.entry(entry.path.clone()).or_default();
        versions.push(entry.id);
        versions.sort_unstable();
        self.all.insert(entry.id, entry);
    }

    fn take_out(&mut self, id: Id) -> Option<Entry> {
        let entry = self.all.remove(&id)?;
        self.bytes -= entry.length;
        if let Some(versions) = self.files.get_mut(&entry.path) {
            versions.retain(|version| *version != id);
            if versions.is_empty() {
                self.files.remove(&entry.path);
            }
        }
        Some(entry)
    }

    fn remove(&mut self, ids: &[Id]) {
        for id in ids {
            self.take_out(*id);
        }
    }

    /// The numbers of a file's versions, in their order.
    fn versions(&self, path: &RemotePath) -> Vec<Id> {
        self.files.get(path).cloned().unwrap_or_default()
    }

    /// The server has a version: the next one of the same file replaces it.
    fn settle(&mut self, id: Id, base: &Base) {
        let Some(done) = self.take_out(id) else { return };
        for later in self.versions(&done.path) {
            self.all.entry(later).and_modify(|entry| entry.base = base.clone());
        }
    }

    pub(crate) fn next_id(&mut self) -> Id {
        self.next = self.next.max(1) + 1;
        Id(self.next - 1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.all.values()
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Entry> {
        self.all.get(&id)
    }

    /// Gives an entry its node.
    pub(crate) fn set_ino(&mut self, id: Id, ino: Ino) {
        self.all.entry(id).and_modify(|entry| entry.ino = Some(ino));
    }

    /// The first version of a file that the server lacks.
    pub(crate) fn first(&self, path: &RemotePath) -> Option<&Entry> {
        self.all.get(self.files.get(path)?.first()?)
    }

    /// The last closed version of a file.
    pub(crate) fn latest(&self, path: &RemotePath) -> Option<&Entry> {
        self.all.get(self.files.get(path)?.last()?)
    }

    /// The bytes of all entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Forgets the messages up to a number, which somebody has read.
    pub(crate) fn forget_messages(&mut self, until: u64) {
        self.messages.retain(|message| message.number > until);
        self.next = self.next.max(until + 1);
    }

    /// A program has closed a file. Returns the entries that it replaces.
    pub(crate) fn close(&mut self, entry: Entry) -> (Record, Vec<Id>) {
        let mut replaced = self.versions(&entry.path);
        replaced.retain(|id| self.all.get(id).is_some_and(|entry| !entry.is_sent()));
        self.remove(&replaced);
        let record = entry.record(replaced.clone());
        self.insert(entry);
        (record, replaced)
    }

    /// Whether the server has nothing of a file under this path: it is new, and no upload has begun.
    pub(crate) fn is_only_here(&self, path: &RemotePath) -> bool {
        let versions = self.versions(path);
        let is_new = |id: &Id| self.all.get(id).is_some_and(|entry| entry.base == Base::New && !entry.is_sent());
        !versions.is_empty() && versions.iter().all(is_new)
    }

    /// Whether the server may have a version of a file without our knowledge.
    pub(crate) fn is_doubtful(&self, path: &RemotePath) -> bool {
        self.versions(path).iter().any(|id| self.all.get(id).is_some_and(|entry| entry.is_doubtful))
    }

    /// A program has removed the file at a path.
    pub(crate) fn unlink(&mut self, path: &RemotePath) -> (Vec<Record>, Vec<Id>) {
        let ids = self.versions(path);
        self.remove(&ids);
        let record = (!ids.is_empty()).then(|| Record::Removed { ids: ids.clone() });
        (record.into_iter().collect(), ids)
    }

    /// A program has renamed a file. What the journal has at the new path is replaced. If it is only here, its upload
    /// replaces what the server has there as `base`.
    pub(crate) fn rename(&mut self, from: &RemotePath, to: &RemotePath, base: Option<&Base>) -> (Vec<Record>, Vec<Id>) {
        let replaced = self.versions(to);
        self.remove(&replaced);
        let mut records = Vec::new();
        for id in self.versions(from) {
            let Some(entry) = self.take_out(id) else { continue };
            let base = base.unwrap_or(&entry.base).clone();
            let (path, version) = (path_text(to), (&base).into());
            // With the first record, so that a crash leaves one of both files.
            let replaced = if records.is_empty() { replaced.clone() } else { Vec::new() };
            records.push(Record::Renamed { id, path, base: version, replaced });
            self.insert(Entry { path: to.clone(), base, ..entry });
        }
        if records.is_empty() && !replaced.is_empty() {
            records.push(Record::Removed { ids: replaced.clone() });
        }
        (records, replaced)
    }

    /// A folder above an entry has another name.
    pub(crate) fn repath(&mut self, id: Id, path: &RemotePath) -> Option<Record> {
        let entry = self.take_out(id)?;
        let record = Record::Renamed { id, path: path_text(path), base: (&entry.base).into(), replaced: Vec::new() };
        self.insert(Entry { path: path.clone(), is_sending: false, ..entry });
        Some(record)
    }

    /// A program has set the modification time of a file.
    pub(crate) fn modify(&mut self, path: &RemotePath, modified: SystemTime) -> Option<Record> {
        let id = self.latest(path).filter(|entry| !entry.is_sent())?.id;
        self.all.get_mut(&id)?.modified = Some(modified);
        Some(Record::Modified { id, modified: seconds(modified) })
    }

    /// Takes paths for something that nobody else may do with them meanwhile. False if one is taken.
    pub(crate) fn take(&mut self, paths: &[RemotePath]) -> bool {
        let is_free = paths.iter().all(|path| !self.busy.contains(path));
        if is_free {
            self.busy.extend(paths.iter().cloned());
        }
        is_free
    }

    pub(crate) fn give_back(&mut self, paths: &[RemotePath]) {
        self.busy.retain(|path| !paths.contains(path));
    }

    /// The next upload, whose path is taken now; or when to ask again.
    pub(crate) fn begin(&mut self, now: Instant) -> Result<Entry, Option<Instant>> {
        let mut soonest = None::<Instant>;
        for entry in self.all.values_mut() {
            let is_first = self.files.get(&entry.path).is_some_and(|versions| versions.first() == Some(&entry.id));
            if !is_first || self.busy.contains(&entry.path) {
                continue;
            }
            if let Some(due) = entry.due.filter(|due| *due > now) {
                soonest = Some(soonest.map_or(due, |soonest| soonest.min(due)));
                continue;
            }
            entry.is_sending = true;
            self.busy.insert(entry.path.clone());
            return Ok(entry.clone());
        }
        Err(soonest)
    }

    /// The server has an entry, as the version `facts`.
    pub(crate) fn uploaded(&mut self, id: Id, facts: &Facts) -> Record {
        let base = Base::Version(facts.clone());
        self.settle(id, &base);
        Record::Uploaded { id, version: Version::from(&base) }
    }

    /// An upload has failed, and is to be tried again later.
    pub(crate) fn failed(&mut self, id: Id, failed: Failed, now: Instant) -> Option<Record> {
        let Failed { how, errno, why, retry_after } = failed;
        let entry = self.all.get_mut(&id)?;
        entry.failures += 1;
        entry.is_sending = false;
        entry.is_doubtful |= how == Failure::Unknown;
        let retry = if how == Failure::Refused { Retry::Refused } else { Retry::Later };
        entry.due = Some(now + retry.pause(entry.failures, retry_after));
        let is_news = entry.failure.as_ref().is_none_or(|(_, before)| *before != why);
        entry.failure = Some((errno, why.clone()));
        is_news.then_some(Record::Failed { id, why })
    }

    /// An upload has ended without an outcome, by a panic: if it is still on its way, nobody knows whether the server has it.
    pub(crate) fn break_off(&mut self, id: Id, now: Instant) {
        if self.get(id).is_some_and(|entry| entry.is_sending) {
            let why = "an error in this program has ended its upload; see the log".into();
            let failed = Failed { how: Failure::Unknown, errno: Errno::EIO, why, retry_after: None };
            self.failed(id, failed, now);
        }
    }

    /// Somebody waits for a file: it is tried at once.
    pub(crate) fn hurry(&mut self, path: &RemotePath) {
        for id in self.versions(path) {
            self.all.entry(id).and_modify(|entry| entry.due = None);
        }
    }

    /// Somebody else has changed the file, so the server has an entry under another path. Later versions follow it there.
    pub(crate) fn set_aside(&mut self, id: Id, path: &RemotePath, facts: &Facts) -> Vec<Record> {
        let before = self.all.get(&id).map(|entry| entry.path.clone());
        let mut records = vec![self.uploaded(id, facts)];
        for later in before.map(|before| self.versions(&before)).unwrap_or_default() {
            records.extend(self.repath(later, path));
        }
        records
    }

    /// An entry is given up: it is kept elsewhere.
    pub(crate) fn give_up(&mut self, id: Id) -> Record {
        self.remove(&[id]);
        Record::Removed { ids: vec![id] }
    }

    /// Notes something that somebody has to know.
    pub(crate) fn tell(&mut self, what: String) -> Record {
        let message = Message { number: self.next_id().0, at: SystemTime::now(), what };
        let record = message.record();
        self.messages.push(message);
        record
    }
}

impl Entry {
    pub(crate) fn new(id: Id, path: RemotePath, base: Base, length: u64, modified: Option<SystemTime>) -> Self {
        let closed = SystemTime::now();
        let (ino, is_sending, is_doubtful, failures, failure, due) = (None, false, false, 0, None, None);
        Self { id, path, ino, base, length, modified, closed, is_sending, is_doubtful, failures, failure, due }
    }

    /// What a program sees of it.
    pub(crate) fn facts(&self) -> Facts {
        Facts { length: self.length, modified: self.modified.or(Some(self.closed)), etag: None }
    }

    /// Whether an earlier upload may have reached the server.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Whether the server may have it.
    pub(crate) fn is_sent(&self) -> bool {
        self.is_sending || self.is_doubtful
    }

    fn record(&self, replaced: Vec<Id>) -> Record {
        Record::Closed {
            id: self.id,
            path: path_text(&self.path),
            base: (&self.base).into(),
            length: self.length,
            modified: self.modified.map(seconds),
            at: seconds(self.closed),
            replaced,
        }
    }
}

impl Message {
    fn record(&self) -> Record {
        Record::Told { number: self.number, at: seconds(self.at), what: self.what.clone() }
    }
}

#[cfg(test)]
mod tests;
