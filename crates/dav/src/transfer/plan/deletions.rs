//! Deletions of a mirror: all at the end, and not more than allowed.
//!
//! Deletions are pipelined, and one success looks like another: if a server drops one of them, all seem to have succeeded.
//! So their folders are checked afterwards. What still exists is deleted again on a connection of its own, and reported if
//! that has no effect either.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Deletable, Listing, Node, Plan, PlanEvent, RemoteEntry, Step};
use crate::{
    Error, Precondition, RemotePath,
    transfer::{
        name_folding::key,
        temporary_files::{is_temporary, is_transfer_part},
        walk::Folder,
    },
};

impl Plan {
    /// The next deletion. No deletion is within another, so all can be sent at once when nothing else is left.
    pub(super) fn next_deletion(&mut self) -> Option<Step> {
        let is_spared = self.deletion.has_failures && !self.rules.ignore_errors;
        if self.in_flight.requests > 0 && !self.deletion.started {
            return None;
        }
        if !is_spared && !self.deletion.started && self.rules.max_delete.is_some_and(|most| self.deletion.count > most)
        {
            self.deletion.planned.clear();
            self.deletion.doubtful.clear();
            self.refuse();
            return None;
        }
        if !is_spared && let Some((path, precondition)) = self.deletion.planned.pop() {
            self.deletion.started = true;
            self.in_flight.requests += 1;
            return Some(Step::Delete(path, precondition));
        }
        if !is_spared && let Some((path, precondition, twin)) = self.deletion.doubtful.pop() {
            self.deletion.started = true;
            self.in_flight.requests += 1;
            return Some(Step::DeleteTwin(path, precondition, twin));
        }
        if self.in_flight.requests > 0 || self.deletion.confirmed.is_empty() {
            return None;
        }
        let mut folders: BTreeMap<RemotePath, Vec<(RemotePath, Precondition)>> = BTreeMap::new();
        for (path, precondition) in std::mem::take(&mut self.deletion.confirmed) {
            let folder = path.parent().unwrap_or_else(|| path.clone());
            folders.entry(folder).or_default().push((path, precondition));
        }
        self.queues.steps.extend(folders.into_iter().map(|(folder, paths)| Step::Remaining(folder, paths)));
        self.in_flight.requests += 1;
        self.queues.steps.pop_front()
    }

    /// Handles the answer to a deletion.
    pub(super) fn deleted(&mut self, path: RemotePath, precondition: Precondition, result: Result<(), Error>) {
        match result {
            // A move into a backup is not pipelined.
            Ok(()) if self.rules.dry_run || self.rules.backup.is_some() => self.events.push(PlanEvent::Deleted(path)),
            Ok(()) => self.deletion.confirmed.push((path, precondition)),
            Err(error) => self.fail(path.to_string(), error),
        }
    }

    /// Handles the check of which deleted paths still exist.
    pub(super) fn remained(
        &mut self,
        paths: Vec<(RemotePath, Precondition)>,
        there: Result<HashSet<RemotePath>, Error>,
    ) {
        let there = match there {
            Ok(there) => there,
            Err(error) => return paths.iter().for_each(|(path, _)| self.fail(path.to_string(), error.clone())),
        };
        for (path, precondition) in paths {
            if !there.contains(&path) {
                self.events.push(PlanEvent::Deleted(path));
            } else if self.deletion.retried.insert(path.clone()) {
                self.queues.steps.push_back(Step::DeleteAlone(path, precondition));
            } else {
                let why = "the server confirmed the deletion, but it still exists".into();
                self.fail(path.to_string(), Error::Differs { path, why });
            }
        }
    }

    fn refuse(&mut self) {
        let doomed = std::mem::take(&mut self.deletion.count);
        let (Some(most), Some(root)) = (self.rules.max_delete, self.outline.folders.first()) else { return };
        let path = root.path.clone();
        self.fail(path.to_string(), Error::Differs { path, why: too_many(doomed, most) });
    }

    /// Plans deletions in a folder that is known on both sides: names that exist only on the server, unless they are
    /// renamed.
    pub(super) fn plan_deletions(&mut self, folder: usize, listing: &Listing, renamed: &HashMap<Vec<u8>, Node>) {
        let (state, outline) = (&self.folders[folder], &self.outline);
        let files = state.files.iter().map(|file| outline.files[*file].name.as_slice());
        let folders = state.children.iter().filter_map(|child| outline.folders[*child].path.name());
        let kept: HashSet<&[u8]> = files.chain(folders).collect();
        let Folder { path, scope, excluded, stays, twins, unread, .. } = &outline.folders[folder];
        if *unread {
            return;
        }
        // New local names: if the server ignores case, one of them may be the same file as an old name there.
        let new = kept.iter().filter(|name| !listing.contains_key(**name));
        let new: HashMap<Vec<u8>, &[u8]> = new.map(|name| (key(name), *name)).collect();
        let filter = Some(&self.rules.filter).filter(|filter| !filter.is_empty() && !self.rules.delete_excluded);
        for (name, there) in listing {
            let stays = renamed.contains_key(name)
                || is_temporary(name)
                || stays.contains(name)
                || twins.contains(name)
                || filter.is_some() && excluded.contains(name);
            let (false, Ok(path)) = (stays || kept.contains(name.as_slice()), path.join(name, there.is_folder)) else {
                continue;
            };
            if let Some(twin) = new.get(&key(name)) {
                self.deletion.count += 1;
                let precondition = if there.is_folder { Precondition::None } else { there.precondition() };
                self.deletion.doubtful.push((path, precondition, twin.to_vec()));
                continue;
            }
            match filter {
                Some(filter) if there.is_folder => {
                    self.queues
                        .steps
                        .extend(filter.folder(scope, name).map(|scope| Step::CollectDeletable(path, scope)));
                }
                // Its contents are counted.
                None if there.is_folder && self.rules.max_delete.is_some() => {
                    self.queues.steps.push_back(Step::CollectDeletable(path, scope.clone()));
                }
                Some(filter) if !filter.file(scope, name, there.facts.length, there.facts.modified) => {}
                _ => {
                    self.deletion.count += 1;
                    self.deletion
                        .planned
                        .push((path, if there.is_folder { Precondition::None } else { there.precondition() }));
                }
            }
        }
    }

    /// Plans the deletion of temporary files of earlier runs that are stale by the server's clock.
    pub(super) fn sweep(&mut self, folder: usize, listing: &Listing) {
        let Some((since, clock)) = self.known.old_since.zip(self.known.times.clock) else { return };
        let is_old = |there: &RemoteEntry| there.facts.modified.is_some_and(|time| clock.ours(time).1 <= since);
        let old = listing.iter().filter(|(name, there)| is_transfer_part(name) && is_old(there));
        let path = &self.outline.folders[folder].path;
        let steps = old.filter_map(|(name, there)| {
            Some(Step::Sweep(path.join(name, there.is_folder).ok()?, there.precondition()))
        });
        self.queues.steps.extend(steps);
    }

    pub(super) fn deletable(&mut self, deletable: Deletable) {
        self.deletion.count += deletable.count;
        self.deletion.planned.extend(deletable.deletions);
    }
}

/// The reason why nothing is deleted.
pub(crate) fn too_many(doomed: u64, most: u64) -> String {
    let doomed = if doomed == 1 { "1 file or folder".to_owned() } else { format!("{doomed} files and folders") };
    format!(
        "{doomed} would be deleted, but `--max-delete` allows {most}, so nothing was deleted; check the source, or raise \
         the limit"
    )
}
