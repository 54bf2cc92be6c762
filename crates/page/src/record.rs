//! Recording: Chromium loads a page several times, and what its loads have in common becomes a spec
//! ([`observed::stable`]).
//!
//! Chromium reports the initiator of each request: the parser, with line and column of the reference, or a script with
//! its stack. So dependencies need not be guessed from times. The cache is off. Frames of other sites and workers,
//! which run in processes of their own, are recorded as well. Recording ends when the page has loaded and the network
//! has been quiet for a while.

use std::{
    collections::HashMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use ::bytes::Bytes;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize as _;
use serde_json::{Value, json};
use url::Url;

use crate::{
    browser::{Browser, BrowserError, Options},
    import::{
        ImportError, Imported,
        har::Caller,
        observed::{self, Content, Observed},
    },
    spec::MAX_REQUESTS,
};

/// A loaded page is complete after this time without network events.
const QUIET: Duration = Duration::from_secs(1);

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The browser failed.
    #[error(transparent)]
    Browser(#[from] BrowserError),
    /// The user stopped it.
    #[error("stopped; nothing was written")]
    Stopped,
    /// The events make no spec.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Why a received body is not in the spec.
const LOST: &str = "Chromium does not return it (usual for images that it cannot decode)";

/// The maximum time between two checks of `stop`.
const STOP_POLL: Duration = Duration::from_millis(100);

/// Records the page at `url` so many times, each for at most `timeout`, or until `stop` is set; `path` is where the spec
/// will be written.
pub fn record(
    url: &Url,
    path: &Path,
    runs: u32,
    timeout: Duration,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Imported, RecordError> {
    let runs = (0..runs.max(1)).map(|_| observe(url, timeout, options, stop));
    let mut runs = runs.collect::<Result<Vec<Run>, _>>()?;
    let mut notes: Vec<String> = runs.iter_mut().flat_map(|run| std::mem::take(&mut run.notes)).collect();
    notes.sort();
    notes.dedup();
    let (title, source) = runs.first_mut().map(|run| (run.title.clone(), run.source.clone())).unwrap_or_default();
    let all = runs.into_iter().map(|run| run.observed).collect();
    let mut imported = observed::stable(all, title, source, path)?;
    imported.notes.append(&mut notes);
    Ok(imported)
}

/// One recording.
struct Run {
    observed: Vec<Observed>,
    title: String,
    source: String,
    notes: Vec<String>,
}

/// Records the page once.
fn observe(url: &Url, timeout: Duration, options: &Options, stop: &AtomicBool) -> Result<Run, RecordError> {
    let mut browser = Browser::start(options, |_| {})?;
    let session = browser.page()?;
    let version = browser.call("", "Browser.getVersion", &json!({}))?;
    let mut recording = Recording::default();
    let is_complete = load(&mut browser, &session, url, &mut recording, timeout, stop)?;
    let mut notes = Vec::new();
    if !is_complete {
        notes.push(format!("the page was not complete after {timeout:?}; the spec has the requests up to then"));
    }
    let title = browser.call(&session, "Runtime.evaluate", &json!({ "expression": "document.title" }))?;
    let title =
        title["result"]["value"].as_str().filter(|title| !title.trim().is_empty()).unwrap_or(url.as_str()).to_owned();
    recording.get_bodies(&mut browser);
    drop(browser);
    let product = version["product"].as_str().unwrap_or("Chromium");
    let source = format!("Recorded from {url} with {product}.");
    let observed = recording.observed(&mut notes);
    Ok(Run { observed, title, source, notes })
}

/// Loads the page until it is complete and quiet, for at most `timeout`. Returns whether its `load` event has fired.
fn load(
    browser: &mut Browser,
    session: &str,
    url: &Url,
    recording: &mut Recording,
    timeout: Duration,
    stop: &AtomicBool,
) -> Result<bool, RecordError> {
    listen(browser, session)?;
    browser.call(session, "Page.enable", &json!({}))?;
    let deadline = Instant::now() + timeout;
    let navigated = browser.call(session, "Page.navigate", &json!({ "url": url.as_str() }))?;
    if let Some(said) = navigated["errorText"].as_str().filter(|said| !said.is_empty()) {
        return Err(BrowserError::Load { url: url.to_string(), said: said.to_owned() }.into());
    }
    let mut loaded = false;
    let mut quiet = Instant::now() + QUIET;
    loop {
        let wait = if loaded && recording.open() == 0 { quiet.min(deadline) } else { deadline };
        let now = Instant::now();
        if now >= wait {
            return Ok(loaded);
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RecordError::Stopped);
        }
        let Some(event) = browser.event(wait.min(now + STOP_POLL))? else { continue };
        match event.method.as_str() {
            "Page.loadEventFired" => loaded = true,
            "Target.attachedToTarget" => {
                let attached = event.params["sessionId"].as_str().unwrap_or_default();
                // Some targets have no network domain.
                let _ = listen(browser, attached);
                browser.send_only(attached, "Runtime.runIfWaitingForDebugger", &json!({}))?;
            }
            _ if event.method.starts_with("Network.") => {
                recording.take(&event.session, &event.method, &event.params);
                quiet = Instant::now() + QUIET;
            }
            _ => {}
        }
    }
}

fn listen(browser: &mut Browser, session: &str) -> Result<(), BrowserError> {
    let room = json!({ "maxTotalBufferSize": 512 << 20, "maxResourceBufferSize": 128 << 20 });
    browser.call(session, "Network.enable", &room)?;
    browser.call(session, "Network.setCacheDisabled", &json!({ "cacheDisabled": true }))?;
    // Only the debugger records the stacks of asynchronous callbacks.
    if browser.call(session, "Debugger.enable", &json!({})).is_ok() {
        browser.call(session, "Debugger.setSkipAllPauses", &json!({ "skip": true }))?;
        browser.call(session, "Debugger.setAsyncCallStackDepth", &json!({ "maxDepth": 32 }))?;
    }
    let others = json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true });
    browser.call(session, "Target.setAutoAttach", &others).map(drop)
}

