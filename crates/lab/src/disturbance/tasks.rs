//! How long the threads of a sample waited for a processor, and how long they had one.
//!
//! The kernel counts both for each thread (`/proc/PID/task/TID/schedstat`, of which any kernel has the first two
//! fields; sched-stats.rst). A thread that has ended takes its counters along, and there is no sum over a process that
//! keeps them, except for a privileged user (taskstats). So they are read more than once: before and after the sample,
//! in between by a watcher, when a thread of ours ends, and when a program has ended and has not been waited for yet
//! (its first thread is still there then). What remains uncounted are the last moments of a program's other threads,
//! and programs that a program starts and ends between two looks.
//!
//! The sandbox has its own PID namespace and its own /proc, so every process there belongs to the sample.

use std::{
    collections::HashMap,
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The thread that carries packets to the server. The kernel processes a packet on the thread that delivers it, so this one
/// also does the receiving of the server's end.
const TO_SERVER: &str = "cable up";

/// Threads of our own process that work for none of both ends: relays, taps, and those that watch the run. The relays'
/// own waits show as the emulator's lateness, or not at all.
const NEITHER: [&str; 5] = ["cable down", "tap", "live file", "signals", WATCHER];

/// The name of the thread that watches the sample's threads.
pub(super) const WATCHER: &str = "watcher";

/// Whose thread it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Client,
    Server,
    ToServer,
    Neither,
}

/// Says whether a thread is the server's, by its process group and its id.
pub(crate) type IsServer = Box<dyn Fn(i32, i32) -> bool + Send + Sync>;

/// The counters of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Times {
    ran: Duration,
    waited: Duration,
}

#[derive(Debug)]
struct Task {
    owner: Owner,
    /// The counters when the sample began; zero of a thread that was started later.
    first: Times,
    last: Times,
}

/// The threads of a sample.
pub(crate) struct Tasks {
    is_server: IsServer,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// By thread id.
    tasks: HashMap<i32, Task>,
    has_begun: bool,
}

/// The times of a sample's threads, summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// How long threads of the client waited for a processor.
    pub(crate) client: Waits,
    /// The same for the server's.
    pub(crate) server: Waits,
    /// How long all threads ran, ours included.
    pub(crate) ran: Duration,
    /// How long the one that carries packets to the server ran.
    pub(crate) to_server_ran: Duration,
}

/// How long the threads of one end waited for a processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// All of them, summed.
    pub(crate) all: Duration,
    /// The one that waited longest.
    pub(crate) longest: Duration,
}

impl Waits {
    fn add(&mut self, waited: Duration) {
        self.all += waited;
        self.longest = self.longest.max(waited);
    }
}

impl Tasks {
    /// The threads of a sample that is about to begin; none if the kernel does not count their waits, or /proc shows
    /// another namespace's processes.
    pub(crate) fn new(is_server: IsServer) -> Option<Self> {
        let own = fs::read_link("/proc/self").ok()?;
        if own.to_str() != Some(&std::process::id().to_string()) {
            return None;
        }
        Times::read("/proc/thread-self/schedstat")?;
        Some(Self { is_server, known: Mutex::default() })
    }

    /// The sample begins now.
    pub(crate) fn begin(&self) {
        self.look();
        self.known().has_begun = true;
    }

    /// Reads the counters of all threads.
    pub(crate) fn look(&self) {
        for process in numbers("/proc") {
            let group = group(process).unwrap_or_default();
            for thread in numbers(&format!("/proc/{process}/task")) {
                self.read(process, group, thread);
            }
        }
    }

    /// Reads the counters of a program that has ended and has not been waited for.
    pub(crate) fn ended(&self, process: i32) {
        self.read(process, group(process).unwrap_or_default(), process);
    }

    /// Reads the counters of the calling thread, which is about to end.
    pub(crate) fn end_thread(&self) {
        self.read(std::process::id() as i32, 0, nix::unistd::gettid().as_raw());
    }

    /// The sums since the sample began.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for task in self.known().tasks.values() {
            let waited = task.last.waited.saturating_sub(task.first.waited);
            let ran = task.last.ran.saturating_sub(task.first.ran);
            match task.owner {
                Owner::Client => totals.client.add(waited),
                Owner::Server => totals.server.add(waited),
                Owner::ToServer => totals.to_server_ran += ran,
                Owner::Neither => {}
            }
            totals.ran += ran;
        }
        totals
    }

    fn read(&self, process: i32, group: i32, thread: i32) {
        let path = format!("/proc/{process}/task/{thread}");
        let Some(times) = Times::read(&format!("{path}/schedstat")) else { return };
        let mut known = self.known();
        let first = if known.has_begun { Times::default() } else { times };
        let task = known.tasks.entry(thread).or_insert_with(|| Task {
            owner: self.owner(process, group, thread, &path),
            first,
            last: times,
        });
        task.last = times;
    }

    fn owner(&self, process: i32, group: i32, thread: i32, path: &str) -> Owner {
        if (self.is_server)(group, thread) {
            return Owner::Server;
        }
        let ours = process == std::process::id() as i32;
        let name = if ours { fs::read_to_string(format!("{path}/comm")).unwrap_or_default() } else { String::new() };
        match name.trim_end() {
            TO_SERVER => Owner::ToServer,
            name if NEITHER.contains(&name) => Owner::Neither,
            _ => Owner::Client,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Times {
    /// Time on a processor and time on a run queue, in nanoseconds (sched-stats.rst).
    fn read(path: &str) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let mut fields = text.split_whitespace().map(|field| field.parse().map(Duration::from_nanos));
        Some(Self { ran: fields.next()?.ok()?, waited: fields.next()?.ok()? })
    }
}

/// The process group of a process.
fn group(process: i32) -> Option<i32> {
    stat(&process.to_string(), 5)
}

/// Whether the calling process runs at real-time priority, which the programs that it starts inherit.
pub(super) fn is_real_time() -> bool {
    /// SCHED_FIFO and SCHED_RR (sched(7)).
    const REAL_TIME: [i32; 2] = [1, 2];
    stat("self", 41).is_some_and(|policy| REAL_TIME.contains(&policy))
}

/// A field of a process, by its number in proc_pid_stat(5), beyond its name (the second), which may hold anything.
fn stat(process: &str, field: usize) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(field - 3)?.parse().ok()
}

/// The entries of a folder that are numbers.
fn numbers(folder: &str) -> Vec<i32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
