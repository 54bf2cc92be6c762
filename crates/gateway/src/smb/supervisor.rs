//! Carries out what `sessions` decides: starts and ends mounts, answers Samba's commands, watches its processes.

use std::{
    collections::HashMap,
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval, timeout},
};

use super::{
    Layout, SmbError, SmbGateway,
    accounts::Accounts,
    control::{LONGEST, Moment, Question},
    failed,
    mount_process::{Identity, MountProcess},
    samba::{Said, Samba, failed_login, wait_until_it_listens},
    sessions::{Action, Process, Sessions, Ticket},
    upstream,
};
use crate::vault::UserName;

/// How often to look for ended processes, changed enrolments and idle mounts.
const LOOK: Duration = Duration::from_secs(2);
/// How long Samba, and then the mounts, may take to end. The caller's sandbox allows 20 s in all.
const SAMBA_STOP: Duration = Duration::from_secs(9);
const MOUNTS_STOP: Duration = Duration::from_secs(9);
/// How long Samba may take to listen.
const SAMBA_START: Duration = Duration::from_secs(30);

/// What happens.
pub(super) enum Event {
    Asked(Question, oneshot::Sender<String>),
    Mounted(UserName),
    Ended(UserName, String),
    Said(String),
}

/// A mount that runs.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    record: Option<(u64, i64, i64)>,
}

struct Supervisor {
    gateway: SmbGateway,
    sessions: Sessions,
    events: mpsc::Sender<Event>,
    waiting: HashMap<Ticket, (UserName, Process, oneshot::Sender<String>)>,
    next_ticket: Ticket,
    mounts: HashMap<UserName, Running>,
    processes: HashMap<Process, OwnedFd>,
    said: Said,
}

impl SmbGateway {
    /// Serves until `stop`, or until Samba ends. `greet` is called when clients can connect.
    pub async fn run(self, stop: impl Future<Output = ()>, greet: impl FnOnce()) -> Result<(), SmbError> {
        let (events, mut happens) = mpsc::channel(64);
        let socket = Layout::socket(&self.settings.state);
        let _ = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(failed("listen on", &socket))?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).map_err(failed("listen on", &socket))?;
        let control = tokio::spawn(listen(listener, events.clone()));
        let address = self.settings.addresses.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let address = SocketAddr::new(address, self.settings.port);
        for address in self.listens_on() {
            TcpListener::bind(address).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => SmbError::Privileged(address),
                _ => SmbError::Listen(address, error),
            })?;
        }
        let mut samba = Samba::start(&self.configuration, &events)?;
        let mut supervisor = Supervisor {
            sessions: Sessions::new(self.settings.idle),
            gateway: self,
            events,
            waiting: HashMap::new(),
            next_ticket: 0,
            mounts: HashMap::new(),
            processes: HashMap::new(),
            said: Said::default(),
        };
        let mut greet = Some(greet);
        let listens = timeout(SAMBA_START, wait_until_it_listens(address));
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(stop, listens);
        let outcome = loop {
            tokio::select! {
                () = &mut stop => break Ok(()),
                status = samba.ended() => {
                    // What it has said last may still be on its way.
                    while let Ok(Some(event)) = timeout(Duration::from_millis(200), happens.recv()).await {
                        supervisor.handle(event);
                    }
                    break Err(SmbError::Samba(status, supervisor.said.text()));
                }
                listens = &mut listens, if greet.is_some() => match (listens, greet.take()) {
                    (Ok(()), Some(greet)) => greet(),
                    _ => break Err(SmbError::Samba(format!("it does not listen on {address}"), supervisor.said.text())),
                },
                Some(event) = happens.recv() => supervisor.handle(event),
                _ = looks.tick() => supervisor.look(),
            }
        };
        control.abort();
        samba.stop(SAMBA_STOP).await;
        supervisor.end_mounts(&mut happens).await;
        let _ = fs::remove_file(&socket);
        outcome
    }

    fn listens_on(&self) -> Vec<SocketAddr> {
        let settings = &self.settings;
        let all = [IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        let addresses = if settings.addresses.is_empty() { &all[..] } else { &settings.addresses };
        addresses.iter().map(|address| SocketAddr::new(*address, settings.port)).collect()
    }
}

