//! Parsing and writing the header fields that carry digests.

use std::fmt::{self, Write};

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use sfv::{DictSerializer, Dictionary, Integer, KeyRef, ListEntry, Parser};

use super::Algorithm;

/// Written with padding, read with or without: some servers omit the `=` of `Content-MD5`.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A header field that carries a digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Field {
    /// `Content-MD5`, RFC 1864.
    ContentMd5,
    /// `Digest`, RFC 3230 §4.3.2.
    Digest,
    /// `Content-Digest`, RFC 9530 §2.
    ContentDigest,
    /// `Repr-Digest`, RFC 9530 §3.
    ReprDigest,
    /// `OC-Checksum`, of ownCloud and Nextcloud.
    OcChecksum,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 5] =
        [Self::ContentMd5, Self::Digest, Self::ContentDigest, Self::ReprDigest, Self::OcChecksum];

    /// Its name as it is usually written.
    pub fn title(self) -> &'static str {
        match self {
            Self::ContentMd5 => "Content-MD5",
            Self::Digest => "Digest",
            Self::ContentDigest => "Content-Digest",
            Self::ReprDigest => "Repr-Digest",
            Self::OcChecksum => "OC-Checksum",
        }
    }

    /// Its name on the wire.
    pub fn name(self) -> HeaderName {
        HeaderName::from_static(match self {
            Self::ContentMd5 => "content-md5",
            Self::Digest => "digest",
            Self::ContentDigest => "content-digest",
            Self::ReprDigest => "repr-digest",
            Self::OcChecksum => "oc-checksum",
        })
    }

    /// Whether it covers exactly the bytes in this response.
    ///
    /// - Never without content: in responses to `HEAD`, and in 204 and 304 (RFC 9110 §6.4.1).
    /// - `Content-Digest`: always (RFC 9530 §2).
    /// - `Content-MD5`: not in a part. Servers disagree whether it then covers the part or the whole, which is why HTTP
    ///   dropped it (RFC 7231 appendix B); Apache's covers the whole.
    /// - `Repr-Digest`, `Digest`: in a 200 to `GET`, or in a 206 whose range is the whole (RFC 9530 §3, RFC 3230 §3).
    ///   In responses to other methods they may describe the target's new state instead of the content (RFC 9530 §3.1,
    ///   §3.2), and a proxy has changed a 203.
    /// - `OC-Checksum`: the same, if there is no content coding.
    pub(super) fn covers(self, method: &Method, status: StatusCode, headers: &HeaderMap) -> bool {
        if method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return false;
        }
        let whole = || match status {
            StatusCode::OK => method == Method::GET,
            StatusCode::PARTIAL_CONTENT => method == Method::GET && is_whole(headers),
            _ => false,
        };
        match self {
            Self::ContentDigest => true,
            Self::ContentMd5 => status != StatusCode::PARTIAL_CONTENT,
            Self::Digest | Self::ReprDigest => whole(),
            Self::OcChecksum => whole() && !headers.contains_key(header::CONTENT_ENCODING),
        }
    }

    /// Whether it may be in a trailer section (RFC 9530 §2, §3; servers also send some of the old fields there).
    pub(super) fn trails(self) -> bool {
        self != Self::OcChecksum
    }

    /// A digest in this field's notation; `None` if the field has no name for the algorithm.
    pub(super) fn text(self, algorithm: Algorithm, digest: &[u8]) -> Option<String> {
        let checksum = matches!(algorithm, Algorithm::Adler32 | Algorithm::Crc32c);
        match self {
            Self::ContentMd5 => (algorithm == Algorithm::Md5).then(|| BASE64.encode(digest)),
            Self::Digest if checksum => Some(hex(digest)),
            Self::Digest => Some(BASE64.encode(digest)),
            Self::ContentDigest | Self::ReprDigest => algorithm.key().map(|_| format!(":{}:", BASE64.encode(digest))),
            Self::OcChecksum => algorithm.owncloud_name().map(|_| hex(digest)),
        }
    }

    /// The field's value for these digests; `None` if it has none of their algorithms.
    pub(super) fn value(self, digests: &[(Algorithm, Vec<u8>)]) -> Option<HeaderValue> {
        let text = match self {
            Self::ContentMd5 => digests.iter().find_map(|(algorithm, digest)| self.text(*algorithm, digest)),
            Self::OcChecksum => digests.iter().find_map(|(algorithm, digest)| {
                Some(format!("{}:{}", algorithm.owncloud_name()?, self.text(*algorithm, digest)?))
            }),
            Self::Digest => join(digests.iter().filter_map(|(algorithm, digest)| {
                Some(format!("{}={}", algorithm.legacy_name(), self.text(*algorithm, digest)?))
            })),
            Self::ContentDigest | Self::ReprDigest => {
                dictionary(digests.iter().map(|(algorithm, digest)| (*algorithm, digest.as_slice())))
            }
        };
        text.and_then(|text| HeaderValue::try_from(text).ok())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// A digest in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The field.
    pub field: Field,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The digest's bytes.
    pub digest: Vec<u8>,
}

