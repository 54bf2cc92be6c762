//! A server, and its folder mounted.

use std::{
    error::Error,
    fs::{self, File},
    net::TcpListener,
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use dav::{Dav, RemotePath};
use haul_http::{Client, Origin, Settings, auth::Authenticator};
use link::sandbox::{self, Sandbox};
use mount::{Mount, Options, Write};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Enters the sandbox, which gives an ordinary user the right to mount. None, and said, if nothing can be mounted here.
pub(crate) fn enter() -> Option<Sandbox> {
    let entered = sandbox::enter().map_err(|error| error.to_string());
    let device =
        File::options().read(true).write(true).open("/dev/fuse").map_err(|error| format!("/dev/fuse: {error}"));
    match entered.and_then(|sandbox| device.map(|_| sandbox)) {
        Ok(sandbox) => Some(sandbox),
        Err(missing) => {
            eprintln!("SKIPPED: mounts: {missing}");
            None
        }
    }
}

/// How long a listing is believed here: shorter than the pauses of the tests on changes made elsewhere.
pub(crate) const FRESH: Duration = Duration::from_millis(300);

/// A mounted share.
pub(crate) struct World {
    /// The mount point.
    pub(crate) here: PathBuf,
    /// The server's folder.
    pub(crate) there: PathBuf,
    pub(crate) cache: PathBuf,
    mounts: Mutex<Vec<Mount>>,
    runtime: Option<Runtime>,
    scratch: TempDir,
}

impl World {
    /// The same share mounted so many times, with so large caches.
    pub(crate) fn new(count: usize, cache_size: u64, write: Write) -> Result<Self, Box<dyn Error>> {
        let scratch = tempfile::Builder::new().prefix("haul-mount").tempdir()?;
        let [there, cache] = ["there", "cache"].map(|name| scratch.path().join(name));
        fs::create_dir(&there)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = serve::Config { root: there.clone(), listen: vec![address], ..serve::Config::default() };
        let server = runtime.block_on(async { serve::Server::bind(config) })?;
        runtime.spawn(server.run(std::future::pending()));
        let options = Options {
            source: format!("http://{address}/"),
            identity: None,
            account: String::new(),
            write,
            fresh: FRESH,
            cache: cache.clone(),
            cache_size,
            read_only: false,
            attributes: true,
            properties: true,
            allow_other: false,
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
            umask: 0o022,
            lock: dav::LockPolicy::Never,
            lock_owner: "tester".into(),
        };
        let (handle, here) = (runtime.handle().clone(), PathBuf::new());
        let mut world = Self { here, there, cache, mounts: Mutex::default(), runtime: Some(runtime), scratch };
        world.here = world.mount_point(0);
        for number in 0..count {
            let origin = Origin::of(&format!("http://{address}").parse()?)?;
            let dav = Dav::new(Client::new(Settings::default(), Authenticator::default())?, origin);
            let folder = world.mount_point(number);
            fs::create_dir(&folder)?;
            // A journal belongs to one mount.
            let cache = world.cache_of(number);
            let options = Options { cache, ..options.clone() };
            let mount = handle.block_on(Mount::new(dav, RemotePath::root(), folder, options))?;
            world.mounts.lock().expect("no test panics with it").push(mount);
        }
        Ok(world)
    }

    /// Where the share is mounted for the `number`th time, from 0.
    pub(crate) fn mount_point(&self, number: usize) -> PathBuf {
        self.scratch.path().join(format!("here{number}"))
    }

    /// The cache folder of the `number`th mount.
    pub(crate) fn cache_of(&self, number: usize) -> PathBuf {
        if number == 0 { self.cache.clone() } else { self.scratch.path().join(format!("cache{number}")) }
    }

    /// Somebody else stores a file on the server; it is visible here when this returns.
    pub(crate) fn store(&self, name: &str, content: &[u8]) -> std::io::Result<()> {
        fs::write(self.there.join(name), content)?;
        let_listings_expire();
        Ok(())
    }
}

/// Waits until no listing from before is believed.
pub(crate) fn let_listings_expire() {
    std::thread::sleep(FRESH + Duration::from_millis(200));
}

impl Drop for World {
    fn drop(&mut self) {
        let mounts = std::mem::take(&mut *self.mounts.lock().expect("no test panics with it"));
        if let Some(runtime) = self.runtime.take() {
            for mount in mounts {
                let _ = runtime.block_on(mount.unmount());
            }
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }
}

/// Bytes that differ everywhere.
pub(crate) fn noise(length: usize) -> Arc<Vec<u8>> {
    let mut state = 0x9E37_79B9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    Arc::new((0..length).map(|_| next()).collect())
}
