//! Observed requests of a page load, and their conversion to a spec.
//!
//! A recorder observes requests, their times, and perhaps their initiators. A spec needs what each request *waited for*,
//! which `dependencies` infers.
//!
//! Cookies and credentials are not kept; padding replaces them in the heads.

mod blocking;
mod dependencies;
mod stable;
mod think;

use std::{collections::HashMap, path::Path, time::Duration};

use ::bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use url::Url;

use self::dependencies::Past;
pub(crate) use self::dependencies::rounded;
pub use self::stable::stable;
use super::{ImportError, Imported, mistake, short};
use crate::{
    Body, Priority, Request, Response, Spec,
    body::seed,
    spec::{MAX_BODY, MAX_HEAD, MAX_KEPT, MAX_REQUESTS, checked_host, checked_path, is_ours, is_script},
};

/// An observed request with its response. Times count from an origin that all requests share.
// One field for each thing that a recorder reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Its URL.
    pub url: Url,
    /// The method.
    pub method: String,
    /// When the client wanted it.
    pub started: Duration,
    /// When the first byte of the response arrived.
    pub first: Duration,
    /// When the last byte had arrived.
    pub end: Duration,
    /// The time from the request's last byte to the response's first one, if known: a round trip and the think time.
    pub wait: Option<Duration>,
    /// The time of its connection's TCP handshake, if it is known and the request was the first: a round trip.
    pub handshake: Option<Duration>,
    /// Its connection, if that has one request at a time (HTTP/1.1).
    pub connection: Option<String>,
    /// What caused it, the nearest first.
    pub initiators: Vec<Initiator>,
    /// Whether a script requested it as data (`fetch`, `XMLHttpRequest`), and was notified of its end.
    pub fetched: bool,
    /// When the browser turned to the network for it, if that is known: after it was held back, and after the lookup of its
    /// host's address.
    pub sent: Option<Duration>,
    /// How important it was, if a document's `<head>` may have held it back.
    pub priority: Option<Priority>,
    /// Whether the `load` event waited for it.
    pub delays_load: bool,
    /// The header fields of the request.
    pub headers: Vec<(String, String)>,
    /// The size of the request's head as HTTP/1.1, if known.
    pub head: Option<u64>,
    /// The request's body.
    pub body: Content,
    /// The response's status.
    pub status: u16,
    /// The header fields of the response.
    pub response_headers: Vec<(String, String)>,
    /// The size of the response's head as HTTP/1.1, if known.
    pub response_head: Option<u64>,
    /// The response's body.
    pub response_body: Content,
}

impl Observed {
    /// When the browser turned to the network for it, so far as is known.
    fn begins(&self) -> Duration {
        self.sent.unwrap_or(self.started)
    }

    /// Whether the response is a script or a document.
    pub(crate) fn is_script(&self) -> bool {
        field(&self.response_headers, "content-type").is_some_and(is_script)
    }

    /// Whether the response is a document.
    pub(crate) fn is_html(&self) -> bool {
        field(&self.response_headers, "content-type").is_some_and(|kind| kind.contains("html"))
    }
}

/// The page, style sheet or script that caused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiator {
    /// Its URL.
    pub url: String,
    /// The line and column of the reference, both counted from 0, if known.
    pub position: Option<(u64, u64)>,
}

/// What is known of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// Its size on the wire, if known.
    pub size: Option<u64>,
    /// Its bytes, if known.
    pub bytes: Option<Bytes>,
    /// Whether the bytes are still in the message's content coding, as on the wire.
    pub coded: bool,
}

/// Header fields that are not kept: secrets, and those that would redirect a replay's browser.
const DROPPED: [&str; 10] = [
    "cookie",
    "set-cookie",
    "authorization",
    "proxy-authorization",
    "authentication-info",
    "alt-svc",
    "strict-transport-security",
    "nel",
    "report-to",
    "reporting-endpoints",
];

/// A priority by Chromium's name for it; none if it is never held back, like data that scripts request.
pub(crate) fn priority(name: &str, is_data: bool) -> Option<Priority> {
    match name {
        _ if is_data => None,
        "Medium" => Some(Priority::Medium),
        "Low" | "VeryLow" => Some(Priority::Low),
        _ => None,
    }
}

