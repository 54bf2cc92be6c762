//! Answers the kernel: each request becomes an operation of the share, which `calls` runs.

use std::{ffi::OsStr, io, ops::Range, os::unix::ffi::OsStrExt, path::Path, sync::Arc, time::SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use scopeguard::guard;
use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    cached_file::CachedFile,
    calls::{Calls, still_wanted},
    handles::{OpenFile, OpenFolder, Table},
    panics::guarded,
    replies::{STATFS_BLOCK, attr, errno, reply_entry, reply_members, reply_names, reply_xattr},
    share::{Attributes, Result, Share, attributes::Change},
    tree::Ino,
};

/// What statfs reports where the server does not tell: large enough for every program that checks first.
const UNKNOWN_SPACE: u64 = 1 << 50;

/// The file system.
pub(crate) struct Filesystem {
    share: Arc<Share>,
    calls: Calls,
    files: Arc<Table<OpenFile>>,
    folders: Arc<Table<OpenFolder>>,
    /// Dropped when the kernel has done with it.
    _end: oneshot::Sender<()>,
}

impl Filesystem {
    pub(crate) fn new(share: Arc<Share>, runtime: Handle, end: oneshot::Sender<()>) -> Self {
        let calls = Calls::new(runtime, share.dav.client().clone());
        Self { share, calls, files: Arc::new(Table::new()), folders: Arc::new(Table::new()), _end: end }
    }
}

impl Filesystem {
    /// Runs an operation without a result.
    fn done(&self, request: &Request, reply: ReplyEmpty, operation: impl Future<Output = Result<()>> + Send + 'static) {
        self.calls.change(request, reply, operation, |(), reply| reply.ok(), drop);
    }

    /// Runs an operation that makes a file or folder, which the kernel has to forget again.
    fn make(
        &self,
        request: &Request,
        reply: ReplyEntry,
        operation: impl Future<Output = Result<Attributes>> + Send + 'static,
    ) {
        let share = self.share.clone();
        let answer = move |made: Attributes, reply: ReplyEntry| {
            reply.entry(&made.valid, &attr(&share, &made), Generation(0));
        };
        let share = self.share.clone();
        self.calls.change(request, reply, operation, answer, move |made| share.forget(made.ino, 1));
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
            // No file has bits or capabilities that a write must clear: the kernel need not ask for them before each.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        let found = async move { share.lookup(Ino(parent.0), &name).await };
        let share = self.share.clone();
        self.calls.look(request, reply, found, move |found, reply| reply_entry(&share, found, reply));
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        guarded(|| self.share.forget(Ino(ino.0), lookups));
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let share = self.share.clone();
        let found = async move { share.getattr(Ino(ino.0)).await };
        let share = self.share.clone();
        self.calls.look(request, reply, found, move |found, reply| reply.attr(&found.valid, &attr(&share, &found)));
    }

