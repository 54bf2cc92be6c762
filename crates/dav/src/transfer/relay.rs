//! Copies from one server to another, through this machine and without a file here.
//!
//! Each file is the answer to a GET and at the same time the body of a PUT. A PUT that has to be sent again asks for the
//! file anew, so nothing is kept here.

use std::time::Instant;

use futures_util::{StreamExt, stream};
use haul_http::Class;
use tokio::sync::Notify;

use super::{
    Event, Filter, Leaf, Options, SHARED, Skip, Spared, Summary, Tree, Verify, Watch, body_of, place_in, seconds,
    upload::mtime,
};
use crate::{Dav, Error, If, Precondition, RemotePath, Wanted};

/// Copies files and folders from one server to another, as cp(1) does: into `to` if that is a folder, and otherwise, if
/// there is one source, as `to`. When `stop` is notified, what is in flight is given up.
pub async fn relay(
    (from, sources): (&Dav, &[RemotePath]),
    (dav, to): (&Dav, &RemotePath),
    options: &Options,
    stop: &Notify,
    watch: &Watch,
) -> Result<Summary, Error> {
    let begin = Instant::now();
    let mut summary = Summary::default();
    let stopped = tokio::select! {
        biased;
        () = stop.notified() => true,
        done = all((from, sources), (dav, to), options, watch, &mut summary) => {
            done?;
            false
        }
    };
    if stopped {
        watch(Event::Note("stopped: what was under way was given up, and what is done stays"));
    }
    summary.took = begin.elapsed();
    Ok(summary)
}

async fn all(
    (from, sources): (&Dav, &[RemotePath]),
    (dav, to): (&Dav, &RemotePath),
    options: &Options,
    watch: &Watch,
    summary: &mut Summary,
) -> Result<(), Error> {
    let differs = |path: &RemotePath, why: &str| Error::Differs { path: path.clone(), why: why.into() };
    let target = dav.stat(to, Wanted::LISTING).await?;
    let into = target.as_ref().is_some_and(|there| there.path.is_folder());
    if !into && sources.len() > 1 {
        return Err(differs(to, "there is no such folder to put several things into: make it first (haul mkdir)"));
    }
    for source in sources {
        let Some(found) = from.stat(source, options.wanted()).await? else {
            return Err(differs(source, "there is nothing at this path on the server"));
        };
        let is_folder = found.path.is_folder();
        let place = match source.name() {
            Some(name) if into && !options.contents => to.join(name, is_folder)?,
            _ => to.clone().as_folder(is_folder),
        };
        if !is_folder {
            let (Some(parent), Some(name)) = (source.parent(), source.name()) else {
                return Err(differs(source, "it is no name for a file"));
            };
            let leaf = Leaf::of(found.properties);
            let mut tree = Tree::default();
            tree.files.insert(name.to_owned(), leaf);
            let Some((above, name)) = place.parent().zip(place.name()) else {
                return Err(differs(&place, "it is no name for a file"));
            };
            let mut there = Tree::default();
            if let Some(found) = dav.stat(&place, Wanted::LISTING).await? {
                if found.path.is_folder() {
                    return Err(differs(&place, "it is a folder, and would be lost: choose another name"));
                }
                there.files.insert(name.to_owned(), Leaf::of(found.properties));
            }
            let names = (source.name().unwrap_or_default(), name);
            let run = Run {
                from,
                dav,
                options,
                watch,
                root: parent,
                target: above,
                renamed: Some((names.0.into(), names.1.into())),
            };
            run.copy(&tree, &there, summary).await;
            continue;
        }
        if !options.recursive {
            return Err(differs(source, "it is a folder: add -r to copy all that is in it"));
        }
        let root = source.clone().as_folder(true);
        let run = Run { from, dav, options, watch, root: root.clone(), target: place.clone(), renamed: None };
        let tree = Tree::there(from, &root, &options.filter, options.wanted()).await?;
        let there = if run.make(&place, summary).await? {
            Tree::default()
        } else {
            // Without the filter: what is to be replaced may have another size or age.
            Tree::there(dav, &place, &Filter::default(), Wanted::LISTING).await?
        };
        for (path, why) in tree.failed.iter().chain(&there.failed) {
            run.failed(path, why.clone(), summary);
        }
        for folder in &tree.folders {
            if !there.folders.contains(folder) {
                let place = place_in(&place, folder, true)?;
                if let Err(why) = run.make(&place, summary).await {
                    run.failed(&place.to_string(), why, summary);
                }
            }
        }
        run.copy(&tree, &there, summary).await;
    }
    Ok(())
}

/// One source on its way.
struct Run<'a> {
    from: &'a Dav,
    dav: &'a Dav,
    options: &'a Options,
    watch: &'a Watch,
    root: RemotePath,
    target: RemotePath,
    /// The name of a single file, and the one that it gets.
    renamed: Option<(Vec<u8>, Vec<u8>)>,
}

