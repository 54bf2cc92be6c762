//! The order of an upload: which request may go now, and what its answer allows.
//!
//! Round trips are spent on what nothing else can tell. One listing of a folder that is there says which of its files
//! and folders are there, too, and in which state, so that none is asked for one by one; a folder that had to be made
//! is known to be empty, and nothing in it is asked for at all. So a tree that is new costs one listing, one MKCOL
//! per folder and one PUT per file, and all that does not wait for a parent goes at once.
//!
//! What was sent is looked at when it has arrived, as `verify` says.
//!
//! What is deleted, in a mirror, is deleted when everything else has succeeded. A file here that could not be read, or
//! was left out, has not: its twin would go.
//!
//! The plan knows sizes and nothing of the link: how many requests go at once is bounded by a number and by bytes, and
//! it is the engine, which knows windows and round trips, that finds each a place.

mod deletions;
mod folders;
mod hidden_files;
mod spelling;
mod steps;
mod verify;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::SystemTime,
};

pub(crate) use self::{
    deletions::too_many,
    spelling::Node,
    steps::{Before, Deletable, Listing, News, Outcome, Sent, Step, There},
};
use self::{
    folders::{Awaiting, Made, is_missing_folder},
    hidden_files::Hidden,
};
use super::{
    FEW, Options, REMEDY, SHARED, Skip, Verify,
    last_seen::LastSeen,
    unchanged::{Here, Record, Times, Verdict, Version},
    walk::{File, Outline},
};
use crate::{Error, Precondition, RemotePath, client::compare::same_digest};

/// How many requests may be on their way or wait in the engine's queue, and how many bytes of small files.
const WINDOW: usize = 512;
const WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// The end has come when no more than so many requests are under way, and a listing of more files than these is long.
const TAIL: usize = 64;
/// Files up to this size go many to a request, where the server takes that and there are so many of them.
const BULK: u64 = 128 * 1024;
const MANY: usize = 3;

/// By what files are known to be unchanged.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) times: Times,
    pub(crate) records: LastSeen,
    /// Temporary files that have not changed since then are deleted, if there are to be.
    pub(crate) old_since: Option<SystemTime>,
}

pub(crate) struct Plan {
    outline: Outline,
    rules: Options,
    /// Whether the server takes many small files at once.
    bulk: bool,
    folders: Vec<State>,
    /// How often each file was begun; what of it was sent and is not settled.
    tries: Vec<u8>,
    sent: Vec<Option<Sent>>,
    /// Files that may be there already, and what is there.
    candidates: HashMap<usize, There>,
    known: Known,
    steps: VecDeque<Step>,
    small: VecDeque<(usize, Before)>,
    large: VecDeque<(usize, Before)>,
    deletions: Vec<(RemotePath, Precondition)>,
    /// The same of what may be the same as something new.
    twins: Vec<(RemotePath, Precondition, Vec<u8>)>,
    /// How many files and folders go with them.
    doomed: u64,
    deleting: bool,
    /// What the server says that it has deleted; what it was told to delete twice.
    deleted: Vec<(RemotePath, Precondition)>,
    deleted_again: HashSet<RemotePath>,
    under_way: usize,
    large_under_way: usize,
    bytes_under_way: u64,
    /// Folders of which it is not known yet what is in them.
    unknown: usize,
    /// So many of the last files are looked at right behind their uploads.
    looks_behind: usize,
    /// Files under way that are looked at right behind their uploads.
    looked_at: HashSet<usize>,
    /// Files that take the place of folders.
    replacing: HashSet<usize>,
    /// Files that were sent before it was known what is there, and what is.
    unseen: HashMap<usize, Option<There>>,
    hidden: Hidden,
    /// What is there of files that are to be overwritten; whether it is still there is known by that.
    replaced: HashMap<usize, There>,
    failed: bool,
    news: Vec<News>,
}

#[derive(Debug, Default)]
struct State {
    /// Files that are not settled, and that its listing waits for.
    open: usize,
    /// Those that were uploaded and are to be looked at.
    unverified: Vec<usize>,
    /// Whether each is looked at for itself.
    singly: bool,
    children: Vec<usize>,
    files: Vec<usize>,
    made: Made,
    /// What waits until the folder is made again.
    awaiting: Vec<Awaiting>,
}

