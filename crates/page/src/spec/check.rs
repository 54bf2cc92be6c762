//! Checks a spec file and converts it to a [`Spec`] that can be replayed.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    path::Path,
};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::{
    After, HEAD_BYTES, Hold, MAX_BODY, MAX_HEAD, MAX_KEPT, MAX_REQUESTS, Request, Response, SCHEMA, Spec, Until,
    error::Fault, file, file::File,
};
use crate::{
    body::{Body, seed},
    body_file,
};

pub(super) fn spec(file: File, name: String, beside: &Path) -> Result<Spec, Fault> {
    if file.schema.as_deref() != Some(SCHEMA) {
        return Err(Fault::new(0..0, format!("not a page spec: `schema = \"{SCHEMA}\"` is missing")));
    }
    if file.request.is_empty() || file.request.len() > MAX_REQUESTS {
        let found = file.request.len();
        return Err(Fault::new(0..0, format!("a page has from one to {MAX_REQUESTS} requests, not {found}")));
    }
    let spans: Vec<Range<usize>> = file.request.iter().map(|(span, _)| span.clone()).collect();
    let mut indices = HashMap::new();
    for (index, (span, entry)) in file.request.iter().enumerate() {
        if indices.insert(entry.id.clone(), index).is_some() {
            return Err(Fault::new(span.clone(), format!("duplicate id `{}`; give each request its own", entry.id)));
        }
    }
    let mut kept = Kept { beside, left: MAX_KEPT };
    let mut requests = Vec::with_capacity(spans.len());
    let (mut waits, mut holds) = (Vec::with_capacity(spans.len()), Vec::with_capacity(spans.len()));
    for (span, mut entry) in file.request {
        waits.push(std::mem::take(&mut entry.after));
        holds.push(entry.hold.take());
        let id = entry.id.clone();
        let request = request(entry, &mut kept);
        requests.push(request.map_err(|said| Fault::new(span, format!("request `{id}`: {said}")))?);
    }
    for (index, waits) in waits.into_iter().enumerate() {
        let said = |said: String| Fault::new(spans[index].clone(), format!("request `{}` {said}", requests[index].id));
        let after: Result<_, _> = waits.into_iter().map(|wait| after(wait, &indices, &requests)).collect();
        requests[index].after = after.map_err(said)?;
    }
    for (index, held) in holds.into_iter().enumerate() {
        let held = held.map(|held| hold(held, index, &indices)).transpose();
        let said = |said| Fault::new(spans[index].clone(), format!("request `{}`: {said}", requests[index].id));
        requests[index].hold = held.map_err(said)?;
    }
    let title = file.title.unwrap_or_else(|| name.clone());
    let recorded_at = file.recorded_at.as_deref().map(time).transpose();
    let recorded_at = recorded_at.map_err(|said| Fault::new(0..0, said))?;
    let compute = file.compute.unwrap_or_default().0;
    let spec = Spec { name, title, source: file.source, recorded_at, compute, requests };
    match circle(&spec) {
        Some((index, said)) => Err(Fault::new(spans[index].clone(), said)),
        None => Ok(spec),
    }
}

/// Checks a spec that was not read from a file, and enlarges heads that are too small for their fields.
pub(super) fn made(mut spec: Spec) -> Result<Spec, String> {
    if spec.requests.is_empty() || spec.requests.len() > MAX_REQUESTS {
        return Err(format!("a page has from one to {MAX_REQUESTS} requests, not {}", spec.requests.len()));
    }
    let mut ids = HashSet::new();
    for request in &mut spec.requests {
        if !ids.insert(request.id.clone()) {
            return Err(format!("duplicate id `{}`", short(&request.id)));
        }
        let fit = |wanted: u32, least: usize| wanted.max(u32::try_from(least).unwrap_or(u32::MAX));
        request.head = fit(request.head, request.least_head());
        request.response.head = fit(request.response.head, request.response.least_head());
    }
    match circle(&spec) {
        Some((_, said)) => Err(said),
        None => Ok(spec),
    }
}

/// The error for a cycle of requests.
fn circle(spec: &Spec) -> Option<(usize, String)> {
    let circle = spec.order().err()?;
    let names: Vec<String> = circle.iter().map(|index| format!("`{}`", spec.requests[*index].id)).collect();
    let said = match names.as_slice() {
        [one] => format!("request {one} waits for itself; remove the dependency"),
        [one, others @ ..] => format!(
            "request {one} waits for itself, through {}; remove a dependency, or change a connection",
            others.join(", ")
        ),
        [] => return None,
    };
    Some((circle[0], said))
}

