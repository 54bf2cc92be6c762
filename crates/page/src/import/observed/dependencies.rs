//! Infers what each request waited for.
//!
//! - A request after a redirect waits for the end of the redirect, always; so does one after its preflight (CORS).
//! - Otherwise it waits for the initiator that the recorder names; without one, for the page in `referer`; without that,
//!   for the load's first response, if that had begun.
//! - A browser parses HTML while it arrives. So a request from HTML waits for the *head* of it, up to the reference if its
//!   position is known, and otherwise up to what had arrived. A script or a style sheet must arrive completely. If less
//!   had arrived than necessary, the recorder's clock is wrong, and the request's start is believed.
//! - A document's scripts and frames also wait for what holds them back there (`blocking`).
//! - A request of a script after the script received data that it had requested waits for both. So does a request without
//!   an initiator that starts right after data arrived, like an image that a script shows.
//! - The remaining time before the request was computation, or waiting for a connection. These cannot be distinguished for
//!   HTTP/1.1, so a request on a connection that was busy until then gets no computation time.

use std::{collections::HashMap, time::Duration};

use url::Url;

use super::{
    Observed,
    blocking::{Kind, Reference},
    field,
};
use crate::{After, Hold, Priority, Request, Response, Until};

/// A request within this time after the end of another one on its connection waited for it.
const NEAR: Duration = Duration::from_millis(2);

/// A request without initiator within this time after data arrived was caused by the data.
const SOON: Duration = Duration::from_millis(50);

/// Only this many of the latest data requests are considered.
const RECENT: usize = 100;

/// The requests before a request.
#[derive(Default)]
pub(super) struct Past<'a> {
    /// Whether the recording is one of several, and only what holds in all of them will be kept.
    is_one_of_several: bool,
    seen: Vec<&'a Observed>,
    /// The latest request for an address, without its fragment.
    places: HashMap<String, usize>,
    /// The latest redirect to an address, or preflight for it, whose request has not come yet.
    redirects: HashMap<String, usize>,
    /// Where the document of each references it, if a document's parser does.
    references: Vec<Option<Reference>>,
    /// Until when each connection was busy.
    busy: HashMap<&'a str, Duration>,
}

impl<'a> Past<'a> {
    pub(super) fn new(is_one_of_several: bool) -> Self {
        Self { is_one_of_several, ..Self::default() }
    }

    pub(super) fn add(&mut self, one: &'a Observed) {
        let place = self.seen.len();
        self.references.push(self.reference(one));
        self.seen.push(one);
        let address = bare(&one.url);
        self.redirects.remove(&address);
        if one.method == "OPTIONS" && field(&one.headers, "access-control-request-method").is_some() {
            self.redirects.insert(address, place);
        } else {
            self.places.insert(address, place);
        }
        let to = field(&one.response_headers, "location").filter(|_| (300..400).contains(&one.status));
        if let Some(to) = to.and_then(|to| one.url.join(to).ok()) {
            self.redirects.insert(bare(&to), place);
        }
        if let Some(name) = &one.connection {
            self.busy.insert(name, one.end);
        }
    }

    fn find(&self, url: &str) -> Option<usize> {
        let url = Url::parse(url).ok()?;
        self.places.get(&bare(&url)).copied()
    }

    /// Where a document references the request.
    fn reference(&self, one: &Observed) -> Option<Reference> {
        let by = one.initiators.first().filter(|by| by.position.is_some())?;
        let document = self.find(&by.url)?;
        let html = self.seen[document];
        let bytes = html.response_body.bytes.as_ref().filter(|_| !html.response_body.coded && html.is_html())?;
        Some(Reference::new(document, bytes, by.position?, &one.url))
    }

    /// The requests that hold a request back whose cause has this reference.
    fn blockers(&self, one: &Observed, cause: Reference) -> impl Iterator<Item = usize> {
        let others = self.references.iter().enumerate().filter_map(|(at, other)| Some((at, (*other)?)));
        // One that had not arrived did not hold it back, whatever the document says.
        let holds = move |other| cause.waits_for(other) || self.is_one_of_several && cause.may_wait_for(other);
        others.filter(move |(at, other)| holds(*other) && self.seen[*at].end <= one.started).map(|(at, _)| at)
    }

