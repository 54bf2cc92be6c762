//! A host: a network namespace with its own TCP stack.
//!
//! Our own code runs on a host in a thread that has entered the namespace ([`Host::thread`]). A network namespace belongs
//! to a thread, so threads of one process can be on different hosts. Programs enter it between fork and exec
//! ([`Host::attach`]).

#![expect(unsafe_code, reason = "`Command::pre_exec`, which makes only a few system calls")]

use std::{
    fs::File,
    io,
    net::IpAddr,
    os::{fd::AsFd, unix::process::CommandExt},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use nix::{
    sched::{CloneFlags, setns, unshare},
    sys::{
        prctl,
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
    },
};

use crate::netlink;

/// What failed on a host.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} on host `{host}`: {error}")]
pub struct HostError {
    host: String,
    what: String,
    error: io::Error,
}

impl HostError {
    pub(crate) fn new(host: &str, what: impl Into<String>, error: io::Error) -> Self {
        Self { host: host.to_owned(), what: what.into(), error }
    }
}

/// A host. Clones are the same host; it disappears with the last clone and the last of its processes.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    namespace: File,
    /// The beginning of its devices' names.
    device_prefix: &'static str,
    devices: AtomicUsize,
    has_default_route: AtomicBool,
}

impl Host {
    /// A new host with only a loopback device. Needs root, or CAP_SYS_ADMIN in the user namespace: call
    /// [`crate::sandbox::enter`] first.
    pub fn new(name: &str) -> Result<Self, HostError> {
        let make = || -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let namespace = File::open("/proc/thread-self/ns/net")?;
            silence();
            netlink::run(|net| async move { net.up("lo").await })?;
            Ok(namespace)
        };
        let namespace =
            thread::scope(|scope| scope.spawn(make).join().unwrap_or_else(|_| Err(io::Error::other("panic"))))
                .map_err(|error| HostError::new(name, "create a network namespace", error))?;
        Ok(Self(Arc::new(Inner {
            name: name.to_owned(),
            namespace,
            device_prefix: "eth",
            devices: AtomicUsize::new(0),
            has_default_route: AtomicBool::new(false),
        })))
    }

    /// The host on which the calling thread runs: at the end of a cable of another process. Its default route stays, and
    /// the name of its next device contains `number`.
    pub(crate) fn current(number: u16) -> Result<Self, HostError> {
        let namespace = File::open("/proc/thread-self/ns/net")
            .map_err(|error| HostError::new("outer", "open its network namespace", error))?;
        Ok(Self(Arc::new(Inner {
            name: "outer".to_owned(),
            namespace,
            device_prefix: "inner",
            devices: AtomicUsize::new(number.into()),
            has_default_route: AtomicBool::new(true),
        })))
    }

    /// Its name, for messages.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Starts a thread on this host that runs `f`.
    pub fn thread<T: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<thread::JoinHandle<T>> {
        // A thread that could not enter the namespace must not run `f`; the error is returned here.
        let (entered, wait) = std::sync::mpsc::channel();
        let host = self.clone();
        let handle = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let result = setns(host.0.namespace.as_fd(), CloneFlags::CLONE_NEWNET);
            let ok = result.is_ok();
            let _ = entered.send(result);
            ok.then(f).expect("a thread that could not enter its host is never joined")
        })?;
        match wait.recv() {
            Ok(Ok(())) => Ok(handle),
            Ok(Err(errno)) => Err(errno.into()),
            Err(_) => Err(io::Error::other("the thread ended early")),
        }
    }

    /// Runs `f` on this host, and returns its result.
    pub fn run<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        self.thread("host", f)?.join().map_err(|_| io::Error::other("the thread on the host panicked"))
    }

    /// Makes `command` start on this host. It unblocks all signals, since a sandbox's worker blocks some and programs
    /// inherit that, and kills the command when the calling process dies.
    pub fn attach(&self, command: &mut Command) {
        let host = self.clone();
        let parent = std::process::id();
        // SAFETY: these system calls are async-signal-safe, and the closure allocates nothing.
        unsafe {
            command.pre_exec(move || {
                setns(host.0.namespace.as_fd(), CloneFlags::CLONE_NEWNET)?;
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                if nix::libc::getppid() as u32 != parent {
                    return Err(nix::errno::Errno::ESRCH.into()); // the parent died in the meantime
                }
                Ok(())
            });
        }
    }

    /// Sets a sysctl of this host, such as `net.ipv4.tcp_fastopen`.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), HostError> {
        let path = sysctl_path(name);
        let text = value.to_owned();
        let written = self.run(move || std::fs::write(path, text)).and_then(|result| result);
        written.map_err(|error| HostError::new(self.name(), format!("set {name} to {value}"), error))
    }

    /// Reads a sysctl of this host.
    pub fn read_sysctl(&self, name: &str) -> Result<String, HostError> {
        let path = sysctl_path(name);
        let read = self.run(move || std::fs::read_to_string(path)).and_then(|result| result);
        read.map(|text| text.trim().to_owned())
            .map_err(|error| HostError::new(self.name(), format!("read {name}"), error))
    }

    /// Enables IP forwarding, for IPv6 only if the kernel has it.
    pub fn forward(&self) -> Result<(), HostError> {
        self.sysctl("net.ipv4.ip_forward", "1")?;
        match self.sysctl("net.ipv6.conf.all.forwarding", "1") {
            Err(error) if error.error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Adds a route to `network`/`prefix` through `gateway`.
    pub fn route(&self, network: IpAddr, prefix: u8, gateway: IpAddr) -> Result<(), HostError> {
        let what = format!("add a route to {network}/{prefix} through {gateway}");
        let done = self.run(move || netlink::run(|net| async move { net.route(network, prefix, gateway).await }));
        done.and_then(|result| result).map_err(|error| HostError::new(self.name(), what, error))
    }

    /// Sets the initial congestion window of this host's connections, in segments; the kernel's default is 10 (RFC 6928).
    /// It is the `initcwnd` of the existing routes, so connect the host's cables first.
    pub fn initial_window(&self, segments: u32) -> Result<(), HostError> {
        let what = format!("set the initial congestion window to {segments} segments");
        let done = self.run(move || netlink::run(|net| async move { net.initial_window(segments).await }));
        done.and_then(|result| result).map_err(|error| HostError::new(self.name(), what, error))
    }

    /// The name of the next device: eth0, eth1, …
    pub(crate) fn next_device(&self) -> String {
        format!("{}{}", self.0.device_prefix, self.0.devices.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether the caller's device gets the default route: true for the first caller.
    pub(crate) fn wants_default_route(&self) -> bool {
        !self.0.has_default_route.swap(true, Ordering::Relaxed)
    }
}

/// Keeps a new namespace from sending packets on its own (no link-local addresses, no router solicitations), and allows
/// everyone to ping.
fn silence() {
    // Errors are ignored: without IPv6 these settings do not exist, and a few extra packets do no harm.
    for (name, value) in [
        ("net.ipv6.conf.default.addr_gen_mode", "1"),
        ("net.ipv6.conf.default.router_solicitations", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
    ] {
        let _ = std::fs::write(sysctl_path(name), value);
    }
    let gid = nix::unistd::getegid();
    let range = if crate::sandbox::is_root() { "0 2147483647".to_owned() } else { format!("{gid} {gid}") };
    let _ = std::fs::write(sysctl_path("net.ipv4.ping_group_range"), range);
}

fn sysctl_path(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}
