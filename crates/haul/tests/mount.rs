//! `haul mount` as a process that is killed, with a server that is killed: no content is lost whose close(2) succeeded.
//!
//! Programs write while the mount or the server dies at random moments, and start again. In the end the server has, of every
//! file, what the last successful close(2) left, or what a later one was about to leave when it was cut off.
//!
//! `CRASHES=<N>` sets the number of crashes of each test, `CRASH_SEED=<N>` repeats one.

mod common;

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::{self, Write},
    net::TcpListener,
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use common::{HAUL, PATIENCE};
use libtest_mimic::{Arguments, Failed, Trial};
use link::sandbox;
use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{SigSet, SigmaskHow, Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// The usual number of crashes.
const CRASHES: u64 = 6;
/// Programs that write at the same time.
const WRITERS: u64 = 3;
/// The files of each.
const FILES: u64 = 8;

fn main() {
    let arguments = Arguments::from_args();
    let entered = sandbox::enter().map_err(|error| error.to_string());
    let device =
        File::options().read(true).write(true).open("/dev/fuse").map_err(|error| format!("/dev/fuse: {error}"));
    let missing = entered.map(drop).and(device.map(drop)).err();
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: mounts: {missing}");
    }
    let trials = ["through", "back"].map(|mode| {
        let test = move || crash(mode);
        let name = format!("nothing_closed_is_lost_when_the_mount_or_the_server_is_killed_writing_{mode}");
        Trial::test(name, test).with_ignored_flag(missing.is_some())
    });
    let mut trials = Vec::from(trials);
    let ends = Trial::test("a_mount_is_told_to_end_and_a_dead_one_is_named", a_mount_is_told_to_end);
    trials.push(ends.with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&arguments, trials).exit();
}

/// A random number generator that a seed repeats (xorshift64).
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A server and its mount, each a process.
struct World {
    folder: TempDir,
    address: String,
    mode: &'static str,
    server: Option<Child>,
    mount: Option<Child>,
}

