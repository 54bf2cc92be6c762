//! Digest headers of uploads, with `--verify digest`.
//!
//! A server that knows the header compares the stored content with it before it answers, and refuses corrupted content. The
//! header precedes the body, so the file is read twice: once for its digest and once to be sent. Trailers would avoid that,
//! but hardly any server reads the trailers of a request. Other servers ignore the header (RFC 9530 §3), and some refuse it:
//! then this file is sent again without it, and so are all others. In any case the file is also compared afterwards.

use std::sync::atomic::{AtomicBool, Ordering};

use haul_http::{
    Body,
    digest::{Algorithm, Digests, Field},
};
use http::HeaderMap;

use super::{Upload, source_content::Source};
use crate::{
    Error,
    transfer::{Verify, source_file::SourceFile},
};

/// Whether the server refuses digest headers.
#[derive(Debug, Default)]
pub(super) struct DigestHeaders(AtomicBool);

impl DigestHeaders {
    /// Stops sending them.
    pub(super) fn is_refused(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Upload<'_> {
    /// The digest headers of a file; none unless wanted.
    pub(super) fn stated(&self, source: &Source) -> impl Future<Output = Result<HeaderMap, Error>> + Send + use<> {
        let wanted = self.options.verify == Verify::Digest && !self.learned.digest_headers.0.load(Ordering::Relaxed);
        // For ownCloud and Nextcloud, and the standard (RFC 9530).
        let (algorithm, fields) = match self.nextcloud {
            Some(_) => (Algorithm::Sha1, &[Field::OcChecksum][..]),
            None => (Algorithm::Sha256, &[Field::ReprDigest, Field::ContentDigest][..]),
        };
        // Reading for the digest does not count as progress.
        let body = match (&source.origin, source.body.length()) {
            (SourceFile::Local(local), Some(length)) if source.is_read_later => {
                Some(Body::file(local.clone(), 0, length))
            }
            // It would be fetched twice.
            (SourceFile::Remote(_), _) if source.is_read_later => None,
            _ => source.body.try_clone(),
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
    /// Uploads a file with digest headers, and a second time without them if that is refused.
    pub(super) async fn put_stated<T, F: Future<Output = Result<T, Error>>>(
        &self,
        body: Body,
        (headers, stated): (HeaderMap, HeaderMap),
        put: impl Fn(Body, HeaderMap) -> F,
    ) -> Result<T, Error> {
        let again = if stated.is_empty() { None } else { body.try_clone() };
        let mut all = headers.clone();
        all.extend(stated);
        match (put(body, all).await, again) {
            (Err(error), Some(body)) if may_be_about_headers(&error) => {
                // Boxed, since it is rare.
                let put = Box::pin(put(body, headers)).await?;
                self.learned.digest_headers.is_refused();
                Ok(put)
            }
            (put, _) => put,
        }
    }
}

/// Whether a server may have refused a request because of an unknown header.
fn may_be_about_headers(error: &Error) -> bool {
    [400, 415, 422, 501].iter().any(|status| error.is(*status))
}
