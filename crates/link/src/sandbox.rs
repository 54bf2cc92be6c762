//! The sandbox in which everything runs, and which the kernel itself cleans up.
//!
//! A program that creates namespaces, mounts file systems and starts servers must leave nothing behind, however it ends:
//! Ctrl-C, a panic, `kill -9`. Signal handlers and destructors cannot guarantee that, but the kernel can. [`enter`] turns
//! the calling process into three:
//!
//! - the **supervisor**, the process that the user started. It waits, forwards signals, removes the scratch folder and
//!   ends with the worker's exit status;
//! - the **init**, PID 1 of a new PID namespace. It reaps orphans, and ends when the worker does; then the kernel kills
//!   every process in the namespace. It is killed when the supervisor dies;
//! - the **worker**, which returns from [`enter`]. It has its own mount namespace, in which mounts disappear with the last
//!   process, and a scratch folder there on a tmpfs.
//!
//! An ordinary user gets this in a user namespace that maps their uid to *itself*, not to root. So programs that refuse
//! to run as root work, and so do programs that, as root, insist on changing their uid (Apache). The capabilities in the
//! namespace are raised to the ambient set, so that started programs have them too (user_namespaces(7),
//! capabilities(7)).

#![expect(
    unsafe_code,
    reason = "fork(2): the process has one thread, which `enter` checks first; signal(2): no handler"
)]

mod scratch;

use std::{
    fs,
    io::{self, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::OFlag,
    mount::{MsFlags, mount},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, unshare},
    sys::{
        prctl,
        signal::{self, SigHandler, SigSet, SigmaskHow, Signal, kill, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{ForkResult, Pid, Uid, fork, getegid, geteuid, pipe2, read},
};

use scratch::Scratch;

/// Time between a forwarded signal and SIGKILL for a command.
const GRACE: Duration = Duration::from_secs(10);

/// The same for the worker, which waits for the command and then cleans up.
const WORKER_GRACE: Duration = Duration::from_secs(20);

/// Why the sandbox could not be entered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The process has more than one thread.
    #[error("the sandbox must be entered before any thread is started")]
    Threads,
    /// The kernel does not allow this user to create namespaces.
    #[error("{}", no_namespaces(*.0))]
    NoUserNamespace(Errno),
    /// A step failed.
    #[error("cannot {what}: {error}")]
    Step {
        /// What was tried.
        what: String,
        /// The system's error.
        error: io::Error,
    },
}

/// The error, and what an administrator can change.
fn no_namespaces(errno: Errno) -> String {
    let says = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    // Root can raise the limit (ENOSPC). For other errors as root, a container is the cause.
    let allow = if geteuid().is_root() && errno != Errno::ENOSPC {
        return format!("root may not create namespaces here ({errno}); start the container with `--privileged`");
    } else if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "kernel.apparmor_restrict_unprivileged_userns=0"
    } else if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "kernel.unprivileged_userns_clone=1"
    } else {
        "user.max_user_namespaces=10000"
    };
    format!(
        "you may not create namespaces on this machine ({errno}); allow it with `sysctl {allow}`, or run this as root"
    )
}

fn step(what: impl Into<String>) -> impl FnOnce(Errno) -> SandboxError {
    |errno| SandboxError::Step { what: what.into(), error: errno.into() }
}

/// Proof that the process is inside a sandbox.
#[derive(Debug)]
pub struct Sandbox {
    scratch: PathBuf,
    signals: SigSet,
    termination_signal: OnceLock<i32>,
}

impl Sandbox {
    /// An empty folder on a tmpfs that disappears with the sandbox.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Waits until `child` ends, and returns its exit status like a shell (128 + the number of the signal that killed it).
    /// Forwards signals to the child, and kills it ten seconds later. Signals from the terminal are not forwarded, since
    /// the child has received them already; it may ignore them.
    pub fn wait_for(&self, child: &std::process::Child) -> i32 {
        let on_signal = |signal: Signal| {
            let _ = self.termination_signal.set(signal as i32);
        };
        match supervise(Pid::from_raw(child.id() as i32), &self.signals, GRACE, false, on_signal) {
            Ended::By(signal) => 128 + signal as i32,
            Ended::With(status) => status,
        }
    }

