//! Replies to the kernel.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    time::{Duration, SystemTime},
};

use fuser::{
    Errno, FileAttr, FileType, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus, ReplyEntry, ReplyXattr,
};

use crate::{
    share::{Attributes, FolderEntry, Share},
    tree::Ino,
};

/// Block size of `st_blocks` (stat(2)).
const BLOCK: u64 = 512;

/// Block size of statfs. posix_fallocate(3) writes a byte into each such block.
pub(crate) const STATFS_BLOCK: u64 = 4096;

pub(crate) fn errno(error: nix::errno::Errno) -> Errno {
    Errno::from_i32(error as i32)
}

pub(crate) fn attr(share: &Share, attributes: &Attributes) -> FileAttr {
    let (kind, mode) = if attributes.is_folder { (FileType::Directory, 0o777) } else { (FileType::RegularFile, 0o666) };
    let time = attributes.modified;
    FileAttr {
        ino: INodeNo(attributes.ino.0),
        size: attributes.length,
        blocks: attributes.length.div_ceil(BLOCK),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: (mode & !share.options.umask) as u16,
        nlink: match attributes {
            Attributes { is_removed: true, .. } => 0,
            Attributes { is_folder: true, .. } => 2,
            _ => 1,
        },
        uid: share.options.uid,
        gid: share.options.gid,
        rdev: 0,
        blksize: 128 * 1024,
        flags: 0,
    }
}

/// What has a name; or, with a time, that nothing has it, which the kernel may believe for so long.
pub(crate) fn reply_entry(share: &Share, found: Result<Attributes, Duration>, reply: ReplyEntry) {
    match found {
        Ok(found) => reply.entry(&found.valid, &attr(share, &found), Generation(0)),
        Err(absent) if !absent.is_zero() => {
            // Inode 0 says it.
            let nothing = Attributes {
                ino: Ino(0),
                is_folder: false,
                is_removed: false,
                length: 0,
                modified: SystemTime::UNIX_EPOCH,
                valid: absent,
            };
            reply.entry(&absent, &attr(share, &nothing), Generation(0));
        }
        Err(_) => reply.error(Errno::ENOENT),
    }
}

/// As many entries of a folder from `offset` on as fit.
pub(crate) fn reply_names(entries: &[FolderEntry], offset: u64, mut reply: ReplyDirectory) {
    for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
        let kind = if entry.is_folder { FileType::Directory } else { FileType::RegularFile };
        if reply.add(INodeNo(entry.ino.0), at as u64 + 1, kind, OsStr::from_bytes(&entry.name)) {
            break;
        }
    }
    reply.ok();
}

/// The same with their attributes. The kernel has to forget each again.
pub(crate) fn reply_members(
    share: &Share,
    folder: Ino,
    entries: &[FolderEntry],
    offset: u64,
    mut reply: ReplyDirectoryPlus,
) {
    for (at, entry) in entries.iter().enumerate().skip(offset as usize) {
        // The kernel takes nothing but the names of `.` and `..`.
        let is_dots = at < 2;
        let found = if is_dots {
            Attributes { ino: entry.ino, ..share.attributes_of(folder) }
        } else {
            // Not as it was when the program began to read: the kernel keeps what it is told.
            let Some(found) = share.member(folder, &entry.name) else { continue };
            found
        };
        let (attr, name) = (attr(share, &found), OsStr::from_bytes(&entry.name));
        if reply.add(attr.ino, at as u64 + 1, name, &found.valid, &attr, Generation(0)) {
            if !is_dots {
                share.forget(found.ino, 1);
            }
            break;
        }
    }
    reply.ok();
}

/// A size of 0 asks for the size alone (getxattr(2)).
pub(crate) fn reply_xattr(value: &[u8], size: u32, reply: ReplyXattr) {
    match size {
        0 => reply.size(value.len() as u32),
        _ if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
