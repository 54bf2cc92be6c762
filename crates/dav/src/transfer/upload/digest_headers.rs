//! Digests in the headers of uploads, with `--verify digest`.
//!
//! A server that knows the header compares what it stored with what was sent before it answers, and refuses what got
//! spoilt on the way. The digest stands before the body, so the file is read once for it and once to be sent: trailers
//! would spare that, but servers that read the trailers of a request are hardly known. Others ignore the header (RFC
//! 9530 §3 lets them). Some refuse what they do not know: then the file goes again without it, and so do all that
//! follow. In either case the file is compared afterwards as well.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_http::{
    Body,
    digest::{Algorithm, Digests, Field},
};
use http::HeaderMap;

use super::{Upload, source::Source};
use crate::{
    Error,
    transfer::{Verify, source_file::SourceFile},
};

/// Whether the server refuses digests.
#[derive(Debug, Default)]
pub(super) struct DigestHeaders(AtomicBool);

impl DigestHeaders {
    /// From now on none is sent.
    pub(super) fn is_refused(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Upload<'_> {
    /// The headers that state a file's digest; none where that is not wanted.
    pub(super) fn stated(&self, source: &Source) -> impl Future<Output = Result<HeaderMap, Error>> + Send + use<> {
        let wanted = self.options.verify == Verify::Digest && !self.stated.0.load(Ordering::Relaxed);
        // What ownCloud and Nextcloud keep, and what RFC 9530 has for everybody.
        let (algorithm, fields) = match self.nextcloud {
            Some(_) => (Algorithm::Sha1, &[Field::OcChecksum][..]),
            None => (Algorithm::Sha256, &[Field::ReprDigest, Field::ContentDigest][..]),
        };
        // Reading it for its digest is no progress.
        let body = match (&source.origin, source.body.length()) {
            (SourceFile::Local(local), Some(length)) if source.is_read_later => {
                Some(Body::file(local.clone(), 0, length))
            }
            // It would be fetched twice.
            (SourceFile::Remote(_), _) if source.is_read_later => None,
            _ => source.body.again(),
        };
        let (body, origin) = (body.filter(|_| wanted), source.origin.clone());
        async move {
            let Some(mut body) = body else { return Ok(HeaderMap::new()) };
            let digests = Digests::of_body(&mut body, &[algorithm]).await;
            let digests = digests.map_err(|error| origin.refused(format!("it cannot be read: {error}")))?;
            Ok(fields.iter().filter_map(|field| Some((field.name(), digests.value(*field)?))).collect())
        }
    }
}

impl Upload<'_> {
    /// Sends a file with the headers that state its digest, and once more without them if it is refused.
    pub(super) async fn put_stated<T, F: Future<Output = Result<T, Error>>>(
        &self,
        body: Body,
        (headers, stated): (HeaderMap, HeaderMap),
        put: impl Fn(Body, HeaderMap) -> F,
    ) -> Result<T, Error> {
        let again = if stated.is_empty() { None } else { body.again() };
        let mut all = headers.clone();
        all.extend(stated);
        match (put(body, all).await, again) {
            (Err(error), Some(body)) if may_be_about_headers(&error) => {
                // In a box, since it is rare.
                let put = Box::pin(put(body, headers)).await?;
                self.stated.is_refused();
                Ok(put)
            }
            (put, _) => put,
        }
    }
}

/// Whether a server may refuse a request so because it does not know one of its headers.
fn may_be_about_headers(error: &Error) -> bool {
    [400, 415, 422, 501].iter().any(|status| error.is(*status))
}
