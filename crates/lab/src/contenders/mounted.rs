//! Work on a mounted file system, as `cp`, `cat` and an editor do it, by threads of ours on the client host.
//!
//! A file system whose server is gone blocks its users in the kernel, where no signal reaches them. So the work has
//! threads of its own, and at the deadline the mount is torn down, which ends them.

use std::{
    fs::{self, DirEntry, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::unistd::{User, close, getuid};

use super::{Failure, Prepared, SampleSetup, io_failure};
use crate::{
    deadline::Deadline,
    work::{Chore, Done, Place, Task, Work},
};

/// The pause between two looks at a mount or its program.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// A mount of the server's root. Dropping it tears it down, in bounded time.
pub(super) trait MountPoint {
    /// The file system's name.
    fn name(&self) -> &'static str;

    /// Where it is mounted.
    fn point(&self) -> &Path;

    /// The task's folder, in the mount.
    fn folder(&self) -> &Path;

    /// Whether close(2) may return before the server has the file.
    fn writes_behind(&self) -> bool;

    /// Unmounts and waits until its program has ended, and with that has written all.
    fn unmount(self) -> Result<(), Failure>;

    /// Kills its program and removes the mount, even if it is in use.
    fn abort(&mut self);
}

/// Why nothing can be mounted here, if so.
pub(super) fn no_fuse() -> Option<String> {
    let device = Path::new("/dev/fuse");
    if !device.exists() {
        return Some("this machine has no /dev/fuse; try `modprobe fuse`".to_owned());
    }
    let opened = OpenOptions::new().read(true).write(true).open(device);
    opened.err().map(|error| format!("you may not use /dev/fuse ({error}); ask for mode 0666, or run it as root"))
}

/// Why a program that asks for its user's name will not run here, if so.
pub(super) fn no_user_name(program: &str) -> Option<String> {
    let user = getuid();
    let is_nameless = !user.is_root() && !matches!(User::from_uid(user), Ok(Some(_)));
    is_nameless.then(|| format!("{program} needs the name of user {user}, who has no line in /etc/passwd"))
}

/// A mount, and the thread that works on it; fields are dropped in order.
pub(super) struct Mounted<'a, M: MountPoint> {
    worker: Worker,
    mount: M,
    sample: &'a SampleSetup<'a>,
    writers: u32,
}

impl<'a, M: MountPoint> Mounted<'a, M> {
    /// Work on `mount`, in which up to `writers` files of an upload are written at a time.
    pub(super) fn new(mount: M, sample: &'a SampleSetup<'a>, writers: u32) -> Self {
        Self { worker: Worker(None), mount, sample, writers }
    }

    /// Does the work once before the clock starts, if that is part of it.
    pub(super) fn warmed(mut self) -> Result<Self, Failure> {
        if self.sample.task.work().is_warm() {
            self.work()?;
        }
        Ok(self)
    }

    /// Does the work on a thread, and tears the mount down if that takes too long.
    fn work(&mut self) -> Result<Done, Failure> {
        let wanted = self.sample.task.work();
        let changes = wanted.writes() || wanted.chore().is_some_and(Chore::may_change_files);
        let work = OnMount {
            task: self.sample.task.clone(),
            folder: self.mount.folder().to_owned(),
            root: self.sample.root.to_owned(),
            deadline: self.sample.deadline.clone(),
            writes_behind: self.mount.writes_behind() && changes,
            writers: self.writers,
        };
        let (answer, result) = mpsc::channel();
        let run = Box::new(move || drop(answer.send(work.run())));
        self.worker.0 = Some(self.sample.client.thread("cp", run).map_err(Failure::Thread)?);
        let deadline = &self.sample.deadline;
        loop {
            match result.recv_timeout(deadline.slice()) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Thread(io::Error::other("it ended early")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(stop) = deadline.check() {
                self.mount.abort();
                return Err(Failure::Stopped { what: format!("work on the {} mount", self.mount.name()), stop });
            }
        }
    }
}

/// A thread, joined when dropped, after the clock. By then it has ended or its file system is gone.
struct Worker(Option<JoinHandle<()>>);

impl<M: MountPoint> Prepared for Mounted<'_, M> {
    fn run(&mut self) -> Result<Done, Failure> {
        self.work()
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        let Mounted { worker, mount, .. } = *self;
        drop(worker);
        mount.unmount()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let Some(thread) = self.0.take() else { return };
        let deadline = Deadline::for_cleanup(Duration::from_secs(5));
        while !thread.is_finished() && deadline.check().is_ok() {
            thread::sleep(PAUSE);
        }
        if thread.is_finished() {
            let _ = thread.join();
        }
    }
}

/// A task in a mounted folder.
struct OnMount {
    task: Task,
    folder: PathBuf,
    root: PathBuf,
    deadline: Deadline,
    writes_behind: bool,
    writers: u32,
}

impl OnMount {
    fn run(&self) -> Result<Done, Failure> {
        let (task, folder) = (&self.task, &self.folder);
        let mut done = Done { writes_behind: self.writes_behind, ..Done::default() };
        match task.work() {
            Work::Upload { .. } | Work::Tree { .. } => {
                for name in task.folders() {
                    let made = folder.join(name);
                    fs::create_dir(&made).map_err(io_failure("create", &made))?;
                }
                self.write_files()?;
            }
            Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
                for name in task.names() {
                    copy(&folder.join(&name), &task.target.join(&name))?;
                }
            }
            Work::List { .. } | Work::LookUp { .. } => {
                let shown = |entry: io::Result<DirEntry>| {
                    let entry = entry?;
                    entry.metadata()?;
                    Ok(entry.file_name().to_string_lossy().into_owned())
                };
                let names = fs::read_dir(folder).and_then(|entries| entries.map(shown).collect());
                done.listing = Some(names.map_err(io_failure("list", folder))?);
            }
            Work::Chore(chore) => {
                let place = Place { task, folder, deadline: &self.deadline };
                let chore = place.run(chore)?;
                done = Done { writes_behind: done.writes_behind, ..chore };
            }
            Work::Edit { .. } => {
                for (_, content, name) in task.writes() {
                    let file = folder.join(&name);
                    let mut existing = OpenOptions::new();
                    let opened = existing.write(true).truncate(true).open(&file);
                    opened.and_then(|file| save(file, content)).map_err(io_failure("save", &file))?;
                    if self.writes_behind {
                        task.wait_arrived(&self.root, &name, content, &self.deadline)?;
                    }
                }
            }
        }
        Ok(done)
    }

    /// Copies the files into the mount. The threads inherit the host of the one that starts them.
    fn write_files(&self) -> Result<(), Failure> {
        let files = Mutex::new(self.task.writes());
        let next = || files.lock().unwrap_or_else(PoisonError::into_inner).next();
        let write = || {
            while let Some((file, _, name)) = next() {
                copy(&file, &self.folder.join(name))?;
            }
            Ok(())
        };
        if self.writers == 1 {
            return write();
        }
        thread::scope(|scope| {
            let writers: Vec<_> = (0..self.writers).map(|_| scope.spawn(write)).collect();
            let ended = |writer: thread::ScopedJoinHandle<'_, Result<(), Failure>>| {
                writer.join().unwrap_or_else(|_| Err(Failure::Thread(io::Error::other("a writer panicked"))))
            };
            writers.into_iter().try_for_each(ended)
        })
    }
}

/// Copies content only, as `cp` does. [`fs::copy`] would also set the copy's mode again,
/// for which davfs2 may send a PROPPATCH.
fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let content = fs::read(from).map_err(io_failure("read", from))?;
    let written = fs::File::create(to).and_then(|file| save(file, &content));
    written.map_err(io_failure("write", to))
}

/// Writes and closes, because it is close(2) that fails if the server cannot store the file.
fn save(mut file: fs::File, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    Ok(close(file)?)
}
