//! The kernel's tables of mounts, `/proc/<pid>/mountinfo` (proc(5)): each mount namespace has one.

use std::{
    collections::HashSet,
    ffi::OsString,
    fmt, fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use nix::libc;

/// The type of our mounts.
const KIND: &str = "fuse.haul";
/// How long a mount may take to say that it is alive.
const ANSWER: Duration = Duration::from_secs(2);

/// A mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// What is mounted; of a share, its URL.
    pub(super) source: String,
    pub(super) folder: PathBuf,
    /// The number of its device.
    pub(super) device: String,
    kind: String,
    /// The user who mounted it, of a FUSE file system.
    user: Option<u32>,
}

impl Entry {
    pub(super) fn is_fuse(&self) -> bool {
        self.kind.starts_with("fuse")
    }

    /// Whether it is a share that this user has mounted; root has all.
    pub(super) fn is_share_of(&self, user: u32) -> bool {
        // What root mounts itself, without fusermount3, has no subtype.
        let is_url = ["http://", "https://"].iter().any(|scheme| self.source.starts_with(scheme));
        let is_share = self.kind == KIND || (self.kind == "fuse" && is_url);
        is_share && (user == 0 || self.user == Some(user))
    }

    /// Whether its program has ended, and has not unmounted it. One that does not answer in time runs.
    pub(super) fn has_ended(&self) -> bool {
        let (folder, (answer, answered)) = (self.folder.clone(), mpsc::channel());
        thread::spawn(move || answer.send(fs::metadata(folder).err().and_then(|error| error.raw_os_error())));
        answered.recv_timeout(ANSWER) == Ok(Some(libc::ENOTCONN))
    }
}

/// A process by which a mount namespace goes on, and where that has a mount.
pub(super) struct Holder {
    pid: u32,
    command: String,
    folder: PathBuf,
    /// Whether the namespace is that of this process.
    is_here: bool,
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, command, folder, is_here } = self;
        let folder = folder.display();
        if *is_here {
            return write!(out, "it is on {folder} as well; unmount that too");
        }
        write!(
            out,
            "process {pid} ({command}) has it on {folder} in another mount namespace; end that process, or run \
             `nsenter --target {pid} --mount umount {folder}`"
        )
    }
}

/// Whether a FUSE file system is still mounted somewhere, if `/sys` says so (the kernel's documentation, fuse.rst).
pub(super) fn is_alive(device: &str) -> bool {
    device.strip_prefix("0:").is_some_and(|minor| Path::new("/sys/fs/fuse/connections").join(minor).exists())
}

/// Who still has a mount of a device, one process of each mount namespace. Other users' processes tell only root.
pub(super) fn holders(device: &str) -> Vec<Holder> {
    let (here, mut seen) = (fs::read_link("/proc/self/ns/mnt").ok(), HashSet::new());
    let holder = |process: fs::DirEntry| {
        let (pid, place) = (process.file_name().to_str()?.parse().ok()?, process.path());
        let namespace = fs::read_link(place.join("ns/mnt")).ok()?;
        if !seen.insert(namespace.clone()) {
            return None;
        }
        let table = fs::read(place.join("mountinfo")).ok()?;
        let mount = parse(&table).into_iter().find(|mount| mount.device == device)?;
        let command = fs::read_to_string(place.join("comm")).ok()?;
        let command = command.trim_end().replace(char::is_control, "?");
        Some(Holder { pid, command, folder: mount.folder, is_here: Some(namespace) == here })
    };
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(holder).collect()
}

/// All mounts, in the order in which they were made.
pub(super) fn read() -> io::Result<Vec<Entry>> {
    Ok(parse(&fs::read("/proc/self/mountinfo")?))
}

/// The mount on a folder that is the root of one: the last one, which hides the others.
pub(super) fn on(folder: &Path) -> io::Result<Option<Entry>> {
    Ok(read()?.into_iter().rfind(|entry| entry.folder == folder))
}

fn parse(table: &[u8]) -> Vec<Entry> {
    let entry = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ').map(unescaped);
        let (device, folder) = (words.nth(2)?, words.nth(1)?);
        // Behind a number of words that varies.
        let mut words = words.skip_while(|word| word != b"-").skip(1);
        let (kind, source, options) = (words.next()?, words.next()?, words.next()?);
        let [device, source, kind, options] =
            [device, source, kind, options].map(|word| String::from_utf8_lossy(&word).into_owned());
        let user = options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
        Some(Entry { source, folder: OsString::from_vec(folder).into(), device, kind, user })
    };
    table.split(|byte| *byte == b'\n').filter_map(entry).collect()
}

/// Spaces, tabs, newlines and backslashes are written in octal.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            plain.push(byte);
            rest = &after[3..];
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_from_other_mounts_and_users() {
        let table = b"22 28 0:20 / /proc rw,nosuid shared:12 - proc proc rw\n\
            90 28 0:51 / /home/ann/my\\040cloud rw shared:2 master:1 - fuse.haul https://dav.example/my%20files/ \
            rw,user_id=1000,group_id=1000\n\
            91 28 0:52 / /mnt rw - fuse.sshfs host:/ rw,user_id=1000\n\
            92 28 0:53 / /srv rw - fuse https://dav.example/ rw,user_id=0,group_id=0\n\
            broken line\n";
        let all = parse(table);
        assert_eq!(all.len(), 4);
        let shares = |user| all.iter().filter(|entry| entry.is_share_of(user)).collect::<Vec<_>>();
        assert_eq!(shares(1000).len(), 1);
        assert_eq!(shares(1000)[0].folder, Path::new("/home/ann/my cloud"));
        assert_eq!(shares(1000)[0].device, "0:51");
        assert_eq!(shares(1000)[0].source, "https://dav.example/my%20files/");
        assert_eq!((shares(0).len(), shares(1001).len()), (2, 0));
        assert!(all[2].is_fuse() && !all[0].is_fuse());
        assert_eq!(unescaped(b"a\\134b\\04"), b"a\\b\\04");
    }
}
