//! Bulk upload: the small files of a new folder, many to a request (Nextcloud).
//!
//! The endpoint overwrites whatever is at a file's path, without any precondition. So it never gets a name that somebody else
//! might use: the folder is created under a temporary name, filled, and renamed by a MOVE that refuses to overwrite. That one
//! request decides who gets the name, and others see the folder with all of its small files or not at all.
//!
//! Nothing is repaired here. If an answer does not confirm every file, or is lost (POST must not be repeated), or the name is
//! taken by now, the temporary folder is deleted and the files are uploaded by PUTs, each with its own precondition and error.
//! After a failure of the endpoint itself, it is not used again.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::atomic::Ordering,
    time::SystemTime,
};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use haul_http::{
    Body, Class,
    digest::{Algorithm, Digests, Field},
};
use http::{Request, header::CONTENT_TYPE};
use serde::Deserialize;

use super::{Upload, seconds};
use crate::{
    ETag, Error, If, RemotePath,
    client::whole,
    nextcloud::Nextcloud,
    transfer::{Event, marked, plan::Sent, random},
};

/// Maximum number of files and of bytes in a request, which a PHP server buffers completely.
const FILES: usize = 100;
const BYTES: u64 = 8 * 1024 * 1024;
/// Requests in flight per folder.
const LANES: usize = 2;

/// A file for a new folder.
#[derive(Debug, Clone)]
pub(super) struct Small {
    /// Its index in the outline.
    pub(super) file: usize,
    pub(super) local: PathBuf,
    pub(super) name: Vec<u8>,
    pub(super) length: u64,
    pub(super) modified: Option<SystemTime>,
}

/// The server's result for one file.
#[derive(Debug, Deserialize)]
struct BulkResult {
    error: bool,
    etag: Option<String>,
    message: Option<String>,
}

/// A file in a request.
struct Part {
    file: usize,
    own_path: String,
    length: u64,
}

impl Upload<'_> {
    /// Creates a folder with these files in it; returns those that it contains, or none if the folder must be created
    /// and filled in the usual way.
    pub(super) async fn create_filled_folder(
        &self,
        nextcloud: &Nextcloud,
        folder: &RemotePath,
        files: Vec<Small>,
    ) -> Option<Vec<(usize, Sent)>> {
        if self.learned.bulk_fails.load(Ordering::Relaxed) {
            return None;
        }
        let ours = folder.parent()?.join(&marked(folder.name()?, random(folder), "upload"), true).ok()?;
        self.temporary().insert(ours.clone(), None);
        let filled = async {
            self.dav.try_mkcol(&ours).await?;
            let sent = self.send_all(nextcloud, &ours, files).await;
            self.learned.bulk_fails.fetch_or(sent.is_err(), Ordering::Relaxed);
            let sent = sent?;
            self.dav.rename(&ours, folder, false, &If::default()).await?;
            Ok::<_, Error>(sent)
        };
        let filled = filled.await;
        match &filled {
            Ok(_) => drop(self.temporary().remove(&ours)),
            Err(_) => self.discard(&ours, None, false).await,
        }
        filled.ok()
    }

    async fn send_all(
        &self,
        nextcloud: &Nextcloud,
        folder: &RemotePath,
        files: Vec<Small>,
    ) -> Result<Vec<(usize, Sent)>, Error> {
        let batches = stream::iter(batches(files)).map(|batch| self.send_batch(nextcloud, folder, batch));
        Ok(batches.buffer_unordered(LANES).try_collect::<Vec<_>>().await?.concat())
    }

    async fn send_batch(
        &self,
        nextcloud: &Nextcloud,
        folder: &RemotePath,
        files: Vec<Small>,
    ) -> Result<Vec<(usize, Sent)>, Error> {
        // The files of each batch are in memory.
        let _turn = self.slots.bulk.acquire().await;
        let boundary = format!("longhaul-{:016x}", random(folder));
        let named = files.into_iter().map(|small| {
            let own_path = nextcloud.own_path(&folder.join(&small.name, false).ok()?)?;
            Some((small, own_path))
        });
        let named: Vec<_> = named.flatten().collect();
        let reading = boundary.clone();
        let read = tokio::task::spawn_blocking(move || compose(named, &reading)).await;
        let (body, parts) = read.map_err(|error| Error::local("read", "the sources", io::Error::other(error)))?;
        if parts.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = parts.iter().map(|part| part.length).sum();
        let endpoint = self.dav.requests().url(&nextcloud.bulk()?)?;
        let request = Request::post(endpoint).header(CONTENT_TYPE, format!("multipart/related; boundary={boundary}"));
        let options = haul_http::Options { class: Class::Large, ..haul_http::Options::default() };
        let unread = |why: String| Error::Differs { path: folder.clone(), why };
        let request = request.extension(options).body(Body::from(body)).map_err(|error| unread(error.to_string()))?;
        let answer = whole(self.dav.send(request, folder).await?).await?;
        let written: HashMap<String, BulkResult> = serde_json::from_slice(&answer)
            .map_err(|error| unread(format!("cannot parse the answer to the bulk upload: {error}")))?;
        let confirmed = parts.into_iter().map(|Part { file, own_path, length }| match written.get(&own_path) {
            Some(BulkResult { error: false, etag, .. }) => Ok((
                file,
                Sent { bytes: length, etag: etag.as_deref().and_then(ETag::parse), compared: false, seen: None },
            )),
            other => {
                let said = other.and_then(|other| other.message.as_deref()).unwrap_or("nothing");
                Err(unread(format!("the bulk upload of {own_path} failed: {said:?}")))
            }
        });
        let confirmed = confirmed.collect::<Result<Vec<_>, _>>()?;
        (self.watch)(Event::Moved { bytes });
        Ok(confirmed)
    }
}

