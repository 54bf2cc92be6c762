//! The response to a `Digest` challenge (RFC 7616).
//!
//! The client nonce is chosen once per server nonce, and requests differ in `nc`: servers disagree whether a session
//! key (`-sess`) uses the first client nonce or the latest, and this way both are the same.

use std::fmt::Write;

use http::{HeaderValue, Method};
use md5::{Digest as _, Md5};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::digest;
use zeroize::Zeroizing;

use super::{Challenge, Secret};

/// The characters that stay unescaped in an extended value (RFC 8187 §3.2.1).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// From the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hash {
    Md5,
    Sha256,
    /// SHA-512/256 (FIPS 180-4), which is not a truncated SHA-512.
    Sha512Over256,
}

impl Hash {
    /// The hash of these parts joined by colons, in lower-case hexadecimal.
    fn of(self, parts: &[&[u8]]) -> Zeroizing<String> {
        let joined = Zeroizing::new(parts.join(&b':'));
        let hex = |sum: &[u8]| {
            sum.iter().fold(Zeroizing::new(String::with_capacity(64)), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
        };
        match self {
            Self::Md5 => hex(&Md5::digest(&*joined)),
            Self::Sha256 => hex(digest::digest(&digest::SHA256, &joined).as_ref()),
            Self::Sha512Over256 => hex(digest::digest(&digest::SHA512_256, &joined).as_ref()),
        }
    }
}

/// A server's nonce, and the state that belongs to it.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) realm: Vec<u8>,
    pub(super) nonce: Vec<u8>,
    pub(super) hash: Hash,
    opaque: Option<Vec<u8>>,
    /// As the server sent it; servers of RFC 2069 send none.
    algorithm: Option<Vec<u8>>,
    /// The nonce of the session key.
    key_nonce: Option<Vec<u8>>,
    /// Without it, the response follows RFC 2069.
    has_qop: bool,
    hashes_user: bool,
    own_nonce: String,
    count: u32,
}

impl Session {
    /// `None` if the challenge requires something unsupported.
    pub(super) fn begin(challenge: &Challenge, own_nonce: String) -> Option<Self> {
        let named = challenge.text("algorithm").unwrap_or("MD5".into()).to_ascii_lowercase();
        let base = named.strip_suffix("-sess");
        let hash = match base.unwrap_or(&named) {
            "md5" => Hash::Md5,
            "sha-256" => Hash::Sha256,
            "sha-512-256" => Hash::Sha512Over256,
            _ => return None,
        };
        let qop = challenge.text("qop").filter(|qop| !qop.trim().is_empty());
        if qop.as_ref().is_some_and(|qop| !qop.split(',').any(|kind| kind.trim().eq_ignore_ascii_case("auth"))) {
            return None;
        }
        // Without `qop` there is no `cnonce`, and so no session key.
        if qop.is_none() && base.is_some() {
            return None;
        }
        let nonce = challenge.bytes("nonce")?.to_vec();
        Some(Self {
            realm: challenge.bytes("realm")?.to_vec(),
            key_nonce: base.map(|_| nonce.clone()),
            nonce,
            hash,
            opaque: challenge.bytes("opaque").map(<[u8]>::to_vec),
            algorithm: challenge.bytes("algorithm").map(<[u8]>::to_vec),
            has_qop: qop.is_some(),
            hashes_user: challenge.text("userhash").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            own_nonce,
            count: 0,
        })
    }

