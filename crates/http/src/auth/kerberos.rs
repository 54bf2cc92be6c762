//! Kerberos: the scheme `Negotiate` (RFC 4559) with service tickets from a credential cache.
//!
//! Only the half that a client of one server needs: it reads a ticket for `HTTP/HOST` from a file, and proves with each
//! request that it knows the ticket's session key. The KDC is left to MIT's or Heimdal's programs: `kinit` and `kvno` put
//! tickets into the file. So there is no C library, which a static binary could not load, and no `krb5.conf` to interpret.
//!
//! A ticket is for one host, and a token made of it is worthless elsewhere. On its way it is not: whoever could read it
//! could send it first, with a request of their own. So, like a password, it is sent over TLS and on loopback only, unless a
//! user says otherwise. And every sending of a request has a token of its own, retries too, because servers remember tokens and refuse a repeated
//! one as a replay.
//!
//! The file is read again when it changes: whoever renews tickets replaces it. `kinit` begins a new cache, without tickets for
//! servers, so the ticket that was used last goes on until it expires. A cache of somebody else is refused: what a program
//! has cached belongs to the first owner.
//!
//! Not supported: mutual authentication, since TLS authenticates the server; channel bindings (RFC 5929), which IIS can be
//! set to require; caches other than files (`DIR:`, `KEYRING:`, `KCM:`), from which `kvno --out-cache` copies a ticket;
//! session keys of other types than aes128- and aes256-cts-hmac-sha1-96, the ones that all KDCs have.

pub(super) mod ccache;
mod negotiate;

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::HeaderValue;
use time::OffsetDateTime;
use zeroize::Zeroizing;

use ccache::{Cache, Entry};

/// The service part of the names of web servers (RFC 4559 §4).
const SERVICE: &str = "HTTP";
/// In microseconds.
const SECOND: i128 = 1_000_000;
/// The largest cache to read, in bytes.
const MAX_CACHE_SIZE: u64 = 4 << 20;

