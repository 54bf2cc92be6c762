//! The order of an upload: which request may be sent now, and what its answer allows.
//!
//! Round trips are only spent on what nothing else can tell. A single listing of an existing folder tells which of its files
//! and folders exist, and in which version, so none of them is requested by itself. A folder that had to be created is known
//! to be empty, and nothing in it is requested at all. So a new tree costs one listing, one MKCOL per folder and one PUT per
//! file, and everything that does not wait for a parent is sent at once.
//!
//! After its upload a file is verified, as `verify` describes.
//!
//! A mirror deletes at the end, when everything else has succeeded. A local file that could not be read, or was left out,
//! counts as a failure: otherwise its remote copy would be deleted.
//!
//! The plan knows sizes and nothing about the link: it limits requests in flight by number and bytes. The engine, which knows
//! windows and round trips, assigns them to connections.

mod deletions;
mod folders;
mod hidden_files;
mod spelling;
mod state;
mod steps;
mod verify;

use std::time::SystemTime;

pub(crate) use self::{
    deletions::too_many,
    spelling::Node,
    steps::{Before, Deletable, Listing, Outcome, PlanEvent, RemoteEntry, Sent, Step},
};
use self::{
    folders::{Awaiting, is_missing_folder},
    hidden_files::Hidden,
    state::{DeletionState, FolderState, InFlight, LookupsBehind, Queues, Uploads},
};
use super::{
    FEW, Options, REMEDY, SHARED, Skip, Verify,
    synced_versions::SyncedVersions,
    unchanged::{Here, SyncedVersion, Times, Verdict, Version},
    walk::{File, Outline},
};
use crate::{Error, client::compare::same_digest};

/// Maximum number of requests in flight or in the engine's queue, and of bytes of small files in them.
const WINDOW: usize = 512;
const WINDOW_BYTES: u64 = 32 * 1024 * 1024;
/// The end is near when at most this many requests are in flight; a listing of more files than this is long.
const TAIL: usize = 64;
/// Files up to this size are bulk-uploaded, if the server supports it and there are at least `MANY` of them.
const BULK: u64 = 128 * 1024;
const MANY: usize = 3;

/// What is known of the server and from earlier runs.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Whether the server supports bulk uploads.
    pub(crate) bulk_upload: bool,
    pub(crate) times: Times,
    pub(crate) records: SyncedVersions,
    /// Temporary files that have not changed since then are deleted; none to keep all.
    pub(crate) old_since: Option<SystemTime>,
}

pub(crate) struct Plan {
    outline: Outline,
    rules: Options,
    known: Known,
    folders: Vec<FolderState>,
    /// Number of folders with unknown contents.
    unknown: usize,
    uploads: Uploads,
    queues: Queues,
    in_flight: InFlight,
    lookups_behind: LookupsBehind,
    hidden: Hidden,
    deletion: DeletionState,
    events: Vec<PlanEvent>,
}

impl Plan {
    /// A plan, given the contents of the folders without a parent (none if they do not exist). The first `first` files
    /// are in flight already, sent on the assumption that they are new.
    pub(crate) fn new(
        outline: Outline,
        rules: Options,
        tops: Vec<(usize, Option<Listing>)>,
        first: usize,
        known: Known,
    ) -> Self {
        let mut folders: Vec<FolderState> = outline.folders.iter().map(|_| FolderState::default()).collect();
        for (number, folder) in outline.folders.iter().enumerate() {
            if let Some(parent) = folder.parent {
                folders[parent].children.push(number);
            }
        }
        for (number, file) in outline.files.iter().enumerate() {
            folders[file.folder].files.push(number);
            folders[file.folder].open += 1;
        }
        let uploads = Uploads {
            tries: vec![0; outline.files.len()],
            sent: vec![None; outline.files.len()],
            optimistic: (0..first).map(|file| (file, None)).collect(),
            ..Uploads::default()
        };
        let mut plan = Self {
            unknown: folders.len(),
            deletion: DeletionState { has_failures: !outline.left_out.is_empty(), ..DeletionState::default() },
            outline,
            rules,
            known,
            folders,
            uploads,
            queues: Queues::default(),
            in_flight: InFlight::default(),
            lookups_behind: LookupsBehind::default(),
            hidden: Hidden::default(),
            events: Vec::new(),
        };
        (0..first).for_each(|file| plan.count_upload(file));
        for (folder, listing) in tops {
            match listing {
                Some(listing) => plan.folder_known(folder, &listing),
                None => plan.make(folder),
            }
        }
        plan
    }

