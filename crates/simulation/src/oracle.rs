//! What programs were told, and whether it is so in the end.
//!
//! Each content is to be unique, so that the oracle can tell where it went. Paths are the server's, encoded.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use bytes::Bytes;

use crate::server::{Author, Change, Server};

/// What marks the name of a version that was stored beside another one.
const BESIDE: &str = "conflict%20";

/// How many bytes of a content are shown.
const SHOWN: usize = 40;

/// What a program may find at a name.
#[derive(Debug, Clone, Default)]
struct Name {
    /// What may be there: the last confirmed content, and those of changes since that have failed. None for nothing.
    possible: Vec<Option<Bytes>>,
    /// The names that it had before.
    former: Vec<String>,
}

impl Name {
    fn of(content: Option<Bytes>) -> Self {
        Self { possible: vec![content], former: Vec::new() }
    }
}

/// A renaming whose outcome is not known yet.
#[derive(Debug)]
pub struct Renaming {
    from: String,
    to: String,
    moved: Name,
}

/// Knows what was confirmed to programs.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    names: BTreeMap<String, Name>,
    /// What programs have written, and the content that each was made from; none if it does not matter.
    written: HashMap<Bytes, Option<Bytes>>,
    /// Names with a change in flight when the program was killed: nobody remembers it.
    forgotten: BTreeSet<String>,
    /// Folders that a program may have removed.
    removed: BTreeSet<String>,
}

impl Oracle {
    /// A program writes a content, which it has made from `base`; none if it replaces whatever is there.
    pub fn writes(&mut self, content: &Bytes, base: Option<&Bytes>) {
        self.written.insert(content.clone(), base.cloned());
    }

    /// Whether somebody has written a content: a program here, or another client.
    pub fn knows(&self, content: &Bytes, server: &Server) -> bool {
        content.is_empty()
            || self.written.contains_key(content)
            || server.versions.iter().any(|version| version.by == Author::Other && version.content == *content)
    }

    /// A program was told that a name has this content, or nothing: from now on it has.
    pub fn confirmed(&mut self, path: &str, content: Option<Bytes>) {
        let name = self.names.entry(path.to_owned()).or_default();
        name.possible = vec![content];
    }

    /// A change has failed, or its program was not told its outcome: the name may have what it had, or this.
    pub fn unconfirmed(&mut self, path: &str, content: Option<Bytes>) {
        let name = self.names.entry(path.to_owned()).or_insert_with(|| Name::of(None));
        if !name.possible.contains(&content) {
            name.possible.push(content);
        }
    }

    /// The program under test is killed.
    pub fn killed(&mut self) {
        let uncertain = self.names.iter().filter(|(_, name)| name.possible.len() > 1);
        self.forgotten.extend(uncertain.map(|(path, _)| path.clone()));
    }

    /// Removing a folder has failed, and may take effect later: what is stored in it then is put aside.
    pub fn may_be_removed(&mut self, folder: &str) {
        self.removed.insert(folder.to_owned());
    }

    /// A program renames a file, and replaces what has the new name.
    pub fn begin_rename(&mut self, from: &str, to: &str, server: &Server) -> Renaming {
        let mut moved = self.names.get(from).cloned().unwrap_or_default();
        moved.former.push(from.to_owned());
        moved.possible.retain(Option::is_some);
        add_theirs(&mut moved, from, server);
        for content in moved.possible.clone() {
            self.unconfirmed(to, content);
        }
        self.unconfirmed(from, None);
        if let Some(name) = self.names.get_mut(to) {
            name.former.extend(moved.former.clone());
        }
        Renaming { from: from.to_owned(), to: to.to_owned(), moved }
    }

    /// A renaming has succeeded.
    pub fn renamed(&mut self, Renaming { from, to, mut moved }: Renaming, server: &Server) {
        self.confirmed(&from, None);
        add_theirs(&mut moved, &from, server);
        self.names.insert(to, moved);
    }