/// Why a credential cache has no ticket for a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KerberosError {
    /// `KRB5CCNAME` names another kind of cache.
    #[error(
        "{0:?} is not a credential cache in a file; set KRB5CCNAME to FILE:PATH, and put a ticket there with `kvno --out-cache`"
    )]
    Kind(String),
    /// The file cannot be read.
    #[error("cannot read the credential cache {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: String,
    },
    /// The file belongs to another user of this machine.
    #[error("the credential cache {} is another user's; set KRB5CCNAME to one of your own", .0.display())]
    Foreign(PathBuf),
    /// The file is no cache.
    #[error("{} is not a Kerberos credential cache of version 4", .0.display())]
    Format(PathBuf),
    /// It has no ticket for the server.
    #[error("no ticket for {SERVICE}/{host} in {}; `kvno {SERVICE}/{host}` gets one", path.display())]
    NoTicket {
        /// The server.
        host: String,
        /// The file.
        path: PathBuf,
    },
    /// Its ticket for the server has expired.
    #[error("the ticket for {SERVICE}/{host} in {} expired at {at}", path.display())]
    Expired {
        /// The server.
        host: String,
        /// The file.
        path: PathBuf,
        /// When.
        at: String,
    },
    /// Somebody else has logged in.
    #[error("{} now has the tickets of {is}, and not of {was}; start again to act as {is}", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// Whose tickets were used.
        was: String,
        /// Whose tickets there are.
        is: String,
    },
    /// The session key is of a type that is not supported.
    #[error(
        "the ticket for {SERVICE}/{host} in {} has a session key of encryption type {encryption}, which is not supported; \
        `kvno -e aes256-cts-hmac-sha1-96` asks for another",
        path.display()
    )]
    Encryption {
        /// The server.
        host: String,
        /// The file.
        path: PathBuf,
        /// RFC 3961 §8.
        encryption: u16,
    },
    /// No token can be made of the ticket.
    #[error("the ticket for {SERVICE}/{host} in {} cannot be used: {why}", path.display())]
    Token {
        /// The server.
        host: String,
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

/// A file with Kerberos tickets. Clones share what they have read.
#[derive(Clone)]
pub struct Kerberos {
    path: PathBuf,
    /// Whose file it must be, or root's; none if anybody's will do.
    uid: Option<u32>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// What was read, of which version of the file.
    read: Option<(Version, Arc<Cache>)>,
    /// The cache whose ticket was used last.
    used: Option<Arc<Cache>>,
    /// Microseconds of the last authenticator.
    last: i128,
}

/// Device, inode, time and size, by which a changed file is noticed.
type Version = (u64, u64, i64, i64, u64);

impl Kerberos {
    /// The tickets in a file, which is read when it is needed.
    pub fn new(path: PathBuf) -> Self {
        Self { path, uid: None, state: Arc::default() }
    }

    /// The cache that `KRB5CCNAME` names, or MIT's default file, of the user `uid`. `variable` is `std::env::var_os` outside tests.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
        uid: u32,
    ) -> Result<Self, KerberosError> {
        let own = |path: PathBuf| Self { uid: Some(uid), ..Self::new(path) };
        let Some(name) = variable("KRB5CCNAME").filter(|name| !name.is_empty()) else {
            return Ok(own(format!("/tmp/krb5cc_{uid}").into()));
        };
        let text = name.to_str().ok_or_else(|| KerberosError::Kind(name.to_string_lossy().into_owned()))?;
        let path = match text.split_once(':') {
            Some(("FILE", path)) => path,
            None => text,
            Some((kind, _)) if kind.contains('/') => text,
            Some(_) => return Err(KerberosError::Kind(text.to_owned())),
        };
        Ok(own(path.into()))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose tickets they are, as in `ann@EXAMPLE.ORG`.
    pub fn owner(&self) -> Result<String, KerberosError> {
        Ok(self.cache()?.owner.to_string())
    }

    /// When the ticket for a web server ends.
    pub fn expires(&self, host: &str) -> Result<SystemTime, KerberosError> {
        let cache = self.current(host)?;
        Ok(cache.end_of(self.ticket(&cache, host, SystemTime::now())?))
    }

    /// The value of `Authorization` for one sending of a request to a web server.
    pub(super) fn authorization(&self, host: &str) -> Result<HeaderValue, KerberosError> {
        let cache = self.current(host)?;
        let entry = self.ticket(&cache, host, SystemTime::now())?;
        let unusable = |why: String| KerberosError::Token { host: host.to_owned(), path: self.path.clone(), why };
        let token = negotiate::token(entry, self.moment(cache.ahead)).map_err(|error| unusable(error.to_string()))?;
        let text = Zeroizing::new(format!("Negotiate {}", Zeroizing::new(STANDARD.encode(token)).as_str()));
        HeaderValue::from_str(&text).map_err(|error| unusable(error.to_string()))
    }

    /// The cache with a ticket for a web server: the file's, or else the one that was used last.
    fn current(&self, host: &str) -> Result<Arc<Cache>, KerberosError> {
        let now = SystemTime::now();
        let read = self.cache().and_then(|cache| self.ticket(&cache, host, now).map(drop).map(|()| cache));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (read, &state.used) {
            (Ok(cache), Some(used)) if !cache.owner.is_same(&used.owner) => Err(KerberosError::Owner {
                path: self.path.clone(),
                was: used.owner.to_string(),
                is: cache.owner.to_string(),
            }),
            (Ok(cache), _) => {
                state.used = Some(cache.clone());
                Ok(cache)
            }
            (Err(_), Some(used)) if self.ticket(used, host, now).is_ok() => Ok(used.clone()),
            (Err(error), _) => Err(error),
        }
    }

    /// The ticket for a web server, if it can be used.
    fn ticket<'a>(&self, cache: &'a Cache, host: &str, now: SystemTime) -> Result<&'a Entry, KerberosError> {
        let (host, path) = (host.to_owned(), self.path.clone());
        let found = cache.tickets(SERVICE, &host);
        let usable = found.iter().rev().find(|entry| negotiate::is_supported(entry.encryption));
        let Some(entry) = usable else {
            return Err(match found.last() {
                Some(entry) => KerberosError::Encryption { host, path, encryption: entry.encryption },
                None => KerberosError::NoTicket { host, path },
            });
        };
        let end = cache.end_of(entry);
        if end <= now {
            return Err(KerberosError::Expired { host, path, at: httpdate::fmt_http_date(end) });
        }
        Ok(entry)
    }

    /// The KDC's time, whose clock is so many seconds ahead, and a later one with each call, unless the clock was set back.
    fn moment(&self, ahead: i32) -> OffsetDateTime {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1000 + i128::from(ahead) * SECOND;
        state.last = if state.last > now + SECOND { now } else { now.max(state.last + 1) };
        OffsetDateTime::from_unix_timestamp_nanos(state.last * 1000).unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }

    fn cache(&self) -> Result<Arc<Cache>, KerberosError> {
        let failed = |error: io::Error| KerberosError::File { path: self.path.clone(), error: error.to_string() };
        // A pipe might wait for a writer.
        let open = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(&self.path);
        let mut file = open.map_err(failed)?;
        let about = file.metadata().map_err(failed)?;
        let version = (about.dev(), about.ino(), about.mtime(), about.mtime_nsec(), about.len());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cache)) = state.read.as_ref().filter(|(read, _)| *read == version) {
            return Ok(cache.clone());
        }
        // A pipe or a device may have no end.
        if !about.is_file() || about.len() > MAX_CACHE_SIZE {
            return Err(KerberosError::Format(self.path.clone()));
        }
        // Anybody may create a file in /tmp, and whoever has put tickets into it would be whom we act as.
        if self.uid.is_some_and(|uid| ![uid, 0].contains(&about.uid())) {
            return Err(KerberosError::Foreign(self.path.clone()));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        (&mut file).take(MAX_CACHE_SIZE + 1).read_to_end(&mut bytes).map_err(failed)?;
        let cache = Cache::parse(&bytes).ok_or_else(|| KerberosError::Format(self.path.clone()))?;
        let cache = Arc::new(cache);
        state.read = Some((version, cache.clone()));
        Ok(cache)
    }
}

impl PartialEq for Kerberos {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Kerberos {}

impl fmt::Debug for Kerberos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kerberos({})", self.path.display())
    }
}

#[cfg(test)]
mod tests;
