//! Saying what is not there.
//!
//! A `PROPFIND` that names properties is to be told of each that a file does not have, with 404 (RFC 4918
//! section 9.1). `dav-server` leaves them out, and a file that has none of them gets a `response` with
//! nothing in it, which clients take for no answer at all. It sends a piece of text per file, each with that
//! file's `response` at its end, so what is missing can be added as the pieces pass.

use std::fmt::Write;

use bytes::Bytes;
use xml::escape::escape_str_attribute;

use crate::store::Visit;
use crate::xml::Name;

const END: &[u8] = b"</D:response>";

/// The piece, with the missing properties added to the `response` it ends with.
pub(crate) fn complete(piece: Bytes, visit: &Visit) -> Bytes {
    let (Some(start), Some(named)) = (piece.strip_suffix(END), &visit.named) else { return piece };
    let mut missing = visit.take_missing();
    let text = String::from_utf8_lossy(start);
    missing.extend(named.iter().filter(|name| live(name).is_some_and(|tag| !has(&text, &tag))).cloned());
    if missing.is_empty() {
        return piece;
    }
    let mut whole = text.into_owned();
    whole.push_str("<D:propstat><D:prop>");
    for Name { namespace, local } in missing {
        let _ = match namespace {
            Some(namespace) => write!(whole, "<m:{local} xmlns:m=\"{}\"/>", escape_str_attribute(&namespace)),
            None => write!(whole, "<{local}/>"),
        };
    }
    whole.push_str("</D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>");
    whole.into()
}

/// How `dav-server` opens the element of a property that it answers itself. The others it asks the store
/// for, which notes what it does not find.
fn live(name: &Name) -> Option<String> {
    let prefix = match (name.namespace.as_deref()?, name.local.as_str()) {
        ("DAV:", "displayname" | "getcontentlanguage") => return None,
        ("DAV:", _) => "D",
        ("http://apache.org/dav/props/", _) => "A",
        ("urn:schemas-microsoft-com:", _) => "Z",
        _ => return None,
    };
    Some(format!("<{prefix}:{}", name.local))
}

fn has(text: &str, tag: &str) -> bool {
    text.match_indices(tag).any(|(at, _)| text[at + tag.len()..].starts_with([' ', '/', '>']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dav_server::davpath::DavPath;
    use http::{HeaderMap, Method};

    fn name(namespace: &str, local: &str) -> Name {
        Name { namespace: Some(namespace.into()), local: local.into() }
    }

    #[test]
    fn the_missing_are_told_and_the_present_are_not() {
        let mut visit = Visit::new(Method::GET, DavPath::new("/").unwrap(), None, &HeaderMap::new());
        visit.named =
            Some(vec![name("DAV:", "getetag"), name("DAV:", "get"), name("u\"", "x"), name("DAV:", "displayname")]);
        visit.lacks(name("u\"", "x"));
        let piece =
            Bytes::from("<D:response><D:propstat><D:prop><D:getetag>1</D:getetag></D:prop></D:propstat></D:response>");
        let whole = String::from_utf8(complete(piece.clone(), &visit).to_vec()).unwrap();
        assert!(
            whole
                .contains("<D:prop><m:x xmlns:m=\"u&quot;\"/><m:get xmlns:m=\"DAV:\"/></D:prop><D:status>HTTP/1.1 404"),
            "{whole}"
        );
        visit.named = Some(vec![name("DAV:", "getetag")]);
        assert_eq!(complete(piece.clone(), &visit), piece);
        assert_eq!(complete(Bytes::from("</D:multistatus>"), &visit), "</D:multistatus>");
    }
}
