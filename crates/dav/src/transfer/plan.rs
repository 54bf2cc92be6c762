//! The order of an upload: which request may go now, and what its answer allows.
//!
//! Round trips are spent on what nothing else can tell. One listing of a folder that is there says which of its files
//! and folders are there, too, and in which state, so that none is asked for one by one; a folder that had to be made
//! is known to be empty, and nothing in it is asked for at all. So a tree that is new costs one listing, one MKCOL
//! per folder and one PUT per file, and all that does not wait for a parent goes at once.
//!
//! After a folder's last file the folder is listed again, if sizes are to be verified: one request tells of all its
//! files, and of what a box on the way has swallowed. A file that is not what it should be is sent once more.
//!
//! What is deleted, in a mirror, is deleted when everything else has succeeded.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, SystemTime},
};

use super::{Options, Skip, Verify, walk::Outline};
use crate::{ETag, Error, Guard, RemotePath};

/// Uploads up to this size share connections. A larger one gets one of its own.
const SMALL: u64 = 4 * 1024 * 1024;
/// How many requests may be on their way or wait in the engine's queue, and how many bytes of small files.
const WINDOW: usize = 512;
const WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// Times on servers are whole seconds, and clocks differ.
const SAME_TIME: Duration = Duration::from_secs(2);

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// List the folder.
    List(usize),
    /// Make the folder.
    Make(usize),
    /// Upload the file.
    Upload(usize, Before),
    /// List the folder and see whether all is there.
    Check(usize),
    /// Delete what is here no more.
    Delete(RemotePath, Guard),
}

/// What was at a file's place before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    File(Option<ETag>),
}

/// What a listing says of a name.
#[derive(Debug, Clone)]
pub(crate) struct There {
    pub(crate) folder: bool,
    pub(crate) length: Option<u64>,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) etag: Option<ETag>,
}

/// What a folder holds, by name.
pub(crate) type Listing = HashMap<Vec<u8>, There>;

/// What came of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// None: there is no such folder.
    Listed(usize, Result<Option<Listing>, Error>),
    Made(usize, Result<bool, Error>),
    /// The bytes that were sent.
    Uploaded(usize, Result<u64, Error>),
    Checked(usize, Result<Listing, Error>),
    Deleted(RemotePath, Result<(), Error>),
}

/// What the user is to hear.
#[derive(Debug)]
pub(crate) enum News {
    Done(usize),
    Skipped(usize),
    Made(usize),
    Deleted(RemotePath),
    Failed(String, Error),
}

pub(crate) struct Plan {
    outline: Outline,
    rules: Options,
    folders: Vec<State>,
    /// How often each file was begun; its bytes as sent.
    tries: Vec<u8>,
    sent: Vec<Option<u64>>,
    steps: VecDeque<Step>,
    small: VecDeque<(usize, Before)>,
    large: VecDeque<(usize, Before)>,
    deletions: Vec<(RemotePath, Guard)>,
    under_way: usize,
    large_under_way: usize,
    bytes_under_way: u64,
    failed: bool,
    news: Vec<News>,
}

#[derive(Debug, Default)]
struct State {
    /// Files that are not settled.
    open: usize,
    /// Whether some were uploaded and are to be verified.
    unverified: bool,
    children: Vec<usize>,
    files: Vec<usize>,
}

