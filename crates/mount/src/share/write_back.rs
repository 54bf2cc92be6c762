//! Writing back: close(2) returns when the journal has the file, and uploads follow.
//!
//! Names stay as they are without a journal: a folder is created, and a file removed or renamed, on the server, before the
//! call returns. Only what the server does not have at all is renamed and removed here alone.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use dav::RemotePath;
use nix::errno::Errno;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use super::{Result, Share, upload_queue::show_latest};
use crate::{
    cached_file::{CachedFile, Linked},
    disk::on_disk,
    errno,
    file_state::{Base, FileState},
    journal::{Entries, Entry, Id, Journal},
    tree::Ino,
};

/// How long a writer waits for room in the journal while the server takes nothing.
const STALLED: Duration = Duration::from_mins(1);
/// How often a writer asks whether the journal has room, in bytes.
const ROOM_STEP: u64 = 1024 * 1024;

/// How long an empty new file waits for its upload, unless somebody waits for it. Most are locks of programs such as git,
/// which remove them soon, and then the server need not know.
const EMPTY_PAUSE: Duration = Duration::from_millis(100);

/// What a share that writes back has.
pub(crate) struct WriteBack {
    pub(super) journal: Journal,
    /// The largest size of what is not on the server yet, in bytes.
    size: u64,
    /// Whether close(2) waits for the server all the same: this mount only finishes what an earlier one has left.
    is_through: bool,
    /// The queue may have something to do.
    pub(super) wake: Notify,
    /// An upload has ended.
    pub(super) progress: Notify,
    /// Files that did not reach the server under their name, for those who wait for them.
    astray: Mutex<HashMap<Id, Errno>>,
}

/// Paths that nobody else uploads, renames or removes meanwhile.
pub(super) struct Held {
    pub(super) share: Arc<Share>,
    paths: Vec<RemotePath>,
}

impl Held {
    /// Of paths that the caller has taken.
    pub(super) fn new(share: &Arc<Share>, paths: Vec<RemotePath>) -> Self {
        Self { share: share.clone(), paths }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(back) = &self.share.write_back {
            back.journal.entries().give_back(&self.paths);
            back.wake.notify_one();
            back.progress.notify_waiters();
        }
    }
}

impl WriteBack {
    pub(super) fn new(journal: Journal, size: u64, is_through: bool) -> Self {
        Self { journal, size, is_through, wake: Notify::new(), progress: Notify::new(), astray: Mutex::default() }
    }

    fn astray(&self) -> MutexGuard<'_, HashMap<Id, Errno>> {
        self.astray.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn went_astray(&self, id: Id, errno: Errno) {
        self.astray().insert(id, errno);
    }

    /// Writes the journal to the disk.
    pub(super) fn commit(&self) -> Result<()> {
        self.journal.commit().map_err(|error| {
            tracing::error!("cannot write the journal {}: {error}", self.journal.folder().display());
            errno::of_io(&error)
        })
    }
}

impl Share {
    /// The folder of the journal, if there is one.
    pub(crate) fn journal_folder(&self) -> Option<&Path> {
        self.write_back.as_ref().map(|back| back.journal.folder())
    }

    /// Puts what an earlier mount has left into the tree.
    pub(crate) fn adopt_journal(&self) {
        let Some(back) = &self.write_back else { return };
        let mut tree = self.tree();
        let mut entries = back.journal.entries();
        let all: Vec<Entry> = entries.iter().cloned().collect();
        for entry in all {
            if let Some(ino) = tree.adopt(&entry.path, entry.facts()) {
                entries.set(entry.id, |details| details.ino = Some(ino));
            }
        }
    }

    /// The content of a file that no program has opened since it was closed, if the journal has it.
    pub(super) fn content_in_journal(&self, path: &RemotePath, place: PathBuf) -> io::Result<Option<CachedFile>> {
        let Some(back) = &self.write_back else { return Ok(None) };
        // Its content stays as long as the entry does.
        let entries = back.journal.entries();
        let Some(entry) = entries.latest(path) else { return Ok(None) };
        let state = FileState::in_journal(entry.base.clone(), entry.length);
        CachedFile::of_entry(place, entry.id, &back.journal.data(entry.id), state).map(Some)
    }

    /// What close(2) waits for: the server has the file, or the journal.
    pub(crate) async fn commit(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        match &self.write_back {
            Some(back) if !back.is_through => self.journal(ino, file).await,
            _ => self.flush(ino, file).await,
        }
    }

    /// What fsync(2) waits for: the server has the file.
    pub(crate) async fn flush(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        if self.write_back.is_none() {
            return self.upload(ino, file).await;
        }
        self.journal(ino, file).await?;
        match self.place_of(ino) {
            (Some(path), false) => self.until_uploaded(&path).await,
            _ => Ok(()),
        }
    }

    /// What fsync(2) of a folder waits for: the server has all that programs have closed below it.
    pub(crate) async fn flush_folder(&self, folder: Ino) -> Result<()> {
        match self.path_if_known(folder) {
            Some(path) => self.until_uploaded_below(&path).await,
            None => Ok(()),
        }
    }

