//! Where contents are kept, and which of them outlive the mount.
//!
//! The contents of one share, as one account sees it, have a folder of their own, which only the user may enter and one mount
//! at a time may use; a second mount at the same time, or one without an identity, has a temporary folder.
//!
//! A content outlives its mount if a record says which version it is and which bytes of it are here. What must never happen is
//! that bytes are served that were not fetched, whatever ends first: this program, or the machine.
//! - A record is written after its bytes, whole or not at all (rename), and only of versions with a strong entity tag.
//! - It is deleted before its content changes: before a program writes, and before bytes are dropped to save space.
//! - The kernel keeps that order for other programs, but not for the disk. So what was written since the machine started is
//!   used after a restart only if the mount ended well, which it says after everything is on disk (`state`).
//!   Otherwise it is deleted. No fetch waits for the disk.

mod record;
mod temporary;
mod unused;

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::unistd::{geteuid, syncfs};
use output::durable;
use transport::stable_hash;

use self::{
    record::{Name, Record},
    temporary::Temporary,
    unused::Unused,
};
use crate::{
    ranges::Ranges,
    tree::Facts,
    unsaved::{self, Unsaved},
};

/// The contents that outlive their mounts.
pub const CONTENTS: &str = "contents-1";
const LOCK: &str = "lock";
const STATE: &str = "state";
const ENDING: &str = "ending";
const SERVER_LOCKS: &str = "locks";
/// How long a mount waits for the end of another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The contents of a mount.
pub(crate) struct ContentCache {
    place: Place,
    next: AtomicU64,
    unused: Mutex<Unused>,
}

enum Place {
    /// The contents outlive the mount. The lock goes with the file.
    Lasting {
        folder: PathBuf,
        boot: String,
        lock: Mutex<Option<File>>,
    },
    Temporary(Temporary),
}

/// A content of an earlier time.
pub(crate) struct Found {
    pub(crate) content: PathBuf,
    pub(crate) present: Ranges,
    pub(crate) record: PathBuf,
}

impl ContentCache {
    /// In the folder `cache`, for the share `source` as `identity` sees it.
    pub(crate) fn new(cache: &Path, source: &str, identity: Option<u64>) -> io::Result<Self> {
        fs::create_dir_all(cache)?;
        temporary::clear(cache);
        let lasting = match identity {
            Some(identity) => Self::lasting(cache, source, identity).unwrap_or_else(|error| {
                tracing::warn!("the cached contents of earlier mounts cannot be used: {error}");
                None
            }),
            None => None,
        };
        if let Some(lasting) = lasting {
            return Ok(lasting);
        }
        let place = Place::Temporary(Temporary::new(cache)?);
        Ok(Self { place, next: AtomicU64::new(1), unused: Mutex::default() })
    }

