//! Verification: which uploads are looked up when, and what follows.
//!
//! If sizes are verified, a folder is listed again after its last file: one request shows all its files, and what a middlebox
//! has swallowed. A missing file is sent once more, and so is one with another length if its entity tag shows that it is
//! ours. Digests are compared file by file.
//!
//! At the very end, a listing would cost a round trip in which nothing else happens. So each of the last files is looked up by
//! a request right behind its upload on the same connection, whose answer arrives with the upload's own, and the earlier files
//! are listed while the last are in flight. Where nothing can be sent right behind an upload (HTTP/2, no pipelining), the
//! listing is requested just as early, and the last files are looked up one by one.

use super::{Before, FEW, Listing, Plan, PlanEvent, RemoteEntry, Sent, Step, TAIL, Verify};
use crate::{Error, transfer::unchanged::Version};

/// Maximum number of files looked up right behind their uploads. A lookup takes a few hundred bytes, and its answer as
/// much as in a listing. A listing of more files takes several round trips, but that many lookups take longer.
const LAST: usize = 256;

impl Plan {
    /// Allows lookups right behind uploads, if `possible`.
    pub(crate) fn with_lookups_behind(mut self, possible: bool) -> Self {
        self.lookups_behind.limit = if possible && self.verifies() && !self.rules.temporary { LAST } else { 0 };
        self
    }

    fn verifies(&self) -> bool {
        self.rules.verify != Verify::None && !self.rules.dry_run
    }

    /// The step that uploads a file, with a lookup right behind it for the last files; then its folder does not wait
    /// for it.
    pub(super) fn upload(&mut self, file: usize, before: Before) -> Step {
        self.count_upload(file);
        if before == Before::Folder {
            self.uploads.replacing.insert(file);
        }
        if self.unknown > 0 || self.queues.small.len() + self.queues.large.len() >= self.lookups_behind.limit {
            return Step::Upload(file, before);
        }
        let folder = self.outline.files[file].folder;
        self.lookups_behind.in_flight.insert(file);
        self.folders[folder].open -= 1;
        self.verify_finished(folder);
        Step::UploadAndLook(file, before)
    }

    /// An upload has ended; its folder no longer waits for it.
    pub(super) fn ended(&mut self, file: usize) {
        if !self.lookups_behind.in_flight.remove(&file) {
            self.folders[self.outline.files[file].folder].open -= 1;
        }
    }

    /// The server has accepted a file.
    pub(super) fn arrived(&mut self, file: usize, mut sent: Sent) {
        self.ended(file);
        let seen = sent.seen.take().filter(|seen| seen.facts.length == Some(sent.bytes) && !is_anothers(&sent, seen));
        self.uploads.sent[file] = Some(sent);
        match seen {
            _ if !self.verifies() => self.done(file),
            Some(seen) => self.arrived_whole(file, &seen),
            None => self.folders[self.outline.files[file].folder].unverified.push(file),
        }
    }

    pub(super) fn done(&mut self, file: usize) {
        self.uploads.overwritten.remove(&file);
        if let Some(sent) = self.uploads.sent[file].take() {
            // Ignore what somebody else has put there since.
            let seen = sent.seen.as_ref().filter(|seen| !is_anothers(&sent, seen));
            let (modified, etag) =
                (seen.and_then(|seen| seen.facts.modified), seen.and_then(|seen| seen.facts.etag.as_ref()));
            self.record_synced(file, Version { length: Some(sent.bytes), modified, etag: etag.or(sent.etag.as_ref()) });
        }
        self.events.push(PlanEvent::Done(file));
    }

    /// Plans the verification of a folder's finished files: when all of its files are finished, or near the end.
    pub(super) fn verify_finished(&mut self, folder: usize) {
        let at_the_end =
            self.queues.small.is_empty() && self.queues.large.is_empty() && self.in_flight.requests <= TAIL;
        // An existing folder may contain much else.
        let few = self.outline.folders[folder].given && self.outline.files.len() <= FEW;
        let state = &mut self.folders[folder];
        if few || state.singly {
            self.queues.steps.extend(state.unverified.drain(..).map(Step::Look));
        } else if !state.unverified.is_empty() && (state.open == 0 || at_the_end && state.unverified.len() > TAIL) {
            state.singly = state.open > 0 || self.lookups_behind.limit > 0;
            self.queues.steps.push_back(Step::Check(folder, std::mem::take(&mut state.unverified)));
        }
    }

