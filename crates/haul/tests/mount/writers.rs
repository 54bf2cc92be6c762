//! Programs that write and delete files, and what the mount has promised them.
//!
//! In the end the server must have, of every file, what the last successful close(2), rename(2) or unlink(2) left, or what a
//! later one was about to leave when it failed.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use libtest_mimic::Failed;

use crate::{common::PATIENCE, random::Random, world::World};

/// Programs that write at the same time.
const WRITERS: u64 = 3;
/// The files of each.
const FILES: u64 = 8;

/// What the server may have of each file: the content of the last successful save first, `None` if there was none, and then
/// what was cut off since.
pub(crate) type Promises = BTreeMap<String, Vec<Option<Vec<u8>>>>;

/// What the writers have seen.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) promises: Promises,
    /// What of each file was written in part, because write(2) has failed, since its last successful save.
    cut_off: BTreeMap<String, Vec<Vec<u8>>>,
    pub(crate) saved: u64,
    pub(crate) failed: u64,
    longest: Duration,
}

/// A program, and since when it waits for a save.
struct Writer<'a> {
    here: &'a Path,
    number: u64,
    largest: u64,
    random: Random,
    waits_since: &'a Mutex<Option<Instant>>,
}

/// Writes files until `disturb` has ended. Fails if a save takes longer than [`PATIENCE`]; then the mount is killed, which
/// ends the save. Large files have up to `largest` bytes.
pub(crate) fn load(
    world: &mut World,
    random: &mut Random,
    largest: u64,
    disturb: impl FnOnce(&mut World, &mut Random) -> io::Result<()> + Send,
) -> Result<Load, Failed> {
    let stop = AtomicBool::new(false);
    let here = world.path("here");
    let waiting: Vec<_> = (0..WRITERS).map(|_| Mutex::new(None)).collect();
    let writer = |number: u64, random| {
        let waits_since = &waiting[number as usize];
        Writer { here: &here, number, largest, random, waits_since }
    };
    let load = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|number| writer(number, random.split())).collect();
        let stop = &stop;
        let writers: Vec<_> = writers.into_iter().map(|writer| scope.spawn(move || writer.run(stop))).collect();
        let disturbed = disturb(world, random);
        stop.store(true, Ordering::Relaxed);
        let hangs = wait(&writers, &waiting);
        if hangs {
            world.kill_mount();
        }
        let mut load = Load::default();
        for writer in writers {
            load.add(writer.join().expect("it does not panic"));
        }
        disturbed.map(|()| (load, hangs))
    });
    let (load, hangs) = load?;
    println!("{} saved, {} failed, the longest took {:?}", load.saved, load.failed, load.longest);
    if hangs {
        return Err(format!("a save hangs\nThe log of the mount:\n{}", world.log()).into());
    }
    Ok(load)
}

