//! The served files, as a file system for `dav-server`.
//!
//! `dav-server`'s own local file system truncates an upload's target and streams into it, follows links out of the
//! tree, and has no dead properties; this one avoids all three. Each operation makes its system calls in one task on
//! the blocking pool.

mod listing;
mod metadata;
mod properties;
mod property_files;
mod remove;
mod request_context;
mod root;
mod staged_upload;
mod sweep;
mod times;
mod transfer;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use dav_server::davpath::DavPath;
use dav_server::fs::{
    DavDirEntry, DavFile, DavMetaData, DavProp, FsError, FsFuture, FsResult, FsStream, GuardedFileSystem, OpenOptions,
    ReadDirMeta,
};
use http::StatusCode;
use ring::digest::{Algorithm, Digest};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use crate::xml::Name;
use metadata::Meta;
pub(crate) use request_context::{RequestContext, is_within};
use root::{Root, is_own, refusal};
use staged_upload::StagedUpload;
use transfer::{Download, Upload};

/// Bytes per task of a digest.
const DIGEST_PIECE: u64 = 1024 * 1024;

/// The served directory.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: Arc<Root>,
    /// Serializes changes of properties, which read, modify and write.
    patching: Arc<Mutex<()>>,
}

type Context = Arc<RequestContext>;

impl Store {
    /// Opens the directory to serve.
    pub(crate) fn open(path: &Path) -> rustix::io::Result<Self> {
        Ok(Store { root: Arc::new(Root::open(path)?), patching: Arc::default() })
    }

