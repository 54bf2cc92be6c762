//! Paths as they stand in requests, and the names in them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// What is written as `%XX`: all that RFC 3986 §3.3 does not allow in a segment, and `;` and `+`.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b',')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// A name as it stands in a request.
pub fn encode(name: &[u8]) -> String {
    percent_encode(name, ENCODED).to_string()
}

/// A path of a request as a person reads it.
pub fn decode(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// A path of a request with each of its names changed by this, and encoded in the one way.
pub(crate) fn map(path: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let names = path.split('/').map(|name| encode(&change(&percent_decode_str(name).collect::<Vec<u8>>())));
    names.collect::<Vec<_>>().join("/")
}
