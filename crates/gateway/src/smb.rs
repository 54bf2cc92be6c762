//! SMB in front: Samba, over a mount of each user's own.
//!
//! Samba serves one share whose folder differs from user to user. Each user's folder is a mount of the WebDAV server with
//! that user's own credentials, from the [vault]. So the server knows who does what, and decides what
//! each of them may do; the gateway has no account of its own there.
//!
//! # The path of a session
//! ```text
//! SMB client ──> smbd, one process per client ──> mounts/ann, a FUSE mount ──> haul mount ──> WebDAV server, as ann
//!                  │ root preexec                                                  │
//!                  └──> haul gateway smb-session begin ann PID ──> the supervisor ─┘ starts, ends, replaces it
//! ```
//!
//! Samba authenticates the user against a password database of its own (`pdbedit`), and runs the `root preexec` command
//! before it lets the user into the share. That command asks the supervisor over a Unix socket, which answers when the
//! user's mount is there, or refuses. `sessions` decides, `supervisor` carries it out. A mount is a process of its own, so
//! one user's trouble is not another's, and it is told its one credential by a pipe and nothing else: no settings file, no
//! `~/.netrc`, no keyring of whoever runs the gateway can stand in for it.
//!
//! # Users without an enrolment
//! Where the site has Kerberos, `kerberos` obtains a ticket to the WebDAV server in the name of a user who has logged in, and
//! their mount shows the server that. It is refused or granted by the KDC; no other account stands in.
//!
//! # What the kernel does
//! The gateway runs in namespaces: of processes, so that nothing outlives it, and of mounts, so that the users' mounts
//! are its own, and that the users' Unix accounts exist for it alone (`accounts`). The caller creates them.
//!
//! # What was rejected
//! - One mount for all with Samba's `force user`: all users would be one at the server, which this exists to avoid.
//! - `smbd` with `pam_exec` to catch passwords: with NTLM, PAM never sees one.
//! - A VFS module in Samba: its interface changes with each version.

mod accounts;
mod configuration;
mod control;
mod kerberos;
mod mount_process;
mod passwords;
mod samba;
mod sessions;
mod supervisor;

use std::{
    fs::{self, DirBuilder, File, Permissions},
    io,
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haul_http::Origin;
use nix::unistd::geteuid;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::vault::{self, UserName, Vault, VaultError};
pub use configuration::Encryption;
pub use control::{Moment, ask, status};
pub use passwords::{Passwords, add_account, exec_with_accounts};

use accounts::Accounts;
use configuration::{Configuration, KerberosLogins};
use kerberos::Delegation;

/// Why there is no SMB gateway.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SmbError {
    /// A name that `smb.conf` cannot have.
    #[error("`{}` cannot be the name of a share; use letters, digits, `.`, `_` and `-`", .0.escape_debug())]
    Share(String),
    /// A path that `smb.conf` cannot have.
    #[error("{} cannot be used by Samba; use an absolute path of letters, digits and `/._-+@,`", .0.display())]
    Path(PathBuf),
    /// The URL has something else in braces than the user.
    #[error(
        "write the URL of the server's folder, with `{{user}}` in place of the user, like https://dav.example.org/files/{{user}}/"
    )]
    Upstream,
    /// A file.
    #[error("cannot {what} {}: {error}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A step that needs a namespace.
    #[error("cannot {0}: {1}")]
    Namespace(String, io::Error),
    /// Another gateway uses the state folder.
    #[error("another gateway runs with the state folder {}; stop it, or use another folder", .0.display())]
    Running(PathBuf),
    /// All uids are taken.
    #[error("all 30000 user ids of the gateway are taken")]
    TooManyUsers,
    /// Without root there is one uid, which does not keep users apart.
    #[error(
        "without root all users would have one uid, so the gateway serves one user, and enrolled are {0}; remove the others, use \
        another --state for each, or sudo"
    )]
    OneUser(String),
    /// Without root there is no uid for each user of a realm.
    #[error("Kerberos lets all users of a realm in, each with a user id of their own, and that needs root; use sudo")]
    KerberosNeedsRoot,
    /// A ticket must not be readable on its way.
    #[error("Kerberos tickets are not sent to {0} without TLS; use https")]
    Cleartext(Origin),
    /// The keytab lacks a key, or others can read it.
    #[error("cannot use the keytab {}: {why}", path.display())]
    Keytab {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        why: String,
    },
    /// The vault cannot be read.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// A program of Samba is missing.
    #[error("{0} is not installed; apt-get install {1}")]
    Missing(&'static str, &'static str),
    /// Samba's password database.
    #[error("pdbedit cannot {what} the SMB password of {user}: {said}")]
    Password {
        /// What was tried.
        what: &'static str,
        /// Whose.
        user: String,
        /// What it said.
        said: String,
    },
    /// Another program listens there. Samba itself would go on without listening.
    #[error("cannot listen on {0}: {1}; is Debian's own smbd running? `systemctl disable --now smbd`")]
    Listen(SocketAddr, io::Error),
    /// Ports of the system.
    #[error(
        "cannot listen on {0}: ports below 1024 need root; use sudo, or --port 4450 with clients that can be told a port"
    )]
    Privileged(SocketAddr),
    /// Samba has ended.
    #[error("smbd has ended ({0}){1}")]
    Samba(String, String),
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SmbError {
    move |error| SmbError::File { what, path: path.to_owned(), error }
}