    /// What may be at a name.
    pub fn possible(&self, path: &str) -> &[Option<Bytes>] {
        self.names.get(path).map_or(&[None], |name| &name.possible)
    }

    /// What is wrong now that all has settled. `kept` is what the program has put aside for people.
    pub fn judge(&self, server: &Server, kept: &[Bytes]) -> Vec<String> {
        let mut wrong = Vec::new();
        for path in self.names.keys() {
            if !self.is_kept(path, server, kept) {
                let possible = self.possible(path).iter().map(|it| shown(it.as_ref())).collect::<Vec<_>>().join(" or ");
                wrong.push(format!("{path} has {}, and should have {possible}", shown(server.content(path))));
            }
        }
        wrong.extend(self.unknown(server));
        wrong.extend(server.changes.iter().filter_map(|change| self.lost_of_others(change, server)));
        wrong.extend(self.own_conflicts(server));
        wrong
    }

    /// Whether what was confirmed at a path is there, or where somebody finds it.
    fn is_kept(&self, path: &str, server: &Server, kept: &[Bytes]) -> bool {
        let (possible, now) = (self.possible(path), server.content(path));
        if possible.iter().any(|possible| possible.as_ref() == now) {
            return true;
        }
        let content_of = |version: Option<usize>| version.map(|version| &server.versions[version].content);
        let theirs: Vec<_> =
            self.all_names(path).into_iter().flat_map(|path| changes_of(Author::Other, path, server)).collect();
        possible.iter().any(|possible| match possible {
            None => !theirs.is_empty() || has_returned(path, server),
            Some(ours) => {
                let is_replaced = theirs.iter().any(|change| content_of(change.before) == Some(ours));
                let is_beside = server.files().any(|(_, content)| content == ours);
                // Nobody misses an empty file.
                let is_homeless = path.rsplit_once('/').is_some_and(|(folder, _)| self.removed.contains(folder));
                let has_reason = is_homeless || !theirs.is_empty() || self.forgotten.contains(path);
                is_replaced || (has_reason && (is_beside || ours.is_empty() || kept.contains(ours)))
            }
        })
    }

    /// A path and those that the file there had before.
    fn all_names<'a>(&'a self, path: &'a str) -> Vec<&'a str> {
        let former = self.names.get(path).map_or(&[][..], |name| &name.former);
        former.iter().map(|name| &**name).chain([path]).collect()
    }

    /// Contents that our program has stored and nobody has written.
    fn unknown(&self, server: &Server) -> Vec<String> {
        let ours = server.versions.iter().filter(|version| version.by == Author::Ours);
        let unknown = ours.filter(|version| !self.knows(&version.content, server));
        unknown.map(|version| format!("nobody has written {}", shown(Some(&version.content)))).collect()
    }

    /// Whether a program may have made a content knowing another one: from it, or in place of whatever was there.
    fn may_replace(&self, content: &Bytes, other: &Bytes) -> bool {
        let mut at = content;
        // A program may have emptied the file.
        while at != other && !at.is_empty() {
            match self.written.get(at) {
                Some(Some(base)) => at = base,
                _ => return true,
            }
            if !self.written.contains_key(at) && at != other && !at.is_empty() {
                return false;
            }
        }
        true
    }

    /// Conflicts with nobody else.
    fn own_conflicts(&self, server: &Server) -> Vec<String> {
        let is_alone = |path: &str| {
            self.all_names(path).into_iter().all(|path| {
                let has_changed = changes_of(Author::Other, path, server).next().is_some();
                let has_lost_lock = server.expired.iter().any(|(_, expired)| expired == path);
                !has_changed && !has_lost_lock && !self.forgotten.contains(path)
            })
        };
        let beside = server.files().filter(|(path, content)| {
            !content.is_empty() && original(path).is_some_and(|original| is_alone(&original))
        });
        beside
            .map(|(path, content)| format!("{path} with {} is a conflict with nobody", shown(Some(content))))
            .collect()
    }