impl World {
    fn new(mode: &'static str) -> io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let folder = tempfile::Builder::new().prefix("haul-crash").tempdir()?;
        let world = Self { folder, address, mode, server: None, mount: None };
        for name in ["there", "here"] {
            fs::create_dir(world.path(name))?;
        }
        Ok(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start_server(&mut self) -> io::Result<()> {
        let mut command = Command::new(HAUL);
        command.arg("serve").arg(self.path("there")).args(["--listen", &self.address]);
        self.server = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let begin = Instant::now();
        while std::net::TcpStream::connect(&self.address).is_err() {
            assert!(begin.elapsed() < PATIENCE, "the server does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn mount_command(&self) -> Command {
        let mut command = Command::new(HAUL);
        command.args([
            "mount",
            "--foreground",
            "--timeout",
            "5s",
            "--lock",
            "never",
            "--write",
            self.mode,
            "--cache-dir",
        ]);
        command.arg(self.path("cache")).arg(format!("http://{}/", self.address)).arg(self.path("here"));
        command
    }

    fn start_mount(&mut self) -> io::Result<()> {
        let mut command = self.mount_command();
        let log = File::options().create(true).append(true).open(self.path("log"))?;
        // The sandbox blocks what ends it, and programs inherit that.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
        let mount = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        mask.thread_set_mask()?;
        self.mount = Some(mount?);
        let begin = Instant::now();
        while !self.is_mounted()? {
            let log = self.path("log");
            let log = || fs::read_to_string(&log).unwrap_or_default();
            let has_ended = self.mount.as_mut().is_some_and(|mount| matches!(mount.try_wait(), Ok(Some(_))));
            assert!(begin.elapsed() < PATIENCE && !has_ended, "the share is not mounted: {}", log());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn is_mounted(&self) -> io::Result<bool> {
        let here = self.path("here");
        Ok(fs::read_to_string("/proc/self/mounts")?.split(' ').any(|word| Path::new(word) == here))
    }

    fn kill(child: &mut Option<Child>) {
        if let Some(mut child) = child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn kill_mount(&mut self) {
        // Calls that wait for it end with it.
        Self::kill(&mut self.mount);
        let _ = umount2(&self.path("here"), MntFlags::MNT_FORCE);
        let _ = umount2(&self.path("here"), MntFlags::MNT_DETACH);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill_mount();
        Self::kill(&mut self.server);
    }
}

/// What the server may have of each file: the content of the last successful close(2) first, `None` if there was none, and
/// then what was cut off since.
type Promises = BTreeMap<String, Vec<Option<Vec<u8>>>>;

/// A program that writes files until it is told to stop.
fn write_files(here: &Path, writer: u64, mut random: Random, stop: &AtomicBool) -> Promises {
    let mut promises = Promises::new();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let name = format!("{writer}-{}", random.below(FILES));
        let length = if random.below(20) == 0 { random.below(2_000_000) } else { random.below(30_000) } as usize;
        let mut content = format!("{writer} {number} ").into_bytes();
        content.resize(content.len() + length, b'a' + (number % 26) as u8);
        let promise = promises.entry(name.clone()).or_insert_with(|| vec![None]);
        promise.push(Some(content.clone()));
        let is_saved = if random.below(2) == 0 {
            store(&here.join(&name), &content)
        } else {
            // As editors save.
            let new = here.join(format!("{name}.new"));
            store(&new, &content).and_then(|()| fs::rename(&new, here.join(&name)))
        };
        match is_saved {
            Ok(()) => *promise = vec![Some(content)],
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    promises
}

/// Writes a file, and returns what close(2) says.
fn store(path: &Path, content: &[u8]) -> io::Result<()> {
    let (here, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::NotFound)?;
    let (mounted, above) = (File::open(here)?, fs::metadata(here.join(".."))?);
    // While nothing is mounted, the bare folder would take the file.
    if mounted.metadata()?.dev() == above.dev() {
        return Err(io::ErrorKind::NotConnected.into());
    }
    let mut file = File::create(Path::new(&format!("/proc/self/fd/{}", mounted.as_raw_fd())).join(name))?;
    file.write_all(content)?;
    nix::unistd::close(file).map_err(io::Error::from)
}

fn a_mount_is_told_to_end() -> Result<(), Failed> {
    let mut world = World::new("back")?;
    world.start_server()?;
    world.start_mount()?;
    let refused = |world: &World, why: &str| {
        let tried = world.mount_command().output().expect("it runs");
        let said = String::from_utf8_lossy(&tried.stderr).into_owned();
        assert!(!tried.status.success() && said.contains(why), "{said}");
    };
    refused(&world, "something is mounted there already");
    store(&world.path("here").join("file"), b"content")?;
    let mut mount = world.mount.take().ok_or("it runs")?;
    kill(Pid::from_raw(mount.id() as i32), Signal::SIGTERM)?;
    // It has nothing to wait for.
    assert_eq!(mount.wait()?.code(), Some(0));
    assert_eq!(fs::read(world.path("there").join("file"))?, b"content");
    assert!(!world.is_mounted()?);
    world.start_mount()?;
    World::kill(&mut world.mount);
    refused(&world, "the mount there has died");
    assert!(Command::new(HAUL).arg("unmount").arg(world.path("here")).status()?.success());
    fs::write(world.path("here").join("hidden"), "")?;
    refused(&world, "not empty");
    Ok(())
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn crash(mode: &'static str) -> Result<(), Failed> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64 % 1_000_000_000;
    let seed = variable("CRASH_SEED").unwrap_or(now).max(1);
    println!("CRASH_SEED={seed}");
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut world = World::new(mode)?;
    world.start_server()?;
    world.start_mount()?;
    let stop = AtomicBool::new(false);
    let here = world.path("here");
    let promises = thread::scope(|scope| -> io::Result<Promises> {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let random = Random(random.below(u64::MAX - 1) + 1);
                let (here, stop) = (&here, &stop);
                scope.spawn(move || write_files(here, writer, random, stop))
            })
            .collect();
        let crashed = crashes(&mut world, &mut random);
        stop.store(true, Ordering::Relaxed);
        let promises = writers.into_iter().flat_map(|writer| writer.join().expect("it does not panic")).collect();
        crashed.map(|()| promises)
    })?;
    let unmounted = Command::new(HAUL).arg("unmount").arg(world.path("here")).output()?;
    if !unmounted.status.success() {
        return Err(format!("cannot unmount: {}", String::from_utf8_lossy(&unmounted.stderr)).into());
    }
    let status = Command::new(HAUL).args(["mount", "status", "--cache-dir"]).arg(world.path("cache")).output()?;
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    compare(&world.path("there"), &promises).map_err(|why| {
        let log = fs::read_to_string(world.path("log")).unwrap_or_default();
        Failed::from(format!("{why}\nCRASH_SEED={seed}\n{status}\nThe log of the mount:\n{log}"))
    })
}

fn crashes(world: &mut World, random: &mut Random) -> io::Result<()> {
    for _ in 0..variable("CRASHES").unwrap_or(CRASHES) {
        thread::sleep(Duration::from_millis(random.below(600)));
        if random.below(3) == 0 {
            World::kill(&mut world.server);
            thread::sleep(Duration::from_millis(random.below(500)));
            world.start_server()?;
        } else {
            world.kill_mount();
            world.start_mount()?;
        }
    }
    thread::sleep(Duration::from_millis(300));
    Ok(())
}

fn compare(there: &Path, promises: &Promises) -> Result<(), String> {
    for (name, acceptable) in promises {
        let found = fs::read(there.join(name)).ok();
        if !acceptable.contains(&found) {
            let show = |content: &Option<Vec<u8>>| match content {
                Some(bytes) => {
                    format!("{:?}… ({} bytes)", String::from_utf8_lossy(&bytes[..bytes.len().min(8)]), bytes.len())
                }
                None => "nothing".into(),
            };
            let acceptable: Vec<_> = acceptable.iter().map(show).collect();
            return Err(format!("{name} is {}, expected one of {acceptable:?}", show(&found)));
        }
    }
    println!("{} files are whole", promises.len());
    Ok(())
}
