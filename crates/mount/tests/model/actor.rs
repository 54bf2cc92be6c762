//! Does steps to a mount and to the model, and compares.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use libtest_mimic::Failed;
use simulation::Random;

use crate::{
    compare,
    steps::{self, Step},
    world::{World, let_listings_expire, noise},
};

/// How many files are open at most.
const MOST_OPEN: usize = 6;
/// How many steps a failure shows.
const SHOWN: usize = 40;

pub(crate) struct Actor<'a> {
    world: &'a World,
    random: Random,
    /// Where the share is mounted.
    here: PathBuf,
    model: tempfile::TempDir,
    /// The open files of the mount and those of the model.
    open: Vec<File>,
    open_model: Vec<File>,
    log: Vec<String>,
    mounts: usize,
    /// Whether the server has a file when close(2) returns.
    writes_through: bool,
}

impl<'a> Actor<'a> {
    pub(crate) fn new(world: &'a World, random: Random, mounts: usize, writes_through: bool) -> io::Result<Self> {
        let (here, model) = (world.here.clone(), tempfile::Builder::new().prefix("haul-model").tempdir()?);
        for folder in steps::FOLDERS {
            fs::create_dir(here.join(folder))?;
            fs::create_dir(model.path().join(folder))?;
        }
        // A file that is not here yet.
        let large = noise(900_000);
        fs::write(model.path().join("a"), &*large)?;
        world.store("a", &large)?;
        Ok(Self {
            world,
            random,
            here,
            model,
            open: Vec::new(),
            open_model: Vec::new(),
            log: Vec::new(),
            mounts,
            writes_through,
        })
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.random.chance(percent)
    }

    /// What to say when `why` has been found.
    pub(crate) fn failure(&self, seed: u64, why: &str) -> Failed {
        let steps = self.log[self.log.len().saturating_sub(SHOWN)..].join("\n");
        format!("{why}\nThe last of {} steps:\n{steps}\nMODEL_SEED={seed} repeats it.", self.log.len()).into()
    }

    /// One random step.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        let step = Step::random(&mut self.random, self.open.len());
        self.log.push(format!("{step:?}"));
        match step {
            Step::Open(path, access, existing) => {
                let is = steps::open(&self.here, path, access, existing);
                let model = steps::open(self.model.path(), path, access, existing);
                let seen = |opened: &io::Result<File>| {
                    let number = opened.as_ref().map_err(|error| io::Error::from_raw_os_error(code(error)));
                    number.map(|_| Vec::new())
                };
                same(&seen(&is), &seen(&model))?;
                if let (Ok(is), Ok(model)) = (is, model) {
                    self.open.push(is);
                    self.open_model.push(model);
                    if self.open.len() > MOST_OPEN {
                        self.close(0)?;
                    }
                }
            }
            Step::Close(file) => self.close(file)?,
            _ => {
                let is = step.perform(&self.here, &self.open);
                same(&is, &step.perform(self.model.path(), &self.open_model))?;
            }
        }
        if let Step::Sync(file) = step {
            let path = self.path_of(file).map_err(|error| error.to_string())?;
            self.must_be_stored(path)?;
        }
        if self.open.is_empty() && self.chance(30) {
            self.settle()?;
            compare::folders(&self.world.there, self.model.path()).map_err(|why| format!("on the server: {why}"))?;
        }
        Ok(())
    }

    /// The path of an open file, unless it is deleted.
    fn path_of(&self, file: usize) -> io::Result<Option<PathBuf>> {
        compare::find(self.model.path(), self.open_model[file].metadata()?.ino())
    }

    fn close(&mut self, file: usize) -> Result<(), String> {
        let path = self.path_of(file).map_err(|error| error.to_string())?;
        drop(self.open.remove(file));
        drop(self.open_model.remove(file));
        if self.writes_through { self.must_be_stored(path) } else { Ok(()) }
    }

    /// Waits until the server has all that programs have closed.
    fn settle(&self) -> Result<(), String> {
        let settled = (0..self.mounts).try_for_each(|number| File::open(self.world.mount_point(number))?.sync_all());
        settled.map_err(|error| format!("not all was uploaded: {error}"))
    }

    /// The server has the whole file.
    fn must_be_stored(&self, path: Option<PathBuf>) -> Result<(), String> {
        let Some(path) = path else { return Ok(()) };
        let read = |root: &Path| fs::read(root.join(&path));
        same(&read(&self.world.there), &read(self.model.path()))
            .map_err(|why| format!("{} on the server: {why}", path.display()))
    }

    /// Somebody else stores or deletes files on the server that no program here has open, or has put a file above that the
    /// server does not have yet.
    pub(crate) fn change_the_server(&mut self) -> Result<(), String> {
        self.settle()?;
        for _ in 0..=self.random.below(4) {
            let (path, content) = steps::random_change(&mut self.random);
            let is_open = (0..self.open.len())
                .any(|file| matches!(self.path_of(file), Ok(Some(open)) if Path::new(path).starts_with(&open)));
            if is_open || self.world.there.join(path).is_dir() {
                continue;
            }
            self.log.push(format!("on the server: {path}, {:?} bytes", content.as_ref().map(Vec::len)));
            let change = |root: &Path| match &content {
                Some(content) => fs::write(root.join(path), content).map(|()| Vec::new()),
                None => fs::remove_file(root.join(path)).map(|()| Vec::new()),
            };
            same(&change(&self.world.there), &change(self.model.path()))?;
        }
        let_listings_expire();
        Ok(())
    }

    /// Goes on through another mount of the same share.
    pub(crate) fn change_mounts(&mut self) -> Result<(), String> {
        while !self.open.is_empty() {
            self.close(0)?;
        }
        self.settle()?;
        let number = self.random.below(2);
        self.log.push(format!("go on through mount {number}"));
        self.here = self.world.mount_point(number);
        let_listings_expire();
        Ok(())
    }

    /// Closes everything, and compares the server and all mounts with the model.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        while !self.open.is_empty() {
            self.close(0)?;
        }
        self.settle()?;
        compare::folders(&self.world.there, self.model.path()).map_err(|why| format!("on the server: {why}"))?;
        let_listings_expire();
        for number in 0..self.mounts {
            let mount = self.world.mount_point(number);
            compare::folders(&mount, self.model.path()).map_err(|why| format!("in mount {number}: {why}"))?;
        }
        Ok(())
    }
}

fn code(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or_default()
}

/// Whether a program sees the same of both.
fn same(is: &io::Result<Vec<u8>>, model: &io::Result<Vec<u8>>) -> Result<(), String> {
    match (is, model) {
        (Ok(is), Ok(model)) if model.len() > 200 || is.len() > 200 => compare::bytes(is, model),
        (Ok(is), Ok(model)) if is == model => Ok(()),
        (Err(is), Err(model)) if code(is) == code(model) => Ok(()),
        _ => {
            let show = |seen: &io::Result<Vec<u8>>| match seen {
                Ok(bytes) => format!("{:?}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)])),
                Err(error) => error.to_string(),
            };
            Err(format!("{}, expected {}", show(is), show(model)))
        }
    }
}
