//! The start of an upload: looks up the sources and the target, which determine the path of each file.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use futures_util::{FutureExt, future::join_all};

use crate::{
    Confirmed, Dav, Error, PropertySet, RemotePath,
    nextcloud::Nextcloud,
    requests::Depth,
    transfer::{
        FEW, Options,
        filter::{Filter, Scope},
        plan::{Listing, RemoteEntry},
        source_file::SourceFile,
        walk::{Folder, Outline},
    },
};

/// What exists at the target.
pub(super) enum Target {
    Folder(Listing),
    File(RemoteEntry),
    Nothing,
}

/// Looks up the target and, if all sources are files, their names in it; otherwise lists it. Lookups of names end with
/// `arrived`, when every source has been uploaded as a new file.
pub(super) async fn target(
    dav: &Dav,
    to: &RemotePath,
    names: Option<Vec<Vec<u8>>>,
    properties: PropertySet,
    arrived: impl Future<Output = ()>,
) -> Result<Target, Error> {
    match names {
        Some(names) if names.len() <= FEW => few_of(dav, to, names, properties, arrived).await,
        _ => listing(dav, to, properties).await,
    }
}

/// The names of the sources, if all of them are files.
pub(super) fn names_of_files(sources: &[(PathBuf, fs::Metadata)]) -> Result<Option<Vec<Vec<u8>>>, Error> {
    let files = sources.iter().all(|(_, kind)| kind.is_file());
    files.then(|| sources.iter().map(|(local, _)| name_of(local)).collect()).transpose()
}

/// Looks up the target and the names of the sources in it at the same time, because a listing may be long. The names
/// are looked up only when the first connection is open: the optimistic uploads have precedence, and only files that
/// exist already need a lookup.
async fn few_of(
    dav: &Dav,
    to: &RemotePath,
    names: Vec<Vec<u8>>,
    properties: PropertySet,
    arrived: impl Future<Output = ()>,
) -> Result<Target, Error> {
    let folder = to.clone().as_folder(true);
    let paths = names.iter().map(|name| folder.join(name, false)).collect::<Result<Vec<_>, _>>()?;
    let mut own = dav.stat(to, properties).boxed();
    let known = tokio::select! {
        own = &mut own => Some(own?),
        _ = dav.client().met(dav.requests().origin()) => None,
    };
    let each = async {
        tokio::select! {
            found = join_all(paths.iter().map(|path| dav.glance(path, properties))) => Ok(found),
            () = arrived => Ok(Vec::new()),
        }
    };
    let (own, found) = match known {
        Some(own) => (own, each.await?),
        None => futures_util::try_join!(own, each)?,
    };
    match own {
        None => Ok(Target::Nothing),
        Some(own) if !own.path.is_folder() => Ok(Target::File(RemoteEntry::from(&own))),
        Some(_) => {
            let mut listing = Listing::new();
            for (name, found) in names.into_iter().zip(found) {
                if let Some(entry) = found? {
                    listing.insert(name, RemoteEntry::from(&entry));
                }
            }
            Ok(Target::Folder(listing))
        }
    }
}

async fn listing(dav: &Dav, to: &RemotePath, properties: PropertySet) -> Result<Target, Error> {
    let (mut listing, mut own) = (Listing::new(), None);
    let folder = to.clone().as_folder(true);
    let listed = dav.list(&folder, Depth::One, properties, |entry| {
        let Ok(entry) = entry else { return };
        let there = RemoteEntry::from(&entry);
        match entry.path.name() {
            _ if entry.path.same_place(to) => own = Some(there),
            Some(name) => drop(listing.insert(name.to_owned(), there)),
            None => {}
        }
    });
    match listed.await {
        Ok(()) => Ok(match own {
            Some(own) if !own.is_folder => Target::File(own),
            _ => Target::Folder(listing),
        }),
        Err(error) if error.is(404) => Ok(Target::Nothing),
        // Some servers refuse to list a file under a folder's URL.
        Err(error) => match dav.stat(&to.clone().as_folder(false), properties).await {
            Ok(Some(entry)) if !entry.path.is_folder() => Ok(Target::File(RemoteEntry::from(&entry))),
            _ => Err(error),
        },
    }
}

