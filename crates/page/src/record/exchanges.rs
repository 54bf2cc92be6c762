//! The requests of a page, from the events of all its targets.
//!
//! A request has one id in the whole browser, but its events come from several sessions: a frame's document is requested
//! by the page and finished by the frame, a worker's script likewise. So exchanges are found by id, and each keeps the
//! sessions that know it, one of which has its body.
//!
//! A request that a service worker answers does not use the network. If the worker forwards it, the worker's own request
//! does, and takes the initiator of the page's.

use std::{cmp::Ordering, collections::HashMap, time::Duration};

use serde_json::{Value, json};
use url::Url;

use super::exchange::Exchange;
use crate::{
    browser::{Browser, completion::is_stream, latency::Latency, targets::Attached},
    import::observed::Observed,
    spec::MAX_REQUESTS,
};

/// Why a received body is not in the spec.
const LOST: &str = "Chromium does not return it (usual for images that it cannot decode)";

/// The requests so far.
#[derive(Default)]
pub(super) struct Exchanges {
    all: Vec<Exchange>,
    /// The latest exchange of a request: a redirect starts another one with the same id.
    latest: HashMap<String, usize>,
    /// Header fields of requests whose main event has not arrived: Chromium promises no order.
    early: HashMap<String, Value>,
    /// The sessions of workers, each with its script.
    workers: HashMap<String, String>,
    /// The time of the `load` event, on the browser's clock.
    loaded: Option<f64>,
    /// Connections that cannot be replayed.
    others: Vec<String>,
    /// The latencies that Chromium emulates.
    latency: Latency,
}

impl Exchanges {
    pub(super) fn new(latency: Latency) -> Self {
        Self { latency, ..Self::default() }
    }

    /// A target other than the page.
    pub(super) fn attached(&mut self, attached: Attached) {
        if let Some(script) = attached.worker {
            self.workers.insert(attached.session, script);
        }
    }

    /// The page's `load` event.
    pub(super) fn loaded(&mut self, params: &Value) {
        self.loaded = params["timestamp"].as_f64();
    }

    /// An event of the network domain.
    pub(super) fn take(&mut self, session: &str, method: &str, params: &Value) {
        if matches!(method, "Network.webSocketCreated" | "Network.webTransportCreated") {
            let url = params["url"].as_str().unwrap_or_default().to_owned();
            if !self.others.contains(&url) && self.others.len() < MAX_REQUESTS {
                self.others.push(url);
            }
            return;
        }
        let Some(id) = params["requestId"].as_str() else { return };
        if method == "Network.requestWillBeSent" {
            return self.request(session, id, params);
        }
        let Some(exchange) = self.latest.get(id).and_then(|at| self.all.get_mut(*at)) else {
            if method == "Network.requestWillBeSentExtraInfo" && self.early.len() < MAX_REQUESTS {
                self.early.insert(id.to_owned(), params["headers"].clone());
            }
            return;
        };
        exchange.known_to(session);
        let time = params["timestamp"].as_f64();
        match method {
            "Network.requestWillBeSentExtraInfo" => exchange.headers = params["headers"].clone(),
            "Network.responseReceived" => {
                let latency = self.latency.of(&exchange.url);
                exchange.respond(&params["response"], latency);
                exchange.is_stream = is_stream(params);
            }
            "Network.responseReceivedExtraInfo" => exchange.respond_extra(params),
            "Network.requestServedFromCache" => exchange.is_local = true,
            "Network.dataReceived" => exchange.received += params["dataLength"].as_u64().unwrap_or(0),
            "Network.loadingFinished" => {
                exchange.end = time;
                exchange.transferred = params["encodedDataLength"].as_f64();
            }
            "Network.loadingFailed" => {
                exchange.end = time;
                exchange.failed = Some(params["errorText"].as_str().unwrap_or("it failed").to_owned());
            }
            _ => {}
        }
    }

    fn request(&mut self, session: &str, id: &str, params: &Value) {
        let before = self.latest.get(id).copied().map(|at| &mut self.all[at]);
        match (before, params.get("redirectResponse")) {
            (Some(before), Some(response)) => {
                let latency = self.latency.of(&before.url);
                before.respond(response, latency);
                before.end = params["timestamp"].as_f64();
            }
            // Two sessions report the same request.
            (Some(before), None) => return before.known_to(session),
            (None, _) => {}
        }
        if self.all.len() < MAX_REQUESTS {
            let mut exchange = Exchange::new(session, id, params);
            if let Some(headers) = self.early.remove(id) {
                exchange.headers = headers;
            }
            self.latest.insert(id.to_owned(), self.all.len());
            self.all.push(exchange);
        }
    }

    /// Gets the bodies from Chromium, as far as it returns them.
    pub(super) fn get_bodies(&mut self, browser: &mut Browser) {
        for exchange in self.all.iter_mut().filter(|exchange| exchange.has_body()) {
            let request = json!({ "requestId": exchange.id });
            // Of a response without end, what has arrived.
            let method =
                if exchange.end.is_some() { "Network.getResponseBody" } else { "Network.streamResourceContent" };
            let sessions = exchange.sessions.clone();
            let body = sessions.iter().rev().find_map(|session| browser.call(session, method, &request).ok());
            if let Some(body) = body {
                exchange.set_body(&body);
            }
        }
    }

    /// The time of the `load` event, if it fired, from the first request on.
    pub(super) fn load_event(&self) -> Option<Duration> {
        Duration::try_from_secs_f64(self.loaded? - self.begin()).ok()
    }

    /// The time of the first request, on the browser's clock.
    fn begin(&self) -> f64 {
        self.all.iter().map(|exchange| exchange.started).fold(f64::INFINITY, f64::min)
    }

