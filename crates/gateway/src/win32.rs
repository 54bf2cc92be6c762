//! Windows' own properties: times and attributes that its redirector stores with each file (`urn:schemas-microsoft-com:`).

use bytes::Bytes;
use quick_xml::{
    NsReader,
    events::Event,
    name::{Namespace, ResolveResult},
};

const WINDOWS: &str = "urn:schemas-microsoft-com:";
const LARGEST: usize = 16 * 1024;

/// The names in a PROPPATCH that only sets Windows' properties.
pub(crate) fn only_sets(body: &[u8]) -> Option<Vec<String>> {
    let mut reader = NsReader::from_str(str::from_utf8(body).ok()?);
    let (mut names, mut depth) = (Vec::new(), 0);
    if body.len() > LARGEST {
        return None;
    }
    loop {
        let (namespace, event) = reader.read_resolved_event().ok()?;
        let is_dav = matches!(namespace, ResolveResult::Bound(Namespace("DAV:")));
        let is_windows = matches!(namespace, ResolveResult::Bound(Namespace(WINDOWS)));
        let (tag, is_empty) = match &event {
            Event::Start(tag) => (tag, false),
            Event::Empty(tag) => (tag, true),
            Event::End(_) => {
                depth -= 1;
                continue;
            }
            Event::Eof => return (depth == 0 && !names.is_empty()).then_some(names),
            Event::DocType(_) => return None,
            _ => continue,
        };
        let name = tag.local_name();
        match (depth, name.as_ref()) {
            (0, "propertyupdate") | (1, "set") | (2, "prop") if is_dav => {}
            (3, name) if is_windows && is_property(name) => {
                names.push(name.to_owned());
            }
            _ => return None,
        }
        depth += u32::from(!is_empty);
    }
}

/// The XML parser takes almost any bytes for a name, and an answer repeats it.
fn is_property(name: &str) -> bool {
    name.starts_with("Win32") && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The answer to a PROPPATCH that has set these properties.
pub(crate) fn all_set(path: &str, names: &[String]) -> Bytes {
    let path = quick_xml::escape::escape(path);
    let names: Vec<_> = names.iter().map(|name| format!("<Z:{name}/>")).collect();
    let names = names.concat();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\" xmlns:Z=\"urn:schemas-microsoft-com:\">\
         <D:response><D:href>{path}</D:href><D:propstat><D:prop>{names}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
         </D:response></D:multistatus>"
    )
    .into()
}

/// Whether an answer says of everything that it has been set.
pub(crate) fn are_all_set(answer: &[u8]) -> bool {
    let Ok(answer) = str::from_utf8(answer) else { return false };
    let mut reader = NsReader::from_str(answer);
    let (mut is_status, mut statuses) = (false, 0);
    loop {
        match reader.read_resolved_event() {
            Ok((ResolveResult::Bound(Namespace("DAV:")), Event::Start(tag))) => {
                is_status = tag.local_name().as_ref() == "status";
            }
            Ok((_, Event::Text(text))) if is_status => {
                if text.split_ascii_whitespace().nth(1) != Some("200") {
                    return false;
                }
                statuses += 1;
            }
            Ok((_, Event::Eof)) => return statuses > 0,
            Ok((_, Event::Start(_) | Event::End(_))) => is_status = false,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32CreationTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32CreationTime><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"#;

    #[test]
    fn windows_properties_are_recognized() {
        let names = only_sets(SETS.as_bytes()).unwrap();
        assert_eq!(names, ["Win32CreationTime", "Win32FileAttributes"]);
        for other in [
            SETS.replace("D:set>", "D:remove>"),
            SETS.replace("Z:Win32CreationTime", "D:getetag"),
            SETS.replace("urn:schemas-microsoft-com:", "urn:other"),
            SETS.replace("<D:propertyupdate", "<!DOCTYPE a><D:propertyupdate"),
            SETS.replace("</D:propertyupdate>", ""),
            SETS.replace("Tue,", "<Z:Win32x/>"),
            SETS.replace("Win32CreationTime", "Win32<x"),
            SETS.replace("Win32CreationTime", "Win32&x"),
            String::new(),
        ] {
            assert_eq!(only_sets(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn answer_says_whether_all_are_set() {
        let answer = all_set("/a&b", &["Win32A".into(), "Win32B".into()]);
        let text = String::from_utf8(answer.to_vec()).unwrap();
        assert!(text.contains("<D:href>/a&amp;b</D:href>") && text.contains("<Z:Win32B/>"), "{text}");
        assert!(are_all_set(&answer));
        for other in
            [text.replace("200 OK", "403 Forbidden"), text.replace("status", "x"), text[..90].into(), String::new()]
        {
            assert!(!are_all_set(other.as_bytes()), "{other}");
        }
    }
}
