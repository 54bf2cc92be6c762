//! Matching the responses of one connection to its requests, without sockets.
//!
//! HTTP/1.1 messages carry no identifiers: a response belongs to the oldest request without one (RFC 9112 §9.3.2). A
//! server or middlebox that drops one, or reorders two, gives one request's response to another. That is why browsers
//! gave up pipelining. This module checks every response header for signs of it: a status that the request cannot have
//! caused, a range that was not requested, an entity tag or a length that differs from what the caller expects. A
//! mismatch is an error of the connection, and the request is sent again, alone.
//!
//! For requests that share the connection this is not enough: a response is accepted only if it shows that it is none
//! of the others' (`response_marks`). A refusal shows nothing, so its request is sent again, alone.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http::{
    HeaderMap, Method, Request, Response, StatusCode,
    header::{CONTENT_RANGE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE},
};

use super::{
    chunks::{Decoded, Decoder},
    head::{self, Framing},
};
use crate::{
    Cause, Expected, Options,
    connection_messages::{ENDLESS_INTERIM, JobId, MAX_INTERIM},
    response_marks::{Marks, Shown, first_byte, opaque},
};

/// The cause after `Connection: close`.
pub(crate) const CONNECTION_CLOSE: &str = "the server accepts no more requests on this connection";

/// What is expected of a request's response.
#[derive(Debug)]
struct Expectation {
    job: JobId,
    method: Method,
    target: String,
    is_conditional: bool,
    has_range: bool,
    /// The first byte of the requested range, if it names one.
    range_start: Option<u64>,
    expected: Expected,
    accept_unverified_refusal: bool,
    /// The marks that its response must show if other requests were in flight with it.
    marks: Option<Marks>,
    position: Position,
}

/// A request's place on its connection.
#[derive(Debug)]
struct Position {
    number: u64,
    /// The number of the oldest request in flight with it.
    oldest_in_flight: u64,
    /// Whether others were in flight with it, so that its response could be another's.
    is_shared: bool,
    has_follow_up: bool,
    is_follow_up: bool,
}

/// What was received.
#[derive(Debug)]
pub(crate) enum Event {
    /// The response header for `job`, and the body's length if known.
    Head { job: JobId, response: Response<()>, length: Option<u64> },
    /// The header of a refusal that may belong to another request than the oldest.
    UnverifiedRefusal,
    /// A piece of the body.
    Data(Bytes),
    /// The trailers.
    Trailers(HeaderMap),
    /// The end of the response, and its size with the header.
    End { job: JobId, received: u64 },
}

/// The exchanges of one connection.
#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// Requests without a complete response, oldest first.
    pending: VecDeque<Expectation>,
    /// The marks of the requests in flight with any of `asked`, by number from `first`.
    company: VecDeque<Option<Marks>>,
    first: u64,
    /// The marks still believed, if the last response did not show all.
    unmarked: Option<Shown>,
    buffer: BytesMut,
    /// The decoder of the current body, after its header.
    body: Option<Decoder>,
    /// Bytes of the current response so far.
    received: u64,
    interim: u32,
    /// Whether the last response said `Connection: close`.
    closing: bool,
}

