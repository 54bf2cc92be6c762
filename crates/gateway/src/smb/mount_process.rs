//! One user's mount: a `haul mount` of its own.

use std::{
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use futures_util::future::OptionFuture;
use nix::{
    mount::{MntFlags, umount2},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    kerberos::{Delegation, Ticket},
    supervisor::Event,
};
use crate::vault::{Enrolment, UserName};

/// How long a mount may take to be there, and to end.
const START: Duration = Duration::from_mins(1);
const STOP: Duration = Duration::from_secs(80);
const TOLD_TO_END: &str = "it was told to end";
/// What it says when it is there.
const MOUNTED: &str = "; Ctrl-C unmounts it";

/// What the server is shown of a user.
pub(super) enum Identity {
    /// What is in the vault.
    Enrolled(Enrolment),
    /// A Kerberos ticket that the gateway obtains.
    Delegated(Arc<Delegation>),
}

/// How to start a user's mount.
pub(super) struct MountProcess {
    pub(super) user: UserName,
    pub(super) program: PathBuf,
    pub(super) identity: Identity,
    pub(super) url: String,
    pub(super) point: PathBuf,
    pub(super) cache: PathBuf,
    pub(super) ids: (u32, u32),
    /// Whether Samba's processes have another uid than the mount.
    pub(super) allow_other: bool,
    pub(super) options: Vec<String>,
}

impl MountProcess {
    /// Runs the mount to its end, which `stop` brings about.
    pub(super) async fn run(self, events: mpsc::Sender<Event>, mut stop: oneshot::Receiver<()>) {
        let user = self.user.clone();
        let ticket = tokio::select! {
            ticket = self.ticket() => ticket,
            _ = &mut stop => Err(TOLD_TO_END.into()),
        };
        let why = match ticket {
            Ok(ticket) => match self.start(ticket.as_ref().map(Ticket::path)).await {
                Ok(child) => self.attend(child, ticket, &events, stop).await,
                Err(error) => format!("cannot start the mount: {error}"),
            },
            Err(why) => why,
        };
        let point = self.point;
        // Detaching does not wait for who still uses it.
        let _ = tokio::task::spawn_blocking(move || while umount2(&point, MntFlags::MNT_DETACH).is_ok() {}).await;
        let _ = events.send(Event::Ended(user, why)).await;
    }

    /// The user's Kerberos ticket.
    async fn ticket(&self) -> Result<Option<Ticket>, String> {
        match &self.identity {
            Identity::Enrolled(_) => Ok(None),
            Identity::Delegated(delegation) => delegation.ticket(&self.user).await.map(Some),
        }
    }

    async fn start(&self, ticket: Option<&Path>) -> io::Result<Child> {
        for folder in [&self.point, &self.cache] {
            std::fs::create_dir_all(folder)?;
        }
        let mut command = Command::new(&self.program);
        // Nothing of whoever runs the gateway may stand in for the user's credential.
        command.env_clear().env("HOME", &self.cache).env("USER", self.user.as_str());
        for name in ["PATH", "HAUL_LOG", "TMPDIR", "TZ"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        // Samba stores nothing in extended attributes (`configuration`), and asks for several of each file that it lists.
        command.args(["mount", "--foreground", "--umask", "077", "--no-xattr"]);
        let (uid, gid) = self.ids;
        command.args(["--uid", &uid.to_string(), "--gid", &gid.to_string()]);
        if self.allow_other {
            command.arg("--allow-other");
        }
        command.arg("--cache-dir").arg(self.cache.join("mount")).args(&self.options);
        if let Some(path) = ticket {
            command.env("KRB5CCNAME", format!("FILE:{}", path.display())).arg("--negotiate");
        }
        let input = match &self.identity {
            Identity::Delegated(_) => None,
            Identity::Enrolled(Enrolment::Password { account, password }) => {
                command.env("HAUL_USER", account).args(["--password-file", "/dev/stdin"]);
                Some(password)
            }
            // Only root and the gateway's own processes can read a process's environment.
            Identity::Enrolled(Enrolment::Token { token, .. }) => {
                command.env("HAUL_TOKEN", token.reveal());
                None
            }
        };
        command.arg(&self.url).arg(&self.point);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A Ctrl-C at the terminal is the supervisor's, which ends the mounts in order.
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn()?;
        if let (Some(mut to), Some(password)) = (child.stdin.take(), input) {
            to.write_all(password.reveal().as_bytes()).await?;
        }
        Ok(child)
    }

    /// Waits until the mount ends, and returns why. Meanwhile its ticket is renewed.
    async fn attend(
        &self,
        mut child: Child,
        ticket: Option<Ticket>,
        events: &mpsc::Sender<Event>,
        mut stop: oneshot::Receiver<()>,
    ) -> String {
        let Some(stderr) = child.stderr.take() else { return "it has no standard error".into() };
        let mut lines = BufReader::new(stderr).lines();
        let mut said = String::new();
        let wait = tokio::time::sleep(START);
        let is_renewed = ticket.is_some();
        let renewal = OptionFuture::from(ticket.map(Ticket::keep));
        tokio::pin!(wait, renewal);
        let (mut is_there, mut is_closed) = (false, false);
        loop {
            tokio::select! {
                line = lines.next_line(), if !is_closed => match line {
                    Ok(Some(line)) if line.ends_with(MOUNTED) => {
                        is_there = true;
                        let _ = events.send(Event::Mounted(self.user.clone())).await;
                    }
                    Ok(Some(line)) => {
                        tracing::info!("mount of {}: {line}", self.user);
                        line.trim_start_matches("haul: ").clone_into(&mut said);
                    }
                    Ok(None) | Err(_) => is_closed = true,
                },
                status = child.wait(), if is_closed || is_there => {
                    return match status {
                        Ok(status) if said.is_empty() => format!("the mount has ended ({status})"),
                        Ok(_) => said,
                        Err(error) => error.to_string(),
                    };
                }
                _ = &mut stop => break,
                _ = &mut renewal, if is_renewed => {}
                () = &mut wait, if !is_there => {
                    said = format!("the server did not answer within {} s", START.as_secs());
                    break;
                }
            }
        }
        // It releases its locks, and uploads what is left.
        if let Some(pid) = child.id() {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGTERM);
        }
        let read_on = async {
            while let Ok(Some(line)) = lines.next_line().await {
                tracing::info!("mount of {}: {line}", self.user);
            }
        };
        let ended = timeout(STOP, async { tokio::join!(child.wait(), read_on) }).await;
        if ended.is_err() {
            tracing::warn!("the mount of {} does not end; it is killed", self.user);
            let _ = child.kill().await;
        }
        if said.is_empty() { TOLD_TO_END.into() } else { said }
    }
}
