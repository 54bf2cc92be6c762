//! What Samba is told: `smb.conf(5)`.
//!
//! Samba's defaults are for a local disk that it shares with local programs. Here the disk is a FUSE mount of a server that
//! others change without Samba's knowledge. Settings that matter for that:
//!
//! - `oplocks`, `level2 oplocks`, `smb2 leases`, `durable handles`: off. An oplock lets a client keep what it has read and
//!   written to itself until Samba calls it back. Samba would never learn of a change that another WebDAV client makes, or
//!   another user of this gateway, who has a mount of their own. So data could be stale, or lost when it is written back.
//! - `kernel oplocks`, `kernel share modes`, `posix locking`: off. They tell local programs of locks, and there are none in
//!   a mount that is only for Samba. Share modes and byte-range locks between SMB clients are Samba's own, and
//!   `strict locking` checks every read and write against them. Against the rest of the world, the mount locks files on
//!   the server while they are open for writing.
//! - `store dos attributes`, `map archive` and its kin, `ea support`, `nt acl support`: off. DOS attributes would become
//!   dead properties, one round trip each; permissions are the server's.
//! - `strict sync`: on. A client that flushes waits until the server has the file.
//! - `case sensitive = auto`, `preserve case`: as Windows expects. For a name that does not exist as it is written,
//!   Samba reads the folder, which the mount has listed.
//! - file ids: Samba's default, device and inode. A mount derives inode numbers from paths and does not give one a second
//!   time; the device differs from user to user.

use std::{fmt::Write, net::IpAddr, path::Path};

use super::SmbError;

/// Whether clients must encrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Refuse clients that do not: those older than SMB 3 (Windows 8, 2012).
    Required,
    /// Encrypt with clients that can; all others must sign.
    Desired,
}

/// What `smb.conf` depends on.
pub(super) struct Configuration<'a> {
    /// The folder of Samba's own files.
    pub(super) samba: &'a Path,
    /// The folder of the mount points.
    pub(super) mounts: &'a Path,
    /// The name of the share.
    pub(super) share: &'a str,
    /// The addresses to listen on; none for all.
    pub(super) addresses: &'a [IpAddr],
    pub(super) port: u16,
    pub(super) encryption: Encryption,
    /// The command that Samba runs before it lets a user in, up to the user's name.
    pub(super) begin: &'a str,
    /// And when the user has left.
    pub(super) end: &'a str,
    /// Whether the gateway runs as root. Otherwise root is its only user, in a namespace of theirs.
    pub(super) is_root: bool,
    /// Whether users may log in with Kerberos.
    pub(super) kerberos: Option<KerberosLogins<'a>>,
}

/// Logins with Kerberos tickets, and with nothing else. A session does not tell how it has logged in, so that whoever can make
/// a name in the realm would otherwise be taken for the user who is enrolled under it. (In Active Directory, `bob$` gets
/// tickets as `bob` if there is no `bob`: CVE-2020-25717.)
///
/// There is no password database of the realm's users, and there need not be: Samba takes the name from the ticket. It does
/// want a Unix account, and runs `add_user` for a name that has none. Only names of the realm itself are taken, because
/// `ann` of a trusted realm is somebody else.
pub(super) struct KerberosLogins<'a> {
    /// The file with the key of `cifs/HOST`.
    pub(super) keytab: &'a str,
    pub(super) realm: &'a str,
    /// The command that gives a user a Unix account, up to the user's name.
    pub(super) add_user: &'a str,
}

/// Nobody logs in as these, on any share: as root, a client could set the passwords of others.
const SYSTEM_USERS: &str = "root nobody";

/// Samba's folders below the one that the gateway gives it.
pub(super) const FOLDERS: [&str; 6] = ["private", "lock", "state", "cache", "run", "ncalrpc"];

/// The part that the tools for the password database need too.
pub(super) fn database(samba: &Path) -> String {
    let samba = samba.display();
    format!(
        "[global]
server role = standalone server
passdb backend = tdbsam
private dir = {samba}/private
lock directory = {samba}/lock
state directory = {samba}/state
cache directory = {samba}/cache
pid directory = {samba}/run
ncalrpc dir = {samba}/ncalrpc
"
    )
}

