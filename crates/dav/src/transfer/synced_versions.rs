//! The versions of each file on both sides when a run last saw them equal, kept from run to run.
//!
//! One file on disk holds the records of one pair of folders, in both directions. A missing or unreadable file counts
//! as empty.

use std::{
    collections::HashMap,
    fs,
    io::{self, BufReader, Write},
    path::Path,
    time::{Duration, SystemTime},
};

use http::Uri;
use serde::{Deserialize, Serialize};

use super::{
    Event, Options, Watch, seconds,
    state_file::{self, decoded, encoded, write_line},
    unchanged::SyncedVersion,
};
use crate::{ETag, RemotePath};

const SCHEMA: &str = "longhaul.seen/1";

/// The records of a pair of folders; if none are kept, it stays empty.
#[derive(Debug, Default)]
pub(crate) struct SyncedVersions {
    /// The URL of the remote folder, and the path or URL of the other one.
    pair: Option<(String, String)>,
    folders: Folders,
}

/// Records by folder and name.
type Folders = HashMap<RemotePath, HashMap<Box<[u8]>, Row>>;

#[derive(Debug)]
struct Row {
    record: SyncedVersion,
    /// Whether this run created it.
    new: bool,
}

impl SyncedVersions {
    /// Reads the records of two folders, if they are kept.
    pub(crate) async fn open(file: Option<&Path>, url: Option<Uri>, local: &Path) -> Self {
        let (Some(file), Some(url)) = (file.map(Path::to_owned), url) else { return Self::default() };
        let local = local.to_owned();
        let read = tokio::task::spawn_blocking(move || Self::read(&file, url.to_string(), &local));
        read.await.unwrap_or_default()
    }

    /// The same for two folders on servers: the target and the source.
    pub(crate) async fn between(file: &Path, url: Uri, source: Uri) -> Self {
        let file = file.to_owned();
        let read = tokio::task::spawn_blocking(move || Self::of_pair(&file, (url.to_string(), source.to_string())));
        read.await.unwrap_or_default()
    }

    /// Reads the file of these two folders.
    fn read(file: &Path, url: String, local: &Path) -> Self {
        let local = std::path::absolute(local).unwrap_or_else(|_| local.to_owned());
        Self::of_pair(file, (url, encoded(local.as_os_str().as_encoded_bytes())))
    }

    fn of_pair(file: &Path, pair: (String, String)) -> Self {
        let folders = fs::File::open(file).ok().and_then(|file| read(file, &pair)).unwrap_or_default();
        Self { pair: Some(pair), folders }
    }

    /// The record of a file.
    pub(crate) fn of(&self, folder: &RemotePath, name: &[u8]) -> Option<&SyncedVersion> {
        Some(&self.folders.get(folder)?.get(name)?.record)
    }

    /// Stores a record, or forgets the file if there is none.
    pub(crate) fn keep(&mut self, folder: &RemotePath, name: &[u8], record: Option<SyncedVersion>) {
        match (&self.pair, record) {
            (None, _) => {}
            (_, Some(record)) => {
                if !self.folders.contains_key(folder) {
                    self.folders.insert(folder.clone(), HashMap::new());
                }
                if let Some(names) = self.folders.get_mut(folder) {
                    names.insert(name.into(), Row { record, new: true });
                }
            }
            (_, None) => drop(self.folders.get_mut(folder).and_then(|names| names.remove(name))),
        }
    }

    /// Saves the records at the end of a run.
    pub(crate) fn save(&self, options: &Options, stopped: bool, watch: &Watch) {
        let saw_all = !stopped && options.filter.is_empty();
        if let Some(file) = options.synced_versions.as_deref().filter(|_| !options.dry_run)
            && let Err(error) = self.write(file, saw_all)
        {
            watch(Event::Note(&state_file::unkept(file, &error)));
        }
    }

    /// Writes all records; if this run has seen everything, only its own.
    fn write(&self, file: &Path, saw_all: bool) -> io::Result<()> {
        let Some((url, local)) = self.pair.clone() else { return Ok(()) };
        state_file::replace(file, |to| {
            write_line(&mut *to, &Head { schema: SCHEMA.into(), url, local })?;
            for (folder, names) in &self.folders {
                let rows = names.iter().filter(|(_, row)| row.new || !saw_all);
                let rows: Vec<Line> = rows.filter_map(|(name, row)| Line::of(name, &row.record)).collect();
                if !rows.is_empty() {
                    write_line(&mut *to, &(folder.target(), rows))?;
                }
            }
            to.flush()
        })
    }
}

