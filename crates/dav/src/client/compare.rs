//! Compares a file on the server with local content.
//!
//! Some servers keep digests and list them (ownCloud), some compute them on request (RFC 9530, RFC 3230). From the others the
//! file is downloaded and compared as it arrives. A file of a few segments is downloaded at once, because asking for a digest
//! would cost as much.

use bytes::{Buf, Bytes};
use futures_util::TryStreamExt;
use haul_http::{
    Body, Class, Expected, Options,
    digest::{Algorithm, Claim, Digests, Field, claims, want},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING},
};
use http_body_util::{BodyExt, BodyStream};

use crate::{Dav, Error, RemotePath, client::drain};

/// Up to this size, a file is downloaded without asking for digests first.
const SMALL: u64 = 64 * 1024;
/// Digests to ask for, in order of preference.
const DEAREST: [Algorithm; 4] = [Algorithm::Sha256, Algorithm::Sha512, Algorithm::Sha1, Algorithm::Md5];

/// Headers that ask for the unencoded file, and for its digests.
pub(crate) fn with_digests() -> HeaderMap {
    let wanted = [Field::ReprDigest, Field::Digest].into_iter().filter_map(|field| want(field, &DEAREST));
    wanted.chain([as_stored()]).collect()
}

/// The header that asks for the unencoded file.
pub(crate) fn as_stored() -> (HeaderName, HeaderValue) {
    (ACCEPT_ENCODING, HeaderValue::from_static("identity"))
}

impl Dav {
    /// Whether a file on the server equals `body`, by the cheapest means. `listed` are checksums from its listing, and
    /// `expected` is what the listing says about the answer to a GET.
    pub async fn holds(
        &self,
        path: &RemotePath,
        body: &mut Body,
        listed: &[String],
        expected: Expected,
    ) -> Result<bool, Error> {
        let asks = body.length().is_none_or(|length| length > SMALL) || !listed.is_empty();
        if asks && let Some(fits) = self.digest_fits(path, body, listed).await? {
            return Ok(fits);
        }
        self.has_bytes(path, body, expected).await
    }

    /// Whether a digest from the server equals that of `body`; none if the server has no digest.
    pub async fn digest_fits(
        &self,
        path: &RemotePath,
        body: &mut Body,
        listed: &[String],
    ) -> Result<Option<bool>, Error> {
        let mut claim = strongest(listed_claims(listed));
        if claim.is_none() {
            // Not every server supports HEAD: then there is no digest.
            let headers = match self.head(path, with_digests()).await {
                Err(Error::Refused(_)) => HeaderMap::new(),
                headers => headers?,
            };
            claim = strongest(claims(&headers)).filter(|_| !headers.contains_key(CONTENT_ENCODING));
        }
        let Some(claim) = claim else { return Ok(None) };
        let ours = Digests::of_body(body, &[claim.algorithm]).await;
        let ours = ours.map_err(|error| Error::local("read", path.to_string(), error))?.value(claim.field);
        let ours: HeaderMap = ours.into_iter().map(|value| (claim.field.name(), value)).collect();
        Ok(Some(claims(&ours).contains(&claim)))
    }

    /// The digests that a server lists, or makes of a file when it is asked to.
    pub(crate) async fn digests_of(
        &self,
        path: &RemotePath,
        listed: &[String],
        expected: Expected,
    ) -> Result<Vec<Claim>, Error> {
        // Of the answer to HEAD, what the engine counts is not the file's length.
        let expected = Expected { length: None, ..expected };
        let mut request = self.requests().plain(Method::HEAD, path)?;
        request.headers_mut().extend(with_digests());
        let headers = match self.ask(Ok(request), path, Options { expected, ..Options::default() }).await {
            Err(Error::Refused(_)) => HeaderMap::new(),
            answer => {
                let answer = answer?;
                let headers = answer.headers().clone();
                drain(answer).await;
                headers
            }
        };
        let made = claims(&headers).into_iter().filter(|claim| claim.field != Field::ContentDigest);
        let made = made.filter(|_| !headers.contains_key(CONTENT_ENCODING));
        Ok(listed_claims(listed).into_iter().chain(made).collect())
    }

    /// The digest of a file, which is downloaded.
    pub async fn digests(&self, path: &RemotePath, algorithm: Algorithm) -> Result<Digests, Error> {
        let options = Options { class: Class::Large, ..Options::default() };
        let body = self.get(path, HeaderMap::from_iter([as_stored()]), options).await?.into_body();
        let chunks = BodyStream::new(body).map_ok(|frame| frame.into_data().unwrap_or_default());
        Ok(Digests::of_chunks(chunks, &[algorithm]).await?)
    }