/// The folders of a gateway.
#[derive(Debug, Clone)]
struct Layout {
    state: PathBuf,
}

impl Layout {
    /// Creates the folders. Users' processes go through `mounts`; everything else is the gateway's own.
    fn create(state: &Path) -> Result<Self, SmbError> {
        configuration::plain(state)?;
        let layout = Self { state: state.to_owned() };
        let mut folders = vec![(layout.state.clone(), 0o711), (layout.mounts(), 0o711), (layout.samba(), 0o711)];
        folders.push((layout.path("cache"), 0o700));
        folders.push((layout.tickets(), 0o700));
        folders.push((layout.path("accounts"), 0o755));
        for name in configuration::FOLDERS {
            folders.push((layout.samba().join(name), if name == "private" { 0o700 } else { 0o755 }));
        }
        if let Some(parent) = state.parent() {
            fs::create_dir_all(parent).map_err(failed("create", parent))?;
        }
        for (folder, mode) in folders {
            match DirBuilder::new().create(&folder) {
                Ok(()) => fs::set_permissions(&folder, Permissions::from_mode(mode)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder == layout.state => {
                    // A state folder that systemd or an enrolment has made.
                    fs::set_permissions(&folder, Permissions::from_mode(mode))
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(error),
            }
            .map_err(failed("create", &folder))?;
        }
        Ok(layout)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.state.join(name)
    }

    fn samba(&self) -> PathBuf {
        self.path("samba")
    }

    fn mounts(&self) -> PathBuf {
        self.path("mounts")
    }

    fn tickets(&self) -> PathBuf {
        self.path("tickets")
    }

    fn accounts(&self) -> Accounts {
        Accounts::new(&self.path("accounts"))
    }

    fn socket(state: &Path) -> PathBuf {
        state.join("control")
    }
}

/// Settings of an SMB gateway.
#[derive(Debug)]
pub struct Settings {
    /// The folder for everything that the gateway keeps.
    pub state: PathBuf,
    /// What each user shows the server.
    pub vault: Vault,
    /// The folder of [`vault`](Self::vault), in which records change.
    pub vault_folder: PathBuf,
    /// The `haul` program, of which each mount is a process.
    pub program: PathBuf,
    /// The server's folder, with `{user}` in place of the user's name there.
    pub upstream: String,
    /// The name of the share.
    pub share: String,
    /// The addresses to listen on; none for all.
    pub addresses: Vec<IpAddr>,
    /// The TCP port.
    pub port: u16,
    /// Whether clients must encrypt.
    pub encryption: Encryption,
    /// The keytab of the gateway's Kerberos principal, with which users need no enrolment.
    pub kerberos: Option<PathBuf>,
    /// How long a mount outlives its last session.
    pub idle: Duration,
    /// Options of `haul mount`.
    pub mount_options: Vec<String>,
}

/// The URL of a user's folder.
fn upstream(template: &str, account: &str) -> String {
    template.replace("{user}", &utf8_percent_encode(account, NON_ALPHANUMERIC).to_string())
}

/// An SMB gateway that is not running yet.
pub struct SmbGateway {
    settings: Settings,
    layout: Layout,
    configuration: PathBuf,
    delegation: Option<Arc<Delegation>>,
    _lock: File,
}

impl SmbGateway {
    /// Creates folders and configuration, and shows this process the gateway's accounts in place of the machine's. The
    /// process must be in a mount namespace of its own.
    pub fn new(settings: Settings) -> Result<Self, SmbError> {
        configuration::share_name(&settings.share)?;
        let url: http::Uri = upstream(&settings.upstream, "user").parse().map_err(|_| SmbError::Upstream)?;
        let is_http = matches!(url.scheme_str(), Some("http" | "https"));
        if !is_http || settings.upstream.contains('@') || url.query().is_some() || !url.path().ends_with('/') {
            return Err(SmbError::Upstream);
        }
        let program = configuration::plain(&settings.program)?.to_owned();
        let layout = Layout::create(&settings.state)?;
        let lock_path = layout.path("lock");
        let lock = File::options().create(true).append(true).open(&lock_path).map_err(failed("open", &lock_path))?;
        lock.try_lock().map_err(|_| SmbError::Running(settings.state.clone()))?;
        let state = configuration::plain(&settings.state)?;
        let delegation = match &settings.kerberos {
            Some(_) if !geteuid().is_root() => return Err(SmbError::KerberosNeedsRoot),
            Some(keytab) => {
                let origin = Origin::of(&url).map_err(|_| SmbError::Upstream)?;
                Some(Arc::new(Delegation::new(keytab, &origin, &layout.tickets())?))
            }
            None => None,
        };
        let add_user = format!("{program} gateway smb-account --state {state} --");
        let text = Configuration {
            samba: &layout.samba(),
            mounts: &layout.mounts(),
            share: &settings.share,
            addresses: &settings.addresses,
            port: settings.port,
            encryption: settings.encryption,
            begin: &format!("{program} gateway smb-session --state {state} begin"),
            end: &format!("{program} gateway smb-session --state {state} end"),
            is_root: nix::unistd::geteuid().is_root(),
            kerberos: delegation.as_deref().map(|delegation| KerberosLogins {
                keytab: delegation.keytab(),
                realm: delegation.realm(),
                add_user: &add_user,
            }),
        }
        .text();
        let path = layout.samba().join("smb.conf");
        fs::write(&path, text).map_err(failed("write", &path))?;
        let gateway = Self { settings, layout, configuration: path, delegation, _lock: lock };
        gateway.check_users()?;
        if let Some(delegation) = &gateway.delegation {
            delegation.hide()?;
        }
        let accounts = gateway.layout.accounts();
        accounts.create()?;
        accounts.show()?;
        Ok(gateway)
    }

    /// Without root, checks that there is one user at most.
    fn check_users(&self) -> Result<(), SmbError> {
        if geteuid().is_root() {
            return Ok(());
        }
        let users = vault::users(&self.settings.vault_folder)?;
        let names: Vec<_> = users.iter().map(UserName::as_str).collect();
        if names.len() > 1 { Err(SmbError::OneUser(names.join(", "))) } else { Ok(()) }
    }

    /// The record of a user, by which a change is noticed: its inode and its time.
    fn record(&self, user: &UserName) -> Option<(u64, i64, i64)> {
        use std::os::unix::fs::MetadataExt;
        let about = fs::metadata(self.settings.vault_folder.join(format!("{user}.sealed"))).ok()?;
        Some((about.ino(), about.mtime(), about.mtime_nsec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_is_one_segment_of_the_url() {
        assert_eq!(upstream("https://a/files/{user}/", "ann@b.org"), "https://a/files/ann%40b%2Eorg/");
        assert_eq!(upstream("https://a/{user}/", "../../x"), "https://a/%2E%2E%2F%2E%2E%2Fx/");
        assert_eq!(upstream("https://a/", "ann"), "https://a/");
    }
}