    async fn journal(self: &Arc<Self>, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        let _turn = file.upload.lock().await;
        let (path, is_removed) = self.place_of(ino);
        if is_removed || !file.state(|state| state.is_unsafe()) {
            return Ok(());
        }
        // Somebody else has deleted its folder.
        path.ok_or(Errno::ENOENT)?;
        self.fetch_whole(ino, file).await?;
        self.wait_for_room(0).await?;
        let (share, file) = (self.clone(), file.clone());
        on_disk(move || share.store_in_journal(ino, &file)).await.flatten()
    }

    /// Stores a closed file in the journal, and has it uploaded.
    fn store_in_journal(&self, ino: Ino, file: &Arc<CachedFile>) -> Result<()> {
        let Some(back) = &self.write_back else { return Ok(()) };
        let journal = &back.journal;
        let id = journal.entries().next_id();
        let failed = |errno: Errno| {
            let name =
                self.path_if_known(ino).map_or_else(|| "a file without a folder".into(), |path| path.to_string());
            tracing::error!("cannot store {name} in the journal {}: {}", journal.folder().display(), errno.desc());
            errno
        };
        let Some(linked) = self.with_space(|| file.link(id, &journal.data(id))).map_err(failed)? else { return Ok(()) };
        self.with_space(|| journal.sync_data(&linked.local)).map_err(failed)?;
        let outcome = self.file_in_journal(id, ino, file, &linked);
        outcome.inspect_err(|_| {
            file.entry_deleted(id);
            let _ = fs::remove_file(journal.data(id));
        })?;
        // Without the record it is not safe, and its program is told so; it is uploaded all the same.
        let committed = self.with_space(|| journal.commit()).map_err(failed);
        file.state(|state| state.journaled(&linked.snapshot));
        back.wake.notify_one();
        committed
    }

    /// Files what is in the journal as entry `id` under the name that it has now.
    fn file_in_journal(&self, id: Id, ino: Ino, file: &Arc<CachedFile>, linked: &Linked) -> Result<()> {
        let Some(back) = &self.write_back else { return Ok(()) };
        // An upload that has ended in a conflict changes the name together with the version that the next one replaces.
        let (mut tree, mut contents) = (self.tree(), self.contents());
        let mut entries = back.journal.entries();
        // Somebody else has deleted its folder.
        let path = if tree.contains(ino) { tree.path(ino) } else { None };
        let path = path.ok_or(Errno::ENOENT)?;
        let base = file.state(|state| state.base().clone());
        let mut entry = Entry::new(id, path.clone(), base, linked.snapshot.length, linked.modified);
        entry.details.ino = Some(ino);
        if entry.base == Base::New && entry.length == 0 {
            entry.due = Some(Instant::now() + EMPTY_PAUSE);
        }
        entries.close(entry);
        if file.conflicts() > 0 && tree.is_displaced(ino) {
            show_latest(&mut tree, &mut contents, &entries, &path, Some(file.clone()));
        }
        Ok(())
    }

    /// Waits until the server has all closed versions of a file.
    pub(super) async fn until_uploaded(&self, path: &RemotePath) -> Result<()> {
        let Some(back) = &self.write_back else { return Ok(()) };
        let failures_of =
            |path: &RemotePath| back.journal.entries().first(path).map(|first| (first.id, first.failures));
        let before = failures_of(path);
        let Some(last) = back.journal.entries().latest(path).map(|last| last.id) else { return Ok(()) };
        back.journal.entries().hurry(path);
        back.wake.notify_one();
        loop {
            let progress = back.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            if let Some(errno) = back.astray().get(&last) {
                return Err(*errno);
            }
            {
                let entries = back.journal.entries();
                let Some(first) = entries.first(path) else { return Ok(()) };
                let failed = before.is_some_and(|(id, failures)| id != first.id || first.failures > failures);
                match &first.failure {
                    Some((errno, _)) if failed && first.failures > 0 => return Err(*errno),
                    _ => {}
                }
            }
            progress.await;
        }
    }

    /// Waits until the server has what programs have closed below a folder, or in all of the share.
    pub(crate) async fn until_uploaded_below(&self, folder: &RemotePath) -> Result<()> {
        let Some(back) = &self.write_back else { return Ok(()) };
        let paths: Vec<_> = {
            let entries = back.journal.entries();
            entries.iter().map(|entry| &entry.path).filter(|path| path.relative_to(folder).is_some()).cloned().collect()
        };
        for path in paths {
            self.until_uploaded(&path).await?;
        }
        Ok(())
    }

    /// Whether a program may write here without waiting for room in the journal.
    pub(crate) fn has_room(&self, file: &CachedFile, at: u64, length: u64) -> bool {
        let is_step = at / ROOM_STEP != (at + length) / ROOM_STEP;
        match &self.write_back {
            Some(back) if is_step => {
                let grows = (at + length).saturating_sub(file.state(|state| state.length()));
                let stored = back.journal.entries().bytes();
                stored + self.unsafe_bytes() + grows <= back.size
            }
            _ => true,
        }
    }

