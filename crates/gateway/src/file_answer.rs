//! The server's answer to a PROPFIND of one file, and the answer to HEAD that follows from it.
//!
//! It is asked for while the gateway holds the file's exclusive lock, which its client has released (`lingering`). The client
//! is told what is true for it: there is no lock.

use std::time::Duration;

use tokio::time::Instant;

use bytes::Bytes;
use dav::{Item, Multistatus, RemotePath};
use http::Response;
use quick_xml::{
    NsReader,
    events::Event,
    name::{Namespace, ResolveResult},
};
use serve::AnswerBody;

use crate::{answers, files::Facts};

/// What the server has said about a file.
#[derive(Debug, Clone)]
pub(crate) struct FileAnswer {
    /// The multistatus, without locks.
    body: Bytes,
    facts: Facts,
    until: Instant,
}

impl FileAnswer {
    /// None if it does not show exactly this file, with a length and an entity tag: they are what HEAD needs. It was
    /// requested at `asked`, and is believed for the time `fresh` from then.
    pub(crate) fn parse(body: &[u8], path: &RemotePath, asked: Instant, fresh: Duration) -> Option<Self> {
        let mut multistatus = Multistatus::new(path.clone());
        let mut items: Vec<_> = multistatus.feed(body).collect();
        multistatus.finish().ok()?;
        let Some(Ok(Item::Entry(entry))) = items.pop().filter(|_| items.is_empty()) else { return None };
        let is_good = entry.status.is_none() && entry.path.same_place(path) && !entry.path.is_folder();
        let facts = Facts::new(entry.properties).filter(|_| is_good)?;
        Some(Self { body: without_locks(body)?, facts, until: asked + fresh })
    }

    /// The answer to the PROPFIND.
    pub(crate) fn multistatus(&self) -> Response<AnswerBody> {
        answers::multistatus(self.body.clone())
    }

    pub(crate) fn is_fresh(&self, now: Instant) -> bool {
        now < self.until
    }

    /// The answer to HEAD. A field that the listing does not have is left out.
    pub(crate) fn head(&self) -> Response<AnswerBody> {
        let mut response = Response::new(AnswerBody::default());
        *response.headers_mut() = self.facts.headers();
        response
    }
}

/// A multistatus without the locks in it.
fn without_locks(body: &[u8]) -> Option<Bytes> {
    let mut reader = NsReader::from_str(str::from_utf8(body).ok()?);
    let (mut kept, mut from, mut depth) = (Vec::with_capacity(body.len()), 0, 0u32);
    loop {
        let before = usize::try_from(reader.buffer_position()).ok()?;
        let (namespace, event) = reader.read_resolved_event().ok()?;
        let is_dav = matches!(namespace, ResolveResult::Bound(Namespace("DAV:")));
        let (opens, closes) = match &event {
            Event::Start(tag) => (is_dav && tag.local_name().as_ref() == "activelock", false),
            Event::End(tag) => (false, is_dav && tag.local_name().as_ref() == "activelock"),
            Event::Empty(tag) => {
                let is_lock = is_dav && tag.local_name().as_ref() == "activelock";
                (is_lock, is_lock)
            }
            Event::Eof => break,
            _ => (false, false),
        };
        if opens {
            if depth == 0 {
                kept.extend_from_slice(&body[from..before]);
            }
            depth += 1;
        }
        if closes {
            depth = depth.checked_sub(1)?;
            from = usize::try_from(reader.buffer_position()).ok()?;
        }
    }
    kept.extend_from_slice(&body[from..]);
    (depth == 0).then(|| kept.into())
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED};

    use super::*;

    const FRESH: Duration = Duration::from_secs(5);

    fn parse(text: &str) -> Option<FileAnswer> {
        let path = RemotePath::from_url_path("/f/a").unwrap();
        FileAnswer::parse(text.as_bytes(), &path, Instant::now(), FRESH)
    }

    fn response(href: &str, properties: &str) -> String {
        format!(
            "<D:response><D:href>{href}</D:href><D:propstat><D:prop>{properties}</D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
        )
    }

    fn document(responses: &str) -> String {
        format!("<D:multistatus xmlns:D=\"DAV:\">{responses}</D:multistatus>")
    }

    const PROPERTIES: &str = "<D:resourcetype/><D:getcontentlength>7</D:getcontentlength><D:getetag>\"x\"</D:getetag>\
        <D:getlastmodified>Tue, 19 Mar 2019 09:30:00 GMT</D:getlastmodified>";

    #[test]
    fn head_has_what_the_listing_says() {
        let answer = parse(&document(&response("/f/a", PROPERTIES))).unwrap();
        let head = answer.head();
        let field = |name| head.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(field(CONTENT_LENGTH), Some("7"));
        assert_eq!(field(ETAG), Some("\"x\""));
        assert_eq!(field(LAST_MODIFIED), Some("Tue, 19 Mar 2019 09:30:00 GMT"));
        assert_eq!(field(CONTENT_TYPE), None, "it is not known");
        assert!(answer.is_fresh(Instant::now()) && !answer.is_fresh(Instant::now() + FRESH));
    }

    #[test]
    fn locks_are_left_out() {
        let lock = "<D:activelock><D:owner><x:a xmlns:x=\"DAV:\"><x:activelock/></x:a></D:owner></D:activelock>";
        let other = "<activelock>no lock</activelock>";
        let with = |lock: &str| {
            let properties = format!("{PROPERTIES}<D:lockdiscovery>{lock}</D:lockdiscovery>{other}");
            document(&response("/f/a", &properties))
        };
        for locks in ["", "<D:activelock/>", lock, &lock.repeat(2)] {
            assert_eq!(parse(&with(locks)).unwrap().body, with(""), "{locks}");
        }
    }

    #[test]
    fn an_answer_about_anything_else_is_none() {
        let file = response("/f/a", PROPERTIES);
        for text in [
            document(""),
            document(&(file.clone() + &response("/f/b", PROPERTIES))),
            document(&response("/f/b", PROPERTIES)),
            document(&response(
                "/f/a/",
                &PROPERTIES.replace("<D:resourcetype/>", "<D:resourcetype><D:collection/></D:resourcetype>"),
            )),
            document(&response("/f/a", "<D:getcontentlength>7</D:getcontentlength>")),
            document(&response("/f/a", "<D:getetag>\"x\"</D:getetag>")),
            document(&file)[..100].to_owned(),
            String::new(),
        ] {
            assert!(parse(&text).is_none(), "{text}");
        }
    }
}
