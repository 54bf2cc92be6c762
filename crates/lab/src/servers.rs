//! The servers of a race. Each sample starts its server in a folder of its own, with a generated configuration, and
//! removes both. The configuration of an installed server is neither read nor changed.
//!
//! A run needs little from a server: its address, the folder it serves (where the work is checked, below any protocol),
//! the number and protocols of its requests, and its version and settings for the record.

mod apache;
mod custom;
mod embedded;
mod nginx;
mod nginx_pages;
mod nginx_proxy;
mod pages;
mod request_log;
mod unbound;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::Duration,
};

use nix::unistd::{Gid, Uid};
use serve::Quirks;

use self::request_log::RequestLog;
pub use self::request_log::{Protocol, Requests};
pub(crate) use self::{nginx::NGINX, nginx_proxy::reverse_proxy};
use crate::{
    certs::{CertError, Certificates},
    custom::CustomServer,
    deadline::{Deadline, Stop},
    disturbance::tasks::IsServer,
    experiment::advice,
    process::{Daemon, Missing, ProcessError, ordinary_user},
    spawn::Spawn,
    work::Page,
};

/// The user of servers that ask for a password, which is the same.
pub const USER: &str = "lab";

/// The zone of the DNS servers.
pub const ZONE: &str = "example.test";

/// A version of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1, and the server offers nothing else.
    One,
    /// HTTP/2: by ALPN over TLS, with prior knowledge (RFC 9113, section 3.3) without.
    Two,
}

