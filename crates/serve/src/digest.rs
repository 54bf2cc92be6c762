//! Digests of files on request: `Want-Repr-Digest` is answered by `Repr-Digest` (RFC 9530 §3, §4).
//!
//! The field precedes the body, so the file is read once for its digest and once to be sent. Therefore only clients that
//! ask for a digest get one. They see whether their upload is intact, or whether a file has changed, without downloading it.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use ring::digest::{Algorithm, Digest, SHA256, SHA512};
use sfv::{DictSerializer, Dictionary, KeyRef, ListEntry, Parser};

const WANTED: HeaderName = HeaderName::from_static("want-repr-digest");
const FIELD: HeaderName = HeaderName::from_static("repr-digest");

/// The algorithms of IANA's registry that are neither deprecated nor a checksum.
const ALGORITHMS: [(&str, &Algorithm); 2] = [("sha-256", &SHA256), ("sha-512", &SHA512)];

/// The algorithm that a client prefers among ours. A weight of 0 excludes one (RFC 9530 §4).
pub(crate) fn wanted(headers: &HeaderMap) -> Option<&'static Algorithm> {
    let lines: Vec<_> = headers.get_all(WANTED).iter().map(HeaderValue::to_str).collect::<Result<_, _>>().ok()?;
    let wanted: Dictionary = Parser::new(&lines.join(", ")).parse().ok()?;
    let weight = |name: &str| match wanted.get(name)? {
        ListEntry::Item(item) => item.bare_item.as_integer().map(i64::from).filter(|weight| *weight > 0),
        ListEntry::InnerList(_) => None,
    };
    let ranked = ALGORITHMS.iter().filter_map(|(name, algorithm)| Some((weight(name)?, *algorithm)));
    // Of equal weights the first.
    ranked.rev().max_by_key(|(weight, _)| *weight).map(|(_, algorithm)| algorithm)
}

/// The response's field.
pub(crate) fn field(digest: &Digest) -> Option<(HeaderName, HeaderValue)> {
    let (name, _) = ALGORITHMS.iter().find(|(_, algorithm)| *algorithm == digest.algorithm())?;
    let mut dictionary = DictSerializer::new();
    let _ = dictionary.bare_item(KeyRef::constant(name), digest.as_ref());
    Some((FIELD, HeaderValue::try_from(dictionary.finish()?).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_known_algorithm_is_chosen() {
        let of = |text: &'static str| wanted(&HeaderMap::from_iter([(WANTED, HeaderValue::from_static(text))]));
        assert_eq!(of("sha-256=10, sha-512=9, md5=8"), Some(&SHA256));
        assert_eq!(of("sha-256=1, sha-512=3"), Some(&SHA512));
        assert_eq!(of("sha-256=5, sha-512=5"), Some(&SHA256));
        for none in ["md5=10", "sha-256=0", "sha-256", "sha-256=(1)", "sha-256=\"1\"", "=", ""] {
            assert_eq!(of(none), None, "{none}");
        }
        assert_eq!(wanted(&HeaderMap::new()), None);
    }

    #[test]
    fn field_is_that_of_the_standard() {
        // RFC 9530 appendix D.
        let digest = ring::digest::digest(&SHA256, b"{\"hello\": \"world\"}\n");
        let (name, value) = field(&digest).unwrap();
        assert_eq!(
            (name.as_str(), value.to_str().unwrap()),
            ("repr-digest", "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:")
        );
    }
}
