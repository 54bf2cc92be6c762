//! The work of a sample, and its verification.
//!
//! A [`Payload`] holds a workload's bytes, generated from a seed: incompressible and different in each file, so that
//! compression or a mix-up of files is detected. Each sample gets a [`Task`] with a folder of its own on the server, so
//! that a lock or a cached entry of an earlier sample has no effect.
//!
//! A sample is over when its client is done *and* every byte of the work is in its place. For most clients the second
//! follows from the first and is only checked. A file system may return from close(2) before the server has the file.
//! Then the folder is polled until it is complete, but only after the client's exit, so that polling costs the client
//! nothing.

mod chore;
mod kind;
mod verify;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use ::page::browser::deviations::Deviation;
use nix::unistd::{Gid, Uid};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use units::Size;

use crate::{
    deadline::{Deadline, Stop},
    servers::Requests,
};

use self::verify::{same_content, same_files, same_names};
pub use self::{
    chore::{Chore, Job, Place},
    kind::{Page, Work},
};

/// Where `mod_dav_fs` keeps the properties of a folder's files, inside that folder.
const PROPERTIES: &str = ".DAV";
/// The age of files that exist before a sample. Apache gives a file changed in the current second a weak ETag, since
/// another change may follow within the same second.
const AGE: Duration = Duration::from_mins(1);

/// Why a task's files cannot be prepared or are wrong.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// A file could not be written or read.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The result is wrong.
    #[error("the result is wrong: {0}")]
    Wrong(String),
    /// The result was not complete in time.
    #[error("the work {stop}: {wrong}")]
    Unfinished {
        /// What ended the wait.
        stop: Stop,
        /// What is still wrong.
        wrong: String,
    },
}

/// What a client reports about its work.
#[derive(Debug, Default)]
pub struct Done {
    /// The names it found, if the work is a listing.
    pub listing: Option<Vec<String>>,
    /// The time of the work, if the client measures it better: a page is loaded at its last byte, before connections are
    /// closed.
    pub took: Option<Duration>,
    /// Whether it may still be writing (write-back), as a file system does after close(2).
    pub writes_behind: bool,
    /// How a browser's load differs from the recording; none if the server's count of requests checks the load.
    pub deviations: Option<Vec<Deviation>>,
}

/// The files of a workload.
#[derive(Debug)]
pub struct Payload {
    work: Work,
    /// Content by file; for an edit, by version, the first being the one on the server.
    contents: Vec<Vec<u8>>,
}

impl Payload {
    /// Makes the bytes of `work` from `seed`.
    pub fn new(work: Work, seed: u64) -> Arc<Self> {
        let first = if let Work::Edit { size, .. } = work { Some(size) } else { None };
        let sizes = first.into_iter().chain(work.sizes());
        let mut contents: Vec<_> = (0..).zip(sizes).map(|(index, size)| content(seed, index, size)).collect();
        if let Work::Chore(chore) = &work {
            chore.edit(&mut contents);
        }
        Arc::new(Self { work, contents })
    }

    /// A task for one sample: writes the client's files below `scratch` on the client. On
    /// the server the task has the folder `folder` to itself.
    pub fn task(self: &Arc<Self>, scratch: &Path, folder: &str) -> Result<Task, WorkError> {
        let task = Task {
            payload: self.clone(),
            folder: folder.to_owned(),
            source: scratch.join("source"),
            target: scratch.join("target"),
            began: SystemTime::now(),
        };
        for local in [&task.source, &task.target] {
            fs::create_dir_all(local).map_err(io_error("create", local))?;
        }
        for folder in task.folders() {
            let local = task.source.join(folder);
            fs::create_dir_all(&local).map_err(io_error("create", &local))?;
        }
        if self.work.writes() {
            for (index, content) in self.contents.iter().enumerate() {
                let file = task.local(index);
                fs::write(&file, content).map_err(io_error("write", &file))?;
            }
        }
        self.work.chore().map_or(Ok(()), |chore| chore.prepare_client(&task))?;
        Ok(task)
    }
}

