//! Creating and uploading files.
//!
//! A file is uploaded whole by one PUT when a program closes or synchronises it, under the precondition that the server still
//! has the version that the content began with (`If-Match`), or none (`If-None-Match: *`). If that fails, somebody else has
//! changed the file: both versions are kept, ours under a name of its own beside the other.

use std::{sync::Arc, time::SystemTime};

use dav::{Entry, If, Precondition, RemotePath};
use haul_http::{Body, Class, Options};
use http::{HeaderMap, HeaderName, HeaderValue};
use nix::errno::Errno;

use super::{Result, Share, facts};
use crate::{
    cached_file::CachedFile,
    errno,
    file_state::{Base, FileState, Snapshot},
    tree::{Facts, Ino},
};

/// Up to this size an upload is a small request.
const SMALL: u64 = 256 * 1024;
/// How many names a conflict tries.
const CONFLICTS: u64 = 100;

impl Share {
    /// Creates a file and opens it. The server learns of it when the program closes it.
    pub(crate) fn create(&self, parent: Ino, name: &[u8]) -> Result<(Ino, Arc<CachedFile>)> {
        let mut tree = self.tree();
        tree.path_of(parent, name, false).ok_or(Errno::EINVAL)?;
        let file = self.new_file(FileState::new())?;
        let ino = tree.create(parent, name, false);
        tree.open(ino);
        tree.looked_up(ino);
        self.contents().files.insert(ino, file.clone());
        Ok((ino, file))
    }

    pub(crate) fn write(&self, ino: Ino, file: &CachedFile, at: u64, bytes: &[u8]) -> Result<()> {
        let length = file.write(at, bytes).map_err(|error| errno::of_io(&error))?;
        self.tree().changed(ino, length);
        Ok(())
    }

