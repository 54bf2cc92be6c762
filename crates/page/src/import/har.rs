//! HAR, the HTTP archive that browsers and proxies export (version 1.2), with the fields that Chromium adds.
//!
//! The format requires many fields that writers omit, so nearly all are optional here. An entry without a field that a
//! replay needs is omitted, with a note that names it; a truncated HAR is rejected. Playwright keeps bodies as files beside
//! the HAR (`_file`).

use std::{path::Path, time::Duration};

use ::bytes::Bytes;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, FixedOffset, TimeDelta};
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use super::{
    ImportError, Imported, mistake,
    observed::{self, Content, Initiator, Observed},
    short,
};
use crate::{body_file, spec::MAX_KEPT};

#[derive(Deserialize)]
struct Har<'a> {
    #[serde(borrow)]
    log: Log<'a>,
}

#[derive(Deserialize)]
struct Log<'a> {
    #[serde(borrow)]
    entries: Vec<&'a RawValue>,
    #[serde(default)]
    pages: Vec<Page>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    title: Option<String>,
    started_date_time: Option<String>,
    #[serde(default)]
    #[serde(rename = "pageTimings")]
    timings: PageTimings,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PageTimings {
    /// Milliseconds from the page's start to its `load` event; -1: unknown.
    on_load: Option<f64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    started_date_time: Option<String>,
    time: Option<f64>,
    request: Option<Request>,
    response: Option<Response>,
    #[serde(default)]
    timings: Timings,
    connection: Option<serde_json::Value>,
    #[serde(rename = "_initiator")]
    initiator: Option<Caller>,
    #[serde(rename = "_resourceType")]
    kind: Option<String>,
    #[serde(rename = "_priority")]
    priority: Option<String>,
    #[serde(rename = "_fromCache")]
    from_cache: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    #[serde(default)]
    method: String,
    url: Option<String>,
    #[serde(default)]
    http_version: String,
    #[serde(default)]
    headers: Vec<Field>,
    headers_size: Option<f64>,
    body_size: Option<f64>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    status: Option<f64>,
    #[serde(default)]
    http_version: String,
    #[serde(default)]
    headers: Vec<Field>,
    headers_size: Option<f64>,
    body_size: Option<f64>,
    #[serde(default)]
    content: Body,
    #[serde(rename = "_transferSize")]
    transfer_size: Option<f64>,
    #[serde(rename = "_error")]
    error: Option<String>,
}

