//! Error responses, explained.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, Method, StatusCode, header};

use crate::{
    date,
    path::RemotePath,
    precondition_codes::{ConditionCode, ErrorBody, UnmetCondition},
    properties::ActiveLock,
    retry::Retry,
};

/// An error response. Its `Display` names the request, the cause, the status and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The request's method.
    pub method: Method,
    /// The path of the request.
    pub path: RemotePath,
    /// The status of the response.
    pub status: StatusCode,
    /// The condition codes of the response.
    pub conditions: Vec<UnmetCondition>,
    /// The server's message.
    pub message: Option<String>,
    /// The pause before a retry (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// How often the request was sent. Above 1, an earlier sending may have caused the error.
    pub times_sent: u32,
    /// The conflicting lock, if known: its owner and its remaining time.
    pub lock: Option<(String, Option<Duration>)>,
}

impl Failure {
    /// Reads an error response; `body` may be truncated or empty. A date in `Retry-After` is relative to `now`.
    pub fn new(
        method: &Method,
        path: &RemotePath,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Self {
        let ErrorBody { conditions, message } = ErrorBody::read(body);
        let message = message.or_else(|| plain_message(headers, body, status));
        let retry_after = retry_after(headers, now);
        Self {
            method: method.clone(),
            path: path.clone(),
            status,
            conditions,
            message,
            retry_after,
            times_sent: 1,
            lock: None,
        }
    }

    /// The failure of one resource in a multistatus answer (RFC 4918 §13).
    pub fn of_part(method: &Method, path: &RemotePath, status: StatusCode, conditions: Vec<UnmetCondition>) -> Self {
        let (method, path) = (method.clone(), path.clone());
        Self { method, path, status, conditions, message: None, retry_after: None, times_sent: 1, lock: None }
    }

    /// Adds the owner of the lock, from the property `lockdiscovery`, to be requested after a 423.
    #[must_use]
    pub fn with_locks(mut self, locks: &[ActiveLock]) -> Self {
        let owned = locks.iter().find_map(|lock| lock.owner.clone().map(|owner| (owner, lock.timeout)));
        self.lock = owned.or(self.lock);
        self
    }

    /// Whether the same request may succeed later.
    pub fn is_passing(&self) -> bool {
        Retry::after(self.status) != Retry::Refused
    }

    fn unmet(&self, code: &ConditionCode) -> bool {
        self.conditions.iter().any(|condition| condition.code == *code)
    }

    /// Why the server refused, and what to do about it; nothing to do is empty.
    fn explain(&self) -> (String, String) {
        let creates = matches!(self.method.as_str(), "PUT" | "MKCOL" | "COPY" | "MOVE");
        let (cause, remedy) = match self.status.as_u16() {
            401 => ("authentication failed", "check user name and password, for example in ~/.netrc"),
            403 if self.unmet(&ConditionCode::PropfindFiniteDepth) => {
                ("the server does not list a whole tree in one request", "list it folder by folder")
            }
            403 if self.unmet(&ConditionCode::ValidSyncToken) => {
                ("the server does not know this sync token any more", "list the folder again")
            }
            403 => ("permission denied", "check the path, or ask the server's administrator"),
            404 if self.method.as_str() == "LOCK" => {
                ("the server cannot lock a file that does not exist yet", "use `--lock edit` or `--lock never`")
            }
            404 => ("not found", "check spelling and case of the path"),
            405 if self.method.as_str() == "MKCOL" => ("a file or folder of this name exists already", ""),
            405 | 501 if self.method.as_str() == "LOCK" => {
                ("the server does not support locks here", "use `--lock never`")
            }
            405 | 501 => ("the server does not support this method here", "check that the URL is a WebDAV folder"),
            409 if creates => ("the parent folder does not exist", "create it first"),
            409 => ("the request conflicts with the present state", "list the folder and retry"),
            412 if self.method.as_str() == "LOCK" => {
                ("the lock is lost: it expired or was removed", "lock the file again, and compare it before writing")
            }
            412 => {
                ("somebody else has changed or created it, or a lock was lost", "fetch the current version and compare")
            }
            413 => (
                "the file is larger than the server accepts",
                "raise the server's limit (nginx client_max_body_size, Apache LimitRequestBody), or upload in chunks if \
                 the server can",
            ),
            415 => ("the server does not support this request body", "check the server's settings and version"),
            421 => ("the server does not accept this host name", ""),
            423 => return (self.explain_lock(), "retry later, or ask the owner to close the file".to_owned()),
            424 => ("another part of the request failed", "see the other errors"),
            429 | 503 => return self.explain_busy(),
            507 if matches!(self.method.as_str(), "PROPFIND" | "REPORT") => {
                ("the server lists only a part of the folder", "list smaller folders, or raise the server's limit")
            }
            507 => ("no space left, on the server's disk or in the quota", "free some space and retry"),
            508 => ("the folder contains itself, through a link on the server", "list it folder by folder"),
            500..600 => ("the server failed", "see the server's error log, or retry later"),
            _ => ("the server refused the request", ""),
        };
        (cause.to_owned(), remedy.to_owned())
    }

    /// What failures of the same kind have in common: all but the request, and a message that names the file.
    pub fn reason(&self) -> String {
        let name = self.path.name().map(String::from_utf8_lossy).unwrap_or_default();
        self.sentence(self.message.as_deref().filter(|message| !message.contains(&*name)))
    }

    fn sentence(&self, message: Option<&str>) -> String {
        let (cause, remedy) = self.explain();
        let message = message.map(|message| message.chars().take(300).collect::<String>());
        let message = message.map_or(String::new(), |message| format!(", server message {message:?}"));
        let gap = if remedy.is_empty() { "" } else { "; " };
        format!("{cause} ({}{message}){gap}{remedy}", self.status.as_u16())
    }

    /// The cause and the status, for a retry that follows.
    pub fn summary(&self) -> String {
        format!("{} ({})", self.explain().0, self.status.as_u16())
    }

    fn explain_lock(&self) -> String {
        let Some((owner, left)) = &self.lock else {
            let root = self.conditions.iter().flat_map(|condition| &condition.hrefs).next();
            return root.map_or("locked by somebody else".into(), |root| format!("locked by a lock on {root:?}"));
        };
        let left = left.map_or(String::new(), |left| format!(" for another {} s", left.as_secs()));
        format!("locked by {owner:?}{left}")
    }

    fn explain_busy(&self) -> (String, String) {
        let remedy = match self.retry_after {
            Some(wait) => format!("retry in {} s", wait.as_secs()),
            None => "retry later, with fewer connections".to_owned(),
        };
        ("the server is too busy".to_owned(), remedy)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.method, self.path, self.sentence(self.message.as_deref()))
    }
}

