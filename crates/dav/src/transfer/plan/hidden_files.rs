//! Servers that hide files: nginx lists no name that begins with a dot, and serves each.
//!
//! A file that was uploaded and is not listed looks lost, and one that was there looks like somebody else's: its upload,
//! on the condition that nothing is there, is refused. So such a name is looked at directly before anything follows from
//! the listing. That the server hides it is said once.

use std::collections::{HashMap, HashSet};

use super::{News, Plan, Step, There};
use crate::Error;

/// What is known of hidden files.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Files whose upload was refused as if something were there, and why.
    refused: HashMap<usize, Error>,
    /// Files that were uploaded, are not listed, and are looked at.
    unlisted: HashSet<usize>,
    told: bool,
}

impl Plan {
    fn may_be_hidden(&self, file: usize) -> bool {
        self.outline.files[file].name.starts_with(b".")
    }

    /// An upload was refused: whether it is looked first if there is a file that the listing did not have.
    pub(super) fn looks_for_hidden(&mut self, file: usize, refused: &Error) -> bool {
        let looks = refused.is(412) && self.may_be_hidden(file) && !self.hidden.refused.contains_key(&file);
        if looks {
            if self.looked_at.remove(&file) {
                self.folders[self.outline.files[file].folder].open += 1;
            }
            self.hidden.refused.insert(file, refused.clone());
            self.steps.push_back(Step::Look(file));
        }
        looks
    }

    /// An upload is not listed: whether it is looked at directly before it is sent again.
    pub(super) fn looks_for_unlisted(&mut self, file: usize) -> bool {
        let looks = self.may_be_hidden(file) && self.hidden.unlisted.insert(file);
        if looks {
            self.steps.push_back(Step::Look(file));
        }
        looks
    }

    /// What a look at a file has found: whether it was one for a file that may be hidden, and settles that. If it is
    /// there, it is treated as if it had been listed.
    pub(super) fn found_hidden(&mut self, file: usize, there: Result<Option<&There>, &Error>) -> bool {
        let is_there = matches!(there, Ok(Some(_)));
        if self.sent[file].is_some() {
            if is_there && self.hidden.unlisted.contains(&file) {
                self.tell_hidden();
            }
            return false;
        }
        let Some(refused) = self.hidden.refused.get(&file).cloned() else { return false };
        if let Ok(Some(there)) = there {
            self.tell_hidden();
            self.tries[file] = 0;
            self.file_ready(file, Some(there));
        } else {
            self.file_failed(file, refused);
        }
        self.settled(self.outline.files[file].folder);
        true
    }

    fn tell_hidden(&mut self) {
        if !std::mem::replace(&mut self.hidden.told, true) {
            self.news.push(News::Hides);
        }
    }
}
