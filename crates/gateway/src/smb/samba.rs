//! Samba's server as a process, and what it says.

use std::{collections::VecDeque, io, net::SocketAddr, path::Path, process::Stdio, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{SmbError, supervisor::Event};

/// How many lines to remember for an error.
const LAST: usize = 3;

/// A running smbd.
pub(super) struct Samba {
    child: Child,
    group: Pid,
}

/// Finds a program where Debian has it, even if an ordinary user's PATH lacks it.
pub(super) fn program(name: &'static str, package: &'static str) -> Result<std::path::PathBuf, SmbError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(usual);
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.is_file()));
    found.ok_or(SmbError::Missing(name, package))
}

impl Samba {
    /// Starts it. Its lines, and in the end its death, become events.
    pub(super) fn start(configuration: &Path, events: &mpsc::Sender<Event>) -> Result<Self, SmbError> {
        let smbd = program("smbd", "samba")?;
        let mut command = Command::new(&smbd);
        command.args(["--foreground", "--no-process-group", "--debug-stdout", "--configfile"]).arg(configuration);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0).kill_on_drop(true);
        let failed = |error| SmbError::File { what: "start", path: smbd.clone(), error };
        let mut child = command.spawn().map_err(failed)?;
        let group = Pid::from_raw(child.id().map_or(0, |id| id as i32));
        let stdout = child.stdout.take().ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let events = events.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = events.send(Event::Said(line)).await;
            }
        });
        Ok(Self { child, group })
    }

    /// Waits until it ends.
    pub(super) async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends it and its processes for clients, which close their files: that may take uploads.
    pub(super) async fn stop(mut self, limit: Duration) {
        let signal = |signal| {
            if self.group.as_raw() > 1 {
                let _ = killpg(self.group, signal);
            }
        };
        signal(Signal::SIGTERM);
        let is_over = async {
            let _ = self.child.wait().await;
            while killpg(self.group, None).is_ok() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        if timeout(limit, is_over).await.is_err() {
            signal(Signal::SIGKILL);
        }
    }
}

/// Waits until somebody listens there.
pub(super) async fn wait_until_it_listens(address: SocketAddr) {
    while TcpStream::connect(address).await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
}

/// The last lines that Samba has said, for an error.
#[derive(Default)]
pub(super) struct Said(VecDeque<String>);

impl Said {
    pub(super) fn push(&mut self, line: &str) {
        // The header of a message names a source file.
        let text = line.trim();
        if !text.is_empty() && !text.starts_with('[') {
            self.0.push_back(text.chars().take(200).collect());
            if self.0.len() > LAST {
                self.0.pop_front();
            }
        }
    }

    pub(super) fn text(&self) -> String {
        let lines: Vec<_> = self.0.iter().map(String::as_str).collect();
        if lines.is_empty() { String::new() } else { format!(": {}", lines.join("; ")) }
    }
}

/// The user and the status of a login that failed, by a line of Samba's class `auth_audit`:
/// `Auth: [SMB2,(null)] user [DOMAIN]\[ann] at […] with [NTLMv2] status [NT_STATUS_WRONG_PASSWORD] …`.
pub(super) fn failed_login(line: &str) -> Option<(String, String)> {
    let line = line.trim().strip_prefix("Auth: ")?;
    let (_, user) = line.split_once("\\[")?;
    let (user, rest) = user.split_once(']')?;
    let (_, status) = rest.split_once("status [")?;
    let (status, _) = status.split_once(']')?;
    (status != "NT_STATUS_OK").then(|| (user.chars().take(64).collect(), status.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_login_is_found_in_the_log() {
        let line = "  Auth: [SMB2,(null)] user [WORKGROUP]\\[carol] at [Tue, 24 Nov 2026 14:00:00.1 UTC] with [NTLMv2] status \
            [NT_STATUS_NO_SUCH_USER] workstation [X] remote host [ipv4:127.0.0.1:4]";
        assert_eq!(failed_login(line), Some(("carol".into(), "NT_STATUS_NO_SUCH_USER".into())));
        assert_eq!(failed_login(&line.replace("NO_SUCH_USER", "OK")), None);
        assert_eq!(failed_login("[2026/11/24 14:00:00.1,  0] ../../source3/smbd/server.c:1741(main)"), None);
    }

    #[test]
    fn error_has_the_last_lines() {
        let mut said = Said::default();
        assert_eq!(said.text(), "");
        for line in ["[2026/11/24, 0] x.c:1(main)", "  one", "", "two", "three", "  four"] {
            said.push(line);
        }
        assert_eq!(said.text(), ": two; three; four");
    }
}
