//! The vault: what each user of the SMB gateway shows the WebDAV server.
//!
//! WebDAV clients send their password to the gateway, which passes it on. SMB clients never do: NTLM proves that a user
//! knows a password without revealing it. So the gateway needs a stored password or token of each user, and whoever can
//! read it is this user at the server. The vault keeps it encrypted, and the key elsewhere: in a systemd credential, or
//! in a file of its own, which a backup of the vault does not include.
//!
//! # Records
//! One file for each user, `NAME.sealed`, replaced by an atomic rename, so that two enrolments at once do not disturb
//! each other and a crash leaves the old record or the new one:
//!
//! ```text
//! haul-vault-1\n | nonce, 24 bytes | XChaCha20-Poly1305(JSON), 16 bytes longer
//! ```
//!
//! The user's name is associated data. A record copied over another user's does not open, so nobody who can write to the
//! vault, but has no key, gets another user's identity. XChaCha20 has nonces of 192 bits, which may be drawn at random.
//!
//! # What it does not do
//! Whoever has the key and the vault has all passwords, and so has root on a running gateway. An old record of the
//! same user, put back, opens: the server decides whether its password is still valid.

use std::{
    fmt,
    fs::{self, File},
    io::{self, ErrorKind, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use haul_http::auth::Secret;
use output::durable;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

const MAGIC: &[u8] = b"haul-vault-1\n";
const NONCE: usize = 24;
const SUFFIX: &str = ".sealed";
/// The largest record, in bytes.
const LARGEST: u64 = 64 * 1024;
/// The longest user name, as of Unix accounts.
const LONGEST_NAME: usize = 32;

/// Why the vault cannot be used. No message has a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The name is not one of a user.
    #[error("`{}` cannot be a user of the gateway; use up to 32 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter", .0.escape_debug())]
    Name(String),
    /// A file or folder of the vault, or the key.
    #[error("cannot {what} {}: {error}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Somebody else could read the key or the vault.
    #[error("{} can be read or changed by other users, so it is not used; `chmod {mode} {}`, and make {owner} its owner", path.display(), path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Its proper permissions.
        mode: &'static str,
        /// Its proper owner.
        owner: String,
    },
    /// The key file does not have a key.
    #[error("{} has no vault key: 32 bytes in base64", .0.display())]
    Key(PathBuf),
    /// There is no key.
    #[error("there is no vault key: {} does not exist; `haul gateway enroll` creates it", .0.display())]
    NoKey(PathBuf),
    /// The key is in the folder that it protects.
    #[error("the key {} is inside of the vault, so a copy of the vault would have it; put it elsewhere", .0.display())]
    KeyInside(PathBuf),
    /// The record was not made with this key for this user, or not as a whole.
    #[error(
        "the enrolment of {0} cannot be opened: its record is damaged, or was made for another user or with another key; enroll {0} again"
    )]
    Sealed(String),
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VaultError {
    move |error| VaultError::File { what, path: path.to_owned(), error }
}

/// The name of a user of the SMB gateway: it is safe as a file name, in `smb.conf`, and in `passwd(5)`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserName(String);

impl UserName {
    /// The name in lower case, as Samba compares it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for UserName {
    type Err = VaultError;

    fn from_str(text: &str) -> Result<Self, VaultError> {
        let name = text.to_ascii_lowercase();
        let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let is_valid = name.len() <= LONGEST_NAME
            && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
            && name.bytes().all(is_usual);
        if is_valid { Ok(Self(name)) } else { Err(VaultError::Name(text.chars().take(64).collect())) }
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a user shows the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Enrolment {
    /// A user name there, and a password.
    Password {
        /// The user's name at the server, which may differ from the name here.
        account: String,
        /// The password, or an app password.
        password: Secret,
    },
    /// A token for `Bearer`.
    Token {
        /// The user's name at the server, for the URL.
        account: String,
        /// The token.
        token: Secret,
    },
}

impl Enrolment {
    /// The user's name at the server.
    pub fn account(&self) -> &str {
        let (Self::Password { account, .. } | Self::Token { account, .. }) = self;
        account
    }

    fn secret(&self) -> &Secret {
        let (Self::Password { password: secret, .. } | Self::Token { token: secret, .. }) = self;
        secret
    }
}

/// An enrolment, as a record has it.
#[derive(Serialize, Deserialize)]
struct Record<'a> {
    account: String,
    scheme: Scheme,
    secret: std::borrow::Cow<'a, str>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Scheme {
    Password,
    Token,
}

/// The key of a vault.
pub struct VaultKey(Zeroizing<[u8; 32]>);

impl fmt::Debug for VaultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VaultKey")
    }
}

impl VaultKey {
    /// Reads a key file, which nobody else may read.
    pub fn read(path: &Path) -> Result<Self, VaultError> {
        Self::open(path, 0o077)
    }

    /// Reads a systemd credential. Where the unit has a `User=`, systemd lets this user read it by an access control list,
    /// which the group's permission bits show (systemd.exec(5)).
    pub fn read_credential(path: &Path) -> Result<Self, VaultError> {
        Self::open(path, 0o027)
    }