    /// The bytes of open files that the journal does not have yet.
    fn unsafe_bytes(&self) -> u64 {
        let contents = self.contents();
        let lengths = contents.files.values().map(|file| file.state(|state| (state.is_unsafe(), state.length())));
        lengths.filter(|(is_unsafe, _)| *is_unsafe).map(|(_, length)| length).sum()
    }

    /// Waits until the journal has room for so many bytes more than programs have written.
    pub(crate) async fn wait_for_room(&self, more: u64) -> Result<()> {
        let Some(back) = &self.write_back else { return Ok(()) };
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let progress = back.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            let stored = back.journal.entries().bytes();
            if stored + self.unsafe_bytes() + more <= back.size {
                return Ok(());
            }
            if stored < least {
                (least, since) = (stored, Instant::now());
            }
            if stored == 0 || since.elapsed() > STALLED {
                tracing::error!(
                    "the journal is full: {stored} bytes wait for the server; --journal-size makes it larger"
                );
                return Err(Errno::ENOSPC);
            }
            let _ = timeout(Duration::from_secs(1), progress).await;
        }
    }

    /// Keeps uploads away from paths. Nothing without a journal.
    pub(super) async fn hold(self: &Arc<Self>, paths: Vec<RemotePath>) -> Option<Held> {
        let back = self.write_back.as_ref()?;
        loop {
            let progress = back.progress.notified();
            tokio::pin!(progress);
            progress.as_mut().enable();
            if back.journal.entries().take(&paths) {
                return Some(Held::new(self, paths));
            }
            progress.await;
        }
    }

    /// Whether the journal has a file under this path, and whether the server has nothing of it.
    pub(super) fn in_journal(&self, path: &RemotePath) -> Option<bool> {
        let entries = self.write_back.as_ref()?.journal.entries();
        entries.latest(path).is_some().then(|| entries.is_only_here(path))
    }

    /// The version that the upload of a file in the journal replaces, if nothing of it was sent.
    pub(super) fn base_in_journal(&self, path: &RemotePath) -> Option<Base> {
        let entries = self.write_back.as_ref()?.journal.entries();
        entries.latest(path).filter(|entry| !entry.is_sent()).map(|entry| entry.base.clone())
    }

    /// Before a file is replaced: what may have reached the server of it must be known.
    pub(super) async fn settle_replaced(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let Some(back) = &self.write_back else { return Ok(()) };
        let (Some(path), _) = self.place_of(ino) else { return Ok(()) };
        // Not while it is being uploaded.
        drop(self.hold(vec![path.clone()]).await);
        let is_doubtful = back.journal.entries().is_doubtful(&path);
        if is_doubtful { self.until_uploaded(&path).await } else { Ok(()) }
    }

    /// Keeps uploads away from both paths of a renaming. If the server has an older version of the file, it must have the last
    /// one first, and that of the file it replaces: otherwise an old version would take the place of a newer one, or the
    /// journal would bring back what was replaced.
    pub(super) async fn hold_to_rename(
        self: &Arc<Self>,
        ino: Ino,
        from: &RemotePath,
        to: &RemotePath,
    ) -> Result<Option<Held>> {
        loop {
            let held = self.hold(vec![from.clone(), to.clone()]).await;
            let late = if self.is_only_here(ino) {
                None
            } else {
                [from, to].into_iter().find(|path| self.in_journal(path).is_some())
            };
            let Some(late) = late else { return Ok(held) };
            drop(held);
            self.until_uploaded(late).await?;
        }
    }

    /// A program has removed the file at a path: it is not uploaded any more.
    pub(super) async fn removed_from_journal(self: &Arc<Self>, path: &RemotePath) -> Result<()> {
        self.change_journal(|entries| entries.unlink(path)).await
    }

    /// A program has renamed a file. If it is only here, its upload replaces what the server has as `base`.
    pub(super) async fn renamed_in_journal(
        self: &Arc<Self>,
        from: &RemotePath,
        to: &RemotePath,
        base: Option<&Base>,
    ) -> Result<()> {
        self.change_journal(|entries| entries.rename(from, to, base)).await
    }

    /// A program has set a file's modification time.
    pub(super) fn modified_in_journal(&self, ino: Ino, modified: SystemTime) {
        let (Some(back), (Some(path), false)) = (&self.write_back, self.place_of(ino)) else { return };
        back.journal.entries().modify(&path, modified);
    }

    async fn change_journal(self: &Arc<Self>, change: impl FnOnce(&mut Entries)) -> Result<()> {
        let Some(back) = &self.write_back else { return Ok(()) };
        {
            let mut entries = back.journal.entries();
            change(&mut entries);
            if entries.is_written() {
                return Ok(());
            }
        }
        back.wake.notify_one();
        let share = self.clone();
        let commit = move || share.write_back.as_ref().map_or(Ok(()), WriteBack::commit);
        on_disk(commit).await.flatten()
    }
}
