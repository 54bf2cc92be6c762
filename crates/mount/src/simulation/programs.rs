//! Programs that work in the mount, and other clients of the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use nix::errno::Errno;
use simulation::{Network, Oracle, Random};
use tokio::time::sleep;

use super::kernel::{How, Kernel, Open};
use crate::{
    share::Result,
    tree::{Ino, Tree},
};

/// The files that programs and others use.
pub(super) const NAMES: [&str; 4] = ["a", "b", "d/a", "d/c"];

/// A file that a program has open for writing.
struct Held {
    /// None if it has been removed.
    name: Option<&'static str>,
    open: Open,
    /// What the program has made of it.
    content: Bytes,
    /// Whether the program has changed it since it was last told that it is safe.
    is_changed: bool,
    /// Whether a request to take its name away has failed, and may have been carried out.
    may_be_nameless: bool,
}

impl Held {
    fn new(name: &'static str, open: Open, content: Bytes, is_changed: bool) -> Self {
        Self { name: Some(name), open, content, is_changed, may_be_nameless: false }
    }
}

/// The programs, and what they were told.
pub(super) struct Programs {
    pub(super) oracle: Oracle,
    pub(super) random: Random,
    pub(super) wrong: Vec<String>,
    network: Network,
    held: Option<Held>,
    is_renaming: Arc<AtomicBool>,
    /// The number of the last content.
    last: usize,
    /// How many steps in a hundred are others'.
    others: usize,
}

pub(super) fn path(name: &str) -> String {
    format!("/{name}")
}

async fn place<'n>(kernel: &mut Kernel, name: &'n str) -> Result<(Ino, &'n [u8])> {
    match name.split_once('/') {
        None => Ok((Tree::ROOT, name.as_bytes())),
        Some((folder, name)) => {
            let folder = kernel.lookup(Tree::ROOT, folder.as_bytes(), false).await?;
            Ok((folder.ok_or(Errno::ENOENT)?, name.as_bytes()))
        }
    }
}

impl Programs {
    pub(super) fn new(network: Network, random: Random, others: usize) -> Self {
        let (oracle, wrong) = (Oracle::default(), Vec::new());
        Self { oracle, random, wrong, network, held: None, is_renaming: Arc::default(), last: 0, others }
    }

    /// A line that nobody else writes; all are equally long.
    fn line(&mut self, by: char) -> Bytes {
        self.last += 1;
        format!("{by}{:03}\n", self.last).into()
    }

    /// Some files are there from the beginning.
    pub(super) fn begin(&mut self) {
        self.network.server().add_folder("/d");
        for name in NAMES {
            if self.random.chance(60) {
                let line = self.line('o');
                self.network.server().store_by_other(&path(name), line.clone());
                self.oracle.confirmed(&path(name), Some(line));
            } else {
                self.oracle.confirmed(&path(name), None);
            }
        }
    }

    /// The mount was killed: what was open is lost.
    pub(super) fn are_killed(&mut self) {
        self.held = None;
        self.oracle.killed();
        self.is_renaming.store(false, Ordering::SeqCst);
    }

    fn note<T>(&self, what: &str, outcome: &Result<T>) {
        match outcome {
            Ok(_) => self.network.note(&format!("{what}: done")),
            Err(errno) => self.network.note(&format!("{what}: {errno}")),
        }
    }

    /// One step of somebody.
    pub(super) async fn step(&mut self, kernel: &mut Kernel) {
        let name = self.random.choose(&NAMES);
        if self.random.chance(self.others) {
            self.other(name);
        }
        let is_held = |held: &Option<Held>| held.as_ref().is_some_and(|held| held.name == Some(name));
        match self.random.below(20) {
            0..=3 if !is_held(&self.held) => self.rewrite(kernel, name).await,
            4..=7 if !is_held(&self.held) => self.append(kernel, name).await,
            8 if !is_held(&self.held) => self.truncate(kernel, name).await,
            9 | 10 => self.rename(kernel, name).await,
            11 | 12 => self.unlink(kernel, name).await,
            13 => self.read(kernel, name).await,
            14 => self.make_and_remove_folder(kernel).await,
            15 => self.sync(kernel).await,
            16 => self.close(kernel).await,
            17 => {
                let open: Vec<Ino> = self.held.iter().map(|held| held.open.ino).collect();
                kernel.forget(&open);
            }
            _ => {
                let longest = Duration::from_secs(self.random.choose(&[3, 60, 400]));
                let pause = self.random.time(longest);
                self.network.note(&format!("pause of {:.1} s", pause.as_secs_f64()));
                sleep(pause).await;
            }
        }
    }