/// Converts observed requests to a spec; `path` names it.
pub fn spec(mut seen: Vec<Observed>, title: String, source: String, path: &Path) -> Result<Imported, ImportError> {
    let Converted { requests, notes, .. } = convert(&mut seen, false);
    checked(requests, notes, title, source, path)
}

/// Requests of a spec, and those that they were converted from.
struct Converted {
    requests: Vec<Request>,
    /// The index of each request among the observed ones.
    origins: Vec<usize>,
    notes: Vec<String>,
}

/// Checks the requests of a spec.
fn checked(
    requests: Vec<Request>,
    notes: Vec<String>,
    title: String,
    source: String,
    path: &Path,
) -> Result<Imported, ImportError> {
    if requests.is_empty() {
        let why = notes.first().map_or(String::new(), |note| format!("; {note}"));
        return Err(mistake(path, format!("there is no request in it that could be replayed{why}")));
    }
    let spec = Spec {
        name: super::name(path),
        title,
        source: Some(source),
        recorded_at: None,
        compute: Duration::ZERO,
        requests,
    };
    let spec = spec.checked().map_err(|said| mistake(path, said))?;
    Ok(Imported { spec, notes })
}

/// Converts observed requests, in the order of their beginnings; of one recording, or of one of several.
fn convert(seen: &mut Vec<Observed>, is_one_of_several: bool) -> Converted {
    let mut notes = Vec::new();
    seen.sort_by_key(|seen| seen.started);
    if seen.len() > MAX_REQUESTS {
        notes.push(format!(
            "the last {} requests are omitted: a page has at most {MAX_REQUESTS}",
            seen.len() - MAX_REQUESTS
        ));
        seen.truncate(MAX_REQUESTS);
    }
    let mut kept = MAX_KEPT;
    let mut requests: Vec<Request> = Vec::with_capacity(seen.len());
    let mut origins = Vec::with_capacity(seen.len());
    let mut past = Past::new(is_one_of_several);
    let (mut ids, mut connections) = (HashMap::new(), HashMap::new());
    let round_trips = think::round_trips(&seen.iter().collect::<Vec<_>>());
    for (index, one) in seen.iter().enumerate() {
        match request(one, id(&one.url, &mut ids), &mut kept) {
            Ok(mut request) => {
                let next = connections.len() as u32;
                request.connection = one.connection.as_deref().map(|name| *connections.entry(name).or_insert(next));
                (request.after, request.compute) = past.waits(one, &requests);
                request.response.think = think::time(one, &round_trips);
                past.add(one);
                requests.push(request);
                origins.push(index);
            }
            Err(said) => notes.push(format!("{}: omitted, since {said}", short(one.url.as_str()))),
        }
    }
    for (request, hold) in requests.iter_mut().zip(past.holds()) {
        request.hold = hold;
    }
    Converted { requests, origins, notes }
}

/// A short id: the last part of the path, with a number if it is not the first of its name.
fn id(url: &Url, counts: &mut HashMap<String, u32>) -> String {
    let last = url.path_segments().and_then(|mut parts| parts.rfind(|part| !part.is_empty()));
    let base: String = last.or(url.host_str()).unwrap_or("request").chars().take(60).collect();
    let count = counts.entry(base.clone()).or_insert(0);
    *count += 1;
    if *count == 1 { base } else { format!("{base} #{count}") }
}

pub(crate) fn field<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The request without its dependencies.
fn request(one: &Observed, id: String, kept: &mut u64) -> Result<Request, String> {
    let secure = match one.url.scheme() {
        "http" => false,
        "https" => true,
        other => return Err(format!("the replay has no {other}")),
    };
    let name = one.url.host_str().unwrap_or_default();
    let host = one.url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
    let mut path = one.url.path().to_owned();
    if let Some(query) = one.url.query() {
        path = format!("{path}?{query}");
    }
    let status = StatusCode::from_u16(one.status).ok().filter(|_| (200..600).contains(&one.status));
    let status = status.ok_or("it has no response")?;
    let method = Method::from_bytes(one.method.as_bytes()).ok().filter(|method| *method != Method::CONNECT);
    let method = method.ok_or_else(|| format!("`{}` is no method", short(&one.method)))?;
    let is_bodiless = method == Method::HEAD || matches!(one.status, 204 | 304);
    let response = response(one, status, is_bodiless, !seed(&id), kept)?;
    let body = match &one.body {
        Content { bytes: Some(bytes), .. } if bytes.len() as u64 <= *kept => {
            *kept -= bytes.len() as u64;
            Body::Kept(bytes.clone())
        }
        Content { size: None, bytes: None, .. } => Body::Synthetic { len: 0, seed: seed(&id) },
        content => Body::Synthetic { len: known_size(content, "request")?, seed: seed(&id) },
    };
    let line = format!("{method} {path} HTTP/1.1\r\nhost: {host}");
    Ok(Request {
        method,
        secure,
        host: checked_host(&host)?,
        path: checked_path(&path)?,
        connection: None,
        head: head(one.head, &one.headers, &line),
        headers: fields(&one.headers, &[header::HOST]),
        body,
        after: Vec::new(),
        compute: Duration::ZERO,
        hold: None,
        delays_load: one.delays_load,
        response,
        id,
    })
}

