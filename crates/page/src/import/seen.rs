//! What somebody has seen of a page load, and what is concluded from it.
//!
//! A recorder sees requests, their times, and perhaps who caused each. What a spec needs is what each *waited for*:
//!
//! - A redirect is waited for to its end, whatever else is said.
//! - Else the cause is the initiator that the recorder names. Without one it is the page that `referer` names, and
//!   without that the load's first response, if it had begun by then.
//! - An HTML page is read as it comes, so what it asks for waits for the *head* of it, as far as the place of the
//!   reference, where that is known, and as far as had come by then, where it is not. A script or a style sheet works
//!   only once it is whole. If more had to come than had come, the recorder's clock is wrong; it is believed that the
//!   request had begun.
//! - What a script asks for after it got data that it had asked for, it asks for because of them: it waits for both. So
//!   does what begins right after data came and has no initiator: an image that a script shows has none.
//! - What then passed before the request began was spent on computing, or on waiting for a connection. Requests that
//!   were held back by a connection of HTTP/1.1 cannot be told from those that computed; so nothing is counted for a
//!   request on a connection that was busy until then.
//!
//! Cookies and credentials are not kept; the filling of the heads takes their place.

use std::{collections::HashMap, path::Path, time::Duration};

use ::bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use url::Url;

use super::{ImportError, Imported, mistake, short};
use crate::{
    After, Body, Request, Response, Spec, Until,
    body::seed,
    spec::{MAX_BODY, MAX_HEAD, MAX_KEPT, MAX_REQUESTS, checked_host, checked_path, is_ours},
};

/// A request with its response, as somebody has seen it. Times count from any begin that all requests share.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Where it was sent to.
    pub url: Url,
    /// The method.
    pub method: String,
    /// When it began: when the client wanted it.
    pub started: Duration,
    /// When the first byte of the response came.
    pub first: Duration,
    /// When the last byte had come.
    pub end: Duration,
    /// The connection it went over, where requests follow one another on it (HTTP/1.1).
    pub connection: Option<String>,
    /// Who caused it, the nearest first.
    pub initiators: Vec<Initiator>,
    /// Whether a script asked for it as data (`fetch`, `XMLHttpRequest`), and so was told when it had come.
    pub fetched: bool,
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

/// Who caused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiator {
    /// The address of the page, style sheet or script.
    pub url: String,
    /// The line and the column that ask for it, both counted from 0, if known.
    pub place: Option<(u64, u64)>,
}

/// What is known of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// Its size on the wire, if known.
    pub size: Option<u64>,
    /// Its bytes, if known.
    pub bytes: Option<Bytes>,
    /// Whether the bytes are as they were on the wire, in the message's content coding; else they are decoded.
    pub coded: bool,
}

/// Header fields that are not kept: whose they are, and what would lead a replay's browser astray.
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

/// Makes a spec of what was seen; `path` names it.
pub fn spec(mut seen: Vec<Seen>, title: String, source: String, path: &Path) -> Result<Imported, ImportError> {
    let mut notes = Vec::new();
    seen.sort_by_key(|seen| seen.started);
    if seen.len() > MAX_REQUESTS {
        notes.push(format!(
            "the last {} requests are left out: a page has {MAX_REQUESTS} at most",
            seen.len() - MAX_REQUESTS
        ));
        seen.truncate(MAX_REQUESTS);
    }
    let mut kept = MAX_KEPT;
    let mut requests: Vec<Request> = Vec::with_capacity(seen.len());
    let mut of: Vec<&Seen> = Vec::with_capacity(seen.len());
    let mut connections = Connections::default();
    let mut known = Known::default();
    for one in &seen {
        let id = known.id(&one.url);
        match request(one, id, &mut kept) {
            Ok(mut request) => {
                request.connection = one.connection.as_deref().map(|name| connections.number(name));
                (request.after, request.compute) = waits(one, &of, &requests, &known);
                let busy = connections.busy(request.connection, one.end);
                if busy.is_some_and(|until| until + NEAR >= one.started) {
                    request.compute = Duration::ZERO;
                }
                known.add(one, requests.len());
                requests.push(request);
                of.push(one);
            }
            Err(said) => notes.push(format!("{} is left out: {said}", short(one.url.as_str()))),
        }
    }
    if requests.is_empty() {
        let why = notes.first().map_or(String::new(), |note| format!("; {note}"));
        return Err(mistake(path, format!("there is no request in it that could be replayed{why}")));
    }
    let spec = Spec { name: super::name(path), title, source: Some(source), requests };
    let spec = spec.checked().map_err(|said| mistake(path, said))?;
    Ok(Imported { spec, notes })
}

/// A request that follows the end of another on its connection by less did wait for it.
const NEAR: Duration = Duration::from_millis(2);

