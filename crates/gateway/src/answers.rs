//! Answers that the gateway gives itself.

use bytes::{Bytes, BytesMut};
use dav::{Item, Multistatus, RemotePath};
use futures_util::StreamExt;
use haul_http::Incoming;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use serve::{AnswerBody, whole};
use std::io;

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

/// Whether a multistatus says that this is an empty file, or one without a length: a name that a lock reserves.
pub(crate) fn shows_no_content(body: &[u8], path: &RemotePath) -> bool {
    let mut multistatus = Multistatus::new(path.clone());
    let is_empty = |item| match item {
        Ok(Item::Entry(entry)) => !entry.path.is_folder() && entry.properties.length.unwrap_or(0) == 0,
        _ => false,
    };
    let found: Vec<bool> = multistatus.feed(body).map(is_empty).collect();
    found == [true] && multistatus.finish().is_ok()
}