    /// What holds each request back that a document references, if it is of less importance: the scripts of its `<head>` that
    /// stop the parser, and the style sheets in front of the last of them, for which that waits.
    pub(super) fn holds(&self) -> Vec<Option<Hold>> {
        let mut heads: HashMap<usize, Vec<(usize, Reference)>> = HashMap::new();
        for (at, reference) in self.references.iter().enumerate() {
            if let Some(reference) = reference.filter(|reference| reference.is_before_body()) {
                heads.entry(reference.document).or_default().push((at, reference));
            }
        }
        for head in heads.values_mut() {
            let scripts = head.iter().filter(|(_, reference)| reference.kind == Kind::Blocking);
            let last = scripts.map(|(_, reference)| reference.offset).max();
            head.retain(|(_, reference)| last.is_some_and(|last| reference.offset <= last));
        }
        let hold = |(at, reference): (usize, &Option<Reference>)| {
            let head = heads.get(&reference.as_ref()?.document)?;
            let behind: Vec<usize> = head.iter().map(|(at, _)| *at).collect();
            let priority = self.seen[at].priority.filter(|_| !behind.is_empty() && !behind.contains(&at))?;
            Some(Hold { priority, behind, compute: Duration::ZERO })
        };
        let mut holds: Vec<Option<Hold>> = self.references.iter().enumerate().map(hold).collect();
        let computes = computes_of(&holds, |at| Some(self.seen[at]));
        for hold in holds.iter_mut().flatten() {
            hold.compute = computes.get(&hold.behind).copied().unwrap_or_default();
        }
        holds
    }

    /// A request's dependencies, and the computation time after them; `requests` are the converted earlier ones.
    pub(super) fn waits(&self, one: &Observed, requests: &[Request]) -> (Vec<After>, Duration) {
        let of = &self.seen;
        let redirect = self.redirects.get(&bare(&one.url)).copied();
        if let Some(redirect) = redirect.filter(|before| of[*before].end <= one.started + NEAR) {
            return (vec![After { request: redirect, until: Until::End }], Duration::ZERO);
        }
        let named = one.initiators.iter().find_map(|by| Some((self.find(&by.url)?, by.position)));
        let referer = || field(&one.headers, "referer").and_then(|url| self.find(url)).map(|place| (place, None));
        let begun = || of.first().filter(|first| first.first <= one.started).map(|_| (0, None));
        let Some((cause, place)) = named.or_else(referer).or_else(begun) else { return (Vec::new(), Duration::ZERO) };
        let (before, response) = (of[cause], &requests[cause].response);
        let is_page = response.content_type.as_deref().is_some_and(|kind| kind.contains("html"));
        let had_all = before.end <= one.started;
        let reference = self.reference(one);
        let until = match (place, &before.response_body.bytes) {
            (Some(place), Some(bytes)) if is_page && !before.response_body.coded => {
                let own = reference.filter(|own| own.document == cause).map(|own| own.offset);
                let share = own.unwrap_or_else(|| offset(bytes, place)) as f64 / bytes.len().max(1) as f64;
                part(response, share)
            }
            _ if is_page && !had_all => {
                let took = before.end.saturating_sub(before.first).as_secs_f64();
                let share = one.started.saturating_sub(before.first).as_secs_f64() / took.max(1e-9);
                part(response, share)
            }
            _ => Until::End,
        };
        let come = comes(before, response, until);
        let mut after = vec![After { request: cause, until }];
        let own = reference.filter(|own| matches!(own.kind, Kind::Frame | Kind::Styled));
        let holding: Vec<usize> = match own.or(self.references[cause]) {
            Some(reference) if own.is_some() || !is_page => self.blockers(one, reference).collect(),
            _ => Vec::new(),
        };
        let come = holding.iter().map(|at| of[*at].end).fold(come, Duration::max);
        after.extend(holding.into_iter().filter(|at| *at != cause).map(|at| After { request: at, until: Until::End }));
        let data = of.iter().enumerate().rev().filter(|(_, data)| data.fetched).take(RECENT);
        let data = data.filter(|(_, data)| {
            let caused = if named.is_some() { shares(data, one) } else { one.started <= data.end + SOON };
            data.end > come && data.end <= one.started && caused
        });
        let data = data.max_by_key(|(_, data)| data.end);
        after.extend(data.map(|(place, _)| After { request: place, until: Until::End }));
        let come = data.map_or(come, |(_, data)| data.end);
        let begins = if one.priority.is_none() { one.begins() } else { one.started };
        let gap = if self.is_held_back(one) { Duration::ZERO } else { rounded(begins.saturating_sub(come)) };
        (after, gap)
    }

