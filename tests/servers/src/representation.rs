//! Names, times and validators, as the server's behaviours have them.

use std::time::{Duration, SystemTime};

use crate::{
    behaviour::{Shown, Validators},
    double::{Node, State},
    paths,
    verbs::{date, etag},
    wire::Answer,
};

impl State {
    /// The time by the server's clock.
    pub(crate) fn now(&self) -> SystemTime {
        let ahead = self.behaviours.iter().map(|behaviour| behaviour.ahead()).sum::<i64>() + self.ahead;
        let now = SystemTime::now();
        let distance = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { now - distance } else { now + distance }
    }

    pub(crate) fn validators(&self, place: Shown, node: &Node) -> Validators {
        let Node::File { content, version, modified } = node else { return Validators { etag: None, modified: None } };
        let mut validators = Validators { etag: Some(etag(*version)), modified: Some(*modified) };
        for behaviour in &self.behaviours {
            behaviour.validate(place, content.len(), &mut validators);
        }
        validators
    }

    /// The entity tag that conditions are compared with: one that is shown anywhere.
    pub(crate) fn tag(&self, path: &str) -> Option<String> {
        let node = self.nodes.get(path)?;
        self.validators(Shown::Answer, node).etag.or_else(|| self.validators(Shown::Listing, node).etag)
    }

    /// An answer with the validators of a file.
    pub(crate) fn show(&self, path: &str, answer: Answer) -> Answer {
        let shown = self.validators(Shown::Answer, &self.nodes[path]);
        let answer = shown.etag.into_iter().fold(answer, |answer, tag| answer.with("etag", &tag));
        shown.modified.into_iter().fold(answer, |answer, time| answer.with("last-modified", &date(time)))
    }

    /// The path by which something is kept, or would be.
    pub(crate) fn kept(&self, path: &str) -> String {
        if self.behaviours.is_empty() {
            return path.to_owned();
        }
        let kept = self.mapped(path, |behaviour, name| behaviour.kept(name));
        let key_of = |path: &str| self.mapped(path, |behaviour, name| behaviour.folded(name));
        let key = key_of(&kept);
        let known = self.nodes.keys().find(|known| key_of(known) == key);
        known.cloned().unwrap_or_else(|| match kept.rsplit_once('/') {
            Some((folder, name)) => format!("{}/{name}", self.kept(folder)),
            None => kept,
        })
    }

    /// The path that something has after it is renamed. Its own name may be spelled in another way.
    pub(crate) fn kept_as(&self, from: &str, to: &str) -> String {
        let kept = self.kept(to);
        match (to.rsplit_once('/'), kept.rsplit_once('/')) {
            (Some((_, name)), Some((folder, _))) if kept == from => {
                let name = self.mapped(name, |behaviour, name| behaviour.kept(name));
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

    /// Whether a listing shows this.
    pub(crate) fn lists(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let name = paths::decode(name);
        self.behaviours.iter().all(|behaviour| behaviour.lists(&name))
    }
}
