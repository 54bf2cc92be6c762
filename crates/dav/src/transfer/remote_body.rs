//! A file on one server as the body of an upload to another.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::{TryStreamExt, stream};
use haul_http::{Answer, Body, Class, Options};
use http::{HeaderMap, HeaderValue, StatusCode, header::IF_MATCH};
use http_body::Body as _;
use http_body_util::BodyExt;

use super::{
    Verify,
    source_file::RemoteSource,
    upload::{LISTING_ATTEMPTS, is_cut},
};
use crate::{
    Dav, Error, RemotePath,
    client::compare::{agree, as_stored, same_digest, with_digests},
    transfer::file_facts::FileFacts,
};

/// Answers up to this size may precede others on a connection.
const SMALL: u64 = 256 * 1024;

/// The content of a remote file as a body. Each time it is opened, it sends a GET for exactly this version, if the
/// server has strong entity tags.
pub fn body_of(dav: &Dav, path: &RemotePath, facts: &FileFacts) -> Body {
    let (dav, path, length) = (dav.clone(), path.clone(), facts.length);
    let tag =
        facts.etag.clone().filter(|tag| !tag.is_weak()).and_then(|tag| HeaderValue::from_str(&tag.to_string()).ok());
    Body::repeatable(length, move || {
        let (dav, path, tag) = (dav.clone(), path.clone(), tag.clone());
        let response = async move {
            let mut headers = HeaderMap::from_iter([as_stored()]);
            headers.extend(tag.map(|tag| (IF_MATCH, tag)));
            let options = Options { class: Class::Large, ..Options::default() };
            let answer = dav.get(&path, headers, options).await.map_err(io::Error::other)?;
            is_whole(&answer, &path, length).map_err(io::Error::other)?;
            Ok::<_, io::Error>(answer.into_body().into_data_stream().map_err(io::Error::other))
        };
        Box::pin(stream::once(response).try_flatten())
    })
}

/// A file on a server: its path and its listed facts.
pub type ListedFile<'a> = (&'a Dav, &'a RemotePath, &'a FileFacts);

/// Whether the digests that two servers list, or compute on request, are equal; none without a common algorithm.
pub async fn digests_agree(one: ListedFile<'_>, other: ListedFile<'_>) -> Result<Option<bool>, Error> {
    let of = |(dav, path, facts): ListedFile<'_>| {
        let (dav, path, facts) = (dav.clone(), path.clone(), facts.clone());
        async move { dav.digests_of(&path, &facts.checksums, facts.expected()).await }
    };
    if let Some(same) = same_digest(&one.2.checksums, &other.2.checksums) {
        return Ok(Some(same));
    }
    let (ours, theirs) = futures_util::try_join!(of(one), of(other))?;
    Ok(agree(&ours, &theirs))
}

/// The content of a small file. A truncated response is requested again.
pub(crate) async fn content_of(dav: &Dav, remote: &RemoteSource, verify: Verify) -> Result<Bytes, Error> {
    let mut tries = 1..LISTING_ATTEMPTS;
    loop {
        match try_content(dav, remote, verify).await {
            Err(error) if is_cut(&error) && tries.next().is_some() => {}
            content => return content,
        }
    }
}

async fn try_content(dav: &Dav, remote: &RemoteSource, verify: Verify) -> Result<Bytes, Error> {
    let (path, listed) = (&remote.path, remote.facts.length);
    let length = listed.unwrap_or(0);
    let class = if length <= SMALL { Class::Small } else { Class::Large };
    let options = Options { class, expected: remote.facts.expected(), ..Options::default() };
    // A digest in the answer is verified while reading.
    let headers = if verify == Verify::Digest { with_digests() } else { HeaderMap::from_iter([as_stored()]) };
    let answer = dav.get(path, headers, options).await?;
    is_whole(&answer, path, listed)?;
    let (mut body, mut content) = (answer.into_body(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        content.extend_from_slice(&frame?.into_data().unwrap_or_default());
        if content.len() as u64 > length {
            return Err(other_length(path, length, "more"));
        }
    }
    if content.len() as u64 != length {
        return Err(other_length(path, length, content.len()));
    }
    Ok(content.freeze())
}

/// Checks that an answer is the whole file, with the listed length.
fn is_whole(answer: &Answer, path: &RemotePath, listed: Option<u64>) -> Result<(), Error> {
    if answer.status() != StatusCode::OK {
        let why = format!("the server answers {} instead of sending the file", answer.status());
        return Err(Error::Differs { path: path.clone(), why });
    }
    match (listed, answer.body().size_hint().exact()) {
        (Some(listed), Some(sent)) if listed != sent => Err(other_length(path, listed, sent)),
        _ => Ok(()),
    }
}

fn other_length(path: &RemotePath, listed: u64, sent: impl std::fmt::Display) -> Error {
    Error::Differs { path: path.clone(), why: format!("the server listed {listed} bytes, but sent {sent}") }
}
