//! A session with one server: settings, credentials, and cached facts.
//!
//! With `--negotiate`, Kerberos tickets are the credentials. Otherwise the password comes from the most specific source: the
//! password file, the environment, `~/.netrc`, the kernel's keyring.
//! If there is none and the program runs on a terminal, it prompts: immediately if the user is known, otherwise if the
//! server requires authentication. That test costs a round trip, so it is done only on a terminal.

mod kerberos;
pub(super) mod location;
pub(crate) mod prompt;
pub(super) mod selection;
pub(super) mod server_cache;
pub(super) mod settings;

use std::{
    error::Error,
    io::{self, ErrorKind, IsTerminal},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use dav::{Dav, RemotePath, RetryLimit};
use haul_http::{
    Client, Origin, Versions,
    auth::{
        Authenticator, Credential, Credentials, Environment, Exposed, GiveUp, Keyring, Netrc, Secret, Userinfo,
        default_netrc,
    },
};
use transport::{FastOpen, stable_hash};

use crate::files::{
    options::{ConnectionOptions, TransferOptions},
    session::location::Remote,
    session::server_cache::{Confirmed, Server},
    session::settings::Settings,
};
use crate::{say, usage};

pub(crate) use settings::base as user_folder;

/// How long after a server's first failure a command with few requests still begins to wait for the next attempt.
const BRIEF: Duration = Duration::from_secs(5);

/// A session with one server.
pub(super) struct Session {
    pub(super) dav: Dav,
    pub(super) settings: Settings,
    /// The user name.
    pub(super) user: Option<String>,
    /// A hash of the user name, token or certificate: other identities may see other files under the same names.
    pub(super) who: u64,
    memory: Option<PathBuf>,
    known: Confirmed,
}

impl Session {
    /// Opens a session with the server of `remote`. Sends nothing yet, except for the test whether to prompt for a
    /// password.
    pub(super) async fn open(
        remote: &Remote,
        connection: &ConnectionOptions,
        transfer_options: &TransferOptions,
    ) -> Result<Self, Box<dyn Error>> {
        Self::with(Settings::of(&remote.origin, connection, transfer_options)?, remote, connection, None).await
    }

    /// Opens a session for a command with few requests, which share a limit on retries. Each is told on a terminal, or if
    /// the command `is_verbose`.
    pub(super) async fn brief(
        remote: &Remote,
        connection: &ConnectionOptions,
        is_verbose: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let mut settings = Settings::of(&remote.origin, connection, &TransferOptions::default())?;
        if settings.client.versions == Versions::Auto {
            settings.client.versions = Versions::Brief;
        }
        let is_told = is_verbose || io::stderr().is_terminal();
        let limit = RetryLimit::new(BRIEF, move |failure, pause| {
            if is_told {
                say(format_args!("{}; trying again in {} s", failure.summary(), pause.as_secs_f64().ceil()));
            }
        });
        Self::with(settings, remote, connection, Some(Arc::new(limit))).await
    }

    /// Opens a session for a mount: a call of a program ends after `--timeout`, instead of being retried.
    pub(super) async fn for_mount(remote: &Remote, connection: &ConnectionOptions) -> Result<Self, Box<dyn Error>> {
        let mut settings = Settings::of(&remote.origin, connection, &TransferOptions::default())?;
        settings.client.patience = Some(settings.client.timeouts.first_byte);
        if settings.client.versions == Versions::Auto {
            settings.client.versions = Versions::Brief;
        }
        Self::with(settings, remote, connection, None).await
    }

    async fn with(
        settings: Settings,
        remote: &Remote,
        connection: &ConnectionOptions,
        limit: Option<Arc<RetryLimit>>,
    ) -> Result<Self, Box<dyn Error>> {
        if connection.insecure {
            say("--insecure: anyone on the network path to the server can read and change everything");
        }
        let (mut credentials, mut user, found) = if settings.negotiate {
            let kerberos = kerberos::tickets(remote.origin.host()).await?;
            let user = kerberos.owner()?.split('@').next().map(str::to_owned);
            let mut credentials = Credentials::default();
            credentials.set(remote.origin.clone(), Credential::Kerberos(kerberos));
            (credentials, user, true)
        } else {
            credentials(remote, &settings)?
        };
        let client = |credentials: &Credentials| {
            Client::new(settings.client.clone(), Authenticator::new(credentials.clone(), settings.clear))
        };
        let dav = |client: Client| {
            let dav = Dav::new(client, remote.origin.clone());
            limit.iter().cloned().fold(dav, Dav::with_retry_limit)
        };
        if !found && prompt::possible() && settings.client.connect.tls.identity.is_none() {
            if user.is_none() && wants_a_password(&dav(client(&credentials)?), &remote.path).await {
                user =
                    Some(prompt::ask(&format!("User at {}: ", remote.origin)).await?).filter(|user| !user.is_empty());
            }
            if let Some(user) = &user {
                let password = prompt::ask_secret(&format!("Password of {user} at {}: ", remote.origin)).await?;
                credentials.set(remote.origin.clone(), Credential::Password { user: user.clone(), password });
            }
        }
        let (client, who) = (client(&credentials)?, who(&credentials, remote, &settings));
        let memory = server_cache::place();
        if let Some(known) = memory.as_deref().and_then(|path| server_cache::recall(path, &remote.origin)) {
            client.remember_pipelining(remote.origin.clone(), known.server.pipelining);
            client.remember_alt_svc(remote.origin.clone(), known.server.http3);
            client.paths().remember(known.ways);
        }
        let known = known(&client, &remote.origin);
        Ok(Self { dav: dav(client), settings, user, who, memory, known })
    }

    /// The URL of a path.
    pub(super) fn url(&self, path: &RemotePath) -> String {
        format!("{}{}", self.dav.requests().origin(), path.target())
    }
}

impl Drop for Session {
    /// Caches what was learned about the server, however the command ends.
    fn drop(&mut self) {
        let origin = self.dav.requests().origin();
        let known = known(self.dav.client(), origin);
        let private = self.settings.client.connect.fast_open == FastOpen::Private;
        if let Some(path) = self.memory.as_deref().filter(|_| known != self.known)
            && let Err(error) = server_cache::keep(path, origin, &known, private)
            // A read-only cache folder is no news.
            && !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
        {
            say(format_args!("cannot write {}, so the server will be tested again: {error}", path.display()));
        }
    }
}

/// What the client has learned.
fn known(client: &Client, origin: &Origin) -> Confirmed {
    let server = Server { pipelining: client.pipelining_history(origin), http3: client.alt_svc(origin) };
    Confirmed { server, ways: client.paths().all() }
}

fn who(credentials: &Credentials, remote: &Remote, settings: &Settings) -> u64 {
    let (kind, owner) = match credentials.get(&remote.origin) {
        Some(Credential::Password { user, .. }) => ("user", user.clone()),
        Some(Credential::Token(token)) => ("token", token.reveal().to_owned()),
        Some(Credential::Kerberos(kerberos)) => ("kerberos", kerberos.owner().unwrap_or_default()),
        None => ("nobody", String::new()),
    };
    let identity = settings.client.connect.tls.identity.as_ref();
    let certificate = identity.map(|identity| identity.certificate.as_os_str().as_bytes()).unwrap_or_default();
    stable_hash("longhaul.who/1", &[&kind, &owner, &certificate])
}

/// The credentials for a server, the user, and whether there are any credentials.
fn credentials(remote: &Remote, settings: &Settings) -> Result<(Credentials, Option<String>, bool), Box<dyn Error>> {
    let environment = Environment::read(|name| std::env::var_os(name))?;
    let netrc = match default_netrc() {
        Some(path) => warned(Netrc::read(&path)?),
        None => Netrc::default(),
    };
    let mut credentials = Credentials::new(netrc);
    let configured = || settings.user.clone().filter(|_| environment.token.is_none());
    let user = remote.user.clone().or_else(|| environment.user.clone()).or_else(configured);
    if let Some(path) = &settings.password_file {
        let Some(user) = user else {
            let host = remote.origin.host();
            return Err(usage(format_args!(
                "the password in {} needs a user; write USER@{host} in the URL, or set HAUL_USER",
                path.display()
            )));
        };
        let password = warned(Secret::read(path)?);
        credentials.set(remote.origin.clone(), Credential::Password { user: user.clone(), password });
        return Ok((credentials, Some(user), true));
    }
    let named = remote.user.clone().or_else(configured).map(|user| Userinfo { user, password: None });
    // Where the keyring cannot be used, nobody has put a password there.
    let keyring = |user: Option<&str>| Keyring::open().and_then(|keyring| keyring.find(&remote.origin, user)).ok()?;
    let found = credentials.admit(&remote.origin, named, &environment, keyring);
    let user = match credentials.get(&remote.origin) {
        Some(Credential::Password { user, .. }) => Some(user),
        _ => user,
    };
    Ok((credentials, user, found))
}

fn warned<T>((found, exposed): (T, Option<Exposed>)) -> T {
    if let Some(exposed) = exposed {
        say(exposed);
    }
    found
}

/// Whether the server requires authentication.
async fn wants_a_password(dav: &Dav, path: &RemotePath) -> bool {
    let answer = dav.options(path).await;
    matches!(answer, Err(dav::Error::Http(haul_http::Error::Credentials { why, .. })) if matches!(*why, GiveUp::Unknown { .. }))
}