impl std::error::Error for Failure {}

/// The first paragraph of a response in plain text, without its status; none if it says no more than the status does.
fn plain_message(headers: &HeaderMap, body: &[u8], status: StatusCode) -> Option<String> {
    let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
    let paragraph = text.trim_start().split("\n\n").next()?.replace(char::is_control, " ");
    let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = words.strip_prefix(status.as_str()).unwrap_or(&words).trim_start_matches([':', ' ']);
    let says_more = !words.is_empty() && !words.eq_ignore_ascii_case(status.canonical_reason().unwrap_or_default());
    (kind.eq_ignore_ascii_case("text/plain") && says_more).then(|| words.to_owned())
}

/// Parses `Retry-After`: seconds or a date (RFC 9110 §10.2.3). A date in the past is a pause of zero.
pub fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let until = || date::parse(text).map(|date| date.duration_since(now).unwrap_or_default());
    text.parse().ok().map(Duration::from_secs).or_else(until)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn failure(method: &str, status: u16, body: &[u8]) -> Failure {
        let path = RemotePath::from_url_path("/a%20b/c").unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        Failure::new(&method.parse().unwrap(), &path, status, &HeaderMap::new(), body, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn each_status_gets_one_sentence_with_path_and_advice() {
        for status in [401, 403, 404, 405, 409, 412, 413, 415, 423, 424, 429, 503, 507, 508, 500, 418] {
            for method in ["PUT", "PROPFIND", "LOCK", "MKCOL"] {
                let told = failure(method, status, b"<!DOCTYPE html>").to_string();
                assert!(told.starts_with(&format!("{method} /a b/c: ")), "{told}");
                assert!(told.contains(&format!(" ({status})")), "{told}");
                assert!(!told.contains(['.', '\n']) || status == 401, "{told}");
            }
        }
        assert!(failure("MKCOL", 405, b"").to_string().contains("already"));
        assert!(failure("PUT", 409, b"").to_string().contains("parent folder does not exist"));
        assert!(failure("LOCK", 412, b"").to_string().contains("lock is lost"));
    }

    #[test]
    fn lock_error_names_the_owner() {
        let lock = ActiveLock {
            owner: Some("Ann\x1b[2J".into()),
            timeout: Some(Duration::from_secs(543)),
            ..ActiveLock::default()
        };
        assert_eq!(
            failure("PUT", 423, b"").with_locks(&[ActiveLock::default(), lock]).to_string(),
            "PUT /a b/c: locked by \"Ann\\u{1b}[2J\" for another 543 s (423); retry later, or ask the owner to close the \
             file"
        );
        let body = b"<D:error xmlns:D='DAV:'><D:lock-token-submitted><D:href>/a%20b/</D:href></D:lock-token-submitted>\
                     </D:error>";
        assert!(failure("PUT", 423, body).to_string().contains("locked by a lock on \"/a%20b/\""));
    }

    #[test]
    fn truncated_listing_is_not_called_a_full_disk() {
        assert!(failure("PROPFIND", 507, b"").to_string().contains("lists only a part"));
        assert!(failure("PUT", 507, b"").to_string().contains("no space left"));
    }

    #[test]
    fn server_message_is_quoted() {
        let body = b"<d:error xmlns:d='DAV:' xmlns:s='http://sabredav.org/ns'><s:message>Quota</s:message></d:error>";
        assert!(failure("PUT", 507, body).to_string().contains("(507, server message \"Quota\"); free some space"));
    }

    #[test]
    fn plain_text_of_a_refusal_is_one_quoted_line() {
        let told = |status: u16, kind: &str, body: &str| {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap())]);
            let (path, status) = (RemotePath::root(), StatusCode::from_u16(status).unwrap());
            Failure::new(&Method::GET, &path, status, &headers, body.as_bytes(), SystemTime::UNIX_EPOCH).to_string()
        };
        assert_eq!(
            told(
                421,
                "text/plain; charset=utf-8",
                "421: not \x1b the name\nserver; use\u{7} --host\n\nDNS rebinding: x\n"
            ),
            "GET /: the server does not accept this host name (421, server message \"not the name server; use --host\")"
        );
        let long = told(400, "Text/Plain", &"word ".repeat(10_000));
        assert!(long.contains("server message \"word word") && long.len() < 500, "{long}");
        for (status, kind, body) in [
            (404, "text/plain", "Not Found\n"),
            (404, "text/plain", "404 not found"),
            (404, "text/plain", " \n"),
            (404, "text/html", "gone"),
        ] {
            assert_eq!(told(status, kind, body), told(status, "image/png", ""), "{kind} {body:?}");
        }
    }

    #[test]
    fn retry_after_is_parsed_in_both_forms() {
        let now = date::parse("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        for (text, seconds) in [
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        let mut busy = failure("GET", 503, b"");
        assert!(busy.is_passing() && busy.to_string().contains("fewer connections"));
        busy.retry_after = Some(Duration::from_secs(9));
        assert!(busy.to_string().contains("in 9 s"));
    }
}