    /// Removes leftovers of a killed server; see [`sweep`].
    pub(crate) fn sweep(&self, stop: &CancellationToken) -> usize {
        sweep::sweep(&self.root, stop)
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce(&Root) -> FsResult<T> + Send + 'static) -> FsFuture<'static, T> {
        let root = Arc::clone(&self.root);
        Box::pin(blocking(move || work(&root)))
    }

    /// The metadata of a served file or directory or, if `links`, of a symbolic link.
    fn look(&self, path: &DavPath, context: &Context, links: bool) -> FsFuture<'static, Box<dyn DavMetaData>> {
        let (path, context) = (path.clone(), Arc::clone(context));
        self.run(move |root| {
            let meta = root.resolve(&path, OFlags::PATH).and_then(|file| Meta::of(file).map_err(refusal));
            context.note_target(&path, meta.as_ref().ok().map(Meta::identity));
            let meta = meta?;
            let served = meta.is_dir() || meta.is_file() || (links && meta.is_symlink());
            if !served {
                return Err(FsError::NotFound);
            }
            if meta.is_dir() && context.lists(&path) {
                // `dav-server` would report a directory that cannot be read as an empty one, with 207.
                root.resolve(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            }
            Ok(Box::new(meta.quoted(context.is("PROPFIND"))) as Box<dyn DavMetaData>)
        })
    }
}

impl GuardedFileSystem<Context> for Store {
    fn open<'a>(
        &'a self,
        path: &'a DavPath,
        options: OpenOptions,
        context: &'a Context,
    ) -> FsFuture<'a, Box<dyn DavFile>> {
        let (path, context, shared) = (path.clone(), Arc::clone(context), Arc::clone(&self.root));
        self.run(move |root| {
            if !options.write {
                let file = Download::new(root.resolve(&path, OFlags::RDONLY)?, &context)?;
                return Ok(Box::new(file) as Box<dyn DavFile>);
            }
            let (dir, name) = root.parent(&path)?;
            if context.is("LOCK") {
                // A lock on an unmapped URL creates an empty file (RFC 4918 §7.3).
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&dir, name, flags, Mode::from_raw_mode(0o666)).map_err(refusal)?;
                return Ok(Box::new(Download::new(file, &context)?) as Box<dyn DavFile>);
            }
            let staged = StagedUpload::new(dir, name)?;
            match staged.replaces() {
                true if options.create_new => return Err(FsError::Exists),
                false if !options.create => return Err(FsError::NotFound),
                _ => {}
            }
            // Refuse now rather than after the whole body has arrived.
            let (used, total) = root.space().map_err(refusal)?;
            if options.size.is_some_and(|size| size > total - used) {
                return Err(FsError::InsufficientStorage);
            }
            Ok(Box::new(Upload::new(shared, staged, options.size, context)) as Box<dyn DavFile>)
        })
    }

    fn read_dir<'a>(
        &'a self,
        path: &'a DavPath,
        _meta: ReadDirMeta,
        context: &'a Context,
    ) -> FsFuture<'a, FsStream<Box<dyn DavDirEntry>>> {
        let (path, context, shared) = (path.clone(), Arc::clone(context), Arc::clone(&self.root));
        Box::pin(async move {
            let page = context.page().await?;
            let open = move |root: &Root| {
                listing::list(shared, root.resolve(&path, OFlags::RDONLY | OFlags::DIRECTORY)?, &path, &context, page)
            };
            self.run(open).await
        })
    }

    fn metadata<'a>(&'a self, path: &'a DavPath, context: &'a Context) -> FsFuture<'a, Box<dyn DavMetaData>> {
        self.look(path, context, false)
    }

    fn symlink_metadata<'a>(&'a self, path: &'a DavPath, context: &'a Context) -> FsFuture<'a, Box<dyn DavMetaData>> {
        self.look(path, context, true)
    }

    fn create_dir<'a>(&'a self, path: &'a DavPath, context: &'a Context) -> FsFuture<'a, ()> {
        let (path, context) = (path.clone(), Arc::clone(context));
        self.run(move |root| {
            let (dir, name) = root.parent(&path)?;
            let mkdir = || rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777));
            match mkdir() {
                // A collection copied over a file, which `remove_file` kept.
                Err(Errno::EXIST) if context.is("COPY") && Meta::of_name(&dir, name).is_ok_and(|m| m.is_file()) => {
                    remove::remove(root, &dir, name, AtFlags::empty()).and_then(|()| mkdir())
                }
                done => done,
            }
            .map_err(refusal)?;
            if let Some(properties) = copied_from(&context, &path)
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
            let remove = || remove::remove(root, &parent, name, AtFlags::REMOVEDIR);
            match remove() {
                // Unfinished uploads do not keep a collection from being removed; they fail with it. Nor does the
                // properties folder of a directory that was once served itself.
                Err(Errno::NOTEMPTY) => {
                    let dir = root.resolve(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
                    for entry in Dir::read_from(&dir).map_err(refusal)?.flatten() {
                        let name = entry.file_name();
                        if name.to_bytes() == property_files::FOLDER.as_bytes() {
                            property_files::remove_all(&dir).map_err(refusal)?;
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

    fn remove_file<'a>(&'a self, path: &'a DavPath, context: &'a Context) -> FsFuture<'a, ()> {
        if context.destination.as_ref() == Some(path) {
            // `dav-server` removes the target of a `COPY` or `MOVE` first; ours replace it atomically.
            return Box::pin(async { Ok(()) });
        }
        let path = path.clone();
        self.run(move |root| {
            let (dir, name) = root.parent(&path)?;
            remove::remove(root, dir, name, AtFlags::empty()).map_err(refusal)
        })
    }

    fn rename<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, _visit: &'a Context) -> FsFuture<'a, ()> {
        let (from, to) = (from.clone(), to.clone());
        self.run(move |root| {
            let (source, old) = root.parent(&from)?;
            let (target, new) = root.parent(&to)?;
            let rename = || remove::rename(root, (&source, old), (&target, new));
            match rename() {
                // A collection moved over a file, which `remove_file` kept.
                Err(Errno::NOTDIR) => remove::remove(root, &target, new, AtFlags::empty()).and_then(|()| rename()),
                done => done,
            }
            .and_then(|()| rustix::fs::fsync(&target))
            .and_then(|()| rustix::fs::fsync(&source))
            .map_err(refusal)
        })
    }

    fn copy<'a>(&'a self, from: &'a DavPath, to: &'a DavPath, context: &'a Context) -> FsFuture<'a, ()> {
        let (from, to, context) = (from.clone(), to.clone(), Arc::clone(context));
        self.run(move |root| {
            let (dir, name) = root.parent(&to)?;
            let mut staged = StagedUpload::new(dir, name)?;
            staged.copy(root, root.resolve(&from, OFlags::RDONLY)?)?;
            staged.commit(root, &context).map(drop)
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
        context: &'a Context,
    ) -> FsFuture<'a, Vec<(StatusCode, DavProp)>> {
        let (path, patching, modified) = (path.clone(), Arc::clone(&self.patching), context.modified);
        self.run(move |root| {
            let _alone = patching.lock().unwrap_or_else(PoisonError::into_inner);
            times::patch(root, &root.resolve(&path, OFlags::RDONLY)?, changes, modified)
        })
    }

    /// All properties of a file, for listings that name none.
    fn get_props<'a>(&'a self, path: &'a DavPath, _content: bool, context: &'a Context) -> FsFuture<'a, Vec<DavProp>> {
        let kept = context.take_properties(path);
        if context.named.is_some() {
            return Box::pin(async { Ok(Vec::new()) });
        }
        self.properties(path, kept)
    }

    fn get_prop<'a>(&'a self, path: &'a DavPath, wanted: DavProp, context: &'a Context) -> FsFuture<'a, Vec<u8>> {
        let all = self.properties(path, context.kept_properties(path));
        Box::pin(async move {
            let found = all.await?.into_iter().find(|p| p.name == wanted.name && p.namespace == wanted.namespace);
            found.and_then(|property| property.xml).ok_or_else(|| {
                context.lacks(Name { namespace: wanted.namespace, local: wanted.name });
                FsError::NotFound
            })
        })
    }

    fn get_quota<'a>(&'a self, _visit: &'a Context) -> FsFuture<'a, (u64, Option<u64>)> {
        self.run(|root| root.space().map(|(used, total)| (used, Some(total))).map_err(refusal))
    }
}