/// A single source folder keeps its name if the target is a folder, as the root certainly is. Then it is created, or
/// listed, while the target is looked up. Returns whether it was created, and its contents; none if neither is known.
/// With other targets nothing is created in advance: some servers create missing parents, and so the target itself.
pub(super) async fn begun(
    dav: &Dav,
    to: &RemotePath,
    sources: &[(PathBuf, fs::Metadata)],
    options: &Options,
) -> Option<(bool, Listing)> {
    let [(local, kind)] = sources else { return None };
    // On a Nextcloud, bulk upload creates the folder together with its files.
    if to.name().is_some() || !kind.is_dir() || options.contents || options.dry_run || Nextcloud::of(to).is_some() {
        return None;
    }
    let path = to.clone().as_folder(true).join(&name_of(local).ok()?, true).ok()?;
    let (made, listed) = futures_util::join!(dav.try_mkcol(&path), listing(dav, &path, options.requested_properties()));
    match (made, listed) {
        (Ok(Confirmed::ByAnswer), _) => Some((true, Listing::new())),
        (Ok(Confirmed::ByLookup) | Err(_), Ok(Target::Folder(listing))) => Some((false, listing)),
        _ => None,
    }
}

/// Reads the metadata of each source, through symbolic links.
pub(super) async fn looked(sources: Vec<PathBuf>, recursive: bool) -> Result<Vec<(PathBuf, fs::Metadata)>, Error> {
    let looked = blocking(move || {
        let look = |path: PathBuf| match fs::metadata(&path) {
            Ok(kind) if kind.is_file() || kind.is_dir() => Ok((path, kind)),
            Ok(_) => Err(Error::local("upload", path, io::Error::other("it is a device or pipe, not a file"))),
            Err(error) => Err(Error::local("read", path, error)),
        };
        sources.into_iter().map(look).collect::<Result<Vec<_>, _>>()
    });
    let looked = looked.await?;
    if let Some((local, _)) = looked.iter().find(|(_, kind)| kind.is_dir()).filter(|_| !recursive) {
        let why = io::Error::other("it is a folder; add `-r` to upload its contents");
        return Err(Error::local("upload", local, why));
    }
    Ok(looked)
}

/// The sources that the filter includes. Folders that the user named are always entered.
pub(super) fn chosen(
    sources: Vec<(PathBuf, fs::Metadata)>,
    filter: &Filter,
) -> Result<Vec<(PathBuf, fs::Metadata)>, Error> {
    let root = Scope::default();
    let mut chosen = Vec::new();
    for (local, kind) in sources {
        if kind.is_dir() || filter.file(&root, &name_of(&local)?, Some(kind.len()), kind.modified().ok()) {
            chosen.push((local, kind));
        }
    }
    Ok(chosen)
}

/// A source.
pub(super) struct Found {
    pub(super) origin: SourceFile,
    pub(super) kind: Kind,
}

/// The kind of a source.
pub(super) enum Kind {
    File(u64, Option<SystemTime>),
    /// With all that is in it.
    Folder(Box<Outline>),
}

impl Found {
    fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::Folder(_))
    }

    /// Its name at the target.
    fn name(&self) -> Result<Vec<u8>, Error> {
        match &self.origin {
            SourceFile::Local(local) => name_of(local),
            SourceFile::Remote(remote) => {
                let none = || self.origin.refused("it has no name; name its contents instead".into());
                remote.path.name().map(<[u8]>::to_vec).ok_or_else(none)
            }
        }
    }
}