    /// Sets the length of an open file.
    pub(crate) fn truncate(&self, ino: Ino, file: &CachedFile, length: u64) -> Result<()> {
        file.truncate(length).map_err(|error| errno::of_io(&error))?;
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
            return self.truncate(ino, &file, length);
        }
        let file = self.open(ino)?;
        file.writer_opens();
        let set = async {
            self.lock_for_change(ino, &file).await?;
            self.truncate(ino, &file, length)?;
            self.flush(ino, &file).await
        };
        let set = set.await;
        self.release(ino, &file);
        self.writer_closes(&file);
        set
    }

    /// Sets the modification time of an open file, which goes with its next upload where the server stores times.
    pub(crate) fn set_modified(&self, ino: Ino, modified: SystemTime) {
        let mut tree = self.tree();
        let facts = Facts { modified: Some(modified), ..tree.facts(ino).clone() };
        tree.set_facts(ino, facts);
        if let Some(file) = self.contents().files.get(&ino).filter(|file| file.state(|state| state.is_dirty())) {
            file.set_modified(modified);
        }
    }

    /// Uploads a file if the server lacks a change. When this returns without an error, the server has all of it.
    pub(crate) async fn flush(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        let _turn = file.upload.lock().await;
        let (path, is_removed) = self.place_of(ino);
        if is_removed || !file.state(|state| state.is_dirty()) {
            return Ok(());
        }
        // Somebody else has deleted its folder.
        let path = path.ok_or(Errno::ENOENT)?;
        self.fetch_whole(ino, file).await?;
        let Some(snapshot) = file.state(|state| state.snapshot()) else { return Ok(()) };
        if self.has_lost_lock(file, None).await {
            return Err(self.keep_both(ino, &path, file, &snapshot).await);
        }
        let claims = self.locks.claims(&[&path]);
        let precondition = match &snapshot.base {
            // Its lock has created an empty file (RFC 4918 §7.3), and keeps others out.
            Base::New if claims != If::default() => Precondition::None,
            base => precondition(base),
        };
        let stored = {
            let body = body(file, &snapshot)?;
            let _turn = if claims == If::default() { None } else { self.locks.turn(true).await };
            self.put(&path, file, body, &snapshot, &precondition, &claims).await
        };
        let stored = match stored {
            Err(error) if self.has_lost_lock(file, Some(&error)).await || error.is(412) => {
                return Err(self.keep_both(ino, &path, file, &snapshot).await);
            }
            stored => stored.map_err(|error| errno::of(&path, "upload", &error))?,
        };
        self.locks.written(&path);
        let still_dirty = file.state(|state| {
            state.uploaded(&snapshot, stored.clone());
            state.is_dirty()
        });
        self.tree().uploaded(ino, stored, still_dirty);
        Ok(())
    }

    /// The path of a file, and whether a program here has removed it.
    pub(super) fn place_of(&self, ino: Ino) -> (Option<RemotePath>, bool) {
        let tree = self.tree();
        if !tree.contains(ino) {
            return (None, true);
        }
        (tree.path(ino), tree.is_removed(ino))
    }

    async fn put(
        &self,
        path: &RemotePath,
        file: &CachedFile,
        body: Body,
        snapshot: &Snapshot,
        precondition: &Precondition,
        claims: &If,
    ) -> std::result::Result<Facts, dav::Error> {
        let class = if snapshot.length <= SMALL { Class::Small } else { Class::Large };
        // Of a new file, the listing tells whether it has arrived, whichever upload a success belongs to. So several
        // programs' files may share a connection.
        let pipeline = *precondition == Precondition::Absent && self.pipelines();
        let options = Options { class, pipeline, ..Options::default() };
        let headers = HeaderMap::from_iter(self.time_header(file));
        let (stored, seen) = self.dav.put_and_stat(path, body, headers, precondition, claims, options).await?;
        let seen = match seen {
            Some(seen) => Some(seen),
            None if stored.etag.is_none() || pipeline => self.dav.stat(path, dav::PropertySet::LISTING).await?,
            None => None,
        };
        match seen {
            Some(Entry { path: seen_path, properties, .. })
                if properties.length.is_some_and(|it| it != snapshot.length) =>
            {
                let why =
                    format!("{} bytes were sent and {} are there", snapshot.length, properties.length.unwrap_or(0));
                Err(dav::Error::Differs { path: seen_path, why })
            }
            None if pipeline => {
                let why = "the server confirmed the upload, and the file is missing".into();
                Err(dav::Error::Differs { path: path.clone(), why })
            }
            Some(entry) => Ok(Facts { length: snapshot.length, ..facts(&entry) }),
            None => Ok(Facts { length: snapshot.length, modified: Some(SystemTime::now()), etag: stored.etag }),
        }
    }

    fn pipelines(&self) -> bool {
        self.dav.client().pipelines(self.dav.requests().origin())
    }

    fn time_header(&self, file: &CachedFile) -> Option<(HeaderName, HeaderValue)> {
        let modified = file.modified().filter(|_| self.dav.capabilities().is_some_and(|server| server.sets_mtime))?;
        let seconds = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        Some((HeaderName::from_static("x-oc-mtime"), HeaderValue::from(seconds)))
    }

    /// Somebody else has changed the file. Stores ours beside it; the program learns of it in any case.
    async fn keep_both(&self, ino: Ino, path: &RemotePath, file: &CachedFile, snapshot: &Snapshot) -> Errno {
        let name = String::from_utf8_lossy(path.name().unwrap_or_default()).into_owned();
        let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        // There may be one of this second already.
        for seconds in seconds..seconds + CONFLICTS {
            let other = conflict_name(&name, seconds);
            let beside = path.parent().and_then(|folder| folder.join(other.as_bytes(), false).ok());
            let stored = match (&beside, body(file, snapshot)) {
                (_, Err(errno)) => return errno,
                (Some(beside), Ok(body)) => {
                    self.put(beside, file, body, snapshot, &Precondition::Absent, &If::default()).await
                }
                (None, _) => {
                    Err(dav::Error::Differs { path: path.clone(), why: "its name is too long for a second one".into() })
                }
            };
            match stored {
                Ok(facts) => {
                    tracing::error!("{path} was changed by somebody else; this version is now {other}, beside it");
                    // The open file is now that one; what is opened from now on is the other's.
                    let still_dirty = file.state(|state| {
                        state.uploaded(snapshot, facts.clone());
                        state.is_dirty()
                    });
                    let mut tree = self.tree();
                    tree.set_aside(ino, other.as_bytes());
                    tree.uploaded(ino, facts, still_dirty);
                    break;
                }
                Err(error) if error.is(412) => {}
                Err(error) => {
                    tracing::error!("{path} was changed by somebody else, and this version cannot be stored: {error}");
                    break;
                }
            }
        }
        Errno::ESTALE
    }

    /// The last program that had the file open has gone. What could not be uploaded is kept here.
    pub(crate) fn release(&self, ino: Ino, file: &CachedFile) {
        let (path, is_removed) = self.place_of(ino);
        let is_last = self.tree().opens(ino) == 1;
        if is_last && !is_removed && file.state(|state| state.is_dirty()) {
            self.keep_unsaved(file, path.as_ref());
            self.contents().files.remove(&ino);
            let mut tree = self.tree();
            if file.state(|state| state.is_new())
                && let Some((parent, name)) = tree.place(ino)
            {
                tree.remove(parent, &name);
            }
            tree.give_up(ino);
        }
        self.close(ino);
    }

    /// A program has closed a handle for writing, and what it wrote is uploaded or kept.
    pub(crate) fn writer_closes(self: &Arc<Self>, file: &Arc<CachedFile>) {
        if file.writer_closes() && file.locked_as().is_some() {
            let (share, file) = (self.clone(), file.clone());
            tokio::spawn(async move {
                let _busy = share.closing().await;
                share.unlock(&file).await;
            });
        }
    }
}

/// What an upload sends: small files from memory.
fn body(file: &CachedFile, snapshot: &Snapshot) -> Result<Body> {
    if snapshot.length > SMALL {
        return Ok(Body::file(file.path().to_owned(), 0, snapshot.length));
    }
    let bytes = file.read(0..snapshot.length).map_err(|error| errno::of_io(&error))?;
    // A program that shortens the file at the same time will upload it again.
    let mut bytes = bytes.ok_or(Errno::EIO)?;
    bytes.resize(snapshot.length as usize, 0);
    Ok(Body::from(bytes::Bytes::from(bytes)))
}

fn precondition(base: &Base) -> Precondition {
    match base {
        Base::New => Precondition::Absent,
        Base::Version(facts) => Precondition::of(facts.etag.as_ref()),
    }
}

/// `report.txt` becomes `report (conflict 1700000000).txt`.
fn conflict_name(name: &str, seconds: u64) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => format!("{stem} (conflict {seconds}).{extension}"),
        _ => format!("{name} (conflict {seconds})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_keeps_the_extension() {
        assert_eq!(conflict_name("report.txt", 7), "report (conflict 7).txt");
        assert_eq!(conflict_name(".bashrc", 7), ".bashrc (conflict 7)");
        assert_eq!(conflict_name("README", 7), "README (conflict 7)");
    }
}