impl Exchanges {
    /// A request is about to be written.
    pub(crate) fn ask<B>(&mut self, job: JobId, request: &Request<B>, marks: Option<Marks>, is_follow_up: bool) {
        let headers = request.headers();
        let conditions = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE];
        let options = request.extensions().get::<Options>();
        if let Some(before) = self.pending.back_mut() {
            before.position.is_shared = true;
            before.position.has_follow_up = is_follow_up;
        }
        let number = self.first + self.company.len() as u64;
        let position = Position {
            number,
            oldest_in_flight: self.pending.front().map_or(number, |oldest| oldest.position.number),
            is_shared: !self.pending.is_empty(),
            has_follow_up: false,
            is_follow_up,
        };
        self.company.push_back(marks);
        self.pending.push_back(Expectation {
            job,
            method: request.method().clone(),
            target: request.uri().path().to_owned(),
            // RFC 4918's `If` and `Overwrite: F`, too, may give a 412.
            is_conditional: conditions.iter().any(|name| headers.contains_key(name))
                || ["if", "overwrite", "destination"].iter().any(|name| headers.contains_key(*name)),
            has_range: headers.contains_key(RANGE),
            range_start: headers.get(RANGE).and_then(|range| range.to_str().ok()).and_then(first_byte),
            expected: options.map(|options| options.expected.clone()).unwrap_or_default(),
            accept_unverified_refusal: options.is_some_and(|options| options.accept_unverified_refusal),
            marks,
            position,
        });
    }

    /// Forgets the youngest request.
    pub(crate) fn forget(&mut self) {
        self.pending.pop_back();
    }

    /// Takes the marks that the server is still believed to show, if the last response did not show all.
    pub(crate) fn unmarked(&mut self) -> Option<Shown> {
        self.unmarked.take()
    }

    /// The read buffer.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next event in the buffer; `None` until more is received. After an error the connection is unusable.
    pub(crate) fn next(&mut self) -> Result<Option<Event>, Cause> {
        let Some(first) = self.pending.front() else {
            return if self.buffer.is_empty() { Ok(None) } else { Err(unsolicited(&self.buffer)) };
        };
        let job = first.job;
        if self.closing && self.body.is_none() {
            return Err(Cause::Retired(CONNECTION_CLOSE));
        }
        let before = self.buffer.len();
        if let Some(body) = &mut self.body {
            let decoded = body.next(&mut self.buffer).map_err(Cause::Protocol)?;
            self.received += (before - self.buffer.len()) as u64;
            if matches!(decoded, Some(Decoded::End)) && self.pending.len() == 1 && is_more_of_a_body(&self.buffer) {
                return Err(Cause::Protocol("the response is longer than its Content-Length".into()));
            }
            return Ok(decoded.map(|decoded| match decoded {
                Decoded::Data(bytes) => Event::Data(bytes),
                Decoded::Trailers(trailers) => Event::Trailers(trailers),
                Decoded::End => self.end(job),
            }));
        }
        loop {
            if self.buffer.is_empty() {
                return Ok(None);
            }
            let before = self.buffer.len();
            let Some(head) = head::read(&mut self.buffer, &first.method).map_err(Cause::Protocol)? else {
                return Ok(None);
            };
            self.received += (before - self.buffer.len()) as u64;
            if head.response.status().is_informational() {
                self.interim += 1;
                if head.response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    return Err(Cause::Protocol("the server switched protocols unasked (101)".into()));
                }
                if self.interim > MAX_INTERIM {
                    return Err(Cause::Unexpected(ENDLESS_INTERIM));
                }
                // The final response has not begun (RFC 9110 §15.2).
                self.received = 0;
                continue;
            }
            // These statuses are about the connection, not the request (RFC 9110 §15.5.9, §15.5.20): unless nothing came
            // before a misdirected request, which another connection would not change.
            let is_misdirected = head.response.status() == StatusCode::MISDIRECTED_REQUEST && first.position.number > 0;
            if head.response.status() == StatusCode::REQUEST_TIMEOUT || is_misdirected {
                return Err(Cause::Refused(head.response.status()));
            }
            let length = if let Framing::Length(length) = head.framing { Some(length) } else { None };
            first
                .check(&head.response, length)
                .map_err(|cause| self.explain_mismatch(cause, &head.response, length))?;
            let is_unverified = self.is_unverified_refusal(&head.response, length)?;
            self.body = Some(Decoder::new(head.framing));
            self.closing = !head.persists;
            return Ok(Some(if is_unverified {
                Event::UnverifiedRefusal
            } else {
                Event::Head { job, response: head.response, length }
            }));
        }
    }

    /// Takes the body of the response whose header came last, if it has come with it and has a length.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        let length = self.body.as_ref()?.plain()?;
        let rest = self.buffer.get(length..)?;
        if self.pending.len() == 1 && is_more_of_a_body(rest) {
            return None;
        }
        self.received += length as u64;
        Some(self.body.as_mut()?.take_rest(&mut self.buffer, length))
    }

    /// Whether a refusal may belong to another request in flight; an error for a success that does not show its
    /// request.
    fn is_unverified_refusal(&mut self, response: &Response<()>, length: Option<u64>) -> Result<bool, Cause> {
        let Some(first) = self.pending.front() else { return Ok(false) };
        let Some(marks) = first.marks else { return Ok(false) };
        let (status, headers) = (response.status(), response.headers());
        if matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT) && marks.is_of_file() {
            self.unmarked = Some(marks.believed_after(headers, length)).filter(|believed| *believed != Shown::ALL);
        }
        if !first.position.is_shared || first.position.is_follow_up {
            return Ok(false);
        }
        if !status.is_success() {
            return Ok(!first.accept_unverified_refusal && !is_retried_by_caller(status));
        }
        if !marks.fits(status) {
            return Err(Cause::Unexpected("the response's status does not fit the request's method"));
        }
        let shown = marks.shown_by(headers, length);
        if self.others(first).any(|other| !marks.differ(other, shown)) {
            return Err(Cause::Retired("the responses do not show which requests they belong to"));
        }
        Ok(false)
    }

    /// The marks of the requests in flight with this one.
    fn others(&self, asked: &Expectation) -> impl Iterator<Item = &Marks> {
        let own = asked.position.number;
        let numbered = (self.first..).zip(&self.company).skip((asked.position.oldest_in_flight - self.first) as usize);
        numbered.filter(move |(number, _)| *number != own).filter_map(|(_, marks)| marks.as_ref())
    }

    /// The cause for an unexpected response: a mix-up, if it shows another request's marks.
    fn explain_mismatch(&self, cause: Cause, response: &Response<()>, length: Option<u64>) -> Cause {
        let shows = |marks: &Marks| {
            let shown = marks.shown_by(response.headers(), length);
            shown.etag || shown.range
        };
        match (&cause, self.pending.front()) {
            (Cause::Unexpected(_), Some(first)) if self.others(first).any(shows) => {
                Cause::Protocol("the response belongs to another request: it has that request's entity tag".into())
            }
            _ => cause,
        }
    }

    /// The server closed its side: the end of a body, or an error.
    pub(crate) fn end_of_input(&mut self) -> Result<Event, Cause> {
        match (&self.body, self.pending.front()) {
            (Some(body), Some(first)) if body.ends_with_connection() => {
                let job = first.job;
                Ok(self.end(job))
            }
            _ => Err(Cause::Closed),
        }
    }

    fn end(&mut self, job: JobId) -> Event {
        self.pending.pop_front();
        let next = self.first + self.company.len() as u64;
        let needed = self.pending.front().map_or(next, |oldest| oldest.position.oldest_in_flight);
        self.company.drain(..(needed - self.first) as usize);
        self.first = needed;
        self.body = None;
        self.interim = 0;
        Event::End { job, received: std::mem::take(&mut self.received) }
    }

    /// Whether any byte of the current response was received.
    pub(crate) fn is_answering(&self) -> bool {
        self.body.is_some() || !self.buffer.is_empty() || self.received > 0
    }

    /// Whether the current response's header was received, and not its end.
    pub(crate) fn is_receiving(&self) -> bool {
        self.body.is_some()
    }

    /// Bytes left of the current body, if known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.body.as_ref().and_then(Decoder::left)
    }

    /// Bytes of the current response so far, with its header.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Whether the current response is the server's last.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }
}

