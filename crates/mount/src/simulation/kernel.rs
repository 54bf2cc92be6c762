//! A model of the kernel: it keeps names, sizes and pages for as long as it was told, and calls the share as `filesystem` does.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use nix::errno::Errno;
use simulation::Random;
use tokio::{
    runtime::Handle,
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use crate::{
    calls::{Calls, Reply, still_wanted},
    handles::OpenFile,
    share::{Attributes, Result, Share},
    tree::{Ino, Tree},
};

/// No call may wait for longer.
const LONGEST_CALL: Duration = Duration::from_mins(30);

/// What the kernel believes of a file.
#[derive(Debug, Default, Clone)]
struct Inode {
    size: u64,
    valid: Option<Instant>,
    lookups: u64,
    pages: Option<Vec<u8>>,
}

/// The kernel.
pub(super) struct Kernel {
    pub(super) share: Arc<Share>,
    calls: Calls,
    /// Each name with its node, if there is one, and until when that is believed.
    names: HashMap<(Ino, Vec<u8>), (Option<Ino>, Instant)>,
    inodes: BTreeMap<Ino, Inode>,
    /// How many calls in a hundred are interrupted by a signal.
    signals: usize,
    random: Random,
    /// Calls that have not ended.
    pub(super) hangs: Arc<Mutex<Vec<String>>>,
}

/// An open file.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) ino: Ino,
    file: Arc<OpenFile>,
}

struct Answer<T>(oneshot::Sender<Result<T>>);

impl<T: Send + 'static> Reply for Answer<T> {
    fn refuse(self, errno: fuser::Errno) {
        let _ = self.0.send(Err(Errno::from_raw(errno.into())));
    }
}

impl Kernel {
    pub(super) fn new(share: Arc<Share>, random: Random, signals: usize, hangs: Arc<Mutex<Vec<String>>>) -> Self {
        let calls = Calls::new(Handle::current(), share.dav.client().clone());
        Self { share, calls, names: HashMap::new(), inodes: BTreeMap::new(), signals, random, hangs }
    }

    /// Programs are not interrupted any more.
    pub(super) fn end_signals(&mut self) {
        self.signals = 0;
    }

