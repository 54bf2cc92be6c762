//! Tickets for users who log in to Samba with Kerberos.
//!
//! The gateway's principal asks the KDC for a ticket to the WebDAV server in a user's name, without a ticket or password of
//! theirs: S4U2Self and S4U2Proxy (MS-SFU). The KDC decides for whom it grants that, and to which service. The server sees
//! the user, not the gateway.
//!
//! MIT's `kinit` and `kvno` do it. Nothing of the exchange is in Longhaul, and only [`Ticket`] comes back: a credential cache
//! with that one ticket, which the user's mount reads. It is in a folder of the gateway's own, on a file system in memory
//! that ends with the gateway's namespace.
//!
//! Each ticket gets a ticket-granting ticket of its own, which is discarded at once: `kvno` stores what it obtains in the
//! cache that it works with too, and so one user's ticket would be in another's.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, SystemTime},
};

use haul_http::{Origin, auth::Kerberos};
use nix::mount::{MsFlags, mount};
use tokio::{process::Command, time::timeout};

use super::{SmbError, configuration::plain, samba::program};
use crate::vault::UserName;

/// The package with the programs.
const PACKAGE: &str = "krb5-user";
/// How long one of them may take. Many clients wait 20 s.
const LIMIT: Duration = Duration::from_secs(15);
/// The shortest time between two attempts to renew a ticket, and the time between those to replace one that has expired.
const SHORTEST: Duration = Duration::from_secs(5);
const EXPIRED: Duration = Duration::from_mins(1);
/// Asked for, because it is among what every KDC has and what the client supports.
const SESSION_KEY: &str = "aes256-cts-hmac-sha1-96";

/// Obtains tickets for users.
#[derive(Debug)]
pub(super) struct Delegation {
    kinit: PathBuf,
    kvno: PathBuf,
    keytab: String,
    /// The gateway's, as in `cifs/gateway.example.org@EXAMPLE.ORG`, or its account.
    principal: String,
    realm: String,
    /// The server's host, for whose `HTTP` the tickets are.
    host: String,
    folder: PathBuf,
}

impl Delegation {
    /// With the keytab of the gateway's principal, for the server at `upstream`. Tickets are in `folder`, which must exist.
    pub(super) fn new(keytab: &Path, upstream: &Origin, folder: &Path) -> Result<Self, SmbError> {
        if !upstream.is_tls() && !upstream.is_loopback() {
            return Err(SmbError::Cleartext(upstream.clone()));
        }
        private(keytab)?;
        let (kinit, kvno) = (program("kinit", PACKAGE)?, program("kvno", PACKAGE)?);
        let principal = principal(keytab)?;
        let realm = principal.rsplit_once('@').map_or_else(String::new, |(_, realm)| realm.to_owned());
        let keytab = plain(keytab)?.to_owned();
        let host = upstream.host().to_owned();
        Ok(Self { kinit, kvno, keytab, principal, realm, host, folder: folder.to_owned() })
    }

    /// The keytab of the gateway's principal.
    pub(super) fn keytab(&self) -> &str {
        &self.keytab
    }

    /// The realm of the gateway's principal, and of its users.
    pub(super) fn realm(&self) -> &str {
        &self.realm
    }

