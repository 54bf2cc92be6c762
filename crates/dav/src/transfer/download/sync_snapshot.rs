//! What a mirrored folder contained on the server at the last run, for servers that report changes (RFC 6578).
//!
//! A sync token alone would not do: it tells what has changed on the server, and nothing about local changes or failed
//! downloads. So the contents are saved folder by folder and brought up to date by a report. Then a run continues as any
//! other, but needs no listings; everything local is still compared.
//!
//! Nothing relies on more than was said. A folder whose listing failed, has invalid names, or appears in a report is unknown
//! and is listed again. Some servers omit what is far below a folder and claim that nothing has changed: a report is only
//! trusted if the server has been seen to cover nested folders, or if there are none. Other servers refuse such reports, so a
//! flat folder is requested without them.

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

/// The contents of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FolderSnapshot {
    pub(super) folders: BTreeSet<Box<[u8]>>,
    pub(super) files: BTreeMap<Box<[u8]>, FileFacts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyncSnapshot {
    /// The URL of the mirrored folder.
    url: String,
    root: RemotePath,
    /// Whether checksums were requested.
    digests: bool,
    /// The sync token of this or an earlier state.
    pub(super) token: String,
    /// Whether the server is known to report changes in nested folders.
    pub(super) deep: bool,
    folders: BTreeMap<RemotePath, FolderSnapshot>,
}

/// A report that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable;

impl SyncSnapshot {
    /// An empty snapshot with a token.
    pub(super) fn new(url: String, root: RemotePath, digests: bool, token: String) -> Self {
        Self { url, root, digests, token, deep: false, folders: BTreeMap::new() }
    }

    /// Whether the snapshot belongs to this URL, and has checksums if they are wanted.
    pub(super) fn is_of(&self, url: &str, digests: bool) -> bool {
        self.url == url && self.digests == digests
    }

    /// The mirrored folder.
    pub(super) fn root(&self) -> &RemotePath {
        &self.root
    }

    /// The depth of a report that covers the whole snapshot; none if the server is not known to support it.
    pub(super) fn reach(&self) -> Option<Depth> {
        let flat = self.folders.values().all(|content| content.folders.is_empty());
        if flat { Some(Depth::One) } else { self.deep.then_some(Depth::Infinity) }
    }

    /// Clears the contents, but keeps the token and what is known of the server.
    pub(super) fn begin_anew(&mut self) {
        self.folders.clear();
    }

    /// The contents of a folder, if they are known.
    pub(super) fn content(&self, folder: &RemotePath) -> Option<&FolderSnapshot> {
        self.folders.get(folder)
    }

    /// Stores the contents of a folder.
    pub(super) fn keep(&mut self, folder: RemotePath, content: FolderSnapshot) {
        self.folders.insert(folder, content);
    }

    /// Applies an entry of a report.
    pub(super) fn take(&mut self, entry: Entry) -> Result<(), Unusable> {
        let path = entry.path.as_folder(true);
        let Some((parent, name)) = path.parent().zip(path.name()).filter(|_| !path.same_place(&self.root)) else {
            return Ok(());
        };
        self.deep |= is_far_below(&path, &self.root);
        let gone = entry.status == Some(StatusCode::NOT_FOUND);
        // Above all, a folder whose changes are not reported (RFC 6578 §3.3).
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
                // It may be a file or a folder.
                self.folders.remove(&parent);
            }
        }
        match was_folder {
            // It may be a new folder of the same name; then the report also lists its contents.
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

    /// Writes a line for each known folder.
    pub(super) fn write(&self, mut to: impl Write) -> io::Result<()> {
        let Self { url, root, digests, token, deep, .. } = self;
        let (schema, url, root, token) = (SCHEMA.into(), url.clone(), root.target(), token.clone());
        write_line(&mut to, &Head { schema, url, root, digests: *digests, token, deep: *deep })?;
        let mut waiting = vec![self.root.clone()];
        // Unreachable folders are dropped.
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