    pub(crate) fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Whether deletions are skipped because of errors.
    pub(crate) fn skips_deletions(&self) -> bool {
        self.deletion.has_failures && !self.rules.ignore_errors && !self.deletion.planned.is_empty()
    }

    /// Ends the plan after an interrupt. Files that were sent but not verified count as done; returns their number.
    pub(crate) fn end(&mut self) -> usize {
        let sent: Vec<usize> =
            (0..self.uploads.sent.len()).filter(|file| self.uploads.sent[*file].take().is_some()).collect();
        self.events.extend(sent.iter().map(|file| PlanEvent::Done(*file)));
        sent.len()
    }

    /// Whether a file was sent, and is there to be compared.
    pub(crate) fn is_sent(&self, file: usize) -> bool {
        !self.uploads.candidates.contains_key(&file)
    }

    /// The records for the next run.
    pub(crate) fn records(&self) -> &SyncedVersions {
        &self.known.records
    }

    pub(crate) fn take_events(&mut self) -> Vec<PlanEvent> {
        std::mem::take(&mut self.events)
    }

    /// The next step that can start now. Folders come first, since others wait for them, and large files before small
    /// ones, since they take longest.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.in_flight.requests >= WINDOW {
            return None;
        }
        if let Some(step) = self.queues.steps.pop_front() {
            self.in_flight.requests += 1;
            return Some(step);
        }
        // One connection is left for what is small.
        if self.in_flight.large < self.rules.connections.saturating_sub(1).max(1)
            && let Some((file, before)) = self.queues.large.pop_front()
        {
            return Some(self.upload(file, before));
        }
        if self.in_flight.bytes < WINDOW_BYTES
            && let Some((file, before)) = self.queues.small.pop_front()
        {
            return Some(self.upload(file, before));
        }
        self.next_deletion()
    }

    /// Handles the outcome of a step.
    pub(crate) fn take(&mut self, outcome: Outcome) {
        self.in_flight.requests -= 1;
        match outcome {
            Outcome::Listed(folder, Ok(Some(listing))) => self.folder_known(folder, &listing),
            Outcome::Listed(folder, Ok(None)) => self.make(folder),
            Outcome::Made(folder, result) => self.made(folder, result),
            Outcome::Confirmed(folder, result) => self.confirmed(folder, result),
            Outcome::Filled(folder, filled) => {
                self.events.push(PlanEvent::Made(folder));
                for (file, sent) in filled {
                    self.uploads.tries[file] += 1;
                    self.arrived(file, sent);
                }
                self.folder_known(folder, &Listing::new());
            }
            Outcome::Replaced(folder, Ok(())) => {
                let file = self.outline.folders[folder].path.clone().as_folder(false);
                self.events.extend([PlanEvent::Deleted(file), PlanEvent::Made(folder)]);
                self.folder_known(folder, &Listing::new());
            }
            Outcome::Listed(folder, Err(error)) | Outcome::Replaced(folder, Err(error)) => {
                self.fail_folder(folder, &error);
            }
            Outcome::Uploaded(file, result) => self.uploaded(file, result),
            Outcome::Checked(files, result) => self.checked(files, result),
            Outcome::Compared(file, result) => self.compared(file, result),
            Outcome::CollectedDeletable(_, Ok(deletable)) => self.deletable(deletable),
            Outcome::CollectedDeletable(path, Err(error)) => self.fail(path.to_string(), error),
            Outcome::Swept(path, Ok(())) => self.events.push(PlanEvent::Swept(path)),
            // A failure to delete a stale file has no consequences.
            Outcome::Swept(..) | Outcome::NotDeleted => {}
            Outcome::Renamed(from, thing, old, now) => self.renamed(from, thing, &old, now),
            Outcome::Deleted(path, precondition, result) => self.deleted(path, precondition, result),
            Outcome::Remained(paths, there) => self.remained(paths, there),
        }
    }

    /// Plans the creation of a folder, with its small files if bulk upload pays (but not with a lock for each file).
    fn make(&mut self, folder: usize) {
        let small = |file: &usize| self.outline.files[*file].length <= BULK;
        let mut files: Vec<usize> = Vec::new();
        if self.known.bulk_upload && !self.rules.dry_run && !self.rules.lock.locks(false) {
            files.extend(self.folders[folder].files.iter().filter(|file| small(file)));
        }
        let worth = files.len() >= MANY;
        self.queues.steps.push_back(if worth { Step::Fill(folder, files) } else { Step::Make(folder) });
    }

    /// Handles the known contents of an existing folder.
    fn folder_known(&mut self, folder: usize, listing: &Listing) {
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
                Some(RemoteEntry { is_folder: true, .. }) => self.queues.steps.push_back(Step::List(child)),
                Some(file) if self.rules.replaces() => {
                    self.queues.steps.push_back(Step::Replace(child, file.precondition()));
                }
                Some(_) => {
                    let why = format!("it is a file on the server and a folder here; {REMEDY}");
                    let path = path.clone();
                    self.fail_folder(child, &Error::Differs { path, why });
                }
            }
        }
        for file in self.folders[folder].files.clone() {
            let there = listing.get(&self.outline.files[file].name);
            if renamed.contains(&Node::File(file)) {
            } else if self.uploads.tries[file] == 0 {
                self.plan_file(file, there);
            } else if let Some(unseen) = self.uploads.optimistic.get_mut(&file) {
                *unseen = there.cloned();
            }
        }
        self.verify_finished(folder);
        self.sweep(folder, listing);
        if self.rules.delete && !self.outline.folders[folder].given {
            self.plan_deletions(folder, listing, &renamings);
        }
    }

    fn plan_file(&mut self, file: usize, there: Option<&RemoteEntry>) {
        let facts = &self.outline.files[file];
        let Some(there) = there else { return self.queue(file, Before::Nothing) };
        if there.is_folder && self.rules.replaces() {
            return self.queue(file, Before::Folder);
        }
        if there.is_folder {
            let why = format!("it is a folder on the server and a file here; {REMEDY}");
            let error = facts.path(&self.outline.folders).map(|path| Error::Differs { path, why });
            return self.file_failed(file, error.unwrap_or_else(|error| error));
        }
        if !self.rules.already_copied.is_first() && self.rules.already_copied.contains(&facts.origin.to_string()) {
            self.folders[facts.folder].open -= 1;
            return;
        }
        let (source, target) = ((Some(facts.length), facts.modified), (there.facts.length, there.facts.modified));
        if let Some(why) = self.rules.keep_existing.reason(source, target) {
            self.folders[facts.folder].open -= 1;
            return self.events.push(PlanEvent::Kept(file, why));
        }
        let same_length = there.facts.length == Some(facts.length);
        let listed = facts.origin.facts().filter(|_| same_length && self.rules.skip != Skip::Nothing);
        let compares =
            match (self.rules.skip, listed.and_then(|facts| same_digest(&facts.checksums, &there.facts.checksums))) {
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
            self.queues.steps.push_back(Step::Compare(file, there.clone()));
            self.uploads.candidates.insert(file, there.clone());
        } else {
            self.overwrite(file, there);
        }
    }

    /// Plans to overwrite a file.
    fn overwrite(&mut self, file: usize, there: &RemoteEntry) {
        self.uploads.overwritten.insert(file, there.clone());
        self.queue(file, Before::File(there.precondition()));
    }

    fn judge(&self, file: &File, there: &RemoteEntry) -> Verdict {
        let last = self.known.records.of(&self.outline.folders[file.folder].path, &file.name);
        match self.known.times.of_upload(here(file), there.facts.version(), last) {
            // Between two servers clock offsets may decide a doubtful file. But here both sides were equal once, so the
            // copy was changed.
            Verdict::Doubtful if last.is_some() && file.origin.facts().is_some() => Verdict::Changed,
            verdict => verdict,
        }
    }

    /// Records that both sides of a file are equal now.
    fn record_synced(&mut self, file: usize, there: Version<'_>) {
        let facts = &self.outline.files[file];
        let record = SyncedVersion::of(here(facts), there);
        self.known.records.keep(&self.outline.folders[facts.folder].path, &facts.name, record);
    }

    /// Counts an upload that starts.
    fn count_upload(&mut self, file: usize) {
        let length = self.outline.files[file].length;
        self.in_flight.requests += 1;
        self.uploads.tries[file] += 1;
        if length > SHARED {
            self.in_flight.large += 1;
        } else {
            self.in_flight.bytes += length;
        }
    }

    fn queue(&mut self, file: usize, before: Before) {
        let large = self.outline.files[file].length > SHARED;
        if large { &mut self.queues.large } else { &mut self.queues.small }.push_back((file, before));
    }

    fn skip(&mut self, file: usize, there: &RemoteEntry) {
        self.record_synced(file, there.facts.version());
        self.events.push(PlanEvent::Skipped(file));
        self.folders[self.outline.files[file].folder].open -= 1;
    }

    /// Handles a comparison, of a file that existed before or of one that was uploaded.
    fn compared(&mut self, file: usize, result: Result<bool, Error>) {
        let folder = self.outline.files[file].folder;
        match (self.uploads.candidates.remove(&file), result) {
            (Some(there), Ok(true)) => self.skip(file, &there),
            (Some(there), Ok(false)) => return self.overwrite(file, &there),
            (Some(_), Err(error)) => self.file_failed(file, error),
            (None, Ok(true)) => return self.done(file),
            (None, Ok(false)) => return self.differs(file, "the server's copy has different content".into()),
            (None, Err(error)) => return self.not_verified(file, &error),
        }
        self.verify_finished(folder);
    }

    fn uploaded(&mut self, file: usize, result: Result<Sent, Error>) {
        let (length, folder) = (self.outline.files[file].length, self.outline.files[file].folder);
        if length > SHARED {
            self.in_flight.large -= 1;
        } else {
            self.in_flight.bytes -= length;
        }
        match (self.uploads.optimistic.remove(&file).flatten(), result) {
            (_, Ok(sent)) => {
                if self.uploads.replacing.remove(&file)
                    && let Ok(path) = self.outline.files[file].path(&self.outline.folders)
                {
                    self.events.push(PlanEvent::Deleted(path.as_folder(true)));
                }
                self.arrived(file, sent);
            }
            // The file existed, as a lookup has shown by now.
            (Some(there), Err(error)) if there.is_folder || error.is(412) => {
                self.uploads.tries[file] = 0;
                self.plan_file(file, Some(&there));
            }
            (None, Err(error)) if self.looks_for_hidden(file, &error) => {}
            (_, Err(error)) if is_missing_folder(&error) && self.awaits(folder, Awaiting::File(file)) => {}
            (_, Err(error)) => self.file_failed(file, error),
        }
        self.verify_finished(folder);
    }

    fn file_failed(&mut self, file: usize, error: Error) {
        self.ended(file);
        self.open_failed(file, error);
    }

    fn open_failed(&mut self, file: usize, error: Error) {
        self.fail(self.outline.files[file].origin.to_string(), error);
    }

    fn fail(&mut self, what: String, error: Error) {
        self.deletion.has_failures = true;
        self.events.push(PlanEvent::Failed(what, error));
    }

    /// A folder cannot be created: everything in it fails, and each file is reported.
    fn fail_folder(&mut self, folder: usize, error: &Error) {
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
    let etag = file.origin.facts().and_then(|facts| facts.etag.as_ref());
    Here { length: file.length, modified: file.modified, etag }
}

#[cfg(test)]
mod tests;