    pub(super) fn checked(&mut self, files: Vec<usize>, result: Result<Listing, Error>) {
        let listing = match result {
            Ok(listing) => listing,
            Err(error) => {
                for file in files {
                    if !self.found_hidden(file, Err(&error)) {
                        self.not_verified(file, &error);
                    }
                }
                return;
            }
        };
        if let Some(file) = files.first() {
            self.spell_as_listed(self.outline.files[*file].folder, &listing);
        }
        for file in files {
            if self.found_hidden(file, Ok(listing.get(&self.outline.files[file].name))) {
                continue;
            }
            let Some(sent) = self.uploads.sent[file].clone() else { continue };
            let there = listing.get(&self.outline.files[file].name);
            match there {
                // A server without lengths has shown at least that it exists.
                Some(there) if there.facts.length.is_none_or(|length| length == sent.bytes) => {
                    self.arrived_whole(file, there);
                }
                None if self.looks_for_unlisted(file) => {}
                None if self.uploads.tries[file] < 2 => self.upload_again(file, Before::Nothing),
                Some(there) if self.uploads.tries[file] < 2 && self.is_created_by_lock(file, there) => {
                    self.upload_again(file, Before::Nothing);
                }
                Some(there) if self.uploads.tries[file] < 2 && self.is_as_before(file, there) => {
                    self.upload_again(file, Before::File(there.precondition()));
                }
                Some(there) if self.uploads.tries[file] < 2 && is_ours(&sent, there) => {
                    self.upload_again(file, Before::File(there.precondition()));
                }
                None => {
                    let bytes = sent.bytes;
                    let why = format!("the server acknowledged {bytes} bytes, but has no such file");
                    self.differs(file, why);
                }
                Some(there) => {
                    let (bytes, found) = (sent.bytes, there.facts.length.unwrap_or_default());
                    let whose = if is_ours(&sent, there) {
                        ""
                    } else {
                        "; somebody else may have replaced it: fetch the current version and compare"
                    };
                    self.differs(file, format!("{bytes} bytes were sent, but the server has {found}{whose}"));
                }
            }
        }
    }

    /// Whether a file is uploaded with no other request on its connection, because a listing could not show whether a
    /// success belongs to it.
    pub(crate) fn goes_alone(&self, file: usize) -> bool {
        let length = Some(self.outline.files[file].length);
        let alike = |there: &RemoteEntry| there.facts.length == length && there.facts.etag.is_none();
        !self.verifies() || self.uploads.tries[file] > 1 || self.uploads.overwritten.get(&file).is_some_and(alike)
    }

    /// Whether the remote entry may still be the one that was to be overwritten. Some servers derive entity tags from
    /// length and second, others from the content.
    fn is_as_before(&self, file: usize, there: &RemoteEntry) -> bool {
        self.uploads.overwritten.get(&file).is_some_and(|before| {
            let tags = before.facts.etag.as_ref().zip(there.facts.etag.as_ref());
            tags.is_none_or(|(before, now)| before == now)
                && (before.facts.length, before.facts.modified) == (there.facts.length, there.facts.modified)
        })
    }

    /// Whether the remote entry may be the empty file that the lock of a new file has created (RFC 4918 §7.3).
    fn is_created_by_lock(&self, file: usize, there: &RemoteEntry) -> bool {
        let is_new = !self.uploads.overwritten.contains_key(&file);
        is_new && self.rules.lock.locks(false) && !there.is_folder && there.facts.length == Some(0)
    }

    /// The file exists with the right length.
    fn arrived_whole(&mut self, file: usize, there: &RemoteEntry) {
        if self.uploads.tries[file] < 2 && !self.goes_alone(file) && self.is_as_before(file, there) {
            return self.upload_again(file, Before::File(there.precondition()));
        }
        if let Some(sent) = &mut self.uploads.sent[file] {
            sent.seen = Some(there.clone());
        }
        if self.rules.verify == Verify::Digest && self.uploads.sent[file].as_ref().is_some_and(|sent| !sent.compared) {
            self.queues.steps.push_back(Step::Compare(file, there.clone()));
        } else {
            self.done(file);
        }
    }

    fn upload_again(&mut self, file: usize, before: Before) {
        self.uploads.sent[file] = None;
        self.folders[self.outline.files[file].folder].open += 1;
        self.queue(file, before);
    }

    /// Reports that the remote file differs.
    pub(super) fn differs(&mut self, file: usize, why: String) {
        let error = match self.outline.files[file].path(&self.outline.folders) {
            Ok(path) => Error::Differs { path, why },
            Err(error) => error,
        };
        self.not_verified(file, &error);
    }

    pub(super) fn not_verified(&mut self, file: usize, error: &Error) {
        self.uploads.sent[file] = None;
        self.open_failed(file, error.clone());
    }
}

/// Whether the remote entry is certainly ours.
fn is_ours(sent: &Sent, there: &RemoteEntry) -> bool {
    sent.etag.as_ref().zip(there.facts.etag.as_ref()).is_some_and(|(ours, found)| ours.resembles(found))
}

/// Whether the remote entry is certainly not ours.
fn is_anothers(sent: &Sent, there: &RemoteEntry) -> bool {
    sent.etag.is_some() && there.facts.etag.is_some() && !is_ours(sent, there)
}