/// Splits files into batches, in order.
fn batches(files: Vec<Small>) -> Vec<Vec<Small>> {
    let mut batches: Vec<Vec<Small>> = Vec::new();
    let mut bytes = 0;
    for small in files {
        bytes += small.length;
        match batches.last_mut() {
            Some(batch) if batch.len() < FILES && bytes <= BYTES => batch.push(small),
            _ => {
                bytes = small.length;
                batches.push(vec![small]);
            }
        }
    }
    batches
}

/// Builds the body of all files that can be read and have not grown.
fn compose(files: Vec<(Small, String)>, boundary: &str) -> (Bytes, Vec<Part>) {
    let (mut body, mut parts) = (Vec::new(), Vec::new());
    for (small, own_path) in files {
        let mut content = Vec::new();
        let read = File::open(&small.local).and_then(|file| file.take(small.length + 1).read_to_end(&mut content));
        if read.is_err() || content.len() as u64 > small.length {
            continue;
        }
        let digest = Digests::of(&content, &[Algorithm::Md5]).value(Field::OcChecksum);
        let Some(md5) = digest.as_ref().and_then(|value| value.to_str().ok()?.strip_prefix("MD5:")) else { continue };
        let modified = seconds(small.modified).map_or(String::new(), |time| format!("X-File-Mtime: {time}\r\n"));
        let head = format!(
            "--{boundary}\r\nContent-Length: {}\r\nContent-Type: application/octet-stream\r\nX-File-MD5: {md5}\r\n\
             {modified}X-File-Path: {own_path}\r\n\r\n",
            content.len()
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&content);
        body.extend_from_slice(b"\r\n");
        parts.push(Part { file: small.file, own_path, length: content.len() as u64 });
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (body.into(), parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(local: PathBuf, length: u64) -> Small {
        Small { file: 0, local, name: b"x".to_vec(), length, modified: Some(SystemTime::UNIX_EPOCH) }
    }

    #[test]
    fn bulk_request_is_limited_in_files_and_bytes() {
        let lengths = |files: Vec<u64>| -> Vec<usize> {
            let files = files.into_iter().map(|length| small(PathBuf::new(), length)).collect();
            batches(files).iter().map(Vec::len).collect()
        };
        assert_eq!(lengths(vec![1; 250]), [100, 100, 50]);
        assert_eq!(lengths(vec![BYTES / 2, BYTES / 2, 1, BYTES, BYTES + 1]), [2, 1, 1, 1]);
        assert!(lengths(vec![]).is_empty());
    }

    #[test]
    fn bulk_part_has_name_length_and_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let [one, grown] = ["one", "grown"].map(|name| folder.path().join(name));
        std::fs::write(&one, "abc").unwrap();
        std::fs::write(&grown, "longer than it was").unwrap();
        let gone = folder.path().join("gone");
        let files = [(one, 3), (grown, 5), (gone, 5)].map(|(path, length)| (small(path, length), "/a/ü".to_owned()));
        let (body, parts) = compose(files.into(), "b");
        assert_eq!(
            str::from_utf8(&body).unwrap(),
            "--b\r\nContent-Length: 3\r\nContent-Type: application/octet-stream\r\n\
             X-File-MD5: 900150983cd24fb0d6963f7d28e17f72\r\nX-File-Mtime: 0\r\nX-File-Path: /a/ü\r\n\r\nabc\r\n--b--\r\n"
        );
        assert_eq!(parts.len(), 1);
    }
}
