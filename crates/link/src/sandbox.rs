//! The room in which everything happens, and which the kernel itself clears away.
//!
//! A program that makes namespaces, mounts file systems and starts servers must leave nothing
//! behind, however it ends: Ctrl-C, a panic, `kill -9`. Handlers and destructors cannot promise
//! that; the kernel can. [`enter`] turns the calling process into three:
//!
//! - the **supervisor**, the process the user started. It waits, passes signals on, removes the
//!   scratch folder and ends with the worker's exit status;
//! - the **init**, PID 1 of a PID namespace of its own. It reaps orphans and ends when the worker
//!   does; with it the kernel kills every process in the namespace. It is killed when the supervisor
//!   dies;
//! - the **worker**, which returns from [`enter`]. It has a mount namespace, in which mounts vanish
//!   with the last process, and a scratch folder on a tmpfs there.
//!
//! An ordinary user gets all this in a user namespace that maps their uid to *itself*, not to root:
//! programs that refuse to be root run, and programs that are root there but cannot change their uid
//! (Apache) never arise. The capabilities over the namespace are raised to the ambient set, so that
//! started programs have them too (user_namespaces(7), capabilities(7)).

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

/// How long a command that was told to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// How long the worker may take: it waits for the command, and then has to clear up.
const WORKER_GRACE: Duration = Duration::from_secs(20);

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A thread was started before.
    #[error("the sandbox must be entered before any thread is started")]
    Threads,
    /// The kernel makes no namespace for this user.
    #[error("{}", no_namespaces(*.0))]
    NoUserNamespace(Errno),
    /// A step of setting up failed.
    #[error("cannot {what}: {error}")]
    Step {
        /// What was tried.
        what: String,
        /// What the system said.
        error: io::Error,
    },
}

/// That there are none, and what an administrator can change.
fn no_namespaces(errno: Errno) -> String {
    let says = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
    // More than are allowed (ENOSPC) root may change; what root may not do here, a container keeps from it.
    let allow = if geteuid().is_root() && errno != Errno::ENOSPC {
        return format!("root may not make namespaces here ({errno}); a container may with `--privileged`");
    } else if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "kernel.apparmor_restrict_unprivileged_userns=0"
    } else if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "kernel.unprivileged_userns_clone=1"
    } else {
        "user.max_user_namespaces=10000"
    };
    format!("this machine lets you make no namespaces ({errno}); allow it with `sysctl {allow}`, or run this as root")
}

fn step(what: impl Into<String>) -> impl FnOnce(Errno) -> SandboxError {
    |errno| SandboxError::Step { what: what.into(), error: errno.into() }
}

/// Proof that the process is inside a sandbox.
#[derive(Debug)]
pub struct Sandbox {
    scratch: PathBuf,
    signals: SigSet,
    asked: OnceLock<i32>,
}

impl Sandbox {
    /// An empty folder of the sandbox's own, on a tmpfs that vanishes with it.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Waits until `child` ends and returns its exit status as a shell does (128 + the number of the
    /// signal that ended it). Signals that are sent to us meanwhile it gets instead, and then has ten
    /// seconds to end; those from the terminal it has got already, and may do with as it likes.
    pub fn wait_for(&self, child: &std::process::Child) -> i32 {
        match attend(Pid::from_raw(child.id() as i32), &self.signals, GRACE, false) {
            Ended::By(signal) => 128 + signal as i32,
            Ended::With(status) => status,
        }
    }

    /// The number of the first signal that asked us to end while nobody waited for a child. For the time
    /// in which there is none; it costs a few system calls.
    pub fn termination_signal(&self) -> Option<i32> {
        let mut signals = self.signals;
        signals.remove(Signal::SIGCHLD);
        if self.asked.get().is_none()
            && let Ok(events) = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            && let Ok(Some(event)) = events.read_signal()
        {
            let _ = self.asked.set(event.ssi_signo as i32);
        }
        self.asked.get().copied()
    }

