//! Reads responses: errors, short bodies, and successes that list parts that failed.

use std::time::SystemTime;

use bytes::Bytes;
use haul_http::{Answer, ResponseInfo};
use http::{Method, StatusCode};
use http_body_util::BodyExt;

use crate::{Error, Failure, Item, Multistatus, RemotePath, content_encoding::beginning};

/// Maximum number of bytes read of an error response.
const REFUSAL: usize = 64 * 1024;
/// Maximum number of bytes read of a response that should be short.
const SHORT: usize = 4 * 1024 * 1024;

/// Checks a success that may list parts that failed (RFC 4918 §13).
pub(super) async fn check_parts(
    answer: Answer,
    path: &RemotePath,
    method: &Method,
    other: Option<&RemotePath>,
) -> Result<(), Error> {
    if answer.status() != StatusCode::MULTI_STATUS {
        drain(answer).await;
        return Ok(());
    }
    let body = whole(answer).await?;
    let mut reader = Multistatus::new(path.clone());
    if let Some(other) = other {
        reader = reader.or_below(other.clone());
    }
    let listing = |why| Error::Listing { path: path.clone(), why };
    let items: Vec<Item> = reader.feed(&body).collect::<Result<_, _>>().map_err(listing)?;
    reader.finish().map_err(listing)?;
    for item in items {
        match item {
            Item::Entry(entry) => {
                let refused = entry.status.into_iter().chain(entry.refused.iter().map(|(_, status)| *status));
                if let Some(status) = refused.into_iter().find(|status| !status.is_success()) {
                    return Err(Box::new(Failure::of_part(method, &entry.path, status, entry.conditions)).into());
                }
            }
            // It may be a failure of this resource, under a name that a proxy rewrote.
            Item::Misplaced(other) => {
                let why = format!("outcome unknown: the answer is about another resource: {other}");
                return Err(Error::Differs { path: path.clone(), why });
            }
        }
    }
    Ok(())
}

/// Reads the beginning of an error response.
pub(super) async fn refusal(method: &Method, path: &RemotePath, answer: Answer) -> Failure {
    let times_sent = answer.extensions().get::<ResponseInfo>().map_or(1, |info| info.sendings);
    let (parts, mut body) = answer.into_parts();
    let mut text = Vec::new();
    while text.len() < REFUSAL
        && let Some(Ok(frame)) = body.frame().await
    {
        text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    let text = beginning(&parts.headers, text.into(), REFUSAL);
    let mut failure = Failure::new(method, path, parts.status, &parts.headers, &text, SystemTime::now());
    failure.times_sent = times_sent;
    failure
}

/// Reads a response body that should be short, and truncates it if it is not.
pub(crate) async fn whole(answer: Answer) -> Result<Bytes, Error> {
    let mut body = answer.into_body();
    let mut text = Vec::new();
    while text.len() < SHORT
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame?.into_data() {
            text.extend_from_slice(&data);
        }
    }
    Ok(text.into())
}

/// Reads a response body and discards it, up to a limit, so that the connection can be reused.
pub(crate) async fn drain(answer: Answer) {
    let mut body = answer.into_body();
    let mut length = 0;
    while length < SHORT
        && let Some(Ok(frame)) = body.frame().await
    {
        length += frame.data_ref().map_or(0, Bytes::len);
    }
}
