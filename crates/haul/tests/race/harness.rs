//! Runs a race in a folder of its own and observes its processes.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use serde_json::Value;

use crate::common::{HAUL, PATIENCE, Room, eventually, processes};

/// How long a race may take on a busy machine, in times of the tests' usual patience.
const RACE: u32 = 5;

/// The experiment of all tests.
pub(crate) const SMALL: &str = include_str!("small.toml");

/// A folder with the experiment.
pub(crate) fn room() -> Room {
    let room = Room::new();
    fs::write(room.path("small.toml"), SMALL).expect("a file");
    room
}

/// `haul lab run small.toml` with these arguments, in the room's folder, with the embedded server by default.
pub(crate) fn lab_run(room: &Room, arguments: &[&str]) -> Command {
    let mut command = room.command(HAUL);
    command.args(["lab", "run", "small.toml"]).args(arguments).current_dir(room.path("."));
    if !arguments.contains(&"--server") {
        command.args(["--server", "embedded"]);
    }
    command
}

/// A run in progress; dropping it kills it.
pub(crate) struct Race {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    printed: Option<JoinHandle<String>>,
    /// The namespaces of its processes.
    namespaces: BTreeSet<PathBuf>,
}

/// A run that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Its standard output.
    pub(crate) printed: String,
    /// The lines of its standard error.
    pub(crate) said: Vec<String>,
}