    /// Another client does something, now or soon.
    fn other(&mut self, name: &str) {
        let (line, kind) = (self.line('o'), self.random.below(10));
        let (after, network, path) = (self.random.time(Duration::from_secs(30)), self.network.clone(), path(name));
        let lasts = Duration::from_secs(1 + self.random.below(90) as u64);
        let renaming = self.is_renaming.clone();
        tokio::spawn(async move {
            sleep(after).await;
            // What comes between an upload and the look at its entity tag cannot be told from the upload, nor what comes
            // between such a look and a renaming.
            if renaming.load(Ordering::SeqCst) || !network.server().is_known(&path) {
                return;
            }
            let mut server = network.server();
            let before = server.content(&path).cloned();
            let done = match kind {
                0 => server.remove_by_other(&path),
                1 | 2 => server.lock_by_other(&path, lasts),
                3..=5 => server.store_by_other(&path, line.clone()),
                _ => server.store_by_other(&path, [before.unwrap_or_default(), line.clone()].concat()),
            };
            drop(server);
            if done {
                let what = ["removes", "locks", "locks", "writes", "writes", "writes"].get(kind).unwrap_or(&"appends");
                network.note(&format!("another client {what} {path} {:?}", String::from_utf8_lossy(&line)));
            }
        });
    }

    async fn rewrite(&mut self, kernel: &mut Kernel, name: &'static str) {
        let line = self.line('p');
        self.oracle.unconfirmed(&path(name), Some(Bytes::new()));
        let opened = match place(kernel, name).await {
            Ok((folder, file)) => kernel.open(folder, file, How { writes: true, creates: true, cuts: true }).await,
            Err(errno) => Err(errno),
        };
        self.note(&format!("open {name} to rewrite it"), &opened);
        if let Ok(open) = opened {
            self.go_on(kernel, Held::new(name, open, Bytes::new(), true), (line, None)).await;
        }
    }

    async fn append(&mut self, kernel: &mut Kernel, name: &'static str) {
        let line = self.line('p');
        let opened = match place(kernel, name).await {
            Ok((folder, file)) => kernel.open(folder, file, How { writes: true, ..How::default() }).await,
            Err(errno) => Err(errno),
        };
        self.note(&format!("open {name} to append"), &opened);
        let Ok(open) = opened else { return };
        let Some(before) = self.content(kernel, name, &open).await else {
            self.note(&format!("close {name}"), &kernel.close(open).await);
            return;
        };
        let held = Held::new(name, open, before.clone(), false);
        self.go_on(kernel, held, (line, Some(before))).await;
    }

    /// What a program reads of a file that it has open.
    async fn content(&mut self, kernel: &mut Kernel, name: &str, open: &Open) -> Option<Bytes> {
        let read = kernel.read(open).await.map(Bytes::from);
        let text = read.as_ref().map(|read| String::from_utf8_lossy(read).into_owned()).unwrap_or_default();
        self.note(&format!("read {name}: {text:?}"), &read);
        let read = read.ok()?;
        if !self.oracle.knows(&read, &self.network.server()) {
            self.wrong.push(format!("a program reads {text:?} in {name}, which nobody has written"));
        }
        Some(read)
    }

    /// A program writes a line to what it has opened, and closes it, now or later.
    async fn go_on(&mut self, kernel: &mut Kernel, mut held: Held, (line, base): (Bytes, Option<Bytes>)) {
        let after = Bytes::from([held.content.clone(), line.clone()].concat());
        self.oracle.writes(&after, base.as_ref());
        if let Some(name) = held.name {
            self.oracle.unconfirmed(&path(name), Some(after.clone()));
        }
        let written = kernel.append(&held.open, &line).await;
        self.note(&format!("write {:?}", String::from_utf8_lossy(&line)), &written);
        if written.is_ok() {
            (held.content, held.is_changed) = (after, true);
        }
        if self.held.is_none() && self.random.chance(25) {
            self.held = Some(held);
        } else {
            self.finish(kernel, held).await;
        }
    }

    async fn finish(&mut self, kernel: &mut Kernel, held: Held) {
        let Held { name, open, content, is_changed, may_be_nameless } = held;
        let closed = kernel.close(open).await;
        self.note(&format!("close {name:?}"), &closed);
        if let (Ok(()), Some(name), true) = (closed, name, is_changed) {
            self.is_safe(name, content, may_be_nameless);
        }
    }

    /// A program was told that what it has written is safe.
    fn is_safe(&mut self, name: &str, content: Bytes, may_be_nameless: bool) {
        self.oracle.confirmed(&path(name), Some(content));
        if may_be_nameless {
            self.oracle.unconfirmed(&path(name), None);
        }
    }

    pub(super) async fn close(&mut self, kernel: &mut Kernel) {
        if let Some(held) = self.held.take() {
            self.finish(kernel, held).await;
        }
    }