impl Run<'_> {
    fn failed(&self, path: &str, why: Error, summary: &mut Summary) {
        (self.watch)(Event::Failed { path, why: &why });
        summary.failed.push((path.to_owned(), why));
    }

    /// Makes a folder; whether it was not there.
    async fn make(&self, place: &RemotePath, summary: &mut Summary) -> Result<bool, Error> {
        let made = self.dav.mkcol(place).await?.is_some();
        if made {
            summary.folders += 1;
            (self.watch)(Event::Made { path: &place.to_string() });
        }
        Ok(made)
    }

    /// Copies the files of a tree, many at a time.
    async fn copy(&self, tree: &Tree, there: &Tree, summary: &mut Summary) {
        let bytes = tree.files.values().filter_map(|leaf| leaf.length).sum();
        (self.watch)(Event::Found { files: tree.files.len() as u64, bytes });
        let copies = tree.files.iter().map(|(name, leaf)| async move {
            let renamed = self.renamed.as_ref().filter(|(before, _)| before == name).map_or(name, |(_, after)| after);
            (name, leaf, self.one(name, renamed, leaf, there.files.get(renamed)).await)
        });
        let mut copies = stream::iter(copies).buffer_unordered(self.options.connections.max(1));
        while let Some((name, leaf, done)) = copies.next().await {
            let path = place_in(&self.root, name, false).map_or_else(|_| String::new(), |path| path.to_string());
            let bytes = leaf.length.unwrap_or_default();
            match done {
                Ok(None) => {
                    (summary.files, summary.bytes) = (summary.files + 1, summary.bytes + bytes);
                    (self.watch)(Event::Done { path: &path, bytes });
                }
                Ok(Some(why)) => {
                    summary.skipped += 1;
                    (self.watch)(Event::Skipped { path: &path, bytes, why });
                }
                Err(why) => self.failed(&path, why, summary),
            }
        }
    }

    /// Copies a file, unless what is there is to stay; then why.
    async fn one(
        &self,
        name: &[u8],
        renamed: &[u8],
        leaf: &Leaf,
        there: Option<&Leaf>,
    ) -> Result<Option<Spared>, Error> {
        let (source, place) = (place_in(&self.root, name, false)?, place_in(&self.target, renamed, false)?);
        if self.options.settled.contains(&source.to_string()) {
            return Ok(Some(Spared::Unchanged));
        }
        if let Some(there) = there {
            let spared = self.options.spare.judge((leaf.length, leaf.modified), (there.length, there.modified));
            let fresh = there.modified.zip(leaf.modified).is_some_and(|(there, here)| seconds(there) >= seconds(here));
            let same = self.options.skip != Skip::Nothing && leaf.length == there.length && fresh;
            if spared.is_some() || same {
                return Ok(spared.or(Some(Spared::Unchanged)));
            }
        }
        let precondition = there.map_or(Precondition::Absent, |there| Precondition::of(there.etag.as_ref()));
        let watch = self.watch.clone();
        let body = body_of(self.from, &source, leaf).watched(move |bytes| watch(Event::Moved { bytes }));
        let class = if leaf.length.is_some_and(|length| length <= SHARED) { Class::Small } else { Class::Large };
        let options = haul_http::Options { class, ..haul_http::Options::default() };
        let headers = mtime(leaf.modified).into_iter().collect();
        self.dav.put(&place, body, headers, &precondition, &If::default(), options).await?;
        self.verify(&source, &place, leaf).await.map(|()| None)
    }

    /// Compares what has arrived, as is wished.
    async fn verify(&self, source: &RemotePath, place: &RemotePath, leaf: &Leaf) -> Result<(), Error> {
        if self.options.verify == Verify::None {
            return Ok(());
        }
        let wrong = |why: String| Error::Differs { path: place.clone(), why };
        let found = self.dav.stat(place, Wanted::LISTING).await?;
        let has = found.as_ref().and_then(|found| found.properties.length);
        match found {
            None => return Err(wrong("it was sent and acknowledged, and the server has no such file".into())),
            Some(_) if has != leaf.length => {
                let [sent, has] =
                    [leaf.length, has].map(|length| length.map_or("an unknown number of".into(), |n| n.to_string()));
                return Err(wrong(format!("{sent} bytes were sent, and the server has {has}")));
            }
            Some(_) => {}
        }
        if self.options.verify == Verify::Digest
            && !self.dav.has_bytes(place, &mut body_of(self.from, source, leaf), haul_http::Expected::default()).await?
        {
            return Err(wrong("the server has other bytes than were sent".into()));
        }
        Ok(())
    }
}
