//! A repeat view: what a browser still requests of a page that it loaded a moment ago, and closed.
//!
//! Its cache is private and warm (RFC 9111). A fresh response needs no request (section 4.2). A stale one with a validator is
//! validated: a conditional request, and a 304 without a body (section 4.3). Everything else is loaded again. Browsers may
//! save more, by `stale-while-revalidate` (RFC 5861) or by a cache in memory; this is what the header fields allow every
//! browser.
//!
//! Requests that are not sent are removed from the page. Those that waited for them wait for what these waited for, and for
//! the computation of both.

use std::time::Duration;

use chrono::{DateTime, Utc};
use http::{HeaderMap, HeaderName, Method, StatusCode, header};

use crate::{After, Body, Request, Response, Spec, Until};

/// A response is fresh if it is for longer than this after its first load: the time until the second one.
const PAUSE: Duration = Duration::from_secs(10);

/// The part of the time since the last modification for which a response without an explicit lifetime is fresh (RFC 9111,
/// section 4.2.2).
const HEURISTIC: f64 = 0.1;

/// Statuses of responses that may be stored without an explicit lifetime (RFC 9110, section 15.1).
const HEURISTIC_STATUSES: [u16; 10] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414];

/// The header fields of a 304 (RFC 9110, section 15.4.5), and the padding-free rest that a server repeats.
const OF_NOT_MODIFIED: [HeaderName; 7] = [
    header::CACHE_CONTROL,
    header::CONTENT_LOCATION,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::VARY,
];

/// A page that was loaded a moment ago.
#[derive(Debug, Clone, PartialEq)]
pub struct RepeatView {
    /// The requests that are still sent.
    pub spec: Spec,
    /// The index of each in the page.
    pub origins: Vec<usize>,
}

/// What a warm cache does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    Fresh,
    Validate,
    No,
}

impl Spec {
    /// The requests of a second visit with a warm cache; none if it sends none at all.
    pub fn repeat_view(&self) -> Option<RepeatView> {
        let reuse: Vec<Reuse> = self.requests.iter().map(reuse).collect();
        let origins: Vec<usize> = (0..reuse.len()).filter(|index| reuse[*index] != Reuse::Fresh).collect();
        let mut places = vec![None; reuse.len()];
        for (place, index) in origins.iter().enumerate() {
            places[*index] = Some(place);
        }
        // What each request waits for once the fresh ones are gone, by indices of the page.
        let mut waits: Vec<(Vec<After>, Duration)> = vec![(Vec::new(), Duration::ZERO); reuse.len()];
        for index in self.order().unwrap_or_default() {
            let request = &self.requests[index];
            let (mut after, mut inherited): (Vec<After>, _) = (Vec::new(), Duration::ZERO);
            for wait in &request.after {
                if reuse[wait.request] == Reuse::Fresh {
                    let (theirs, compute) = &waits[wait.request];
                    inherited = inherited.max(*compute);
                    for wait in theirs {
                        add(&mut after, *wait);
                    }
                } else {
                    add(&mut after, *wait);
                }
            }
            waits[index] = (after, inherited + request.compute);
        }
        let mut requests: Vec<Request> = Vec::with_capacity(origins.len());
        for index in &origins {
            let mut request = self.requests[*index].clone();
            if reuse[*index] == Reuse::Validate {
                validate(&mut request);
            }
            (request.after, request.compute) = std::mem::take(&mut waits[*index]);
            request.after.retain_mut(|wait| {
                let place = places[wait.request];
                wait.request = place.unwrap_or_default();
                place.is_some()
            });
            // A fresh script holds nothing back.
            if let Some(hold) = &mut request.hold {
                hold.behind = hold.behind.iter().filter_map(|before| places[*before]).collect();
            }
            request.hold = request.hold.filter(|hold| !hold.behind.is_empty());
            requests.push(request);
        }
        for index in 0..requests.len() {
            let mut after = std::mem::take(&mut requests[index].after);
            for wait in &mut after {
                let size = requests[wait.request].response.size();
                if matches!(wait.until, Until::Head(bytes) if bytes >= size) {
                    wait.until = Until::End;
                }
            }
            requests[index].after = after;
        }
        let spec = Spec { requests, title: format!("{}, again with a warm cache", self.title), ..self.clone() };
        spec.checked().ok().map(|spec| RepeatView { spec, origins })
    }
}

