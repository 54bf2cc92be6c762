//! Copies from one server to another through this machine, without local files.
//!
//! It is an upload whose files are on another server, with the same plan, preconditions and verification. The whole
//! source is listed first, so a mirror deletes nothing because of a failed listing. A small file is downloaded into
//! memory and then uploaded. A large one is streamed: the response to the GET is the body of the PUT, and a PUT that is
//! sent again starts a new GET. So only a few small files are in memory.

use std::{future::pending, time::Instant};

use futures_util::{FutureExt, future::try_join_all};
use tokio::sync::Notify;

use super::{
    SourceServer, Upload, missing,
    optimistic::Optimistic,
    target::{Found, Kind, Placed, Target, placed, target},
};
use crate::{
    Dav, Error, Family, PropertySet, RemotePath,
    transfer::{
        Event, FileFacts, INTERRUPTED, Options, Skip, Summary, Watch, filter::Scope, name_folding::key,
        source_file::SourceFile, synced_versions::SyncedVersions, walk::Outline,
    },
};

const HIDES: &str =
    "the source server (nginx) does not list names that begin with a dot: they are neither copied nor deleted";

/// Copies files and folders from one server to another, as cp(1) does: into `to` if that is a folder, and otherwise, if
/// there is one source, as `to`. When `stop` is notified, transfers in flight are cancelled.
pub async fn relay(
    (from, sources): (&Dav, &[RemotePath]),
    (dav, to): (&Dav, &RemotePath),
    options: &Options,
    stop: &Notify,
    watch: &Watch,
) -> Result<Summary, Error> {
    let begin = Instant::now();
    dav.warm(to, options.connections);
    // Digests decide where both servers list some.
    let properties = if options.skip == Skip::Nothing { options.requested_properties() } else { PropertySet::DIGESTS };
    let source = SourceServer { dav: from, root: sources.first().filter(|_| options.contents) };
    let upload = Upload { source: Some(source), properties, ..Upload::new(dav, to, options, watch) };
    let mut summary = Summary::default();
    let look = async {
        let ask = async {
            let Some(source) = sources.first() else { return };
            let hides = from.learn(source).await.is_ok_and(|source| source.family == Family::Nginx);
            if hides && options.recursive {
                watch(Event::Note(HIDES));
            }
        };
        let looked = tokio::join!(upload.look_at_sources(from, sources).boxed(), dav.learn(to).boxed(), ask.boxed());
        looked.0
    };
    let looked = tokio::select! {
        biased;
        () = stop.notified() => None,
        looked = look => Some(looked?),
    };
    match looked {
        Some((placed, records)) => {
            upload.execute(placed, Optimistic::none(), (false, records), stop, &mut summary).await;
        }
        None => watch(Event::Note(INTERRUPTED)),
    }
    summary.took = begin.elapsed();
    Ok(summary)
}