impl Expectation {
    /// Rejects a response that cannot belong to this request.
    fn check(&self, response: &Response<()>, length: Option<u64>) -> Result<(), Cause> {
        let wrong = |why: &str| Err(Cause::Protocol(format!("the response belongs to another request: {why}")));
        // The resource may also have changed.
        let unexpected = |why| Err(Cause::Unexpected(why));
        let (status, headers) = (response.status(), response.headers());
        match status {
            StatusCode::NOT_MODIFIED if !self.is_conditional => return wrong("304 to an unconditional request"),
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if !self.has_range => {
                return wrong("it is about a range, but none was requested");
            }
            StatusCode::PARTIAL_CONTENT if self.method != Method::GET => {
                return wrong("206 to a method other than GET");
            }
            // Only listings have this status.
            StatusCode::MULTI_STATUS if matches!(self.method, Method::GET | Method::HEAD | Method::PUT) => {
                return wrong("207 to a method with a single resource");
            }
            // The follow-up gets this if the leader was dropped.
            StatusCode::NOT_FOUND if self.position.has_follow_up && self.method == Method::PUT => {
                return unexpected("404 to an upload; it may belong to the follow-up");
            }
            _ => {}
        }
        if let (StatusCode::PARTIAL_CONTENT, Some(asked), Some(range)) =
            (status, self.range_start, headers.get(CONTENT_RANGE))
        {
            let given = range.to_str().ok().and_then(|range| range.trim().strip_prefix("bytes "));
            if given.is_some_and(|given| first_byte(given) != Some(asked)) {
                return wrong("its range is not the requested one");
            }
        }
        // draft-nottingham-http-pipeline-01: the request that the server believes to answer.
        if let Some(request) = headers.get("assoc-req").and_then(|value| value.to_str().ok()) {
            let mut words = request.split_whitespace();
            let (method, url) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if method != self.method.as_str() || !url.contains(&self.target) {
                return wrong("the server says so (Assoc-Req)");
            }
        }
        if !self.position.is_shared || self.method == Method::HEAD {
            return Ok(());
        }
        if status == StatusCode::OK
            && self.expected.length.is_some_and(|expected| length.is_some_and(|l| l != expected))
        {
            return unexpected("the response has another length than expected");
        }
        let etag = headers.get(ETAG).and_then(|etag| etag.to_str().ok());
        let successful = matches!(status, StatusCode::OK | StatusCode::PARTIAL_CONTENT);
        match (&self.expected.etag, etag) {
            (Some(expected), Some(etag)) if successful && opaque(expected) != opaque(etag) => {
                unexpected("the response has another entity tag than expected")
            }
            _ => Ok(()),
        }
    }
}

/// Whether the caller retries after this status anyway.
fn is_retried_by_caller(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 407 | 425 | 429 | 502 | 503 | 504)
}

/// Whether the bytes after the last response belong to its body, because its length was wrong (RFC 9112 §6.3), and are
/// no further response.
fn is_more_of_a_body(buffer: &[u8]) -> bool {
    const HTTP: &[u8] = b"HTTP/1.";
    let rest = buffer.trim_ascii_start();
    !rest.is_empty() && !HTTP.starts_with(&rest[..rest.len().min(HTTP.len())])
}

fn unsolicited(buffer: &[u8]) -> Cause {
    // Some servers send this before they close an idle connection (RFC 9110 §15.5.9).
    if buffer.starts_with(b"HTTP/1.") && buffer.get(8..12) == Some(b" 408") {
        return Cause::Refused(StatusCode::REQUEST_TIMEOUT);
    }
    Cause::Protocol("the server sent a response without a request".into())
}

#[cfg(test)]
mod tests;
