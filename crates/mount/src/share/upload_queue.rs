//! Uploads what the journal has.
//!
//! Different files go at the same time, so that they share round trips; the versions of one file go one after another. A file
//! that the server does not take stays in the journal and is tried again, with growing pauses, unless its folder has gone:
//! then it is kept in the folder `unsaved`, and reported.

use std::{collections::BTreeSet, io, path::PathBuf, sync::Arc};

use dav::RemotePath;
use nix::errno::Errno;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use super::{
    Contents, Share,
    storing::{Unstored, Version, failure},
    write_back::{Held, WriteBack},
    writing::{Content, conflict},
};
use crate::{
    cached_file::CachedFile,
    disk::on_disk,
    errno,
    journal::{Entries, Entry, Failed, Failure, Id},
    tree::{Facts, Ino, Tree},
};

/// How many files are uploaded at the same time.
const PARALLEL: usize = 64;

/// What became of an upload.
enum Outcome {
    Stored(Facts),
    /// Somebody else has changed the file: ours is beside it.
    Beside(RemotePath, Facts),
    /// Its folder was renamed here meanwhile.
    Elsewhere(RemotePath),
    /// Its folder has gone: it is kept here, which somebody has to know.
    Kept(String),
    Failed(Failed),
}

/// An upload in flight. However it ends, its path is given back, and whoever waits for it learns of its end.
struct Sending {
    held: Held,
    id: Id,
}

impl Sending {
    fn new(share: &Arc<Share>, entry: &Entry) -> Self {
        Self { held: Held::new(share, vec![entry.path.clone()]), id: entry.id }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(back) = &self.held.share.write_back {
            back.journal.entries().break_off(self.id, Instant::now());
        }
    }
}

/// The last closed version of a file that was set aside is what its new name shows.
pub(super) fn show_latest(
    tree: &mut Tree,
    contents: &mut Contents,
    entries: &Entries,
    path: &RemotePath,
    file: Option<Arc<CachedFile>>,
) {
    if let Some(latest) = entries.latest(path)
        && let Some(ino) = tree.adopt(path, latest.facts())
        && let Some(file) = file.filter(|_| tree.opens(ino) == 0)
    {
        contents.share(ino, file);
    }
}

impl Share {
    /// Uploads what programs have closed, for as long as it is polled.
    pub(crate) async fn upload_queue(self: Arc<Self>) {
        let Some(back) = &self.write_back else { return };
        let mut uploads = JoinSet::new();
        loop {
            let mut later = None;
            while uploads.len() < PARALLEL {
                match back.journal.entries().begin(Instant::now()) {
                    Ok(entry) => {
                        let share = self.clone();
                        uploads.spawn(async move { share.upload_entry(entry).await });
                    }
                    Err(soonest) => {
                        later = soonest;
                        break;
                    }
                }
            }
            tokio::select! {
                biased;
                _ = uploads.join_next(), if !uploads.is_empty() => {}
                () = back.wake.notified() => {}
                () = sleep_until(later.unwrap_or_else(Instant::now)), if later.is_some() => {}
            }
        }
    }

    async fn upload_entry(self: Arc<Self>, entry: Entry) {
        let Some(back) = &self.write_back else { return };
        let sending = Sending::new(&self, &entry);
        let outcome = self.try_upload(back, &entry).await;
        let is_aside = matches!(outcome, Outcome::Beside(..));
        let is_settled = self.note_outcome(back, &entry, outcome);
        drop(sending);
        let (share, id, ino) = (self.clone(), entry.id, entry.details.ino);
        let written = on_disk(move || {
            let Some(back) = &share.write_back else { return };
            if back.commit().is_ok() && is_settled {
                let file = ino.and_then(|ino| share.content_of(ino));
                if let Some(file) = file {
                    file.entry_deleted(id);
                }
            }
        });
        let _ = written.await;
        match entry.details.ino {
            Some(ino) if is_aside => self.unlock_now(ino).await,
            Some(ino) => self.unlock_uploaded(ino, &entry.path).await,
            None => {}
        }
    }

    async fn try_upload(&self, back: &WriteBack, entry: &Entry) -> Outcome {
        let path = &entry.path;
        let data = back.journal.data(entry.id);
        let content =
            || Content::of_file(data.clone(), entry.length, entry.modified).map_err(|error| errno::of_io(&error));
        let (base, ino, is_doubtful) = (&entry.base, entry.details.ino, entry.is_doubtful());
        match self.store(Version { path, base, ino, is_doubtful, content }).await {
            Ok(facts) => Outcome::Stored(facts),
            Err(Unstored::Unreadable(errno)) => {
                let why = format!("cannot read {}: {}", data.display(), errno.desc());
                Outcome::Failed(Failed { how: Failure::Refused, errno, why, retry_after: None })
            }
            Err(Unstored::Conflict(refusal)) => match self.store_beside(path, entry.closed, content).await {
                Ok((beside, facts)) => Outcome::Beside(beside, facts),
                Err(error) => {
                    let (how, why) = (failure(&error), format!("{refusal}; beside it: {error}"));
                    Outcome::Failed(Failed { how, errno: Errno::ESTALE, why, retry_after: error.retry_after() })
                }
            },
            // RFC 4918 §9.7.1
            Err(Unstored::Failed(Failure::Refused, error)) if error.is(404) || error.is(409) => {
                match self.place_now(entry) {
                    Some(now) if now != *path => Outcome::Elsewhere(now),
                    _ => self.keep_homeless(data, path, error.to_string()).await,
                }
            }
            Err(Unstored::Failed(how, error)) => {
                let (errno, why) = (errno::of(path, "upload", &error), error.to_string());
                Outcome::Failed(Failed { how, errno, why, retry_after: error.retry_after() })
            }
        }
    }

