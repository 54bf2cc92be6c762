//! The command on the server host.

use std::{
    error::Error,
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command},
    time::{Duration, Instant},
};

use link::{host::Host, sandbox::Sandbox};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How long the client waits for the server to listen on something.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the server may take to end when told to.
const GRACE: Duration = Duration::from_secs(2);

/// A running server command; dropping it ends it and what it started.
pub(crate) struct Server {
    shell: Child,
    command: String,
    host: Host,
}

impl Server {
    /// Starts `command` by sh.
    pub(crate) fn start(command: &str, host: &Host, equip: impl Fn(&mut Command)) -> Result<Self, Box<dyn Error>> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).process_group(0);
        equip(&mut shell);
        host.attach(&mut shell);
        let shell = shell.spawn().map_err(|error| format!("cannot run sh for the server: {error}"))?;
        Ok(Self { shell, command: command.to_owned(), host: host.clone() })
    }

    /// Waits until something on the host listens: a TCP socket, or a UDP socket that is bound. A server
    /// that needs neither, or longer, is not waited for any more, nor is one when we are asked to end.
    pub(crate) fn wait_until_it_listens(&mut self, sandbox: &Sandbox) -> Result<(), Box<dyn Error>> {
        let start = Instant::now();
        while start.elapsed() < PATIENCE && sandbox.termination_signal().is_none() && !self.host.run(someone_listens)? {
            // One that ends well may have left a daemon behind.
            if let Some(status) = self.shell.try_wait()?.filter(|status| !status.success()) {
                return Err(format!("the server command ended before it listened ({status}): {}", self.command).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if start.elapsed() >= PATIENCE {
            crate::say("nothing listens on the server host after 5 s; going on all the same");
        }
        Ok(())
    }
}

/// Whether a socket of the calling thread's host waits for clients (proc_net_tcp: state 0A is
/// LISTEN, 07 a UDP socket without a peer).
fn someone_listens() -> bool {
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")].iter().any(|(file, state)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        text.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some(state))
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.shell.id() as i32);
        let _ = killpg(group, Signal::SIGTERM);
        let start = Instant::now();
        while start.elapsed() < GRACE && matches!(self.shell.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.shell.wait();
    }
}
