//! Percent-encoding of paths and names.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Encoded as `%XX`: everything that RFC 3986 §3.3 does not allow in a segment, and `;` and `+`.
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

/// Encodes a name.
pub fn encode(name: &[u8]) -> String {
    percent_encode(name, ENCODED).to_string()
}

/// Decodes a path for display.
pub fn decode(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// Changes each name of a path, and encodes it uniformly.
pub(crate) fn map(path: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let names = path.split('/').map(|name| encode(&change(&percent_decode_str(name).collect::<Vec<u8>>())));
    names.collect::<Vec<_>>().join("/")
}
