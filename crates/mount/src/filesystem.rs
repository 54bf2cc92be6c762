//! Answers the kernel.
//!
//! Each request becomes a future that ends with the reply. It is polled once at once: what needs no server is answered without
//! leaving the thread. Otherwise it continues on the runtime, and the thread takes the next request.

use std::{
    ffi::OsStr,
    io,
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Waker},
    time::SystemTime,
};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    cached_file::CachedFile,
    handles::Table,
    read_ahead::ReadAhead,
    replies::{BLOCK, attr, errno, reply_empty, reply_entry, reply_xattr},
    share::{Attributes, ETAG_ATTRIBUTE, Share},
    tree::Ino,
};

/// What statfs reports where the server does not tell: large enough for every program that checks first.
const UNKNOWN_SPACE: u64 = 1 << 50;

/// The file system.
pub(crate) struct Filesystem {
    share: Arc<Share>,
    runtime: Handle,
    files: Arc<Table<OpenFile>>,
    folders: Arc<Table<Entries>>,
    /// Dropped when the kernel has done with it.
    _end: oneshot::Sender<()>,
}

/// What an open folder shows: names with their attributes.
type Entries = Vec<(Vec<u8>, Attributes)>;

/// An open file.
struct OpenFile {
    ino: Ino,
    content: Arc<CachedFile>,
    reads: Mutex<ReadAhead>,
    is_writer: bool,
}

impl OpenFile {
    fn new(ino: Ino, content: Arc<CachedFile>, is_writer: bool) -> Self {
        if is_writer {
            content.writer_opens();
        }
        Self { ino, content, reads: Mutex::default(), is_writer }
    }
}

impl Filesystem {
    pub(crate) fn new(share: Arc<Share>, runtime: Handle, end: oneshot::Sender<()>) -> Self {
        Self { share, runtime, files: Arc::new(Table::new()), folders: Arc::new(Table::new()), _end: end }
    }

    /// Runs what answers a request.
    fn run(&self, answer: impl Future<Output = ()> + Send + 'static) {
        let _entered = self.runtime.enter();
        let mut answer: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(answer);
        if answer.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.runtime.spawn(answer);
        }
    }

    fn attr(&self, attributes: &Attributes) -> FileAttr {
        attr(&self.share, attributes)
    }
}

/// A program has closed its handle, and what it wrote is uploaded or kept.
fn close(share: &Arc<Share>, file: &OpenFile) {
    share.release(file.ino, &file.content);
    if file.is_writer {
        share.writer_closes(&file.content);
    }
}

/// The part of a read that the file has.
fn clipped(content: &CachedFile, start: u64, size: u64) -> Range<u64> {
    let length = content.state(|state| state.length());
    start.min(length)..(start + size).min(length)
}

