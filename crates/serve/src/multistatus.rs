//! Adds missing properties to `PROPFIND` responses.
//!
//! A `PROPFIND` that names properties must get 404 for each one that a file does not have (RFC 4918 §9.1). `dav-server`
//! omits them, and a file with none of them gets an empty `response`, which clients reject. It writes one chunk per
//! file that ends with the file's `response`, so the missing properties are inserted into each chunk as it passes.

use std::fmt::Write;

use bytes::Bytes;
use xml::escape::escape_str_attribute;

use crate::store::RequestContext;
use crate::xml::Name;

const END: &[u8] = b"</D:response>";

/// The chunk, with the missing properties added to its last `response`.
pub(crate) fn complete(piece: Bytes, context: &RequestContext) -> Bytes {
    let (Some(start), Some(named)) = (piece.strip_suffix(END), &context.named) else { return piece };
    let mut missing = context.take_missing();
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

/// How `dav-server` opens the element of a property that it computes itself. It asks the store for all others, which
/// records those that are missing.
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

    use crate::activity::Activity;
    use crate::budget::Budget;

    fn name(namespace: &str, local: &str) -> Name {
        Name { namespace: Some(namespace.into()), local: local.into() }
    }

    #[test]
    fn missing_properties_are_added_and_present_ones_are_not() {
        let activity = Activity::new(Budget::of_tests());
        let path = DavPath::new("/").unwrap();
        let mut context = RequestContext::new(Method::GET, path, None, &HeaderMap::new(), activity);
        context.named =
            Some(vec![name("DAV:", "getetag"), name("DAV:", "get"), name("u\"", "x"), name("DAV:", "displayname")]);
        context.lacks(name("u\"", "x"));
        let piece =
            Bytes::from("<D:response><D:propstat><D:prop><D:getetag>1</D:getetag></D:prop></D:propstat></D:response>");
        let whole = String::from_utf8(complete(piece.clone(), &context).to_vec()).unwrap();
        assert!(
            whole
                .contains("<D:prop><m:x xmlns:m=\"u&quot;\"/><m:get xmlns:m=\"DAV:\"/></D:prop><D:status>HTTP/1.1 404"),
            "{whole}"
        );
        context.named = Some(vec![name("DAV:", "getetag")]);
        assert_eq!(complete(piece.clone(), &context), piece);
        assert_eq!(complete(Bytes::from("</D:multistatus>"), &context), "</D:multistatus>");
    }
}