    /// The number of the first termination signal that has arrived. Costs a few system calls.
    pub fn termination_signal(&self) -> Option<i32> {
        let mut signals = self.signals;
        signals.remove(Signal::SIGCHLD);
        if self.termination_signal.get().is_none()
            && let Ok(events) = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            && let Ok(Some(event)) = events.read_signal()
        {
            let _ = self.termination_signal.set(event.ssi_signo as i32);
        }
        self.termination_signal.get().copied()
    }

    /// Calls `f` with the number of each termination signal (SIGINT, SIGTERM, SIGHUP, SIGQUIT), in a new thread. The worker
    /// gets these signals in no other way, since they are blocked.
    pub fn on_signal(&self, f: impl Fn(i32) + Send + 'static) -> io::Result<()> {
        let mut signals = self.signals;
        signals.remove(Signal::SIGCHLD);
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            while let Ok(signal) = signals.wait() {
                f(signal as i32);
            }
        })?;
        Ok(())
    }
}

/// Moves the calling process into a sandbox; see the module documentation. Call it first in `main`.
///
/// Only the worker returns. The supervisor exits inside, with the worker's status.
pub fn enter() -> Result<Sandbox, SandboxError> {
    if fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(SandboxError::Threads);
    }
    // SAFETY: no handler is set. Our parent may have made us ignore SIGCHLD.
    unsafe { signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map_err(step("receive SIGCHLD"))?;
    // From here on, all three processes block these signals and read them where they wait. (Programs inherit the mask;
    // `Host::attach` clears it.)
    let signals = handled_signals();
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), Some(&mut before)).map_err(step("block signals"))?;
    let result = Scratch::create().and_then(|scratch| {
        let result = split(&scratch, signals);
        if result.is_err() {
            scratch.remove();
        }
        result
    });
    if result.is_err() {
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&before), None);
    }
    result
}

/// The termination signals, except those that we were started to ignore (nohup(1)), and SIGCHLD. A blocked signal is
/// delivered to a signalfd even if it is ignored.
fn handled_signals() -> SigSet {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let termination = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    termination.into_iter().filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0).chain([Signal::SIGCHLD]).collect()
}

/// Creates the namespaces and the processes; returns in the worker.
fn split(scratch: &Scratch, signals: SigSet) -> Result<Sandbox, SandboxError> {
    unshare_processes()?;
    // Its other end closes when the supervisor ends.
    let (alive, held_by_supervisor) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(step("create a pipe"))?;
    // SAFETY: the process has one thread.
    match unsafe { fork() }.map_err(step("start a process"))? {
        ForkResult::Parent { child } => {
            let status = supervise(child, &signals, WORKER_GRACE, false, |_| ());
            scratch.remove();
            end_with(status);
        }
        ForkResult::Child => {}
    }
    drop(held_by_supervisor);
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(step("tie the sandbox to its parent"))?;
    if read(&alive, &mut [0]) != Err(Errno::EAGAIN) {
        std::process::exit(1); // the supervisor died before the line above
    }
    set_up_mounts(&scratch.path)?;
    // SAFETY: as above.
    match unsafe { fork() }.map_err(step("start a process"))? {
        ForkResult::Parent { child } => end_with(supervise(child, &signals, WORKER_GRACE, true, |_| ())),
        ForkResult::Child => {}
    }
    Ok(Sandbox { scratch: scratch.path.clone(), signals, termination_signal: OnceLock::new() })
}

