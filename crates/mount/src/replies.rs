//! Replies to the kernel.

use fuser::{Errno, FileAttr, FileType, INodeNo, ReplyXattr};

use crate::share::{Attributes, Share};

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

/// A size of 0 asks for the size alone (getxattr(2)).
pub(crate) fn reply_xattr(value: &[u8], size: u32, reply: ReplyXattr) {
    match size {
        0 => reply.size(value.len() as u32),
        _ if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
