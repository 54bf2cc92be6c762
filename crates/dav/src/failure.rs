//! A server's refusal, explained.

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
};

/// A request that a server did not do: what was asked of which path, why not, and what helps. It reads as one
/// sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The request's method.
    pub method: Method,
    /// What it was about.
    pub path: RemotePath,
    /// The server's answer.
    pub status: StatusCode,
    /// The conditions that were not met, as far as the server says.
    pub conditions: Vec<UnmetCondition>,
    /// What the server says in words.
    pub message: Option<String>,
    /// How long to wait before the next try (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// How often the request was put on a wire. Above 1, the refusal may be of its own echo.
    pub sendings: u32,
    /// The lock in the way, where it is known: its owner, and how long it lasts.
    pub lock: Option<(String, Option<Duration>)>,
}

impl Failure {
    /// The failure in an answer. The body may be any; as much of it as is at hand. `now` is what a date in
    /// `Retry-After` is compared with.
    pub fn new(
        method: &Method,
        path: &RemotePath,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Self {
        let ErrorBody { conditions, message } = ErrorBody::read(body);
        let retry_after = retry_after(headers, now);
        Self {
            method: method.clone(),
            path: path.clone(),
            status,
            conditions,
            message,
            retry_after,
            sendings: 1,
            lock: None,
        }
    }

    /// The failure in a part of an answer about many (RFC 4918 §13).
    pub fn of_part(method: &Method, path: &RemotePath, status: StatusCode, conditions: Vec<UnmetCondition>) -> Self {
        let (method, path) = (method.clone(), path.clone());
        Self { method, path, status, conditions, message: None, retry_after: None, sendings: 1, lock: None }
    }

    /// Adds whose lock it is, from the property `lockdiscovery`, which is to be asked for after a 423.
    #[must_use]
    pub fn with_locks(mut self, locks: &[ActiveLock]) -> Self {
        let owned = locks.iter().find_map(|lock| lock.owner.clone().map(|owner| (owner, lock.timeout)));
        self.lock = owned.or(self.lock);
        self
    }

    /// Whether the same request may succeed later, by itself.
    pub fn is_passing(&self) -> bool {
        matches!(self.status.as_u16(), 408 | 425 | 429 | 500 | 502 | 503 | 504)
    }

    fn unmet(&self, code: &ConditionCode) -> bool {
        self.conditions.iter().any(|condition| condition.code == *code)
    }

    fn explain(&self) -> String {
        let makes = matches!(self.method.as_str(), "PUT" | "MKCOL" | "COPY" | "MOVE");
        let text = match self.status.as_u16() {
            401 => "the server wants a name and password it knows: put them into ~/.netrc for this host",
            403 if self.unmet(&ConditionCode::PropfindFiniteDepth) => {
                "the server does not list a whole tree at once: list it folder by folder"
            }
            403 if self.unmet(&ConditionCode::ValidSyncToken) => {
                "the server no longer knows that state: list the folder anew"
            }
            403 => "the server does not allow it to this user: ask its administrator, or check the path",
            404 if self.method.as_str() == "LOCK" => {
                "the server locks only what is there: lock on edit (--lock edit), or never"
            }
            404 => "there is nothing at this path: check its spelling and case",
            405 if self.method.as_str() == "MKCOL" => "there is something of this name already",
            405 | 501 if self.method.as_str() == "LOCK" => "the server has no locks here: do without (--lock never)",
            405 | 501 => "the server does not do this here: check that the URL is a WebDAV folder",
            409 if makes => "the folder it belongs in is not there: make that first",
            409 => "it does not fit the state of what is there: list the folder and try again",
            412 if self.method.as_str() == "LOCK" => {
                "the lock is lost, it ended or was broken: lock it again and compare before writing"
            }
            412 => "somebody else has changed or made it, or a lock was lost: fetch the present version and compare",
            413 => {
                "it is larger than the server takes: raise the limit there (nginx client_max_body_size, Apache \
                 LimitRequestBody), or upload in chunks where it can"
            }
            415 => {
                "the server does not understand the body of the request: another server setting or version is needed"
            }
            423 => return self.explain_lock(),
            424 => "it was not done because another part of the request failed: see what else failed",
            429 | 503 => return self.explain_wait(),
            507 if matches!(self.method.as_str(), "PROPFIND" | "REPORT") => {
                "the server lists only a part of it: list smaller folders, or raise the limit there"
            }
            507 => "there is no room left, on the disk or in the quota: free some and try again",
            508 => "the folder contains itself, by a binding or link on the server: go through it folder by folder",
            500..600 => "the server failed: see its error log, or try again later",
            _ => "the server refused it",
        };
        text.to_owned()
    }

    fn explain_lock(&self) -> String {
        let Some((owner, left)) = &self.lock else {
            let root = self.conditions.iter().flat_map(|condition| &condition.hrefs).next();
            let place = root.map_or(String::new(), |root| format!(" at {root:?}"));
            return format!("somebody holds a lock{place}: wait until it is given back or ends");
        };
        let left =
            left.map_or(String::new(), |left| format!(", which ends in {} s unless it is renewed", left.as_secs()));
        format!("{owner:?} holds a lock on it{left}: wait, or ask them to finish")
    }

    fn explain_wait(&self) -> String {
        match self.retry_after {
            Some(wait) => format!("the server is too busy and asks to try again in {} s", wait.as_secs()),
            None => "the server is too busy: try again later, with fewer connections".to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {} ({}", self.method, self.path, self.explain(), self.status.as_u16())?;
        if let Some(message) = &self.message {
            write!(f, ", the server says {:?}", message.chars().take(300).collect::<String>())?;
        }
        f.write_str(")")
    }
}

impl std::error::Error for Failure {}

/// The wait in `Retry-After`: seconds, or until a date (RFC 9110 §10.2.3). A date gone by is no wait.
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
    fn each_status_is_one_sentence_that_names_the_path_and_helps() {
        for status in [401, 403, 404, 405, 409, 412, 413, 415, 423, 424, 429, 503, 507, 508, 500, 418] {
            for method in ["PUT", "PROPFIND", "LOCK", "MKCOL"] {
                let told = failure(method, status, b"<!DOCTYPE html>").to_string();
                assert!(told.starts_with(&format!("{method} /a b/c: ")), "{told}");
                assert!(
                    told.ends_with(&format!(" ({status})")) && !told.contains(['.', '\n']) || status == 401,
                    "{told}"
                );
            }
        }
        assert!(failure("MKCOL", 405, b"").to_string().contains("already"));
        assert!(failure("PUT", 409, b"").to_string().contains("folder it belongs in"));
        assert!(failure("LOCK", 412, b"").to_string().contains("lock is lost"));
    }

    #[test]
    fn a_lock_is_told_with_its_owner() {
        let lock = ActiveLock {
            owner: Some("Ann\x1b[2J".into()),
            timeout: Some(Duration::from_secs(543)),
            ..ActiveLock::default()
        };
        assert_eq!(
            failure("PUT", 423, b"").with_locks(&[ActiveLock::default(), lock]).to_string(),
            "PUT /a b/c: \"Ann\\u{1b}[2J\" holds a lock on it, which ends in 543 s unless it is renewed: wait, or ask \
             them to finish (423)"
        );
        let body = b"<D:error xmlns:D='DAV:'><D:lock-token-submitted><D:href>/a%20b/</D:href></D:lock-token-submitted>\
                     </D:error>";
        assert!(failure("PUT", 423, body).to_string().contains("a lock at \"/a%20b/\""));
    }

    #[test]
    fn a_listing_that_is_cut_is_not_taken_for_a_full_disk() {
        assert!(failure("PROPFIND", 507, b"").to_string().contains("lists only a part"));
        assert!(failure("PUT", 507, b"").to_string().contains("no room left"));
    }

    #[test]
    fn the_servers_own_words_are_quoted() {
        let body = b"<d:error xmlns:d='DAV:' xmlns:s='http://sabredav.org/ns'><s:message>Quota</s:message></d:error>";
        assert!(failure("PUT", 507, body).to_string().ends_with("(507, the server says \"Quota\")"));
    }

    #[test]
    fn waits_are_read_in_both_forms() {
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