/// What begins no later than this after data came begins because of them, if nothing else is known.
const SOON: Duration = Duration::from_millis(50);

/// Data that were asked for before so many others are not looked at.
const RECENT: usize = 100;

/// The numbers of connections, in the order of their first requests, and until when each was busy.
#[derive(Default)]
struct Connections {
    numbers: HashMap<String, u32>,
    ends: HashMap<u32, Duration>,
}

impl Connections {
    fn number(&mut self, name: &str) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }

    /// Until when it was busy; and now it is until `end`.
    fn busy(&mut self, number: Option<u32>, end: Duration) -> Option<Duration> {
        number.and_then(|number| self.ends.insert(number, end))
    }
}

/// Addresses seen so far.
#[derive(Default)]
struct Known {
    /// How often an id was wanted.
    ids: HashMap<String, u32>,
    /// The latest request for an address, without its fragment.
    places: HashMap<String, usize>,
    /// The latest request that was redirected to an address.
    redirects: HashMap<String, usize>,
}

impl Known {
    /// A name that is short and tells what it is: the last part of the path, numbered where it is not the first one.
    fn id(&mut self, url: &Url) -> String {
        let last = url.path_segments().and_then(|mut parts| parts.rfind(|part| !part.is_empty()));
        let base: String = last.or(url.host_str()).unwrap_or("request").chars().take(60).collect();
        let count = self.ids.entry(base.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { base } else { format!("{base} #{count}") }
    }

    fn add(&mut self, one: &Seen, place: usize) {
        self.places.insert(bare(&one.url), place);
        let to = field(&one.response_headers, "location").filter(|_| (300..400).contains(&one.status));
        if let Some(to) = to.and_then(|to| one.url.join(to).ok()) {
            self.redirects.insert(bare(&to), place);
        }
    }

    fn find(&self, url: &str) -> Option<usize> {
        let url = Url::parse(url).ok()?;
        self.places.get(&bare(&url)).copied()
    }
}

fn bare(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}

/// What a request waited for, and what then passed before it began.
fn waits(one: &Seen, of: &[&Seen], requests: &[Request], known: &Known) -> (Vec<After>, Duration) {
    let redirect = known.redirects.get(&bare(&one.url)).copied();
    if let Some(redirect) = redirect.filter(|before| of[*before].end <= one.started + NEAR) {
        return (vec![After { request: redirect, until: Until::End }], Duration::ZERO);
    }
    let named = one.initiators.iter().find_map(|by| Some((known.find(&by.url)?, by.place)));
    let referer = || field(&one.headers, "referer").and_then(|url| known.find(url)).map(|place| (place, None));
    let begun = || of.first().filter(|first| first.first <= one.started).map(|_| (0, None));
    let Some((cause, place)) = named.or_else(referer).or_else(begun) else { return (Vec::new(), Duration::ZERO) };
    let (before, response) = (of[cause], &requests[cause].response);
    let is_page = response.content_type.as_deref().is_some_and(|kind| kind.contains("html"));
    let had_all = before.end <= one.started;
    let until = match (place, &before.response_body.bytes) {
        (Some(place), Some(bytes)) if is_page && !before.response_body.coded => {
            let share = offset(bytes, place) as f64 / bytes.len().max(1) as f64;
            part(response, share)
        }
        _ if is_page && !had_all => {
            let took = before.end.saturating_sub(before.first).as_secs_f64();
            let share = one.started.saturating_sub(before.first).as_secs_f64() / took.max(1e-9);
            part(response, share)
        }
        _ => Until::End,
    };
    let come = match until {
        Until::End => before.end,
        Until::Head(bytes) => {
            let share = bytes as f64 / response.size().max(1) as f64;
            before.first + before.end.saturating_sub(before.first).mul_f64(share.clamp(0.0, 1.0))
        }
    };
    let mut after = vec![After { request: cause, until }];
    let data = of.iter().enumerate().rev().filter(|(_, data)| data.fetched).take(RECENT);
    let data = data.filter(|(_, data)| {
        let caused = if named.is_some() { shares(data, one) } else { one.started <= data.end + SOON };
        data.end > come && data.end <= one.started && caused
    });
    let data = data.max_by_key(|(_, data)| data.end);
    after.extend(data.map(|(place, _)| After { request: place, until: Until::End }));
    let come = data.map_or(come, |(_, data)| data.end);
    (after, rounded(one.started.saturating_sub(come)))
}

/// Whether a script that asked for the data asked for the other as well.
fn shares(data: &Seen, one: &Seen) -> bool {
    let asks = |seen: &Seen, url: &str| seen.initiators.iter().any(|by| by.place.is_none() && by.url == url);
    data.initiators.iter().any(|by| asks(data, &by.url) && asks(one, &by.url))
}

/// So much of the body, and the head.
fn part(response: &Response, share: f64) -> Until {
    let body = (response.body.len() as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
    let bytes = u64::from(response.head) + body;
    if bytes >= response.size() { Until::End } else { Until::Head(bytes.max(1)) }
}

/// The byte behind this place. Browsers name the end of the tag that asks.
fn offset(bytes: &[u8], (line, column): (u64, u64)) -> usize {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let skipped = usize::try_from(line).unwrap_or(usize::MAX);
    let start: usize = lines.by_ref().take(skipped).map(<[u8]>::len).sum();
    // Columns count UTF-16 units: there are at least as many bytes.
    start + usize::try_from(column).unwrap_or(usize::MAX).min(lines.next().map_or(0, <[u8]>::len))
}

/// A tenth of a millisecond is as much as anybody can know.
fn rounded(time: Duration) -> Duration {
    Duration::from_micros((time.as_secs_f64() * 1e4).round() as u64 * 100)
}

pub(crate) fn field<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// The request without its waits.
fn request(one: &Seen, id: String, kept: &mut u64) -> Result<Request, String> {
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
    let bodiless = method == Method::HEAD || matches!(one.status, 204 | 304);
    let mut response_headers = fields(&one.response_headers, &[header::CONTENT_TYPE]);
    let coding = response_headers.remove(header::CONTENT_ENCODING);
    let response_seed = !seed(&id);
    let body = match &one.response_body {
        _ if bodiless => Body::Synthetic { len: 0, seed: response_seed },
        Content { bytes: Some(bytes), coded, .. } if bytes.len() as u64 <= *kept => {
            let coding = coding.filter(|coding| coding != "identity");
            let again = coding.is_some() && !coded;
            let coding = if again { Some(HeaderValue::from_static("gzip")) } else { coding };
            if let Some(coding) = coding {
                response_headers.insert(header::CONTENT_ENCODING, coding);
            }
            let bytes = if again { compressed(bytes) } else { bytes.clone() };
            *kept = kept.saturating_sub(bytes.len() as u64);
            Body::Kept(bytes)
        }
        content => Body::Synthetic { len: known_size(content, "response")?, seed: response_seed },
    };
    let content_type = field(&one.response_headers, "content-type");
    let response = Response {
        status,
        content_type: content_type.filter(|kind| HeaderValue::from_str(kind).is_ok()).map(str::to_owned),
        head: head(one.response_head, &one.response_headers, "HTTP/1.1 200 OK"),
        headers: response_headers,
        body,
    };
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
        response,
        id,
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

/// The size of a head: as it was recorded, else what its fields take.
fn head(recorded: Option<u64>, fields: &[(String, String)], line: &str) -> u32 {
    let host = fields.iter().filter(|(name, _)| !name.starts_with(':') && !name.eq_ignore_ascii_case("host"));
    let listed = line.len() + 4 + host.map(|(name, value)| name.len() + value.len() + 4).sum::<usize>();
    let size = recorded.filter(|size| *size > 0).unwrap_or(listed as u64);
    u32::try_from(size).unwrap_or(u32::MAX).min(MAX_HEAD)
}

/// The fields that are kept. What no header can have is not among them.
fn fields(all: &[(String, String)], elsewhere: &[HeaderName]) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for (name, value) in all {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        if is_ours(&name) || elsewhere.contains(&name) || DROPPED.contains(&name.as_str()) {
            continue;
        }
        // Several fields of a name are joined by line ends in what browsers tell.
        for value in value.split('\n') {
            // A value is kept as text, in TOML; and no head may be larger than all fields of a browser together.
            let Some(value) = HeaderValue::from_str(value.trim()).ok().filter(|value| value.len() < 16 << 10) else {
                continue;
            };
            let _ = kept.try_append(name.clone(), value);
        }
    }
    kept
}

/// What came compressed goes compressed, if perhaps with another method: so it has about its size.
fn compressed(bytes: &Bytes) -> Bytes {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    match encoder.write_all(bytes).and_then(|()| encoder.finish()) {
        Ok(compressed) => compressed.into(),
        // Into memory it does not fail.
        Err(_) => bytes.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(path: &str, times: [u64; 3], headers: &[(&str, &str)]) -> Seen {
        let [started, first, end] = times.map(Duration::from_millis);
        let fields = |fields: &[(&str, &str)]| -> Vec<(String, String)> {
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Seen {
            url: Url::parse(&format!("http://a.example{path}")).unwrap(),
            method: "GET".to_owned(),
            started,
            first,
            end,
            connection: None,
            initiators: Vec::new(),
            fetched: false,
            headers: fields(headers),
            head: Some(400),
            body: Content::default(),
            status: 200,
            response_headers: fields(&[("Content-Type", "text/html")]),
            response_head: Some(200),
            response_body: Content { size: Some(10_000), ..Content::default() },
        }
    }

    fn waits(all: Vec<Seen>) -> Vec<(Vec<(usize, Until)>, u64)> {
        let imported = spec(all, "t".into(), "s".into(), Path::new("x.toml")).unwrap();
        assert_eq!(imported.notes, [""; 0]);
        let waits = |request: &Request| request.after.iter().map(|after| (after.request, after.until)).collect();
        let requests = imported.spec.requests.iter();
        requests.map(|request| (waits(request), request.compute.as_millis() as u64)).collect()
    }

    #[test]
    fn a_page_is_waited_for_as_far_as_it_had_come_and_a_script_whole() {
        let by = |mut seen: Seen, url: &str| {
            seen.initiators = vec![Initiator { url: format!("http://a.example{url}"), place: None }];
            seen
        };
        let mut script = seen("/s.js", [150, 250, 260], &[("Referer", "http://a.example/")]);
        script.response_headers[0].1 = "text/javascript".to_owned();
        let data = Seen { fetched: true, ..by(seen("/data", [270, 370, 380], &[]), "/s.js") };
        let shown = seen("/shown", [390, 490, 500], &[]);
        let next = by(seen("/next", [600, 700, 710], &[]), "/s.js");
        let late = seen("/late", [600, 700, 710], &[]);
        let all = waits(vec![seen("/", [0, 100, 200], &[]), script, data, shown, next, late]);
        let end = |request| (request, Until::End);
        assert_eq!(all[0], (vec![], 0));
        assert_eq!(all[1], (vec![(0, Until::Head(5200))], 0), "half of the page had come");
        assert_eq!(all[2], (vec![end(1)], 10));
        assert_eq!(all[3], (vec![end(0), end(2)], 10), "without an initiator, but right after the data");
        assert_eq!(all[4], (vec![end(1), end(2)], 220), "by the script that got the data");
        assert_eq!(all[5], (vec![end(0)], 400), "nothing is known");
    }

    #[test]
    fn a_redirect_is_waited_for_and_a_busy_connection_is_no_computation() {
        let mut away = seen("/", [0, 50, 50], &[]);
        (away.status, away.response_body.size) = (301, Some(0));
        away.response_headers = vec![("Location".into(), "/home#top".into()), ("Set-Cookie".into(), "a=1".into())];
        let on = |mut seen: Seen| {
            seen.connection = Some("7".to_owned());
            seen
        };
        let all = vec![
            away,
            seen("/home", [51, 100, 200], &[]),
            on(seen("/a", [210, 300, 400], &[("referer", "http://a.example/home")])),
            on(seen("/b", [401, 500, 600], &[("referer", "http://a.example/home"), ("cookie", "a=1")])),
        ];
        let all = waits(all);
        assert_eq!(all[1], (vec![(0, Until::End)], 0));
        assert_eq!(all[2], (vec![(1, Until::End)], 10));
        assert_eq!(all[3], (vec![(1, Until::End)], 0), "it waited for /a");
    }

    #[test]
    fn what_cannot_be_replayed_is_left_out_by_name_and_cookies_are_not_kept() {
        let mut unknown = seen("/unknown", [1, 2, 3], &[]);
        unknown.response_body = Content::default();
        let mut none = seen("/none", [1, 2, 3], &[]);
        none.status = 0;
        let huge = Seen {
            response_body: Content { size: Some(u64::MAX), ..Content::default() },
            ..seen("/huge", [1, 2, 3], &[])
        };
        let secret = [("Cookie", "secret"), ("Authorization", "Basic secret"), ("X-Kept", "yes")];
        let all = vec![seen("/", [0, 1, 2], &secret), unknown, none, huge];
        let imported = spec(all, "t".into(), "s".into(), Path::new("x.toml")).unwrap();
        let text = imported.spec.to_toml();
        assert!(!text.contains("secret") && text.contains("x-kept: yes"));
        assert_eq!(imported.spec.requests[0].head, 400, "their place is filled");
        assert_eq!(
            imported.notes,
            [
                "http://a.example/unknown is left out: the size of its response's body is not known",
                "http://a.example/none is left out: it has no response",
                "http://a.example/huge is left out: its response's body has 18446744073709551615 bytes, and 1099511627776 is the most",
            ]
        );
        let error = spec(Vec::new(), "t".into(), "s".into(), Path::new("x.toml")).unwrap_err();
        assert_eq!(error.to_string(), "x.toml: there is no request in it that could be replayed");
    }
}
