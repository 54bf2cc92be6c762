//! Whether what was sent has arrived: who is looked at when, and what follows from what is there.
//!
//! After a folder's last file the folder is listed again, if sizes are to be verified: one request tells of all its
//! files, and of what a box on the way has swallowed. A file that did not arrive is sent once more; one that is there
//! in another length too, if what is there is known by its entity tag to be ours. Digests are compared file by file.
//!
//! At the very end a listing would cost a round trip in which nothing else happens. So the last files are each looked
//! at by a request right behind their upload, on its connection, whose answer comes with the upload's own, and the
//! listing of those before them is asked for while they are under way. Where nothing can go right behind an upload
//! (HTTP/2, no pipelining), the listing is asked for just as early, and the last files are looked at one by one.

use super::{Before, FEW, Listing, News, Plan, Sent, Step, TAIL, There, Verify};
use crate::{Error, transfer::unchanged::Version};

/// So many files are looked at right behind their uploads. The question is a few hundred bytes long, and the answer to
/// it as long as in a listing; a listing of more than these files takes several round trips, but they take longer.
const LAST: usize = 256;

impl Plan {
    /// Files may be looked at right behind their uploads.
    pub(crate) fn looking_behind(mut self, possible: bool) -> Self {
        self.looks_behind = if possible && self.verifies() && !self.rules.temporary { LAST } else { 0 };
        self
    }

    fn verifies(&self) -> bool {
        self.rules.verify != Verify::None && !self.rules.dry_run
    }

    /// The step that uploads a file, one of the last of all or not: none of its folder's listing waits for one that is
    /// looked at right behind its upload.
    pub(super) fn upload(&mut self, file: usize, before: Before) -> Step {
        self.begins(file);
        if before == Before::Folder {
            self.replacing.insert(file);
        }
        if self.unknown > 0 || self.small.len() + self.large.len() >= self.looks_behind {
            return Step::Upload(file, before);
        }
        let folder = self.outline.files[file].folder;
        self.looked_at.insert(file);
        self.folders[folder].open -= 1;
        self.settled(folder);
        Step::UploadAndLook(file, before)
    }

    /// An upload has ended, well or not: its folder waits for it no more.
    pub(super) fn ended(&mut self, file: usize) {
        if !self.looked_at.remove(&file) {
            self.folders[self.outline.files[file].folder].open -= 1;
        }
    }

    /// The server has taken a file.
    pub(super) fn arrived(&mut self, file: usize, mut sent: Sent) {
        self.ended(file);
        let seen = sent.seen.take().filter(|seen| seen.length == Some(sent.bytes) && !is_anothers(&sent, seen));
        self.sent[file] = Some(sent);
        match seen {
            _ if !self.verifies() => self.done(file),
            Some(seen) => self.is_there(file, &seen),
            None => self.folders[self.outline.files[file].folder].unverified.push(file),
        }
    }

    pub(super) fn done(&mut self, file: usize) {
        self.replaced.remove(&file);
        if let Some(sent) = self.sent[file].take() {
            // What somebody else has put there by now is not what was sent.
            let seen = sent.seen.as_ref().filter(|seen| !is_anothers(&sent, seen));
            let (modified, etag) = (seen.and_then(|seen| seen.modified), seen.and_then(|seen| seen.etag.as_ref()));
            self.saw(file, Version { length: Some(sent.bytes), modified, etag: etag.or(sent.etag.as_ref()) });
        }
        self.news.push(News::Done(file));
    }

