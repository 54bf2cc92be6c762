//! The served files, as `dav-server` wants to see a file system.
//!
//! Its own local file system truncates the target of an upload and streams into it, follows links out of
//! the tree and keeps no dead properties; this one does none of the three. Each call makes its system
//! calls in one trip to the blocking pool.

mod draft;
mod large;
mod listing;
mod meta;
mod properties;
mod removal;
mod root;
mod sweep;
mod transfer;
mod visit;

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use dav_server::davpath::DavPath;
use dav_server::fs::{
    DavDirEntry, DavFile, DavMetaData, DavProp, FsError, FsFuture, FsResult, FsStream, GuardedFileSystem, OpenOptions,
    ReadDirMeta,
};
use http::StatusCode;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::xml::Name;
use draft::Draft;
use meta::Meta;
use root::{Root, is_own, refusal};
use transfer::{Download, Upload};
pub(crate) use visit::{Visit, is_within};

/// The served directory.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: Arc<Root>,
    /// Changing properties is reading and writing back: one at a time.
    patching: Arc<Mutex<()>>,
}

type Context = Arc<Visit>;

impl Store {
    /// Opens the directory to serve.
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Self> {
        Ok(Store { root: Arc::new(Root::open(path)?), patching: Arc::default() })
    }

    /// Removes what a killed server left behind; see [`sweep`].
    pub(crate) fn sweep(&self, stop: &CancellationToken) -> usize {
        sweep::sweep(&self.root, stop)
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce(&Root) -> FsResult<T> + Send + 'static) -> FsFuture<'static, T> {
        let root = Arc::clone(&self.root);
        Box::pin(blocking(move || work(&root)))
    }

    /// What a path names, if it is something we serve or, for `symlink_metadata`, a link.
    fn look(&self, path: &DavPath, visit: &Context, links: bool) -> FsFuture<'static, Box<dyn DavMetaData>> {
        let (path, visit) = (path.clone(), Arc::clone(visit));
        self.run(move |root| {
            let meta = root.resolve(&path, OFlags::PATH).and_then(|file| Meta::of(file).map_err(refusal));
            visit.saw(&path, meta.as_ref().ok().map(Meta::identity));
            let meta = meta?;
            let served = meta.is_dir() || meta.is_file() || (links && meta.is_symlink());
            if !served {
                return Err(FsError::NotFound);
            }
            Ok(Box::new(meta.quoted(visit.is("PROPFIND"))) as Box<dyn DavMetaData>)
        })
    }
}

