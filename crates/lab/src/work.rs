//! What the contenders do, and whether they did it.
//!
//! A [`Payload`] holds a workload's bytes, made once from a seed: incompressible and
//! different in each file, so that neither compression nor a mix-up of files can go
//! unseen. Each sample gets a [`Task`] with a folder of its own on the server, because a
//! lock or a cached entry that an earlier sample left behind must not change a later one.
//!
//! A sample is over when its client is done *and* the work is complete where it belongs,
//! byte by byte. For most clients the second follows from the first and is only checked.
//! A file system may return from close(2) before the server has the file: then the folder
//! is looked at until it is complete, after the client's exit, so that looking takes
//! nothing from the client.

use std::{
    collections::BTreeSet,
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use link::units::Size;
use nix::unistd::{Gid, Uid};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::{
    bounds::{Bounds, Stop},
    servers::Requests,
};

/// Where `mod_dav_fs` keeps the properties of a folder's files, inside that folder.
const PROPERTIES: &str = ".DAV";

/// What there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Work {
    /// Bring files to the server that it does not have.
    Upload {
        /// How many.
        files: u32,
        /// The size of each.
        size: Size,
    },
    /// Bring files from the server, into an empty folder.
    Download {
        /// How many.
        files: u32,
        /// The size of each.
        size: Size,
    },
    /// Show what is in a folder, with size and time of each entry.
    List {
        /// How many entries it has.
        entries: u32,
    },
    /// Save a file in place, again and again; each save begins when the last is confirmed.
    Edit {
        /// How often.
        times: u32,
        /// The size of the file.
        size: Size,
    },
}

impl Work {
    /// How many things are done one by one: files, listings, saves.
    pub fn steps(self) -> u32 {
        match self {
            Self::Upload { files, .. } | Self::Download { files, .. } => files,
            Self::List { .. } => 1,
            Self::Edit { times, .. } => times,
        }
    }

    /// Whether it brings files to the server.
    pub fn writes(self) -> bool {
        matches!(self, Self::Upload { .. } | Self::Edit { .. })
    }

    /// What one of them is called.
    pub fn step(self) -> &'static str {
        match self {
            Self::Upload { .. } | Self::Download { .. } => "file",
            Self::List { .. } => "listing",
            Self::Edit { .. } => "save",
        }
    }

    /// The bytes of the files that cross the link; a listing has none.
    pub fn payload(self) -> u64 {
        match self {
            Self::Upload { size, .. } | Self::Download { size, .. } | Self::Edit { size, .. } => {
                u64::from(self.steps()).saturating_mul(size.as_bytes())
            }
            Self::List { .. } => 0,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = |n: u32| if n == 1 { "file" } else { "files" };
        match self {
            Self::Upload { files: n, size } => write!(f, "upload {n} {} of {size}", files(*n)),
            Self::Download { files: n, size } => write!(f, "download {n} {} of {size}", files(*n)),
            Self::List { entries } => write!(f, "list a folder of {entries} entries"),
            Self::Edit { times, size } => write!(f, "save a file of {size} in place {times} times"),
        }
    }
}

/// What can go wrong with a task's files.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// A file could not be written or read.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The result is not what was asked for.
    #[error("the result is wrong: {0}")]
    Wrong(String),
    /// The result did not become right in time.
    #[error("the work {stop}: {wrong}")]
    Unfinished {
        /// What ended the wait.
        stop: Stop,
        /// What was still wrong.
        wrong: String,
    },
}

/// What a client hands back when it is done.
#[derive(Debug, Default)]
pub struct Done {
    /// The names it found, if it was asked to list.
    pub listing: Option<Vec<String>>,
    /// It may still be writing behind its own back, as a file system does after close(2).
    pub writes_behind: bool,
}

/// A workload's bytes.
#[derive(Debug)]
pub struct Payload {
    work: Work,
    /// By file; for an edit, by version, the first being the one on the server.
    contents: Vec<Vec<u8>>,
}

impl Payload {
    /// Makes the bytes of `work` from `seed`.
    pub fn new(work: Work, seed: u64) -> Arc<Self> {
        let (count, size) = match work {
            Work::Upload { files, size } | Work::Download { files, size } => (files, size),
            Work::List { entries } => (entries, Size::bytes(0)),
            Work::Edit { times, size } => (times + 1, size),
        };
        let contents = (0..u64::from(count)).map(|index| content(seed, index, size)).collect();
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
        };
        for local in [&task.source, &task.target] {
            fs::create_dir_all(local).map_err(io_error("create", local))?;
        }
        match self.work {
            Work::Upload { .. } | Work::Edit { .. } => {
                for (index, content) in self.contents.iter().enumerate() {
                    let file = task.local(index);
                    fs::write(&file, content).map_err(io_error("write", &file))?;
                }
            }
            Work::Download { .. } | Work::List { .. } => {}
        }
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
}