/// The parameters of a server.
pub struct Setup<'a> {
    /// Its host.
    pub host: &'a dyn Spawn,
    /// The address it listens on.
    pub address: SocketAddr,
    /// The certificates; without them it serves plain HTTP.
    pub certificates: Option<&'a Certificates>,
    /// The HTTP version it offers.
    pub http: Http,
    /// Whether it asks for [`USER`]'s password.
    pub asks: bool,
    /// The habits of another server, for the embedded one.
    pub quirks: Quirks,
    /// The recorded page to serve, if the work is to load one.
    pub page: Option<&'a Page>,
    /// A folder for all its files. If we are root, it is given to the user that the server runs as, who must be able to
    /// enter the folders above.
    pub scratch: &'a Path,
    /// The deadline of the start.
    pub deadline: Deadline,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It is not installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// It does not support the setup.
    #[error("{server} cannot serve this: {why}")]
    Unable {
        /// The server.
        server: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// It did not start, or exited at once.
    #[error("{server} did not start on {address}: {why}")]
    Start {
        /// The server.
        server: &'static str,
        /// Its address.
        address: SocketAddr,
        /// The reason, with what the server said.
        why: String,
    },
    /// Its folder could not be prepared.
    #[error("cannot prepare {server}'s {}: {source}", path.display())]
    Prepare {
        /// The server.
        server: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Certificates(#[from] CertError),
}

/// A kind of server.
pub trait Server: Send + Sync {
    /// Its name on the command line and in results.
    fn name(&self) -> &'static str;

    /// What it is, in one line.
    fn describe(&self) -> &'static str;

    /// A missing program or module, if any.
    fn missing(&self) -> Option<Missing>;

    /// Whether it supports PROPPATCH, which Windows needs for writing.
    fn proppatch(&self) -> bool {
        true
    }

    /// Whether its listings have names that begin with a dot.
    fn lists_hidden(&self) -> bool {
        true
    }

    /// Whether it answers for the hosts of recorded pages, and for nothing else.
    fn replays(&self) -> bool {
        false
    }

    /// Whether it waits before the responses of a recorded page as long as the recorded server did, and answers a
    /// conditional request with 304.
    fn thinks_and_validates(&self) -> bool {
        false
    }

    /// Whether it answers for names, and serves no files.
    fn resolves(&self) -> bool {
        false
    }

    /// Whether it can ask for a password.
    fn asks(&self) -> bool {
        false
    }

    /// Whether it can imitate the habits of another server.
    fn can_imitate(&self) -> bool {
        false
    }

    /// Whether it serves HTTPS.
    fn tls(&self) -> bool {
        true
    }

    /// Whether it has HTTP/3.
    fn http3(&self) -> bool {
        false
    }

    /// Its version, and settings that differ from the defaults, for the record.
    fn settings(&self) -> Vec<(String, String)>;

    /// Starts it, and waits until it is ready.
    fn start(&self, setup: &Setup) -> Result<Running, ServerError>;
}

/// All servers; the first that is installed is the race's default. nginx comes after the others because it lacks
/// PROPPATCH, which the model of Windows needs, and the tuned ones after these. The last three serve no files: two serve recorded pages, one is a DNS
/// server.
pub fn all() -> Vec<Box<dyn Server>> {
    vec![
        Box::new(apache::Apache { is_tuned: false }),
        Box::new(embedded::Embedded),
        Box::new(nginx::Nginx { is_tuned: false }),
        Box::new(apache::Apache { is_tuned: true }),
        Box::new(nginx::Nginx { is_tuned: true }),
        Box::new(pages::Pages),
        Box::new(nginx_pages::NginxPages),
        Box::new(unbound::Unbound),
    ]
}

/// The server of this name.
pub fn named(name: &str) -> Option<Box<dyn Server>> {
    all().into_iter().find(|server| server.name() == name)
}

/// Why an experiment has no server.
#[derive(Debug, thiserror::Error)]
pub enum ChooseError {
    /// There is no server of this name.
    #[error("unknown server `{name}`; {advice}")]
    Unknown {
        /// The name.
        name: String,
        /// The name that was probably meant, or all there are.
        advice: String,
    },
    /// None of the servers is installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The list of names is empty.
    #[error("the experiment names no server")]
    None,
}

/// The first of these servers that is installed, of ours and the user's `own`.
pub fn choose(names: &[String], own: &[Arc<CustomServer>]) -> Result<Box<dyn Server>, ChooseError> {
    let mut missing = ChooseError::None;
    for name in names {
        let theirs = own.iter().find(|server| server.name() == name);
        let theirs = theirs.map(|server| Box::new(server.clone()) as Box<dyn Server>);
        let Some(server) = theirs.or_else(|| named(name)) else {
            let ours = all();
            let names = own.iter().map(Server::name).chain(ours.iter().map(|server| server.name()));
            let advice = advice(name, names.collect::<Vec<_>>());
            return Err(ChooseError::Unknown { name: name.clone(), advice });
        };
        match server.missing() {
            None => return Ok(server),
            Some(program) => missing = program.into(),
        }
    }
    Err(missing)
}

/// The process of a server; dropping it stops the server.
enum Process {
    Daemon(Daemon),
    Embedded(embedded::Handle),
}

/// A running server; dropping it stops it, in bounded time.
pub struct Running {
    url: String,
    root: PathBuf,
    owner: Option<(Uid, Gid)>,
    /// None if it logs no requests.
    log: Option<RequestLog>,
    process: Process,
}

impl Running {
    /// The URL of its root, with a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder it serves.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The user that must own its files; `None` for the current user.
    pub fn owner(&self) -> Option<(Uid, Gid)> {
        self.owner
    }

    /// Counts requests from here on.
    pub fn mark(&mut self) {
        if let Some(log) = &mut self.log {
            log.mark();
        }
    }

    /// The requests, if it logs them, since the last [`mark`](Self::mark). Exact once the clients have ended, and
    /// so for a mount only after [`Prepared::finish`](crate::contenders::Prepared::finish):
    /// davfs2 releases its locks after a file is complete.
    pub fn requests(&self) -> Option<Requests> {
        self.log.as_ref().map(RequestLog::since_mark)
    }

    /// The processor time that it has used since it was started.
    pub fn processor_time(&self) -> Option<Duration> {
        match &self.process {
            Process::Daemon(daemon) => daemon.processor_time(),
            Process::Embedded(handle) => handle.processor_time(),
        }
    }

    /// What tells its threads from others.
    pub(crate) fn threads(&self) -> IsServer {
        match &self.process {
            Process::Daemon(daemon) => {
                let ours = daemon.group();
                Box::new(move |group, _| group == ours)
            }
            Process::Embedded(handle) => handle.is_thread(),
        }
    }

    /// Fails with the reason if it has exited.
    pub fn check(&mut self) -> Result<(), ProcessError> {
        match &mut self.process {
            Process::Daemon(daemon) => daemon.check(),
            Process::Embedded(handle) => handle.check(),
        }
    }

    /// Stops it.
    pub fn stop(self) {
        drop(self);
    }
}

fn url(setup: &Setup) -> String {
    format!("http{}://{}/", if setup.certificates.is_some() { "s" } else { "" }, setup.address)
}

/// The folders and files of a server, made in its scratch folder for the user it runs as.
struct Folder<'a> {
    server: &'static str,
    path: &'a Path,
    owner: Option<(Uid, Gid)>,
}

impl<'a> Folder<'a> {
    /// Creates the scratch folder, which the server's user can enter.
    fn new(server: &'static str, path: &'a Path) -> Result<Self, ServerError> {
        let this = Self { server, path, owner: ordinary_user() };
        fs::create_dir_all(path).map_err(|source| this.error(path, source))?;
        this.give(path)?;
        Ok(this)
    }

    /// Creates a folder in it.
    fn folder(&self, name: &str) -> Result<PathBuf, ServerError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(|source| self.error(&path, source))?;
        self.give(&path)?;
        Ok(path)
    }

    /// Writes a file in it, readable by the server alone.
    fn file(&self, name: &str, text: &str) -> Result<PathBuf, ServerError> {
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path.join(name);
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(|source| self.error(&path, source))?;
        self.give(&path)?;
        Ok(path)
    }

    /// Stores a certificate of the run, or several, and the key, and returns their files.
    fn certificates(&self, pem: &str, certificates: &Certificates) -> Result<(PathBuf, PathBuf), ServerError> {
        Ok((self.file("server.pem", pem)?, self.file("server.key", &certificates.key_pem)?))
    }

    fn give(&self, path: &Path) -> Result<(), ServerError> {
        let Some((uid, gid)) = self.owner else { return Ok(()) };
        nix::unistd::chown(path, Some(uid), Some(gid)).map_err(|errno| self.error(path, errno.into()))
    }

    fn error(&self, path: &Path, source: io::Error) -> ServerError {
        ServerError::Prepare { server: self.server, path: path.to_owned(), source }
    }
}