    /// Whether what the server sends is `body`, byte by byte.
    pub async fn has_bytes(&self, path: &RemotePath, body: &mut Body, expected: Expected) -> Result<bool, Error> {
        let class = if body.length().is_some_and(|length| length <= SMALL) { Class::Small } else { Class::Large };
        let local = |error| Error::local("read", path.to_string(), error);
        let mut chunks = body.open().map_err(local)?;
        let options = Options { class, expected, ..Options::default() };
        let answer = self.get(path, HeaderMap::from_iter([as_stored()]), options).await?;
        if answer.status() != StatusCode::OK {
            let why = format!("the server answers {} instead of sending the file", answer.status());
            return Err(Error::Differs { path: path.clone(), why });
        }
        let (mut theirs, mut ours) = (answer.into_body(), Bytes::new());
        while let Some(frame) = theirs.frame().await {
            let Ok(mut piece) = frame?.into_data() else { continue };
            while !piece.is_empty() {
                if ours.is_empty() {
                    match chunks.try_next().await.map_err(local)? {
                        Some(chunk) => ours = chunk,
                        None => return Ok(false),
                    }
                }
                let length = piece.len().min(ours.len());
                if piece[..length] != ours[..length] {
                    return Ok(false);
                }
                piece.advance(length);
                ours.advance(length);
            }
        }
        while ours.is_empty() {
            match chunks.try_next().await.map_err(local)? {
                Some(chunk) => ours = chunk,
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// Whether the digests that two servers list of a file are the same; none if they have none in common that proves
/// anything.
pub(crate) fn same_digest(ours: &[String], theirs: &[String]) -> Option<bool> {
    agree(&listed_claims(ours), &listed_claims(theirs))
}

/// Whether all digests by the same algorithms are the same; none if there are none that prove it.
pub(crate) fn agree(ours: &[Claim], theirs: &[Claim]) -> Option<bool> {
    let pairs = ours.iter().flat_map(|ours| theirs.iter().map(move |theirs| (ours, theirs)));
    let alike = pairs.filter(|(ours, theirs)| ours.algorithm == theirs.algorithm);
    // A checksum of 32 bits shows that files differ, and not that they are the same.
    let mut verdicts = alike.map(|(ours, theirs)| (ours.algorithm, ours.digest == theirs.digest));
    verdicts
        .try_fold(None, |so_far, (algorithm, same)| match same {
            true if algorithm < Algorithm::Md5 => Ok(so_far),
            true => Ok(Some(true)),
            false => Err(Some(false)),
        })
        .unwrap_or_else(|differs| differs)
}

fn listed_claims(listed: &[String]) -> Vec<Claim> {
    let line = HeaderValue::from_str(&listed.join(",")).ok().filter(|_| !listed.is_empty());
    claims(&line.into_iter().map(|line| (Field::OcChecksum.name(), line)).collect())
}

/// The claim that proves most. A digest of the message says nothing where the message has no content.
fn strongest(claims: Vec<Claim>) -> Option<Claim> {
    claims.into_iter().filter(|claim| claim.field != Field::ContentDigest).max_by_key(|claim| claim.algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_of_the_same_algorithm_are_compared() {
        let [sha1, other] = ["0a4d55a8d778e5022fab701977c5d840bbc486d0", "da39a3ee5e6b4b0d3255bfef95601890afd80709"];
        let md5 = "MD5:d41d8cd98f00b204e9800998ecf8427e";
        let [one, same, changed] =
            [format!("SHA1:{sha1}"), format!("sha1:{}", sha1.to_uppercase()), format!("SHA1:{other}")];
        let of = |ours: &[&str], theirs: &[&str]| {
            let [ours, theirs] = [ours, theirs].map(|all| all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
            same_digest(&ours, &theirs)
        };
        assert_eq!(of(&[&one], &[&same]), Some(true));
        assert_eq!(of(&[&one], &[&changed]), Some(false));
        assert_eq!(of(&[md5, &one], &[md5, &changed]), Some(false));
        assert_eq!(of(&[&one], &[md5]), None);
        assert_eq!(of(&[], &[&one]), None);
        // Others have it by chance.
        assert_eq!(of(&["ADLER32:045d01c1"], &["ADLER32:045d01c1"]), None);
    }
}
