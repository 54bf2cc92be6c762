//! Metadata of a file: type, size, times, and the entity tag.
//!
//! An entity tag must change with every upload and never repeat, or `If-Match` loses updates (RFC 9110 §8.8.3). Size
//! and modification time alone are not enough: kernels take file times from a clock that ticks a few hundred times a
//! second, so two uploads of equal size within a tick would share a tag. The server sets each upload's time itself, in
//! nanoseconds and unique ([`next_stamp`]), and the tag includes the inode for files that other programs change. A client
//! that sets the time sets its seconds, which is all that HTTP can express; the nanoseconds remain the server's
//! ([`stamp_at`]), because a tag would repeat when an older version is uploaded again with its time.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dav_server::fs::{DavMetaData, FsError, FsResult};
use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, StatxTimestamp, Timespec};

/// Metadata of one file or directory.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    stat: Statx,
    /// `dav-server` writes `DAV:getetag` without quotes, where RFC 4918 §15.6 requires them; for `PROPFIND` the tag has
    /// quotes already.
    quoted: bool,
}

/// Identifies one upload's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    inode: u64,
    length: u64,
    modified: (i64, u32),
}

impl Meta {
    /// Of an open file or directory.
    pub(crate) fn of(file: impl AsFd) -> rustix::io::Result<Self> {
        Self::at(file, c"", AtFlags::EMPTY_PATH)
    }

    /// Of a name in a directory; of the link itself if it is one.
    pub(crate) fn of_name(dir: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<Self> {
        Self::at(dir, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn at(dir: impl AsFd, name: impl rustix::path::Arg, flags: AtFlags) -> rustix::io::Result<Self> {
        let stat = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
        Ok(Meta { stat, quoted: false })
    }

    pub(crate) fn quoted(mut self, quoted: bool) -> Self {
        self.quoted = quoted;
        self
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.stx_mode.into())
    }

    /// Read, write and execute bits; uploads must not inherit set-user-id and the like.
    pub(crate) fn permissions(&self) -> rustix::fs::Mode {
        rustix::fs::Mode::from_raw_mode(u32::from(self.stat.stx_mode) & 0o777)
    }

    /// Number of hard links.
    pub(crate) fn links(&self) -> u32 {
        self.stat.stx_nlink
    }

    /// The modification time.
    pub(crate) fn modified_time(&self) -> Timespec {
        let StatxTimestamp { tv_sec, tv_nsec, .. } = self.stat.stx_mtime;
        Timespec { tv_sec, tv_nsec: tv_nsec.into() }
    }

    pub(crate) fn owner(&self) -> (u32, u32) {
        (self.stat.stx_uid, self.stat.stx_gid)
    }

    pub(crate) fn identity(&self) -> Identity {
        let modified = self.stat.stx_mtime;
        Identity { inode: self.stat.stx_ino, length: self.stat.stx_size, modified: (modified.tv_sec, modified.tv_nsec) }
    }
}

impl DavMetaData for Meta {
    fn len(&self) -> u64 {
        self.stat.stx_size
    }

    fn modified(&self) -> FsResult<SystemTime> {
        Ok(time(self.stat.stx_mtime))
    }

    fn accessed(&self) -> FsResult<SystemTime> {
        Ok(time(self.stat.stx_atime))
    }

    fn created(&self) -> FsResult<SystemTime> {
        let known = StatxFlags::from_bits_retain(self.stat.stx_mask).contains(StatxFlags::BTIME);
        if known { Ok(time(self.stat.stx_btime)) } else { Err(FsError::NotImplemented) }
    }

    fn status_changed(&self) -> FsResult<SystemTime> {
        Ok(time(self.stat.stx_ctime))
    }

    fn is_dir(&self) -> bool {
        self.kind().is_dir()
    }

    fn is_file(&self) -> bool {
        self.kind().is_file()
    }

    fn is_symlink(&self) -> bool {
        self.kind().is_symlink()
    }

    fn executable(&self) -> FsResult<bool> {
        Ok(self.is_file() && self.stat.stx_mode & 0o100 != 0)
    }

    fn etag(&self) -> Option<String> {
        let Identity { inode, length, modified: (seconds, nanos) } = self.identity();
        let tag = format!("{inode:x}-{length:x}-{seconds:x}.{nanos:x}");
        Some(if self.quoted { format!("\"{tag}\"") } else { tag })
    }
}

/// Times before 1970 become 1970: `dav-server` prints dates from unsigned seconds.
fn time(at: StatxTimestamp) -> SystemTime {
    UNIX_EPOCH + Duration::new(u64::try_from(at.tv_sec).unwrap_or(0), at.tv_nsec)
}

/// A client's time in seconds, or the current time; with the nanoseconds of a unique stamp.
pub(crate) fn stamp_at(seconds: Option<i64>) -> Timespec {
    let now = next_stamp();
    Timespec { tv_sec: seconds.unwrap_or(now.tv_sec), ..now }
}

/// The current time, later than every earlier stamp of this process.
fn next_stamp() -> Timespec {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let mut stamp = now;
    let _ = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        stamp = now.max(last + 1);
        Some(stamp)
    });
    Timespec { tv_sec: (stamp / 1_000_000_000).cast_signed(), tv_nsec: (stamp % 1_000_000_000).cast_signed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_never_repeat() {
        let stamps: Vec<_> = (0..10_000).map(|_| next_stamp()).map(|t| (t.tv_sec, t.tv_nsec)).collect();
        assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