/// Creates a PID namespace for future children; without the right to do so, inside a user namespace that maps the user to
/// themselves. A program in a sandbox has the right, and so may change the network of its host.
fn unshare_processes() -> Result<(), SandboxError> {
    if unshare(CloneFlags::CLONE_NEWPID).is_ok() {
        return Ok(());
    }
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER).map_err(SandboxError::NoUserNamespace)?;
    let write = |file: &str, text: String| {
        fs::write(format!("/proc/self/{file}"), text).map_err(|error| {
            let errno = error.raw_os_error().map_or(Errno::EPERM, Errno::from_raw);
            SandboxError::NoUserNamespace(errno)
        })
    };
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("setgroups", "deny".into())?;
    write("gid_map", format!("{gid} {gid} 1"))?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(SandboxError::NoUserNamespace)?;
    raise_ambient_capabilities()
}

/// Lets started programs inherit our capabilities, which are valid only in these namespaces.
fn raise_ambient_capabilities() -> Result<(), SandboxError> {
    let all = caps::read(None, caps::CapSet::Permitted);
    let raised = all.and_then(|all| {
        caps::set(None, caps::CapSet::Inheritable, &all)?;
        caps::set(None, caps::CapSet::Ambient, &all)
    });
    raised.map_err(|error| SandboxError::Step { what: "raise capabilities".into(), error: io::Error::other(error) })
}

/// Creates a mount namespace: mounts are invisible outside, /proc shows the sandbox's processes, the scratch folder is a
/// tmpfs. The supervisor stays outside: it could not remove a folder that is a mount point in its namespace.
fn set_up_mounts(scratch: &Path) -> Result<(), SandboxError> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).map_err(SandboxError::NoUserNamespace)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).map_err(step("make mounts private"))?;
    // Fails in a container with a masked /proc; we do not depend on it.
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let _ = mount(Some("proc"), "/proc", Some("proc"), safe, NONE);
    mount(Some("haul"), scratch, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=0755"))
        .map_err(step(format!("mount a tmpfs on {}", scratch.display())))
}

/// How a process ended.
#[derive(Clone, Copy)]
enum Ended {
    With(i32),
    By(Signal),
}

/// Exits with the child's status. For a killed child it prints the reason, since the child could not.
fn end_with(ended: Ended) -> ! {
    std::process::exit(match ended {
        Ended::With(status) => status,
        Ended::By(signal) => {
            let _ = writeln!(io::stderr(), "haul: killed by {signal}, with all programs that it had started");
            1
        }
    })
}

/// Waits for `child`, forwards signals, and returns how it ended. Signals from the terminal went to the whole process
/// group, including the child, so they are not forwarded, unless they came before the child existed. `on_signal` gets all.
fn supervise(child: Pid, signals: &SigSet, grace: Duration, reap_all: bool, on_signal: impl Fn(Signal)) -> Ended {
    let Ok(events) = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else {
        return Ended::With(1);
    };
    let mut kill_at: Option<Instant> = None;
    let mut is_before_child = true;
    loop {
        while let Ok(Some(event)) = events.read_signal() {
            let is_from_process = event.ssi_code <= 0;
            let signal = Signal::try_from(event.ssi_signo as i32);
            let Ok(signal) = signal else { continue };
            if signal == Signal::SIGCHLD {
                continue;
            }
            on_signal(signal);
            if is_from_process || is_before_child {
                let _ = kill(child, signal);
                kill_at.get_or_insert_with(|| Instant::now() + grace);
            }
        }
        is_before_child = false;
        let whom = if reap_all { None } else { Some(child) };
        loop {
            match waitpid(whom, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, status)) if pid == child => return Ended::With(status),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return Ended::By(signal),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => break,
                Ok(_) | Err(_) => {}
            }
        }
        let timeout = match kill_at.map(|at| at.saturating_duration_since(Instant::now())) {
            Some(Duration::ZERO) => {
                let _ = kill(child, Signal::SIGKILL);
                kill_at = None;
                PollTimeout::NONE
            }
            Some(left) => PollTimeout::try_from(left.as_millis() as i32 + 1).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        };
        let _ = poll(&mut [PollFd::new(events.as_fd(), PollFlags::POLLIN)], timeout);
    }
}

/// Whether the process is root of the machine: it may mount restricted file systems, and use other uids.
pub fn is_root() -> bool {
    Uid::effective().is_root() && fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"))
}