#[derive(Deserialize)]
struct Field {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    text: Option<String>,
    #[serde(rename = "_file")]
    file: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Body {
    size: Option<f64>,
    mime_type: Option<String>,
    text: Option<String>,
    encoding: Option<String>,
    /// The file with the content, beside the HAR.
    #[serde(rename = "_file")]
    file: Option<String>,
}

/// Times in milliseconds; -1: does not apply.
#[derive(Deserialize, Default)]
struct Timings {
    blocked: Option<f64>,
    dns: Option<f64>,
    connect: Option<f64>,
    /// Part of `connect`.
    ssl: Option<f64>,
    send: Option<f64>,
    wait: Option<f64>,
    receive: Option<f64>,
}

/// A request's initiator, as Chromium reports it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Caller {
    url: Option<String>,
    line_number: Option<f64>,
    column_number: Option<f64>,
    stack: Option<Stack>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stack {
    #[serde(default)]
    call_frames: Vec<Frame>,
    parent: Option<Box<Stack>>,
}

#[derive(Deserialize)]
struct Frame {
    #[serde(default)]
    url: String,
}

impl Caller {
    /// The initiators, the nearest first: the scripts of the stack, then those of its parents, then the initiator's
    /// URL.
    pub(crate) fn initiators(&self) -> Vec<Initiator> {
        let stacks = std::iter::successors(self.stack.as_ref(), |stack| stack.parent.as_deref());
        let frames = stacks.take(100).flat_map(|stack| &stack.call_frames);
        let frames = frames.map(|frame| Initiator { url: frame.url.clone(), position: None });
        let line = self.line_number.filter(|line| *line >= 0.0).map(|line| line as u64);
        let position = line.map(|line| (line, self.column_number.unwrap_or(0.0).max(0.0) as u64));
        let named = self.url.iter().map(|url| Initiator { url: url.clone(), position });
        frames.filter(|frame| !frame.url.is_empty()).take(100).chain(named).collect()
    }
}

/// Imports a HAR; `path` names it.
pub fn parse(text: &str, path: &Path) -> Result<Imported, ImportError> {
    let text = text.trim_start_matches('\u{feff}');
    let har: Har = serde_json::from_str(text).map_err(|error| {
        let what = if error.is_eof() { "breaks off" } else { "is no HAR" };
        mistake(path, format!("{what}: {error}"))
    })?;
    let page = har.log.pages.first();
    let title = page.and_then(|page| page.title.clone()).unwrap_or_else(|| super::name(path));
    let mut reader =
        Reader { folder: path.parent().unwrap_or(Path::new("")), notes: Vec::new(), begin: None, load: None };
    let loaded = page.and_then(|page| page.timings.on_load).filter(|ms| *ms > 0.0);
    let start = page.and_then(|page| time(page.started_date_time.as_deref()));
    reader.load = start.zip(loaded).map(|(start, ms)| start + TimeDelta::microseconds((ms * 1e3) as i64));
    let mut seen: Vec<Observed> = Vec::new();
    for (number, raw) in har.log.entries.iter().enumerate() {
        match reader.entry(raw) {
            Ok(one) => seen.extend(one),
            Err((None, said)) => reader.notes.push(format!("entry {}: omitted, since {said}", number + 1)),
            Err((Some(url), said)) => reader.notes.push(format!("{}: omitted, since {said}", short(&url))),
        }
    }
    let Reader { mut notes, begin, .. } = reader;
    let source = format!("Imported from a HAR, {}.", path.file_name().unwrap_or_default().to_string_lossy());
    let mut imported = observed::spec(seen, title, source, path).map_err(|error| match (error, notes.first()) {
        (ImportError::Mistake { message, .. }, Some(note)) => mistake(path, format!("{message}; {note}")),
        (error, _) => error,
    })?;
    let begin = start.or(begin).map(|time| time.timestamp_millis());
    imported.spec.recorded_at = begin.and_then(DateTime::from_timestamp_millis);
    notes.append(&mut imported.notes);
    Ok(Imported { notes, ..imported })
}

/// A time, if it is one.
fn time(text: Option<&str>) -> Option<DateTime<FixedOffset>> {
    text.and_then(|text| DateTime::parse_from_rfc3339(text).ok())
}

/// Reads the entries of a HAR.
struct Reader<'a> {
    /// The folder of the HAR.
    folder: &'a Path,
    notes: Vec<String>,
    /// The time of the first entry.
    begin: Option<DateTime<FixedOffset>>,
    /// The time of the `load` event.
    load: Option<DateTime<FixedOffset>>,
}

/// Schemes that do not use the network.
const LOCAL: [&str; 3] = ["data", "blob", "about"];

/// The types of resources that do not delay a `load` event, as Chromium names them.
const LATE: [&str; 8] = ["fetch", "xhr", "ping", "preflight", "eventsource", "websocket", "manifest", "other"];

impl Reader<'_> {
    /// An entry; none if it did not use the network. The error names its URL, if it has one, and says why it is omitted.
    fn entry(&mut self, raw: &RawValue) -> Result<Option<Observed>, (Option<String>, String)> {
        let entry: Entry =
            serde_json::from_str(raw.get()).map_err(|error| (None, format!("it is invalid: {error}")))?;
        let url = entry.request.as_ref().and_then(|request| request.url.clone());
        let url = url.ok_or_else(|| (None, "it has no URL".to_owned()))?;
        let told = |what: String| (Some(url.clone()), what);
        let parsed = Url::parse(&url).map_err(|error| told(format!("its URL is invalid: {error}")))?;
        if LOCAL.contains(&parsed.scheme()) || entry.from_cache.is_some() {
            return Ok(None);
        }
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(told(format!("only HTTP requests are replayed, not {}", parsed.scheme())));
        }
        let when = time(entry.started_date_time.as_deref());
        let when = when.ok_or_else(|| told("its `startedDateTime` is missing or invalid".to_owned()))?;
        let begin = *self.begin.get_or_insert(when);
        // The origin does not matter, since only differences count.
        let started = (when - begin).num_microseconds().unwrap_or(0).saturating_add(HOUR);
        let late = entry.kind.as_deref().is_some_and(|kind| LATE.contains(&kind));
        let files = entry.files();
        let mut one = one(entry, parsed, Duration::from_micros(u64::try_from(started).unwrap_or(0))).map_err(told)?;
        let took = TimeDelta::from_std(one.end.saturating_sub(one.started)).unwrap_or_default();
        one.delays_load = !late && self.load.is_none_or(|load| when + took <= load);
        for (name, content) in files.into_iter().zip([&mut one.body, &mut one.response_body]) {
            let Some(name) = name else { continue };
            match body_file::read(self.folder, &name, MAX_KEPT) {
                Ok(bytes) => content.bytes = Some(bytes),
                Err(said) => self.notes.push(format!("{}: synthesised body, since {said}", short(&url))),
            }
        }
        Ok(Some(one))
    }
}