/// The response; its body is kept if there is still room for it.
fn response(
    one: &Observed,
    status: StatusCode,
    is_bodiless: bool,
    seed: u64,
    kept: &mut u64,
) -> Result<Response, String> {
    let mut headers = fields(&one.response_headers, &[header::CONTENT_TYPE]);
    let coding = headers.remove(header::CONTENT_ENCODING);
    let body = match &one.response_body {
        _ if is_bodiless => Body::Synthetic { len: 0, seed },
        Content { bytes: Some(bytes), coded, .. } if bytes.len() as u64 <= *kept => {
            let coding = coding.filter(|coding| coding != "identity");
            let again = coding.is_some() && !coded;
            let coding = if again { Some(HeaderValue::from_static("gzip")) } else { coding };
            if let Some(coding) = coding {
                headers.insert(header::CONTENT_ENCODING, coding);
            }
            let bytes = if again { compressed(bytes) } else { bytes.clone() };
            *kept = kept.saturating_sub(bytes.len() as u64);
            Body::Kept(bytes)
        }
        content => Body::Synthetic { len: known_size(content, "response")?, seed },
    };
    let content_type = field(&one.response_headers, "content-type");
    Ok(Response {
        status,
        content_type: content_type.filter(|kind| HeaderValue::from_str(kind).is_ok()).map(str::to_owned),
        head: head(one.response_head, &one.response_headers, "HTTP/1.1 200 OK"),
        headers,
        body,
        think: Duration::ZERO,
    })
}

fn known_size(content: &Content, whose: &str) -> Result<u64, String> {
    match content.size.or(content.bytes.as_ref().map(|bytes| bytes.len() as u64)) {
        None => Err(format!("the size of its {whose}'s body is not known")),
        Some(size) if size > MAX_BODY => {
            Err(format!("its {whose}'s body has {size} bytes, and {MAX_BODY} is the most"))
        }
        Some(size) => Ok(size),
    }
}

/// The size of a head: as recorded, or else that of its fields.
fn head(recorded: Option<u64>, fields: &[(String, String)], line: &str) -> u32 {
    let host = fields.iter().filter(|(name, _)| !name.starts_with(':') && !name.eq_ignore_ascii_case("host"));
    let listed = line.len() + 4 + host.map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
    let size = recorded.filter(|size| *size > 0).unwrap_or(listed as u64);
    u32::try_from(size).unwrap_or(u32::MAX).min(MAX_HEAD)
}

/// The valid fields that are kept.
fn fields(all: &[(String, String)], elsewhere: &[HeaderName]) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in all {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        if is_ours(&name) || elsewhere.contains(&name) || DROPPED.contains(&name.as_str()) {
            continue;
        }
        // Browsers join fields of the same name with line ends.
        for value in value.split('\n') {
            // A spec stores values as text, and limits their size.
            let Some(value) = HeaderValue::from_str(value.trim()).ok().filter(|value| value.len() < 16 << 10) else {
                continue;
            };
            let _ = kept.try_append(name.clone(), value);
        }
    }
    kept
}

/// Compresses a decoded body again, perhaps with another method, so that it has about its original size.
fn compressed(bytes: &Bytes) -> Bytes {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    match encoder.write_all(bytes).and_then(|()| encoder.finish()) {
        Ok(compressed) => compressed.into(),
        // Writing to memory does not fail.
        Err(_) => bytes.clone(),
    }
}

#[cfg(test)]
mod tests;