impl Supervisor {
    fn handle(&mut self, event: Event) {
        let now = Instant::now();
        let actions = match event {
            Event::Asked(Question::Session(Moment::Begin, user, process), answer) => match self.identity(&user) {
                Ok(_) => {
                    self.next_ticket += 1;
                    self.waiting.insert(self.next_ticket, (user.clone(), process, answer));
                    self.sessions.begin(&user, process, self.next_ticket)
                }
                Err(why) => {
                    refuse(&user, answer, &why);
                    Vec::new()
                }
            },
            Event::Asked(Question::Session(Moment::End, user, process), answer) => {
                self.sessions.end(&user, process, now);
                let _ = answer.send("ok\n".into());
                Vec::new()
            }
            Event::Asked(Question::Status, answer) => {
                let mut users: Vec<_> = self.sessions.all().collect();
                users.sort();
                let lines: Vec<_> = users.into_iter().map(|(user, inside)| format!("{user} {inside}")).collect();
                let _ = answer.send(lines.join("\n"));
                Vec::new()
            }
            Event::Mounted(user) => {
                tracing::info!("the mount of {user} is there");
                self.sessions.mounted(&user, now)
            }
            Event::Ended(user, why) => {
                tracing::info!("the mount of {user} has ended: {why}");
                self.mounts.remove(&user);
                self.sessions.ended(&user, &why)
            }
            Event::Said(line) => {
                self.hear(&line);
                Vec::new()
            }
        };
        self.act(actions);
    }

    /// What the server is to be shown of a user: what they have enrolled, or, where users log in with Kerberos, a ticket.
    fn identity(&self, user: &UserName) -> Result<Identity, String> {
        if let Some(delegation) = &self.gateway.delegation {
            return Ok(Identity::Delegated(delegation.clone()));
        }
        let enrolment = self.gateway.settings.vault.load(user).map_err(|error| error.to_string())?;
        enrolment.map(Identity::Enrolled).ok_or_else(|| format!("not enrolled; run `haul gateway enroll {user}`"))
    }

    fn look(&mut self) {
        self.look_at_processes();
        let mut actions = self.sessions.tick(Instant::now());
        let is_changed = |(user, running): &(&UserName, &Running)| self.gateway.record(user) != running.record;
        let changed: Vec<_> = self.mounts.iter().filter(is_changed).map(|(user, _)| user.clone()).collect();
        for user in changed {
            let revoked = self.sessions.revoke(&user);
            if !revoked.is_empty() {
                tracing::warn!("the enrolment of {user} has changed; their sessions end");
            }
            actions.extend(revoked);
        }
        self.act(actions);
    }

    fn hear(&mut self, line: &str) {
        self.said.push(line);
        tracing::info!("smbd: {line}");
        let Some((user, status)) = failed_login(line) else { return };
        let is_enrolled = match user.parse::<UserName>() {
            Ok(user) => self.gateway.record(&user).is_some(),
            Err(_) => false,
        };
        let user = user.escape_debug();
        if self.gateway.delegation.is_some() {
            tracing::warn!("SMB login of {user} refused: only Kerberos tickets are taken here ({status})");
        } else if is_enrolled {
            tracing::warn!("SMB login of {user} refused: {status}");
        } else {
            tracing::warn!("SMB login of {user} refused: not enrolled; run `haul gateway enroll {user}` ({status})");
        }
    }