    /// Puts the tickets into memory, for this process and those that it starts. The caller has a mount namespace of its own.
    pub(super) fn hide(&self) -> Result<(), SmbError> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("haul"), &self.folder, Some("tmpfs"), flags, Some("mode=700,size=64m"))
            .map_err(|errno| SmbError::Namespace(format!("mount {}", self.folder.display()), errno.into()))
    }

    /// Obtains a ticket for a user. The error says why there is none.
    pub(super) async fn ticket(self: &Arc<Self>, user: &UserName) -> Result<Ticket, String> {
        let path = self.folder.join(user.as_str());
        let mut ticket = Ticket { delegation: self.clone(), user: user.clone(), path, end: SystemTime::UNIX_EPOCH };
        ticket.renew().await.map_err(|why| {
            let (client, service) = (self.client(user), self.service());
            format!("there is no ticket for {client} to {service}: {why}")
        })?;
        Ok(ticket)
    }

    fn client(&self, user: &UserName) -> String {
        format!("{user}@{}", self.realm)
    }

    fn service(&self) -> String {
        format!("HTTP/{}@{}", self.host, self.realm)
    }

    async fn obtain(&self, user: &UserName, into: &Path) -> Result<SystemTime, String> {
        let client = self.client(user);
        // Neither is the name of a user: those have no `+`.
        let [own, new] = ["own", "new"].map(|suffix| Temporary(self.folder.join(format!("{user}+{suffix}"))));
        let own_name = format!("FILE:{}", own.0.display());
        let mut kinit = Command::new(&self.kinit);
        // Without -f, what S4U2Self returns may not be used for S4U2Proxy.
        kinit.args(["-f", "-k", "-t", &self.keytab, "-c", &own_name, &self.principal]);
        run(kinit, "kinit").await?;
        let mut kvno = Command::new(&self.kvno);
        kvno.env("KRB5CCNAME", &own_name);
        kvno.args(["-q", "-e", SESSION_KEY, "-k", &self.keytab, "-I", &client, "-P", "--out-cache"]);
        kvno.arg(format!("FILE:{}", new.0.display())).arg(self.service());
        run(kvno, "kvno").await?;
        // It must be what was asked for: the mount acts in its name. Active Directory writes the name as the account has it.
        let ticket = Kerberos::new(new.0.clone());
        let end = ticket.expires(&self.host).map_err(|error| error.to_string())?;
        let owner = ticket.owner().map_err(|error| error.to_string())?;
        if !owner.eq_ignore_ascii_case(&client) {
            return Err(format!("the KDC issued one for {owner}"));
        }
        fs::rename(&new.0, into).map_err(|error| error.to_string())?;
        Ok(end)
    }
}

/// A file that does not outlive its use.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// A user's ticket, in a file that it takes along when it is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    delegation: Arc<Delegation>,
    user: UserName,
    path: PathBuf,
    end: SystemTime,
}

impl Ticket {
    /// The credential cache.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Renews it for ever, each time when half of its time is over.
    pub(super) async fn keep(mut self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(pause(self.end, SystemTime::now())).await;
            match self.renew().await {
                Ok(()) => tracing::info!("the ticket of {} is renewed", self.user),
                Err(why) => tracing::warn!("the ticket of {} is not renewed: {why}", self.user),
            }
        }
    }

    async fn renew(&mut self) -> Result<(), String> {
        self.end = self.delegation.obtain(&self.user, &self.path).await?;
        Ok(())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// How long to wait before a ticket is renewed.
fn pause(end: SystemTime, now: SystemTime) -> Duration {
    end.duration_since(now).map_or(EXPIRED, |left| (left / 2).max(SHORTEST))
}

/// Runs one of MIT's programs. The error is what it says last.
async fn run(mut command: Command, name: &str) -> Result<(), String> {
    command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = match timeout(LIMIT, command.output()).await {
        Ok(output) => output.map_err(|error| format!("cannot start {name}: {error}"))?,
        Err(_) => return Err(format!("{name} has not ended within {} s", LIMIT.as_secs())),
    };
    if output.status.success() { Ok(()) } else { Err(last_line(&output.stderr, name)) }
}

/// The last line that a program has said.
fn last_line(said: &[u8], name: &str) -> String {
    let said = String::from_utf8_lossy(said);
    let line = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let line: String =
        line.unwrap_or("it does not say why").chars().filter(|char| !char.is_control()).take(300).collect();
    format!("{name}: {}", line.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&line))
}

/// Fails if another user could read a keytab: with it, they could act as anybody.
fn private(keytab: &Path) -> Result<(), SmbError> {
    let failed = |why: String| SmbError::Keytab { path: keytab.to_owned(), why };
    let about = fs::metadata(keytab).map_err(|error| failed(error.to_string()))?;
    let exposed = about.mode() & 0o077;
    if exposed == 0 && about.uid() == 0 {
        Ok(())
    } else {
        Err(failed("others can read or change it, and act as any user with it; `chown root` and `chmod 600` it".into()))
    }
}