/// Adds a wait; of two for one request, the longer one stays.
fn add(after: &mut Vec<After>, wait: After) {
    match after.iter_mut().find(|known| known.request == wait.request) {
        Some(known) => {
            known.until = match (known.until, wait.until) {
                (Until::Head(one), Until::Head(other)) => Until::Head(one.max(other)),
                _ => Until::End,
            };
        }
        None => after.push(wait),
    }
}

/// Makes a request conditional, and its response a 304.
fn validate(request: &mut Request) {
    for (validator, condition) in
        [(header::ETAG, header::IF_NONE_MATCH), (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE)]
    {
        if let Some(value) = request.response.headers.get(validator) {
            request.head += (condition.as_str().len() + value.len() + ": \r\n".len()) as u32;
            request.headers.insert(condition, value.clone());
        }
    }
    let response = &mut request.response;
    let mut unchanged = Response {
        status: StatusCode::NOT_MODIFIED,
        content_type: None,
        head: 0,
        headers: not_modified(&response.headers),
        body: Body::Kept(bytes::Bytes::new()),
        think: response.think,
    };
    unchanged.head = unchanged.least_head() as u32;
    *response = unchanged;
}

/// The header fields of a 304 in place of a response with these fields.
pub(crate) fn not_modified(fields: &HeaderMap) -> HeaderMap {
    let kept = |name: &HeaderName| OF_NOT_MODIFIED.contains(name);
    fields.iter().filter(|(name, _)| kept(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What a browser does with a request whose response it has, a moment after it got it.
fn reuse(request: &Request) -> Reuse {
    let response = &request.response;
    let fields = &response.headers;
    let directives = directives(fields);
    let has = |name: &str| directives.iter().any(|(known, _)| known == name);
    let varies = fields.get_all(header::VARY).iter().any(|value| value.as_bytes().contains(&b'*'));
    if request.method != Method::GET || has("no-store") || varies || response.status == StatusCode::PARTIAL_CONTENT {
        return Reuse::No;
    }
    let is_stored = lifetime(response, &directives);
    let is_validated =
        has("no-cache") || (directives.is_empty() && field(fields, &header::PRAGMA).contains("no-cache"));
    let has_validator = fields.contains_key(header::ETAG) || fields.contains_key(header::LAST_MODIFIED);
    let age = Duration::from_secs(field(fields, &header::AGE).trim().parse().unwrap_or(0));
    match is_stored {
        Some(lifetime) if !is_validated && lifetime > age.saturating_add(PAUSE) => Reuse::Fresh,
        _ if has_validator && response.status == StatusCode::OK => Reuse::Validate,
        _ => Reuse::No,
    }
}

/// The freshness lifetime (RFC 9111, section 4.2.1), for a private cache.
fn lifetime(response: &Response, directives: &[(String, Option<String>)]) -> Option<Duration> {
    let fields = &response.headers;
    if let Some((_, value)) = directives.iter().find(|(name, _)| name == "max-age") {
        return value.as_ref()?.parse().ok().map(Duration::from_secs);
    }
    let date = date(fields, &header::DATE);
    if fields.contains_key(header::EXPIRES) {
        // An invalid date is in the past.
        let expires = self::date(fields, &header::EXPIRES);
        return Some(expires.zip(date).and_then(|(expires, date)| (expires - date).to_std().ok()).unwrap_or_default());
    }
    let since = date.zip(self::date(fields, &header::LAST_MODIFIED));
    let since = since.and_then(|(date, modified)| (date - modified).to_std().ok());
    since.filter(|_| HEURISTIC_STATUSES.contains(&response.status.as_u16())).map(|since| since.mul_f64(HEURISTIC))
}

/// The directives of `cache-control`, in lower case.
fn directives(fields: &HeaderMap) -> Vec<(String, Option<String>)> {
    let values = fields.get_all(header::CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    let directive = |text: &str| {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        (name.trim().to_ascii_lowercase(), value.map(|value| value.trim().trim_matches('"').to_owned()))
    };
    values.flat_map(|value| value.split(',')).map(directive).filter(|(name, _)| !name.is_empty()).collect()
}

fn field<'a>(fields: &'a HeaderMap, name: &HeaderName) -> &'a str {
    fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A date, as HTTP writes it (RFC 9110, section 5.6.7).
pub(crate) fn date(fields: &HeaderMap, name: &HeaderName) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc2822(field(fields, name)).ok().map(|date| date.with_timezone(&Utc))
}

#[cfg(test)]
mod tests;