fn content(seed: u64, index: u64, size: Size) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(index);
    let mut bytes = vec![0; usize::try_from(size.as_bytes()).unwrap_or(usize::MAX)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// One sample's work.
#[derive(Debug, Clone)]
pub struct Task {
    payload: Arc<Payload>,
    /// Its folder on the server, a single path segment.
    pub folder: String,
    /// The folder on the client that holds the files to upload, or the versions to save.
    pub source: PathBuf,
    /// The folder on the client that downloads go to; empty at the start.
    pub target: PathBuf,
    began: SystemTime,
}

/// A file to download, as a listing shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// On the server.
    pub name: String,
    /// In bytes.
    pub length: u64,
    /// A different whole second for each file, since real files rarely have equal times.
    pub modified: SystemTime,
}

impl Task {
    /// The work.
    pub fn work(&self) -> &Work {
        &self.payload.work
    }

    /// The folders to make in the task's folder on the server, before there can be files in them.
    pub fn folders(&self) -> Vec<String> {
        match self.work() {
            Work::Tree { folders, .. } | Work::Chore(Chore { folders, .. }) => {
                (0..u64::from(*folders)).map(folder_name).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The names of the files in the task's folder on the server, when all is done; with the folder below it, if
    /// they are in one.
    pub fn names(&self) -> Vec<String> {
        match self.work() {
            Work::Edit { .. } => vec![self.name(0)],
            _ => (0..self.payload.contents.len()).map(|index| self.name(index)).collect(),
        }
    }

    /// The name of the file with this number on the server; an edit has only one.
    fn name(&self, index: usize) -> String {
        match self.work() {
            Work::Upload { .. } | Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
                format!("file{index:04}.bin")
            }
            Work::Tree { folders, files, .. } | Work::Chore(Chore { folders, files, .. }) => {
                let folder = index as u64 * u64::from(*folders) / u64::from(*files);
                format!("{}/file{index:04}.bin", folder_name(folder))
            }
            Work::List { .. } => format!("entry{index:04}.txt"),
            Work::LookUp { .. } => format!("name{index:04}"),
            Work::Edit { .. } => "note.txt".to_owned(),
        }
    }

    /// The names of the files, with their content.
    fn files(&self) -> impl Iterator<Item = (String, &[u8])> {
        self.payload.contents.iter().enumerate().map(|(index, content)| (self.name(index), content.as_slice()))
    }

    /// The file with this number to upload, or this version to save.
    fn local(&self, index: usize) -> PathBuf {
        match self.work() {
            Work::Edit { .. } => self.source.join(format!("version{index:03}.txt")),
            _ => self.source.join(self.name(index)),
        }
    }

    /// The files to download, in order.
    pub fn reads(&self) -> impl Iterator<Item = RemoteFile> {
        let count = if self.work().reads() { self.payload.contents.len() } else { 0 };
        (0..count).map(|index| RemoteFile {
            name: self.name(index),
            length: self.payload.contents[index].len() as u64,
            modified: self.modified(index),
        })
    }

    /// When the file with this number was last written, as the server has it.
    fn modified(&self, index: usize) -> SystemTime {
        self.began - AGE - Duration::from_secs(index as u64)
    }

    /// The uploads or saves, in order: the client's file, its content, and its name on the server.
    pub fn writes(&self) -> impl Iterator<Item = (PathBuf, &[u8], String)> {
        let skip = match self.work() {
            Work::Upload { .. } | Work::Tree { .. } => 0,
            Work::Edit { .. } => 1,
            _ => self.payload.contents.len(),
        };
        let contents = self.payload.contents.iter().enumerate().skip(skip);
        contents.map(|(index, content)| (self.local(index), content.as_slice(), self.name(index)))
    }

    /// Creates the task's folder below the server's document root, with the files that must exist before the sample,
    /// owned by the server's user.
    pub fn prepare_server(&self, root: &Path, owner: Option<(Uid, Gid)>) -> Result<(), WorkError> {
        let folder = root.join(&self.folder);
        fs::create_dir_all(&folder).map_err(io_error("create", &folder))?;
        let present = match self.work() {
            Work::LookUp { .. } => 0,
            Work::Edit { .. } => 1,
            work if work.writes() => 0,
            _ => self.payload.contents.len(),
        };
        let folders = if present == 0 { Vec::new() } else { self.folders() };
        for below in folders.iter().map(|name| folder.join(name)) {
            fs::create_dir_all(&below).map_err(io_error("create", &below))?;
        }
        for (index, content) in self.payload.contents.iter().enumerate().take(present) {
            let file = folder.join(self.name(index));
            fs::write(&file, content)
                .and_then(|()| fs::File::options().write(true).open(&file)?.set_modified(self.modified(index)))
                .map_err(io_error("write", &file))?;
        }
        self.work().chore().map_or(Ok(()), |chore| chore.prepare_server(self, &folder))?;
        owner.map_or(Ok(()), |owner| give_away(&folder, owner))
    }

    /// Waits until the work is complete below the document root `root` and in the local target folder. Returns the time
    /// at which the successful check began. Checks only once unless the client may still be writing.
    pub fn wait_done(&self, root: &Path, done: &Done, deadline: &Deadline) -> Result<Instant, WorkError> {
        until_right(Duration::from_millis(1), done.writes_behind.then_some(deadline), || self.verify(root, done))
    }

    /// Waits until the server's file `name` is `content`, for a client without confirmation of its writes. Polls more
    /// often than [`wait_done`](Self::wait_done), since a sample may have many such waits.
    pub fn wait_arrived(&self, root: &Path, name: &str, content: &[u8], deadline: &Deadline) -> Result<(), WorkError> {
        let file = root.join(&self.folder).join(name);
        until_right(Duration::from_micros(200), Some(deadline), || same_content(&file, content)).map(drop)
    }

    /// Checks that every save was a request of its own. The files cannot show it, since merged saves leave only the
    /// last version.
    pub fn verify_requests(&self, requests: &Requests, done: &Done) -> Result<(), WorkError> {
        let (puts, steps) = (requests.of("PUT"), u64::from(self.work().steps()));
        if let Work::Load { page } = self.work() {
            // The browser has compared each request.
            if done.deviations.is_some() {
                return Ok(());
            }
            let total = requests.total();
            let wrong = || format!("the server received {total} of the {steps} requests of {}", page.0.name);
            return if total >= steps { Ok(()) } else { Err(WorkError::Wrong(wrong())) };
        }
        if !self.work().writes() || puts >= steps {
            return Ok(());
        }
        let step = self.work().step();
        Err(WorkError::Wrong(format!("the server received {puts} PUT requests for {steps} {step}s")))
    }

    fn verify(&self, root: &Path, done: &Done) -> Result<(), WorkError> {
        let folder = root.join(&self.folder);
        let contents = &self.payload.contents;
        match self.work() {
            Work::Upload { .. } | Work::Tree { .. } => same_files(&folder, &self.names(), contents),
            // The status and length of each response were checked on arrival.
            Work::Load { .. } => Ok(()),
            Work::Download { .. } | Work::Page { .. } => same_files(&self.target, &self.names(), contents),
            Work::Chore(chore) => chore.verify(self, &folder),
            Work::Edit { .. } => same_files(&folder, &self.names(), contents.last().map_or(&[], std::slice::from_ref)),
            Work::List { .. } | Work::LookUp { .. } => {
                let listed = done.listing.iter().flatten().cloned();
                same_names(
                    if let Work::List { .. } = self.work() { "the listing" } else { "the answers" },
                    listed,
                    &self.names(),
                )
            }
        }
    }
}

/// Gives a folder and everything in it to another user.
fn give_away(path: &Path, owner: (Uid, Gid)) -> Result<(), WorkError> {
    let (uid, gid) = owner;
    nix::unistd::chown(path, Some(uid), Some(gid)).map_err(|errno| io_error("give away", path)(errno.into()))?;
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(io_error("list", path))? {
            give_away(&entry.map_err(io_error("list", path))?.path(), owner)?;
        }
    }
    Ok(())
}

fn folder_name(number: u64) -> String {
    format!("folder{number:03}")
}

/// Polls with growing pauses until the result is right, and returns when the last poll began; without a deadline it polls
/// once.
fn until_right(
    mut pause: Duration,
    deadline: Option<&Deadline>,
    look: impl Fn() -> Result<(), WorkError>,
) -> Result<Instant, WorkError> {
    loop {
        let began = Instant::now();
        match (look(), deadline) {
            (Ok(()), _) => return Ok(began),
            (Err(WorkError::Wrong(wrong)), Some(deadline)) => {
                if let Err(stop) = deadline.check() {
                    return Err(WorkError::Unfinished { stop, wrong });
                }
            }
            (Err(error), _) => return Err(error),
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(8));
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkError {
    let path = path.to_owned();
    move |source| match source.kind() {
        // The server may rename its temporary file during the poll.
        io::ErrorKind::NotFound => WorkError::Wrong(format!("{} is missing", path.display())),
        _ => WorkError::Io { what, path, source },
    }
}

#[cfg(test)]
mod tests;
