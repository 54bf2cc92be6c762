//! Creation of folders.
//!
//! Requests that create folders are pipelined, and one success looks like another: if a server drops one of them, all seem to
//! have succeeded. It shows when something is put into the missing folder, which is refused (409, RFC 4918 §9.3.1 and §9.7.1),
//! or by a lookup of a folder that stays empty. Such a folder is created again on a connection of its own, and whatever was
//! refused because of it is sent again.

use super::{Before, Error, Listing, Plan, PlanEvent, Step};

/// How certain it is that a folder was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Made {
    /// Not created by us, or not yet.
    #[default]
    No,
    /// The server confirmed it, but the answer may belong to another request.
    Perhaps,
    /// It must be created again, on a connection of its own.
    Again,
    Surely,
}

/// An upload or folder that was refused because its parent does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) enum Awaiting {
    File(usize),
    Folder(usize),
}

impl Plan {
    /// Whether the folder is created with no other request on its connection.
    pub(crate) fn makes_alone(&self, folder: usize) -> bool {
        self.folders[folder].made == Made::Again
    }

    pub(super) fn made(&mut self, folder: usize, result: Result<bool, Error>) {
        let again = self.makes_alone(folder);
        match result {
            Err(error) if is_missing_folder(&error) && self.parent_awaits(folder) => {}
            Err(error) if again => self.not_made(folder, &error),
            Err(error) => self.fail_folder(folder, &error),
            Ok(_) if again => self.made_again(folder),
            Ok(true) => {
                let state = &mut self.folders[folder];
                let is_empty = state.files.is_empty() && state.children.is_empty();
                if self.rules.dry_run {
                    state.made = Made::Surely;
                } else {
                    state.made = Made::Perhaps;
                    self.queues.steps.extend(is_empty.then_some(Step::Confirm(folder)));
                }
                self.events.push(PlanEvent::Made(folder));
                self.folder_known(folder, &Listing::new());
            }
            // Somebody else has created it, so its contents are unknown.
            Ok(false) => self.queues.steps.push_back(Step::List(folder)),
        }
    }

    pub(super) fn confirmed(&mut self, folder: usize, result: Result<bool, Error>) {
        match result {
            Ok(true) => self.folders[folder].made = Made::Surely,
            Ok(false) => self.make_again(folder),
            Err(error) => self.fail(self.outline.folders[folder].path.to_string(), error),
        }
    }

    /// Called when something was refused because its parent does not exist; returns whether it waits until the parent
    /// is created again.
    pub(super) fn awaits(&mut self, folder: usize, who: Awaiting) -> bool {
        if !matches!(self.folders[folder].made, Made::Perhaps | Made::Again) {
            return false;
        }
        if let Awaiting::File(file) = who
            && self.lookups_behind.in_flight.remove(&file)
        {
            self.folders[folder].open += 1;
        }
        self.folders[folder].awaiting.push(who);
        if self.folders[folder].made == Made::Perhaps {
            self.make_again(folder);
        }
        true
    }

    fn parent_awaits(&mut self, folder: usize) -> bool {
        self.outline.folders[folder].parent.is_some_and(|parent| self.awaits(parent, Awaiting::Folder(folder)))
    }

    fn make_again(&mut self, folder: usize) {
        self.folders[folder].made = Made::Again;
        self.queues.steps.push_back(Step::Make(folder));
    }

    fn made_again(&mut self, folder: usize) {
        self.folders[folder].made = Made::Surely;
        for who in std::mem::take(&mut self.folders[folder].awaiting) {
            match who {
                Awaiting::File(file) => self.queue(file, Before::Nothing),
                Awaiting::Folder(child) => self.queues.steps.push_back(Step::Make(child)),
            }
        }
    }

    /// The folder cannot be created, so everything that waits for it fails.
    fn not_made(&mut self, folder: usize, error: &Error) {
        self.folders[folder].made = Made::Surely;
        self.fail(self.outline.folders[folder].path.to_string(), error.clone());
        for who in std::mem::take(&mut self.folders[folder].awaiting) {
            match who {
                Awaiting::File(file) => self.file_failed(file, error.clone()),
                Awaiting::Folder(child) => self.fail_folder(child, error),
            }
        }
    }
}

/// Whether a request may have been refused because its parent does not exist.
pub(super) fn is_missing_folder(error: &Error) -> bool {
    error.is(409) || error.is(404)
}
