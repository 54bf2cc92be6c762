//! The Unix accounts of SMB users, which exist only inside of the gateway.
//!
//! Samba's password database needs a Unix account of each user. Instead of accounts on the machine, the gateway's processes
//! see a `passwd(5)` and a `group(5)` of their own, bound over the machine's in a mount namespace. As root, each user has
//! a uid of their own there, so that the kernel keeps Samba's process for one user out of another's mount. Without root
//! there is one uid, the gateway's, in a user namespace.
//!
//! Both files only grow, by a line in one write(2): a running gateway sees who is enrolled meanwhile, and a uid is never
//! given to a second name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    unistd::{getegid, geteuid},
};

use crate::vault::UserName;

use super::SmbError;

/// The first uid. Above those of accounts, services and homed (uid ranges of systemd), below those of /etc/subuid.
const FIRST: u32 = 70_000;
const LAST: u32 = 99_999;

/// The files of the accounts.
pub(super) struct Accounts {
    folder: PathBuf,
    is_root: bool,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SmbError {
    move |error| SmbError::File { what, path: path.to_owned(), error }
}

impl Accounts {
    /// Below this folder, which must exist.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), is_root: geteuid().is_root() }
    }

    /// Whether a uid was given to a user here, and is not one of the few of the system.
    pub(super) fn is_users((uid, _): (u32, u32)) -> bool {
        (FIRST..=LAST).contains(&uid)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Creates the files if they are missing.
    pub(super) fn create(&self) -> Result<(), SmbError> {
        let (uid, gid) = (geteuid(), getegid());
        let mut passwd = "root:x:0:0::/:/usr/sbin/nologin\nnobody:x:65534:65534::/:/usr/sbin/nologin\n".to_owned();
        let mut group = "root:x:0:\nnogroup:x:65534:\n".to_owned();
        if !self.is_root {
            passwd = [passwd, format!("longhaul:x:{uid}:{gid}::/:/usr/sbin/nologin\n")].concat();
            group = [group, format!("longhaul:x:{gid}:\n")].concat();
        }
        for (name, text) in [("passwd", passwd), ("group", group)] {
            let path = self.path(name);
            if !path.exists() {
                append(&path, &text).map_err(failed("create", &path))?;
            }
        }
        // Everything else, such as how host names are found, is as it is on the machine.
        let usual = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_else(|_| "hosts: files dns\n".into());
        let ours = ["passwd", "group", "shadow", "initgroups"];
        let is_other = |line: &&str| line.split_once(':').is_none_or(|(name, _)| !ours.contains(&name.trim()));
        let mut lines: Vec<_> = usual.lines().filter(is_other).collect();
        lines.extend(["passwd: files", "group: files", ""]);
        let text = lines.join("\n");
        let path = self.path("nsswitch.conf");
        fs::write(&path, text).map_err(failed("write", &path))
    }

    /// The uid and gid of a user, who gets an account if there is none.
    pub(super) fn add(&self, user: &UserName) -> Result<(u32, u32), SmbError> {
        let path = self.path("passwd");
        let mut file = File::options().read(true).append(true).open(&path).map_err(failed("open", &path))?;
        // Two enrolments at once must not choose the same uid.
        file.lock().map_err(failed("lock", &path))?;
        file.rewind().map_err(failed("read", &path))?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed("read", &path))?;
        if let Some(ids) = find(&text, user.as_str()) {
            return Ok(ids);
        }
        let (uid, gid) = if self.is_root {
            let uid = ids(&text).filter(|uid| (FIRST..=LAST).contains(uid)).max().map_or(FIRST, |last| last + 1);
            if uid > LAST {
                return Err(SmbError::TooManyUsers);
            }
            let groups = self.path("group");
            append(&groups, &format!("{user}:x:{uid}:\n")).map_err(failed("write", &groups))?;
            (uid, uid)
        } else {
            (geteuid().as_raw(), getegid().as_raw())
        };
        let line = format!("{user}:x:{uid}:{gid}::/:/usr/sbin/nologin\n");
        file.write_all(line.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write", &path))?;
        Ok((uid, gid))
    }

    /// Shows the accounts to this process, and to those that it starts, in place of the machine's. The caller has a mount
    /// namespace of its own.
    pub(super) fn show(&self) -> Result<(), SmbError> {
        let step = |what: &str| {
            let what = what.to_owned();
            move |errno: nix::Error| SmbError::Namespace(what, errno.into())
        };
        let none = None::<&str>;
        for name in ["passwd", "group", "nsswitch.conf"] {
            let over = Path::new("/etc").join(name);
            mount(Some(&self.path(name)), &over, none, MsFlags::MS_BIND, none)
                .map_err(step(&format!("bind a file over {}", over.display())))?;
        }
        // The name service cache daemon would answer with the machine's accounts.
        let daemon = Path::new("/run/nscd");
        if daemon.is_dir() {
            mount(Some("haul"), daemon, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, none)
                .map_err(step("hide /run/nscd"))?;
        }
        Ok(())
    }
}

/// Moves this process, which must have one thread, into a mount namespace of its own.
pub(super) fn enter_namespace() -> Result<(), SmbError> {
    let failed = |what: &'static str| move |errno: nix::Error| SmbError::Namespace(what.into(), errno.into());
    let none = None::<&str>;
    if geteuid().is_root() && unshare(CloneFlags::CLONE_NEWNS).is_ok() {
        return mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
            .map_err(failed("make mounts private"));
    }
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).map_err(failed("create a user namespace"))?;
    for (file, text) in
        [("uid_map", format!("{uid} {uid} 1")), ("setgroups", "deny".into()), ("gid_map", format!("{gid} {gid} 1"))]
    {
        fs::write(Path::new("/proc/self").join(file), text)
            .map_err(|error| SmbError::Namespace(format!("write /proc/self/{file}"), error))?;
    }
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(failed("make mounts private"))
}

