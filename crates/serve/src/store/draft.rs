//! A file in the making: written beside its target under a hidden name, put in place by one rename.
//!
//! # What is promised
//! Whoever reads the target sees the old content whole or the new content whole, never a mixture and
//! never a part, whatever happens to client, server or machine meanwhile. Once the client is told
//! "done", the new content has been handed to the disk: the file is synced before the rename and the
//! directory after it. That costs two syncs per upload, often more than the upload itself on a LAN; a
//! server that answers sooner is promising something it does not know. Uploads that run at once on
//! several connections or streams share the journal commits behind those syncs.
//!
//! # Alternatives
//! Files without a name (`O_TMPFILE`) would need no sweeping, but cannot replace an existing name in
//! one step and are missing on some file systems. One staging directory for all would be easy to sweep,
//! but a rename does not cross file systems, and a served tree may hold several.
//!
//! A draft holds a lock (`flock`) on its file as long as it lives, and the kernel lets go of it when
//! the server dies. So whoever can lock an unfinished file knows that nobody works on it any more.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use dav_server::fs::{FsError, FsResult};
use ring::rand::SecureRandom;
use rustix::fs::{Access, AtFlags, FlockOperation, Gid, Mode, OFlags, Timestamps, Uid};
use rustix::io::Errno;

use super::large::{self, Id};
use super::meta::{Meta, next_stamp};
use super::properties;
use super::root::{Root, UNFINISHED, refusal};
use super::visit::Visit;

/// Judging a conditional upload and renaming it into place must be one step among all uploads; so must be whatever takes
/// properties from one file to another.
pub(super) static COMMIT: Mutex<()> = Mutex::new(());

/// A file in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    dir: Arc<OwnedFd>,
    name: OsString,
    replaces: Option<Meta>,
    temporary: Option<Temporary>,
    /// Dead properties that the new file takes over.
    properties: Option<Vec<u8>>,
    /// Whether they are a copy's, and those of the file it replaces go.
    copies: bool,
    /// The set that nothing refers to: of a copy its own, or, once it is in place, that of the file it replaces.
    unused: Option<Id>,
    permissions: Option<Mode>,
    written: u64,
}

impl Draft {
    /// Begins a file that will be `name` in `dir`. Nothing is created before there is something to write.
    ///
    /// A link, device or pipe is not replaced, nor a file that we may not write: that the directory
    /// would allow it does not make it meant.
    pub(crate) fn new(dir: OwnedFd, name: &OsStr) -> FsResult<Self> {
        let replaces = match Meta::of_name(&dir, name) {
            Ok(meta) if meta.kind().is_dir() => return Err(FsError::Exists),
            Ok(meta) if !meta.kind().is_file() => return Err(FsError::Forbidden),
            Ok(meta) => {
                rustix::fs::accessat(&dir, name, Access::WRITE_OK, AtFlags::EACCESS).map_err(refusal)?;
                Some(meta)
            }
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(refusal(errno)),
        };
        let properties = replaces.as_ref().and_then(|_| properties::raw(properties::open(&dir, name).ok()?));
        let permissions = replaces.as_ref().map(Meta::permissions);
        Ok(Draft {
            dir: Arc::new(dir),
            name: name.to_owned(),
            replaces,
            temporary: None,
            properties,
            copies: false,
            unused: None,
            permissions,
            written: 0,
        })
    }

