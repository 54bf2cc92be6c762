//! Answers that the gateway gives itself.

use bytes::{Bytes, BytesMut};
use dav::{ETag, Item, Multistatus, Precondition, RemotePath};
use futures_util::StreamExt;
use haul_http::Incoming;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use serve::{AnswerBody, whole};
use std::{io, time::SystemTime};

use crate::redirector::Locked;

pub(crate) const LOCK_TOKEN: HeaderName = HeaderName::from_static("lock-token");
const XML: HeaderValue = HeaderValue::from_static("application/xml; charset=\"utf-8\"");

pub(crate) fn text(status: StatusCode, why: impl Into<Bytes>) -> Response<AnswerBody> {
    typed(status, HeaderValue::from_static("text/plain; charset=utf-8"), why)
}

pub(crate) fn multistatus(body: impl Into<Bytes>) -> Response<AnswerBody> {
    typed(StatusCode::MULTI_STATUS, XML, body)
}

fn typed(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = Response::new(whole(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// A saved file is in the journal, and the server does not take it.
pub(crate) fn not_yet() -> Response<AnswerBody> {
    let why = "504: a file that was saved here is not at the server yet; it is safe in the gateway's journal, and will be sent\n";
    let mut response = text(StatusCode::GATEWAY_TIMEOUT, why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// A client has too many credentials in use at once.
pub(crate) fn too_many() -> Response<AnswerBody> {
    let why =
        "503: too many credentials from this address, or cookies with this one, are in use at once; retry later\n";
    let mut response = text(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

pub(crate) fn without_body(status: StatusCode) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::default());
    *response.status_mut() = status;
    response
}

/// As to the LOCK that has created the file, but it exists by now.
pub(crate) fn granted(locked: Locked) -> Response<AnswerBody> {
    let mut response = Response::new(whole(locked.body));
    *response.headers_mut() = locked.headers;
    response
}

/// The header of an empty file, and a method without a body.
pub(crate) fn empty_file() -> Response<AnswerBody> {
    let mut response = without_body(StatusCode::OK);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    response
}

pub(crate) fn streamed(body: Incoming) -> AnswerBody {
    body.map_err(io::Error::other).boxed_unsync()
}

/// Reads a body of at most `largest` bytes; returns a longer one as a stream.
pub(crate) async fn read(mut body: Incoming, largest: usize) -> Result<Bytes, AnswerBody> {
    let mut read = BytesMut::new();
    if body.size_hint().lower() > largest as u64 {
        return Err(streamed(body));
    }
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Err(error) => {
                let pieces = [Ok(http_body::Frame::data(read.freeze())), Err(io::Error::other(error))];
                return Err(StreamBody::new(futures_util::stream::iter(pieces)).boxed_unsync());
            }
        }
        if read.len() > largest {
            let first = futures_util::stream::iter([Ok(http_body::Frame::data(read.freeze()))]);
            let rest = BodyStream::new(body).map(|frame| frame.map_err(io::Error::other));
            return Err(StreamBody::new(first.chain(rest)).boxed_unsync());
        }
    }
    Ok(read.freeze())
}

/// Fields of an answer that its body has with it.
pub(crate) fn kept_fields(headers: &HeaderMap) -> HeaderMap {
    let kept = [CONTENT_TYPE, LOCK_TOKEN, HeaderName::from_static("timeout")];
    kept.into_iter().filter_map(|name| Some((name.clone(), headers.get(&name)?.clone()))).collect()
}

/// What a multistatus says about a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShownContent {
    /// It has none.
    Empty,
    /// There is neither a length, nor an entity tag, nor a time: perhaps a name that a lock reserves (RFC 2518 §7.4).
    Nothing,
    /// It has some, or something else than one file is shown.
    Some,
}

/// What a multistatus says about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) content: ShownContent,
    pub(crate) version: Option<ETag>,
    modified: Option<SystemTime>,
}

impl Shown {
    /// Of a name that the server does not have.
    pub(crate) const NOTHING: Self = Self { content: ShownContent::Nothing, version: None, modified: None };

    /// Whether both show the same version, as far as the server tells.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let is_version = |(ours, theirs): (&ETag, &ETag)| ours.resembles(theirs);
        self.content == other.content
            && match self.version.as_ref().zip(other.version.as_ref()) {
                None => self.version == other.version && self.modified == other.modified,
                both => both.is_some_and(is_version),
            }
    }

    /// What a change of the file requires, as far as this tells.
    pub(crate) fn precondition(&self) -> Precondition {
        match (&self.version, self.content) {
            (None, ShownContent::Nothing) => Precondition::Absent,
            (version, _) => Precondition::of(version.as_ref()),
        }
    }

    /// Of an answer to a look at this path.
    pub(crate) fn of(body: &[u8], path: &RemotePath) -> Self {
        let unknown = || Self { content: ShownContent::Some, version: None, modified: None };
        let mut multistatus = Multistatus::new(path.clone());
        let shown = |item| match item {
            Ok(Item::Entry(entry)) if !entry.path.is_folder() && entry.status.is_none() && entry.refused.is_empty() => {
                let properties = entry.properties;
                let has_version = properties.etag.is_some() || properties.modified.is_some();
                let content = match properties.length {
                    Some(0) => ShownContent::Empty,
                    None if !has_version => ShownContent::Nothing,
                    _ => ShownContent::Some,
                };
                Self { content, version: properties.etag, modified: properties.modified }
            }
            _ => unknown(),
        };
        let found: Vec<_> = multistatus.feed(body).map(shown).collect();
        match (&*found, multistatus.finish()) {
            ([shown], Ok(_)) => shown.clone(),
            _ => unknown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_content_only_if_the_answer_says_so() {
        let path = RemotePath::from_url_path("/f/a").unwrap();
        let response = |properties: &str, status: &str| {
            format!(
                "<D:response><D:href>/f/a</D:href><D:propstat><D:prop>{properties}</D:prop>\
                 <D:status>HTTP/1.1 {status}</D:status></D:propstat></D:response>"
            )
        };
        let of = |responses: &str| {
            let text = format!("<D:multistatus xmlns:D=\"DAV:\">{responses}</D:multistatus>");
            Shown::of(text.as_bytes(), &path).content
        };
        let length = |length: &str| format!("<D:getcontentlength>{length}</D:getcontentlength>");
        assert_eq!(of(&response(&length("0"), "200 OK")), ShownContent::Empty);
        assert_eq!(of(&response("<D:resourcetype/>", "200 OK")), ShownContent::Nothing);
        let missing = response("<D:getcontentlength/><D:getetag/>", "404 Not Found");
        assert_eq!(of(&missing), ShownContent::Nothing);
        for some in [
            response(&length("1"), "200 OK"),
            response("<D:getetag>\"x\"</D:getetag>", "200 OK"),
            response("<D:getlastmodified>Tue, 19 Mar 2019 09:30:00 GMT</D:getlastmodified>", "200 OK"),
            response("<D:getcontentlength/>", "403 Forbidden"),
            response("<D:resourcetype><D:collection/></D:resourcetype>", "200 OK"),
            response(&length("0"), "200 OK").repeat(2),
            String::new(),
        ] {
            assert_eq!(of(&some), ShownContent::Some, "{some}");
        }
        assert_eq!(Shown::of(b"<D:multistatus", &path).content, ShownContent::Some);
    }
}