/// All digests in these headers (or trailers), except malformed and unknown ones.
pub fn claims(headers: &HeaderMap) -> Vec<Claim> {
    Field::ALL.into_iter().flat_map(|field| field_claims(field, headers)).collect()
}

pub(super) fn field_claims(field: Field, headers: &HeaderMap) -> Vec<Claim> {
    // Several lines of one field are one list (RFC 9110 §5.3).
    let Some(text) = join(headers.get_all(field.name()).iter().filter_map(|value| value.to_str().ok())) else {
        return Vec::new();
    };
    let found: Vec<(Algorithm, Vec<u8>)> = match field {
        Field::ContentMd5 => text
            .split(',')
            .filter_map(|value| BASE64.decode(value.trim()).ok())
            .map(|digest| (Algorithm::Md5, digest))
            .collect(),
        Field::Digest => text.split(',').filter_map(instance_digest).collect(),
        Field::ContentDigest | Field::ReprDigest => structured(&text),
        Field::OcChecksum => text.split([',', ' ']).filter_map(owncloud_checksum).collect(),
    };
    found
        .into_iter()
        .filter(|(algorithm, digest)| digest.len() == algorithm.length())
        .map(|(algorithm, digest)| Claim { field, algorithm, digest })
        .collect()
}

/// The request header that asks for digests in `field`, most preferred first: `Want-Content-Digest` and
/// `Want-Repr-Digest` (RFC 9530 §4), `Want-Digest` (RFC 3230 §4.3.1). `None` for fields without one.
pub fn want(field: Field, algorithms: &[Algorithm]) -> Option<(HeaderName, HeaderValue)> {
    let ranked = || algorithms.iter().copied().zip((1..=10_u8).rev());
    let (name, text) = match field {
        Field::ContentDigest => ("want-content-digest", ranks(ranked())),
        Field::ReprDigest => ("want-repr-digest", ranks(ranked())),
        Field::Digest => (
            "want-digest",
            join(ranked().map(|(algorithm, rank)| {
                let quality = f32::from(rank) / 10.0;
                format!("{};q={quality}", algorithm.legacy_name())
            })),
        ),
        Field::ContentMd5 | Field::OcChecksum => return None,
    };
    Some((HeaderName::from_static(name), text?.try_into().ok()?))
}

fn ranks(ranked: impl Iterator<Item = (Algorithm, u8)>) -> Option<String> {
    dictionary(ranked.map(|(algorithm, rank)| (algorithm, Integer::from(rank))))
}

fn dictionary<'a, V: Into<sfv::RefBareItem<'a>>>(members: impl Iterator<Item = (Algorithm, V)>) -> Option<String> {
    let mut dictionary = DictSerializer::new();
    for (algorithm, value) in members {
        if let Some(key) = algorithm.key() {
            let _ = dictionary.bare_item(KeyRef::constant(key), value);
        }
    }
    dictionary.finish()
}

fn instance_digest(text: &str) -> Option<(Algorithm, Vec<u8>)> {
    let (name, value) = text.trim().split_once('=')?;
    let algorithm = Algorithm::ALL.into_iter().find(|known| known.legacy_name().eq_ignore_ascii_case(name))?;
    let digest = match algorithm {
        Algorithm::Adler32 | Algorithm::Crc32c => unhex(algorithm, value)?,
        _ => BASE64.decode(value).ok()?,
    };
    Some((algorithm, digest))
}

fn structured(text: &str) -> Vec<(Algorithm, Vec<u8>)> {
    let Ok(members) = Parser::new(text).parse::<Dictionary>() else { return Vec::new() };
    let digest = |algorithm: Algorithm| match members.get(algorithm.key()?)? {
        ListEntry::Item(item) => Some((algorithm, item.bare_item.as_byte_sequence()?.to_vec())),
        ListEntry::InnerList(_) => None,
    };
    Algorithm::ALL.into_iter().filter_map(digest).collect()
}

