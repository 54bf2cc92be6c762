//! The names in a response to PROPFIND (RFC 4918, section 14.16).

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

/// The names in a folder: the last path segments of each response's href but the folder's
/// own. `None` if it is not well-formed XML. Names are not percent-decoded: a race's names
/// need no encoding.
pub fn names(xml: &str, folder: &str) -> Option<Vec<String>> {
    let is = |element: &BytesStart, name: &str| element.local_name().as_ref() == name;
    let mut reader = Reader::from_str(xml);
    let (mut names, mut path, mut closed) = (Vec::new(), Vec::new(), false);
    loop {
        match reader.read_event().ok()? {
            Event::Start(element) => path.push(element.to_owned()),
            Event::End(_) => {
                path.pop();
                closed = path.is_empty();
            }
            Event::Text(text) => {
                // Not the hrefs of lock tokens, further in.
                let [.., parent, href] = path.as_slice() else { continue };
                if is(href, "href") && is(parent, "response") {
                    let href: &str = &text;
                    let path = href
                        .split_once("://")
                        .map_or(href, |(_, rest)| rest.find('/').map_or("/", |slash| &rest[slash..]));
                    if path.trim_end_matches('/') != folder.trim_end_matches('/') {
                        names.extend(path.trim_end_matches('/').rsplit('/').next().map(str::to_owned));
                    }
                }
            }
            Event::Eof => return closed.then_some(names),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_folder_are_listed() {
        let xml = r#"<?xml version="1.0"?>
<D:multistatus xmlns:D="DAV:" xmlns:x="y">
<D:response><D:href>/s1/</D:href><D:propstat/></D:response>
<D:response xmlns:lp1="DAV:"><D:href>/s1/a.txt</D:href><D:propstat><D:prop><lp1:lockdiscovery><D:activelock>
<D:locktoken><D:href>opaquelocktoken:1</D:href></D:locktoken></D:activelock></lp1:lockdiscovery></D:prop></D:propstat>
</D:response>
<D:response><D:href>https://10.0.0.2:443/s1/sub/</D:href></D:response>
</D:multistatus>"#;
        assert_eq!(names(xml, "/s1/").unwrap(), ["a.txt", "sub"]);
    }

    #[test]
    fn truncated_xml_is_rejected() {
        assert_eq!(names("<D:multistatus><D:response><D:href>/s1/a", "/s1"), None);
        assert_eq!(names("", "/"), None);
    }
}
