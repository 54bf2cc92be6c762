//! The journal of release 0.1: a file for each save, which begins with one line of JSON; and beside it, `<n>.why` has why its
//! upload failed, and `<n>.aside` says that it goes beside another version. It is taken over at the first start.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use dav::{ETag, RemotePath};
use output::durable;
use serde::Deserialize;
use tokio::time::Instant;
use writeback::{Id, Journal};

use super::{Details, Entry, failed};

/// The longest line.
const LONGEST: u64 = 64 * 1024;
/// What only such a journal has.
const MARK: &str = "upstream";

#[derive(Deserialize)]
struct Head {
    user: String,
    path: String,
    token: String,
    base: Option<String>,
    kind: Option<String>,
    length: u64,
    at: u64,
}

/// The saved files of such a journal, and their numbers; none if it is none.
fn files(folder: &Path) -> io::Result<Vec<(Id, PathBuf)>> {
    if !folder.join(MARK).exists() {
        return Ok(Vec::new());
    }
    let number = |place: &Path| place.file_name()?.to_str()?.parse().ok().map(Id);
    let places = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut files: Vec<_> = places.into_iter().filter_map(|place| Some((number(&place)?, place))).collect();
    files.sort();
    Ok(files)
}

/// What a file says of itself, and the file behind that.
fn read(id: Id, place: &Path) -> io::Result<(Entry, BufReader<File>)> {
    let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut file = BufReader::new(File::open(place)?);
    let mut line = Vec::new();
    file.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
    let head: Head = serde_json::from_slice(&line).map_err(|_| damaged("its first line is no record"))?;
    let path = RemotePath::from_url_path(&head.path).map_err(|_| damaged("its path is none"))?;
    if file.get_ref().metadata()?.len().checked_sub(line.len() as u64) != Some(head.length) {
        return Err(damaged("its length is not the recorded one"));
    }
    let is_aside = place.with_extension("aside").exists();
    let details = Details { is_aside, user: head.user, token: head.token, kind: head.kind, ..Details::default() };
    let base = head.base.as_deref().and_then(ETag::parse);
    let mut entry = super::entry(path, base, head.length, details);
    (entry.id, entry.closed) = (id, SystemTime::UNIX_EPOCH + Duration::from_secs(head.at));
    Ok((entry, file))
}

/// Takes such a journal over. If that is cut, the next start goes on with it.
pub(super) fn adopt(journal: &Journal<Details>) -> io::Result<()> {
    let folder = journal.folder();
    for (id, place) in files(folder)? {
        let is_known = journal.entries().get(id).is_some();
        match read(id, &place) {
            _ if is_known => {}
            Ok((entry, mut content)) => {
                let mut data = File::create(journal.data(id))?;
                io::copy(&mut content, &mut data)?;
                journal.sync_data(&data)?;
                let mut entries = journal.entries();
                entries.add(entry);
                if let Ok(why) = fs::read_to_string(place.with_extension("why")) {
                    entries.failed(id, failed(why), Instant::now());
                }
            }
            Err(error) => {
                tracing::error!("the saved file {} cannot be used: {error}", place.display());
                journal.keep(&place)?;
            }
        }
    }
    // Before they are deleted.
    journal.commit()?;
    for file in fs::read_dir(folder)? {
        let place = file?.path();
        let is_theirs = |stem: &OsStr| stem.to_str().is_some_and(|stem| stem == MARK || stem.parse::<u64>().is_ok());
        if place.file_stem().is_some_and(is_theirs) {
            fs::remove_file(place)?;
        }
    }
    durable::sync(folder)
}