    /// Whether another session gives the same responses.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (&self.realm, &self.nonce, self.hash) == (&other.realm, &other.nonce, other.hash)
    }

    /// The server wants another nonce from now on (RFC 7616 §3.5).
    pub(super) fn renew(&mut self, nonce: Vec<u8>) {
        self.nonce = nonce;
        self.count = 0;
    }

    /// The value of `Authorization` for the next request (RFC 7616 §3.4).
    pub(super) fn respond(
        &mut self,
        user: &str,
        password: &Secret,
        method: &Method,
        target: &str,
    ) -> Option<HeaderValue> {
        self.count = self.count.saturating_add(1);
        let count = format!("{:08x}", self.count);
        let own_nonce = self.own_nonce.as_bytes();
        let mut key = self.hash.of(&[user.as_bytes(), &self.realm, password.reveal().as_bytes()]);
        if let Some(nonce) = &self.key_nonce {
            key = self.hash.of(&[key.as_bytes(), nonce, own_nonce]);
        }
        let request = self.hash.of(&[method.as_str().as_bytes(), target.as_bytes()]);
        let response = if self.has_qop {
            self.hash.of(&[key.as_bytes(), &self.nonce, count.as_bytes(), own_nonce, b"auth", request.as_bytes()])
        } else {
            self.hash.of(&[key.as_bytes(), &self.nonce, request.as_bytes()])
        };

        let mut value = b"Digest ".to_vec();
        if self.hashes_user {
            quoted(&mut value, "username", self.hash.of(&[user.as_bytes(), &self.realm]).as_bytes());
        } else if user.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            quoted(&mut value, "username", user.as_bytes());
        } else {
            let user = utf8_percent_encode(user, ESCAPED);
            value.extend_from_slice(format!("username*=UTF-8''{user}, ").as_bytes());
        }
        quoted(&mut value, "realm", &self.realm);
        quoted(&mut value, "uri", target.as_bytes());
        if let Some(algorithm) = &self.algorithm {
            plain(&mut value, "algorithm", algorithm);
        }
        quoted(&mut value, "nonce", &self.nonce);
        if self.has_qop {
            plain(&mut value, "nc", count.as_bytes());
            quoted(&mut value, "cnonce", own_nonce);
            plain(&mut value, "qop", b"auth");
        }
        quoted(&mut value, "response", response.as_bytes());
        if let Some(opaque) = &self.opaque {
            quoted(&mut value, "opaque", opaque);
        }
        if self.hashes_user {
            plain(&mut value, "userhash", b"true");
        }
        value.truncate(value.len() - 2);
        HeaderValue::from_bytes(&value).ok()
    }
}

fn plain(header: &mut Vec<u8>, name: &str, value: &[u8]) {
    header.extend_from_slice(name.as_bytes());
    header.push(b'=');
    header.extend_from_slice(value);
    header.extend_from_slice(b", ");
}

