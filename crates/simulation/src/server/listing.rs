//! PROPFIND of depth 0 and 1 (RFC 4918 §9.1).

use std::{fmt::Write, time::Duration};

use super::{Author, Server};
use crate::request::{Request, Response};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date of HTTP (RFC 9110 §5.6.7), counted from the first of 2026. A run is shorter than a year.
pub(super) fn date(at: Duration) -> String {
    let seconds = at.as_secs();
    let (mut day, time) = ((seconds / 86400) as usize, seconds % 86400);
    // Thursday was the first.
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][day % 7];
    let mut month = 0;
    for (number, days) in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate() {
        month = number;
        if day < days {
            break;
        }
        day -= days;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{weekday}, {:02} {} 2026 {hour:02}:{minute:02}:{second:02} GMT", day + 1, MONTHS[month])
}

impl Server {
    pub(super) fn propfind(&mut self, by: Author, request: &Request) -> Response {
        let path = &*request.path;
        if !self.exists(path) {
            return Response::of(404);
        }
        let below = format!("{path}/");
        let is_member =
            |other: &&String| other.strip_prefix(&below).is_some_and(|name| !name.is_empty() && !name.contains('/'));
        let mut found = vec![path.to_owned()];
        if request.header("depth") == Some("1") && self.folders.contains_key(path) {
            found.extend(self.folders.keys().filter(is_member).cloned());
            found.extend(self.files.keys().filter(is_member).cloned());
        }
        let asks_for_locks = request.body.windows(13).any(|part| part == b"lockdiscovery");
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\">");
        for path in found {
            self.show(by, &path);
            let properties = self.properties(&path, asks_for_locks);
            let slash = if self.folders.contains_key(&path) { "/" } else { "" };
            let _ = write!(
                text,
                "<D:response><D:href>{path}{slash}</D:href><D:propstat><D:prop>{properties}</D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
            );
        }
        Response::of(207).with("content-type", "application/xml; charset=utf-8").body(text + "</D:multistatus>")
    }

    fn properties(&self, path: &str, asks_for_locks: bool) -> String {
        let tag = self.tag(path).unwrap_or_default();
        let mut text = format!("<D:getetag>{tag}</D:getetag>");
        text += &self.files.get(path).map_or_else(
            || "<D:resourcetype><D:collection/></D:resourcetype>".into(),
            |file| {
                let length = self.versions[file.version].content.len();
                let modified = date(file.changed);
                format!(
                    "<D:resourcetype/><D:getcontentlength>{length}</D:getcontentlength>\
                     <D:getlastmodified>{modified}</D:getlastmodified>"
                )
            },
        );
        if asks_for_locks {
            text +=
                &self.locks.get(path).map_or_else(|| "<D:lockdiscovery/>".into(), |lock| self.discovery(path, lock));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_2026() {
        let days = |count: u64| Duration::from_secs(86400 * count + 3661);
        assert_eq!(date(days(0)), "Thu, 01 Jan 2026 01:01:01 GMT");
        assert_eq!(date(days(59)), "Sun, 01 Mar 2026 01:01:01 GMT");
    }
}