impl Race {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self::with(command)
    }

    /// With this input and output.
    pub(crate) fn between(mut command: Command, stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Self {
        command.stdin(stdin).stdout(stdout);
        Self::with(command)
    }

    fn with(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).process_group(0).spawn().expect("it starts");
        // Otherwise the pipe's write end would stay open here, and its reader would wait for ever.
        drop(command);
        let stderr = child.stderr.take().expect("a pipe");
        let printed = child.stdout.take().map(|stdout| {
            thread::spawn(move || {
                let mut text = String::new();
                let _ = BufReader::new(stdout).read_to_string(&mut text);
                text
            })
        });
        let (line, lines) = mpsc::channel();
        thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|said| line.send(said))
        });
        Self { child, lines, said: Vec::new(), printed, namespaces: BTreeSet::new() }
    }

    /// Waits for a line on its standard error that fulfils a condition.
    pub(crate) fn wait_for(&mut self, what: &str, is_it: impl Fn(&str) -> bool) {
        while !self.said.last().is_some_and(|line| is_it(line)) {
            let line = self.lines.recv_timeout(PATIENCE);
            self.said.push(line.unwrap_or_else(|_| panic!("it does not say {what}: {:?}", self.said)));
        }
    }

    /// Waits until it calibrates.
    pub(crate) fn wait_for_calibration(&mut self) {
        self.wait_for("that it calibrates", |line| line.contains("calibrating"));
    }

    /// Waits until a sample is measured.
    pub(crate) fn wait_for_sample(&mut self) {
        self.wait_for("how long a sample took", |line| line.contains("near, ") && line.ends_with(" s"));
    }

    /// Lets it run for a time, and records its namespaces.
    pub(crate) fn watch(&mut self, time: Duration) {
        let start = Instant::now();
        loop {
            self.note();
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Itself and all its descendants, the eldest first.
    pub(crate) fn family(&self) -> Vec<i32> {
        let parents: Vec<(i32, i32)> = processes("stat")
            .into_iter()
            .filter_map(|(pid, stat)| Some((pid, stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?)))
            .collect();
        let mut family = vec![self.child.id() as i32];
        let mut next = 0;
        while let Some(parent) = family.get(next).copied() {
            family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        family
    }

    /// Records the namespaces of it and its descendants, without the test's own.
    fn note(&mut self) {
        let ours = namespaces(std::process::id() as i32);
        let theirs = self.family().into_iter().flat_map(namespaces).filter(|namespace| !ours.contains(namespace));
        let theirs: Vec<PathBuf> = theirs.collect();
        self.namespaces.extend(theirs);
    }

    pub(crate) fn send(&mut self, signal: Signal, to_the_group: bool) {
        self.note();
        let pid = Pid::from_raw(self.child.id() as i32);
        let sent = if to_the_group { killpg(pid, signal) } else { kill(pid, signal) };
        sent.expect("it runs");
    }

    /// Closes the reader of its standard error.
    pub(crate) fn turn_away(&mut self) {
        self.lines = mpsc::channel().1;
    }

    /// Waits until it ends.
    pub(crate) fn end(&mut self) -> Ended {
        let mut status = None;
        let mut has_ended = || {
            status = self.child.try_wait().expect("a child of ours");
            status.is_some()
        };
        (0..RACE).any(|_| eventually(&mut has_ended));
        let status = status.unwrap_or_else(|| panic!("it does not end: {:?}", self.said));
        self.said.extend(self.lines.iter());
        let printed = self.printed.take().and_then(|printed| printed.join().ok()).unwrap_or_default();
        Ended { status, printed, said: self.said.clone() }
    }

    /// Whether its processes are found by the room's name and by their namespaces.
    pub(crate) fn is_seen(&self, room: &Room) -> bool {
        !named_after(room).is_empty() && !inside(&self.namespaces).is_empty()
    }

    /// Checks that no process, mount or namespace of it is left.
    pub(crate) fn assert_gone(&self, room: &Room) {
        let left = || left_over(room, &self.namespaces);
        assert!(eventually(|| left().is_empty()), "left behind: {:#?}", left());
        room.assert_no_process_and_no_mount();
    }

    /// As above, and that nothing is left in TMPDIR.
    pub(crate) fn assert_clear(&self, room: &Room) {
        self.assert_gone(room);
        assert_eq!(room.left_over(), Vec::<PathBuf>::new());
    }
}

impl Drop for Race {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The last line of its standard error, after a failure.
    pub(crate) fn failure(&self) -> &str {
        let last = self.said.last().map_or("nothing", String::as_str);
        assert_eq!(self.status.code(), Some(1), "{}: {:?}", self.status, self.said);
        assert!(last.starts_with("haul: "), "{:?}", self.said);
        last
    }

    pub(crate) fn success(&self) -> &Self {
        assert!(self.status.success(), "{}: {:?}", self.status, self.said);
        self
    }
}

/// Starts it, waits for its end and checks that nothing is left.
pub(crate) fn run(room: &Room, command: Command) -> Ended {
    let mut race = Race::start(command);
    race.watch(Duration::ZERO);
    let ended = race.end();
    race.assert_clear(room);
    ended
}

/// All the namespaces of a process and its threads.
fn namespaces(pid: i32) -> BTreeSet<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of_task = |task: fs::DirEntry| {
        ["net", "pid", "pid_for_children", "mnt", "user"]
            .map(|kind| fs::read_link(task.path().join("ns").join(kind)).ok())
    };
    tasks.flat_map(of_task).flatten().collect()
}

/// All processes whose environment, command line or mounts contain the room's path.
fn named_after(room: &Room) -> BTreeSet<i32> {
    let here = room.path("").to_string_lossy().trim_end_matches('/').to_owned();
    let texts = ["environ", "cmdline", "mountinfo"].into_iter().flat_map(processes);
    texts.filter(|(_, text)| text.contains(&here)).map(|(pid, _)| pid).collect()
}

/// All processes with a thread in one of these namespaces.
fn inside(namespaces_of_run: &BTreeSet<PathBuf>) -> BTreeSet<i32> {
    let all = processes("comm").into_iter().map(|(pid, _)| pid);
    all.filter(|pid| !namespaces(*pid).is_disjoint(namespaces_of_run)).collect()
}

/// The mounts, and the processes of the room or in one of these namespaces.
fn left_over(room: &Room, namespaces_of_run: &BTreeSet<PathBuf>) -> Vec<String> {
    let pids = named_after(room).into_iter().chain(inside(namespaces_of_run));
    let told =
        pids.map(|pid| format!("{pid} {}", fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let ours = |line: &&str| line.contains(" fuse.davfs ") || line.contains(" tmpfs haul ") || line.contains("haul-");
    told.chain(mounts.lines().filter(ours).map(str::to_owned)).collect()
}

/// The lines of the samples of the only run in the room, without the heading.
pub(crate) fn samples(room: &Room) -> usize {
    let csv = fs::read_to_string(runs(room)[0].join("samples.csv")).expect("the samples");
    csv.lines().count().saturating_sub(1)
}

/// The folders of the runs in the room.
pub(crate) fn runs(room: &Room) -> Vec<PathBuf> {
    let entries = fs::read_dir(room.path("runs")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The results of the only run in the room.
pub(crate) fn results(room: &Room) -> Value {
    let runs = runs(room);
    let [run] = runs.as_slice() else { panic!("one run, not {runs:?}") };
    let json = fs::read(run.join("run.json")).unwrap_or_else(|error| panic!("{}: {error}", run.display()));
    serde_json::from_slice(&json).expect("JSON")
}

pub(crate) fn cells(results: &Value) -> &[Value] {
    results["cells"].as_array().expect("a list")
}

/// Writes a shell script called `name` into the room's folder `bin`, and returns a PATH that begins with
/// that.
pub(crate) fn program(room: &Room, name: &str, script: &str) -> String {
    let bin = room.path("bin");
    fs::create_dir_all(&bin).expect("a folder");
    fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("our file");
    format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"))
}