    /// Whether the draft will replace a file.
    pub(crate) fn replaces(&self) -> bool {
        self.replaces.is_some()
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Appends to the draft.
    pub(crate) fn write(&mut self, pieces: &[Bytes]) -> FsResult<()> {
        let mut file = self.file()?;
        for piece in pieces {
            file.write_all(piece).map_err(|e| failed(&e))?;
        }
        self.written += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Fills the draft from another file, and copies its properties. The kernel copies; on file
    /// systems that can share blocks, it shares them.
    pub(crate) fn copy(&mut self, root: &Root, source: OwnedFd) -> FsResult<()> {
        self.copies = true;
        self.properties = match properties::raw(&source) {
            Some(value) => properties::copied(root, value).map_err(refusal)?,
            None => None,
        };
        self.unused = self.properties.as_deref().and_then(properties::reference);
        self.permissions = self.permissions.or(Some(Meta::of(&source).map_err(refusal)?.permissions()));
        self.written += std::io::copy(&mut File::from(source), &mut self.file()?).map_err(|e| failed(&e))?;
        Ok(())
    }

    /// Puts the draft in place, unless the visit's conditions no longer hold.
    pub(crate) fn commit(mut self, root: &Root, visit: &Visit) -> FsResult<Meta> {
        let committed = self.place(visit);
        if let Some(set) = &self.unused {
            large::remove(root, set);
        }
        committed
    }

    fn place(&mut self, visit: &Visit) -> FsResult<Meta> {
        self.file()?;
        let Some(mut temporary) = self.temporary.take() else { return Err(FsError::GeneralFailure) };
        self.dress(&temporary.file).map_err(refusal)?;
        rustix::fs::fsync(&temporary.file).map_err(refusal)?;
        {
            let _alone = COMMIT.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Meta::of_name(&self.dir, &self.name).ok().map(|meta| meta.identity());
            if !visit.still_holds(now) {
                return Err(FsError::Exists);
            }
            let replaced = properties::open(&self.dir, &self.name).ok();
            let after = if self.copies {
                replaced.and_then(properties::last_reference)
            } else {
                self.take_over(&temporary.file, replaced.and_then(properties::raw).as_deref())?;
                None
            };
            rustix::fs::renameat(&self.dir, &temporary.name, &self.dir, &self.name).map_err(refusal)?;
            temporary.placed = true;
            self.unused = after;
        }
        rustix::fs::fsync(&self.dir).map_err(refusal)?;
        Meta::of(&temporary.file).map_err(refusal)
    }

    /// Takes over the properties that the file has now: they may have changed since the upload began.
    fn take_over(&self, file: &File, now: Option<&[u8]>) -> FsResult<()> {
        if now == self.properties.as_deref() {
            return Ok(());
        }
        properties::set_raw_or_none(file, now).map_err(refusal)?;
        rustix::fs::fsync(file).map_err(refusal)
    }

    /// Gives the new file the looks of the one it replaces, and a time stamp of its own.
    fn dress(&self, file: &File) -> rustix::io::Result<()> {
        if let Some(permissions) = self.permissions {
            rustix::fs::fchmod(file, permissions)?;
        }
        if let Some((user, group)) = self.replaces.as_ref().map(Meta::owner) {
            // Only root can give files away; for anybody else the uploader owns what they uploaded.
            let _ = rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        }
        if let Some(properties) = &self.properties {
            properties::set_raw(file, properties)?;
        }
        let now = next_stamp();
        rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: now })
    }

    fn file(&mut self) -> FsResult<&File> {
        match self.temporary {
            Some(ref temporary) => Ok(&temporary.file),
            None => Ok(&self.temporary.insert(Temporary::create(&self.dir)?).file),
        }
    }
}

/// A file under a hidden name, which goes away unless it is put in place.
#[derive(Debug)]
struct Temporary {
    dir: Arc<OwnedFd>,
    name: String,
    file: File,
    placed: bool,
}

impl Temporary {
    fn create(dir: &Arc<OwnedFd>) -> FsResult<Self> {
        let mut random = [0; 8];
        ring::rand::SystemRandom::new().fill(&mut random).map_err(|_| FsError::GeneralFailure)?;
        let name = random.iter().fold(String::from(UNFINISHED), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &name, flags, Mode::from_raw_mode(0o666)).map_err(refusal)?;
        let file = Temporary { dir: Arc::clone(dir), name, file: file.into(), placed: false };
        rustix::fs::flock(&file.file, FlockOperation::NonBlockingLockExclusive).map_err(refusal)?;
        Ok(file)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

/// Removes an unfinished file whose server is gone. Returns whether there was one.
pub(crate) fn remove_abandoned(dir: impl AsFd, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(&dir, name, flags, Mode::empty()) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && rustix::fs::unlinkat(&dir, name, AtFlags::empty()).is_ok()
}

fn failed(error: &std::io::Error) -> FsError {
    Errno::from_io_error(error).map_or(FsError::GeneralFailure, refusal)
}
