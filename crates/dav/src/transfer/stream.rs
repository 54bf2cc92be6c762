//! Uploads a stream of unknown length, such as standard input.
//!
//! A short stream is read to its end first and sent as one PUT with a length. A longer one needs `Transfer-Encoding: chunked`,
//! which some servers refuse (411) and others store as an empty file. So a few bytes are sent that way first, and the result
//! is checked. If it does not work, the stream is spooled to a temporary file until its length is known.
//!
//! A connection that breaks may leave half of a chunked upload. So it goes to a temporary name, which is renamed when the
//! server has as many bytes as were sent.

use std::{
    io::{self, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use haul_http::{Body, Chunks, Class};
use http::HeaderMap;
use tokio::sync::Notify;

use super::temporary_name;
use crate::{Dav, Error, If, Precondition, PropertySet, RemotePath};

/// Streams up to this size are kept in memory.
const SHORT: usize = 4 * 1024 * 1024;
/// The content with which to test chunked uploads.
const PROBE: &[u8] = b"haul";

/// Uploads a stream as the file `to`, atomically; returns its length. When `stop` is notified, it is cancelled.
pub async fn upload_stream(dav: &Dav, stream: Chunks, to: &RemotePath, stop: &Notify) -> Result<u64, Error> {
    let (Some(parent), Some(name), false) = (to.parent(), to.name(), to.is_folder()) else {
        return Err(Error::Differs {
            path: to.clone(),
            why: "it is a folder; name the file that standard input is uploaded to".into(),
        });
    };
    let temporary = parent.join(&temporary_name(name), false)?;
    let sent = tokio::select! {
        biased;
        () = stop.notified() => Err(failed(io::Error::other("interrupted"))),
        sent = send(dav, stream, to, &temporary) => sent,
    };
    if sent.is_err() {
        // The server may still be working on what was sent.
        let settled = dav.client().settled(dav.requests().origin());
        let _ = tokio::time::timeout(std::time::Duration::from_secs(4), settled).await;
        let _ = dav.delete(&temporary, &Precondition::None, &If::default()).await;
    }
    sent
}

async fn send(dav: &Dav, mut stream: Chunks, to: &RemotePath, temporary: &RemotePath) -> Result<u64, Error> {
    let there = dav.stat(to, PropertySet::LISTING).await?;
    let precondition = match &there {
        Some(there) if there.path.is_folder() => {
            let why = "it is a folder; name the file that standard input is uploaded to".into();
            return Err(Error::Differs { path: to.clone(), why });
        }
        Some(there) => Precondition::of(there.properties.etag.as_ref()),
        None => Precondition::Absent,
    };
    let mut begun: Vec<Bytes> = Vec::new();
    let mut length = 0;
    while length <= SHORT {
        let Some(piece) = stream.try_next().await.map_err(failed)? else {
            return put(dav, to, begun.concat().into(), &precondition, Class::Small).await;
        };
        length += piece.len();
        begun.push(piece);
    }
    let stream = stream::iter(begun.into_iter().map(Ok)).chain(stream);
    if takes_chunks(dav, temporary).await {
        let sent = Arc::new(AtomicU64::new(0));
        let counted = sent.clone();
        let stream = stream.inspect_ok(move |piece| {
            counted.fetch_add(piece.len() as u64, Ordering::Relaxed);
        });
        let options = haul_http::Options { class: Class::Large, ..haul_http::Options::default() };
        let body = Body::once(None, Box::pin(stream));
        dav.put(temporary, body, HeaderMap::new(), &Precondition::None, &If::default(), options).await?;
        let sent = sent.load(Ordering::Relaxed);
        is_there(dav, temporary, to, sent).await?;
        set_down(dav, temporary, to, &precondition).await?;
        return Ok(sent);
    }
    let spool = spooled(stream.boxed()).await.map_err(failed)?;
    let length = spool.as_file().metadata().map_err(failed)?.len();
    put(dav, to, Body::file(spool.path().to_owned(), 0, length), &precondition, Class::Large).await
}

/// A PUT with a length, and a check of the result.
async fn put(dav: &Dav, to: &RemotePath, body: Body, precondition: &Precondition, class: Class) -> Result<u64, Error> {
    let length = body.length().unwrap_or_default();
    let options = haul_http::Options { class, ..haul_http::Options::default() };
    dav.put(to, body, HeaderMap::new(), precondition, &If::default(), options).await?;
    is_there(dav, to, to, length).await?;
    Ok(length)
}

/// Whether the server stores a chunked upload.
async fn takes_chunks(dav: &Dav, temporary: &RemotePath) -> bool {
    let body = Body::once(None, Box::pin(stream::iter([Ok(Bytes::from_static(PROBE))])));
    let options = haul_http::Options::default();
    let put = dav.put(temporary, body, HeaderMap::new(), &Precondition::None, &If::default(), options).await;
    if put.is_err() {
        return false;
    }
    let found = dav.stat(temporary, PropertySet::LISTING).await.ok().flatten();
    let takes = found.is_some_and(|found| found.properties.length == Some(PROBE.len() as u64));
    if !takes {
        let _ = dav.delete(temporary, &Precondition::None, &If::default()).await;
    }
    takes
}

/// Fails unless the server has `sent` bytes.
async fn is_there(dav: &Dav, at: &RemotePath, named: &RemotePath, sent: u64) -> Result<(), Error> {
    let found = dav.stat(at, PropertySet::LISTING).await?;
    let has = found.as_ref().and_then(|found| found.properties.length);
    let why = match found {
        Some(_) if has.is_none_or(|has| has == sent) => return Ok(()),
        Some(_) => format!("{sent} bytes were sent, but the server has {}", has.unwrap_or_default()),
        None => format!("the server acknowledged {sent} bytes, but has no such file"),
    };
    Err(Error::Differs { path: named.clone(), why })
}

/// Renames a complete upload to its final name, unless somebody has changed the target.
async fn set_down(
    dav: &Dav,
    temporary: &RemotePath,
    to: &RemotePath,
    precondition: &Precondition,
) -> Result<(), Error> {
    let none = If::default();
    let Precondition::Unchanged(tag) = precondition else {
        return dav.rename(temporary, to, *precondition != Precondition::Absent, &none).await.map(drop);
    };
    match dav.rename(temporary, to, true, &dav.claim_unchanged(&none, to, tag)).await {
        // A server without ETags in `If` answers 412 to every tag.
        Err(error) if error.is(412) && dav.is_still(to, tag).await => {
            dav.rename(temporary, to, true, &none).await.map(drop)
        }
        renamed => renamed.map(drop),
    }
}

async fn spooled(mut stream: Chunks) -> io::Result<tempfile::NamedTempFile> {
    let mut spool = tempfile::Builder::new().prefix(".haul-").tempfile()?;
    while let Some(piece) = stream.try_next().await? {
        spool.write_all(&piece)?;
    }
    Ok(spool)
}

fn failed(error: io::Error) -> Error {
    Error::local("upload", Path::new("standard input"), error)
}