    /// None if another mount uses it.
    fn lasting(cache: &Path, source: &str, identity: u64) -> io::Result<Option<Self>> {
        let share = stable_hash("longhaul.contents/1", &[&source, &identity.to_be_bytes()]);
        let folder = cache.join(CONTENTS).join(format!("{share:016x}"));
        durable::create_folder(&folder)?;
        let about = fs::symlink_metadata(&folder)?;
        if !about.is_dir() || about.uid() != geteuid().as_raw() || about.permissions().mode() & 0o077 != 0 {
            return Err(io::Error::other(format!("others may enter {}", folder.display())));
        }
        let lock = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK))?;
        let patience = if folder.join(ENDING).exists() { PATIENCE } else { Duration::ZERO };
        if !output::lock(&lock, patience)? {
            return Ok(None);
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let state = fs::read_to_string(folder.join(STATE)).unwrap_or_default();
        let is_sound = state == ended_well(&boot) || state == in_use(&boot) || state.ends_with(" ended well");
        keep_spared(&folder, cache)?;
        let (unused, last) = scan(&folder, is_sound)?;
        set_state(&folder, &in_use(&boot))?;
        let place = Place::Lasting { folder, boot, lock: Mutex::new(Some(lock)) };
        Ok(Some(Self { place, next: AtomicU64::new(last + 1), unused: unused.into() }))
    }

    fn folder(&self) -> &Path {
        match &self.place {
            Place::Lasting { folder, .. } => folder,
            Place::Temporary(folder) => folder.path(),
        }
    }

    /// Where to say which locks there are on the server, if the next mount can read it.
    pub(crate) fn lock_log(&self) -> Option<PathBuf> {
        match &self.place {
            Place::Lasting { folder, .. } => Some(folder.join(SERVER_LOCKS)),
            Place::Temporary(_) => None,
        }
    }

    fn unused(&self) -> MutexGuard<'_, Unused> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The path of a new content.
    pub(crate) fn new_place(&self) -> PathBuf {
        self.folder().join(format!("{:x}", self.number()))
    }

    /// What an earlier time has left of this version of a file.
    pub(crate) fn find(&self, path: &str, facts: &Facts) -> Option<Found> {
        let name = self.unused().take(Name::key(path))?;
        let (record, content) = self.places(name);
        let read = fs::read(&record).ok().and_then(|text| serde_json::from_slice::<Record>(&text).ok());
        let present = read.and_then(|record| record.present(path, facts));
        let is_whole = fs::metadata(&content).is_ok_and(|about| about.len() == facts.length);
        let found = present.filter(|_| is_whole).map(|present| Found { content, present, record });
        if found.is_none() {
            self.delete(name);
        }
        found
    }

    /// Records what is here of a version, in the file `content`. Returns the record's path; none if it cannot be kept.
    pub(crate) fn record(&self, path: &str, facts: &Facts, present: &Ranges, content: &Path) -> Option<PathBuf> {
        let Place::Lasting { folder, .. } = &self.place else { return None };
        let record = Record::new(path, facts, present)?;
        let number = u64::from_str_radix(content.file_name()?.to_str()?, 16).ok()?;
        let stored = present.total();
        let name = Name { key: Name::key(path), number: self.number(), content: number, stored };
        let (target, text) = (folder.join(name.text()), serde_json::to_vec(&record).ok()?);
        output::replace(&target, 0o600, &text).ok().map(|()| target)
    }

    /// A recorded content is no longer open here.
    pub(crate) fn put_away(&self, record: &Path) {
        let name = record.file_name().and_then(|name| Name::parse(name.to_str()?));
        if let Some(older) = name.and_then(|name| self.unused().add(name)) {
            self.delete(older);
        }
    }

    /// Deletes those unused for longest, until they have no more than so many bytes.
    pub(crate) fn limit(&self, limit: u64) {
        let gone = self.unused().above(limit);
        for name in gone {
            self.delete(name);
        }
    }

    /// The record goes first.
    fn delete(&self, name: Name) {
        let (record, content) = self.places(name);
        if fs::remove_file(record).is_ok() {
            let _ = fs::remove_file(content);
        }
    }

    fn places(&self, name: Name) -> (PathBuf, PathBuf) {
        (self.folder().join(name.text()), self.folder().join(format!("{:x}", name.content)))
    }

    /// The mount is about to end: one that begins now waits for that.
    pub(crate) fn begin_to_end(&self) {
        if let Place::Lasting { folder, .. } = &self.place {
            let _ = File::create(folder.join(ENDING));
        }
    }

    /// The mount has ended, and no content changes any more: all that is recorded survives a power cut from now on.
    pub(crate) fn end(&self) -> io::Result<()> {
        let Place::Lasting { folder, boot, lock } = &self.place else { return Ok(()) };
        let ended = File::open(folder).and_then(|folder| Ok(syncfs(folder)?));
        let ended = ended.and_then(|()| set_state(folder, &ended_well(boot)));
        drop(lock.lock().unwrap_or_else(PoisonError::into_inner).take());
        ended
    }
}

fn in_use(boot: &str) -> String {
    format!("{boot} in use")
}

fn ended_well(boot: &str) -> String {
    format!("{boot} ended well")
}

fn set_state(folder: &Path, state: &str) -> io::Result<()> {
    durable::replace(&folder.join(STATE), 0o600, state.as_bytes())
}

/// Contents that an earlier mount could not keep. Returns whether none is left.
fn keep_spared(folder: &Path, cache: &Path) -> io::Result<bool> {
    let (unsaved, mut is_all) = (Unsaved::new(cache), true);
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if !unsaved::is_spared(&path) {
            continue;
        }
        match unsaved.keep(&path, b"of an earlier mount") {
            Ok(target) => {
                tracing::error!("what an earlier mount could not store is in {}", target.display());
                fs::remove_file(path)?;
            }
            Err(error) => {
                is_all = false;
                tracing::error!("{} is on no server, and cannot be kept in {unsaved}: {error}", path.display());
            }
        }
    }
    Ok(is_all)
}

/// The contents of a folder, and the last number. What has no record is deleted; everything, unless it `is_sound`.
fn scan(folder: &Path, is_sound: bool) -> io::Result<(Unused, u64)> {
    let (mut unused, mut last, mut others) = (Unused::default(), 0, Vec::new());
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let record = Name::parse(&text);
        let content = u64::from_str_radix(&text, 16).ok();
        last = last.max(content.unwrap_or(0)).max(record.map_or(0, |record| record.number));
        let replaced = match record.filter(|_| is_sound) {
            Some(record) => unused.add(record).map(|older| older.text().into()),
            None => Some(name.clone()).filter(|_| ![LOCK, STATE, SERVER_LOCKS].contains(&&*text)),
        };
        others.extend(replaced.map(|name| (name, content)));
    }
    let used: HashSet<_> = unused.contents().collect();
    for (name, content) in others {
        let path = folder.join(name);
        if content.is_none_or(|content| !used.contains(&content)) && !unsaved::is_spared(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok((unused, last))
}

#[cfg(test)]
mod tests;
