//! Digests of request bodies.

use std::io;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http::HeaderValue;

use super::{Algorithm, Field, algorithm::Hasher};
use crate::Body;

/// Digests of one body, for the headers of its request.
///
/// A header precedes the body, so a body is read twice: once for its digest, once to be sent. Trailers would save the
/// first pass, but hardly any server reads the trailers of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digests(Vec<(Algorithm, Vec<u8>)>);

impl Digests {
    /// Of bytes in memory.
    pub fn of(bytes: &[u8], algorithms: &[Algorithm]) -> Self {
        let mut sums = Sums::new(algorithms);
        sums.update(bytes);
        sums.finish()
    }

    /// Of a repeatable body, chunk by chunk. An error if it cannot be read, or is not repeatable.
    pub async fn of_body(body: &mut Body, algorithms: &[Algorithm]) -> io::Result<Self> {
        if !body.is_repeatable() {
            return Err(io::Error::other("a body that can be sent only once has no digest before it is sent"));
        }
        Self::of_chunks(body.open()?, algorithms).await
    }

    /// Of a body that arrives chunk by chunk.
    pub async fn of_chunks<E>(
        mut chunks: impl Stream<Item = Result<Bytes, E>> + Unpin,
        algorithms: &[Algorithm],
    ) -> Result<Self, E> {
        let mut sums = Sums::new(algorithms);
        while let Some(chunk) = chunks.try_next().await? {
            sums.update(&chunk);
        }
        Ok(sums.finish())
    }

    /// The value of the header `field`, with base64 padding; `None` if the field has none of these algorithms. A field
    /// for a single digest gets the first.
    pub fn value(&self, field: Field) -> Option<HeaderValue> {
        field.value(&self.0)
    }
}

struct Sums(Vec<(Algorithm, Hasher)>);

impl Sums {
    fn new(algorithms: &[Algorithm]) -> Self {
        Self(algorithms.iter().map(|algorithm| (*algorithm, Hasher::new(*algorithm))).collect())
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|(_, sum)| sum.update(bytes));
    }

    fn finish(self) -> Digests {
        Digests(self.0.into_iter().map(|(algorithm, sum)| (algorithm, sum.finish())).collect())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[test]
    fn each_field_has_its_own_encoding() {
        let digests = Digests::of(b"{\"hello\": \"world\"}\n", &[Algorithm::Md5, Algorithm::Sha256]);
        let value = |field| digests.value(field).unwrap().to_str().unwrap().to_owned();
        let (md5, sha256) = ("UFIauregE76D7gDe0/n0JA==", "RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=");
        assert_eq!(value(Field::ContentMd5), md5);
        assert_eq!(value(Field::Digest), format!("MD5={md5}, SHA-256={sha256}"));
        assert_eq!(value(Field::ReprDigest), format!("md5=:{md5}:, sha-256=:{sha256}:"));
        assert_eq!(value(Field::OcChecksum), "MD5:50521abab7a013be83ee00ded3f9f424");
        assert_eq!(Digests::of(b"", &[Algorithm::Sha256]).value(Field::ContentMd5), None);
    }

    #[tokio::test]
    async fn file_can_be_sent_after_hashing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes = vec![7; 300_000];
        std::fs::write(&path, &bytes).unwrap();
        let mut body = Body::file(path, 0, 300_000);
        let digests = Digests::of_body(&mut body, &Algorithm::ALL).await.unwrap();
        assert_eq!(digests, Digests::of(&bytes, &Algorithm::ALL));
        assert!(body.open().is_ok());
    }

    #[tokio::test]
    async fn body_that_can_be_sent_only_once_is_not_hashed() {
        let mut body = Body::once(None, Box::pin(stream::empty()));
        assert!(Digests::of_body(&mut body, &[Algorithm::Md5]).await.is_err());
        assert!(body.open().is_ok());
    }
}