    /// Whether what a change replaces was only there because a renaming of ours had come late, and it has its old name again, or
    /// a program has made a newer version from it there.
    fn goes_on_elsewhere(&self, change: &Change, server: &Server) -> bool {
        let by_us = |method: &'static str| {
            server
                .changes
                .iter()
                .filter(move |one| one.by == Author::Ours && one.method == method && one.at <= change.at)
        };
        let Some(content) = change.before.map(|before| &server.versions[before].content) else { return false };
        let was_moved = by_us("MOVE").any(|moved| moved.path == change.path && moved.after == change.before);
        let is_content = |copy: &Change| copy.after.is_some_and(|after| server.versions[after].content == *content);
        let is_base = |upload: &Change| {
            let made = upload.after.map(|after| &server.versions[after].content);
            made.and_then(|made| self.written.get(made)).is_some_and(|base| base.as_ref() == Some(content))
        };
        was_moved && (by_us("COPY").any(is_content) || by_us("PUT").any(is_base))
    }

    /// Another client's version that an upload has replaced without knowing it. Whoever removes or renames a file means what
    /// has its name.
    fn lost_of_others(&self, change: &Change, server: &Server) -> Option<String> {
        let before = &server.versions[change.before.filter(|_| change.by == Author::Ours)?];
        let after = &server.versions[change.after.filter(|_| change.method == "PUT")?].content;
        let is_known = before.shown.is_some_and(|shown| shown <= change.at);
        let is_lost = before.by == Author::Other
            && !(is_known && self.may_replace(after, &before.content))
            && !self.goes_on_elsewhere(change, server);
        is_lost.then(|| {
            let Change { path, method, at, .. } = change;
            let content = shown(Some(&before.content));
            format!("{method} {path} at {:.3} replaces {content} of another client", at.as_secs_f64())
        })
    }
}

/// What is renamed may be another client's version.
fn add_theirs(name: &mut Name, from: &str, server: &Server) {
    let theirs = changes_of(Author::Other, from, server).filter_map(|change| change.after);
    name.possible.extend(theirs.map(|version| Some(server.versions[version].content.clone())));
}

/// Whether a late upload has brought back what was deleted since (docs/src/semantics.md, "Late requests").
fn has_returned(path: &str, server: &Server) -> bool {
    let last = server.changes.iter().rfind(|change| change.path == path);
    last.is_some_and(|last| last.method == "PUT" && last.before.is_none())
}

/// Changes at a path by somebody, after those that made the first state of the server.
fn changes_of<'a>(by: Author, path: &'a str, server: &'a Server) -> impl Iterator<Item = &'a Change> {
    server.changes.iter().filter(move |change| change.by == by && change.path == path && change.at > Duration::ZERO)
}

/// The path whose other version is at this one.
pub fn original(beside: &str) -> Option<String> {
    let at = beside.find(BESIDE)?;
    // The blank and the parenthesis before it, encoded or not.
    let (stem, rest) = (&beside[..at], &beside[at..]);
    let stem = stem.strip_suffix('(').or_else(|| stem.strip_suffix("%28"))?.strip_suffix("%20")?;
    let digits = rest[BESIDE.len()..].find(|char: char| !char.is_ascii_digit())?;
    let extension = rest[BESIDE.len() + digits..].trim_start_matches("%29").trim_start_matches(')');
    Some(format!("{stem}{extension}"))
}

fn shown(content: Option<&Bytes>) -> String {
    let begin = |content: &Bytes| String::from_utf8_lossy(&content[..content.len().min(SHOWN)]).into_owned();
    content.map_or_else(|| "nothing".into(), |content| format!("{:?}", begin(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_conflicts_lead_to_the_original() {
        assert_eq!(original("/d/a%20(conflict%201700000000).txt").as_deref(), Some("/d/a.txt"));
        assert_eq!(original("/a%20%28conflict%2017%29").as_deref(), Some("/a"));
        assert_eq!(original("/conflict%20a"), None);
    }
}