impl fuser::Filesystem for Filesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Older kernels lack some, and do without.
        for flag in [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
        ] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.run(async move {
            match share.lookup(Ino(parent.0), &name).await {
                Ok(Ok(found)) => reply.entry(&found.valid, &attr(&share, &found), Generation(0)),
                Ok(Err(absent)) if !absent.is_zero() => {
                    // Inode 0: the kernel may believe for so long that it does not exist.
                    let nothing = Attributes {
                        ino: Ino(0),
                        is_folder: false,
                        length: 0,
                        modified: SystemTime::UNIX_EPOCH,
                        valid: absent,
                    };
                    reply.entry(&absent, &attr(&share, &nothing), Generation(0));
                }
                Ok(Err(_)) => reply.error(Errno::ENOENT),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.share.forget(Ino(ino.0), lookups);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let share = self.share.clone();
        self.run(async move {
            match share.getattr(Ino(ino.0)).await {
                Ok(found) => reply.attr(&found.valid, &attr(&share, &found)),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (share, ino) = (self.share.clone(), Ino(ino.0));
        let open = handle.and_then(|handle| self.files.get(handle)).map(|file| file.content.clone());
        self.run(async move {
            let done = async {
                let is = attr(&share, &share.getattr(ino).await?);
                let differs = |wanted: Option<u32>, is: u32| wanted.is_some_and(|wanted| wanted != is);
                if differs(mode.map(|mode| mode & 0o7777), is.perm.into())
                    || differs(uid, is.uid)
                    || differs(gid, is.gid)
                {
                    return Err(nix::errno::Errno::EPERM);
                }
                if let Some(size) = size {
                    share.set_length(ino, open, size).await?;
                }
                if let Some(time) = mtime {
                    let time = if let TimeOrNow::SpecificTime(time) = time { time } else { SystemTime::now() };
                    share.set_modified(ino, time);
                }
                share.getattr(ino).await
            };
            match done.await {
                Ok(found) => reply.attr(&found.valid, &attr(&share, &found)),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn mknod(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, _rdev: u32, reply: ReplyEntry) {
        if mode & nix::libc::S_IFMT != nix::libc::S_IFREG {
            return reply.error(Errno::EPERM);
        }
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.run(async move {
            let file = async {
                let (ino, content) = share.create(Ino(parent.0), &name)?;
                let flushed = share.flush(ino, &content).await;
                share.release(ino, &content);
                flushed?;
                share.getattr(ino).await
            };
            reply_entry(&share, file.await, reply);
        });
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _mode: u32, _umask: u32, reply: ReplyEntry) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.run(async move { reply_entry(&share, share.mkdir(Ino(parent.0), &name).await, reply) });
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.run(async move { reply_empty(share.unlink(Ino(parent.0), &name).await, reply) });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.run(async move { reply_empty(share.rmdir(Ino(parent.0), &name).await, reply) });
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let may_replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let (share, name, new_name) = (self.share.clone(), name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        self.run(async move {
            let (from, to) = ((Ino(parent.0), &name[..]), (Ino(new_parent.0), &new_name[..]));
            reply_empty(share.rename(from, to, may_replace).await, reply);
        });
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let ino = Ino(ino.0);
        let is_writer = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let cuts = is_writer && flags.0 & nix::libc::O_TRUNC != 0;
        let (share, files) = (self.share.clone(), self.files.clone());
        self.run(async move {
            let content = match share.open(ino) {
                Ok(opened) => opened,
                Err(error) => return reply.error(errno(error)),
            };
            let file = OpenFile::new(ino, content, is_writer);
            if cuts {
                let cut = share.lock_for_change(ino, &file.content).await;
                if let Err(error) = cut.and_then(|()| share.truncate(ino, &file.content, 0)) {
                    close(&share, &file);
                    return reply.error(errno(error));
                }
            }
            // Otherwise the kernel may have cached another version.
            let kept = file.content.show();
            let handle = files.add(file);
            reply.opened(handle, if kept { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() });
        });
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let share = &self.share;
        let created = share.create(Ino(parent.0), name.as_bytes());
        let created = created.map(|(ino, content)| (content, share.attributes_of(ino)));
        match created {
            Ok((content, found)) => {
                content.show();
                let handle = self.files.add(OpenFile::new(found.ino, content, true));
                let attr = self.attr(&found);
                reply.created(&found.valid, &attr, Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
        let share = self.share.clone();
        self.run(async move {
            let wanted = clipped(&file.content, offset, size.into());
            let ahead = file.reads.lock().unwrap_or_else(PoisonError::into_inner).read(wanted.clone());
            if offset == 0 {
                share.request(file.ino, &file.content, ahead.clone());
                share.read_begins(file.ino);
            }
            let read = share.read(file.ino, &file.content, wanted, ahead).await;
            match read {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
        let length = data.len() as u32;
        let answer = move |written, reply: ReplyWrite| match written {
            Ok(()) => reply.written(length),
            Err(error) => reply.error(errno(error)),
        };
        if self.share.may_change(&file.content) {
            return answer(self.share.write(file.ino, &file.content, offset, data), reply);
        }
        let (share, data) = (self.share.clone(), data.to_vec());
        self.run(async move {
            let locked = share.lock_for_change(file.ino, &file.content).await;
            answer(locked.and_then(|()| share.write(file.ino, &file.content, offset, &data)), reply);
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
        let share = self.share.clone();
        self.run(async move { reply_empty(share.flush(file.ino, &file.content).await, reply) });
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
        let share = self.share.clone();
        self.run(async move { reply_empty(share.flush(file.ino, &file.content).await, reply) });
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if let Some(file) = self.files.remove(handle) {
            let share = self.share.clone();
            self.run(async move {
                let _busy = share.closing().await;
                // What a mapping wrote after the last close.
                let _ = share.flush(file.ino, &file.content).await;
                close(&share, &file);
                reply.ok();
            });
        } else {
            reply.ok();
        }
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let (share, folders) = (self.share.clone(), self.folders.clone());
        self.run(async move {
            match share.folder_entries(Ino(ino.0)).await {
                Ok(entries) => reply.opened(folders.add(entries), FopenFlags::empty()),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(entries) = self.folders.get(handle) else { return reply.error(Errno::EBADF) };
        for (at, (name, found)) in entries.iter().enumerate().skip(offset as usize) {
            let kind = if found.is_folder { FileType::Directory } else { FileType::RegularFile };
            if reply.add(INodeNo(found.ino.0), at as u64 + 1, kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let Some(entries) = self.folders.get(handle) else { return reply.error(Errno::EBADF) };
        for (at, (name, found)) in entries.iter().enumerate().skip(offset as usize) {
            let is_dots = at < 2;
            if !is_dots && !self.share.looked_up(found.ino) {
                continue;
            }
            let attr = self.attr(found);
            if reply.add(attr.ino, at as u64 + 1, OsStr::from_bytes(name), &found.valid, &attr, Generation(0)) {
                if !is_dots {
                    self.share.forget(found.ino, 1);
                }
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.folders.remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let share = self.share.clone();
        // Locks are released after close(2).
        self.run(async move {
            share.settle().await;
            reply.ok();
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let share = self.share.clone();
        self.run(async move {
            let (total, free) = share.quota().await.unwrap_or((UNKNOWN_SPACE, UNKNOWN_SPACE));
            let (total, free) = (total / BLOCK, free / BLOCK);
            reply.statfs(total, free, free, 0, 0, BLOCK as u32, crate::share::MAX_NAME as u32, BLOCK as u32);
        });
    }

    // What WebDAV has no place for. Programs try these and do without.
    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.share.attribute_value(Ino(ino.0), name.as_bytes()) {
            Some(value) => reply_xattr(value.as_bytes(), size, reply),
            None => reply.error(Errno::ENODATA),
        }
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let has_tag = self.share.attribute_value(Ino(ino.0), ETAG_ATTRIBUTE.as_bytes()).is_some();
        let names = if has_tag { format!("{ETAG_ATTRIBUTE}\0") } else { String::new() };
        reply_xattr(names.as_bytes(), size, reply);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _flags: i32, _position: u32, reply: ReplyEmpty) {
        reply.error(Errno::ENOTSUP);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::ENOTSUP);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel then reads and writes.
        reply.error(Errno::ENOSYS);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }
}