fn bytes(body: &Value) -> Option<Bytes> {
    let text = body["body"].as_str()?;
    if body["base64Encoded"] == true {
        STANDARD.decode(text).ok().map(Bytes::from)
    } else {
        Some(text.to_owned().into())
    }
}

/// The requests so far.
#[derive(Default)]
struct Recording {
    exchanges: Vec<Exchange>,
    /// The latest exchange of a request: a redirect starts another one with the same id.
    latest: HashMap<(String, String), usize>,
    /// Header fields of requests whose main event has not arrived: Chromium promises no order.
    early: HashMap<(String, String), Value>,
}

/// A request and its response, as Chromium reports them. Times are seconds of its clock.
// One field for each thing that the events report; they arrive in any order.
#[derive(Default)]
struct Exchange {
    session: String,
    id: String,
    url: String,
    method: String,
    started: f64,
    first: Option<f64>,
    end: Option<f64>,
    failed: Option<String>,
    initiator: Value,
    /// The resource type: `Document`, `Fetch`, …
    kind: String,
    headers: Value,
    sent: Option<String>,
    response: Value,
    /// The received header fields, with those that scripts must not see.
    received: Value,
    /// The size of the response's head, over HTTP/1.1.
    head: Option<usize>,
    status: Option<u16>,
    transferred: Option<f64>,
    has_body: bool,
    /// Whether any part of the body was received.
    body_received: bool,
    bytes: Option<Bytes>,
}

