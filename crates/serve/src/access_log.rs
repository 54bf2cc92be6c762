//! The access log: one line per request, written when its response has been sent or aborted.
//!
//! Lines are in the Common Log Format, which every log tool reads, with two fields appended:
//!
//! ```text
//! 10.0.0.2 - ann [05/Nov/2026:10:00:00 +0000] "PUT /a.txt HTTP/2.0" 201 0 10240 1834
//! ```
//!
//! client address, `-`, user, time, request line, status, bytes of the response body, **bytes of the request body**,
//! and **microseconds** from the request's head to the end of the response. Status 499: the client disconnected before
//! the response. Headers are never logged, and so no credentials.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use chrono::{DateTime, Utc};
use http::{Request, StatusCode};

use crate::Error;

/// The status of a request without a response.
const CLIENT_CLOSED: u16 = 499;

/// The destination of log lines.
#[derive(Clone)]
pub struct AccessLog(Arc<Mutex<dyn Write + Send>>);

impl std::fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AccessLog")
    }
}

impl AccessLog {
    /// Appends to a file, and creates it if necessary.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let file = File::options().create(true).append(true).open(path);
        file.map(Self::new).map_err(|error| Error::Log { path: path.to_owned(), error })
    }

    /// Writes each line with a single `write`.
    pub fn new(to: impl Write + Send + 'static) -> Self {
        AccessLog(Arc::new(Mutex::new(to)))
    }

    fn write(&self, line: &str) {
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = to.write_all(line.as_bytes()).and_then(|()| to.flush()) {
            tracing::warn!("cannot write to the access log: {error}");
        }
    }
}

/// A request in flight; its line is written on drop.
pub(crate) struct Entry {
    log: Option<AccessLog>,
    client: SocketAddr,
    line: String,
    began: Instant,
    pub(crate) user: Option<String>,
    pub(crate) status: Option<StatusCode>,
    pub(crate) sent: u64,
    pub(crate) received: Arc<AtomicU64>,
}

impl Entry {
    pub(crate) fn new<B>(log: Option<AccessLog>, client: SocketAddr, request: &Request<B>) -> Self {
        let line = || {
            let path = request.uri().path_and_query().map_or("*", http::uri::PathAndQuery::as_str);
            format!("{} {} {:?}", request.method(), quotable(path), request.version())
        };
        Self::of(log, client, line)
    }

    /// Begins an entry from the request line as it is logged; it must not contain a quote, a backslash or a control
    /// character.
    pub(crate) fn of(log: Option<AccessLog>, client: SocketAddr, line: impl FnOnce() -> String) -> Self {
        let line = log.as_ref().map_or_else(String::new, |_| line());
        Entry { log, client, line, began: Instant::now(), user: None, status: None, sent: 0, received: Arc::default() }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(log) = &self.log else { return };
        log.write(&format!(
            "{} - {} [{}] \"{}\" {} {} {} {}\n",
            self.client.ip(),
            self.user.as_deref().map_or_else(|| "-".into(), quotable),
            DateTime::<Utc>::from(std::time::SystemTime::now()).format("%d/%b/%Y:%H:%M:%S %z"),
            self.line,
            self.status.map_or(CLIENT_CLOSED, |status| status.as_u16()),
            self.sent,
            self.received.load(Ordering::Relaxed),
            self.began.elapsed().as_micros(),
        ));
    }
}

/// Escapes everything that could end the field or the line.
fn quotable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() || matches!(c, '"' | '\\' | ' ') {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_fields_are_escaped() {
        assert_eq!(quotable("/a\" 200\n\\x"), "/a\\u{22}\\u{20}200\\u{a}\\u{5c}x");
        assert_eq!(quotable("/a%20b"), "/a%20b");
    }

    #[test]
    fn request_without_response_is_logged_as_vanished() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let request = Request::put("/a?b").body(()).unwrap();
        drop(Entry::new(Some(AccessLog::new(writer)), ([10, 0, 0, 2], 1).into(), &request));
        let mut line = String::new();
        std::io::Read::read_to_string(&mut reader, &mut line).unwrap();
        assert!(line.starts_with("10.0.0.2 - - [") && line.contains("] \"PUT /a?b HTTP/1.1\" 499 0 0 "), "{line}");
    }
}