    /// The path that an entry's file has now.
    fn place_now(&self, entry: &Entry) -> Option<RemotePath> {
        self.path_if_known(entry.details.ino?)
    }

    /// Notes what became of an upload. Returns whether the journal is done with the entry.
    fn note_outcome(&self, back: &WriteBack, entry: &Entry, outcome: Outcome) -> bool {
        let (mut tree, mut contents) = (self.tree(), self.contents());
        let mut entries = back.journal.entries();
        // Who has had it open when it was set aside has one node, and who finds it by its name another.
        let mut uploaded = |entries: &Entries, path: &RemotePath, facts: &Facts| {
            let nodes: BTreeSet<Ino> = entry.details.ino.into_iter().chain(tree.find(path)).collect();
            for ino in nodes {
                let file = contents.files.get(&ino);
                let is_changed = file.is_some_and(|file| file.entry_uploaded(entry.id, facts));
                tree.uploaded(ino, facts.clone(), is_changed || entries.latest(path).is_some());
            }
        };
        match outcome {
            Outcome::Stored(facts) => {
                entries.uploaded(entry.id, &facts);
                uploaded(&entries, &entry.path, &facts);
                true
            }
            Outcome::Beside(beside, facts) => {
                let message = conflict(&entry.path, &beside);
                tracing::error!("{message}");
                back.went_astray(entry.id, Errno::ESTALE);
                entries.set_aside(entry.id, &beside, &facts);
                entries.tell(message);
                uploaded(&entries, &beside, &facts);
                let file = entry.details.ino.and_then(|ino| contents.files.get(&ino)).cloned();
                if let Some(file) = &file {
                    file.set_aside();
                }
                if let Some(ino) = entry.details.ino {
                    tree.set_aside(ino, beside.name().unwrap_or_default());
                }
                // What was closed since follows it there.
                show_latest(&mut tree, &mut contents, &entries, &beside, file);
                true
            }
            Outcome::Elsewhere(path) => {
                entries.repath(entry.id, &path);
                false
            }
            Outcome::Kept(message) => {
                tracing::error!("{message}");
                back.went_astray(entry.id, Errno::ENOENT);
                entries.give_up(entry.id);
                entries.tell(message);
                if let Some(ino) = entry.details.ino {
                    tree.give_up(ino);
                }
                true
            }
            Outcome::Failed(failed) => {
                entries.failed(entry.id, failed, Instant::now());
                false
            }
        }
    }

    /// Keeps a file whose folder has gone. If that fails, the journal keeps it, and tries again.
    async fn keep_homeless(&self, data: PathBuf, path: &RemotePath, why: String) -> Outcome {
        let (unsaved, name) = (self.unsaved.clone(), path.name().unwrap_or_default().to_vec());
        let kept = on_disk(move || unsaved.keep(&data, &name)).await;
        match kept.map_err(io::Error::from).flatten() {
            Ok(target) => {
                Outcome::Kept(format!("{path} is not on the server ({why}); its content is in {}", target.display()))
            }
            Err(error) => {
                let why = format!("{why}; it cannot be kept in {}: {error}", self.unsaved);
                tracing::error!("{path} is only in the journal: {why}");
                Outcome::Failed(Failed { how: Failure::Refused, errno: Errno::ENOENT, why, retry_after: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use dav::{Dav, LockPolicy};
    use haul_http::{Client, Origin, Settings, auth::Authenticator};
    use tokio::{runtime::Runtime, time::timeout};

    use super::*;
    use crate::{Options, Write, file_state::Base};

    const PATIENCE: Duration = Duration::from_mins(1);

    /// A share that writes back, whose server is not asked for anything.
    fn share(cache: &Path) -> Arc<Share> {
        let client = Client::new(Settings::default(), Authenticator::default()).unwrap();
        let dav = Dav::new(client, Origin::of(&"http://localhost/".parse().unwrap()).unwrap());
        let options = Options {
            source: "http://localhost/".into(),
            identity: None,
            account: String::new(),
            write: Write::Back { journal_size: 1000 },
            fresh: PATIENCE,
            cache: cache.to_owned(),
            cache_size: 1000,
            read_only: false,
            attributes: false,
            properties: false,
            allow_other: false,
            uid: 0,
            gid: 0,
            umask: 0,
            lock: LockPolicy::Never,
            lock_owner: String::new(),
        };
        Arc::new(Share::new(dav, RemotePath::root(), options).unwrap())
    }

    #[test]
    fn upload_that_panics_fails_for_whoever_waits_and_gives_its_path_back() {
        let (cache, path) = (tempfile::tempdir().unwrap(), RemotePath::from_url_path("/file").unwrap());
        Runtime::new().unwrap().block_on(async {
            let share = share(cache.path());
            let entries = || share.write_back.as_ref().unwrap().journal.entries();
            let id = entries().next_id();
            entries().close(Entry::new(id, path.clone(), Base::New, 1, None));
            let entry = entries().begin(Instant::now()).unwrap();
            let waiting = timeout(PATIENCE, share.until_uploaded(&path));
            let uploading = async {
                let sending = Sending::new(&share, &entry);
                let upload = async move {
                    let _sending = sending;
                    panic!("of this test");
                };
                tokio::spawn(upload).await.unwrap_err()
            };
            let (waited, ended) = tokio::join!(waiting, uploading);
            assert!(ended.is_panic());
            assert_eq!(waited.unwrap(), Err(Errno::EIO));
            assert!(timeout(PATIENCE, share.hold(vec![path.clone()])).await.unwrap().is_some());
            assert!(entries().is_doubtful(&path), "it may have been sent");
        });
    }
}
