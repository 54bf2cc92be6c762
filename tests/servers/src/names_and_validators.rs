//! Names, times and validators, altered by the server's behaviours.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, SystemTime},
};

use crate::{
    behaviour::{FoundIn, Validators},
    double::{Node, State},
    message::Response,
    paths,
    verbs::{self, date, etag},
};

impl State {
    /// The time by the server's clock.
    pub(crate) fn now(&self) -> SystemTime {
        let ahead = self.behaviours.iter().map(|behaviour| behaviour.clock_offset()).sum::<i64>() + self.ahead;
        let now = SystemTime::now();
        let distance = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { now - distance } else { now + distance }
    }

    pub(crate) fn validators(&self, place: FoundIn, node: &Node) -> Validators {
        let Node::File { content, version, modified } = node else { return Validators { etag: None, modified: None } };
        let mut validators = Validators { etag: Some(etag(*version)), modified: Some(*modified) };
        for behaviour in &self.behaviours {
            behaviour.alter_validators(place, content.len(), &mut validators);
        }
        validators
    }

    /// The entity tag that preconditions are compared with: one that is sent anywhere.
    pub(crate) fn tag(&self, path: &str) -> Option<String> {
        let node = self.nodes.get(path)?;
        if let Node::Folder = node {
            return self.folder_tag(path);
        }
        self.validators(FoundIn::Response, node).etag.or_else(|| self.validators(FoundIn::Listing, node).etag)
    }

    /// The entity tag of a folder, if folders have any.
    pub(crate) fn folder_tag(&self, path: &str) -> Option<String> {
        let members: Vec<&String> = self.nodes.keys().filter(|known| verbs::parent(known) == path).collect();
        let mut hasher = DefaultHasher::new();
        members.hash(&mut hasher);
        self.tags_folders.then(|| format!("\"folder-{:x}\"", hasher.finish()))
    }

    /// Adds the validators of a file to a response.
    pub(crate) fn show(&self, path: &str, answer: Response) -> Response {
        let shown = self.validators(FoundIn::Response, &self.nodes[path]);
        let answer = shown.etag.into_iter().fold(answer, |answer, tag| answer.with("etag", &tag));
        shown.modified.into_iter().fold(answer, |answer, time| answer.with("last-modified", &date(time)))
    }

    /// The path under which something is stored, or would be.
    pub(crate) fn stored_path(&self, path: &str) -> String {
        if self.behaviours.is_empty() {
            return path.to_owned();
        }
        let kept = self.mapped(path, |behaviour, name| behaviour.stored_name(name));
        let key_of = |path: &str| self.mapped(path, |behaviour, name| behaviour.name_key(name));
        let key = key_of(&kept);
        let known = self.nodes.keys().find(|known| key_of(known) == key);
        known.cloned().unwrap_or_else(|| match kept.rsplit_once('/') {
            Some((folder, name)) => format!("{}/{name}", self.stored_path(folder)),
            None => kept,
        })
    }

    /// The path after a rename, which may change only the spelling of the name.
    pub(crate) fn stored_path_after_rename(&self, from: &str, to: &str) -> String {
        let kept = self.stored_path(to);
        match (to.rsplit_once('/'), kept.rsplit_once('/')) {
            (Some((_, name)), Some((folder, _))) if kept == from => {
                let name = self.mapped(name, |behaviour, name| behaviour.stored_name(name));
                format!("{folder}/{name}")
            }
            _ => kept,
        }
    }

    fn mapped(&self, path: &str, change: impl Fn(&dyn crate::Behaviour, String) -> String) -> String {
        paths::map(path, |name| {
            let name = String::from_utf8_lossy(name).into_owned();
            self.behaviours.iter().fold(name, |name, behaviour| change(behaviour.as_ref(), name)).into_bytes()
        })
    }

    /// Whether listings show this path.
    pub(crate) fn is_listed(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = paths::decode(name);
        self.behaviours.iter().all(|behaviour| behaviour.is_listed(&name))
    }
}
