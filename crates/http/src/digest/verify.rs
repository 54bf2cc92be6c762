//! Verifying a body against its message's digests.

use std::fmt;

use http::{HeaderMap, Method, StatusCode, header};

use super::{Algorithm, Claim, Field, algorithm::Hasher, claims};

/// Hashes a body and compares at its end. It gets bytes and headers from the reader of the body.
#[derive(Clone)]
pub struct Verifier {
    /// The fields that cover exactly these bytes.
    covering: Vec<Field>,
    claims: Vec<Claim>,
    sums: Vec<(Algorithm, Hasher)>,
}

/// A verified digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// The field.
    pub field: Field,
    /// The algorithm.
    pub algorithm: Algorithm,
}

/// A digest that does not match. Both values are in the field's notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} announces {algorithm} {said}, but the body received has {found}")]
pub struct Mismatch {
    /// The field.
    pub field: Field,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The announced value.
    pub said: String,
    /// The actual value.
    pub found: String,
}

impl Verifier {
    /// For the body of a response. Only the strongest algorithm of each field counts; weaker ones cost time and prove
    /// nothing more. Digests in trailers must be announced (RFC 9110 §6.6.2), because the body is hashed as it passes.
    pub fn of_response(method: &Method, status: StatusCode, headers: &HeaderMap) -> Self {
        let covering: Vec<Field> =
            Field::ALL.into_iter().filter(|field| field.covers(method, status, headers)).collect();
        let announced = covering.iter().flat_map(|field| announced(*field, headers)).copied();
        let mut claims = claims(headers);
        claims.retain(|claim| covering.contains(&claim.field));
        let claims = strongest(&claims);
        let mut algorithms: Vec<Algorithm> = claims.iter().map(|claim| claim.algorithm).chain(announced).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let sums = algorithms.into_iter().map(|algorithm| (algorithm, Hasher::new(algorithm))).collect();
        Self { covering, claims, sums }
    }

    /// Whether there is nothing to verify, now or at the end.
    pub fn is_idle(&self) -> bool {
        self.sums.is_empty()
    }

    /// The next bytes of the body, without transfer codings but with content codings.
    pub fn update(&mut self, bytes: &[u8]) {
        self.sums.iter_mut().for_each(|(_, sum)| sum.update(bytes));
    }

    /// The message's trailers.
    pub fn trailers(&mut self, trailers: &HeaderMap) {
        let summed = |algorithm| self.sums.iter().any(|(known, _)| *known == algorithm);
        let mut late = claims(trailers);
        late.retain(|claim| claim.field.trails() && self.covering.contains(&claim.field) && summed(claim.algorithm));
        self.claims.extend(strongest(&late));
    }

    /// The end of the body: the verified digests, or the first mismatch.
    pub fn finish(self) -> Result<Vec<Verified>, Mismatch> {
        let sums: Vec<(Algorithm, Vec<u8>)> =
            self.sums.into_iter().map(|(algorithm, sum)| (algorithm, sum.finish())).collect();
        let mut verified = Vec::new();
        for Claim { field, algorithm, digest } in self.claims {
            let Some((_, found)) = sums.iter().find(|(known, _)| *known == algorithm) else { continue };
            if *found != digest {
                let text = |digest: &[u8]| field.text(algorithm, digest).unwrap_or_default();
                return Err(Mismatch { field, algorithm, said: text(&digest), found: text(found) });
            }
            verified.push(Verified { field, algorithm });
        }
        Ok(verified)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("claims", &self.claims).finish_non_exhaustive()
    }
}

/// The claims of each field's strongest algorithm.
fn strongest(claims: &[Claim]) -> Vec<Claim> {
    let best = |field| claims.iter().filter(|claim| claim.field == field).map(|claim| claim.algorithm).max();
    claims.iter().filter(|claim| best(claim.field) == Some(claim.algorithm)).cloned().collect()
}