impl Upload<'_> {
    /// Looks up the sources and the target, and reads the records of the last run.
    async fn look_at_sources(&self, from: &Dav, sources: &[RemotePath]) -> Result<(Placed, SyncedVersions), Error> {
        let looked = try_join_all(sources.iter().map(|source| self.look_at_source(from, source))).await?;
        let chosen: Vec<(RemotePath, Option<FileFacts>)> = looked.into_iter().flatten().collect();
        let names = chosen.iter().map(|(path, facts)| facts.as_ref().and_then(|_| path.name().map(<[u8]>::to_vec)));
        let walk = |(path, facts): (RemotePath, Option<FileFacts>)| async move {
            let root = path.clone();
            let kind = if let Some(facts) = &facts {
                let unknown = || Error::Differs { path, why: "the server does not list its length".into() };
                Kind::File(facts.length.ok_or_else(unknown)?, facts.modified)
            } else {
                let to = self.target.clone();
                Kind::Folder(Outline::of_server(from, &path, to, &self.options.filter, self.properties).await?.into())
            };
            Ok(Found { origin: SourceFile::remote(root, facts.unwrap_or_default()), kind })
        };
        let lone = if let [(path, None)] = &chosen[..] { Some(path.clone()) } else { None };
        let (target, found, records) = tokio::try_join!(
            target(self.dav, self.target, names.collect(), self.properties, pending()).boxed(),
            try_join_all(chosen.clone().into_iter().map(walk)).boxed(),
            async { Ok(self.records(from, lone).await) }.boxed(),
        )?;
        for (source, facts) in &chosen {
            self.check_overlap(from, source, facts.is_none(), &target)?;
        }
        if found.is_empty() {
            let outline = Outline { left_out: missing(self.options), ..Outline::default() };
            return Ok(((outline, Vec::new()), records));
        }
        let (mut outline, tops) = placed(target, found, self.target, self.options)?;
        outline.left_out.extend(missing(self.options));
        Ok(((outline, tops), records))
    }

    /// Looks up a source; its facts if it is a file. None if the filter excludes it.
    async fn look_at_source(
        &self,
        from: &Dav,
        source: &RemotePath,
    ) -> Result<Option<(RemotePath, Option<FileFacts>)>, Error> {
        let differs = |why: &str| Error::Differs { path: source.clone(), why: why.into() };
        let Some(found) = from.stat(source, self.properties).await? else {
            return Err(differs("not found on the server"));
        };
        if found.path.is_folder() {
            if !self.options.recursive {
                return Err(differs("it is a folder; add `-r` to copy its contents"));
            }
            return Ok(Some((source.clone().as_folder(true), None)));
        }
        if self.options.contents {
            return Err(differs("it is not a folder: sync copies folders; use haul cp for a file"));
        }
        let facts = FileFacts::of(found.properties);
        let name = source.name().unwrap_or_default();
        let is_in = self.options.filter.file(&Scope::default(), name, facts.length, facts.modified);
        Ok(is_in.then(|| (source.clone().as_folder(false), Some(facts))))
    }

    /// The records of a folder and its copy.
    async fn records(&self, from: &Dav, folder: Option<RemotePath>) -> SyncedVersions {
        let (Some(file), Some(folder)) = (&self.options.synced_versions, folder) else {
            return SyncedVersions::default();
        };
        let (source, target) = (from.requests().url(&folder), self.dav.requests().url(self.target));
        match (source, target) {
            (Ok(source), Ok(target)) => SyncedVersions::between(file, target, source).await,
            _ => SyncedVersions::default(),
        }
    }

    /// Refuses to copy something onto itself, or a folder into itself. A mirror may not contain its source either: it
    /// would change the source.
    fn check_overlap(&self, from: &Dav, source: &RemotePath, is_folder: bool, target: &Target) -> Result<(), Error> {
        let (one, other) = (from.requests().origin(), self.dav.requests().origin());
        let own = |origin: &haul_http::Origin| origin.port() == if origin.is_tls() { 443 } else { 80 };
        let same_port = one.port() == other.port() || own(one) && own(other);
        if one.host() != other.host() || !same_port {
            return Ok(());
        }
        let place = match source.name() {
            Some(name) if matches!(target, Target::Folder(_)) && !self.options.contents => {
                self.target.join(name, is_folder)?
            }
            _ => self.target.clone(),
        };
        // Names that differ only in case may be the same folder.
        let [ours, theirs] = [source, &place].map(|path| path.segments().map(key).collect::<Vec<_>>());
        let why = if ours == theirs {
            "the target is, or may be, the source itself"
        } else if is_folder && theirs.starts_with(&ours) {
            "the target is inside the source folder"
        } else if self.options.contents && ours.starts_with(&theirs) {
            "the target contains the source folder"
        } else {
            return Ok(());
        };
        Err(Error::Differs { path: place, why: format!("{why}, so nothing was changed; choose another target") })
    }
}