fn append(path: &Path, text: &str) -> io::Result<()> {
    // Programs of other uids look up names in it.
    let mut file = OpenOptions::new().create(true).append(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The uid and gid of a name in the text of a passwd file.
fn find(text: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields = text.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let is_it = fields.next() == Some(name);
        is_it.then_some(fields)
    })?;
    let _password = fields.next()?;
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn ids(text: &str) -> impl Iterator<Item = u32> {
    text.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(is_root: bool) -> (tempfile::TempDir, Accounts) {
        let folder = tempfile::tempdir().unwrap();
        let accounts = Accounts { folder: folder.path().to_owned(), is_root };
        accounts.create().unwrap();
        (folder, accounts)
    }

    #[test]
    fn each_user_has_a_uid_of_their_own_for_ever() {
        let (folder, accounts) = accounts(true);
        let add = |name: &str| accounts.add(&name.parse().unwrap()).unwrap();
        assert_eq!((add("ann"), add("bob"), add("ann")), ((70_000, 70_000), (70_001, 70_001), (70_000, 70_000)));
        accounts.create().unwrap();
        assert_eq!((add("an"), add("bob")), ((70_002, 70_002), (70_001, 70_001)));
        let text = fs::read_to_string(folder.path().join("passwd")).unwrap();
        assert!(text.starts_with("root:x:0:0:") && text.ends_with("an:x:70002:70002::/:/usr/sbin/nologin\n"), "{text}");
        let full = format!("{text}zoe:x:{LAST}:{LAST}::/:/\n");
        fs::write(folder.path().join("passwd"), full).unwrap();
        assert!(matches!(accounts.add(&"dora".parse().unwrap()), Err(SmbError::TooManyUsers)));
    }

    #[test]
    fn without_root_all_have_the_gateways_uid() {
        let (_folder, accounts) = accounts(false);
        let own = (geteuid().as_raw(), getegid().as_raw());
        assert_eq!(accounts.add(&"ann".parse().unwrap()).unwrap(), own);
        assert_eq!(accounts.add(&"bob".parse().unwrap()).unwrap(), own);
    }

    #[test]
    fn names_are_found_by_all_of_them() {
        let text = "ann2:x:1:1::/:/\nann:x:2:3::/:/\n";
        assert_eq!((find(text, "ann"), find(text, "an"), find(text, "x")), (Some((2, 3)), None, None));
    }
}