    /// The requests that a spec can have; the others are named in `notes`.
    pub(super) fn observed(mut self, notes: &mut Vec<String>) -> Vec<Observed> {
        let begin = self.begin();
        self.name_scripts();
        self.follow_service_workers();
        self.order_preflights();
        self.share_bodies();
        let mut all = Vec::new();
        for exchange in &self.all {
            let url = &exchange.url;
            let by_worker = exchange.sessions.iter().any(|session| self.workers.contains_key(session));
            match exchange.observed(begin, self.loaded, by_worker) {
                Ok(Some(observed)) => {
                    if exchange.is_lost() {
                        notes.push(format!("{url}: synthesised body, since {LOST}"));
                    }
                    if let Some(failed) = &exchange.failed {
                        notes.push(format!("{url}: Chromium did not accept the response ({failed})"));
                    }
                    if exchange.end.is_none() {
                        notes.push(format!("{url}: has no end; the spec has the bytes that had arrived"));
                    }
                    all.push(observed);
                }
                Ok(None) => {}
                Err(why) => notes.push(format!("{url}: omitted, since {why}")),
            }
        }
        notes.extend(self.others.iter().map(|url| format!("{url}: omitted, since only HTTP requests are replayed")));
        all
    }

    /// Names the scripts that Chromium does not: for a worker or an event stream, it names the document only. That is
    /// taken for the last script that had arrived. For a request of a worker without any, it is the worker's own script.
    fn name_scripts(&mut self) {
        for at in 0..self.all.len() {
            let one = &self.all[at];
            let made_by_script = one.kind == "EventSource" || one.kind == "Script" && one.initiator["type"] == "other";
            let session = one.sessions.first();
            let worker = session.and_then(|session| self.workers.get(session));
            // A service worker reports the request of its own script.
            let is_own = worker.is_some_and(|script| *script == one.url);
            let script = match worker.filter(|_| !is_own) {
                Some(script) => Some(script).filter(|_| made_by_script || one.has_no_initiator()),
                None if made_by_script && is_own => {
                    let document = self.all.iter().find(|document| document.url == one.initiator["url"]);
                    document.and_then(|document| self.last_script(one, document.sessions.last()))
                }
                None if made_by_script => self.last_script(one, session),
                None => None,
            };
            if let Some(script) = script {
                self.all[at].initiator = json!({ "stack": { "callFrames": [{ "url": script }] } });
            }
        }
    }

    /// The last script of a document, whose session this is, that had arrived before a request.
    fn last_script(&self, one: &Exchange, session: Option<&String>) -> Option<&String> {
        let has_arrived = |script: &&Exchange| {
            let is_of_document = !script.sessions.iter().any(|session| self.workers.contains_key(session));
            script.kind == "Script"
                && is_of_document
                && script.sessions.first() == session
                && script.end.is_some_and(|end| end <= one.started)
        };
        let arrived = self.all.iter().filter(has_arrived);
        let last = arrived.max_by(|one, other| one.end.partial_cmp(&other.end).unwrap_or(Ordering::Equal));
        last.map(|script| &script.url)
    }

    /// The requests that service workers forwarded take the initiators of the page's, and the bodies that it received:
    /// Chromium does not keep the worker's.
    fn follow_service_workers(&mut self) {
        let (answered, others): (Vec<usize>, Vec<usize>) =
            (0..self.all.len()).partition(|at| self.all[*at].is_by_service_worker());
        let mut answered = answered;
        for at in others {
            let forwarded = &self.all[at];
            if !forwarded.sessions.iter().any(|session| self.workers.contains_key(session)) {
                continue;
            }
            let is_same = |original: &Exchange| {
                (&original.url, &original.method) == (&forwarded.url, &forwarded.method)
                    && original.started <= forwarded.started
                    && original.end.is_none_or(|end| forwarded.started <= end)
            };
            let Some(place) = answered.iter().position(|original| is_same(&self.all[*original])) else { continue };
            let original = answered.remove(place);
            // Both are in one list.
            let original = std::mem::take(&mut self.all[original]);
            self.all[at].forward(original);
        }
    }

    /// A body that Chromium does not return for one request may be known from another one for the same URL.
    fn share_bodies(&mut self) {
        for at in 0..self.all.len() {
            let lost = &self.all[at];
            if !lost.is_lost() || lost.method != "GET" {
                continue;
            }
            let is_same = |other: &&Exchange| other.is_body_known() && other.url == lost.url && other.method == "GET";
            let Some(place) = self.all.iter().position(|other| is_same(&other)) else { continue };
            let other = std::mem::take(&mut self.all[place]);
            self.all[at].take_body(&other);
            self.all[place] = other;
        }
    }

    /// A request with a preflight (CORS) is sent after it, for the same reason.
    fn order_preflights(&mut self) {
        for at in 0..self.all.len() {
            let preflight = &self.all[at];
            if preflight.initiator["type"] != "preflight" {
                continue;
            }
            let is_asked_for = |other: &Exchange| preflight.initiator["requestId"] == other.id;
            let Some(request) = self.all.iter().position(is_asked_for) else { continue };
            let (end, begun) = (preflight.end, self.all[request].started);
            let initiator = self.all[request].initiator.clone();
            self.all[at].initiator = initiator;
            self.all[at].started = begun.min(self.all[at].started);
            let request = &mut self.all[request];
            request.started = request.started.max(end.unwrap_or(request.started));
        }
    }
}

/// Whether a URL is one of HTTP.
pub(super) fn parsed(url: &str) -> Option<Url> {
    Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}
