//! Chunked uploads (Nextcloud's "chunked upload v2").
//!
//! A folder outside the files is created for the upload, numbered chunks are put into it, several at a time, and a MOVE of its
//! `.file` joins them to the final file, atomically. What an interrupted run left there stays for a day and is resumed: a
//! listing of the folder shows the chunks.
//!
//! The listing also shows chunks that the server acknowledged and lost. It is checked before the MOVE, because not every
//! storage behind a Nextcloud counts the bytes. The precondition goes with the MOVE, as `If` with the URL of the target
//! (`If-Match` would be about the chunks) and as `Overwrite`.

use std::{collections::HashMap, ops::Range, path::Path, time::SystemTime};

use futures_util::{StreamExt, TryStreamExt, stream};
use haul_http::Class;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Upload, file::mtime, ranges::is_passing, renaming, source_content::Seen};
use crate::{
    Error, If, Precondition, PropertySet, RemotePath,
    nextcloud::Nextcloud,
    requests::Depth,
    transfer::{Event, plan::Sent, random},
};

/// A chunk's number, from 1, and its range of the file.
type Chunk = (u64, Range<u64>);

impl Upload<'_> {
    /// Uploads a file in chunks of `size`, `lanes` at a time.
    #[expect(clippy::too_many_arguments, reason = "what a file is, where it goes, and how")]
    pub(super) async fn send_chunks(
        &self,
        nextcloud: &Nextcloud,
        local: &Path,
        path: &RemotePath,
        length: u64,
        modified: Option<SystemTime>,
        precondition: &Precondition,
        claims: &If,
        (size, lanes): (u64, usize),
    ) -> Result<Sent, Error> {
        let seen = Seen::look(local, length)?;
        let alone = self.alone(local, path, size)?;
        let mark = alone.as_ref().map_or_else(|| random(path), |alone| alone.mark);
        let folder = nextcloud.upload(&format!("longhaul-{mark:016x}"))?;
        if alone.is_none() {
            self.temporary().insert(folder.clone(), None);
        }
        let mut headers = HeaderMap::new();
        let url = self.dav.requests().url(path)?.to_string();
        headers.extend(HeaderValue::from_str(&url).map(|url| (HeaderName::from_static("destination"), url)));
        headers.insert(HeaderName::from_static("oc-total-length"), length.into());
        let sent = async {
            self.put_chunks(&folder, local, length, (size, lanes), alone.is_some(), &headers).await?;
            seen.still(local)?;
            headers.extend(mtime(modified));
            let (overwrite, claims) = renaming(self.dav, path, precondition, claims);
            headers.remove("destination");
            self.dav.assemble(&folder, path, overwrite, &claims, headers).await
        };
        let sent = sent.await;
        match &sent {
            Ok(_) => drop(self.temporary().remove(&folder)),
            Err(why) if alone.is_some() && is_passing(why) => {}
            Err(_) => self.discard(&folder, alone, false).await,
        }
        sent.map(|_| Sent { bytes: length, etag: None, compared: false, seen: None })
    }

    /// Sends missing chunks, and repeats those that the server has lost.
    async fn put_chunks(
        &self,
        folder: &RemotePath,
        local: &Path,
        length: u64,
        (size, lanes): (u64, usize),
        resumes: bool,
        headers: &HeaderMap,
    ) -> Result<(), Error> {
        let mut there = if resumes { self.chunks_in(folder).await? } else { None };
        if there.is_none() {
            self.dav.mkcol_with(folder, headers.clone(), haul_http::Options::default()).await?;
        }
        let mut missing = missing(there.take(), length, size);
        let has = length - missing.iter().map(|(_, range)| range.end - range.start).sum::<u64>();
        if has > 0 {
            (self.watch)(Event::Moved { bytes: has });
        }
        for _ in 0..2 {
            if missing.is_empty() {
                return Ok(());
            }
            stream::iter(missing)
                .map(|chunk| self.put_chunk(folder, local, chunk, headers))
                .buffer_unordered(lanes)
                .try_for_each(|()| async { Ok(()) })
                .await?;
            missing = self::missing(self.chunks_in(folder).await?, length, size);
        }
        match missing.len() {
            0 => Ok(()),
            lost => {
                let why = format!("the server acknowledged {lost} chunks that it does not have; retry");
                Err(Error::Differs { path: folder.clone(), why })
            }
        }
    }

    async fn put_chunk(
        &self,
        folder: &RemotePath,
        local: &Path,
        (number, range): Chunk,
        headers: &HeaderMap,
    ) -> Result<(), Error> {
        let path = folder.join(format!("{number:05}").as_bytes(), false)?;
        let body = self.part_of(local, &range);
        let options = haul_http::Options { class: Class::Large, ..haul_http::Options::default() };
        self.dav.put(&path, body, headers.clone(), &Precondition::None, &If::default(), options).await?;
        Ok(())
    }

    /// The chunks on the server, by number, with their lengths; none if the folder does not exist.
    async fn chunks_in(&self, folder: &RemotePath) -> Result<Option<HashMap<u64, u64>>, Error> {
        let mut there = HashMap::new();
        let listed = self.dav.list(folder, Depth::One, PropertySet::LISTING, |entry| {
            // Some storages list numbers without leading zeros.
            if let Ok(entry) = entry
                && let Some(number) =
                    entry.path.name().and_then(|name| str::from_utf8(name).ok()).and_then(|name| name.parse().ok())
            {
                there.insert(number, entry.properties.length.unwrap_or(0));
            }
        });
        match listed.await {
            Ok(()) => Ok(Some(there)),
            Err(error) if error.is(404) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The chunks that are missing or have a wrong length.
fn missing(there: Option<HashMap<u64, u64>>, length: u64, size: u64) -> Vec<Chunk> {
    let there = there.unwrap_or_default();
    let ranges = (0..length).step_by(size as usize).map(|start| start..(start + size).min(length));
    (1..).zip(ranges).filter(|(number, range)| there.get(number) != Some(&(range.end - range.start))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_of_another_length_counts_as_missing() {
        let there = |chunks: &[(u64, u64)]| Some(chunks.iter().copied().collect());
        assert_eq!(missing(None, 25, 10), [(1, 0..10), (2, 10..20), (3, 20..25)]);
        assert_eq!(missing(there(&[(1, 10), (2, 9), (3, 5), (4, 10)]), 25, 10), [(2, 10..20)]);
        assert_eq!(missing(there(&[(1, 10), (2, 10), (3, 5)]), 25, 10), []);
    }
}