    fn act(&mut self, actions: Vec<Action>) {
        let mut actions = std::collections::VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            match action {
                Action::Start(user) => {
                    if let Err(why) = self.start(&user) {
                        actions.extend(self.sessions.ended(&user, &why));
                    }
                }
                Action::Stop(user) => {
                    let stop = self.mounts.get_mut(&user).and_then(|running| running.stop.take());
                    if let Some(stop) = stop {
                        let _ = stop.send(());
                    }
                }
                Action::Answer(ticket, verdict) => {
                    let Some((user, _, answer)) = self.waiting.remove(&ticket) else { continue };
                    match verdict {
                        Ok(()) => drop(answer.send("ok\n".into())),
                        Err(why) => refuse(&user, answer, &why),
                    }
                }
                Action::Watch(process) => self.watch(process),
                Action::Disconnect(process) => {
                    if let Some(pidfd) = self.processes.get(&process) {
                        let _ = pidfd_send_signal(pidfd, Signal::TERM);
                    }
                }
            }
        }
    }

    fn start(&mut self, user: &UserName) -> Result<(), String> {
        // Somebody may have enrolled a second user meanwhile.
        self.gateway.check_users().map_err(|error| error.to_string())?;
        let SmbGateway { settings, layout, .. } = &self.gateway;
        let record = self.gateway.record(user);
        let identity = self.identity(user)?;
        let account = match &identity {
            Identity::Enrolled(enrolment) => enrolment.account(),
            Identity::Delegated(_) => user.as_str(),
        };
        let ids = layout.accounts().add(user).map_err(|error| error.to_string())?;
        // Accounts of the system have no ticket of their own to use.
        if matches!(identity, Identity::Delegated(_)) && !Accounts::is_users(ids) {
            return Err("this is an account of the system; log in as another user".into());
        }
        let mount = MountProcess {
            user: user.clone(),
            program: settings.program.clone(),
            url: upstream(&settings.upstream, account),
            identity,
            point: layout.mounts().join(user.as_str()),
            cache: layout.path("cache").join(user.as_str()),
            ids,
            allow_other: nix::unistd::geteuid().is_root(),
            options: settings.mount_options.clone(),
        };
        let (stop, stopped) = oneshot::channel();
        self.mounts.insert(user.clone(), Running { stop: Some(stop), record });
        tokio::spawn(mount.run(self.events.clone(), stopped));
        Ok(())
    }

    fn watch(&mut self, process: Process) {
        if self.processes.contains_key(&process) {
            return;
        }
        match Pid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            Some(pidfd) => drop(self.processes.insert(process, pidfd)),
            None => self.process_ended(process),
        }
    }

    /// Notices processes that have ended: their descriptors are readable (pidfd_open(2)).
    fn look_at_processes(&mut self) {
        let processes: Vec<_> = self.processes.keys().copied().collect();
        let mut polled: Vec<_> =
            processes.iter().map(|process| PollFd::new(self.processes[process].as_fd(), PollFlags::POLLIN)).collect();
        let _ = poll(&mut polled, PollTimeout::ZERO);
        let is_over = |polled: &PollFd| polled.any().unwrap_or(false);
        let ended: Vec<_> =
            processes.iter().zip(&polled).filter(|(_, polled)| is_over(polled)).map(|(process, _)| *process).collect();
        for process in ended {
            self.process_ended(process);
        }
    }

    fn process_ended(&mut self, process: Process) {
        self.processes.remove(&process);
        self.waiting.retain(|_, (_, waiting, _)| *waiting != process);
        self.sessions.process_ended(process, Instant::now());
    }

    async fn end_mounts(&mut self, happens: &mut mpsc::Receiver<Event>) {
        for running in self.mounts.values_mut() {
            if let Some(stop) = running.stop.take() {
                let _ = stop.send(());
            }
        }
        let all = async {
            while !self.mounts.is_empty() {
                if let Some(Event::Ended(user, _)) = happens.recv().await {
                    self.mounts.remove(&user);
                }
            }
        };
        if timeout(MOUNTS_STOP, all).await.is_err() {
            tracing::warn!("{} mounts do not end; they are killed", self.mounts.len());
        }
    }
}

fn refuse(user: &UserName, answer: oneshot::Sender<String>, why: &str) {
    tracing::warn!("{user} refused: {why}");
    let _ = answer.send(format!("{why}\n"));
}

/// Accepts questions.
async fn listen(listener: UnixListener, events: mpsc::Sender<Event>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(converse(stream, events.clone()))),
            // Out of descriptors: later there are some.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn converse(mut stream: UnixStream, events: mpsc::Sender<Event>) {
    let (from, mut to) = stream.split();
    let mut line = String::new();
    let read = BufReader::new(from.take(LONGEST)).read_line(&mut line).await;
    let question = read.ok().and_then(|_| Question::parse(&line));
    let Some(question) = question else {
        let _ = to.write_all(b"not a question\n").await;
        return;
    };
    let (answer, answered) = oneshot::channel();
    if events.send(Event::Asked(question, answer)).await.is_ok()
        && let Ok(text) = answered.await
    {
        let _ = to.write_all(text.as_bytes()).await;
    }
}