    async fn sync(&mut self, kernel: &mut Kernel) {
        let Some(mut held) = self.held.take() else { return };
        let synced = kernel.sync(&held.open).await;
        self.note(&format!("fsync {:?}", held.name), &synced);
        match (synced, held.name) {
            (Ok(()), Some(name)) if held.is_changed => {
                self.is_safe(name, held.content.clone(), held.may_be_nameless);
                held.is_changed = false;
            }
            // It goes on elsewhere.
            (Err(Errno::ESTALE), _) => held.name = None,
            _ => {}
        }
        self.held = Some(held);
    }

    async fn truncate(&mut self, kernel: &mut Kernel, name: &'static str) {
        self.oracle.unconfirmed(&path(name), Some(Bytes::new()));
        let cut = match place(kernel, name).await {
            Ok((folder, file)) => kernel.truncate(folder, file).await,
            Err(errno) => Err(errno),
        };
        self.note(&format!("truncate {name}"), &cut);
        if cut.is_ok() {
            self.oracle.confirmed(&path(name), Some(Bytes::new()));
        }
    }

    async fn rename(&mut self, kernel: &mut Kernel, from: &'static str) {
        let to = self.random.choose(&NAMES);
        if from == to {
            return;
        }
        let undecided = self.oracle.begin_rename(&path(from), &path(to), &self.network.server());
        let renamed = async {
            let (old, new) = (place(kernel, from).await?, place(kernel, to).await?);
            kernel.rename(old, new).await
        };
        self.is_renaming.store(true, Ordering::SeqCst);
        let renamed = renamed.await;
        self.is_renaming.store(false, Ordering::SeqCst);
        self.note(&format!("rename {from} to {to}"), &renamed);
        // What nobody has saved yet can still be lost with its name.
        let is_saved = self.held.as_ref().is_none_or(|held| held.name != Some(from) || !held.is_changed);
        if renamed.is_ok() {
            if is_saved {
                self.oracle.renamed(undecided, &self.network.server());
            } else {
                self.oracle.unconfirmed(&path(to), None);
            }
            if let Some(held) = &mut self.held {
                let was = held.name;
                held.name = if was == Some(from) { Some(to) } else { was.filter(|name| *name != to) };
            }
        } else if let Some(held) = self.held.as_mut().filter(|held| held.name == Some(from) || held.name == Some(to)) {
            held.may_be_nameless = true;
        }
    }

    async fn unlink(&mut self, kernel: &mut Kernel, name: &'static str) {
        self.oracle.unconfirmed(&path(name), None);
        let removed = match place(kernel, name).await {
            Ok((folder, file)) => kernel.unlink(folder, file).await,
            Err(errno) => Err(errno),
        };
        self.note(&format!("unlink {name}"), &removed);
        let held = self.held.as_mut().filter(|held| held.name == Some(name));
        if removed.is_ok() {
            self.oracle.confirmed(&path(name), None);
            if let Some(held) = held {
                held.name = None;
            }
        } else if let Some(held) = held {
            held.may_be_nameless = true;
        }
    }

    async fn read(&mut self, kernel: &mut Kernel, name: &str) {
        let opened = match place(kernel, name).await {
            Ok((folder, file)) => kernel.open(folder, file, How::default()).await,
            Err(errno) => Err(errno),
        };
        self.note(&format!("open {name}"), &opened);
        if let Ok(open) = opened {
            self.content(kernel, name, &open).await;
            let _ = kernel.close(open).await;
        }
    }

    async fn make_and_remove_folder(&mut self, kernel: &mut Kernel) {
        let made = kernel.mkdir(Tree::ROOT, b"e").await;
        self.note("mkdir e", &made);
        let removed = kernel.rmdir(Tree::ROOT, b"e").await;
        self.note("rmdir e", &removed);
        // One that is not empty, which lists it.
        let refused = kernel.rmdir(Tree::ROOT, b"d").await;
        self.note("rmdir d", &refused);
        if refused.is_err_and(|errno| errno != Errno::ENOTEMPTY) {
            self.oracle.may_be_removed("/d");
        }
    }

    /// When all has settled, the mount shows what the server has.
    pub(super) async fn compare(&mut self, kernel: &mut Kernel) {
        for name in NAMES {
            let there = self.network.server().content(&path(name)).cloned();
            let here = async {
                let (folder, file) = place(kernel, name).await?;
                let open = kernel.open(folder, file, How::default()).await?;
                let read = kernel.read(&open).await;
                let _ = kernel.close(open).await;
                read
            };
            let here: Result<Vec<u8>> = here.await;
            let is_same = match (&here, &there) {
                (Ok(here), Some(there)) => here == there,
                (Err(Errno::ENOENT), None) => true,
                _ => false,
            };
            if !is_same {
                let here = here.map(|here| String::from_utf8_lossy(&here).into_owned());
                let there = there.map(|there| String::from_utf8_lossy(&there).into_owned());
                self.wrong.push(format!("{name} is {here:?} here and {there:?} on the server"));
            }
        }
    }
}
