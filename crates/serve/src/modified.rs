//! Modification times that clients set.
//!
//! ownCloud's clients, Nextcloud's, rclone and `haul` name a file's time in the header `X-OC-Mtime` of its upload. Others set a property
//! afterwards: Windows `Win32LastModifiedTime` ([MS-WDV]), rclone `DAV:lastmodified` (as Nextcloud has it), and some
//! `DAV:getlastmodified`, although RFC 4918 §15.7 protects it.
//!
//! `dav-server` acknowledges the first property without setting it and refuses the others. So [`redirect`] gives them a
//! namespace of our own, in which `dav-server` takes them for dead properties and passes them to the store. It answers with the
//! names as the client wrote them ([`original`]).
//!
//! [MS-WDV]: https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-wdv/

use chrono::DateTime;
use dav_server::fs::DavProp;
use http::HeaderName;
use xmltree::{Element, XMLNode};

/// The header of an upload, and of the response that confirms it.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-oc-mtime");

const NAMESPACE: &str = "urn:longhaul:modified";
const MICROSOFT: &str = "urn:schemas-microsoft-com:";
const NAMES: [(&str, &str); 3] =
    [(MICROSOFT, "Win32LastModifiedTime"), ("DAV:", "lastmodified"), ("DAV:", "getlastmodified")];

/// The end of the year 9999, the last that an HTTP date can express.
const LAST: i64 = 253_402_300_799;

/// Parses seconds since 1970, of which a fraction is dropped, or an HTTP date.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = if digits(whole) && digits(fraction) {
        whole.parse().ok()?
    } else {
        DateTime::parse_from_rfc2822(text).ok()?.timestamp()
    };
    (0..=LAST).contains(&seconds).then_some(seconds)
}

/// What a `PROPPATCH` sets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Redirected {
    /// The body with the properties in our namespace.
    pub(crate) body: Vec<u8>,
    /// The time, unless it is malformed.
    pub(crate) modified: Option<i64>,
}

/// Finds a modification time among the properties that a `PROPPATCH` sets.
pub(crate) fn redirect(body: &[u8]) -> Option<Redirected> {
    let mut root = Element::parse(body).ok()?;
    let mut times = Vec::new();
    let set = elements(&mut root).filter(|child| child.name == "set");
    for property in set.flat_map(elements).filter(|child| child.name == "prop").flat_map(elements) {
        let is_time = NAMES
            .iter()
            .any(|(namespace, name)| property.namespace.as_deref() == Some(namespace) && property.name == *name);
        if is_time {
            times.push(property.get_text().and_then(|text| parse(&text)));
            property.namespace = Some(NAMESPACE.to_owned());
            property.prefix = Some("modified".to_owned());
            property.namespaces.get_or_insert_with(xmltree::Namespace::empty).force_put("modified", NAMESPACE);
        }
    }
    let modified = *times.last()?;
    let mut redirected = Vec::new();
    root.write(&mut redirected).ok()?;
    Some(Redirected { body: redirected, modified: modified.filter(|_| times.iter().all(Option::is_some)) })
}

fn elements(parent: &mut Element) -> impl Iterator<Item = &mut Element> {
    parent.children.iter_mut().filter_map(XMLNode::as_mut_element)
}

/// A redirected property with the name that the client wrote.
pub(crate) fn original(property: &DavProp) -> Option<DavProp> {
    let is_redirected = property.namespace.as_deref() == Some(NAMESPACE);
    let (namespace, name) = NAMES.iter().find(|(_, name)| is_redirected && property.name == *name)?;
    let prefix = if *namespace == MICROSOFT { "Z" } else { "D" };
    let [name, prefix, namespace] = [name, prefix, *namespace].map(ToOwned::to_owned);
    Some(DavProp { name, prefix: Some(prefix), namespace: Some(namespace), xml: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(property: &str) -> String {
        format!(
            "<D:propertyupdate xmlns:D='DAV:' xmlns:Z='urn:schemas-microsoft-com:'><D:set><D:prop><Z:Win32FileAttributes>\
             00000020</Z:Win32FileAttributes>{property}</D:prop></D:set></D:propertyupdate>"
        )
    }

    #[test]
    fn times_are_parsed_and_others_refused() {
        assert_eq!(parse("1552987800"), Some(1_552_987_800));
        assert_eq!(parse(" 1552987800.123 "), Some(1_552_987_800));
        assert_eq!(parse("Tue, 19 Mar 2019 09:30:00 GMT"), Some(1_552_987_800));
        assert_eq!(parse("0"), Some(0));
        for refused in ["", ".", "1.", "-1", "0x5c9", "1e9", "253402300800", "99999999999999999999", "yesterday"] {
            assert_eq!(parse(refused), None, "{refused}");
        }
    }

    #[test]
    fn only_times_change_their_namespace() {
        let seconds = redirect(body("<D:lastmodified>5</D:lastmodified>").as_bytes()).unwrap();
        assert_eq!(seconds.modified, Some(5));
        let text = String::from_utf8(seconds.body).unwrap();
        assert!(text.contains("<Z:Win32FileAttributes>") && text.contains("urn:longhaul:modified"), "{text}");
        assert_eq!(redirect(body("").as_bytes()), None);
        assert_eq!(redirect(body("<lastmodified xmlns='urn:other'>5</lastmodified>").as_bytes()), None);
        let removed = body("<D:lastmodified/>").replace("D:set>", "D:remove>");
        assert_eq!(redirect(removed.as_bytes()), None);
        let malformed = redirect(body("<D:getlastmodified>soon</D:getlastmodified>").as_bytes()).unwrap();
        assert_eq!(malformed.modified, None);
    }
}
