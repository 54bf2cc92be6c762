//! Helpers that the test programs share.

#![allow(dead_code, reason = "each test program uses a part")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use dav::{
    Dav, Error, RemotePath,
    transfer::{Event, Options, Skip, Summary, Verify, Watch, download, upload},
};
use haul_http::{Client, Origin, Pipelining, Settings, Timeouts, auth::Authenticator};
pub(crate) use servers::noise;
use tokio::{sync::Notify, time::timeout};

/// A timeout that even a busy machine does not reach.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Every file below a folder by relative path, with its content.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

pub(crate) fn path(text: &str) -> RemotePath {
    RemotePath::from_url_path(text).unwrap()
}

pub(crate) fn client(address: impl std::fmt::Display, change: impl FnOnce(&mut Settings)) -> Dav {
    let origin = Origin::of(&format!("http://{address}").parse().unwrap()).unwrap();
    // Short, because the tests wait for these timeouts, but long enough for a busy machine.
    let timeouts = Timeouts {
        connect: Duration::from_secs(3),
        first_byte: Duration::from_secs(2),
        pipelined: Duration::from_secs(1),
        stall: Duration::from_secs(2),
        idle: Duration::from_secs(20),
    };
    let mut settings = Settings { pipelining: Pipelining::Aggressive, timeouts, ..Settings::default() };
    change(&mut settings);
    Dav::new(Client::new(settings, Authenticator::default()).unwrap(), origin)
}

/// Folders with files of many sizes, an hour old; the largest is transferred in one piece.
pub(crate) fn lay_out(root: &Path) -> Tree {
    lay_out_with(root, 700_000)
}

/// The same with a file large enough for ranges.
pub(crate) fn lay_out_for_ranges(root: &Path) -> Tree {
    lay_out_with(root, 9_000_000)
}

/// The same with a largest file of this size.
pub(crate) fn lay_out_with(root: &Path, largest: usize) -> Tree {
    let sizes = [0, 1, 100, 1000, 1000, 1000, 10_240, 10_240, 65_536, 131_073, 300_000];
    let mut tree = Tree::new();
    for (number, folder) in ["", "a/", "a/b/", "c/"].into_iter().enumerate() {
        for (at, size) in sizes.into_iter().enumerate() {
            tree.insert(format!("{folder}file{at}"), noise(number * 100 + at, size));
        }
    }
    tree.insert("c/large".into(), noise(999, largest));
    write(root, &tree);
    tree
}

/// A large file and two small ones.
pub(crate) fn lay_out_large(root: &Path) -> Tree {
    let sizes = [("c/large", 9_000_000), ("c/file3", 1000), ("file10", 10_240)];
    let tree = sizes.map(|(name, size)| (name.to_owned(), noise(size, size))).into();
    write(root, &tree);
    tree
}

pub(crate) fn write(root: &Path, tree: &Tree) {
    let old = SystemTime::now() - Duration::from_hours(1);
    for (name, content) in tree {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    }
}

/// Reads every file below a local folder.
pub(crate) fn read(root: &Path) -> Tree {
    let (mut found, mut folders) = (Tree::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

pub(crate) fn mirror() -> Options {
    Options { recursive: true, contents: true, ..Options::default() }
}

pub(crate) fn deaf() -> Watch {
    Arc::new(|_: Event<'_>| ())
}

pub(crate) async fn up(dav: &Dav, from: &Path, options: &Options) -> Result<Summary, Error> {
    up_watched(dav, from, options, &deaf()).await
}

pub(crate) async fn down(dav: &Dav, to: &Path, options: &Options) -> Result<Summary, Error> {
    down_watched(dav, to, options, &deaf()).await
}

/// Uploads the contents of a folder to `/up/`, with a timeout.
pub(crate) async fn up_watched(dav: &Dav, from: &Path, options: &Options, watch: &Watch) -> Result<Summary, Error> {
    up_to(dav, from, "/up/", options, watch).await
}

pub(crate) async fn up_to(
    dav: &Dav,
    from: &Path,
    to: &str,
    options: &Options,
    watch: &Watch,
) -> Result<Summary, Error> {
    let (sources, to, stop) = ([from.to_owned()], path(to), Notify::new());
    timeout(PATIENCE, upload(dav, &sources, &to, options, &stop, watch)).await.expect("the upload never ends")
}

/// Downloads the contents of `/up/` to a folder, with a timeout.
pub(crate) async fn down_watched(dav: &Dav, to: &Path, options: &Options, watch: &Watch) -> Result<Summary, Error> {
    let (sources, stop) = ([path("/up/")], Notify::new());
    timeout(PATIENCE, download(dav, &sources, to, options, &stop, watch)).await.expect("the download never ends")
}

/// Checks that each file is complete, or unchanged and reported as failed, by itself or with its folder. Returns the
/// failures by name.
pub(crate) fn check(wanted: &Tree, before: &Tree, there: &Tree, outcome: &Result<Summary, Error>) -> Failed {
    for name in there.keys() {
        assert!(wanted.contains_key(name) || before.contains_key(name), "{name} was left behind");
    }
    let mut failed = Failed::new();
    match outcome {
        Ok(summary) => {
            for (path, why) in &summary.failed {
                let twice = failed.insert(name(path), why.to_string());
                assert!(twice.is_none(), "{path} failed twice: {why} and {twice:?}");
            }
            let named = failed.keys().filter(|name| wanted.contains_key(*name)).count();
            let counted = summary.files + summary.skipped + named as u64;
            assert!(counted <= wanted.len() as u64, "a file is counted twice: {summary:?}");
        }
        // Nothing was started.
        Err(error) => drop(failed.insert(String::new(), error.to_string())),
    }
    for (name, content) in wanted {
        let found = there.get(name);
        let is_whole = found == Some(content);
        assert!(is_whole || found == before.get(name), "{name} is neither whole nor as it was");
        let told = || failed.keys().any(|failed| name == failed || failed.is_empty() || below(name, failed));
        assert!(is_whole || told(), "{name} is missing, and nobody was told: {failed:?}");
    }
    for (name, why) in &failed {
        assert!(!why.is_empty() && !why.contains('\n'), "{name}: {why:?}");
    }
    failed
}

/// Reasons of failures, by path below the transferred folder.
pub(crate) type Failed = BTreeMap<String, String>;

/// A local or remote path of the summary, relative to the tree.
fn name(path: &str) -> String {
    let below = ["/tree/", "/up/"].iter().find_map(|root| path.split_once(root).map(|(_, below)| below));
    below.unwrap_or("").trim_end_matches('/').to_owned()
}

fn below(name: &str, folder: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The options of a second run, which skips unchanged files.
pub(crate) fn rest(options: &Options) -> Options {
    Options { skip: Skip::SameSizeAndTime, ..options.clone() }
}

pub(crate) fn unverified() -> Options {
    Options { verify: Verify::None, ..mirror() }
}

pub(crate) fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("tree");
    fs::create_dir(&place).unwrap();
    (folder, place)
}
