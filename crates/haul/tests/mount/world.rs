//! A server and its mount, each a process.

use std::{
    fs::{self, File},
    io,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{SigSet, SigmaskHow},
};
use tempfile::TempDir;

use crate::common::{HAUL, PATIENCE, text};

pub(crate) struct World {
    folder: TempDir,
    address: String,
    /// Where the mount finds the server: its address, or that of something between.
    pub(crate) target: String,
    pub(crate) mode: &'static str,
    pub(crate) lock: &'static str,
    timeout: &'static str,
    /// Where it is mounted.
    pub(crate) here: &'static str,
    server: Option<Child>,
    pub(crate) mount: Option<Child>,
}

impl World {
    pub(crate) fn new(mode: &'static str) -> io::Result<Self> {
        Self::with_timeout(mode, "5s")
    }

    /// Whose requests fail after so long without an answer.
    pub(crate) fn with_timeout(mode: &'static str, timeout: &'static str) -> io::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let folder = tempfile::Builder::new().prefix("haul-crash").tempdir()?;
        let world = Self {
            folder,
            target: address.clone(),
            address,
            mode,
            lock: "never",
            timeout,
            here: "here",
            server: None,
            mount: None,
        };
        for name in ["there", "here", "cache"] {
            fs::create_dir(world.path(name))?;
        }
        Ok(world)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn start_server(&mut self) -> io::Result<()> {
        let mut command = Command::new(HAUL);
        command.arg("serve").arg(self.path("there")).args(["--listen", &self.address]);
        self.server = Some(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let begin = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            assert!(begin.elapsed() < PATIENCE, "the server does not start");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub(crate) fn mount_command(&self) -> Command {
        let mut command = Command::new(HAUL);
        command.args(["mount", "--foreground", "--lock", self.lock, "--write", self.mode, "--timeout", self.timeout]);
        command.arg("--cache-dir").arg(self.path("cache"));
        command.arg(format!("http://{}/", self.target)).arg(self.path(self.here));
        command
    }

    /// Mounts the share. Where requests may be slow, the first may fail: then it is tried again.
    pub(crate) fn start_mount_sometime(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        while !self.has_started_mount()? {
            assert!(begin.elapsed() < PATIENCE, "the share is not mounted: {}", self.log());
        }
        Ok(())
    }

    pub(crate) fn start_mount(&mut self) -> io::Result<()> {
        assert!(self.has_started_mount()?, "the share is not mounted: {}", self.log());
        Ok(())
    }

    fn has_started_mount(&mut self) -> io::Result<bool> {
        let mut command = self.mount_command();
        let log = File::options().create(true).append(true).open(self.path("log"))?;
        // The sandbox blocks what ends it, and programs inherit that.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_UNBLOCK)?;
        let mount = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        mask.thread_set_mask()?;
        self.mount = Some(mount?);
        let begin = Instant::now();
        while !self.is_mounted()? {
            let has_ended = self.mount.as_mut().is_some_and(|mount| matches!(mount.try_wait(), Ok(Some(_))));
            if begin.elapsed() > PATIENCE || has_ended {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(true)
    }

    pub(crate) fn is_mounted(&self) -> io::Result<bool> {
        let here = self.path("here");
        Ok(fs::read_to_string("/proc/self/mounts")?.split(' ').any(|word| Path::new(word) == here))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn status_command(&self) -> Command {
        let mut command = Command::new(HAUL);
        command.args(["mount", "status", "--cache-dir"]).arg(self.path("cache"));
        command
    }

    /// What `haul mount status` prints.
    pub(crate) fn status(&self) -> String {
        let Output { stdout, stderr, .. } = output(self.status_command());
        text(&stdout) + &text(&stderr)
    }

    /// Runs `haul unmount`, and fails if it takes too long.
    pub(crate) fn unmount(&self) -> Output {
        let mut command = Command::new(HAUL);
        command.arg("unmount").arg(self.path("here"));
        output(command)
    }

    pub(crate) fn kill_server(&mut self) {
        kill(&mut self.server);
    }

    pub(crate) fn kill_mount(&mut self) {
        // Calls that wait for it end with it.
        kill(&mut self.mount);
        let _ = umount2(&self.path("here"), MntFlags::MNT_FORCE);
        let _ = umount2(&self.path("here"), MntFlags::MNT_DETACH);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill_mount();
        self.kill_server();
        let _ = umount2(&self.path("cache"), MntFlags::MNT_DETACH);
    }
}

pub(crate) fn kill(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Runs a program that prints little, within [`PATIENCE`]. The sandbox blocks SIGCHLD, so this polls.
pub(crate) fn output(mut command: Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, begin) = (command.spawn().expect("it starts"), Instant::now());
    while child.try_wait().expect("it is ours").is_none() {
        if begin.elapsed() > PATIENCE {
            let _ = child.kill();
            let output = child.wait_with_output().expect("it is ours");
            panic!("{command:?} hangs: {}", text(&output.stderr));
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("it is ours")
}
