//! Servers that hide files: nginx lists no name that begins with a dot, but serves each.
//!
//! An uploaded file that is not listed looks lost, and an existing one looks like somebody else's: its upload, conditional on
//! absence, is refused. So such a name is looked up directly before anything is concluded from the listing. The user is told
//! once that the server hides files.

use std::collections::{HashMap, HashSet};

use super::{Plan, PlanEvent, RemoteEntry, Step};
use crate::Error;

/// What is known about hidden files.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Files whose upload was refused because something exists, with the error.
    refused: HashMap<usize, Error>,
    /// Uploaded files that are not listed, and are looked up.
    unlisted: HashSet<usize>,
    /// Whether the user was told that the server hides files.
    is_reported: bool,
}

impl Plan {
    fn may_be_hidden(&self, file: usize) -> bool {
        self.outline.files[file].name.starts_with(b".")
    }

    /// After a refused upload: whether to look up first if a file exists that the listing did not show.
    pub(super) fn looks_for_hidden(&mut self, file: usize, refused: &Error) -> bool {
        let looks = refused.is(412) && self.may_be_hidden(file) && !self.hidden.refused.contains_key(&file);
        if looks {
            if self.lookups_behind.in_flight.remove(&file) {
                self.folders[self.outline.files[file].folder].open += 1;
            }
            self.hidden.refused.insert(file, refused.clone());
            self.queues.steps.push_back(Step::Look(file));
        }
        looks
    }

    /// For an upload that is not listed: whether to look it up before sending it again.
    pub(super) fn looks_for_unlisted(&mut self, file: usize) -> bool {
        let looks = self.may_be_hidden(file) && self.hidden.unlisted.insert(file);
        if looks {
            self.queues.steps.push_back(Step::Look(file));
        }
        looks
    }

    /// Handles the result of a lookup; returns whether it was for a possibly hidden file. If the file exists, it is
    /// treated as if it had been listed.
    pub(super) fn found_hidden(&mut self, file: usize, there: Result<Option<&RemoteEntry>, &Error>) -> bool {
        let is_there = matches!(there, Ok(Some(_)));
        if self.uploads.sent[file].is_some() {
            if is_there && self.hidden.unlisted.contains(&file) {
                self.tell_hidden();
            }
            return false;
        }
        let Some(refused) = self.hidden.refused.get(&file).cloned() else { return false };
        if let Ok(Some(there)) = there {
            self.tell_hidden();
            self.uploads.tries[file] = 0;
            self.plan_file(file, Some(there));
        } else {
            self.file_failed(file, refused);
        }
        self.verify_finished(self.outline.files[file].folder);
        true
    }

    fn tell_hidden(&mut self) {
        if !std::mem::replace(&mut self.hidden.is_reported, true) {
            self.events.push(PlanEvent::HidesFiles);
        }
    }
}