/// The gateway's principal, in its keytab.
fn principal(keytab: &Path) -> Result<String, SmbError> {
    let failed = |why: String| SmbError::Keytab { path: keytab.to_owned(), why };
    let klist = program("klist", PACKAGE)?;
    let output =
        std::process::Command::new(klist).arg("-k").arg(keytab).env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error: io::Error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(last_line(&output.stderr, "klist")));
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    choose(&listed).map_err(failed)
}

/// Chooses the principal that obtains tickets, from what `klist -k` prints.
///
/// It is the one of the service `cifs`, to which clients connect. In Active Directory that is only a name of an account, and
/// cannot log in; so if the keytab has an account, it is that. `kvno` takes itself for the first entry whose key it is, and the
/// account's names have one key, so the account has to come first.
fn choose(listed: &str) -> Result<String, String> {
    let names = listed.lines().filter_map(|line| line.split_whitespace().nth(1));
    let names: Vec<_> = names.filter(|name| name.contains('@')).collect();
    let mut services: Vec<_> = names.iter().filter(|name| name.starts_with("cifs/")).collect();
    services.dedup();
    let account = names.iter().find(|name| !name.contains('/'));
    match (account, services.as_slice()) {
        (_, []) => Err("it has no key of cifs/HOST, the principal of an SMB server".into()),
        (Some(account), _) if names.first() != Some(account) => {
            Err(format!("the keys of the account {account} have to come first"))
        }
        (Some(account), _) => Ok((*account).to_owned()),
        (None, [name]) => Ok((**name).to_owned()),
        (None, _) => Err("it has several principals of the service cifs, and the gateway is one".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keytab_has_one_principal_of_the_gateway() {
        let head = "Keytab name: FILE:gw.keytab\nKVNO Principal\n---- ----------\n";
        let listed = |names: &[&str]| names.iter().fold(head.to_owned(), |text, name| text + "   2 " + name + "\n");
        let cifs = "cifs/gateway.example.org@EXAMPLE.ORG";
        assert_eq!(choose(&listed(&[cifs, cifs])).as_deref(), Ok(cifs));
        assert_eq!(choose(&listed(&["host/a@R", cifs])).as_deref(), Ok(cifs));
        assert!(choose(&listed(&["host/a@R"])).unwrap_err().contains("no key of cifs/HOST"));
        assert!(choose(&listed(&[cifs, "cifs/gateway@EXAMPLE.ORG"])).unwrap_err().contains("several"));
        // In Active Directory.
        let account = "GATEWAY$@EXAMPLE.ORG";
        assert_eq!(choose(&listed(&[account, cifs, "cifs/gateway@EXAMPLE.ORG"])).as_deref(), Ok(account));
        assert!(choose(&listed(&[cifs, account])).unwrap_err().contains("GATEWAY$@EXAMPLE.ORG have to come first"));
        assert!(choose(&listed(&[account])).unwrap_err().contains("no key of cifs/HOST"));
    }

    #[test]
    fn ticket_is_renewed_before_it_ends() {
        let now = SystemTime::now();
        let wait = |left: u64| pause(now + Duration::from_secs(left), now);
        assert_eq!((wait(36_000), wait(60)), (Duration::from_hours(5), Duration::from_secs(30)));
        assert_eq!((wait(1), pause(now, now + Duration::from_hours(1))), (SHORTEST, EXPIRED), "not all the time");
    }

    #[test]
    fn error_is_the_programs_last_line() {
        let said = b"HTTP/a@R: kvno = 2\nkvno: KDC can't fulfill requested option\n\n";
        assert_eq!(last_line(said, "kvno"), "kvno: KDC can't fulfill requested option");
        assert_eq!(last_line(b"", "kinit"), "kinit: it does not say why");
    }
}