fn read(file: fs::File, pair: &(String, String)) -> Option<Folders> {
    let mut lines = serde_json::Deserializer::from_reader(BufReader::new(file));
    let Head { schema, url, local } = Head::deserialize(&mut lines).ok()?;
    if schema != SCHEMA || (&url, &local) != (&pair.0, &pair.1) {
        return None;
    }
    let mut folders = Folders::new();
    for line in lines.into_iter::<(String, Vec<Line>)>() {
        let (folder, rows) = line.ok()?;
        let names = rows.into_iter().filter_map(Line::read).collect();
        folders.insert(RemotePath::from_url_path(&folder).ok()?, names);
    }
    Some(folders)
}

#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    url: String,
    local: String,
}

/// A file: name, length, local time (nanoseconds since 1970), entity tag, remote time (seconds since 1970), and the
/// source file's entity tag, if it is on another server.
#[derive(Serialize, Deserialize)]
struct Line(String, u64, u64, Option<String>, Option<u64>, #[serde(default)] Option<String>);

impl Line {
    /// None if the time does not fit.
    fn of(name: &[u8], record: &SyncedVersion) -> Option<Self> {
        let modified = record.modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let modified = u64::try_from(modified.as_nanos()).ok()?;
        let etag = record.etag.as_ref().map(ToString::to_string);
        let source = record.source.as_ref().map(ToString::to_string);
        Some(Self(encoded(name), record.length, modified, etag, record.stored.map(seconds), source))
    }

    fn read(self) -> Option<(Box<[u8]>, Row)> {
        let Self(name, length, modified, etag, stored, source) = self;
        let modified = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(modified))?;
        let stored = stored.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since)));
        let [etag, source] = [etag, source].map(|etag| etag.and_then(|etag| ETag::parse(&etag)));
        Some((decoded(&name), Row { record: SyncedVersion { length, modified, etag, stored, source }, new: false }))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn record(length: u64) -> SyncedVersion {
        let stored = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let modified = stored + Duration::from_nanos(123_456_789);
        SyncedVersion { length, modified, etag: ETag::parse("W/\"a\""), stored: Some(stored), source: None }
    }

    #[test]
    fn records_are_read_only_for_the_same_pair_of_folders() {
        let folder = tempfile::tempdir().unwrap();
        let (file, here) = (folder.path().join("cache/seen"), folder.path().join("here"));
        let [top, below] = ["/a/", "/a/b%25/"].map(|path| RemotePath::from_url_path(path).unwrap());
        let open = |url: &str| SyncedVersions::read(&file, url.into(), &here);
        let mut records = open("http://h/a/");
        for (folder, name, length) in [(&top, &b"x"[..], 1), (&top, b"\xff\n", 2), (&below, b"x", 3)] {
            records.keep(folder, name, Some(record(length)));
        }
        records.write(&file, true).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let mut again = open("http://h/a/");
        assert_eq!(again.of(&top, b"\xff\n"), Some(&record(2)));
        assert_eq!(again.of(&below, b"x"), Some(&record(3)));
        assert_eq!(open("http://other/a/").of(&top, b"x"), None);
        again.keep(&top, b"x", Some(record(9)));
        again.keep(&below, b"x", None);
        again.write(&file, false).unwrap();
        let stopped = open("http://h/a/");
        let lengths = |records: &SyncedVersions, name: &[u8]| records.of(&top, name).map(|record| record.length);
        assert_eq!((lengths(&stopped, b"x"), lengths(&stopped, b"\xff\n")), (Some(9), Some(2)));
        assert_eq!(stopped.of(&below, b"x"), None);
        again.write(&file, true).unwrap();
        let whole = open("http://h/a/");
        assert_eq!((lengths(&whole, b"x"), lengths(&whole, b"\xff\n")), (Some(9), None));
    }

    #[test]
    fn broken_record_file_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seen");
        let top = RemotePath::root();
        for text in ["", "{", "{\"schema\":\"longhaul.seen/2\",\"url\":\"u\",\"local\":\"/l\"}", "[1]"] {
            fs::write(&file, text).unwrap();
            let mut records = SyncedVersions::read(&file, "u".into(), Path::new("/l"));
            assert_eq!(records.of(&top, b"x"), None, "{text}");
            records.keep(&top, b"x", Some(record(1)));
            records.write(&file, true).unwrap();
            assert!(SyncedVersions::read(&file, "u".into(), Path::new("/l")).of(&top, b"x").is_some());
        }
        let mut none = SyncedVersions::default();
        none.keep(&top, b"x", Some(record(1)));
        assert_eq!(none.of(&top, b"x"), None);
    }
}