    fn open(path: &Path, exposed: u32) -> Result<Self, VaultError> {
        let file = File::open(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => VaultError::NoKey(path.to_owned()),
            _ => failed("read", path)(error),
        })?;
        let about = file.metadata().map_err(failed("read", path))?;
        if !about.is_file() {
            return Err(VaultError::Key(path.to_owned()));
        }
        private(path, &about, exposed, "600")?;
        let mut text = Zeroizing::new(Vec::with_capacity(128));
        (&file).take(128).read_to_end(&mut text).map_err(failed("read", path))?;
        let mut key = Zeroizing::new([0; 32]);
        match BASE64_STANDARD.decode_slice(text.trim_ascii(), key.as_mut_slice()) {
            Ok(32) => Ok(Self(key)),
            _ => Err(VaultError::Key(path.to_owned())),
        }
    }

    /// Creates a key file, unless there is one. It is whole from the moment on that it has its name.
    pub fn create(path: &Path) -> Result<(), VaultError> {
        let mut key = Zeroizing::new([0; 32]);
        SystemRandom::new().fill(key.as_mut_slice()).map_err(|_| VaultError::Random)?;
        let text = Zeroizing::new(format!("{}\n", BASE64_STANDARD.encode(key.as_slice())));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder_of_ours(folder)?;
        match durable::create(path, 0o600, text.as_bytes()) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            created => created.map_err(failed("create", path)),
        }
    }
}

/// Fails if another user than root or ourselves could read or change it.
fn private(path: &Path, about: &fs::Metadata, exposed: u32, mode: &'static str) -> Result<(), VaultError> {
    let own = rustix::process::geteuid().as_raw();
    if about.mode() & exposed == 0 && (about.uid() == own || about.uid() == 0) {
        return Ok(());
    }
    let owner = if own == 0 { "root".into() } else { format!("uid {own}") };
    Err(VaultError::Exposed { path: path.to_owned(), mode, owner })
}

fn folder_of_ours(path: &Path) -> Result<(), VaultError> {
    durable::create_folder(path).map_err(failed("create", path))
}

/// The vault: a folder, and its key.
#[derive(Debug)]
pub struct Vault {
    folder: PathBuf,
    key: VaultKey,
}

impl Vault {
    /// Opens a vault, and creates its folder if it is missing. `key_file` is where `key` comes from; it must be elsewhere.
    pub fn open(folder: &Path, key: VaultKey, key_file: &Path) -> Result<Self, VaultError> {
        folder_of_ours(folder)?;
        let folder = folder.canonicalize().map_err(failed("open", folder))?;
        private(&folder, &fs::metadata(&folder).map_err(failed("open", &folder))?, 0o077, "700")?;
        let key_path = key_file.canonicalize().map_err(failed("open", key_file))?;
        if key_path.starts_with(&folder) {
            return Err(VaultError::KeyInside(key_path));
        }
        Ok(Self { folder, key })
    }

    fn path(&self, user: &UserName) -> PathBuf {
        self.folder.join(format!("{user}{SUFFIX}"))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.key.0).into())
    }

    /// Stores a user's enrolment, in place of an earlier one.
    pub fn store(&self, user: &UserName, enrolment: &Enrolment) -> Result<(), VaultError> {
        let path = self.path(user);
        let record = Record {
            account: enrolment.account().to_owned(),
            scheme: match enrolment {
                Enrolment::Password { .. } => Scheme::Password,
                Enrolment::Token { .. } => Scheme::Token,
            },
            secret: enrolment.secret().reveal().into(),
        };
        let text = serde_json::to_vec(&record).map_err(|error| failed("write", &path)(error.into()))?;
        let text = Zeroizing::new(text);
        let mut nonce = [0; NONCE];
        SystemRandom::new().fill(&mut nonce).map_err(|_| VaultError::Random)?;
        let payload = Payload { msg: &text, aad: user.as_str().as_bytes() };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload).map_err(|_| VaultError::Random)?;
        let content = [MAGIC, &nonce, &sealed].concat();
        durable::replace(&path, 0o600, &content).map_err(failed("write", &path))
    }

    /// The enrolment of a user; `None` if there is none.
    pub fn load(&self, user: &UserName) -> Result<Option<Enrolment>, VaultError> {
        let path = self.path(user);
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed("read", &path))?,
        };
        let mut content = Vec::new();
        (&file).take(LARGEST).read_to_end(&mut content).map_err(failed("read", &path))?;
        self.unseal(user, &content).map(Some).ok_or_else(|| VaultError::Sealed(user.to_string()))
    }

    fn unseal(&self, user: &UserName, content: &[u8]) -> Option<Enrolment> {
        let (nonce, sealed) = content.strip_prefix(MAGIC)?.split_first_chunk::<NONCE>()?;
        let payload = Payload { msg: sealed, aad: user.as_str().as_bytes() };
        let text = Zeroizing::new(self.cipher().decrypt(&XNonce::from(*nonce), payload).ok()?);
        let Record { account, scheme, secret } = serde_json::from_slice(&text).ok()?;
        let secret = Secret::from(secret.into_owned());
        Some(match scheme {
            Scheme::Password => Enrolment::Password { account, password: secret },
            Scheme::Token => Enrolment::Token { account, token: secret },
        })
    }

    /// Removes the enrolment of a user, and returns whether there was one.
    pub fn remove(&self, user: &UserName) -> Result<bool, VaultError> {
        remove(&self.folder, user)
    }
}

/// Removes the enrolment of a user from a vault, for which no key is needed. Returns whether there was one.
pub fn remove(folder: &Path, user: &UserName) -> Result<bool, VaultError> {
    let path = folder.join(format!("{user}{SUFFIX}"));
    match fs::remove_file(&path) {
        Ok(()) => durable::sync(folder).map(|()| true).map_err(failed("remove", &path)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("remove", &path)(error)),
    }
}

/// The users that are enrolled, in order; none if there is no vault. No key is needed.
pub fn users(folder: &Path) -> Result<Vec<UserName>, VaultError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("read", folder))?,
    };
    let mut users = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed("read", folder))?.file_name();
        users.extend(name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok()));
    }
    users.sort();
    Ok(users)
}

#[cfg(test)]
mod tests;