impl Recording {
    /// Gets the bodies from Chromium, as far as it returns them.
    fn get_bodies(&mut self, browser: &mut Browser) {
        for exchange in self.exchanges.iter_mut().filter(|exchange| exchange.end.is_some() && exchange.has_body) {
            let request = json!({ "requestId": exchange.id });
            if let Ok(body) = browser.call(&exchange.session, "Network.getResponseBody", &request) {
                exchange.bytes = bytes(&body).filter(|bytes| !(exchange.body_received && bytes.is_empty()));
            }
        }
    }

    /// The requests that a spec can have; the others are named in `notes`.
    fn observed(self, notes: &mut Vec<String>) -> Vec<Observed> {
        let begin = self.exchanges.iter().map(|exchange| exchange.started).fold(f64::INFINITY, f64::min);
        let mut all = Vec::new();
        for exchange in self.exchanges {
            let url = exchange.url.clone();
            let is_lost = exchange.is_lost();
            match exchange.observed(begin) {
                Ok(Some(observed)) => {
                    if is_lost {
                        notes.push(format!("{url}: synthesised body, since {LOST}"));
                    }
                    all.push(observed);
                }
                Ok(None) => {}
                Err(why) => notes.push(format!("{url}: omitted, since {why}")),
            }
        }
        all
    }

    /// The number of requests in flight.
    fn open(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.end.is_none() && exchange.failed.is_none()).count()
    }

    fn take(&mut self, session: &str, method: &str, params: &Value) {
        let Some(id) = params["requestId"].as_str() else { return };
        let key = (session.to_owned(), id.to_owned());
        let time = params["timestamp"].as_f64();
        if method == "Network.requestWillBeSent" {
            let before = self.latest.get(&key).copied();
            if let (Some(before), Some(response)) = (before, params.get("redirectResponse")) {
                let before = &mut self.exchanges[before];
                before.respond(response);
                before.end = time;
            }
            if self.exchanges.len() < MAX_REQUESTS {
                let mut exchange = Exchange::new(session, id, params);
                if let Some(headers) = self.early.remove(&key) {
                    exchange.headers = headers;
                }
                self.latest.insert(key, self.exchanges.len());
                self.exchanges.push(exchange);
            }
            return;
        }
        let Some(exchange) = self.latest.get(&key).and_then(|at| self.exchanges.get_mut(*at)) else {
            if method == "Network.requestWillBeSentExtraInfo" && self.early.len() < MAX_REQUESTS {
                self.early.insert(key, params["headers"].clone());
            }
            return;
        };
        match method {
            "Network.requestWillBeSentExtraInfo" => exchange.headers = params["headers"].clone(),
            "Network.responseReceived" => exchange.respond(&params["response"]),
            "Network.responseReceivedExtraInfo" => {
                exchange.received = params["headers"].clone();
                exchange.head = params["headersText"].as_str().map(str::len);
                exchange.status = params["statusCode"].as_u64().and_then(|code| u16::try_from(code).ok());
            }
            "Network.dataReceived" => {
                exchange.body_received |= params["dataLength"].as_u64().is_some_and(|bytes| bytes > 0);
            }
            "Network.loadingFinished" => {
                exchange.end = time;
                exchange.has_body = true;
                exchange.transferred = params["encodedDataLength"].as_f64();
            }
            "Network.loadingFailed" => {
                exchange.failed = Some(params["errorText"].as_str().unwrap_or("it failed").to_owned());
            }
            _ => {}
        }
    }
}

impl Exchange {
    fn new(session: &str, id: &str, params: &Value) -> Self {
        let request = &params["request"];
        Self {
            session: session.to_owned(),
            id: id.to_owned(),
            url: request["url"].as_str().unwrap_or_default().to_owned(),
            method: request["method"].as_str().unwrap_or_default().to_owned(),
            started: params["timestamp"].as_f64().unwrap_or(0.0),
            initiator: params["initiator"].clone(),
            kind: params["type"].as_str().unwrap_or_default().to_owned(),
            headers: request["headers"].clone(),
            sent: request["postData"].as_str().map(str::to_owned),
            ..Self::default()
        }
    }