/// The likely algorithms of an announced trailer: those in use (RFC 9530 §5), and for the old fields the old ones.
fn announced(field: Field, headers: &HeaderMap) -> &'static [Algorithm] {
    let named = headers
        .get_all(header::TRAILER)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .any(|name| name.trim().eq_ignore_ascii_case(field.title()));
    match field {
        _ if !named => &[],
        Field::ContentMd5 => &[Algorithm::Md5],
        Field::Digest => &[Algorithm::Md5, Algorithm::Sha1, Algorithm::Sha256, Algorithm::Sha512],
        Field::ContentDigest | Field::ReprDigest => &[Algorithm::Sha256, Algorithm::Sha512],
        Field::OcChecksum => &[],
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    const HELLO: &[u8] = b"{\"hello\": \"world\"}\n";
    const HELLO_SHA256: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    const WORLD_SHA256: &str = "sha-256=:jjcgBDWNAtbYUXI37CVG3gRuGOAjaaDRGpIUFsdyepQ=:";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn check(status: u16, lines: &[(&'static str, &str)], body: &[u8]) -> Result<Vec<Field>, Mismatch> {
        let status = StatusCode::from_u16(status).unwrap();
        let mut verifier = Verifier::of_response(&Method::GET, status, &headers(lines));
        body.chunks(5).for_each(|chunk| verifier.update(chunk));
        verifier.finish().map(|verified| verified.into_iter().map(|verified| verified.field).collect())
    }

    #[test]
    fn full_response_is_verified_against_every_field() {
        // RFC 9530 §2's and appendix B.1's examples.
        let sha512 =
            "sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8MjkM7iw7yZ/WkppmM44T3qg==:";
        let lines = [("repr-digest", HELLO_SHA256), ("content-digest", sha512)];
        assert_eq!(check(200, &lines, HELLO).unwrap(), [Field::ContentDigest, Field::ReprDigest]);
        assert!(check(200, &lines, &HELLO[1..]).is_err());
        assert_eq!(check(200, &[], HELLO).unwrap(), []);
    }

    #[test]
    fn partial_response_is_verified_against_content_digest_only() {
        // RFC 9530 appendix B.3's example.
        let lines = [
            ("content-range", "bytes 10-18/19"),
            ("content-digest", WORLD_SHA256),
            ("repr-digest", HELLO_SHA256),
            ("digest", "md5=UFIauregE76D7gDe0/n0JA=="),
            ("content-md5", "UFIauregE76D7gDe0/n0JA=="),
        ];
        assert_eq!(check(206, &lines, &HELLO[10..]).unwrap(), [Field::ContentDigest]);
        let all = [("content-range", "bytes 0-18/19"), ("repr-digest", HELLO_SHA256)];
        assert_eq!(check(206, &all, HELLO).unwrap(), [Field::ReprDigest]);
        assert_eq!(check(206, &[("content-range", "bytes 0-8/*"), ("repr-digest", HELLO_SHA256)], b"x").unwrap(), []);
    }

    #[test]
    fn response_without_content_is_not_verified() {
        let lines = headers(&[("content-digest", HELLO_SHA256), ("content-md5", "UFIauregE76D7gDe0/n0JA==")]);
        assert!(Verifier::of_response(&Method::HEAD, StatusCode::OK, &lines).is_idle());
        assert!(Verifier::of_response(&Method::GET, StatusCode::NOT_MODIFIED, &lines).is_idle());
        let put = headers(&[("repr-digest", WORLD_SHA256), ("digest", "md5=UFIauregE76D7gDe0/n0JA==")]);
        assert!(Verifier::of_response(&Method::PUT, StatusCode::OK, &put).is_idle());
    }

    #[test]
    fn oc_checksum_does_not_apply_to_a_compressed_body() {
        let lines = [("oc-checksum", "MD5:00000000000000000000000000000000"), ("content-encoding", "gzip")];
        assert_eq!(check(200, &lines, b"...").unwrap(), []);
        assert!(check(200, &lines[..1], b"...").is_err());
    }

    #[test]
    fn mismatch_shows_both_values_as_the_field_encodes_them() {
        let wrong = check(200, &[("content-md5", "6Cxy6QbruJs0hrT/P8exaA")], HELLO).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "Content-MD5 announces MD5 6Cxy6QbruJs0hrT/P8exaA==, but the body received has UFIauregE76D7gDe0/n0JA=="
        );
    }

    #[test]
    fn strongest_algorithm_of_a_field_decides() {
        let lines = [("digest", "md5=UFIauregE76D7gDe0/n0JA==, adler32=1")];
        assert_eq!(check(200, &lines, HELLO).unwrap(), [Field::Digest]);
    }

    #[test]
    fn announced_trailer_digest_is_verified() {
        let trailers = headers(&[("content-digest", HELLO_SHA256), ("oc-checksum", "MD5:00")]);
        for (announced, body, outcome) in
            [("Foo, content-digest", HELLO, Some(1)), ("Content-Digest", b"x", None), ("foo", b"x", Some(0))]
        {
            let lines = headers(&[("trailer", announced)]);
            let mut verifier = Verifier::of_response(&Method::GET, StatusCode::OK, &lines);
            verifier.update(body);
            verifier.trailers(&trailers);
            assert_eq!(verifier.finish().ok().map(|verified| verified.len()), outcome, "{announced}");
        }
    }
}
