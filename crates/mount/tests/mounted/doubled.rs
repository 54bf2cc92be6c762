//! A mounted server double: a server that fails on demand.

use std::{
    error::Error,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use dav::{Dav, LockPolicy, RemotePath};
use haul_http::{Client, Origin, Settings, Timeouts, auth::Authenticator};
use mount::{Mount, Options, Report, Write};
use servers::{Double, Fault};
use tokio::runtime::Runtime;

use crate::{CACHE_SIZE, world::FRESH};

/// Timeouts that tests can wait for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(2);
/// What even a busy machine does not reach.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A mounted double.
pub(crate) struct Doubled {
    /// The mount point.
    pub(crate) here: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) double: Double,
    timeout: Duration,
    mount: Mutex<Option<Mount>>,
    runtime: Option<Runtime>,
    _scratch: tempfile::TempDir,
}

impl Doubled {
    /// With these files, and contents that outlive the mount.
    pub(crate) fn with_identity(files: &[(&str, &[u8])], identity: Option<u64>) -> Result<Self, Box<dyn Error>> {
        let doubled = Self::new(files, LockPolicy::Never)?;
        doubled.mount_again(identity)?;
        Ok(doubled)
    }

    /// Unmounts it, and mounts it again.
    pub(crate) fn mount_again(&self, identity: Option<u64>) -> Result<(), Box<dyn Error>> {
        self.mount_again_as(identity, LockPolicy::Never)
    }

    /// Unmounts it, and mounts it again without extended attributes.
    pub(crate) fn mount_without_attributes(&self) -> Result<(), Box<dyn Error>> {
        self.unmount()?;
        let options = Options { attributes: false, ..options(&self.double, &self.cache, LockPolicy::Never) };
        let mount = Mount::new(client(&self.double, TIMEOUT)?, RemotePath::root(), self.here.clone(), options);
        *self.mount.lock().expect("no test panics with it") = Some(self.runtime().block_on(mount)?);
        Ok(())
    }

    /// Unmounts it, and mounts it again with this lock policy.
    pub(crate) fn mount_again_as(&self, identity: Option<u64>, lock: LockPolicy) -> Result<(), Box<dyn Error>> {
        self.unmount()?;
        let options = Options { identity, ..options(&self.double, &self.cache, lock) };
        let mount = Mount::new(client(&self.double, TIMEOUT)?, RemotePath::root(), self.here.clone(), options);
        *self.mount.lock().expect("no test panics with it") = Some(self.runtime().block_on(mount)?);
        Ok(())
    }

    /// With these files, and this lock policy.
    pub(crate) fn new(files: &[(&str, &[u8])], lock: LockPolicy) -> Result<Self, Box<dyn Error>> {
        Self::with_timeout(files, lock, TIMEOUT)
    }

    /// With this timeout.
    pub(crate) fn with_timeout(
        files: &[(&str, &[u8])],
        lock: LockPolicy,
        timeout: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let scratch = tempfile::Builder::new().prefix("haul-mount").tempdir()?;
        let [here, cache] = ["here", "cache"].map(|name| scratch.path().join(name));
        fs::create_dir(&here)?;
        Self::on(files, (lock, Write::Through), timeout, here, cache, scratch)
    }

    /// With a journal.
    pub(crate) fn writing_back(files: &[(&str, &[u8])], journal_size: u64) -> Result<Self, Box<dyn Error>> {
        let scratch = tempfile::Builder::new().prefix("haul-mount").tempdir()?;
        let [here, cache] = ["here", "cache"].map(|name| scratch.path().join(name));
        fs::create_dir(&here)?;
        Self::on(files, (LockPolicy::Never, Write::Back { journal_size }), TIMEOUT, here, cache, scratch)
    }

