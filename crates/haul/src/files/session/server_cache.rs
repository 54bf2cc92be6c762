//! The cache of server facts: pipelining, HTTP/3, TCP Fast Open per network path, and the snapshots of synced folders.
//!
//! Testing a server costs round trips, so the results are cached in `~/.cache/longhaul/servers.json`. Several `haul`
//! processes may write at the same time, so each one reads the file again under a lock on the folder, and changes only its
//! own entry. Cache errors never fail a command: an unreadable cache counts as empty, an unwritten result is tested again.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use dav::RemotePath;
use haul_http::{AltSvc, Origin, PipeliningHistory};
use serde::{Deserialize, Serialize};
use transport::{
    fast_open::{self, PathId},
    stable_hash,
};

use crate::files::session::settings::base;
use crate::say;

const SCHEMA: &str = "longhaul.servers/1";

/// How long another's lock is waited for.
const PATIENCE: Duration = Duration::from_millis(1200);

/// So many ways are kept.
const MOST_WAYS: usize = 512;

/// How long the listing of a folder is kept that is mirrored no more.
const MIRRORED: Duration = Duration::from_hours(90 * 24);

#[derive(Serialize, Deserialize)]
struct CacheFile {
    schema: String,
    /// By origin.
    servers: BTreeMap<String, Server>,
    /// By the number of a network and a server's address. A network's number tells nobody which one it is.
    #[serde(default)]
    ways: BTreeMap<String, fast_open::PathHistory>,
}

/// What is known of one.
#[derive(Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
pub(crate) struct Server {
    #[serde(flatten)]
    pub(crate) pipelining: PipeliningHistory,
    #[serde(default)]
    pub(crate) http3: AltSvc,
}

impl Default for CacheFile {
    fn default() -> Self {
        Self { schema: SCHEMA.into(), servers: BTreeMap::new(), ways: BTreeMap::new() }
    }
}

/// Where it is kept.
pub(crate) fn place() -> Option<PathBuf> {
    base("XDG_CACHE_HOME", ".cache").map(|folder| folder.join("longhaul/servers.json"))
}

/// Where it is kept what a mirror has seen.
pub(crate) struct Mirror {
    /// The listing of the folder on the server.
    pub(crate) snapshot: PathBuf,
    /// What was last seen of each file on both sides.
    pub(crate) synced_versions: PathBuf,
}

/// Where that is kept of a folder on a server, as `who` asks sees it, and one here.
pub(crate) fn mirror(origin: &Origin, who: u64, path: &RemotePath, here: &Path) -> Option<Mirror> {
    let folder = mirrors()?;
    let (origin, who, path) = (origin.to_string(), who.to_be_bytes(), path.target());
    let here = std::path::absolute(here).unwrap_or_else(|_| here.to_owned());
    let snapshot = stable_hash("longhaul.snapshot/1", &[&origin, &who, &path]);
    let seen = stable_hash("longhaul.seen/1", &[&origin, &who, &path, &here.as_os_str().as_bytes()]);
    let synced_versions = folder.join(format!("{seen:016x}.seen"));
    Some(Mirror { snapshot: folder.join(format!("{snapshot:016x}")), synced_versions })
}

/// Where it is kept what was last seen of each file of two folders on servers, each as somebody sees it.
pub(crate) fn synced_versions_between(
    from: (&Origin, u64, &RemotePath),
    to: (&Origin, u64, &RemotePath),
) -> Option<PathBuf> {
    let [(origin, who, path), target] =
        [from, to].map(|(origin, who, path)| (origin.to_string(), who.to_be_bytes(), path.target()));
    let seen = stable_hash("longhaul.seen-between/1", &[&origin, &who, &path, &target.0, &target.1, &target.2]);
    Some(mirrors()?.join(format!("{seen:016x}.seen")))
}

/// The folder for what mirrors have seen. What has not been used for long is deleted.
fn mirrors() -> Option<PathBuf> {
    let folder = place()?.with_file_name("mirrors");
    let old = SystemTime::now() - MIRRORED;
    for file in fs::read_dir(&folder).into_iter().flatten().flatten() {
        if file.metadata().and_then(|about| about.modified()).is_ok_and(|used| used < old) {
            let _ = fs::remove_file(file.path());
        }
    }
    Some(folder)
}

/// What is known: of a server, and of all ways.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Confirmed {
    pub(crate) server: Server,
    pub(crate) ways: Vec<(PathId, fast_open::PathHistory)>,
}