impl Store {
    /// The digest of a file's content and the entity tag of the version that it belongs to; none if it cannot be read.
    /// Reads in pieces, so that nothing reads on for a client that has disconnected.
    pub(crate) async fn digest(&self, path: &DavPath, algorithm: &'static Algorithm) -> Option<(Digest, String)> {
        let path = path.clone();
        let open = self.run(move |root| Ok(File::from(root.resolve(&path, OFlags::RDONLY)?)));
        let mut file = open.await.ok()?;
        let tag = |file: &File| Meta::of(file).ok()?.etag();
        let before = tag(&file)?;
        let mut context = ring::digest::Context::new(algorithm);
        loop {
            let mut piece = Vec::new();
            (file, context, piece) = blocking(move || {
                let read = (&file).take(DIGEST_PIECE).read_to_end(&mut piece);
                read.map_err(|_| FsError::GeneralFailure)?;
                context.update(&piece);
                Ok((file, context, piece))
            })
            .await
            .ok()?;
            if piece.is_empty() {
                break;
            }
        }
        // A version that changed meanwhile has no digest.
        (tag(&file)? == before).then(|| (context.finish(), before))
    }

    fn properties(&self, path: &DavPath, kept: Option<Vec<DavProp>>) -> FsFuture<'static, Vec<DavProp>> {
        if let Some(kept) = kept {
            return Box::pin(async { Ok(kept) });
        }
        let path = path.clone();
        self.run(move |root| root.resolve(&path, OFlags::RDONLY).map(|file| properties::read(root, file)))
    }
}

/// The source collection of a `COPY` that creates `made`.
fn copied_from(context: &RequestContext, made: &DavPath) -> Option<DavPath> {
    let destination = context.destination.as_ref().filter(|_| context.is("COPY"))?;
    let (destination, made) = (destination.as_url_string(), made.as_url_string());
    let below = made.strip_prefix(destination.trim_end_matches('/'))?;
    DavPath::new(&format!("{}{below}", context.path.as_url_string().trim_end_matches('/'))).ok()
}

/// Runs system calls on the blocking pool.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> FsResult<T> + Send + 'static) -> FsResult<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(FsError::GeneralFailure))
}
