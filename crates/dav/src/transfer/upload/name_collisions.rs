//! Names in one source folder that may collide on the server.
//!
//! One of two such files would overwrite the other, and a server that ignores preconditions would not report it. So
//! before anything is changed, empty temporary files show whether the server treats such names as equal. Only sources
//! with such names pay for the test. The second of two colliding names is refused, also if the test is impossible.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    io,
};

use futures_util::{StreamExt, stream};
use haul_http::Body;
use http::HeaderMap;

use super::Upload;
use crate::{
    Error, If, Precondition, RemotePath, terminal_safe,
    transfer::{
        Event, marked,
        name_folding::{key, split_end},
        plan::{Listing, Node},
        random,
        walk::Outline,
    },
};

/// Tests in flight.
const AT_ONCE: usize = 8;

/// Two names that represent all pairs that differ in the same way.
type Pair = (Vec<u8>, Vec<u8>);

impl Upload<'_> {
    /// Leaves out files and folders whose names collide with others on the server.
    pub(super) async fn reject_colliding_names(&self, outline: &mut Outline, tops: &[(usize, Option<Listing>)]) {
        let groups = groups(outline);
        if groups.is_empty() {
            return;
        }
        if self.options.dry_run {
            return (self.watch)(Event::Note(
                "some names differ only in case, Unicode form or trailing dots; a dry run does not check whether the \
                 server distinguishes them",
            ));
        }
        let pairs: HashSet<Pair> = groups.iter().flat_map(|group| pairs_of(outline, group)).collect();
        let mut place = outline.folders[0].path.clone();
        if matches!(tops.first(), Some((_, None))) {
            place = place.parent().unwrap_or(place);
        }
        let place = &place;
        let trials = stream::iter(pairs).map(|pair| async move { (self.collide(place, &pair).await, pair) });
        let tried: HashMap<Pair, bool> =
            trials.buffer_unordered(AT_ONCE).map(|(are_one, pair)| (pair, are_one)).collect().await;
        leave_out(outline, &groups, |one, other| tried.get(&pair_of(one, other)).copied().unwrap_or(true));
    }

    /// Whether two names collide on the server: tested in this folder, or in its nearest existing parent.
    async fn collide(&self, folder: &RemotePath, (one, other): &Pair) -> bool {
        let ((one, one_end), (other, other_end)) = (split_end(one), split_end(other));
        let mark = random(one);
        let name = marked(one, mark, "part");
        let others = [(one, one_end), (other, other_end)];
        let mut others: Vec<_> = others.map(|(stem, end)| [&marked(stem, mark, "part"), end].concat()).into();
        others.retain(|other| *other != name);
        let mut folder = folder.clone();
        loop {
            let Ok(path) = folder.join(&name, false) else { return true };
            self.temporary().insert(path.clone(), None);
            let (headers, options) = (HeaderMap::new(), haul_http::Options::default());
            let put = self.dav.put(&path, Body::empty(), headers, &Precondition::Absent, &If::default(), options).await;
            let mut is_one = true;
            if put.is_ok() {
                for other in &others {
                    is_one &= self.is_found(&folder, other).await;
                }
            }
            let refused = put.as_ref().is_err_and(|why| why.refusal().is_some());
            self.discard(&path, None, refused).await;
            match (put, folder.parent()) {
                (Err(error), Some(above)) if error.is(404) || error.is(409) => folder = above,
                _ => return is_one,
            }
        }
    }

    /// By status alone: a listing may show another spelling.
    async fn is_found(&self, folder: &RemotePath, name: &[u8]) -> bool {
        let Ok(path) = folder.join(name, false) else { return true };
        !self.dav.head(&path, HeaderMap::new()).await.is_err_and(|error| error.is(404) || error.is(400))
    }
}