    /// Calls `f` with the number of each signal that asks us to end (SIGINT, SIGTERM, SIGHUP,
    /// SIGQUIT), on a thread of its own. The worker receives these in no other way: they are
    /// blocked.
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

/// Moves the calling process into a sandbox; see the module's page. Call it first thing in `main`.
///
/// Only the worker returns; the supervisor ends, with the worker's status, inside.
pub fn enter() -> Result<Sandbox, SandboxError> {
    if fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(SandboxError::Threads);
    }
    // SAFETY: no handler is set. Whoever started us may have us ignore the end of our children.
    unsafe { signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) }.map_err(step("hear of children that end"))?;
    // From here on the signals that ask us to end are taken up where somebody waits for them, in all
    // three processes. (Programs inherit that; `Host::attach` takes it from them.)
    let signals = heeded_signals();
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&signals), Some(&mut before)).map_err(step("block signals"))?;
    let result = Scratch::make().and_then(|scratch| {
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

/// The signals that ask us to end, without those that we were started to ignore (nohup(1)); and the one
/// that tells of a child's end. To block a signal is to hear it even if it is ignored.
fn heeded_signals() -> SigSet {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let asking = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
    asking.into_iter().filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0).chain([Signal::SIGCHLD]).collect()
}

/// Makes the namespaces and the processes; returns in the worker.
fn split(scratch: &Scratch, signals: SigSet) -> Result<Sandbox, SandboxError> {
    unshare_processes()?;
    // Its other end closes with the supervisor.
    let (alive, held_by_supervisor) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(step("make a pipe"))?;
    // SAFETY: the process has one thread.
    match unsafe { fork() }.map_err(step("start a process"))? {
        ForkResult::Parent { child } => {
            let status = attend(child, &signals, WORKER_GRACE, false);
            scratch.remove();
            end_with(status);
        }
        ForkResult::Child => {}
    }
    drop(held_by_supervisor);
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(step("tie the sandbox to its parent"))?;
    if read(&alive, &mut [0]) != Err(Errno::EAGAIN) {
        std::process::exit(1); // it died before the line above
    }
    furnish(&scratch.path)?;
    // SAFETY: as above.
    match unsafe { fork() }.map_err(step("start a process"))? {
        ForkResult::Parent { child } => end_with(attend(child, &signals, WORKER_GRACE, true)),
        ForkResult::Child => {}
    }
    Ok(Sandbox { scratch: scratch.path.clone(), signals, asked: OnceLock::new() })
}

/// A PID namespace for the processes to come; without root, in a user namespace that maps the user to
/// themselves.
fn unshare_processes() -> Result<(), SandboxError> {
    if geteuid().is_root() && unshare(CloneFlags::CLONE_NEWPID).is_ok() {
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

/// Lets the programs we start have our capabilities over the namespaces. They reach no further.
fn raise_ambient_capabilities() -> Result<(), SandboxError> {
    let all = caps::read(None, caps::CapSet::Permitted);
    let raised = all.and_then(|all| {
        caps::set(None, caps::CapSet::Inheritable, &all)?;
        caps::set(None, caps::CapSet::Ambient, &all)
    });
    raised.map_err(|error| SandboxError::Step { what: "raise capabilities".into(), error: io::Error::other(error) })
}

/// A mount namespace of our own: nothing we mount is seen outside, /proc shows our processes, the
/// scratch folder is a tmpfs. The supervisor stays out of it: it could not remove the folder under
/// a mount that it sees.
fn furnish(scratch: &Path) -> Result<(), SandboxError> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS).map_err(SandboxError::NoUserNamespace)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).map_err(step("make mounts private"))?;
    // In a container whose /proc is masked this is refused, and nothing of ours depends on it.
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

/// Ends like a process of ours; one that was killed could not say why there is no result.
fn end_with(ended: Ended) -> ! {
    std::process::exit(match ended {
        Ended::With(status) => status,
        Ended::By(signal) => {
            let _ = writeln!(io::stderr(), "haul: the run was ended by {signal}, and everything that it had started");
            1
        }
    })
}

/// Waits for `child`, passing on the signals that someone sent to us alone, and returns how it ended.
/// Signals from the terminal went to the whole process group, the child among it, already;
/// unless they came before there was a child.
fn attend(child: Pid, signals: &SigSet, grace: Duration, reap_all: bool) -> Ended {
    let Ok(events) = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else {
        return Ended::With(1);
    };
    let mut kill_at: Option<Instant> = None;
    let mut came_before_the_child = true;
    loop {
        while let Ok(Some(event)) = events.read_signal() {
            let sent_by_a_process = event.ssi_code <= 0;
            let signal = Signal::try_from(event.ssi_signo as i32);
            if let Ok(signal) = signal
                && signal != Signal::SIGCHLD
                && (sent_by_a_process || came_before_the_child)
            {
                let _ = kill(child, signal);
                kill_at.get_or_insert_with(|| Instant::now() + grace);
            }
        }
        came_before_the_child = false;
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

/// Whether the process may do what only root may: mount what the kernel restricts, use other uids.
pub fn is_root() -> bool {
    Uid::effective().is_root() && fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295"))
}