    /// Whether the request's connection was busy until it was sent.
    pub(super) fn is_held_back(&self, one: &Observed) -> bool {
        let busy = one.connection.as_deref().and_then(|name| self.busy.get(name));
        busy.is_some_and(|until| *until + NEAR >= one.started)
    }
}

/// For the requests that hold others back: the time from the end of the last of them until nothing is held back any more,
/// which shows when more requests are under way than the hold allows. If that never happens, the first request that was sent
/// after that end stands for it. `seen`: a request as it was recorded.
pub(super) fn computes_of<'a>(
    holds: &[Option<Hold>],
    seen: impl Fn(usize) -> Option<&'a Observed>,
) -> HashMap<Vec<usize>, Duration> {
    let mut groups: HashMap<&[usize], Vec<(Priority, &Observed)>> = HashMap::new();
    for (at, hold) in holds.iter().enumerate() {
        if let Some((hold, one)) = hold.as_ref().zip(seen(at)) {
            groups.entry(&hold.behind).or_default().push((hold.priority, one));
        }
    }
    let lifted = groups.into_iter().filter_map(|(behind, held)| {
        let end = behind.iter().filter_map(|at| Some(seen(*at)?.end)).max().unwrap_or_default();
        let mut sent: Vec<_> = held.iter().filter(|(_, one)| one.begins() >= end).collect();
        sent.sort_by_key(|(_, one)| one.begins());
        let is_beyond = |(priority, one): &&&(Priority, &Observed)| {
            let counts = |(other, _): &&(Priority, &Observed)| *priority == Priority::Low || *other == Priority::Medium;
            let now = one.begins();
            let under_way = held.iter().filter(counts).filter(|(_, other)| other.begins() <= now && now < other.end);
            under_way.count() > Hold::FREE
        };
        let lifted = sent.iter().find(is_beyond).or(sent.first())?;
        Some((behind.to_vec(), rounded(lifted.1.begins().saturating_sub(end))))
    });
    lifted.collect()
}

/// When this part of a response had arrived.
pub(super) fn comes(before: &Observed, response: &Response, until: Until) -> Duration {
    match until {
        Until::End => before.end,
        Until::Head(bytes) => {
            let share = bytes as f64 / response.size().max(1) as f64;
            before.first + before.end.saturating_sub(before.first).mul_f64(share.clamp(0.0, 1.0))
        }
    }
}

fn bare(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    url.into()
}

/// Whether a script that requested the data requested the other as well.
fn shares(data: &Observed, one: &Observed) -> bool {
    let asks = |seen: &Observed, url: &str| seen.initiators.iter().any(|by| by.position.is_none() && by.url == url);
    data.initiators.iter().any(|by| asks(data, &by.url) && asks(one, &by.url))
}

/// The head and this share of the body.
fn part(response: &Response, share: f64) -> Until {
    let body = (response.body.len() as f64 * share.clamp(0.0, 1.0)).ceil() as u64;
    let bytes = u64::from(response.head) + body;
    if bytes >= response.size() { Until::End } else { Until::Head(bytes.max(1)) }
}

/// The offset of a position. Browsers report the end of the tag with the reference.
pub(super) fn offset(bytes: &[u8], (line, column): (u64, u64)) -> usize {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let skipped = usize::try_from(line).unwrap_or(usize::MAX);
    let start: usize = lines.by_ref().take(skipped).map(<[u8]>::len).sum();
    // Columns are UTF-16 units, each of at least one byte.
    start + usize::try_from(column).unwrap_or(usize::MAX).min(lines.next().map_or(0, <[u8]>::len))
}

/// Rounds to a tenth of a millisecond; clocks are not more precise.
pub(crate) fn rounded(time: Duration) -> Duration {
    Duration::from_micros((time.as_secs_f64() * 1e4).round() as u64 * 100)
}
