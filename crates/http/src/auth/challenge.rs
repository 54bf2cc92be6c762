//! Challenges: `WWW-Authenticate` (RFC 9110 §11.2, §11.6.1).
//!
//! Commas separate challenges and, within one, its parameters. The next character decides what a word means: before `=`
//! it is a parameter's name, otherwise a scheme. On a syntax error the parser skips the smallest piece, not the whole
//! header, because an invalid challenge must not hide a valid one. That is why no crate does this: the known one stops
//! at the first error, and rejects `token68`, which `Negotiate` needs.

use std::borrow::Cow;

use http::{HeaderMap, header};

/// An authentication challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Challenge {
    /// In lower case.
    scheme: String,
    /// Names in lower case; values without quotes, in the server's encoding.
    parameters: Vec<(String, Vec<u8>)>,
}

impl Challenge {
    /// Whether it is of this scheme.
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// A parameter's raw value, by its name in lower case.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// A parameter's value as text.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        self.bytes(name).map(String::from_utf8_lossy)
    }
}

/// All challenges in a response, in the server's order.
pub fn challenges(headers: &HeaderMap) -> Vec<Challenge> {
    headers.get_all(header::WWW_AUTHENTICATE).iter().flat_map(|value| parse(value.as_bytes())).collect()
}

fn parse(value: &[u8]) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut cursor = Cursor(value);
    loop {
        cursor.take(|byte| matches!(byte, b',' | b' ' | b'\t'));
        if cursor.0.is_empty() {
            return challenges;
        }
        let word = String::from_utf8_lossy(cursor.take(is_token)).to_ascii_lowercase();
        cursor.take(is_blank);
        match (cursor.0.first(), challenges.last_mut()) {
            (Some(b'='), Some(challenge)) if !word.is_empty() => {
                cursor.0 = &cursor.0[1..];
                challenge.parameters.push((word, cursor.value()));
            }
            _ if word.is_empty() => drop(cursor.value()),
            (Some(b'='), None) => {
                cursor.0 = &cursor.0[1..];
                cursor.value();
            }
            _ => {
                challenges.push(Challenge { scheme: word, parameters: Vec::new() });
                cursor.skip_token68();
            }
        }
    }
}

/// The parameters of a header that is just a list of them, such as `Authentication-Info` (RFC 7615 §3).
pub(super) fn parameter(value: &[u8], name: &str) -> Option<Vec<u8>> {
    let listed = parse(&[b"_ ", value].concat());
    listed.first().and_then(|list| list.bytes(name)).map(<[u8]>::to_vec)
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, fits: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !fits(*byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    /// Takes a token or a quoted string; anything else up to the next comma or blank. Always takes something, except at
    /// a separator.
    fn value(&mut self) -> Vec<u8> {
        self.take(is_blank);
        if self.0.first() != Some(&b'"') {
            return self.take(|byte| byte != b',' && !is_blank(byte)).to_vec();
        }
        let mut value = Vec::new();
        let mut at = 1;
        while let Some(&byte) = self.0.get(at) {
            match byte {
                b'"' => break,
                b'\\' => {
                    at += 1;
                    value.extend(self.0.get(at));
                }
                _ => value.push(byte),
            }
            at += 1;
        }
        self.0 = self.0.get(at + 1..).unwrap_or_default();
        value
    }

    /// `token68`: a single word after a scheme, with `=` only at its end.
    fn skip_token68(&mut self) {
        let mut ahead = Cursor(self.0);
        ahead.take(|byte| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte));
        ahead.take(|byte| byte == b'=');
        ahead.take(is_blank);
        if matches!(ahead.0.first(), None | Some(b',')) {
            self.0 = ahead.0;
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// RFC 9110 §5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    /// `scheme name=value name=value; scheme …`.
    fn read(value: &str) -> String {
        let written = |challenge: &Challenge| {
            let pairs =
                challenge.parameters.iter().map(|(name, value)| [name, "=", &String::from_utf8_lossy(value)].concat());
            std::iter::once(challenge.scheme.clone()).chain(pairs).collect::<Vec<_>>().join(" ")
        };
        parse(value.as_bytes()).iter().map(written).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn one_header_has_several_challenges() {
        // The last is RFC 9110 §11.6.1's example.
        for (value, meant) in [
            ("Basic realm=\"a, b\"", "basic realm=a, b"),
            ("BASIC Realm = \"a\" , charset=UTF-8", "basic realm=a charset=UTF-8"),
            ("Negotiate, NTLM,Basic realm=\"x\\\"y\\\\\"", "negotiate; ntlm; basic realm=x\"y\\"),
            ("Negotiate YIIabc/+==, Basic realm=x", "negotiate; basic realm=x"),
            (
                "Basic realm=\"simple\", Newauth realm=\"apps\", type=1, title=\"Login to \\\"apps\\\"\"",
                "basic realm=simple; newauth realm=apps type=1 title=Login to \"apps\"",
            ),
        ] {
            assert_eq!(read(value), meant);
        }
    }

    #[test]
    fn syntax_error_does_not_hide_later_challenges() {
        for (value, meant) in [
            (", ,Basic realm=x,,", "basic realm=x"),
            ("realm=x, \"?\", Basic realm=y", "basic realm=y"),
            ("Digest nonce=a/b==, @@, stale=TRUE qop=auth", "digest nonce=a/b== stale=TRUE qop=auth"),
            ("Basic realm=\"open", "basic realm=open"),
            ("Basic realm=\"open\\", "basic realm=open"),
            ("Digest realm=, nonce=n, opaque=", "digest nonce=n opaque="),
            ("", ""),
        ] {
            assert_eq!(read(value), meant, "{value}");
        }
    }

    #[test]
    fn several_headers_are_parsed_in_order() {
        let mut headers = HeaderMap::new();
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Digest realm=\"a\""));
        headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_bytes(b"Basic realm=\"\xE9\"").unwrap());
        let found = challenges(&headers);
        assert!(found[0].is("digest") && found[1].is("Basic"));
        assert_eq!((found[1].bytes("realm"), found[1].text("realm").as_deref()), (Some(&[0xE9][..]), Some("\u{FFFD}")));
    }

    #[test]
    fn parameters_are_found_by_name() {
        assert_eq!(parameter(b"qop=auth, nextnonce=\"a=b\"", "nextnonce"), Some(b"a=b".to_vec()));
        assert_eq!(parameter(b"nextnonce=", "other"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&value);
        }

        #[test]
        fn any_tokens_are_parsed_without_panic(value in "(Basic|Digest|realm|nonce|=|==|,|\"|\\\\| |a){0,30}") {
            parse(value.as_bytes());
        }

        #[test]
        fn quoted_strings_round_trip(value in "[ -~]{0,40}", next in "[a-z]{1,5}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let read = parse(format!("Digest realm=\"{quoted}\", {next} x=y").as_bytes());
            prop_assert_eq!(read[0].text("realm").unwrap(), value);
            prop_assert_eq!(read[1].scheme(), next);
        }
    }
}
