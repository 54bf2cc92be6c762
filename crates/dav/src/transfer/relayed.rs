//! A file on a server as the body of a request to another one.

use std::io;

use futures_util::{TryStreamExt, stream};
use haul_http::{Body, Class, Options};
use http::{HeaderMap, HeaderValue, StatusCode, header::IF_MATCH};
use http_body_util::BodyExt;

use crate::{Dav, RemotePath, client::compare::as_stored, transfer::tree::Leaf};

/// The content of a file, as it comes. It is asked for when the body is opened, and anew each time; of another version
/// than this one nothing comes, where the server tells them apart.
pub fn body_of(dav: &Dav, path: &RemotePath, leaf: &Leaf) -> Body {
    let (dav, path, length) = (dav.clone(), path.clone(), leaf.length);
    let tag =
        leaf.etag.clone().filter(|tag| !tag.is_weak()).and_then(|tag| HeaderValue::from_str(&tag.to_string()).ok());
    Body::repeatable(length, move || {
        let (dav, path, tag) = (dav.clone(), path.clone(), tag.clone());
        let asked = async move {
            let mut headers = HeaderMap::from_iter([as_stored()]);
            headers.extend(tag.map(|tag| (IF_MATCH, tag)));
            let options = Options { class: Class::Large, ..Options::default() };
            let answer = dav.get(&path, headers, options).await.map_err(io::Error::other)?;
            if answer.status() != StatusCode::OK {
                return Err(io::Error::other(format!(
                    "{path}: the server answers with {} instead of the file",
                    answer.status()
                )));
            }
            Ok(answer.into_body().into_data_stream().map_err(io::Error::other))
        };
        Box::pin(stream::once(asked).try_flatten())
    })
}