fn quoted(header: &mut Vec<u8>, name: &str, value: &[u8]) {
    let mut text = vec![b'"'];
    for &byte in value {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
    plain(header, name, &text);
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, header};
    use proptest::prelude::*;

    use super::{super::challenge::parameter, *};

    fn challenge(text: &str) -> Challenge {
        let headers = HeaderMap::from_iter([(header::WWW_AUTHENTICATE, text.parse().unwrap())]);
        super::super::challenges(&headers).remove(0)
    }

    fn session(text: &str, own_nonce: &str) -> Session {
        Session::begin(&challenge(text), own_nonce.into()).unwrap()
    }

    fn said(value: &HeaderValue, name: &str) -> String {
        let parameters = value.as_bytes().strip_prefix(b"Digest ").unwrap();
        String::from_utf8(parameter(parameters, name).unwrap_or_default()).unwrap()
    }

    /// RFC 7616 §3.9.1.
    #[test]
    fn response_matches_the_first_example_of_rfc_7616() {
        for (algorithm, response) in [
            ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
            ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
        ] {
            let mut session = session(
                &format!(
                    "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm={algorithm}, \
                     nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", \
                     opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
                ),
                "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            );
            let value = session.respond("Mufasa", &"Circle of Life".into(), &Method::GET, "/dir/index.html").unwrap();
            assert_eq!(
                value.to_str().unwrap(),
                format!(
                    "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", \
                     algorithm={algorithm}, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
                     cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, response=\"{response}\", \
                     opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
                )
            );
        }
    }

    /// RFC 7616 §3.9.2, with the values of erratum 4897: the printed ones are of SHA-512 cut short.
    #[test]
    fn response_matches_the_second_example_with_its_erratum() {
        let mut session = session(
            "Digest realm=\"api@example.org\", qop=\"auth\", algorithm=SHA-512-256, \
             nonce=\"5TsQWLVdgBdmrQ0XsxbDODV+57QdFR34I9HAbC/RVvkK\", \
             opaque=\"HRPCssKJSGjCrkzDg8OhwpzCiGPChXYjwrI2QmXDnsOS\", charset=UTF-8, userhash=true",
            "NTg6RKcb9boFIAS3KrFK9BGeh+iDa/sm6jUMp2wds69v",
        );
        let user = "J\u{e4}s\u{f8}n Doe";
        let value = session.respond(user, &"Secret, or not?".into(), &Method::GET, "/doe.json").unwrap();
        assert_eq!(said(&value, "username"), "793263caabb707a56211940d90411ea4a575adeccb7e360aeb624ed06ece9b0b");
        assert_eq!(said(&value, "response"), "3798d4131c277846293534c3edc11bd8a5e4cdcbff78b05db9d95eeb1cec68a5");
        assert_eq!(said(&value, "userhash"), "true");

        session.hashes_user = false;
        let value = session.respond(user, &"Secret, or not?".into(), &Method::GET, "/doe.json").unwrap();
        assert_eq!(said(&value, "username*"), "UTF-8''J%C3%A4s%C3%B8n%20Doe");
    }

    /// RFC 2069 §2.4, with the value of erratum 749.
    #[test]
    fn challenge_without_qop_is_answered_after_rfc_2069() {
        let mut session = session(
            "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", \
             opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"",
            "unused",
        );
        let value = session.respond("Mufasa", &"CircleOfLife".into(), &Method::GET, "/dir/index.html").unwrap();
        assert_eq!(
            value.to_str().unwrap(),
            "Digest username=\"Mufasa\", realm=\"testrealm@host.com\", uri=\"/dir/index.html\", \
             nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", response=\"1949323746fe6a43ef61f9606e7febea\", \
             opaque=\"5ccc069c403ebaf9f0171e9517f40e41\""
        );
    }

    #[test]
    fn session_key_is_kept_for_the_next_nonce() {
        let mut session = session("Digest realm=r, nonce=n, qop=auth, algorithm=MD5-sess", "c");
        let key = Hash::Md5.of(&[Hash::Md5.of(&[b"u", b"r", b"p"]).as_bytes(), b"n", b"c"]);
        let request = Hash::Md5.of(&[b"GET", b"/"]);
        for (nonce, count) in [("n", "00000001"), ("n", "00000002"), ("next", "00000001")] {
            if nonce != "n" {
                session.renew(nonce.into());
            }
            let value = session.respond("u", &"p".into(), &Method::GET, "/").unwrap();
            let due = [key.as_bytes(), nonce.as_bytes(), count.as_bytes(), b"c", b"auth", request.as_bytes()];
            assert_eq!(said(&value, "response"), *Hash::Md5.of(&due));
            assert_eq!((said(&value, "nc").as_str(), said(&value, "algorithm").as_str()), (count, "MD5-sess"));
        }
    }

    #[test]
    fn unsupported_algorithm_or_qop_is_refused() {
        for text in [
            "Digest realm=r, nonce=n, algorithm=SHA-1",
            "Digest realm=r, nonce=n, qop=auth-int",
            "Digest realm=r, nonce=n, algorithm=MD5-sess",
            "Digest realm=r",
            "Digest nonce=n",
        ] {
            assert!(Session::begin(&challenge(text), String::new()).is_none(), "{text}");
        }
        assert!(!session("Digest realm=r, nonce=n, qop=\"\"", "").has_qop);
    }

    proptest! {
        #[test]
        fn any_user_and_realm_make_a_valid_header(user in "\\PC{0,20}", realm in "[ -~]{0,20}") {
            let mut session = session("Digest realm=r, nonce=n, qop=auth", "c");
            session.realm = realm.clone().into_bytes();
            let value = session.respond(&user, &"hunter2".into(), &Method::GET, "/").unwrap();
            prop_assert_eq!(said(&value, "realm"), realm);
            if user.is_ascii() {
                prop_assert_eq!(said(&value, "username"), user);
            } else {
                prop_assert!(said(&value, "username*").starts_with("UTF-8''"));
            }
        }
    }
}
