//! Helpers that the test programs share.

#![allow(dead_code, reason = "no test uses all of it")]

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::TempDir;

/// A timeout that even a busy machine does not reach.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// The program.
pub(crate) const HAUL: &str = env!("CARGO_BIN_EXE_haul");

/// A folder in which one test runs `haul` and then looks for leftovers.
pub(crate) struct Room {
    folder: TempDir,
    marker: String,
}

impl Room {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let folder = TempDir::with_prefix("longhaul-test-").expect("a temporary folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder");
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self { folder, marker: format!("86400.{}{number:03}", std::process::id()) }
    }

    /// A file or folder of the test's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A unique number of seconds to sleep, by which the test's processes are recognised.
    pub(crate) fn marker(&self) -> &str {
        &self.marker
    }

    /// `program`, with a TMPDIR of its own.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("TMPDIR", self.path("tmp")).stdin(Stdio::null());
        command
    }

    /// Runs `haul link --quiet` with these arguments.
    pub(crate) fn link(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(HAUL);
        command.args(["link", "--quiet"]).args(arguments);
        output(command)
    }

    /// Starts `haul link --quiet` with these arguments and waits until it prints a line.
    pub(crate) fn link_until_up(&self, arguments: &[&str]) -> Running {
        let mut command = self.command(HAUL);
        command.args(["link", "--quiet"]).args(arguments);
        command.stdout(Stdio::piped());
        let mut running = Running::start(command);
        let mut line = String::new();
        let stdout = running.0.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "up\n");
        running
    }

    /// What is left in the TMPDIR.
    pub(crate) fn left_over(&self) -> Vec<PathBuf> {
        fs::read_dir(self.path("tmp")).expect("the folder").map(|entry| entry.expect("an entry").path()).collect()
    }

    /// Waits until no process of the test is left and checks that nothing is mounted.
    pub(crate) fn assert_no_process_and_no_mount(&self) {
        assert!(eventually(|| self.processes().is_empty()), "left running: {:?}", self.processes());
        let mounts = fs::read_to_string("/proc/self/mounts").expect("a list of mounts");
        assert!(!mounts.contains(&*self.folder.path().to_string_lossy()), "left mounted: {mounts}");
    }

    /// As above, and no folder is left either.
    pub(crate) fn assert_clear(&self) {
        self.assert_no_process_and_no_mount();
        assert_eq!(self.left_over(), Vec::<PathBuf>::new());
    }

    fn processes(&self) -> Vec<String> {
        let ours = |(_, line): &(i32, String)| line.contains(&self.marker);
        processes("cmdline").into_iter().filter(ours).map(|(pid, line)| format!("{pid}: {line}")).collect()
    }
}

/// The PID of each process with the contents of this file of its /proc folder.
pub(crate) fn processes(file: &str) -> Vec<(i32, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("a /proc").flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Ok(bytes) = fs::read(entry.path().join(file))
        {
            found.push((pid, String::from_utf8_lossy(&bytes).replace('\0', " ")));
        }
    }
    found
}

/// Runs `command` to its end, with a timeout.
pub(crate) fn output(command: Command) -> Output {
    assert_cmd::Command::from_std(command).timeout(PATIENCE).output().expect("it starts")
}

/// The bash command that fetches / from port 8080 of the server host, and prints the status line.
pub(crate) const FETCH: &str = r#"
    exec 3<>"/dev/tcp/$HAUL_SERVER_IP/8080" && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3"#;

/// The server command that answers [`FETCH`].
pub(crate) fn serve(folder: &Path) -> String {
    format!("exec '{HAUL}' serve --listen 0.0.0.0:8080 '{}'", folder.display())
}

/// A started `haul`; dropping it kills it.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        Self(command.spawn().expect("it starts"))
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).expect("it runs");
    }

    /// Waits until it ends.
    pub(crate) fn status(&mut self) -> ExitStatus {
        let mut status = None;
        eventually(|| {
            status = self.0.try_wait().expect("a child of ours");
            status.is_some()
        });
        status.expect("it ends in time")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Polls until the condition is true, or [`PATIENCE`] is over.
pub(crate) fn eventually(mut f: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if f() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    false
}

/// Checks that the output is a failure with this status that says one sentence, and returns it.
pub(crate) fn one_sentence(output: &Output, status: i32) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{}: {said}", output.status);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("haul: "), "{said}");
    said
}

/// Checks that it succeeded, and returns its output.
pub(crate) fn printed(output: &Output) -> String {
    assert!(output.status.success() && output.status.signal().is_none(), "{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