impl Plan {
    /// A plan for what is known at first of the folders that have no parent: what is in them, or that they are not
    /// there. The first so many files are under way already, as if nothing were there.
    pub(crate) fn new(
        outline: Outline,
        rules: Options,
        bulk: bool,
        tops: Vec<(usize, Option<Listing>)>,
        first: usize,
        known: Known,
    ) -> Self {
        let failed = !outline.left_out.is_empty();
        let mut folders: Vec<State> = outline.folders.iter().map(|_| State::default()).collect();
        for (number, folder) in outline.folders.iter().enumerate() {
            if let Some(parent) = folder.parent {
                folders[parent].children.push(number);
            }
        }
        for (number, file) in outline.files.iter().enumerate() {
            folders[file.folder].files.push(number);
            folders[file.folder].open += 1;
        }
        let mut plan = Self {
            unknown: folders.len(),
            looks_behind: 0,
            looked_at: HashSet::new(),
            replacing: HashSet::new(),
            unseen: (0..first).map(|file| (file, None)).collect(),
            hidden: Hidden::default(),
            replaced: HashMap::new(),
            folders,
            tries: vec![0; outline.files.len()],
            sent: vec![None; outline.files.len()],
            candidates: HashMap::new(),
            known,
            outline,
            rules,
            bulk,
            steps: VecDeque::new(),
            small: VecDeque::new(),
            large: VecDeque::new(),
            deletions: Vec::new(),
            twins: Vec::new(),
            doomed: 0,
            deleting: false,
            deleted: Vec::new(),
            deleted_again: HashSet::new(),
            under_way: 0,
            large_under_way: 0,
            bytes_under_way: 0,
            failed,
            news: Vec::new(),
        };
        (0..first).for_each(|file| plan.begins(file));
        for (folder, listing) in tops {
            match listing {
                Some(listing) => plan.ready(folder, &listing),
                None => plan.make(folder),
            }
        }
        plan
    }

    pub(crate) fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Whether something is not deleted, since not all else went well.
    pub(crate) fn spares(&self) -> bool {
        self.failed && !self.rules.ignore_errors && !self.deletions.is_empty()
    }

    /// What is under way ends here. What was sent is there, though it was not compared: how many files.
    pub(crate) fn end(&mut self) -> usize {
        let sent: Vec<usize> = (0..self.sent.len()).filter(|file| self.sent[*file].take().is_some()).collect();
        self.news.extend(sent.iter().map(|file| News::Done(*file)));
        sent.len()
    }

    /// Whether a file was sent, and is there to be compared.
    pub(crate) fn is_sent(&self, file: usize) -> bool {
        !self.candidates.contains_key(&file)
    }

    /// What was seen of the files, for the next run.
    pub(crate) fn records(&self) -> &LastSeen {
        &self.known.records
    }