    /// Calls the mount, and waits for its answer. What only looks has no `undo`, and is dropped with an early answer.
    async fn call<T: Send + 'static>(
        &mut self,
        what: &str,
        operation: impl Future<Output = Result<T>> + Send + 'static,
        undo: Option<impl FnOnce(T) + Send + 'static>,
    ) -> Result<T> {
        let (sender, answer) = oneshot::channel();
        let (is_late, signal) = (self.calls.is_late(), self.random.time(Duration::from_mins(1)));
        let has_signal = self.random.chance(self.signals);
        let early = async move {
            tokio::select! {
                biased;
                errno = is_late => errno,
                () = sleep(signal), if has_signal => Errno::EINTR,
            }
        };
        let answered = |value, reply: Answer<T>| drop(reply.0.send(Ok(value)));
        self.calls.run(early, Answer(sender), operation, answered, undo);
        if let Ok(answer) = timeout(LONGEST_CALL, answer).await {
            return answer.unwrap_or(Err(Errno::EIO));
        }
        self.hangs.lock().unwrap().push(format!("{what} waits without an end"));
        Err(Errno::ETIME)
    }

    fn learn(&mut self, found: &Attributes) {
        let inode = self.inodes.entry(found.ino).or_default();
        if inode.size != found.length {
            (inode.size, inode.pages) = (found.length, None);
        }
        inode.valid = Some(Instant::now() + found.valid);
    }

    /// The node of a name, if there is one.
    pub(super) async fn lookup(&mut self, parent: Ino, name: &[u8], anew: bool) -> Result<Option<Ino>> {
        let key = (parent, name.to_vec());
        if let Some((known, until)) = self.names.get(&key)
            && !anew
            && Instant::now() < *until
        {
            return Ok(*known);
        }
        let (share, wanted) = (self.share.clone(), name.to_vec());
        let looked_up = async move { share.lookup(parent, &wanted).await };
        let found = self.call("lookup", looked_up, None::<fn(_)>).await?;
        let now = Instant::now();
        Ok(match found {
            Ok(found) => {
                self.learn(&found);
                self.inodes.entry(found.ino).or_default().lookups += 1;
                self.names.insert(key, (Some(found.ino), now + found.valid));
                Some(found.ino)
            }
            Err(valid) => {
                self.names.insert(key, (None, now + valid));
                None
            }
        })
    }

    /// The kernel needs memory: it forgets a node that no program has open.
    pub(super) fn forget(&mut self, open: &[Ino]) {
        let unused =
            self.inodes.keys().copied().filter(|ino| *ino != Tree::ROOT && !open.contains(ino)).collect::<Vec<_>>();
        if unused.is_empty() {
            return;
        }
        let ino = unused[self.random.below(unused.len())];
        // It keeps what it has names in.
        if self.names.keys().any(|(parent, _)| *parent == ino) {
            return;
        }
        self.names.retain(|_, (known, _)| *known != Some(ino));
        if let Some(inode) = self.inodes.remove(&ino) {
            self.share.forget(ino, inode.lookups);
        }
    }

    /// Opens a file, or creates it.
    pub(super) async fn open(&mut self, parent: Ino, name: &[u8], how: How) -> Result<Open> {
        let mut anew = false;
        loop {
            let Some(ino) = self.lookup(parent, name, anew).await? else {
                return if how.creates { self.create(parent, name) } else { Err(Errno::ENOENT) };
            };
            match self.open_ino(ino, how).await {
                // The kernel looks it up again, once.
                Err(Errno::ESTALE) if !anew => anew = true,
                opened => return opened,
            }
        }
    }

    fn create(&mut self, parent: Ino, name: &[u8]) -> Result<Open> {
        let (ino, content) = self.share.create(parent, name)?;
        let found = self.share.attributes_of(ino);
        content.show();
        let file = OpenFile::new(ino, content, true, self.share.options.cache_size);
        self.learn(&found);
        self.inodes.entry(ino).or_default().lookups += 1;
        self.names.insert((parent, name.to_vec()), (Some(ino), Instant::now() + found.valid));
        Ok(Open { ino, file: Arc::new(file) })
    }

    async fn open_ino(&mut self, ino: Ino, how: How) -> Result<Open> {
        let share = self.share.clone();
        let opened = async move {
            let file = OpenFile::new(ino, share.open(ino)?, how.writes, share.options.cache_size);
            if how.cuts {
                let cut = async {
                    share.lock_for_change(ino, &file.content).await?;
                    share.cut(ino, &file.content, 0).await
                };
                if let Err(error) = cut.await {
                    file.close(&share);
                    return Err(error);
                }
            }
            Ok(file)
        };
        let share = self.share.clone();
        let file = self.call("open", opened, Some(move |file: OpenFile| file.close(&share))).await?;
        let keeps_pages = file.content.show();
        let inode = self.inodes.entry(ino).or_default();
        if !keeps_pages {
            inode.pages = None;
        }
        if how.cuts {
            (inode.size, inode.pages) = (0, None);
        }
        Ok(Open { ino, file: Arc::new(file) })
    }

    /// Reads the whole file as far as the kernel believes it to reach.
    pub(super) async fn read(&mut self, open: &Open) -> Result<Vec<u8>> {
        let inode = self.inodes.entry(open.ino).or_default().clone();
        // A read beyond the end asks for attributes that are too old.
        if inode.valid.is_none_or(|valid| Instant::now() >= valid) {
            let (share, ino) = (self.share.clone(), open.ino);
            let found = self.call("getattr", async move { share.getattr(ino).await }, None::<fn(_)>).await?;
            self.learn(&found);
        }
        let inode = self.inodes.entry(open.ino).or_default().clone();
        if let Some(pages) = inode.pages {
            return Ok(pages);
        }
        let (share, file) = (self.share.clone(), open.file.clone());
        let read = async move {
            let length = file.content.state(|state| state.length());
            let wanted = 0..inode.size.min(length);
            file.request(&share, &wanted);
            share.read_begins(file.ino);
            share.read(file.ino, &file.content, wanted).await
        };
        let bytes = self.call("read", read, None::<fn(_)>).await?;
        let inode = self.inodes.entry(open.ino).or_default();
        // A short read is the end of the file.
        inode.size = inode.size.min(bytes.len() as u64);
        inode.pages = Some(bytes.clone());
        Ok(bytes)
    }

    /// Writes at the end of the file, where the kernel believes it to be.
    pub(super) async fn append(&mut self, open: &Open, bytes: &[u8]) -> Result<()> {
        let at = self.inodes.entry(open.ino).or_default().size;
        let (share, file, data) = (self.share.clone(), open.file.clone(), bytes.to_vec());
        let written = async move {
            share.lock_for_change(file.ino, &file.content).await?;
            share.wait_for_room(data.len() as u64).await?;
            still_wanted()?;
            share.write(file.ino, &file.content, at, &data)
        };
        self.call("write", written, Some(drop)).await?;
        let inode = self.inodes.entry(open.ino).or_default();
        (inode.size, inode.valid, inode.pages) = (inode.size.max(at + bytes.len() as u64), None, None);
        Ok(())
    }

    /// fsync(2).
    pub(super) async fn sync(&mut self, open: &Open) -> Result<()> {
        let (share, file) = (self.share.clone(), open.file.clone());
        let synced = async move { file.uploaded(share.flush(file.ino, &file.content).await) };
        self.call("fsync", synced, Some(drop)).await
    }

    /// close(2), and what follows it.
    pub(super) async fn close(&mut self, open: Open) -> Result<()> {
        let (share, file) = (self.share.clone(), open.file.clone());
        let flushed = async move { file.uploaded(share.commit(file.ino, &file.content).await) };
        let flushed = self.call("close", flushed, Some(drop)).await;
        if let Some(inode) = self.inodes.get_mut(&open.ino) {
            inode.valid = None;
        }
        let (share, file) = (self.share.clone(), open.file);
        self.calls.detached(async move {
            let _busy = share.closing().await;
            let _ = share.commit(file.ino, &file.content).await;
            file.close(&share);
        });
        flushed
    }

    /// truncate(2) by name.
    pub(super) async fn truncate(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        let ino = self.lookup(parent, name, false).await?.ok_or(Errno::ENOENT)?;
        let share = self.share.clone();
        let cut = async move {
            share.getattr(ino).await?;
            share.set_length(ino, None, 0).await?;
            share.getattr(ino).await
        };
        let found = self.call("truncate", cut, Some(drop)).await?;
        self.learn(&found);
        Ok(())
    }

    pub(super) async fn unlink(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        if self.lookup(parent, name, false).await?.is_none() {
            return Err(Errno::ENOENT);
        }
        let (share, wanted) = (self.share.clone(), name.to_vec());
        self.call("unlink", async move { share.unlink(parent, &wanted).await }, Some(drop)).await?;
        self.names.remove(&(parent, name.to_vec()));
        Ok(())
    }

    pub(super) async fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8])) -> Result<()> {
        let ino = self.lookup(from.0, from.1, false).await?.ok_or(Errno::ENOENT)?;
        self.lookup(to.0, to.1, false).await?;
        let share = self.share.clone();
        let (old, new) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        let (from, to) = (old.clone(), new.clone());
        let renamed = async move { share.rename((from.0, &from.1), (to.0, &to.1), true).await };
        self.call("rename", renamed, Some(drop)).await?;
        let until = self.names.remove(&old).map_or_else(Instant::now, |(_, until)| until);
        self.names.insert(new, (Some(ino), until));
        Ok(())
    }

    pub(super) async fn mkdir(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        let (share, wanted) = (self.share.clone(), name.to_vec());
        let made = async move { share.mkdir(parent, &wanted).await };
        let share = self.share.clone();
        let undo = move |made: Attributes| share.forget(made.ino, 1);
        let made = self.call("mkdir", made, Some(undo)).await?;
        self.learn(&made);
        self.inodes.entry(made.ino).or_default().lookups += 1;
        self.names.insert((parent, name.to_vec()), (Some(made.ino), Instant::now() + made.valid));
        Ok(())
    }

    pub(super) async fn rmdir(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        if self.lookup(parent, name, false).await?.is_none() {
            return Err(Errno::ENOENT);
        }
        let (share, wanted) = (self.share.clone(), name.to_vec());
        self.call("rmdir", async move { share.rmdir(parent, &wanted).await }, Some(drop)).await?;
        self.names.remove(&(parent, name.to_vec()));
        Ok(())
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct How {
    pub(super) writes: bool,
    pub(super) creates: bool,
    pub(super) cuts: bool,
}