/// Waits until all have ended. Returns whether one hangs.
fn wait(writers: &[ScopedJoinHandle<'_, Load>], waiting: &[Mutex<Option<Instant>>]) -> bool {
    while writers.iter().any(|writer| !writer.is_finished()) {
        let hangs = |since: &Mutex<Option<Instant>>| {
            since.lock().expect("it does not panic").is_some_and(|since| since.elapsed() > PATIENCE)
        };
        if waiting.iter().any(hangs) {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

impl Load {
    fn add(&mut self, other: Self) {
        self.promises.extend(other.promises);
        self.cut_off.extend(other.cut_off);
        self.saved += other.saved;
        self.failed += other.failed;
        self.longest = self.longest.max(other.longest);
    }

    /// Whether a name is one of the programs' own.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.promises.contains_key(name.strip_suffix(".new").unwrap_or(name))
    }

    /// Forgets, and returns, the deleted files that the server has again; `stored` returns what it has under a name.
    pub(crate) fn take_returned(&mut self, stored: impl Fn(&str) -> Option<Vec<u8>>) -> Vec<String> {
        let has_returned = |name: &str, acceptable: &[Option<Vec<u8>>]| acceptable == [None] && stored(name).is_some();
        let returned = self.promises.extract_if(.., |name, acceptable| has_returned(name, acceptable));
        returned.map(|(name, _)| name).collect()
    }

    /// Whether the server has kept all promises; `stored` returns what it has under a name.
    pub(crate) fn check(&self, world: &World, stored: impl Fn(&str) -> Option<Vec<u8>>) -> Result<(), Failed> {
        for (name, acceptable) in &self.promises {
            let found = stored(name);
            let begins = |whole: &Vec<u8>| found.as_ref().is_some_and(|found| whole.starts_with(found));
            let is_cut_off = self.cut_off.get(name).is_some_and(|contents| contents.iter().any(begins));
            // A save of a new file that failed may have created it.
            let is_created =
                acceptable.len() > 1 && acceptable[0].is_none() && found.as_ref().is_some_and(Vec::is_empty);
            if !acceptable.contains(&found) && !is_cut_off && !is_created {
                let acceptable: Vec<_> = acceptable.iter().map(|content| shown(content.as_ref())).collect();
                let (status, log) = (world.status(), world.log());
                let what = format!("{name} is {}, expected one of {acceptable:?}", shown(found.as_ref()));
                return Err(format!("{what}\n{status}\nThe log of the mount:\n{log}").into());
            }
        }
        println!("{} files are whole", self.promises.len());
        Ok(())
    }
}

fn shown(content: Option<&Vec<u8>>) -> String {
    match content {
        Some(bytes) => format!("{:?}… ({} bytes)", String::from_utf8_lossy(&bytes[..bytes.len().min(8)]), bytes.len()),
        None => "nothing".into(),
    }
}

impl Writer<'_> {
    fn run(mut self, stop: &AtomicBool) -> Load {
        let (mut load, mut count) = (Load::default(), 0);
        while !stop.load(Ordering::Relaxed) {
            count += 1;
            let name = format!("{}-{}", self.number, self.random.below(FILES));
            let limit = if self.random.below(20) == 0 { self.largest } else { 30_000 };
            let length = self.random.below(limit) as usize;
            let mut content = format!("{} {count} ", self.number).into_bytes();
            content.resize(content.len() + length, b'a' + (count % 26) as u8);
            let content = Some(content).filter(|_| self.random.below(8) > 0);
            let promise = load.promises.entry(name.clone()).or_insert_with(|| vec![None]);
            promise.push(content.clone());
            let begin = Instant::now();
            *self.waits_since.lock().expect("it does not panic") = Some(begin);
            let saved = self.save(&name, content.as_deref());
            *self.waits_since.lock().expect("it does not panic") = None;
            load.longest = load.longest.max(begin.elapsed());
            match saved {
                Ok(()) => {
                    load.cut_off.remove(&name);
                    *promise = vec![content];
                    load.saved += 1;
                }
                Err(error) if content.is_none() && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    if error.downcast::<CutOff>().is_ok() {
                        load.cut_off.entry(name).or_default().extend(content);
                    }
                    load.failed += 1;
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        load
    }

    /// Saves a file, or deletes it.
    fn save(&mut self, name: &str, content: Option<&[u8]>) -> io::Result<()> {
        let Some(content) = content else { return fs::remove_file(self.here.join(name)) };
        if self.random.below(2) == 0 {
            return store(&self.here.join(name), content);
        }
        // As editors save.
        let new = self.here.join(format!("{name}.new"));
        store(&new, content).and_then(|()| fs::rename(&new, self.here.join(name)))
    }
}

/// write(2) has failed: what was written before stays, as in a local file.
#[derive(Debug)]
struct CutOff;

impl std::fmt::Display for CutOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it was written in part")
    }
}

impl std::error::Error for CutOff {}

/// Writes a file, and returns what close(2) says.
pub(crate) fn store(path: &Path, content: &[u8]) -> io::Result<()> {
    let (here, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::NotFound)?;
    let (mounted, above) = (File::open(here)?, fs::metadata(here.join(".."))?);
    // While nothing is mounted, the bare folder would take the file.
    if mounted.metadata()?.dev() == above.dev() {
        return Err(io::ErrorKind::NotConnected.into());
    }
    let mut file = File::create(Path::new(&format!("/proc/self/fd/{}", mounted.as_raw_fd())).join(name))?;
    file.write_all(content).map_err(|error| io::Error::new(error.kind(), CutOff))?;
    nix::unistd::close(file).map_err(io::Error::from)
}
