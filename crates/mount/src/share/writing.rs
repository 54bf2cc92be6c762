//! Creating and uploading files.
//!
//! A file is uploaded whole by one PUT when a program closes or synchronises it, under the precondition that the server still
//! has the version that the content began with (`If-Match`), or none (`If-None-Match: *`). If that fails, somebody else has
//! changed the file: both versions are kept, ours under a name of its own beside the other.

use std::{
    fs, io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use dav::{ETag, Entry, Fence, If, Precondition, RemotePath, Stored};
use haul_http::{Body, Class, Options};
use http::{HeaderMap, HeaderName, HeaderValue};
use nix::errno::Errno;
use scopeguard::guard;
use tokio::time::Instant;
use writeback::{clock, names_beside};

use super::{
    Result, Share, facts,
    storing::{Unstored, Version, failure},
};
use crate::{
    cached_file::CachedFile,
    calls::still_wanted,
    errno,
    file_state::{Base, FileState, Snapshot},
    journal::Failure,
    tree::{Facts, Ino},
};

/// Up to this size an upload is a small request.
const SMALL: u64 = 256 * 1024;
/// A look behind an upload of that size comes later than usual.
const LATE: Duration = Duration::from_secs(5);

impl Share {
    /// Creates a file and opens it. The server learns of it when the program closes it.
    pub(crate) fn create(&self, parent: Ino, name: &[u8]) -> Result<(Ino, Arc<CachedFile>)> {
        let mut tree = self.tree();
        tree.path_of(parent, name, false).ok_or(Errno::EINVAL)?;
        let file = self.new_file(&FileState::new())?;
        let ino = tree.create(parent, name, false);
        tree.open(ino);
        tree.looked_up(ino);
        self.contents().files.insert(ino, file.clone());
        Ok((ino, file))
    }

    pub(crate) fn write(&self, ino: Ino, file: &CachedFile, at: u64, bytes: &[u8]) -> Result<()> {
        let length = self.with_space(|| file.write(at, bytes))?;
        self.tree().changed(ino, length);
        Ok(())
    }

    /// Shortens an open file, or makes it longer. Waits for an upload: the server would get less than was announced.
    pub(crate) async fn cut(&self, ino: Ino, file: &CachedFile, length: u64) -> Result<()> {
        let is_shorter = length < file.state(|state| state.length());
        let _turn = if is_shorter { Some(file.upload.lock().await) } else { None };
        still_wanted()?;
        self.truncate(ino, file, length)
    }

    /// Sets the length of an open file.
    fn truncate(&self, ino: Ino, file: &CachedFile, length: u64) -> Result<()> {
        self.with_space(|| file.truncate(length))?;
        self.tree().changed(ino, length);
        Ok(())
    }

    /// Sets the length of a file that a program may have open. If it has not, the server has the new length when this
    /// returns.
    pub(crate) async fn set_length(
        self: &Arc<Self>,
        ino: Ino,
        open: Option<Arc<CachedFile>>,
        length: u64,
    ) -> Result<()> {
        if let Some(file) = open {
            self.lock_for_change(ino, &file).await?;
            return self.cut(ino, &file, length).await;
        }
        let file = guard(self.open(ino)?, |file| {
            self.release(ino, &file);
            self.writer_closes(ino, &file);
        });
        file.writer_opens();
        self.lock_for_change(ino, &file).await?;
        self.cut(ino, &file, length).await?;
        self.commit(ino, &file).await
    }

    /// Sets the modification time of an open file, which goes with its next upload where the server stores times.
    pub(crate) fn set_modified(&self, ino: Ino, modified: SystemTime) {
        let mut tree = self.tree();
        let facts = Facts { modified: Some(modified), ..tree.facts(ino).clone() };
        tree.set_facts(ino, facts);
        if let Some(file) = self.contents().files.get(&ino).filter(|file| file.state(|state| state.is_dirty())) {
            file.set_modified(modified);
        }
        drop(tree);
        self.modified_in_journal(ino, modified);
    }

    /// Uploads a file if the server lacks a change. When this returns without an error, the server has all of it.
    pub(super) async fn upload(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        let _turn = file.upload.lock().await;
        still_wanted()?;
        let (path, is_removed) = self.place_of(ino);
        if is_removed || !file.state(|state| state.is_dirty()) {
            return Ok(());
        }
        // Somebody else has deleted its folder.
        let path = path.ok_or(Errno::ENOENT)?;
        self.fetch_whole(ino, file).await?;
        let Some(snapshot) = file.state(|state| state.snapshot()) else { return Ok(()) };
        let is_doubtful = file.state(|state| state.begin_upload(&snapshot));
        let content = || content(file, &snapshot);
        let version = Version { path: &path, base: &snapshot.base, ino: Some(ino), is_doubtful, content };
        let stored = match self.store(version).await {
            Ok(stored) => stored,
            Err(Unstored::Unreadable(errno)) => return Err(errno),
            Err(Unstored::Conflict(_)) => return Err(self.keep_both(ino, &path, file, &snapshot).await),
            Err(Unstored::Failed(how, error)) => {
                if how != Failure::Unknown {
                    file.state(FileState::upload_refused);
                }
                return Err(errno::of(&path, "upload", &error));
            }
        };
        self.stored(ino, file, &snapshot, stored);
        Ok(())
    }

    /// The server has a file as it was at `snapshot`.
    pub(super) fn stored(&self, ino: Ino, file: &CachedFile, snapshot: &Snapshot, stored: Facts) {
        let still_dirty = file.state(|state| {
            state.uploaded(snapshot, stored.clone());
            state.is_dirty()
        });
        self.tree().uploaded(ino, stored, still_dirty);
    }

    /// The path of a file, and whether a program here has removed it.
    pub(super) fn place_of(&self, ino: Ino) -> (Option<RemotePath>, bool) {
        let tree = self.tree();
        if !tree.contains(ino) {
            return (None, true);
        }
        (tree.path(ino), tree.is_removed(ino))
    }

    pub(super) async fn put(
        &self,
        path: &RemotePath,
        content: Content,
        precondition: &Precondition,
        claims: &If,
    ) -> std::result::Result<Facts, dav::Error> {
        let Content { body, length, modified } = content;
        let class = if length <= SMALL { Class::Small } else { Class::Large };
        // Of a new file, the listing tells whether it has arrived, whichever upload a success belongs to. So several
        // programs' files may share a connection.
        let is_new = *precondition == Precondition::Absent;
        let pipeline = is_new && self.pipelines();
        // Sent again to confirm a refusal, a file of equal content could not be told from ours: nobody could create one
        // exclusively.
        let options = Options { class, pipeline, accept_unverified_refusal: is_new, ..Options::default() };
        let headers = HeaderMap::from_iter(self.time_header(modified));
        let (again, began) = (body.try_clone(), Instant::now());
        let _creating = is_new.then(|| self.creating(path));
        let (is_repeated, stored) =
            match self.dav.put_and_stat(path, body, headers, precondition, claims, options).await {
                Ok(put) => {
                    let (is_repeated, is_ours) = (put.0.is_repeated, put.0.etag.is_some() || *claims != If::default());
                    let mut stored = self.as_stored(path, length, pipeline, put).await;
                    // A look behind it that comes late may show somebody else's.
                    let is_unsure = !is_ours && length <= SMALL && began.elapsed() > LATE && stored.is_ok();
                    if let Some(content) = again.as_ref().filter(|_| is_unsure).and_then(Body::try_clone) {
                        match self.has_content(path, content).await {
                            Ok(true) => {}
                            Ok(false) => {
                                let why = "it is uploaded, and somebody else has changed it since".into();
                                stored = Err(dav::Error::Differs { path: path.clone(), why });
                            }
                            Err(error) => stored = Err(unseen(path, error)),
                        }
                    }
                    (is_repeated, stored)
                }
                Err(error) => (false, Err(error)),
            };
        if is_repeated || stored.as_ref().is_err_and(may_be_carried_out) {
            if let Some(again) = again {
                self.expect_again(path, again, is_new).await;
            }
            if self.dav.fence(path, precondition, claims) == Fence::Lock {
                self.locks.doubt(path);
            }
        }
        if let Ok(Facts { etag: Some(tag), .. }) = &stored {
            self.late_changes().stored(Instant::now(), path, tag);
        }
        stored
    }

    /// The version that a PUT has stored. It is looked at unless its answer tells.
    async fn as_stored(
        &self,
        path: &RemotePath,
        length: u64,
        pipeline: bool,
        (stored, seen): (Stored, Option<Entry>),
    ) -> std::result::Result<Facts, dav::Error> {
        let seen = match seen {
            Some(seen) => Some(seen),
            None if stored.etag.is_none() || pipeline => {
                let seen = self.dav.stat(path, dav::PropertySet::LISTING).await;
                seen.map_err(|error| unseen(path, error))?
            }
            None => None,
        };
        match seen {
            Some(Entry { path: seen_path, properties, .. }) if properties.length.is_some_and(|it| it != length) => {
                let why = format!("{length} bytes were sent and {} are there", properties.length.unwrap_or(0));
                Err(dav::Error::Differs { path: seen_path, why })
            }
            None if pipeline => {
                let why = "the server confirmed the upload, and the file is missing".into();
                Err(dav::Error::Differs { path: path.clone(), why })
            }
            Some(entry) => Ok(own_version(length, stored.etag, facts(&entry))),
            None => Ok(Facts { length, modified: Some(SystemTime::now()), etag: stored.etag }),
        }
    }

    fn pipelines(&self) -> bool {
        self.dav.client().pipelines(self.dav.requests().origin())
    }

    fn time_header(&self, modified: Option<SystemTime>) -> Option<(HeaderName, HeaderValue)> {
        let modified = modified.filter(|_| self.dav.capabilities().is_some_and(|server| server.sets_mtime))?;
        let seconds = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        Some((HeaderName::from_static("x-oc-mtime"), HeaderValue::from(seconds)))
    }

    /// Somebody else has changed the file. Stores ours beside it; the program learns of it in any case.
    async fn keep_both(&self, ino: Ino, path: &RemotePath, file: &CachedFile, snapshot: &Snapshot) -> Errno {
        let stored = self.store_beside(path, clock::now(), || content(file, snapshot)).await;
        match stored {
            Ok((beside, facts)) => {
                tracing::error!("{}", conflict(path, &beside));
                // The open file is now that one; what is opened from now on is the other's.
                let still_dirty = file.state(|state| {
                    state.uploaded(snapshot, facts.clone());
                    state.is_dirty()
                });
                file.set_aside();
                let mut tree = self.tree();
                tree.set_aside(ino, beside.name().unwrap_or_default());
                tree.uploaded(ino, facts, still_dirty);
            }
            Err(error) => {
                tracing::error!("{path} was changed by somebody else, and this version cannot be stored: {error}");
            }
        }
        Errno::ESTALE
    }

    /// Stores a content of this time beside the file at `path`, under a name of its own. It may be there already, if an earlier
    /// answer was lost.
    pub(super) async fn store_beside(
        &self,
        path: &RemotePath,
        time: SystemTime,
        content: impl Fn() -> Result<Content>,
    ) -> std::result::Result<(RemotePath, Facts), dav::Error> {
        let differs = |why: &str| dav::Error::Differs { path: path.clone(), why: why.into() };
        let unreadable = |errno: Errno| differs(errno.desc());
        let names = names_beside(path, time).ok_or_else(|| differs("its name is too long for a second one"))?;
        for beside in names {
            let sent = content().map_err(unreadable)?;
            match self.put(&beside, sent, &Precondition::Absent, &If::default()).await {
                Err(error) if error.is(412) => {
                    if let Some(facts) = self.has_arrived(&beside, content().map_err(unreadable)?).await? {
                        return Ok((beside, facts));
                    }
                }
                stored => return stored.map(|facts| (beside, facts)),
            }
        }
        Err(differs("there are too many versions of it"))
    }

    /// The last program that had the file open has gone. What could not be uploaded is kept here.
    pub(crate) fn release(&self, ino: Ino, file: &CachedFile) {
        self.record_last(ino);
        let mut tree = self.tree();
        // From here to the close, or another program could open it, or close it, meanwhile.
        let is_given_up = tree.opens(ino) == 1 && !tree.is_removed(ino) && file.state(|state| state.is_unsafe());
        let path = tree.path(ino);
        if is_given_up {
            self.contents().files.remove(&ino);
            if file.state(|state| state.is_new())
                && let Some((parent, name)) = tree.place(ino)
            {
                tree.remove(parent, &name);
            }
            tree.give_up(ino);
        }
        self.close(tree, ino);
        if is_given_up {
            // Last, because it waits for the disk.
            self.keep_unsaved(file, path.as_ref());
        }
    }
}

/// What an upload sends.
pub(super) struct Content {
    pub(super) body: Body,
    pub(super) length: u64,
    pub(super) modified: Option<SystemTime>,
}

impl Content {
    /// Of a local file that nobody changes; a small one from memory.
    pub(super) fn of_file(path: PathBuf, length: u64, modified: Option<SystemTime>) -> io::Result<Self> {
        let body = if length > SMALL { Body::file(path, 0, length) } else { Body::from(Bytes::from(fs::read(path)?)) };
        Ok(Self { body, length, modified })
    }
}

/// Whether a copy of an upload that has failed may have been carried out, or may be later.
fn may_be_carried_out(error: &dav::Error) -> bool {
    failure(error) == Failure::Unknown || error.refusal().is_some_and(|refusal| refusal.times_sent > 1)
}

/// The version that a PUT has stored. `seen` behind it may be a newer one, by somebody else; the PUT's own tag is of ours
/// (RFC 9110 §9.3.4).
fn own_version(length: u64, own: Option<ETag>, seen: Facts) -> Facts {
    let is_ours = |own: &ETag| seen.etag.as_ref().is_some_and(|seen| seen.resembles(own));
    match own {
        Some(own) if !is_ours(&own) => Facts { length, modified: Some(SystemTime::now()), etag: Some(own) },
        _ => Facts { length, ..seen },
    }
}

pub(super) fn content(file: &CachedFile, snapshot: &Snapshot) -> Result<Content> {
    let (length, modified) = (snapshot.length, file.modified());
    if length > SMALL {
        return Ok(Content { body: Body::file(file.path().to_owned(), 0, length), length, modified });
    }
    let bytes = file.read(0..length).map_err(|error| errno::of_io(&error))?;
    // A program that shortens the file at the same time will upload it again.
    let mut bytes = bytes.ok_or(Errno::EIO)?;
    bytes.resize(length as usize, 0);
    Ok(Content { body: Body::from(Bytes::from(bytes)), length, modified })
}

/// The server has an upload, and does not show it. It has not refused the upload.
fn unseen(path: &RemotePath, error: dav::Error) -> dav::Error {
    match error {
        error @ (dav::Error::Refused(_) | dav::Error::Http(haul_http::Error::Connect(_))) => {
            dav::Error::Differs { path: path.clone(), why: format!("it is uploaded, and cannot be looked up: {error}") }
        }
        error => error,
    }
}

/// What somebody has to know about a conflict.
pub(super) fn conflict(path: &RemotePath, beside: &RemotePath) -> String {
    let name = String::from_utf8_lossy(beside.name().unwrap_or_default()).into_owned();
    format!("{path} was changed or deleted by somebody else; this version is now {name}, beside it")
}

pub(super) fn precondition(base: &Base) -> Precondition {
    match base {
        Base::New => Precondition::Absent,
        Base::Version(facts) => Precondition::of(facts.etag.as_ref()),
    }
}