impl GuardedFileSystem<Context> for Store {
    fn open<'a>(
        &'a self,
        path: &'a DavPath,
        options: OpenOptions,
        visit: &'a Context,
    ) -> FsFuture<'a, Box<dyn DavFile>> {
        let (path, visit, shared) = (path.clone(), Arc::clone(visit), Arc::clone(&self.root));
        self.run(move |root| {
            if !options.write {
                let file = Download::new(root.resolve(&path, OFlags::RDONLY)?)?;
                return Ok(Box::new(file) as Box<dyn DavFile>);
            }
            let (dir, name) = root.parent(&path)?;
            if visit.is("LOCK") {
                // A lock on a name that is free reserves it with an empty file (RFC 4918 section 7.3).
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(0o666)).map_err(refusal)?;
                return Ok(Box::new(Download::new(file)?) as Box<dyn DavFile>);
            }
            let draft = Draft::new(dir, name)?;
            match draft.replaces() {
                true if options.create_new => return Err(FsError::Exists),
                false if !options.create => return Err(FsError::NotFound),
                _ => {}
            }
            // Better to refuse now than after the client has sent everything.
            let (used, total) = root.space().map_err(refusal)?;
            if options.size.is_some_and(|size| size > total - used) {
                return Err(FsError::InsufficientStorage);
            }
            Ok(Box::new(Upload::new(shared, draft, options.size, visit)) as Box<dyn DavFile>)
        })
    }

    fn read_dir<'a>(
        &'a self,
        path: &'a DavPath,
        _meta: ReadDirMeta,
        visit: &'a Context,
    ) -> FsFuture<'a, FsStream<Box<dyn DavDirEntry>>> {
        let (path, visit, shared) = (path.clone(), Arc::clone(visit), Arc::clone(&self.root));
        self.run(move |root| {
            listing::list(shared, root.resolve(&path, OFlags::RDONLY | OFlags::DIRECTORY)?, &path, &visit)
        })
    }

    fn metadata<'a>(&'a self, path: &'a DavPath, visit: &'a Context) -> FsFuture<'a, Box<dyn DavMetaData>> {
        self.look(path, visit, false)
    }

    fn symlink_metadata<'a>(&'a self, path: &'a DavPath, visit: &'a Context) -> FsFuture<'a, Box<dyn DavMetaData>> {
        self.look(path, visit, true)
    }

    fn create_dir<'a>(&'a self, path: &'a DavPath, visit: &'a Context) -> FsFuture<'a, ()> {
        let (path, visit) = (path.clone(), Arc::clone(visit));
        self.run(move |root| {
            let (dir, name) = root.parent(&path)?;
            let mkdir = || rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777));
            match mkdir() {
                // A collection copied over a file, which `remove_file` spared.
                Err(Errno::EXIST) if visit.is("COPY") && Meta::of_name(&dir, name).is_ok_and(|m| m.is_file()) => {
                    removal::remove(root, &dir, name, AtFlags::empty()).and_then(|()| mkdir())
                }
                done => done,
            }
            .map_err(refusal)?;
            if let Some(properties) = copied_from(&visit, &path)
                .and_then(|source| properties::raw(root.resolve(&source, OFlags::RDONLY | OFlags::DIRECTORY).ok()?))
            {
                let made = root.resolve(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
                let copy = properties::copied(root, properties).map_err(refusal)?;
                properties::set_raw_or_none(made, copy.as_deref()).map_err(refusal)?;
            }
            rustix::fs::fsync(&dir).map_err(refusal)
        })
    }

    fn remove_dir<'a>(&'a self, path: &'a DavPath, _visit: &'a Context) -> FsFuture<'a, ()> {
        let path = path.clone();
        self.run(move |root| {
            let (parent, name) = root.parent(&path)?;
            let remove = || removal::remove(root, &parent, name, AtFlags::REMOVEDIR);
            match remove() {
                // Unfinished uploads do not keep a collection alive; they will fail with it. Nor do the properties of
                // a directory that was served itself.
                Err(Errno::NOTEMPTY) => {
                    let dir = root.resolve(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    for entry in Dir::read_from(&dir).map_err(refusal)?.flatten() {
                        let name = entry.file_name();
                        if name.to_bytes() == large::FOLDER.as_bytes() {
                            large::remove_all(&dir).map_err(refusal)?;
                        } else if is_own(name.to_bytes()) {
                            rustix::fs::unlinkat(&dir, name, AtFlags::empty()).map_err(refusal)?;
                        }
                    }
                    remove()
                }
                done => done,
            }
            .map_err(refusal)
        })
    }

    fn remove_file<'a>(&'a self, path: &'a DavPath, visit: &'a Context) -> FsFuture<'a, ()> {
        if visit.destination.as_ref() == Some(path) {
            // `dav-server` clears the way for a `COPY` or `MOVE`; ours replace the file in one step instead.
            return Box::pin(async { Ok(()) });
        }
        let path = path.clone();
        self.run(move |root| {
            let (dir, name) = root.parent(&path)?;
            removal::remove(root, dir, name, AtFlags::empty()).map_err(refusal)
        })
    }

    fn rename<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, _visit: &'a Context) -> FsFuture<'a, ()> {
        let (from, to) = (from.clone(), to.clone());
        self.run(move |root| {
            let (source, old) = root.parent(&from)?;
            let (target, new) = root.parent(&to)?;
            let rename = || removal::rename(root, (&source, old), (&target, new));
            match rename() {
                // A collection moved over a file, which `remove_file` spared.
                Err(Errno::NOTDIR) => removal::remove(root, &target, new, AtFlags::empty()).and_then(|()| rename()),
                done => done,
            }
            .and_then(|()| rustix::fs::fsync(&target))
            .and_then(|()| rustix::fs::fsync(&source))
            .map_err(refusal)
        })
    }

    fn copy<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, visit: &'a Context) -> FsFuture<'a, ()> {
        let (from, to, visit) = (from.clone(), to.clone(), Arc::clone(visit));
        self.run(move |root| {
            let (dir, name) = root.parent(&to)?;
            let mut draft = Draft::new(dir, name)?;
            draft.copy(root, root.resolve(&from, OFlags::RDONLY)?)?;
            draft.commit(root, &visit).map(drop)
        })
    }

    fn have_props<'a>(
        &'a self,
        _path: &'a DavPath,
        _visit: &'a Context,
    ) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async { true })
    }

    fn patch_props<'a>(
        &'a self,
        path: &'a DavPath,
        changes: Vec<(bool, DavProp)>,
        _visit: &'a Context,
    ) -> FsFuture<'a, Vec<(StatusCode, DavProp)>> {
        let (path, patching) = (path.clone(), Arc::clone(&self.patching));
        self.run(move |root| {
            let _alone = patching.lock().unwrap_or_else(PoisonError::into_inner);
            properties::patch(root, &root.resolve(&path, OFlags::RDONLY)?, changes)
        })
    }

    /// All properties of a file, for listings that did not name the ones they want.
    fn get_props<'a>(&'a self, path: &'a DavPath, _content: bool, visit: &'a Context) -> FsFuture<'a, Vec<DavProp>> {
        let kept = visit.take_properties(path);
        if visit.named.is_some() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.properties(path, kept)
    }

    fn get_prop<'a>(&'a self, path: &'a DavPath, wanted: DavProp, visit: &'a Context) -> FsFuture<'a, Vec<u8>> {
        let all = self.properties(path, visit.kept_properties(path));
        Box::pin(async move {
            let found = all.await?.into_iter().find(|p| p.name == wanted.name && p.namespace == wanted.namespace);
            found.and_then(|property| property.xml).ok_or_else(|| {
                visit.lacks(Name { namespace: wanted.namespace, local: wanted.name });
                FsError::NotFound
            })
        })
    }

    fn get_quota<'a>(&'a self, _visit: &'a Context) -> FsFuture<'a, (u64, Option<u64>)> {
        self.run(|root| root.space().map(|(used, total)| (used, Some(total))).map_err(refusal))
    }
}

impl Store {
    fn properties(&self, path: &DavPath, kept: Option<Vec<DavProp>>) -> FsFuture<'static, Vec<DavProp>> {
        if let Some(kept) = kept {
            return Box::pin(async { Ok(kept) });
        }
        let path = path.clone();
        self.run(move |root| root.resolve(&path, OFlags::RDONLY).map(|file| properties::read(root, file)))
    }
}

/// Which collection a `COPY` makes `made` from.
fn copied_from(visit: &Visit, made: &DavPath) -> Option<DavPath> {
    let destination = visit.destination.as_ref().filter(|_| visit.is("COPY"))?;
    let (destination, made) = (destination.as_url_string(), made.as_url_string());
    let below = made.strip_prefix(destination.trim_end_matches('/'))?;
    DavPath::new(&format!("{}{below}", visit.path.as_url_string().trim_end_matches('/'))).ok()
}

/// Runs system calls where they may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> FsResult<T> + Send + 'static) -> FsResult<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(FsError::GeneralFailure))
}
