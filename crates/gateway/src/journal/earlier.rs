//! The journal of release 0.1: a file for each save, which begins with one line of JSON; and beside it, `<n>.why` has why its
//! upload failed, and `<n>.aside` says that it goes beside another version. It is taken over at the first start.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use dav::{ETag, RemotePath};
use output::durable;
use serde::Deserialize;
use tokio::time::Instant;
use writeback::{Failure, Id, Journal};

use super::{Details, Entry, failed};

/// The longest line.
const LONGEST: u64 = 64 * 1024;
/// What only such a journal has.
const MARK: &str = "upstream";

#[derive(Deserialize)]
struct Head {
    path: String,
    base: Option<String>,
    length: u64,
    at: u64,
    #[serde(flatten)]
    details: Details,
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
    let details = Details { is_aside: place.with_extension("aside").exists(), ..head.details };
    let mut entry = super::entry(path, head.base.as_deref().and_then(ETag::parse), head.length, details);
    (entry.id, entry.closed) = (id, SystemTime::UNIX_EPOCH + Duration::from_secs(head.at));
    Ok((entry, file))
}

/// Takes such a journal over. If that is cut, the next start goes on with it.
pub(super) fn adopt(journal: &Journal<Details>) -> io::Result<()> {
    let folder = journal.folder();
    if !folder.join(MARK).exists() {
        return Ok(());
    }
    let places = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    for place in &places {
        let Some(id) = place.file_name().and_then(|name| name.to_str()?.parse().ok()).map(Id) else { continue };
        let is_known = journal.entries().get(id).is_some();
        match read(id, place) {
            _ if is_known => {}
            Ok((entry, mut content)) => {
                let mut data = File::create(journal.data(id))?;
                io::copy(&mut content, &mut data)?;
                journal.sync_data(&data)?;
                let mut entries = journal.entries();
                entries.add(entry);
                if let Ok(why) = fs::read_to_string(place.with_extension("why")) {
                    entries.failed(id, failed(Failure::Unknown, why, None), Instant::now());
                }
            }
            Err(error) => {
                tracing::error!("the saved file {} cannot be used: {error}", place.display());
                journal.keep(place)?;
            }
        }
    }
    // Before they are deleted.
    journal.commit()?;
    let is_theirs = |place: &&PathBuf| {
        let stem = place.file_stem().and_then(|stem| stem.to_str());
        stem.is_some_and(|stem| stem.parse::<u64>().is_ok()) && place.exists()
    };
    places.iter().filter(is_theirs).try_for_each(fs::remove_file)?;
    fs::remove_file(folder.join(MARK))?;
    durable::sync(folder)
}