    fn respond(&mut self, response: &Value) {
        let timing = &response["timing"];
        let from = timing["requestTime"].as_f64();
        let headers_end = timing["receiveHeadersEnd"].as_f64().filter(|ms| *ms >= 0.0);
        self.first = from.zip(headers_end).map(|(from, ms)| from + ms / 1e3);
        self.response = response.clone();
    }

    /// Whether a body was received that Chromium does not return.
    fn is_lost(&self) -> bool {
        self.body_received && self.bytes.is_none()
    }

    /// The request as an import takes it; none if it did not use the network. `begin` is the time of the first request.
    fn observed(self, begin: f64) -> Result<Option<Observed>, String> {
        let Ok(url) = Url::parse(&self.url) else { return Ok(None) };
        // The browser itself requests the tab's icon.
        let own = self.kind == "Other" && self.initiator["type"] == "other";
        if own || !matches!(url.scheme(), "http" | "https") {
            return Ok(None);
        }
        if let Some(failed) = self.failed {
            return Err(format!("it failed ({failed})"));
        }
        let Some(end) = self.end else { return Err("it was not finished".to_owned()) };
        let response = &self.response;
        let status = self.status.or_else(|| response["status"].as_u64().and_then(|status| status.try_into().ok()));
        let since = |time: f64| Duration::try_from_secs_f64(time - begin).unwrap_or_default();
        let one_by_one = response["protocol"].as_str().is_some_and(|protocol| protocol.starts_with("http/1"));
        let connection = response["connectionId"].as_f64().filter(|number| one_by_one && *number > 0.0);
        let initiators = Caller::deserialize(&self.initiator).map_or_else(|_| Vec::new(), |caller| caller.initiators());
        let lost = self.is_lost();
        let sent = self.sent.map(Bytes::from);
        let received = if self.received.is_object() { &self.received } else { &response["headers"] };
        let mut response_headers = fields(received);
        if let Some(kind) = response["mimeType"].as_str().filter(|kind| !kind.is_empty())
            && !response_headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            response_headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        let head = self.head.map(|head| head as u64);
        let size =
            self.transferred.filter(|size| *size >= 0.0).map(|size| (size as u64).saturating_sub(head.unwrap_or(0)));
        // Chromium aborts an image that it cannot decode, so the received bytes are not its size.
        let told = observed::field(&response_headers, "content-length").and_then(|length| length.parse().ok());
        let size = told.filter(|_| lost).or(size);
        Ok(Some(Observed {
            url,
            method: self.method,
            started: since(self.started),
            first: since(self.first.unwrap_or(end)),
            end: since(end),
            wait: milestone(response, "sendEnd", "receiveHeadersStart"),
            handshake: milestone(response, "connectStart", "sslStart")
                .or_else(|| milestone(response, "connectStart", "connectEnd")),
            connection: connection.map(|number| format!("{} {number}", self.session)),
            initiators,
            fetched: matches!(self.kind.as_str(), "Fetch" | "XHR"),
            head: None,
            headers: fields(&self.headers),
            body: Content { size: None, bytes: sent, coded: false },
            status: status.unwrap_or(0),
            response_headers,
            response_head: head,
            response_body: Content { size: size.or(Some(0)), bytes: self.bytes, coded: false },
        }))
    }
}

/// The time between two of Chromium's measurements of a request; none if it lacks one, or if they are equal, as those of
/// QUIC's handshake are, which is one with that of TLS.
fn milestone(response: &Value, from: &str, to: &str) -> Option<Duration> {
    let at = |name: &str| response["timing"][name].as_f64().filter(|ms| *ms >= 0.0);
    Duration::try_from_secs_f64((at(to)? - at(from)?) / 1e3).ok().filter(|time| !time.is_zero())
}

fn fields(headers: &Value) -> Vec<(String, String)> {
    let fields = headers.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}