/// What is known, if anything is. A broken file is told of.
pub(crate) fn recall(path: &Path, origin: &Origin) -> Option<Confirmed> {
    let servers = read(path).unwrap_or_else(|why| {
        say(format_args!("ignoring the invalid cache {}: {why}", path.display()));
        CacheFile::default()
    });
    let way = |(name, memory): (&String, _)| {
        let (network, server) = name.split_once(' ')?;
        Some((PathId { network: u64::from_str_radix(network, 16).ok()?, server: server.parse().ok()? }, memory))
    };
    let ways: Vec<_> = servers.ways.iter().filter_map(|(name, memory)| way((name, *memory))).collect();
    let server = servers.servers.get(&origin.to_string()).cloned();
    (server.is_some() || !ways.is_empty()).then(|| Confirmed { server: server.unwrap_or_default(), ways })
}

/// Keeps what is known of a server, and of ways. If no other network may be known of, those of others are forgotten.
pub(crate) fn keep(path: &Path, origin: &Origin, known: &Confirmed, private: bool) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    output::durable::create_folder(folder)?;
    let alone = File::open(folder)?;
    if !output::lock(&alone, PATIENCE)? {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let mut servers = read(path).unwrap_or_default();
    servers.servers.insert(origin.to_string(), known.server.clone());
    if private && let Some((here, _)) = known.ways.first() {
        let here = format!("{:016x} ", here.network);
        servers.ways.retain(|name, _| name.starts_with(&here));
    }
    let name = |way: &PathId| format!("{:016x} {}", way.network, way.server);
    servers.ways.extend(known.ways.iter().map(|(way, memory)| (name(way), *memory)));
    while servers.ways.len() > MOST_WAYS {
        servers.ways.pop_first();
    }
    let mut text = serde_json::to_vec_pretty(&servers)?;
    text.push(b'\n');
    // Which servers somebody uses is nobody else's business.
    output::replace(path, 0o600, &text)
}

/// Nothing is known where there is no file that we may read.
fn read(path: &Path) -> io::Result<CacheFile> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice::<CacheFile>(&text)
            .map(|servers| if servers.schema == SCHEMA { servers } else { CacheFile::default() })?),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            Ok(CacheFile::default())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn origin(name: &str) -> Origin {
        Origin::of(&format!("https://{name}/").parse().unwrap()).unwrap()
    }

    /// As written before there was HTTP/3.
    fn known(depth: u32) -> Confirmed {
        let server = serde_json::json!({"depth": depth, "banned": false, "points": 0.0, "at": 0.0});
        Confirmed { server: serde_json::from_value(server).unwrap(), ways: Vec::new() }
    }

    #[test]
    fn each_writer_changes_its_own_entry_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("longhaul/servers.json");
        std::thread::scope(|scope| {
            for number in 1..=6 {
                let path = &path;
                scope.spawn(move || keep(path, &origin(&format!("h{number}")), &known(number), false).unwrap());
            }
        });
        for number in 1..=6 {
            assert_eq!(recall(&path, &origin(&format!("h{number}"))), Some(known(number)));
        }
        assert_eq!(recall(&path, &origin("h7")), None);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn path_facts_are_kept_per_network() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.json");
        let in_network = |network: u64| {
            let way = PathId { network, server: "[2001:db8::1]:443".parse().unwrap() };
            Confirmed { ways: vec![(way, fast_open::PathHistory::default())], ..known(2) }
        };
        keep(&path, &origin("a"), &in_network(1), false).unwrap();
        keep(&path, &origin("a"), &in_network(u64::MAX), false).unwrap();
        let both = recall(&path, &origin("a")).unwrap().ways;
        assert_eq!(both.iter().map(|(way, _)| way.network).collect::<Vec<_>>(), [1, u64::MAX]);
        keep(&path, &origin("a"), &in_network(1), true).unwrap();
        assert_eq!(recall(&path, &origin("a")), Some(in_network(1)));
    }

    #[test]
    fn broken_cache_counts_as_empty_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("servers.json");
        for text in ["", "{", "[]", "{\"schema\":\"longhaul.servers/2\",\"servers\":{}}", "\u{feff}x"] {
            fs::write(&path, text).unwrap();
            assert_eq!(recall(&path, &origin("a")), None, "{text}");
            keep(&path, &origin("a"), &known(8), true).unwrap();
            assert_eq!(recall(&path, &origin("a")), Some(known(8)));
        }
    }
}
