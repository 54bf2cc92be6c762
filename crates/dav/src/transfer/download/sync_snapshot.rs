//! What a mirrored folder had on the server at the last run, where the server tells what has changed since (RFC 6578).
//!
//! A token alone would not do: it says what has changed on the server, and nothing of what has been changed, deleted or
//! never come here. So what the server had is kept, folder by folder, and brought up to date by its report; then a run
//! goes on as any other does, only that it need not ask for the listings. What is here is compared with all of it.
//!
//! Nothing rests on more than what was said. A folder whose listing failed, has odd names in it, or is named in a
//! report is not known, and is listed anew. Some servers leave out what is far below a folder, and say that nothing has
//! changed: a report is believed only of a server that has been seen to tell of it, or where there are no folders.
//! Others refuse such reports, so where there are no folders none of that reach is asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{self, BufRead, Write},
    time::{Duration, SystemTime},
};

use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::FileFacts;
use crate::{
    Depth, ETag, Entry, RemotePath,
    client::listing::is_far_below,
    transfer::{
        seconds,
        state_file::{decoded, encoded, write_line},
    },
};

const SCHEMA: &str = "longhaul.mirror/1";

/// What is in a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FolderSnapshot {
    pub(super) folders: BTreeSet<Box<[u8]>>,
    pub(super) files: BTreeMap<Box<[u8]>, FileFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyncSnapshot {
    /// The mirrored folder's URL.
    url: String,
    root: RemotePath,
    /// Whether checksums were asked for.
    digests: bool,
    /// The state of the folder on the server, or an earlier one.
    pub(super) token: String,
    /// Whether the server is known to tell of what is far below.
    pub(super) deep: bool,
    folders: BTreeMap<RemotePath, FolderSnapshot>,
}

/// What a report said that cannot be made use of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable;

impl SyncSnapshot {
    /// Nothing but the token.
    pub(super) fn new(url: String, root: RemotePath, digests: bool, token: String) -> Self {
        Self { url, root, digests, token, deep: false, folders: BTreeMap::new() }
    }

    /// Whether what is remembered is of the folder at this URL, with all that is to be known.
    pub(super) fn is_of(&self, url: &str, digests: bool) -> bool {
        self.url == url && self.digests == digests
    }

    /// The mirrored folder.
    pub(super) fn root(&self) -> &RemotePath {
        &self.root
    }

    /// How far a report must reach to tell of everything that is in here; none if the server is not known to do that.
    pub(super) fn reach(&self) -> Option<Depth> {
        let flat = self.folders.values().all(|content| content.folders.is_empty());
        if flat { Some(Depth::One) } else { self.deep.then_some(Depth::Infinity) }
    }

    /// Forgets all but the token, and what is known of the server.
    pub(super) fn begin_anew(&mut self) {
        self.folders.clear();
    }

    /// What is in a folder, if that is known.
    pub(super) fn content(&self, folder: &RemotePath) -> Option<&FolderSnapshot> {
        self.folders.get(folder)
    }

    /// What was listed.
    pub(super) fn keep(&mut self, folder: RemotePath, content: FolderSnapshot) {
        self.folders.insert(folder, content);
    }

    /// A response of a report.
    pub(super) fn take(&mut self, entry: Entry) -> Result<(), Unusable> {
        let path = entry.path.as_folder(true);
        let Some((parent, name)) = path.parent().zip(path.name()).filter(|_| !path.same_place(&self.root)) else {
            return Ok(());
        };
        self.deep |= is_far_below(&path, &self.root);
        let gone = entry.status == Some(StatusCode::NOT_FOUND);
        // A folder whose changes are not told, above all (RFC 6578 §3.3).
        if !gone && entry.status.is_some_and(|status| !status.is_success()) {
            return Err(Unusable);
        }
        let is_folder = entry.properties.collection == Some(true);
        let content = self.folders.get_mut(&parent);
        let was_folder = content.as_ref().map(|content| content.folders.contains(name));
        if let Some(content) = content {
            if gone {
                content.folders.remove(name);
                content.files.remove(name);
            } else if is_folder {
                content.files.remove(name);
                content.folders.insert(name.into());
            } else if entry.properties.collection.is_some() {
                content.folders.remove(name);
                content.files.insert(name.into(), FileFacts::of(entry.properties));
            } else {
                // It could be either.
                self.folders.remove(&parent);
            }
        }
        match was_folder {
            // It may be another one of the same name; what is in it is told if it is.
            Some(true) if is_folder => drop(self.folders.remove(&path)),
            Some(false) if !is_folder => {}
            _ => self.folders.retain(|known, _| known.relative_to(&path).is_none()),
        }
        Ok(())
    }

    pub(super) fn read(from: impl BufRead) -> Option<Self> {
        let mut lines = serde_json::Deserializer::from_reader(from);
        let Head { schema, url, root, digests, token, deep } = Head::deserialize(&mut lines).ok()?;
        let root = RemotePath::from_url_path(&root).ok().filter(|_| schema == SCHEMA)?;
        let mut remembered = Self { url, root, digests, token, deep, folders: BTreeMap::new() };
        for line in lines.into_iter::<Line>() {
            let Line(folder, folders, files) = line.ok()?;
            let files = files.into_iter().map(|File(name, length, modified, etag, checksums)| {
                let modified =
                    modified.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since)));
                let etag = etag.and_then(|etag| ETag::parse(&etag));
                (decoded(&name), FileFacts { length, modified, etag, checksums })
            });
            let folders = folders.iter().map(|name| decoded(name)).collect();
            let content = FolderSnapshot { folders, files: files.collect() };
            remembered.folders.insert(RemotePath::from_url_path(&folder).ok()?, content);
        }
        Some(remembered)
    }

    /// A line for each folder that is known.
    pub(super) fn write(&self, mut to: impl Write) -> io::Result<()> {
        let Self { url, root, digests, token, deep, .. } = self;
        let (schema, url, root, token) = (SCHEMA.into(), url.clone(), root.target(), token.clone());
        write_line(&mut to, &Head { schema, url, root, digests: *digests, token, deep: *deep })?;
        let mut waiting = vec![self.root.clone()];
        // What cannot be reached any more is forgotten.
        while let Some(path) = waiting.pop() {
            let Some(content) = self.folders.get(&path) else { continue };
            waiting.extend(content.folders.iter().filter_map(|name| path.join(name, true).ok()));
            let files = content.files.iter().map(|(name, facts)| {
                let etag = facts.etag.as_ref().map(ToString::to_string);
                File(encoded(name), facts.length, facts.modified.map(seconds), etag, facts.checksums.clone())
            });
            let folders = content.folders.iter().map(|name| encoded(name)).collect();
            write_line(&mut to, &Line(path.target(), folders, files.collect()))?;
        }
        to.flush()
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    url: String,
    root: String,
    digests: bool,
    token: String,
    deep: bool,
}

/// A folder: where it is, its folders, its files.
#[derive(Serialize, Deserialize)]
struct Line(String, Vec<String>, Vec<File>);

/// A file: its name, length, time (seconds since 1970), entity tag and checksums.
#[derive(Serialize, Deserialize)]
struct File(String, Option<u64>, Option<u64>, Option<String>, Vec<String>);

#[cfg(test)]
mod tests;