    /// With this cache folder.
    pub(crate) fn on(
        files: &[(&str, &[u8])],
        (lock, write): (LockPolicy, Write),
        timeout: Duration,
        here: PathBuf,
        cache: PathBuf,
        scratch: tempfile::TempDir,
    ) -> Result<Self, Box<dyn Error>> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let double = runtime.block_on(Double::start());
        for (path, content) in files {
            double.put(path, content, Duration::from_hours(1));
        }
        let world =
            Self { here, cache, double, timeout, mount: Mutex::default(), runtime: Some(runtime), _scratch: scratch };
        world.mount(lock, write)?;
        Ok(world)
    }

    /// Mounts the share again.
    pub(crate) fn mount(&self, lock: LockPolicy, write: Write) -> Result<(), Box<dyn Error>> {
        self.mount_with_cache(lock, write, CACHE_SIZE)
    }

    /// The same with a cache of this size.
    pub(crate) fn mount_with_cache(
        &self,
        lock: LockPolicy,
        write: Write,
        cache_size: u64,
    ) -> Result<(), Box<dyn Error>> {
        // Without a server, what is to be closed must be found.
        let fresh = if write == Write::Through { FRESH } else { PATIENCE };
        let options = Options { write, fresh, cache_size, ..options(&self.double, &self.cache, lock) };
        let dav = client(&self.double, self.timeout)?;
        let mount = self.runtime().block_on(Mount::new(dav, RemotePath::root(), self.here.clone(), options))?;
        *self.mount.lock().expect("no test panics with it") = Some(mount);
        Ok(())
    }

    /// What the journal has.
    pub(crate) fn journal(&self) -> Report {
        let mut reports = Report::read_all(&self.cache).expect("the journal can be read");
        assert_eq!(reports.len(), 1);
        reports.remove(0)
    }

    /// Waits until the server has everything.
    pub(crate) fn wait_until_uploaded(&self) {
        wait_for("everything is uploaded", || self.journal().pending.is_empty());
    }

    /// Opens a file for writing, and changes its first bytes.
    pub(crate) fn edit(&self, name: &str, bytes: &[u8]) -> std::io::Result<File> {
        let file = File::options().read(true).write(true).open(self.here.join(name))?;
        file.write_all_at(bytes, 0)?;
        Ok(file)
    }

    /// Waits until no lock is left.
    pub(crate) fn wait_until_unlocked(&self) {
        wait_for("no lock", || self.double.locks() == 0);
    }

    pub(crate) fn content(&self, path: &str) -> Option<Vec<u8>> {
        self.double.files("").remove(path)
    }

    /// How many requests of a method the double has received.
    pub(crate) fn count(&self, method: &str) -> usize {
        let method = format!(" {method} ");
        self.double.log().lines().filter(|line| line.contains(&method)).count()
    }

    /// The contents of the files that were kept because they could not be uploaded.
    pub(crate) fn unsaved(&self) -> Vec<Vec<u8>> {
        let kept = fs::read_dir(self.cache.join("unsaved")).into_iter().flatten().flatten();
        kept.filter_map(|entry| fs::read(entry.path()).ok()).collect()
    }

    /// Kills the server.
    pub(crate) fn kill(&self) {
        self.runtime().block_on(self.double.kill());
    }

    /// Starts it again.
    pub(crate) fn restart(&self) {
        self.runtime().block_on(self.double.restart());
    }

    /// Unmounts it while the server cannot be reached and these files are open.
    pub(crate) fn cut_off(&self, open: impl Sized) {
        self.double.script(|_, _, _| Some(Fault::Reset));
        let _ = self.unmount();
        drop(open);
        self.double.clear_faults();
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it ends with this")
    }

    pub(crate) fn unmount(&self) -> std::io::Result<()> {
        let mount = self.mount.lock().expect("no test panics with it").take();
        mount.map_or(Ok(()), |mount| self.runtime().block_on(mount.unmount()))
    }
}

impl Drop for Doubled {
    fn drop(&mut self) {
        let _ = self.unmount();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

fn client(double: &Double, timeout: Duration) -> Result<Dav, Box<dyn Error>> {
    let origin = Origin::of(&format!("http://{}", double.address).parse()?)?;
    let timeouts =
        Timeouts { connect: timeout, first_byte: timeout, pipelined: timeout, stall: timeout, idle: PATIENCE };
    let settings = Settings { timeouts, patience: Some(timeout), ..Settings::default() };
    Ok(Dav::new(Client::new(settings, Authenticator::default())?, origin))
}

fn options(double: &Double, cache: &Path, lock: LockPolicy) -> Options {
    Options { lock, ..options_of(format!("http://{}/", double.address), cache) }
}

/// Of a mount of this URL that locks nothing and writes through.
pub(crate) fn options_of(source: String, cache: &Path) -> Options {
    Options {
        source,
        identity: None,
        account: String::new(),
        write: Write::Through,
        fresh: FRESH,
        cache: cache.to_owned(),
        cache_size: CACHE_SIZE,
        read_only: false,
        attributes: true,
        properties: true,
        allow_other: false,
        uid: nix::unistd::geteuid().as_raw(),
        gid: nix::unistd::getegid().as_raw(),
        umask: 0o022,
        lock: LockPolicy::Never,
        lock_owner: "tester".into(),
    }
}

/// Waits for something that happens after a call has returned.
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