/// A time to the millisecond, as in RFC 3339.
fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let time = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis());
    time.and_then(DateTime::from_timestamp_millis)
        .ok_or_else(|| format!("`recorded_at`: `{}` is not a time like 2026-11-25T22:30:00Z", short(text)))
}

fn request(entry: file::Request, kept: &mut Kept) -> Result<Request, String> {
    if entry.id.is_empty() || entry.id.len() > 1000 || entry.id.contains(char::is_control) {
        return Err("an id has from 1 to 1000 characters, and no control characters".to_owned());
    }
    let method = entry.method.as_deref().unwrap_or("GET");
    let method = Method::from_bytes(method.as_bytes()).ok().filter(|method| *method != Method::CONNECT);
    let seed = seed(&entry.id);
    let mut request = Request {
        method: method.ok_or("invalid `method`; write one like `GET`")?,
        secure: entry.scheme == file::Scheme::Https,
        path: path(&entry.path)?,
        connection: entry.connection,
        head: 0,
        headers: headers(&entry.headers, &[header::HOST])?,
        body: kept.body("the request", entry.body, entry.text, entry.file, seed)?,
        after: Vec::new(),
        compute: entry.compute.unwrap_or_default().0,
        hold: None,
        delays_load: entry.delays_load.unwrap_or(true),
        response: response(entry.response, kept, seed)?,
        host: host(&entry.host)?,
        id: entry.id,
    };
    let answers_head = request.method == Method::HEAD || matches!(request.response.status.as_u16(), 204 | 304);
    if answers_head && !request.response.body.is_empty() {
        let status = request.response.status.as_u16();
        return Err(format!("the response to {} with status {status} cannot have a body; remove it", request.method));
    }
    request.head = head("the request", entry.head, request.least_head())?;
    Ok(request)
}

fn response(entry: file::Response, kept: &mut Kept, seed: u64) -> Result<Response, String> {
    let status = entry.status.unwrap_or(200);
    let status = StatusCode::from_u16(status).ok().filter(|_| (200..600).contains(&status));
    let type_fits = entry.content_type.as_deref().is_none_or(|kind| HeaderValue::from_str(kind).is_ok());
    let mut response = Response {
        status: status.ok_or("invalid `status`; write one from 200 to 599")?,
        content_type: entry.content_type.filter(|_| type_fits),
        head: 0,
        headers: headers(&entry.headers, &[header::CONTENT_TYPE])?,
        body: kept.body("the response", entry.body, entry.text, entry.file, !seed)?,
        think: entry.think.unwrap_or_default().0,
    };
    if !type_fits {
        return Err("`type` is not a valid content-type".to_owned());
    }
    response.head = head("the response", entry.head, response.least_head())?;
    Ok(response)
}

fn head(whose: &str, wanted: Option<file::Bytes>, least: usize) -> Result<u32, String> {
    let size = wanted.map_or(least as u64, file::Bytes::get);
    if size < least as u64 {
        return Err(format!("the head of {whose} has {size} bytes, but its fields need {least}"));
    }
    u32::try_from(size)
        .ok()
        .filter(|size| *size <= MAX_HEAD)
        .ok_or_else(|| format!("the head of {whose} has {size} bytes; the maximum is {MAX_HEAD}"))
}

pub(crate) fn path(path: &str) -> Result<String, String> {
    let fits = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if fits && path.parse::<http::Uri>().is_ok() {
        return Ok(path.to_owned());
    }
    Err(format!("`{}` is not a path: it must begin with `/`, and be percent-encoded ASCII", short(path)))
}

/// A host as in RFC 3986, section 3.2.2, with an optional port.
pub(crate) fn host(host: &str) -> Result<String, String> {
    let authority = host.parse::<http::uri::Authority>().ok().filter(|authority| {
        !host.contains('@') && {
            let name = authority.host();
            let literal = name.starts_with('[');
            let label = |label: &str| {
                !label.is_empty()
                    && label.len() <= 63
                    && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            };
            name.len() <= 253
                && (literal || name.split('.').all(label))
                && (authority.as_str().len() == name.len() || authority.port_u16().is_some_and(|port| port > 0))
        }
    });
    authority.map(|_| host.to_ascii_lowercase()).ok_or_else(|| format!("`{}` is not a host", short(host)))
}