/// Groups of nodes in a folder whose names may collide, ordered by name.
fn groups(outline: &Outline) -> Vec<Vec<Node>> {
    let hasher = RandomState::new();
    let files = outline.files.iter().enumerate();
    let files = files.map(|(at, file)| (hasher.hash_one((file.folder, key(&file.name))), Node::File(at)));
    let folders = outline.folders.iter().enumerate().filter_map(|(at, folder)| {
        let (parent, name) = folder.parent.zip(folder.path.name())?;
        Some((hasher.hash_one((parent, key(name))), Node::Folder(at)))
    });
    let mut things: Vec<(u64, Node)> = files.chain(folders).collect();
    things.sort_unstable_by_key(|(hash, _)| *hash);
    let alike = things.chunk_by(|(one, _), (other, _)| one == other).filter(|group| group.len() > 1);
    let sorted = |group: &[(u64, Node)]| {
        let mut group: Vec<Node> = group.iter().map(|(_, thing)| *thing).collect();
        group.sort_unstable_by_key(|thing| name_of(outline, *thing));
        group
    };
    let mut groups: Vec<_> = alike.map(sorted).collect();
    // Deterministic.
    groups.sort_unstable_by_key(|group| (folder_of(outline, group[0]), name_of(outline, group[0])));
    groups
}

fn name_of(outline: &Outline, thing: Node) -> &[u8] {
    match thing {
        Node::File(file) => &outline.files[file].name,
        Node::Folder(folder) => outline.folders[folder].path.name().unwrap_or_default(),
    }
}

fn folder_of(outline: &Outline, thing: Node) -> Option<usize> {
    match thing {
        Node::File(file) => Some(outline.files[file].folder),
        Node::Folder(folder) => outline.folders[folder].parent,
    }
}

fn pairs_of(outline: &Outline, group: &[Node]) -> Vec<Pair> {
    let names: Vec<&[u8]> = group.iter().map(|thing| name_of(outline, *thing)).collect();
    let pairs = names.iter().enumerate().flat_map(|(at, one)| names[at + 1..].iter().map(|other| pair_of(one, other)));
    pairs.collect()
}

/// ASCII names that differ only in case share one test, and so do names that differ only in trailing dots or spaces.
fn pair_of(one: &[u8], other: &[u8]) -> Pair {
    let ((stem, end), (other_stem, other_end)) = (split_end(one), split_end(other));
    let (first, second): (&[u8], &[u8]) = match () {
        () if stem == other_stem => (b"a", b"a"),
        () if stem.eq_ignore_ascii_case(other_stem) => (b"A", b"a"),
        () => (stem, other_stem),
    };
    ([first, end].concat(), [second, other_end].concat())
}

/// Leaves out nodes that collide with an earlier one of their group.
fn leave_out(outline: &mut Outline, groups: &[Vec<Node>], are_one: impl Fn(&[u8], &[u8]) -> bool) {
    let (mut files, mut folders) = (HashSet::new(), HashSet::new());
    for group in groups {
        let mut kept: Vec<Vec<u8>> = Vec::new();
        for thing in group {
            let name = name_of(outline, *thing).to_owned();
            let Some(other) = kept.iter().find(|other| are_one(other, &name)) else {
                kept.push(name);
                continue;
            };
            let why =
                format!("the server does not distinguish its name from {}; rename one of them", terminal_safe(other));
            let (source, error) = match thing {
                Node::File(file) => {
                    let origin = &outline.files[*file].origin;
                    (origin.to_string(), origin.refused(why))
                }
                Node::Folder(folder) => {
                    let path = outline.folders[*folder].path.to_string();
                    (path.clone(), Error::local("upload", path, io::Error::other(why)))
                }
            };
            outline.left_out.push((source, error));
            if let Some(above) = folder_of(outline, *thing) {
                outline.folders[above].twins.push(name);
            }
            match thing {
                Node::File(file) => drop(files.insert(*file)),
                Node::Folder(folder) => drop(folders.insert(*folder)),
            }
        }
    }
    outline.remove(&files, &folders);
}