impl Plan {
    /// A plan for what is known at first of the folders that have no parent: what is in them, or that they are not
    /// there.
    pub(crate) fn new(outline: Outline, rules: Options, tops: Vec<(usize, Option<Listing>)>) -> Self {
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
            folders,
            tries: vec![0; outline.files.len()],
            sent: vec![None; outline.files.len()],
            outline,
            rules,
            steps: VecDeque::new(),
            small: VecDeque::new(),
            large: VecDeque::new(),
            deletions: Vec::new(),
            under_way: 0,
            large_under_way: 0,
            bytes_under_way: 0,
            failed: false,
            news: Vec::new(),
        };
        for (folder, listing) in tops {
            match listing {
                Some(listing) => plan.ready(folder, &listing),
                None => plan.steps.push_back(Step::Make(folder)),
            }
        }
        plan
    }

    pub(crate) fn outline(&self) -> &Outline {
        &self.outline
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
            self.large_under_way += 1;
            return Some(self.upload(file, before));
        }
        if self.bytes_under_way < WINDOW_BYTES
            && let Some((file, before)) = self.small.pop_front()
        {
            self.bytes_under_way += self.outline.files[file].length;
            return Some(self.upload(file, before));
        }
        if self.under_way == 0 && !self.failed {
            let (path, guard) = self.deletions.pop()?;
            self.under_way += 1;
            return Some(Step::Delete(path, guard));
        }
        None
    }

    fn upload(&mut self, file: usize, before: Before) -> Step {
        self.under_way += 1;
        self.tries[file] += 1;
        Step::Upload(file, before)
    }

    /// What came of a step.
    pub(crate) fn take(&mut self, outcome: Outcome) {
        self.under_way -= 1;
        match outcome {
            Outcome::Listed(folder, Ok(Some(listing))) => self.ready(folder, &listing),
            Outcome::Listed(folder, Ok(None)) => self.steps.push_back(Step::Make(folder)),
            Outcome::Made(folder, Ok(true)) => {
                self.news.push(News::Made(folder));
                self.ready(folder, &Listing::new());
            }
            // Somebody else was quicker: then it is not known what is in it.
            Outcome::Made(folder, Ok(false)) => self.steps.push_back(Step::List(folder)),
            Outcome::Listed(folder, Err(error)) | Outcome::Made(folder, Err(error)) => self.lose(folder, &error),
            Outcome::Uploaded(file, result) => self.uploaded(file, result),
            Outcome::Checked(folder, result) => self.checked(folder, result),
            Outcome::Deleted(path, Ok(())) => self.news.push(News::Deleted(path)),
            Outcome::Deleted(path, Err(error)) => self.fail(path.to_string(), error),
        }
    }

    /// A folder is there, and what is in it is known.
    fn ready(&mut self, folder: usize, listing: &Listing) {
        for child in self.folders[folder].children.clone() {
            let path = &self.outline.folders[child].path;
            match path.name().and_then(|name| listing.get(name)) {
                None => self.steps.push_back(Step::Make(child)),
                Some(There { folder: true, .. }) => self.steps.push_back(Step::List(child)),
                Some(_) => {
                    let why = "there is a file of this name on the server, and a folder here".to_owned();
                    let path = path.clone();
                    self.lose(child, &Error::Differs { path, why });
                }
            }
        }
        for file in self.folders[folder].files.clone() {
            self.file_ready(file, listing);
        }
        self.settled(folder);
        if self.rules.delete && !self.outline.folders[folder].given {
            self.plan_deletions(folder, listing);
        }
    }

    fn file_ready(&mut self, file: usize, listing: &Listing) {
        let facts = &self.outline.files[file];
        let there = listing.get(&facts.name);
        let large = facts.length > SMALL;
        if there.is_some_and(|there| there.folder) {
            let why = "there is a folder of this name on the server, and a file here".to_owned();
            let path = self.outline.folders[facts.folder].path.clone();
            return self.file_failed(file, Error::Differs { path, why });
        }
        if there.is_some_and(|there| self.is_there(file, there)) {
            let folder = facts.folder;
            self.news.push(News::Skipped(file));
            self.folders[folder].open -= 1;
            return;
        }
        let before = there.map_or(Before::Nothing, |there| Before::File(there.etag.clone()));
        if large { &mut self.large } else { &mut self.small }.push_back((file, before));
    }

    /// Whether a file need not be moved.
    fn is_there(&self, file: usize, there: &There) -> bool {
        let facts = &self.outline.files[file];
        match self.rules.skip {
            Skip::Nothing | Skip::SameDigest => false,
            Skip::SameSizeAndTime => {
                let fresh = match (there.modified, facts.modified) {
                    (Some(there), Some(here)) => there + SAME_TIME >= here,
                    _ => false,
                };
                there.length == Some(facts.length) && fresh
            }
        }
    }

    fn plan_deletions(&mut self, folder: usize, listing: &Listing) {
        let state = &self.folders[folder];
        for (name, there) in listing {
            let kept = state.files.iter().any(|file| self.outline.files[*file].name == *name)
                || state.children.iter().any(|child| self.outline.folders[*child].path.name() == Some(name));
            if let (false, Ok(path)) = (kept, self.outline.folders[folder].path.join(name, there.folder)) {
                let guard = there.etag.clone().filter(|_| !there.folder).map_or(Guard::None, Guard::Unchanged);
                self.deletions.push((path, guard));
            }
        }
    }

    fn uploaded(&mut self, file: usize, result: Result<u64, Error>) {
        let (length, folder) = (self.outline.files[file].length, self.outline.files[file].folder);
        if length > SMALL {
            self.large_under_way -= 1;
        } else {
            self.bytes_under_way -= length;
        }
        match result {
            Ok(bytes) => {
                self.sent[file] = Some(bytes);
                self.folders[folder].open -= 1;
                if self.rules.verify == Verify::None || self.rules.dry_run {
                    self.news.push(News::Done(file));
                } else {
                    self.folders[folder].unverified = true;
                }
                self.settled(folder);
            }
            Err(error) => {
                self.file_failed(file, error);
                self.settled(folder);
            }
        }
    }

    /// All files of a folder are settled: they can be looked at.
    fn settled(&mut self, folder: usize) {
        if self.folders[folder].open == 0 && std::mem::take(&mut self.folders[folder].unverified) {
            self.steps.push_back(Step::Check(folder));
        }
    }

    fn checked(&mut self, folder: usize, result: Result<Listing, Error>) {
        let files: Vec<usize> =
            self.folders[folder].files.iter().copied().filter(|file| self.sent[*file].is_some()).collect();
        let listing = match result {
            Ok(listing) => listing,
            Err(error) => return files.into_iter().for_each(|file| self.not_verified(file, &error)),
        };
        for file in files {
            let sent = self.sent[file].take();
            let there = listing.get(&self.outline.files[file].name);
            match there.map(|there| there.length) {
                // A server that does not say lengths has said at least that it is there.
                Some(length) if length.is_none() || length == sent => self.news.push(News::Done(file)),
                found if self.tries[file] < 2 => {
                    let before = found.map_or(Before::Nothing, |_| Before::File(None));
                    self.folders[folder].open += 1;
                    let large = self.outline.files[file].length > SMALL;
                    if large { &mut self.large } else { &mut self.small }.push_back((file, before));
                }
                found => {
                    let sent = sent.unwrap_or_default();
                    let why = match found.flatten() {
                        Some(length) => format!("{sent} bytes were sent, and the server has {length}"),
                        None => format!("{sent} bytes were sent and acknowledged, and the server has no such file"),
                    };
                    let error = match self.outline.files[file].path(&self.outline.folders) {
                        Ok(path) => Error::Differs { path, why },
                        Err(error) => error,
                    };
                    self.open_failed(file, error);
                }
            }
        }
    }

    fn not_verified(&mut self, file: usize, error: &Error) {
        self.sent[file] = None;
        self.open_failed(file, error.clone());
    }

    fn file_failed(&mut self, file: usize, error: Error) {
        self.folders[self.outline.files[file].folder].open -= 1;
        self.open_failed(file, error);
    }

    fn open_failed(&mut self, file: usize, error: Error) {
        self.fail(self.outline.files[file].local.display().to_string(), error);
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
            lost.extend(&self.folders[folder].children);
            for file in std::mem::take(&mut self.folders[folder].files) {
                self.open_failed(file, error.clone());
            }
        }
    }
}