impl Entry {
    /// The files of the request's body and of the response's.
    fn files(&self) -> [Option<String>; 2] {
        let sent = self.request.as_ref().and_then(|request| request.post_data.as_ref()?.file.clone());
        [sent, self.response.as_ref().and_then(|response| response.content.file.clone())]
    }
}

/// In microseconds.
const HOUR: i64 = 3_600_000_000;

fn one(entry: Entry, url: Url, started: Duration) -> Result<Observed, String> {
    let request = entry.request.ok_or("it has no request")?;
    let response = entry.response.ok_or("it has no response")?;
    let status = response.status.filter(|status| (200.0..600.0).contains(status));
    let status = status.ok_or_else(|| match &response.error {
        Some(error) => format!("it has no response ({})", short(error)),
        None => "it has no response".to_owned(),
    })?;
    let timings = &entry.timings;
    let before = [timings.blocked, timings.dns, timings.connect, timings.send, timings.wait];
    let first = started + before.into_iter().map(millis).sum::<Duration>();
    let end = (started + millis(entry.time)).max(first + millis(timings.receive));
    // Requests that share a connection (HTTP/2) do not wait for one another.
    let shared = [&request.http_version, &response.http_version].into_iter().any(|version| {
        let version = version.to_ascii_lowercase();
        ["h2", "h3", "http/2", "http/3", "quic"].iter().any(|shared| version.starts_with(shared))
    });
    let connection = entry.connection.map(|connection| match connection {
        serde_json::Value::String(name) => name,
        other => other.to_string(),
    });
    let bytes = match (response.content.text, response.content.encoding.as_deref()) {
        (None, _) => None,
        (Some(text), None | Some("")) => Some(Bytes::from(text)),
        (Some(text), Some("base64")) => {
            Some(STANDARD.decode(text).map_err(|_| "its content is no base64, as its `encoding` says")?.into())
        }
        (Some(_), Some(other)) => return Err(format!("its content has the unknown encoding `{}`", short(other))),
    };
    let head = bytes_known(response.headers_size);
    let transferred = bytes_known(response.transfer_size).zip(head).map(|(all, head)| all.saturating_sub(head));
    let size = bytes_known(response.body_size).filter(|size| *size > 0).or(transferred);
    let mut response_headers = fields(response.headers);
    if let Some(kind) =
        response.content.mime_type.filter(|_| observed::field(&response_headers, "content-type").is_none())
    {
        response_headers.push(("content-type".to_owned(), kind));
    }
    let fetched = entry.kind.is_some_and(|kind| matches!(kind.as_str(), "fetch" | "xhr"));
    Ok(Observed {
        url,
        method: request.method,
        started,
        first,
        end,
        wait: timings.wait.map(|wait| millis(Some(wait))),
        handshake: timings
            .connect
            .filter(|ms| *ms >= 0.0)
            .map(|ms| millis(Some(ms - timings.ssl.unwrap_or(0.0).max(0.0)))),
        connection: connection.filter(|name| !shared && !name.is_empty()),
        initiators: entry.initiator.map_or_else(Vec::new, |caller| caller.initiators()),
        fetched,
        sent: None,
        priority: observed::priority(entry.priority.as_deref().unwrap_or_default(), fetched),
        delays_load: true,
        head: bytes_known(request.headers_size),
        headers: fields(request.headers),
        body: Content {
            size: bytes_known(request.body_size),
            bytes: request.post_data.and_then(|data| data.text).map(Bytes::from),
            coded: false,
        },
        status: status as u16,
        response_headers,
        response_head: head,
        response_body: Content { size: size.or(bytes_known(response.content.size)), bytes, coded: false },
    })
}

fn fields(fields: Vec<Field>) -> Vec<(String, String)> {
    fields.into_iter().map(|field| (field.name, field.value)).collect()
}

/// A number of bytes; -1 means unknown.
fn bytes_known(number: Option<f64>) -> Option<u64> {
    number.filter(|number| (0.0..1e18).contains(number)).map(|number| number as u64)
}

/// A time in milliseconds; none if invalid or longer than an hour.
fn millis(number: Option<f64>) -> Duration {
    Duration::from_secs_f64(number.filter(|ms| (0.0..3.6e6).contains(ms)).unwrap_or(0.0) / 1e3)
}