fn owncloud_checksum(text: &str) -> Option<(Algorithm, Vec<u8>)> {
    let (name, value) = text.trim().split_once(':')?;
    let algorithm = Algorithm::ALL
        .into_iter()
        .find(|known| known.owncloud_name().is_some_and(|known| known.eq_ignore_ascii_case(name)))?;
    Some((algorithm, unhex(algorithm, value)?))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Hexadecimal digits. IANA's registry lets a checksum omit leading zeros.
fn unhex(algorithm: Algorithm, text: &str) -> Option<Vec<u8>> {
    let digits = 2 * algorithm.length();
    let short = algorithm.length() == 4 && !text.is_empty() && text.len() < digits;
    if (text.len() != digits && !short) || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let text = format!("{text:0>digits$}");
    (0..digits).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

/// Whether a part's range is the whole (RFC 9110 §14.4).
fn is_whole(headers: &HeaderMap) -> bool {
    let range = headers.get(header::CONTENT_RANGE).and_then(|value| value.to_str().ok());
    let numbers = |range: &str| -> Option<(u64, u64, u64)> {
        let (unit, range) = range.trim().split_once(' ')?;
        let (range, length) = range.trim().split_once('/')?;
        let (first, last) = range.split_once('-')?;
        unit.eq_ignore_ascii_case("bytes").then_some((first.parse().ok()?, last.parse().ok()?, length.parse().ok()?))
    };
    range.and_then(numbers).is_some_and(|(first, last, length)| first == 0 && last.checked_add(1) == Some(length))
}

fn join<T: AsRef<str>>(parts: impl Iterator<Item = T>) -> Option<String> {
    let mut joined: Option<String> = None;
    for part in parts {
        match &mut joined {
            Some(text) => {
                text.push_str(", ");
                text.push_str(part.as_ref());
            }
            None => joined = Some(part.as_ref().to_owned()),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn of(name: &'static str, value: &str) -> Vec<(Algorithm, String)> {
        claims(&headers(&[(name, value)])).into_iter().map(|claim| (claim.algorithm, hex(&claim.digest))).collect()
    }

    #[test]
    fn content_md5_is_parsed_with_and_without_padding() {
        // RFC 1864 §2's example, and a pair as sent by real servers.
        assert_eq!(of("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ=="), [(Algorithm::Md5, hex(b"Check Integrity!"))]);
        let padded = of("content-md5", "6Cxy6QbruJs0hrT/P8exaA==");
        assert_eq!(padded.len(), 1);
        assert_eq!(of("content-md5", "6Cxy6QbruJs0hrT/P8exaA"), padded);
        assert_eq!(of("content-md5", "6Cxy6QbruJs0hrT/P8ex"), [], "too short for MD5");
    }

    #[test]
    fn digest_algorithm_names_are_case_insensitive() {
        let found = of("digest", "ADLER32=3DA0195 ,crc32C=A72A4DF,,unixsum=30637, md5=6Cxy6QbruJs0hrT/P8exaA");
        assert_eq!(found[0], (Algorithm::Adler32, "03da0195".into()));
        assert_eq!(found[1], (Algorithm::Crc32c, "0a72a4df".into()));
        assert_eq!((found.len(), found[2].0), (3, Algorithm::Md5));
        assert_eq!(of("digest", "adler32=+3DA019, sha-256==, md5"), []);
    }

    #[test]
    fn digest_fields_on_several_lines_are_one_dictionary() {
        let two = headers(&[
            ("content-digest", "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:;x=1"),
            ("content-digest", "id-sha-999=:AAAA:, md5=:6Cxy6QbruJs0hrT/P8exaA:, sha=(1 2), sha-512=5"),
        ]);
        let found: Vec<_> = claims(&two).into_iter().map(|claim| claim.algorithm).collect();
        assert_eq!(found, [Algorithm::Md5, Algorithm::Sha256]);
        assert_eq!(of("repr-digest", "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:, B"), [], "RFC 8941 §4.2");
    }

    #[test]
    fn oc_checksum_has_its_algorithm_before_a_colon() {
        let sha = "a9993e364706816aba3e25717850c26c9cd0d89d";
        assert_eq!(of("oc-checksum", &format!("SHA1:{sha}")), [(Algorithm::Sha1, sha.into())]);
        assert_eq!(of("oc-checksum", "md5:900150983CD24FB0D6963F7D28E17F72 ADLER32:3da0195").len(), 2);
        assert_eq!(of("oc-checksum", "SHA3-256:00"), []);
    }

    #[test]
    fn wanted_algorithms_are_in_order_of_preference() {
        let two = [Algorithm::Sha256, Algorithm::Md5];
        let asked = |field| want(field, &two).map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        assert_eq!(asked(Field::ReprDigest).unwrap(), "want-repr-digest: sha-256=10, md5=9");
        assert_eq!(asked(Field::ContentDigest).unwrap(), "want-content-digest: sha-256=10, md5=9");
        assert_eq!(asked(Field::Digest).unwrap(), "want-digest: SHA-256;q=1, MD5;q=0.9");
        assert_eq!(asked(Field::ContentMd5), None);
        assert_eq!(want(Field::ReprDigest, &[Algorithm::Crc32c]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(
            field in proptest::sample::select(Field::ALL.to_vec()),
            name in "|md5|sha-256|SHA1|ADLER32|crc32c",
            separator in "|=|:|=:",
            value in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let bytes = [name.as_bytes(), separator.as_bytes(), &value].concat();
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                for claim in claims(&HeaderMap::from_iter([(field.name(), value)])) {
                    prop_assert_eq!(claim.digest.len(), claim.algorithm.length());
                }
            }
        }

        #[test]
        fn fields_round_trip(
            field in proptest::sample::select(Field::ALL.to_vec()),
            algorithm in proptest::sample::select(Algorithm::ALL.to_vec()),
            bytes in proptest::collection::vec(any::<u8>(), 64),
        ) {
            let digest = bytes[..algorithm.length()].to_vec();
            if let Some(value) = field.value(&[(algorithm, digest.clone())]) {
                let read = claims(&HeaderMap::from_iter([(field.name(), value)]));
                prop_assert_eq!(read, vec![Claim { field, algorithm, digest }]);
            }
        }
    }
}