    pub(crate) fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// The next thing to do, if something can be done now. Folders come first, as others wait for them; large files
    /// before small ones, as they take longest; all within what the engine has use for.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.under_way >= WINDOW {
            return None;
        }
        if let Some(step) = self.steps.pop_front() {
            self.under_way += 1;
            return Some(step);
        }
        // One connection is left for what is small.
        if self.large_under_way < self.rules.connections.saturating_sub(1).max(1)
            && let Some((file, before)) = self.large.pop_front()
        {
            return Some(self.upload(file, before));
        }
        if self.bytes_under_way < WINDOW_BYTES
            && let Some((file, before)) = self.small.pop_front()
        {
            return Some(self.upload(file, before));
        }
        self.next_deletion()
    }

    /// What came of a step.
    pub(crate) fn take(&mut self, outcome: Outcome) {
        self.under_way -= 1;
        match outcome {
            Outcome::Listed(folder, Ok(Some(listing))) => self.ready(folder, &listing),
            Outcome::Listed(folder, Ok(None)) => self.make(folder),
            Outcome::Made(folder, result) => self.made(folder, result),
            Outcome::Confirmed(folder, result) => self.confirmed(folder, result),
            Outcome::Filled(folder, filled) => {
                self.news.push(News::Made(folder));
                for (file, sent) in filled {
                    self.tries[file] += 1;
                    self.arrived(file, sent);
                }
                self.ready(folder, &Listing::new());
            }
            Outcome::Replaced(folder, Ok(())) => {
                let file = self.outline.folders[folder].path.clone().as_folder(false);
                self.news.extend([News::Deleted(file), News::Made(folder)]);
                self.ready(folder, &Listing::new());
            }
            Outcome::Listed(folder, Err(error)) | Outcome::Replaced(folder, Err(error)) => self.lose(folder, &error),
            Outcome::Uploaded(file, result) => self.uploaded(file, result),
            Outcome::Checked(files, result) => self.checked(files, result),
            Outcome::Compared(file, result) => self.compared(file, result),
            Outcome::CollectedDeletable(_, Ok(deletable)) => self.deletable(deletable),
            Outcome::CollectedDeletable(path, Err(error)) => self.fail(path.to_string(), error),
            Outcome::Swept(path, Ok(())) => self.news.push(News::Swept(path)),
            // Nobody needs that it is gone.
            Outcome::Swept(..) | Outcome::Spared => {}
            Outcome::Renamed(from, thing, old, now) => self.renamed(from, thing, &old, now),
            Outcome::Deleted(path, precondition, result) => self.deleted(path, precondition, result),
            Outcome::Remained(paths, there) => self.remained(paths, there),
        }
    }

    /// A folder is not there: it is made, and where the server takes many small files at once, with those in it. A lock
    /// for each would undo that.
    fn make(&mut self, folder: usize) {
        let small = |file: &usize| self.outline.files[*file].length <= BULK;
        let mut files: Vec<usize> = Vec::new();
        if self.bulk && !self.rules.dry_run && !self.rules.lock.locks(false) {
            files.extend(self.folders[folder].files.iter().filter(|file| small(file)));
        }
        let worth = files.len() >= MANY;
        self.steps.push_back(if worth { Step::Fill(folder, files) } else { Step::Make(folder) });
    }

    /// A folder is there, and what is in it is known; also which of its files we have put there already.
    fn ready(&mut self, folder: usize, listing: &Listing) {
        self.unknown -= 1;
        self.spell_as_listed(folder, listing);
        let renamings = self.renamings(folder, listing);
        for (from, thing) in &renamings {
            self.rename(folder, from, *thing, &listing[from]);
        }
        let renamed: Vec<Node> = renamings.values().copied().collect();
        for child in self.folders[folder].children.clone() {
            if renamed.contains(&Node::Folder(child)) {
                continue;
            }
            let path = &self.outline.folders[child].path;
            match path.name().and_then(|name| listing.get(name)) {
                None => self.make(child),
                Some(There { folder: true, .. }) => self.steps.push_back(Step::List(child)),
                Some(file) if self.rules.replaces() => {
                    self.steps.push_back(Step::Replace(child, file.precondition()));
                }
                Some(_) => {
                    let why = format!("it is a file on the server and a folder here; {REMEDY}");
                    let path = path.clone();
                    self.lose(child, &Error::Differs { path, why });
                }
            }
        }
        for file in self.folders[folder].files.clone() {
            let there = listing.get(&self.outline.files[file].name);
            if renamed.contains(&Node::File(file)) {
            } else if self.tries[file] == 0 {
                self.file_ready(file, there);
            } else if let Some(unseen) = self.unseen.get_mut(&file) {
                *unseen = there.cloned();
            }
        }
        self.settled(folder);
        self.sweep(folder, listing);
        if self.rules.delete && !self.outline.folders[folder].given {
            self.plan_deletions(folder, listing, &renamings);
        }
    }

    fn file_ready(&mut self, file: usize, there: Option<&There>) {
        let facts = &self.outline.files[file];
        let Some(there) = there else { return self.queue(file, Before::Nothing) };
        if there.folder && self.rules.replaces() {
            return self.queue(file, Before::Folder);
        }
        if there.folder {
            let why = format!("it is a folder on the server and a file here; {REMEDY}");
            let error = facts.path(&self.outline.folders).map(|path| Error::Differs { path, why });
            return self.file_failed(file, error.unwrap_or_else(|error| error));
        }
        if !self.rules.settled.is_first() && self.rules.settled.contains(&facts.origin.to_string()) {
            self.folders[facts.folder].open -= 1;
            return;
        }
        let (source, target) = ((Some(facts.length), facts.modified), (there.length, there.modified));
        if let Some(why) = self.rules.spare.judge(source, target) {
            self.folders[facts.folder].open -= 1;
            return self.news.push(News::Spared(file, why));
        }
        let same_length = there.length == Some(facts.length);
        let listed = facts.origin.leaf().filter(|_| same_length && self.rules.skip != Skip::Nothing);
        let compares = match (self.rules.skip, listed.and_then(|leaf| same_digest(&leaf.checksums, &there.checksums))) {
            (Skip::Nothing, _) | (_, Some(false)) => false,
            (_, Some(true)) => return self.skip(file, there),
            (Skip::SameDigest, None) => same_length,
            (Skip::SameSizeAndTime, None) => match self.judge(facts, there) {
                Verdict::Same => return self.skip(file, there),
                Verdict::Changed => false,
                Verdict::Doubtful => true,
            },
        };
        if compares {
            self.steps.push_back(Step::Compare(file, there.clone()));
            self.candidates.insert(file, there.clone());
        } else {
            self.overwrite(file, there);
        }
    }

    /// A file takes the place of another.
    fn overwrite(&mut self, file: usize, there: &There) {
        self.replaced.insert(file, there.clone());
        self.queue(file, Before::File(there.precondition()));
    }

    fn judge(&self, file: &File, there: &There) -> Verdict {
        let last = self.known.records.of(&self.outline.folders[file.folder].path, &file.name);
        self.known.times.of_upload(here(file), there.version(), last)
    }

    /// Both sides of a file are the same now, and this is what is known of them.
    fn saw(&mut self, file: usize, there: Version<'_>) {
        let facts = &self.outline.files[file];
        let record = Record::of(here(facts), there);
        self.known.records.keep(&self.outline.folders[facts.folder].path, &facts.name, record);
    }

    /// An upload begins.
    fn begins(&mut self, file: usize) {
        let length = self.outline.files[file].length;
        self.under_way += 1;
        self.tries[file] += 1;
        if length > SHARED {
            self.large_under_way += 1;
        } else {
            self.bytes_under_way += length;
        }
    }

    fn queue(&mut self, file: usize, before: Before) {
        let large = self.outline.files[file].length > SHARED;
        if large { &mut self.large } else { &mut self.small }.push_back((file, before));
    }

    fn skip(&mut self, file: usize, there: &There) {
        self.saw(file, there.version());
        self.news.push(News::Skipped(file));
        self.folders[self.outline.files[file].folder].open -= 1;
    }

    /// The file is the same on both sides, or not: one that was there before it was sent, or one that was sent.
    fn compared(&mut self, file: usize, result: Result<bool, Error>) {
        let folder = self.outline.files[file].folder;
        match (self.candidates.remove(&file), result) {
            (Some(there), Ok(true)) => self.skip(file, &there),
            (Some(there), Ok(false)) => return self.overwrite(file, &there),
            (Some(_), Err(error)) => self.file_failed(file, error),
            (None, Ok(true)) => return self.done(file),
            (None, Ok(false)) => return self.differs(file, "the server's copy has different content".into()),
            (None, Err(error)) => return self.not_verified(file, &error),
        }
        self.settled(folder);
    }

    fn uploaded(&mut self, file: usize, result: Result<Sent, Error>) {
        let (length, folder) = (self.outline.files[file].length, self.outline.files[file].folder);
        if length > SHARED {
            self.large_under_way -= 1;
        } else {
            self.bytes_under_way -= length;
        }
        match (self.unseen.remove(&file).flatten(), result) {
            (_, Ok(sent)) => {
                if self.replacing.remove(&file)
                    && let Ok(path) = self.outline.files[file].path(&self.outline.folders)
                {
                    self.news.push(News::Deleted(path.as_folder(true)));
                }
                self.arrived(file, sent);
            }
            // There was something, as was seen meanwhile.
            (Some(there), Err(error)) if there.folder || error.is(412) => {
                self.tries[file] = 0;
                self.file_ready(file, Some(&there));
            }
            (None, Err(error)) if self.looks_for_hidden(file, &error) => {}
            (_, Err(error)) if is_missing_folder(&error) && self.awaits(folder, Awaiting::File(file)) => {}
            (_, Err(error)) => self.file_failed(file, error),
        }
        self.settled(folder);
    }

    fn file_failed(&mut self, file: usize, error: Error) {
        self.ended(file);
        self.open_failed(file, error);
    }

    fn open_failed(&mut self, file: usize, error: Error) {
        self.fail(self.outline.files[file].origin.to_string(), error);
    }

    fn fail(&mut self, what: String, error: Error) {
        self.failed = true;
        self.news.push(News::Failed(what, error));
    }

    /// A folder is not there and cannot be: nothing in it can be uploaded, and each file is named.
    fn lose(&mut self, folder: usize, error: &Error) {
        self.fail(self.outline.folders[folder].path.to_string(), error.clone());
        let mut lost = vec![folder];
        while let Some(folder) = lost.pop() {
            self.unknown -= 1;
            lost.extend(&self.folders[folder].children);
            for file in std::mem::take(&mut self.folders[folder].files) {
                self.open_failed(file, error.clone());
            }
        }
    }
}

fn here(file: &File) -> Here<'_> {
    let etag = file.origin.leaf().and_then(|leaf| leaf.etag.as_ref());
    Here { length: file.length, modified: file.modified, etag }
}

#[cfg(test)]
mod tests;