impl Configuration<'_> {
    pub(super) fn text(&self) -> String {
        let Self { mounts, share, port, begin, end, .. } = self;
        let mut text = database(self.samba);
        let encrypt = match self.encryption {
            Encryption::Required => "required",
            Encryption::Desired => "desired",
        };
        if !self.addresses.is_empty() {
            let list: Vec<_> = self.addresses.iter().map(IpAddr::to_string).collect();
            let _ = write!(text, "interfaces = {}\nbind interfaces only = yes\n", list.join(" "));
        }
        if let Some(KerberosLogins { keytab, realm, add_user }) = &self.kerberos {
            let _ = write!(
                text,
                "realm = {realm}
kerberos method = dedicated keytab
dedicated keytab file = FILE:{keytab}
allow trusted domains = no
add user script = {add_user} %u
"
            );
        }
        let mounts = mounts.display();
        let nobody = if self.is_root { format!("invalid users = {SYSTEM_USERS}\n") } else { String::new() };
        let passwords = if self.kerberos.is_some() { "disabled" } else { "ntlmv2-only" };
        let _ = write!(
            text,
            "smb ports = {port}
server min protocol = SMB2_10
server signing = mandatory
server smb encrypt = {encrypt}
ntlm auth = {passwords}
{nobody}restrict anonymous = 2
map to guest = never
disable netbios = yes
log level = 0 auth_audit:2
load printers = no
printcap name = /dev/null
disable spoolss = yes
usershare max shares = 0
smb2 leases = no
kernel change notify = no
unix extensions = no
deadtime = 30
[{share}]
path = {mounts}/%u
guest ok = no
read only = no
browseable = yes
root preexec = {begin} %u %d
root preexec close = yes
root postexec = {end} %u %d
wide links = no
oplocks = no
level2 oplocks = no
kernel oplocks = no
kernel share modes = no
durable handles = no
posix locking = no
strict locking = yes
strict sync = yes
case sensitive = auto
preserve case = yes
store dos attributes = no
map archive = no
map hidden = no
map system = no
map readonly = no
ea support = no
nt acl support = no
create mask = 0600
directory mask = 0700
"
        );
        text
    }
}

/// Checks that a path means itself in `smb.conf` and in a shell's command line: Samba replaces `%`, and lines end values.
pub(super) fn plain(path: &Path) -> Result<&str, SmbError> {
    let is_plain = |text: &&str| {
        text.chars().all(|char| char.is_ascii_alphanumeric() || "/._-+@,".contains(char)) && text.starts_with('/')
    };
    path.to_str().filter(is_plain).ok_or_else(|| SmbError::Path(path.to_owned()))
}

/// Checks the name of a share.
pub(super) fn share_name(name: &str) -> Result<(), SmbError> {
    let is_usual = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
    let is_special = ["global", "homes", "printers"].iter().any(|special| name.eq_ignore_ascii_case(special));
    if (1..=80).contains(&name.len()) && name.chars().all(is_usual) && !is_special {
        Ok(())
    } else {
        Err(SmbError::Share(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_settings() {
        for name in ["dav", "Team-Files_2.0"] {
            assert!(share_name(name).is_ok(), "{name}");
        }
        for name in ["", "global", "HOMES", "printers", "a b", "a]", "a\nguest ok = yes", "a/b", "%u", "ipc$"] {
            assert!(share_name(name).is_err(), "{name}");
        }
        for path in ["/var/lib/longhaul/gateway", "/tmp/.tmpAb-1_2/x"] {
            assert!(plain(Path::new(path)).is_ok(), "{path}");
        }
        for path in ["state", "/a b", "/a%u", "/a;b", "/a\"", "/a\nguest ok = yes", "/ä", "/$HOME", "/`a`"] {
            assert!(plain(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn settings_follow_the_options() {
        let configuration = Configuration {
            samba: Path::new("/state/samba"),
            mounts: Path::new("/state/mounts"),
            share: "files",
            addresses: &["10.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
            port: 4450,
            encryption: Encryption::Required,
            begin: "haul begin",
            end: "haul end",
            is_root: true,
            kerberos: None,
        };
        let text = configuration.text();
        for line in [
            "interfaces = 10.0.0.1 ::1",
            "smb ports = 4450",
            "server smb encrypt = required",
            "[files]",
            "path = /state/mounts/%u",
            "root preexec = haul begin %u %d",
            "private dir = /state/samba/private",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("realm") && text.contains("\nntlm auth = ntlmv2-only\n"), "{text}");
        let open = Configuration { addresses: &[], encryption: Encryption::Desired, ..configuration };
        let text = open.text();
        assert!(!text.contains("interfaces") && text.contains("smb encrypt = desired"));
        let kerberos = KerberosLogins { keytab: "/etc/gw.keytab", realm: "EXAMPLE.ORG", add_user: "haul add" };
        let text = Configuration { kerberos: Some(kerberos), ..open }.text();
        let (global, share) = text.split_once("[files]").unwrap();
        assert!(global.contains("\nntlm auth = disabled\n") && global.contains("\ninvalid users = root nobody\n"));
        for line in
            ["realm = EXAMPLE.ORG", "dedicated keytab file = FILE:/etc/gw.keytab", "add user script = haul add %u"]
        {
            assert!(global.lines().any(|found| found == line) && !share.contains(line), "{line}\n{text}");
        }
    }
}