    /// Files that are settled are looked at when all of their folder are, or when only the last are not.
    pub(super) fn settled(&mut self, folder: usize) {
        let at_the_end = self.small.is_empty() && self.large.is_empty() && self.under_way <= TAIL;
        // What else is in a folder that was there may be much.
        let few = self.outline.folders[folder].given && self.outline.files.len() <= FEW;
        let state = &mut self.folders[folder];
        if few || state.singly {
            self.steps.extend(state.unverified.drain(..).map(Step::Look));
        } else if !state.unverified.is_empty() && (state.open == 0 || at_the_end && state.unverified.len() > TAIL) {
            state.singly = state.open > 0 || self.looks_behind > 0;
            self.steps.push_back(Step::Check(folder, std::mem::take(&mut state.unverified)));
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
            let Some(sent) = self.sent[file].clone() else { continue };
            let there = listing.get(&self.outline.files[file].name);
            match there {
                // A server that does not say lengths has said at least that it is there.
                Some(there) if there.length.is_none_or(|length| length == sent.bytes) => self.is_there(file, there),
                None if self.looks_for_unlisted(file) => {}
                None if self.tries[file] < 2 => self.once_more(file, Before::Nothing),
                Some(there) if self.tries[file] < 2 && self.is_as_before(file, there) => {
                    self.once_more(file, Before::File(there.precondition()));
                }
                Some(there) if self.tries[file] < 2 && is_ours(&sent, there) => {
                    self.once_more(file, Before::File(there.precondition()));
                }
                None => {
                    let bytes = sent.bytes;
                    let why = format!("the server acknowledged {bytes} bytes, but has no such file");
                    self.differs(file, why);
                }
                Some(there) => {
                    let (bytes, found) = (sent.bytes, there.length.unwrap_or_default());
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

    /// Whether a file's upload goes with nothing else on its connection: its success could be another's, and a listing
    /// would not tell.
    pub(crate) fn goes_alone(&self, file: usize) -> bool {
        let length = Some(self.outline.files[file].length);
        let alike = |there: &There| there.length == length && there.etag.is_none();
        !self.verifies() || self.tries[file] > 1 || self.replaced.get(&file).is_some_and(alike)
    }

    /// Whether what is there may be what was to be overwritten. Some servers make entity tags of the length and the
    /// second, others of the bytes.
    fn is_as_before(&self, file: usize, there: &There) -> bool {
        self.replaced.get(&file).is_some_and(|before| {
            let tags = before.etag.as_ref().zip(there.etag.as_ref());
            tags.is_none_or(|(before, now)| before == now)
                && (before.length, before.modified) == (there.length, there.modified)
        })
    }

    /// A file is there, in its length.
    fn is_there(&mut self, file: usize, there: &There) {
        if self.tries[file] < 2 && !self.goes_alone(file) && self.is_as_before(file, there) {
            return self.once_more(file, Before::File(there.precondition()));
        }
        if let Some(sent) = &mut self.sent[file] {
            sent.seen = Some(there.clone());
        }
        if self.rules.verify == Verify::Digest && self.sent[file].as_ref().is_some_and(|sent| !sent.compared) {
            self.steps.push_back(Step::Compare(file, there.clone()));
        } else {
            self.done(file);
        }
    }

    fn once_more(&mut self, file: usize, before: Before) {
        self.sent[file] = None;
        self.folders[self.outline.files[file].folder].open += 1;
        self.queue(file, before);
    }

    /// What is there is not what was sent.
    pub(super) fn differs(&mut self, file: usize, why: String) {
        let error = match self.outline.files[file].path(&self.outline.folders) {
            Ok(path) => Error::Differs { path, why },
            Err(error) => error,
        };
        self.not_verified(file, &error);
    }

    pub(super) fn not_verified(&mut self, file: usize, error: &Error) {
        self.sent[file] = None;
        self.open_failed(file, error.clone());
    }
}

/// Whether what is there is what the server took from us.
fn is_ours(sent: &Sent, there: &There) -> bool {
    sent.etag.as_ref().zip(there.etag.as_ref()).is_some_and(|(ours, found)| ours.resembles(found))
}

/// Whether what is there is known not to be.
fn is_anothers(sent: &Sent, there: &There) -> bool {
    sent.etag.is_some() && there.etag.is_some() && !is_ours(sent, there)
}