/// Fields that the replay sets itself: RFC 9110, section 7.6.1, and those that follow from sizes.
pub(crate) fn is_ours(name: &HeaderName) -> bool {
    use header::{CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
    [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "x-pad")
}

fn headers(lines: &[String], elsewhere: &[HeaderName]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let parsed = line.split_once(':').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            Some((name, HeaderValue::from_str(value.trim()).ok()?))
        });
        let (name, value) =
            parsed.ok_or_else(|| format!("`{}` is not a header field; write it like `name: value`", short(line)))?;
        if is_ours(&name) || elsewhere.contains(&name) {
            return Err(format!("`{name}` is not allowed in `headers`: it follows from the rest"));
        }
        headers.try_append(name, value).map_err(|_| "too many header fields")?;
    }
    Ok(headers)
}

fn after(wait: file::After, indices: &HashMap<String, usize>, requests: &[Request]) -> Result<After, String> {
    let (name, head) = match (wait.head, wait.end) {
        (Some(name), None) => (name, true),
        (None, Some(name)) if wait.bytes.is_none() => (name, false),
        _ => {
            return Err("has an unclear dependency; write { head = \"id\", bytes = 4000 } or { end = \"id\" }".into());
        }
    };
    let request = *indices.get(&name).ok_or_else(|| format!("is after `{}`, which does not exist", short(&name)))?;
    let until = if head {
        let size = requests[request].response.size();
        let bytes = wait.bytes.map_or(HEAD_BYTES, file::Bytes::get);
        if bytes == 0 || bytes > size {
            return Err(format!(
                "waits for {bytes} bytes of `{name}`, whose response has {size}; write `end` to wait for all of it"
            ));
        }
        Until::Head(bytes)
    } else {
        Until::End
    };
    Ok(After { request, until })
}

fn hold(held: file::Hold, index: usize, indices: &HashMap<String, usize>) -> Result<Hold, String> {
    let find = |name: &String| match indices.get(name) {
        Some(other) if *other != index => Ok(*other),
        Some(_) => Err("is held back by itself".to_owned()),
        None => Err(format!("is held back by `{}`, which does not exist", short(name))),
    };
    let behind = held.behind.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    if behind.is_empty() {
        return Err("is held back by nothing; name requests in `behind`, or remove `hold`".to_owned());
    }
    Ok(Hold { priority: held.priority.into(), behind, compute: held.compute.unwrap_or_default().0 })
}

/// The kept bodies, from files below the spec's folder, with a limit on their total size.
struct Kept<'a> {
    beside: &'a Path,
    left: u64,
}

impl Kept<'_> {
    fn body(
        &mut self,
        whose: &str,
        size: Option<file::Bytes>,
        text: Option<String>,
        file: Option<String>,
        seed: u64,
    ) -> Result<Body, String> {
        let size = size.map(file::Bytes::get);
        let kept: Bytes = match (text, file) {
            (Some(_), Some(_)) => return Err(format!("{whose} has a `text` and a `file`; remove one")),
            (Some(text), None) => text.into(),
            (None, Some(name)) => self.file(&name).map_err(|said| format!("{whose}: {said}"))?,
            (None, None) => {
                let len = size.unwrap_or(0);
                if len > MAX_BODY {
                    return Err(format!("the body of {whose} has {len} bytes; the maximum is {MAX_BODY}"));
                }
                return Ok(Body::Synthetic { len, seed });
            }
        };
        match size {
            Some(size) if size != kept.len() as u64 => {
                Err(format!("{whose} has `body = {size}`, but its content has {} bytes; remove `body`", kept.len()))
            }
            _ => Ok(Body::Kept(kept)),
        }
    }

    fn file(&mut self, name: &str) -> Result<Bytes, String> {
        let bytes = body_file::read(self.beside, name, self.left)?;
        self.left -= bytes.len() as u64;
        Ok(bytes)
    }
}

/// A text, shortened to fit into a sentence.
fn short(text: &str) -> String {
    let cut = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
    if cut < text.len() { format!("{}…", &text[..cut]) } else { text.to_owned() }
}
