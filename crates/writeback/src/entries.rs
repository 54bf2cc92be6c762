//! What the server does not have yet, and when to try which upload. No I/O.
//!
//! Every closed version of a file is an entry. An entry that was never sent is replaced by the next version of its file; one
//! that was sent stays until its outcome is known, because the next version replaces that one on the server, and has to name
//! it. So the versions of a file are uploaded one after another, and different files at the same time.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    time::{Duration, SystemTime},
};

use dav::{RemotePath, Retry};
use nix::errno::Errno;
use tokio::time::Instant;

use crate::{
    clock,
    record::{Details, Id, Record, path_of, path_text},
    version::{Base, Facts, seconds, time},
};

/// A closed version of a file that the server lacks.
#[derive(Debug, Clone)]
pub struct Entry<D> {
    /// Its number, which also names its content.
    pub id: Id,
    /// Where it goes.
    pub path: RemotePath,
    /// The version that its upload replaces.
    pub base: Base,
    /// In bytes.
    pub length: u64,
    /// The modification time that a program has set.
    pub modified: Option<SystemTime>,
    /// When its program closed it.
    pub closed: SystemTime,
    /// What else its program knows of it.
    pub details: D,
    /// Whether an upload is on its way.
    is_sending: bool,
    /// Whether an earlier upload may have reached the server without our knowledge.
    is_doubtful: bool,
    /// How often its upload has failed.
    pub failures: u32,
    /// Why the last upload failed.
    pub failure: Option<(Errno, String)>,
    /// When to try (again).
    pub due: Option<Instant>,
}

/// How an upload has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The server has refused it, and would again.
    Refused,
    /// The server does not have it; next time, it may take it.
    Passing,
    /// The outcome is unknown.
    Unknown,
}

/// An upload that has failed.
#[derive(Debug)]
pub struct Failed {
    /// Whether the server may have it.
    pub how: Failure,
    /// What programs that wait for it are told.
    pub errno: Errno,
    /// What people are told.
    pub why: String,
    /// The pause that the server asks for.
    pub retry_after: Option<Duration>,
}

/// Something that somebody has to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Of all messages and entries of a journal, no two have the same.
    pub number: u64,
    /// When it happened.
    pub at: SystemTime,
    /// The sentence.
    pub what: String,
}

/// The journal's content, and what of it is not on disk yet.
#[derive(Debug, Default)]
pub struct Entries<D> {
    all: BTreeMap<Id, Entry<D>>,
    /// The versions of each file, in their order.
    files: HashMap<RemotePath, Vec<Id>>,
    /// The bytes of all entries.
    bytes: u64,
    next: u64,
    /// The paths that an upload, a renaming or a removal is about.
    busy: HashSet<RemotePath>,
    messages: Vec<Message>,
    changes: Changes<D>,
}

/// What has to be done on disk.
#[derive(Debug, Default)]
pub(crate) struct Changes<D> {
    /// To be written, in their order.
    pub(crate) records: Vec<Record<D>>,
    /// Their contents are deleted once the records that say so are on disk.
    pub(crate) useless: Vec<Id>,
}

impl<D: Details> Entries<D> {
    /// What the records of an earlier process have left. Any of it may have been sent.
    pub(crate) fn replayed(records: Vec<Record<D>>) -> Self {
        let mut entries = Self { next: 1, ..Self::default() };
        for record in records {
            entries.replay(record);
        }
        entries.changes = Changes::default();
        entries
    }