impl Task {
    /// What is to be done.
    pub fn work(&self) -> Work {
        self.payload.work
    }

    /// The names of the files in the task's folder on the server, when all is done.
    pub fn names(&self) -> Vec<String> {
        match self.work() {
            Work::Edit { .. } => vec![self.name(0)],
            _ => (0..self.payload.contents.len()).map(|index| self.name(index)).collect(),
        }
    }

    /// The name of the file with this number on the server; an edit has but one.
    fn name(&self, index: usize) -> String {
        match self.work() {
            Work::Upload { .. } | Work::Download { .. } => format!("file{index:04}.bin"),
            Work::List { .. } => format!("entry{index:04}.txt"),
            Work::Edit { .. } => "note.txt".to_owned(),
        }
    }

    /// The file with this number to upload, or this version to save.
    fn local(&self, index: usize) -> PathBuf {
        match self.work() {
            Work::Edit { .. } => self.source.join(format!("version{index:03}.txt")),
            _ => self.source.join(self.name(index)),
        }
    }

    /// What to write, in order: for each upload or save the client's file, its content and
    /// its name on the server.
    pub fn writes(&self) -> impl Iterator<Item = (PathBuf, &[u8], String)> {
        let skip = match self.work() {
            Work::Upload { .. } => 0,
            Work::Edit { .. } => 1,
            Work::Download { .. } | Work::List { .. } => self.payload.contents.len(),
        };
        let contents = self.payload.contents.iter().enumerate().skip(skip);
        contents.map(|(index, content)| (self.local(index), content.as_slice(), self.name(index)))
    }

    /// The bytes of files that have to cross the network.
    pub fn bytes(&self) -> u64 {
        match self.work() {
            Work::Upload { files, size } | Work::Download { files, size } => u64::from(files) * size.as_bytes(),
            Work::Edit { times, size } => u64::from(times) * size.as_bytes(),
            Work::List { .. } => 0,
        }
    }

    /// Makes the task's folder below the server's document root, with what must be there
    /// before the sample, owned by the user that the server runs as.
    pub fn prepare_server(&self, root: &Path, owner: Option<(Uid, Gid)>) -> Result<(), WorkError> {
        let folder = root.join(&self.folder);
        fs::create_dir_all(&folder).map_err(io_error("create", &folder))?;
        let present = match self.work() {
            Work::Upload { .. } => 0,
            Work::Edit { .. } => 1,
            Work::Download { .. } | Work::List { .. } => self.payload.contents.len(),
        };
        let mut made = vec![folder.clone()];
        for (index, content) in self.payload.contents.iter().enumerate().take(present) {
            let file = folder.join(self.name(index));
            fs::write(&file, content).map_err(io_error("write", &file))?;
            made.push(file);
        }
        if let Some((uid, gid)) = owner {
            for path in made {
                nix::unistd::chown(&path, Some(uid), Some(gid))
                    .map_err(|errno| io_error("give away", &path)(errno.into()))?;
            }
        }
        Ok(())
    }

    /// Waits until the work is complete below the document root `root` and in the local
    /// target folder, and returns when it was: the time at which the look that found it
    /// complete began. Looks once unless the client may still be writing.
    pub fn wait_done(&self, root: &Path, done: &Done, bounds: &Bounds) -> Result<Instant, WorkError> {
        let mut pause = Duration::from_millis(1);
        loop {
            let began = Instant::now();
            match self.verify(root, done) {
                Ok(()) => return Ok(began),
                Err(WorkError::Wrong(wrong)) if done.writes_behind => {
                    if let Err(stop) = bounds.check() {
                        return Err(WorkError::Unfinished { stop, wrong });
                    }
                }
                Err(error) => return Err(error),
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(8));
        }
    }

    /// Whether the server was asked for every write one by one. The files cannot tell: of saves
    /// that a client merges only the last is seen in them.
    pub fn verify_requests(&self, requests: &Requests) -> Result<(), WorkError> {
        let (puts, steps) = (requests.of("PUT"), u64::from(self.work().steps()));
        if !self.work().writes() || puts >= steps {
            return Ok(());
        }
        let step = self.work().step();
        Err(WorkError::Wrong(format!("the server was sent {puts} PUT requests for {steps} {step}s")))
    }