/// Starts a server program whose files `access.log`, `error.log` and `pid` are in its
/// scratch folder, and waits until it runs.
fn launch(
    server: &'static str,
    setup: &Setup,
    command: &mut Command,
    folder: &Folder,
    root: PathBuf,
) -> Result<Running, ServerError> {
    let scratch = setup.scratch;
    let failed = |error: ProcessError| ServerError::Start { server, address: setup.address, why: error.to_string() };
    let mut daemon = Daemon::start(setup.host, command, &scratch.join("output")).map_err(failed)?;
    wait_ready(server, setup, &mut daemon)?;
    let log = RequestLog::new(scratch.join("access.log"));
    Ok(Running { url: url(setup), root, owner: folder.owner, log: Some(log), process: Process::Daemon(daemon) })
}

/// Waits until a server program has written its PID file, as Apache and nginx do once they listen. Probing the address
/// would be less reliable, since another program might answer.
fn wait_ready(server: &'static str, setup: &Setup, daemon: &mut Daemon) -> Result<(), ServerError> {
    let failed = |why| ServerError::Start { server, address: setup.address, why };
    while fs::read_to_string(setup.scratch.join("pid")).unwrap_or_default().is_empty() {
        daemon.check().map_err(|error| failed(error.to_string()))?;
        if let Err(stop) = setup.deadline.check() {
            let why = match stop {
                Stop::TimedOut(time) => format!("it was not ready within {time:.0?}"),
                Stop::Cancelled => format!("it {stop}"),
            };
            let log = fs::read_to_string(setup.scratch.join("error.log")).unwrap_or_default();
            let said =
                log.lines().last().map_or("it logged nothing".to_owned(), |last| format!("it logged last: {last}"));
            return Err(failed(format!("{why}; {said}")));
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
