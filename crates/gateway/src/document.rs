//! The answer to a PROPFIND of depth 1, cut into its members: each is the answer to a PROPFIND of depth 0.
//!
//! The members are not read and written again: a gateway that understands only some properties would lose the others. An
//! answer for one member is the beginning of the document, with its namespaces, the member's bytes, and the end.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::OnceLock,
};

use bytes::Bytes;
use dav::{RemotePath, transfer::name_key};
use quick_xml::{
    NsReader,
    escape::unescape,
    events::Event,
    name::{Namespace, ResolveResult},
};

use crate::files::Files;

/// What a member takes in memory beside its text: its path, its key and its facts.
const MEMBER: usize = 600;

/// Members of a folder, and the folder itself.
#[derive(Debug)]
pub(crate) struct Document {
    bytes: Bytes,
    /// Where the first `response` begins, and the last one ends.
    inner: Range<usize>,
    members: HashMap<RemotePath, Range<usize>>,
    /// Names as a server may compare them.
    keys: HashSet<Vec<u8>>,
    folder: RemotePath,
    files: OnceLock<Files>,
}

impl Document {
    /// None if it is not well-formed, not UTF-8, has a document type, or says of a member that it could not be listed:
    /// then it is no evidence of what is not there.
    pub(crate) fn parse(bytes: Bytes, folder: &RemotePath) -> Option<Self> {
        let mut reader = NsReader::from_str(str::from_utf8(&bytes).ok()?);
        let (mut members, mut keys, mut inner) = (HashMap::new(), HashSet::new(), None::<Range<usize>>);
        let (mut depth, mut start, mut href, mut is_href) = (0u32, 0, String::new(), false);
        loop {
            let before = usize::try_from(reader.buffer_position()).ok()?;
            let (namespace, event) = reader.read_resolved_event().ok()?;
            let is_dav = matches!(namespace, ResolveResult::Bound(Namespace("DAV:")));
            let is = |name: &str, wanted: &str| is_dav && name == wanted;
            match event {
                Event::Start(tag) => {
                    depth += 1;
                    let name = tag.local_name();
                    match depth {
                        1 if !is(name.as_ref(), "multistatus") => return None,
                        2 if is(name.as_ref(), "response") => (start, href) = (before, String::new()),
                        // Of the whole member (RFC 4918 §14.24); or the list goes on elsewhere.
                        2 | 3 if is(name.as_ref(), "status") => return None,
                        3 if is(name.as_ref(), "href") => is_href = true,
                        64.. => return None,
                        _ => {}
                    }
                }
                Event::End(tag) => {
                    let name = tag.local_name();
                    if depth == 3 && is(name.as_ref(), "href") {
                        is_href = false;
                    }
                    if depth == 2 && is(name.as_ref(), "response") {
                        let end = usize::try_from(reader.buffer_position()).ok()?;
                        let path = RemotePath::from_href(href.trim(), folder).ok()?.as_folder(false);
                        if let Some(name) = path.name().filter(|_| !path.same_place(folder)) {
                            keys.insert(name_key(name));
                        }
                        members.insert(path, start..end);
                        inner = Some(inner.map_or(start, |inner| inner.start)..end);
                    }
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                Event::Text(text) if is_href => href.push_str(&unescape(&text).ok()?),
                Event::GeneralRef(reference) if is_href => {
                    href.push_str(&unescape(&format!("&{};", &*reference)).ok()?);
                }
                Event::CData(_) if is_href => return None,
                Event::DocType(_) | Event::Eof => return None,
                _ => {}
            }
        }
        members.contains_key(&folder.clone().as_folder(false)).then_some(())?;
        Some(Self { inner: inner?, members, keys, bytes, folder: folder.clone(), files: OnceLock::new() })
    }

    /// The memory that it takes, about.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + self.members.len() * MEMBER
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// What it says of the files' contents.
    pub(crate) fn files(&self) -> &Files {
        self.files.get_or_init(|| Files::parse(&self.bytes, &self.folder))
    }

    /// The answer for one member.
    pub(crate) fn member(&self, path: &RemotePath) -> Option<Bytes> {
        let range = self.members.get(&path.clone().as_folder(false))?;
        let parts = [0..self.inner.start, range.clone(), self.inner.end..self.bytes.len()];
        Some(parts.into_iter().flat_map(|part| self.bytes[part].iter().copied()).collect())
    }

    /// Whether no member has this name, nor one that the server may take for the same.
    pub(crate) fn lacks(&self, name: &[u8]) -> bool {
        !self.keys.contains(&name_key(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "<?xml version=\"1.0\"?>\n<D:multistatus xmlns:D=\"DAV:\" xmlns:x=\"urn:x\">\
        <D:response xmlns:y=\"urn:y\"><D:href>/f/</D:href><D:propstat><D:prop><y:a/></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n\
        <D:response><D:href>/f/a%20&amp;b</D:href><D:propstat><D:prop><x:href>no</x:href></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>\
        <D:response><D:href>https://other/f/Sub/</D:href></D:response></D:multistatus>\n";

    fn path(text: &str) -> RemotePath {
        RemotePath::from_url_path(text).unwrap()
    }

    fn parse(text: &str) -> Option<Document> {
        Document::parse(Bytes::copy_from_slice(text.as_bytes()), &path("/f/"))
    }

    #[test]
    fn a_member_is_an_answer_of_its_own() {
        let document = parse(TEXT).unwrap();
        let member = String::from_utf8(document.member(&path("/f/a%20%26b")).unwrap().to_vec()).unwrap();
        assert_eq!(
            member,
            "<?xml version=\"1.0\"?>\n<D:multistatus xmlns:D=\"DAV:\" xmlns:x=\"urn:x\">\
             <D:response><D:href>/f/a%20&amp;b</D:href><D:propstat><D:prop><x:href>no</x:href></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>\
             </D:multistatus>\n"
        );
        assert!(parse(&member.replace("a%20&amp;b", "")).is_some());
        assert!(document.member(&path("/f")).is_some() && document.member(&path("/f/Sub/")).is_some());
        assert!(document.member(&path("/f/c")).is_none() && document.lacks(b"c"));
        for there in [&b"sub"[..], b"SUB", b"sub.", b"a &B"] {
            assert!(!document.lacks(there), "a server may take it for the same");
        }
    }

    #[test]
    fn what_does_not_show_everything_is_no_evidence() {
        let refused = TEXT.replace(
            "<D:href>https://other/f/Sub/</D:href>",
            "<D:href>/f/s</D:href><D:status>HTTP/1.1 403 F</D:status>",
        );
        let other_folder = TEXT.replace("/f/", "/g/");
        let without_itself = TEXT.replace("<D:href>/f/</D:href>", "<D:href>/f/self</D:href>");
        let typed = TEXT.replace("<D:multistatus", "<!DOCTYPE a [<!ENTITY b \"c\">]><D:multistatus");
        for text in [&*refused, &other_folder, &without_itself, &typed, &TEXT[..TEXT.len() - 4], "", "<a/>"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parser_never_panics(at in 0..TEXT.len(), with in "[<>/&;D:a\"]{0,3}") {
            if let (Some(before), Some(after)) = (TEXT.get(..at), TEXT.get(at..))
                && let Some(document) = parse(&format!("{before}{with}{after}"))
            {
                for known in document.members.keys() {
                    prop_assert!(document.member(known).is_some());
                }
            }
        }
    }
}
