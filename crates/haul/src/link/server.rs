//! The command on a host other than the default one.

use std::{
    error::Error,
    fs, io,
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Child, Command},
    time::{Duration, Instant},
};

use link::{host::Host, sandbox::Sandbox};
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// Maximum time that the client waits until the server listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between SIGTERM and SIGKILL for the server.
const GRACE: Duration = Duration::from_secs(2);

/// A running server command. Dropping it ends the command and its process group.
pub(crate) struct Server {
    shell: Child,
    command: String,
    host: Host,
    /// The sockets that waited for clients before it.
    before: usize,
}

impl Server {
    /// Starts `command` with sh.
    pub(crate) fn start(command: &str, host: &Host, equip: impl Fn(&mut Command)) -> Result<Self, Box<dyn Error>> {
        let before = host.run(listeners)?;
        let mut shell = Command::new("sh");
        // Standard output is for the client's command alone, whose output may be parsed.
        let output = io::stderr().as_fd().try_clone_to_owned();
        let output = output.map_err(|error| format!("cannot share standard error with the server: {error}"))?;
        shell.arg("-c").arg(command).process_group(0).stdout(output);
        equip(&mut shell);
        host.attach(&mut shell);
        let shell = shell.spawn().map_err(|error| format!("cannot run sh on the host `{}`: {error}", host.name()))?;
        Ok(Self { shell, command: command.to_owned(), host: host.clone(), before })
    }

    /// Waits until a TCP socket on the host listens, or a UDP socket is bound. Ends early on a termination signal, and after
    /// [`LISTEN_TIMEOUT`] without an error: the server may need neither socket.
    pub(crate) fn wait_until_it_listens(&mut self, sandbox: &Sandbox) -> Result<(), Box<dyn Error>> {
        let start = Instant::now();
        while start.elapsed() < LISTEN_TIMEOUT
            && sandbox.termination_signal().is_none()
            && self.host.run(listeners)? <= self.before
        {
            // After exit status 0, a daemon may still start to listen.
            if let Some(status) = self.shell.try_wait()?.filter(|status| !status.success()) {
                let host = self.host.name();
                let command = &self.command;
                return Err(
                    format!("the command of the host `{host}` ended before it listened ({status}): {command}").into()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if start.elapsed() >= LISTEN_TIMEOUT {
            let host = self.host.name();
            crate::say(format_args!(
                "the command of the host `{host}` does not listen after 5 s; starting the command anyway"
            ));
        }
        Ok(())
    }

    fn group(&self) -> Pid {
        Pid::from_raw(self.shell.id() as i32)
    }

    /// Sends SIGTERM to the command's process group.
    pub(crate) fn terminate(&self) {
        let _ = killpg(self.group(), Signal::SIGTERM);
    }
}

/// The number of sockets on the calling thread's host that wait for clients (proc_net_tcp: state 0A is LISTEN, 07 a UDP
/// socket without a peer).
fn listeners() -> usize {
    let count = |(file, state): (&str, &str)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        text.lines().skip(1).filter(|line| line.split_whitespace().nth(3) == Some(state)).count()
    };
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")].into_iter().map(count).sum()
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = self.group();
        self.terminate();
        let start = Instant::now();
        while start.elapsed() < GRACE && matches!(self.shell.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.shell.wait();
    }
}
