//! A staged upload: written beside its target under a hidden name, and renamed into place.
//!
//! # Guarantees
//! Readers of the target see the old content or the new content, never a mixture or a part, whatever happens to client,
//! server or machine. Before the client gets its response, the new content is on disk: the file is synced before the
//! rename and the directory after it. That costs two syncs per upload, on a LAN often more than the upload itself; a
//! server that responds earlier cannot know that the data is safe. Concurrent uploads share the journal commits behind
//! those syncs.
//!
//! # Alternatives
//! Files without a name (`O_TMPFILE`) would need no sweeping, but cannot replace an existing name atomically and are
//! missing on some file systems. One staging directory would be easy to sweep, but a rename cannot cross file systems,
//! and a served tree may span several.
//!
//! A staged upload holds a lock (`flock`) on its file, which the kernel releases when the server dies. So an unfinished
//! file that can be locked is abandoned.

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

use super::metadata::{Meta, stamp_at};
use super::properties;
use super::property_files::{self, Id};
use super::request_context::RequestContext;
use super::root::{Root, UNFINISHED, refusal};

/// Serializes the check of preconditions with the rename that follows, and every transfer of properties between files.
pub(super) static COMMIT: Mutex<()> = Mutex::new(());

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct StagedUpload {
    dir: Arc<OwnedFd>,
    name: OsString,
    replaces: Option<Meta>,
    temporary: Option<Temporary>,
    /// Dead properties that the new file takes over.
    properties: Option<Vec<u8>>,
    /// Whether they come from a copy's source, and replace those of the target.
    copies: bool,
    /// The property file that becomes unused: of a copy its own or, after the rename, that of the replaced file.
    unused: Option<Id>,
    permissions: Option<Mode>,
    written: u64,
}

impl StagedUpload {
    /// Begins a file that will be `name` in `dir`. Creates nothing before the first write.
    ///
    /// Links, devices, pipes and files without write permission are not replaced, even where the directory's
    /// permissions allow it.
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
        Ok(StagedUpload {
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

    /// Whether a file will be replaced.
    pub(crate) fn replaces(&self) -> bool {
        self.replaces.is_some()
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Appends to the file.
    pub(crate) fn write(&mut self, pieces: &[Bytes]) -> FsResult<()> {
        let mut file = self.file()?;
        for piece in pieces {
            file.write_all(piece).map_err(|e| failed(&e))?;
        }
        self.written += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Copies content and properties of another file. The kernel copies, and shares blocks where the file system can.
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

    /// Renames the file into place, unless the request's preconditions no longer hold.
    pub(crate) fn commit(mut self, root: &Root, context: &RequestContext) -> FsResult<Meta> {
        let committed = self.place(context);
        if let Some(set) = &self.unused {
            property_files::remove(root, set);
        }
        committed
    }

    fn place(&mut self, context: &RequestContext) -> FsResult<Meta> {
        self.file()?;
        let Some(mut temporary) = self.temporary.take() else { return Err(FsError::GeneralFailure) };
        self.dress(&temporary.file, context.modified).map_err(refusal)?;
        rustix::fs::fsync(&temporary.file).map_err(refusal)?;
        {
            let _alone = COMMIT.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Meta::of_name(&self.dir, &self.name).ok().map(|meta| meta.identity());
            if !context.preconditions_hold(now) {
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

    /// Takes over the target's current properties, which may have changed since the upload began.
    fn take_over(&self, file: &File, now: Option<&[u8]>) -> FsResult<()> {
        if now == self.properties.as_deref() {
            return Ok(());
        }
        properties::set_raw_or_none(file, now).map_err(refusal)?;
        rustix::fs::fsync(file).map_err(refusal)
    }

    /// Sets the replaced file's permissions and owner, and a unique time stamp, in the second that the client names.
    fn dress(&self, file: &File, modified: Option<i64>) -> rustix::io::Result<()> {
        if let Some(permissions) = self.permissions {
            rustix::fs::fchmod(file, permissions)?;
        }
        if let Some((user, group)) = self.replaces.as_ref().map(Meta::owner) {
            // Only root can change owners; for other users the server's user owns uploads.
            let _ = rustix::fs::fchown(file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        }
        if let Some(properties) = &self.properties {
            properties::set_raw(file, properties)?;
        }
        let times = Timestamps { last_access: stamp_at(None), last_modification: stamp_at(modified) };
        rustix::fs::futimens(file, &times)
    }

    fn file(&mut self) -> FsResult<&File> {
        match self.temporary {
            Some(ref temporary) => Ok(&temporary.file),
            None => Ok(&self.temporary.insert(Temporary::create(&self.dir)?).file),
        }
    }
}

/// A file under a hidden name, removed on drop unless it was renamed into place.
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

/// Removes an abandoned upload. Returns whether there was one.
pub(crate) fn remove_abandoned(dir: impl AsFd, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::openat(&dir, name, flags, Mode::empty()) else { return false };
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && rustix::fs::unlinkat(&dir, name, AtFlags::empty()).is_ok()
}

fn failed(error: &std::io::Error) -> FsError {
    Errno::from_io_error(error).map_or(FsError::GeneralFailure, refusal)
}
