//! The kernel's table of mounts, `/proc/self/mounts` (proc(5), fstab(5)).

use std::{
    ffi::OsString,
    fs, io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// The type of our mounts.
const KIND: &str = "fuse.haul";

/// A mount.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// What is mounted; of a share, its URL.
    pub(super) source: String,
    pub(super) folder: PathBuf,
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
}

/// All mounts, in the order in which they were made.
pub(super) fn read() -> io::Result<Vec<Entry>> {
    Ok(parse(&fs::read("/proc/self/mounts")?))
}

/// The mount on a folder that is the root of one: the last one, which hides the others.
pub(super) fn on(folder: &Path) -> io::Result<Option<Entry>> {
    Ok(read()?.into_iter().rfind(|entry| entry.folder == folder))
}

fn parse(table: &[u8]) -> Vec<Entry> {
    let entry = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ').map(unescaped);
        let (source, folder, kind, options) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let [source, kind, options] = [source, kind, options].map(|word| String::from_utf8_lossy(&word).into_owned());
        let user = options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
        Some(Entry { source, folder: OsString::from_vec(folder).into(), kind, user })
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
        let table = b"proc /proc proc rw,nosuid 0 0\n\
            https://dav.example/my%20files/ /home/ann/my\\040cloud fuse.haul rw,user_id=1000,group_id=1000 0 0\n\
            host:/ /mnt fuse.sshfs rw,user_id=1000 0 0\n\
            https://dav.example/ /srv fuse rw,user_id=0,group_id=0 0 0\n\
            broken line\n";
        let all = parse(table);
        assert_eq!(all.len(), 4);
        let shares = |user| all.iter().filter(|entry| entry.is_share_of(user)).collect::<Vec<_>>();
        assert_eq!(shares(1000).len(), 1);
        assert_eq!(shares(1000)[0].folder, Path::new("/home/ann/my cloud"));
        assert_eq!(shares(1000)[0].source, "https://dav.example/my%20files/");
        assert_eq!((shares(0).len(), shares(1001).len()), (2, 0));
        assert!(all[2].is_fuse() && !all[0].is_fuse());
        assert_eq!(unescaped(b"a\\134b\\04"), b"a\\b\\04");
    }
}