    fn replay(&mut self, record: Record<D>) {
        match record {
            Record::Closed { id, path, base, length, modified, at, replaced, details } => {
                self.remove(&replaced);
                self.next = self.next.max(id.0 + 1);
                let Some(path) = path_of(&path) else { return };
                let entry = Entry::new(id, path, base, length, modified.map(time));
                self.insert(Entry { is_doubtful: true, closed: time(at), details, ..entry });
            }
            Record::Renamed { id, path, base, replaced } => {
                self.remove(&replaced);
                if let (Some(entry), Some(path)) = (self.take_out(id), path_of(&path)) {
                    self.insert(Entry { path, base, ..entry });
                }
            }
            Record::Modified { id, modified } => {
                self.all.entry(id).and_modify(|entry| entry.modified = Some(time(modified)));
            }
            Record::Changed { id, details } => {
                self.all.entry(id).and_modify(|entry| entry.details = details);
            }
            Record::Uploaded { id, version } => self.settle(id, &version),
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
    pub(crate) fn records(&self) -> Vec<Record<D>> {
        let mut records: Vec<_> = self.messages.iter().map(Message::record).collect();
        for entry in self.all.values() {
            records.push(entry.record(Vec::new()));
            let failed = entry.failure.as_ref().map(|(_, why)| Record::Failed { id: entry.id, why: why.clone() });
            records.extend(failed);
        }
        records
    }

    /// What has to be done on disk, and is from now on the caller's task.
    pub(crate) fn take_changes(&mut self) -> Changes<D> {
        mem::take(&mut self.changes)
    }

    /// It could not be done, and comes before what has changed since.
    pub(crate) fn put_back(&mut self, mut changes: Changes<D>) {
        changes.records.append(&mut self.changes.records);
        changes.useless.append(&mut self.changes.useless);
        self.changes = changes;
    }

    /// Whether nothing has to be done on disk.
    pub fn is_written(&self) -> bool {
        self.changes.records.is_empty() && self.changes.useless.is_empty()
    }

    /// Entries that the next process would not know.
    pub fn unrecorded(&self) -> Vec<Entry<D>> {
        let id = |record: &Record<D>| if let Record::Closed { id, .. } = record { Some(*id) } else { None };
        self.changes.records.iter().filter_map(id).filter_map(|id| self.get(id).cloned()).collect()
    }

    fn note(&mut self, record: Record<D>) {
        self.changes.records.push(record);
    }

    fn insert(&mut self, entry: Entry<D>) {
        self.bytes += entry.length;
        let versions = self.files.entry(entry.path.clone()).or_default();
        versions.push(entry.id);
        versions.sort_unstable();
        self.all.insert(entry.id, entry);
    }

    fn take_out(&mut self, id: Id) -> Option<Entry<D>> {
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
        self.changes.useless.extend(ids);
    }

    /// The numbers of a file's versions, in their order.
    fn versions(&self, path: &RemotePath) -> Vec<Id> {
        self.files.get(path).cloned().unwrap_or_default()
    }

    /// The server has a version: the next one of the same file replaces it.
    fn settle(&mut self, id: Id, base: &Base) {
        let Some(done) = self.take_out(id) else { return };
        self.changes.useless.push(id);
        for later in self.versions(&done.path) {
            self.all.entry(later).and_modify(|entry| entry.base = base.clone());
        }
    }

    /// A number for a new entry.
    pub fn next_id(&mut self) -> Id {
        self.next = self.next.max(1) + 1;
        Id(self.next - 1)
    }

    /// All entries, the longest closed first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<D>> {
        self.all.values()
    }

    /// An entry, unless it is done with.
    pub fn get(&self, id: Id) -> Option<&Entry<D>> {
        self.all.get(&id)
    }

    /// Changes what a program knows of an entry, for as long as it runs.
    pub fn set(&mut self, id: Id, change: impl FnOnce(&mut D)) {
        self.all.entry(id).and_modify(|entry| change(&mut entry.details));
    }

    /// Changes what a program knows of an entry for good.
    pub fn change(&mut self, id: Id, change: impl FnOnce(&mut D)) {
        self.set(id, change);
        if let Some(entry) = self.all.get(&id) {
            self.note(Record::Changed { id, details: entry.details.clone() });
        }
    }

    /// The first version of a file that the server lacks.
    pub fn first(&self, path: &RemotePath) -> Option<&Entry<D>> {
        self.all.get(self.files.get(path)?.first()?)
    }

    /// The last closed version of a file.
    pub fn latest(&self, path: &RemotePath) -> Option<&Entry<D>> {
        self.all.get(self.files.get(path)?.last()?)
    }

    /// The bytes of all entries.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What somebody has to know.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Forgets the messages up to a number, which somebody has read.
    pub fn forget_messages(&mut self, until: u64) {
        self.messages.retain(|message| message.number > until);
        self.next = self.next.max(until + 1);
    }

    /// Adds a version, and replaces none.
    pub fn add(&mut self, entry: Entry<D>) {
        self.add_over(entry, Vec::new());
    }

    fn add_over(&mut self, entry: Entry<D>, replaced: Vec<Id>) {
        self.remove(&replaced);
        self.note(entry.record(replaced));
        self.next = self.next.max(entry.id.0 + 1);
        self.insert(entry);
    }

    /// A program has closed a file. Earlier versions that were never sent are replaced.
    pub fn close(&mut self, entry: Entry<D>) {
        let mut replaced = self.versions(&entry.path);
        replaced.retain(|id| self.all.get(id).is_some_and(|entry| !entry.is_sent()));
        self.add_over(entry, replaced);
    }

    /// Whether the server has nothing of a file under this path: it is new, and no upload has begun.
    pub fn is_only_here(&self, path: &RemotePath) -> bool {
        let versions = self.versions(path);
        let is_new = |id: &Id| self.all.get(id).is_some_and(|entry| entry.base == Base::New && !entry.is_sent());
        !versions.is_empty() && versions.iter().all(is_new)
    }

    /// Whether the server may have a version of a file without our knowledge.
    pub fn is_doubtful(&self, path: &RemotePath) -> bool {
        self.versions(path).iter().any(|id| self.all.get(id).is_some_and(|entry| entry.is_doubtful))
    }

    /// A program has removed the file at a path.
    pub fn unlink(&mut self, path: &RemotePath) {
        let ids = self.versions(path);
        if !ids.is_empty() {
            self.remove(&ids);
            self.note(Record::Removed { ids });
        }
    }

    /// A program has renamed a file. What the journal has at the new path is replaced. If it is only here, its upload
    /// replaces what the server has there as `base`.
    pub fn rename(&mut self, from: &RemotePath, to: &RemotePath, base: Option<&Base>) {
        let mut replaced = self.versions(to);
        self.remove(&replaced);
        for id in self.versions(from) {
            let Some(entry) = self.take_out(id) else { continue };
            let base = base.unwrap_or(&entry.base).clone();
            // With the first record, so that a crash leaves one of both files.
            let replaced = mem::take(&mut replaced);
            self.note(Record::Renamed { id, path: path_text(to), base: base.clone(), replaced });
            self.insert(Entry { path: to.clone(), base, ..entry });
        }
        if !replaced.is_empty() {
            self.note(Record::Removed { ids: replaced });
        }
    }

    /// A folder above an entry has another name.
    pub fn repath(&mut self, id: Id, path: &RemotePath) {
        let Some(entry) = self.take_out(id) else { return };
        self.note(Record::Renamed { id, path: path_text(path), base: entry.base.clone(), replaced: Vec::new() });
        self.insert(Entry { path: path.clone(), is_sending: false, ..entry });
    }

    /// An upload replaces another version of the server's than was known.
    pub fn rebase(&mut self, id: Id, base: Base) {
        if let Some(entry) = self.all.get_mut(&id) {
            entry.base = base.clone();
            let record = Record::Renamed { id, path: path_text(&entry.path), base, replaced: Vec::new() };
            self.note(record);
        }
    }

    /// A program has set the modification time of a file.
    pub fn modify(&mut self, path: &RemotePath, modified: SystemTime) {
        let Some(id) = self.latest(path).filter(|entry| !entry.is_sent()).map(|entry| entry.id) else { return };
        self.all.entry(id).and_modify(|entry| entry.modified = Some(modified));
        self.note(Record::Modified { id, modified: seconds(modified) });
    }

    /// Takes paths for something that nobody else may do with them meanwhile. False if one is taken.
    pub fn take(&mut self, paths: &[RemotePath]) -> bool {
        let is_free = paths.iter().all(|path| !self.busy.contains(path));
        if is_free {
            self.busy.extend(paths.iter().cloned());
        }
        is_free
    }

    /// Others may take the paths again.
    pub fn give_back(&mut self, paths: &[RemotePath]) {
        self.busy.retain(|path| !paths.contains(path));
    }

    /// The next upload, whose path is taken now; or when to ask again.
    pub fn begin(&mut self, now: Instant) -> Result<Entry<D>, Option<Instant>> {
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
    pub fn uploaded(&mut self, id: Id, facts: &Facts) {
        let version = Base::Version(facts.clone());
        self.settle(id, &version);
        self.note(Record::Uploaded { id, version });
    }

    /// An upload has failed, and is to be tried again after the pause that is returned.
    pub fn failed(&mut self, id: Id, failed: Failed, now: Instant) -> Duration {
        let Failed { how, errno, why, retry_after } = failed;
        let Some(entry) = self.all.get_mut(&id) else { return Duration::ZERO };
        entry.failures += 1;
        entry.is_sending = false;
        entry.is_doubtful |= how == Failure::Unknown;
        let retry = if how == Failure::Refused { Retry::Refused } else { Retry::Later };
        let pause = retry.pause(entry.failures, retry_after);
        entry.due = Some(now + pause);
        let is_news = entry.failure.as_ref().is_none_or(|(_, before)| *before != why);
        entry.failure = Some((errno, why.clone()));
        if is_news {
            self.note(Record::Failed { id, why });
        }
        pause
    }

    /// An upload has ended without an outcome, by a panic: if it is still on its way, nobody knows whether the server has it.
    pub fn break_off(&mut self, id: Id, now: Instant) {
        if self.get(id).is_some_and(|entry| entry.is_sending) {
            let why = "an error in this program has ended its upload; see the log".into();
            let failed = Failed { how: Failure::Unknown, errno: Errno::EIO, why, retry_after: None };
            self.failed(id, failed, now);
        }
    }

    /// Somebody waits for a file: it is tried at once.
    pub fn hurry(&mut self, path: &RemotePath) {
        for id in self.versions(path) {
            self.all.entry(id).and_modify(|entry| entry.due = None);
        }
    }

    /// Somebody else has changed the file, so the server has an entry under another path. Later versions follow it there.
    pub fn set_aside(&mut self, id: Id, path: &RemotePath, facts: &Facts) {
        let before = self.all.get(&id).map(|entry| entry.path.clone());
        self.uploaded(id, facts);
        for later in before.map(|before| self.versions(&before)).unwrap_or_default() {
            self.repath(later, path);
        }
    }

    /// An entry is given up: it is kept elsewhere.
    pub fn give_up(&mut self, id: Id) {
        self.remove(&[id]);
        self.note(Record::Removed { ids: vec![id] });
    }

    /// Notes something that somebody has to know.
    pub fn tell(&mut self, what: String) {
        let message = Message { number: self.next_id().0, at: SystemTime::now(), what };
        self.note(message.record());
        self.messages.push(message);
    }
}

impl<D: Details> Entry<D> {
    /// A version that is closed now.
    pub fn new(id: Id, path: RemotePath, base: Base, length: u64, modified: Option<SystemTime>) -> Self {
        let (closed, details) = (clock::now(), D::default());
        let (is_sending, is_doubtful, failures, failure, due) = (false, false, 0, None, None);
        Self { id, path, base, length, modified, closed, details, is_sending, is_doubtful, failures, failure, due }
    }

    /// What a program sees of it.
    pub fn facts(&self) -> Facts {
        Facts { length: self.length, modified: self.modified.or(Some(self.closed)), etag: None }
    }

    /// Whether an earlier upload may have reached the server.
    pub fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Whether the server may have it.
    pub fn is_sent(&self) -> bool {
        self.is_sending || self.is_doubtful
    }

    fn record(&self, replaced: Vec<Id>) -> Record<D> {
        Record::Closed {
            id: self.id,
            path: path_text(&self.path),
            base: self.base.clone(),
            length: self.length,
            modified: self.modified.map(seconds),
            at: seconds(self.closed),
            replaced,
            details: self.details.clone(),
        }
    }
}

impl Message {
    fn record<D>(&self) -> Record<D> {
        Record::Told { number: self.number, at: seconds(self.at), what: self.what.clone() }
    }
}

#[cfg(test)]
mod tests;