    fn setattr(
        &self,
        request: &Request,
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
        let done = async move {
            let is = attr(&share, &share.getattr(ino).await?);
            let differs = |wanted: Option<u32>, is: u32| wanted.is_some_and(|wanted| wanted != is);
            if differs(mode.map(|mode| mode & 0o7777), is.perm.into()) || differs(uid, is.uid) || differs(gid, is.gid) {
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
        let share = self.share.clone();
        let answer = move |found: Attributes, reply: ReplyAttr| reply.attr(&found.valid, &attr(&share, &found));
        self.calls.change(request, reply, done, answer, drop);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        if mode & nix::libc::S_IFMT != nix::libc::S_IFREG {
            return reply.error(Errno::EPERM);
        }
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        let created = async move {
            let (ino, content) = share.create(Ino(parent.0), &name)?;
            let content = guard(content, |content| share.release(ino, &content));
            let flushed = share.commit(ino, &content).await;
            drop(content);
            let found = match flushed {
                Ok(()) => share.getattr(ino).await,
                Err(error) => Err(error),
            };
            // The kernel does not learn of it.
            found.inspect_err(|_| share.forget(ino, 1))
        };
        self.make(request, reply, created);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, _mode: u32, _umask: u32, reply: ReplyEntry) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.make(request, reply, async move { share.mkdir(Ino(parent.0), &name).await });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.done(request, reply, async move { share.unlink(Ino(parent.0), &name).await });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.done(request, reply, async move { share.rmdir(Ino(parent.0), &name).await });
    }

    fn rename(
        &self,
        request: &Request,
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
        self.done(request, reply, async move {
            let (from, to) = ((Ino(parent.0), &name[..]), (Ino(new_parent.0), &new_name[..]));
            share.rename(from, to, may_replace).await
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let ino = Ino(ino.0);
        let is_writer = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let cuts = is_writer && flags.0 & nix::libc::O_TRUNC != 0;
        let share = self.share.clone();
        let opened = async move {
            let file = OpenFile::new(ino, share.open(ino)?, is_writer, share.options.cache_size);
            if cuts {
                let cut = async {
                    share.lock_for_change(ino, &file.content).await?;
                    share.cut(ino, &file.content, 0).await
                };
                if let Err(error) = cut.await {
                    file.close(&share);
                    return Err(error);
                }
            }
            Ok(file)
        };
        let (share, files) = (self.share.clone(), self.files.clone());
        let answer = move |file: OpenFile, reply: ReplyOpen| {
            // Otherwise the kernel may have cached another version.
            let kept = file.content.show();
            let handle = files.add(file);
            reply.opened(handle, if kept { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() });
        };
        // The kernel does not release what it was not told of.
        self.calls.change(request, reply, opened, answer, move |file| file.close(&share));
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
        guarded(|| {
            let share = &self.share;
            let created = share.create(Ino(parent.0), name.as_bytes());
            let created = created.map(|(ino, content)| (content, share.attributes_of(ino)));
            match created {
                Ok((content, found)) => {
                    content.show();
                    if share.is_lock_file(name.as_bytes()) {
                        let (share, ino, content) = (share.clone(), found.ino, content.clone());
                        self.calls.detached(async move { share.create_if_empty(ino, &content).await });
                    }
                    let handle = self.files.add(OpenFile::new(found.ino, content, true, share.options.cache_size));
                    let attr = attr(&self.share, &found);
                    reply.created(&found.valid, &attr, Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE);
                }
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn read(
        &self,
        request: &Request,
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
        let read = async move {
            let wanted = clipped(&file.content, offset, size.into());
            file.request(&share, &wanted);
            if offset == 0 {
                share.read_begins(file.ino);
            }
            share.read(file.ino, &file.content, wanted).await
        };
        self.calls.look(request, reply, read, |bytes, reply| reply.data(&bytes));
    }

    fn write(
        &self,
        request: &Request,
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
        let has_room = self.share.has_room(&file.content, offset, length.into());
        if self.share.may_change(file.ino, &file.content) && has_room {
            return guarded(|| match self.share.write(file.ino, &file.content, offset, data) {
                Ok(()) => reply.written(length),
                Err(error) => reply.error(errno(error)),
            });
        }
        let (share, data) = (self.share.clone(), data.to_vec());
        let written = async move {
            share.lock_for_change(file.ino, &file.content).await?;
            share.wait_for_room(length.into()).await?;
            still_wanted()?;
            share.write(file.ino, &file.content, offset, &data)
        };
        self.calls.change(request, reply, written, move |(), reply| reply.written(length), drop);
    }

    fn flush(&self, request: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
        let share = self.share.clone();
        self.done(request, reply, async move { file.uploaded(share.commit(file.ino, &file.content).await) });
    }

    fn fsync(&self, request: &Request, _: INodeNo, handle: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let Some(file) = self.files.get(handle) else { return reply.error(Errno::EBADF) };
        let share = self.share.clone();
        self.done(request, reply, async move { file.uploaded(share.flush(file.ino, &file.content).await) });
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
            // No program waits for it.
            self.calls.detached(async move {
                let _busy = share.closing().await;
                // What a mapping wrote after the last close.
                let _ = share.commit(file.ino, &file.content).await;
                file.close(&share);
                reply.ok();
            });
        } else {
            reply.ok();
        }
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let (share, folders, ino) = (self.share.clone(), self.folders.clone(), Ino(ino.0));
        let fresh = async move { share.begin_to_read(ino).await };
        let answer = move |(), reply: ReplyOpen| reply.opened(folders.add(OpenFolder::new(ino)), FopenFlags::empty());
        self.calls.look(request, reply, fresh, answer);
    }

    fn readdir(&self, request: &Request, _: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        let Some(folder) = self.folders.get(handle) else { return reply.error(Errno::EBADF) };
        let share = self.share.clone();
        let entries = async move { folder.entries(&share, offset).await };
        self.calls.look(request, reply, entries, move |entries, reply| reply_names(&entries, offset, reply));
    }

    fn readdirplus(&self, request: &Request, ino: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectoryPlus) {
        let Some(folder) = self.folders.get(handle) else { return reply.error(Errno::EBADF) };
        let share = self.share.clone();
        let entries = async move { folder.entries(&share, offset).await };
        let (share, folder) = (self.share.clone(), Ino(ino.0));
        self.calls.look(request, reply, entries, move |entries, reply| {
            reply_members(&share, folder, &entries, offset, reply);
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.folders.remove(handle);
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let share = self.share.clone();
        // Locks are released after close(2).
        let settled = async move {
            share.settle().await;
            share.flush_folder(Ino(ino.0)).await
        };
        self.calls.look(request, reply, settled, |(), reply| reply.ok());
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: ReplyStatfs) {
        let share = self.share.clone();
        let quota = async move { Ok(share.quota().await.unwrap_or((UNKNOWN_SPACE, UNKNOWN_SPACE))) };
        self.calls.look(request, reply, quota, |(total, free), reply| {
            let (total, free, block) = (total / STATFS_BLOCK, free / STATFS_BLOCK, STATFS_BLOCK as u32);
            reply.statfs(total, free, free, 0, 0, block, crate::share::MAX_NAME as u32, block);
        });
    }

    // What WebDAV has no place for. Programs try these and do without.
    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        if !self.share.options.attributes {
            return reply.error(Errno::ENOSYS);
        }
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        let value = async move { share.attribute(Ino(ino.0), &name).await };
        self.calls.look(request, reply, value, move |value, reply| reply_xattr(&value, size, reply));
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        if !self.share.options.attributes {
            return reply.error(Errno::ENOSYS);
        }
        let share = self.share.clone();
        let names = async move { share.attributes_list(Ino(ino.0)).await };
        self.calls.look(request, reply, names, move |names, reply| reply_xattr(&names, size, reply));
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        if !self.share.options.attributes {
            return reply.error(Errno::ENOSYS);
        }
        let change = match flags {
            nix::libc::XATTR_CREATE => Change::Create,
            nix::libc::XATTR_REPLACE => Change::Replace,
            _ => Change::Set,
        };
        let (share, name, value) = (self.share.clone(), name.as_bytes().to_vec(), value.to_vec());
        self.done(request, reply, async move { share.set_attribute(Ino(ino.0), &name, &value, change).await });
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        if !self.share.options.attributes {
            return reply.error(Errno::ENOSYS);
        }
        let (share, name) = (self.share.clone(), name.as_bytes().to_vec());
        self.done(request, reply, async move { share.remove_attribute(Ino(ino.0), &name).await });
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
