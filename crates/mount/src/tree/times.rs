//! The times of folders.
//!
//! A folder's time changes when a program makes, removes or renames something in it (POSIX); make, rsync and git's untracked
//! cache rely on that. The server's time is known only when the folder or the one above it is listed again, and may not have
//! changed even then: with a journal, the server does not have the new file yet. So a change here gives the folder a time at
//! once, which stays until the server tells another than before. That of the same second, the precision of HTTP, is the same.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Facts, Ino, Mark, Tree};

#[derive(Debug, Default)]
pub(super) struct FolderTime {
    /// What the server told last.
    told: Option<SystemTime>,
    /// The number of the last change here.
    changed: u64,
}

impl Tree {
    /// A program has made, removed or renamed a member.
    pub(super) fn touch(&mut self, folder: Ino) {
        let change = self.change;
        let node = self.node_mut(folder);
        // Later than before, although the server's clock may be ahead.
        let next = node.facts.modified.and_then(|time| time.checked_add(Duration::from_nanos(1)));
        node.facts.modified = next.max(Some(SystemTime::now()));
        self.folder_mut(folder).time.changed = change;
    }

    /// A listing that was requested at `mark` says this of a folder itself.
    pub(crate) fn folder_is(&mut self, ino: Ino, mark: Mark, facts: Facts) {
        let shown = self.node(ino).facts.modified;
        let time = &mut self.folder_mut(ino).time;
        let is_news = facts.modified.is_some() && time.told != facts.modified;
        time.told = facts.modified.or(time.told);
        let is_older = time.changed > mark.change;
        let is_same = shown.and_then(second) == facts.modified.and_then(second);
        let modified = if is_news && !is_older && !is_same { facts.modified } else { shown };
        self.node_mut(ino).facts = Facts { modified, ..facts };
    }
}

fn second(time: SystemTime) -> Option<u64> {
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}
