//! A page load in a capture of plain HTTP/1.1.
//!
//! Packets have no initiators, so dependencies come from `referer` and the times. Encrypted connections and HTTP/2 cannot
//! be read; each gets a note.

use std::path::Path;

use ::bytes::Bytes;
use url::Url;

use super::{
    ImportError, Imported, mistake,
    observed::{self, Content, Observed, field},
    streams::{self, Pair, Stream},
};

/// Header fields that are read of one message.
const FIELDS: usize = 128;

/// The most requests that are read of one connection.
const MOST: usize = 10_000;

/// Imports the HTTP/1.1 of a capture of any format.
pub fn read(path: &Path) -> Result<Imported, ImportError> {
    let mut source = ::capture::open(path, None)?;
    let (pairs, end) = streams::read(&mut *source);
    let mut notes: Vec<String> = end.iter().map(|why| format!("{why}; what came before it is imported")).collect();
    let mut all = Vec::new();
    for (number, pair) in pairs.iter().enumerate() {
        if pair.sent.bytes.is_empty() && pair.received.bytes.is_empty() {
            continue;
        }
        let (seen, said) = connection(pair, number);
        let ends = format!("{} > {}", pair.client, pair.server);
        notes.extend(said.map(|said| format!("connection {ends}: {said}")));
        all.extend(seen);
    }
    if all.is_empty() {
        let why = notes.first().map_or(String::new(), |note| format!("; {note}"));
        return Err(mistake(path, format!("there is no plain HTTP/1.1 in it{why}")));
    }
    let source = format!("Imported from a capture, {}.", path.file_name().unwrap_or_default().to_string_lossy());
    let mut imported = observed::spec(all, super::name(path), source, path)?;
    notes.append(&mut imported.notes);
    Ok(Imported { notes, ..imported })
}

/// The exchanges on a connection, and what could not be read.
fn connection(pair: &Pair, number: usize) -> (Vec<Observed>, Option<String>) {
    let mut seen = Vec::new();
    let (mut asked, mut answered) = (0, 0);
    let mut opened = Some(pair.opened);
    while asked < pair.sent.bytes.len() && seen.len() < MOST {
        let Some(request) = request(&pair.sent, asked) else {
            let what = match (pair.sent.is_whole(&(0..usize::MAX)), seen.is_empty()) {
                (false, _) => "the capture lacks parts of its packets; capture them whole (`tcpdump -s 0`)",
                (true, true) => "it is no plain HTTP/1.1",
                (true, false) => "its requests break off",
            };
            return (seen, Some(what.to_owned()));
        };
        let (_, _, method) = &request.line;
        let Some(response) = response(&pair.received, answered, method) else {
            let Message { line: (target, ..), .. } = request;
            return (seen, Some(format!("{target} has no whole response, so nothing is imported from there on")));
        };
        let host = field(&request.fields, "host").map_or_else(|| pair.server.to_string(), str::to_owned);
        let (target, _, method) = request.line;
        // A request to a proxy has an absolute URL.
        let url = if target.starts_with('/') { format!("http://{host}{target}") } else { target };
        let Ok(url) = Url::parse(&url) else {
            return (seen, Some(format!("{} is no address", super::short(&url))));
        };
        let (head, sent) = (request.head, request.content);
        seen.push(Observed {
            url,
            method,
            started: opened.take().unwrap_or_else(|| pair.sent.time(asked)),
            first: pair.received.time(response.start),
            end: pair.received.time(response.end.saturating_sub(1)),
            wait: None,
            handshake: None,
            connection: Some(number.to_string()),
            initiators: Vec::new(),
            fetched: false,
            priority: None,
            sent: None,
            delays_load: true,
            headers: request.fields,
            head: Some(head),
            body: sent,
            status: response.line.1,
            response_headers: response.fields,
            response_head: Some(response.head),
            response_body: response.content,
        });
        (asked, answered) = (request.end, response.end);
    }
    (seen, None)
}

/// A message in a stream.
struct Message {
    start: usize,
    end: usize,
    /// Target, status, method: those that its kind has.
    line: (String, u16, String),
    fields: Vec<(String, String)>,
    head: u64,
    content: Content,
}

fn request(stream: &Stream, start: usize) -> Option<Message> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let rest = stream.bytes.get(start..)?;
    let Ok(httparse::Status::Complete(head)) = request.parse(rest) else { return None };
    let line = (request.path?.to_owned(), 0, request.method?.to_owned());
    message(stream, start, head, line, request.headers, false)
}

fn response(stream: &Stream, mut start: usize, method: &str) -> Option<Message> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let rest = stream.bytes.get(start..)?;
        let Ok(httparse::Status::Complete(head)) = response.parse(rest) else { return None };
        let status = response.code?;
        if (100..200).contains(&status) && status != 101 {
            start += head;
            continue;
        }
        let line = (String::new(), status, String::new());
        if method == "HEAD" || matches!(status, 204 | 304) {
            let none: Vec<_> = response.headers.iter().filter(|field| !frames(field.name)).copied().collect();
            return message(stream, start, head, line, &none, false);
        }
        return message(stream, start, head, line, response.headers, true);
    }
}

/// Whether a field says how long the body is (RFC 9112, section 6).
fn frames(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
}

/// A message whose head, of so many bytes, has been read. `until_end`: without a length, it goes on to the stream's
/// end.
fn message(
    stream: &Stream,
    start: usize,
    head: usize,
    line: (String, u16, String),
    fields: &[httparse::Header<'_>],
    until_end: bool,
) -> Option<Message> {
    let body = start + head;
    if !stream.is_whole(&(start..body)) {
        return None;
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields: Vec<(String, String)> = fields.iter().map(|field| (field.name.to_owned(), text(field.value))).collect();
    let rest = &stream.bytes[body..];
    let chunked =
        field(&fields, "transfer-encoding").is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked"));
    let (len, content) = if chunked {
        if !stream.is_whole(&(body..stream.bytes.len())) {
            return None;
        }
        chunks(rest)?
    } else {
        let len = match field(&fields, "content-length") {
            Some(length) => length.trim().parse().ok()?,
            None if until_end => rest.len(),
            None => 0,
        };
        (len, Bytes::copy_from_slice(rest.get(..len)?))
    };
    let end = body + len;
    let whole = stream.is_whole(&(body..end));
    let content = Content { size: Some(content.len() as u64), coded: true, bytes: whole.then_some(content) };
    Some(Message { start, end, line, fields, head: head as u64, content })
}

/// The length of a chunked body with all that belongs to it, and its content (RFC 9112, section 7.1).
fn chunks(bytes: &[u8]) -> Option<(usize, Bytes)> {
    let (mut at, mut content) = (0, Vec::new());
    loop {
        let Ok(httparse::Status::Complete((line, size))) = httparse::parse_chunk_size(&bytes[at..]) else {
            return None;
        };
        at += line;
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).ok()?;
        let end = at.checked_add(size)?;
        content.extend_from_slice(bytes.get(at..end)?);
        at = end.checked_add(2).filter(|at| *at <= bytes.len())?;
    }
    // Trailers end with an empty line.
    loop {
        let line = bytes[at..].iter().position(|byte| *byte == b'\n')?;
        let empty = bytes[at..at + line].iter().all(|byte| *byte == b'\r');
        at += line + 1;
        if empty {
            return Some((at, content.into()));
        }
    }
}