    fn verify(&self, root: &Path, done: &Done) -> Result<(), WorkError> {
        let folder = root.join(&self.folder);
        let contents = &self.payload.contents;
        match self.work() {
            Work::Upload { .. } => same_files(&folder, &self.names(), contents),
            Work::Download { .. } => same_files(&self.target, &self.names(), contents),
            Work::Edit { .. } => same_files(&folder, &self.names(), contents.last().map_or(&[], std::slice::from_ref)),
            Work::List { .. } => {
                let listed = done.listing.iter().flatten().cloned();
                same_names("the listing", listed, &self.names())
            }
        }
    }
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorkError {
    let path = path.to_owned();
    move |source| match source.kind() {
        // A server renames its temporary file while we look.
        io::ErrorKind::NotFound => WorkError::Wrong(format!("{} is not there", path.display())),
        _ => WorkError::Io { what, path, source },
    }
}

fn same_names(place: &str, found: impl Iterator<Item = String>, expected: &[String]) -> Result<(), WorkError> {
    let mut found: Vec<String> = found.collect();
    found.sort();
    if found == expected {
        return Ok(());
    }
    let wrong = |what: String| Err(WorkError::Wrong(format!("{place} {what}")));
    let (have, want) = (found.iter().collect::<BTreeSet<_>>(), expected.iter().collect::<BTreeSet<_>>());
    if let Some(name) = want.difference(&have).next() {
        return wrong(format!("has {} of {} names, {name} is missing", have.len(), want.len()));
    }
    if let Some(name) = have.difference(&want).next() {
        return wrong(format!("has {name}, which should not be there"));
    }
    wrong(format!("names {} files {} times", want.len(), found.len()))
}

/// Whether a folder holds exactly these files with these contents; names are in order.
/// The cheap questions come first, since this may be asked often.
fn same_files(folder: &Path, names: &[String], contents: &[Vec<u8>]) -> Result<(), WorkError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io_error("list", folder))? {
        let name = entry.map_err(io_error("list", folder))?.file_name().to_string_lossy().into_owned();
        if name != PROPERTIES {
            found.push(name);
        }
    }
    same_names(&folder.display().to_string(), found.into_iter(), names)?;
    let wrong = |name: &str, what: String| Err(WorkError::Wrong(format!("{}/{name} {what}", folder.display())));
    for (name, content) in names.iter().zip(contents) {
        let path = folder.join(name);
        let len = fs::metadata(&path).map_err(io_error("look at", &path))?.len();
        if len != content.len() as u64 {
            return wrong(name, format!("has {len} bytes instead of {}", content.len()));
        }
    }
    for (name, content) in names.iter().zip(contents) {
        let path = folder.join(name);
        let stored = fs::read(&path).map_err(io_error("read", &path))?;
        if stored != *content {
            let at = stored.iter().zip(content).take_while(|(a, b)| a == b).count();
            return wrong(name, format!("differs from byte {at} on"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(files: u32, size: u64) -> Work {
        Work::Upload { files, size: Size::bytes(size) }
    }

    fn bounds() -> Bounds {
        Bounds::tidy(Duration::from_secs(20))
    }

    /// A task in a temporary folder, with the server's root prepared.
    fn task(work: Work) -> (tempfile::TempDir, PathBuf, Task) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        let task = Payload::new(work, 7).task(folder.path(), "s1").unwrap();
        task.prepare_server(&root, None).unwrap();
        (folder, root, task)
    }

    fn wrong(task: &Task, root: &Path, done: &Done) -> String {
        task.wait_done(root, done, &bounds()).unwrap_err().to_string()
    }

    #[test]
    fn every_file_differs_and_a_seed_repeats() {
        let [a, b] = [1, 1].map(|seed| Payload::new(upload(3, 100), seed));
        assert_eq!(a.contents, b.contents);
        assert_ne!(a.contents[0], a.contents[1]);
        assert_ne!(a.contents, Payload::new(upload(3, 100), 2).contents);
    }

    #[test]
    fn an_upload_is_right_only_when_every_byte_is() {
        let (_folder, root, task) = task(upload(3, 100));
        let done = Done::default();
        assert!(wrong(&task, &root, &done).contains("has 0 of 3 names, file0000.bin is missing"));
        for (local, content, name) in task.writes() {
            assert_eq!(fs::read(&local).unwrap(), content);
            fs::copy(local, root.join("s1").join(name)).unwrap();
        }
        task.wait_done(&root, &done, &bounds()).unwrap();
        fs::create_dir(root.join("s1/.DAV")).unwrap();
        task.wait_done(&root, &done, &bounds()).unwrap();

        let last = root.join("s1/file0002.bin");
        let right = fs::read(&last).unwrap();
        let mut bytes = right.clone();
        bytes[99] ^= 1;
        fs::write(&last, &bytes).unwrap();
        assert!(wrong(&task, &root, &done).ends_with("file0002.bin differs from byte 99 on"));
        fs::write(&last, &right[..99]).unwrap();
        assert!(wrong(&task, &root, &done).ends_with("file0002.bin has 99 bytes instead of 100"));
        fs::write(&last, &right).unwrap();
        fs::write(root.join("s1/.davfs.tmp1"), "").unwrap();
        assert!(wrong(&task, &root, &done).ends_with("has .davfs.tmp1, which should not be there"));
    }

    #[test]
    fn a_download_is_looked_for_on_the_client() {
        let (_folder, root, task) = task(Work::Download { files: 2, size: Size::bytes(10) });
        assert_eq!(task.writes().count(), 0);
        assert!(wrong(&task, &root, &Done::default()).contains("target has 0 of 2 names"));
        for name in task.names() {
            fs::copy(root.join("s1").join(&name), task.target.join(&name)).unwrap();
        }
        task.wait_done(&root, &Done::default(), &bounds()).unwrap();
    }

    #[test]
    fn a_listing_names_each_entry_once() {
        let (_folder, root, task) = task(Work::List { entries: 1000 });
        let mut done = Done { listing: Some(task.names()), writes_behind: false };
        done.listing.as_mut().unwrap().reverse();
        task.wait_done(&root, &done, &bounds()).unwrap();
        done.listing.as_mut().unwrap().push("entry0000.txt".to_owned());
        assert!(wrong(&task, &root, &done).ends_with("the listing names 1000 files 1001 times"));
        done.listing.as_mut().unwrap().truncate(999);
        assert!(wrong(&task, &root, &done).ends_with("has 999 of 1000 names, entry0000.txt is missing"));
        assert!(wrong(&task, &root, &Done::default()).contains("has 0 of 1000 names"));
    }

    #[test]
    fn an_edit_is_done_when_the_last_version_is_there() {
        let (_folder, root, task) = task(Work::Edit { times: 3, size: Size::bytes(50) });
        let done = Done::default();
        let file = root.join("s1/note.txt");
        assert!(wrong(&task, &root, &done).contains("note.txt differs"));
        let versions: Vec<_> = task.writes().map(|(_, content, name)| (content.to_owned(), name)).collect();
        assert_eq!(versions.len(), 3);
        assert!(versions.iter().all(|(content, name)| name == "note.txt" && fs::read(&file).unwrap() != *content));
        fs::write(&file, &versions[1].0).unwrap();
        assert!(wrong(&task, &root, &done).contains("note.txt differs"));
        fs::write(&file, &versions[2].0).unwrap();
        task.wait_done(&root, &done, &bounds()).unwrap();
    }

    #[test]
    fn merged_saves_are_seen_in_the_requests() {
        let (_folder, _, task) = task(Work::Edit { times: 3, size: Size::bytes(50) });
        let puts = |n| Requests([("PUT".to_owned(), n), ("LOCK".to_owned(), 9)].into());
        task.verify_requests(&puts(3)).unwrap();
        let merged = task.verify_requests(&puts(2)).unwrap_err().to_string();
        assert_eq!(merged, "the result is wrong: the server was sent 2 PUT requests for 3 saves");
        let (_folder, _, listing) = self::task(Work::List { entries: 3 });
        listing.verify_requests(&puts(0)).unwrap();
    }

    #[test]
    fn a_writer_behind_is_waited_for_and_no_longer() {
        let (_folder, root, task) = task(upload(1, 10));
        let done = Done { writes_behind: true, ..Done::default() };
        let (local, _, name) = task.writes().next().map(|(l, c, n)| (l, c.to_owned(), n)).unwrap();
        let error = task.wait_done(&root, &done, &Bounds::tidy(Duration::from_millis(30))).unwrap_err();
        assert!(matches!(error, WorkError::Unfinished { stop: Stop::TimedOut(_), .. }), "{error}");
        let target = root.join("s1").join(name);
        let writer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            fs::copy(local, target).unwrap();
        });
        task.wait_done(&root, &done, &bounds()).unwrap();
        writer.join().unwrap();
    }
}