/// Goes through the sources that are folders. Where they belong is not known yet: they stand as `to` for now.
pub(super) async fn walked(
    sources: &[(PathBuf, fs::Metadata)],
    to: &RemotePath,
    options: &Options,
) -> Result<Vec<Found>, Error> {
    let (sources, to) = (sources.to_vec(), to.clone().as_folder(true));
    let (filter, links) = (options.filter.clone(), options.links);
    let walk = move |(local, kind): (PathBuf, fs::Metadata)| {
        let kind = if kind.is_dir() {
            let mut outline = Outline { filter: filter.clone(), links, ..Outline::default() };
            outline.add_folder(&local, to.clone(), None, Scope::default());
            Kind::Folder(outline.into())
        } else {
            Kind::File(kind.len(), kind.modified().ok())
        };
        Found { origin: SourceFile::Local(local), kind }
    };
    blocking(move || Ok(sources.into_iter().map(walk).collect())).await
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::local("read", "the sources", io::Error::other(error))))
}

/// The outline of an upload, and the known contents of its top folders.
pub(super) type Placed = (Outline, Vec<(usize, Option<Listing>)>);

pub(super) fn placed(target: Target, sources: Vec<Found>, to: &RemotePath, options: &Options) -> Result<Placed, Error> {
    let folder = to.clone().as_folder(true);
    let mut outline = Outline::default();
    let top = |outline: &mut Outline, path: RemotePath| {
        outline.folders.push(Folder { given: true, ..Folder::new(path, None, Scope::default()) });
        outline.folders.len() - 1
    };
    let mut sources = sources.into_iter();
    match (target, sources.as_slice()) {
        // The contents of the folder, or the folder under another name.
        (target @ (Target::Folder(_) | Target::Nothing), [lone])
            if lone.is_folder() && (options.contents || matches!(target, Target::Nothing)) =>
        {
            let known = if let Target::Folder(listing) = target { Some(listing) } else { None };
            match sources.next() {
                Some(Found { kind: Kind::Folder(walked), .. }) => Ok((*walked, vec![(0, known)])),
                _ => Ok((outline, Vec::new())),
            }
        }
        (Target::Folder(listing), _) => {
            let base = top(&mut outline, folder.clone());
            let mut names = HashSet::new();
            for found in sources {
                let name = found.name()?;
                if !names.insert(name.clone()) {
                    let why = "another source has the same name; upload them one by one";
                    return Err(found.origin.refused(why.into()));
                }
                match found.kind {
                    Kind::Folder(walked) => outline.graft(*walked, &folder.join(&name, true)?, Some(base))?,
                    Kind::File(length, modified) => {
                        outline.add_file(found.origin, &name, base, (length, modified));
                    }
                }
            }
            Ok((outline, vec![(base, Some(listing))]))
        }
        (target @ (Target::File(_) | Target::Nothing), [Found { origin, kind: Kind::File(length, modified) }])
            if !to.is_folder() =>
        {
            let (Some(parent), Some(name)) = (to.parent(), to.name()) else {
                return Err(Error::Differs { path: to.clone(), why: "it is not a file name".into() });
            };
            let base = top(&mut outline, parent);
            outline.add_file(origin.clone(), name, base, (*length, *modified));
            let mut known = Listing::new();
            if let Target::File(there) = target {
                known.insert(name.to_owned(), there);
            }
            Ok((outline, vec![(base, Some(known))]))
        }
        (Target::Nothing, _) => {
            let why = "the folder does not exist; create it first (`haul mkdir`)".into();
            Err(Error::Differs { path: folder, why })
        }
        (Target::File(_), _) => {
            Err(Error::Differs { path: to.clone(), why: "it is a file, so nothing can be uploaded into it".into() })
        }
    }
}

/// The name of a source on the server.
pub(super) fn name_of(local: &Path) -> Result<Vec<u8>, Error> {
    // `.` and `..` are resolved.
    let resolved = if local.file_name().is_some() { Ok(local.to_owned()) } else { fs::canonicalize(local) };
    let resolved = resolved.map_err(|error| Error::local("read", local, error))?;
    let name = resolved.file_name().map(|name| name.as_encoded_bytes().to_owned());
    name.ok_or_else(|| Error::local("upload", local, io::Error::other("it has no name; name its files instead")))
}
