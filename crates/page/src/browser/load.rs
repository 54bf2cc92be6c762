//! A real browser loads a page from a replay server.
//!
//! Longhaul's own client follows the recorded dependencies. A browser finds its own, in the recorded bodies or in
//! synthetic HTML ([`Spec::body`]). So this checks the replay, and measures what a person would see.
//!
//! All hosts of the page resolve to the server, which the browser recognises by the hash of its key. Everything uses
//! TLS, since browsers support HTTP/2 and HTTP/3 only over TLS. Each load has a new browser context, and so no
//! connection, cookie, ticket or cached byte of an earlier one. Only a repeat view does: as in WebPageTest, the browser is
//! closed after the first view and started again, so that its cache is warm and its connections are gone.
//!
//! The load time is measured on the browser's own clock, from the first request to the `load` event. Requests that
//! scripts send later do not count, but the load waits for them, so that each load requests the whole page. First and
//! largest contentful paint count from the same moment.
//!
//! A browser may request something else than was recorded. The server answers with the nearest recorded response, and the
//! load lists what differed ([`deviations`]). It fails if so much is missing that it is another page.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Browser, BrowserError, Event, Fetch, Frame, Options,
    completion::Completion,
    deviations::{self, Deviation, Sent},
    fetches::Fetches,
    paint::{Film, paints},
    targets::Targets,
};
use crate::{Spec, synthetic_html::is_html};

/// The version of HTTP to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.1; the server offers nothing else by ALPN.
    One,
    /// HTTP/2, never HTTP/3.
    Two,
    /// HTTP/3 from the first packet on.
    Three,
}

impl Version {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::One, Self::Two, Self::Three];

    /// Chromium's name for it.
    fn protocol(self) -> &'static str {
        match self {
            Self::One => "http/1.1",
            Self::Two => "h2",
            Self::Three => "h3",
        }
    }
}

/// A browser that loads one page several times.
#[derive(Debug)]
pub struct Loader {
    browser: Browser,
    url: String,
    page: Arc<Spec>,
    version: Version,
    /// By how many times the processor is slowed down for the page; 1: not at all.
    cpu_slowdown: u32,
}

/// What a load finds of earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Nothing.
    New,
    /// What earlier loads with this profile left, above all the cache.
    Kept,
}

/// A finished load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// From the first request to the `load` event.
    pub took: Duration,
    /// The number of responses over the network.
    pub requests: usize,
    /// How the load differs from the recording.
    pub deviations: Vec<Deviation>,
    /// From the first request to the first paint with content; none if there was none.
    pub first_contentful_paint: Option<Duration>,
    /// From the first request to the largest paint with content.
    pub largest_contentful_paint: Option<Duration>,
    /// The requests.
    pub fetches: Vec<Fetch>,
    /// Pictures of the page, if wanted.
    pub film: Vec<Frame>,
}

/// Why a browser cannot load this page, if so.
pub fn unable(page: &Spec) -> Option<String> {
    let html = page.requests.first().is_some_and(is_html);
    (!html)
        .then(|| format!("the page {} does not begin with HTML, from which a browser would know the rest", page.name))
}

/// A host's name without its port.
fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, _)) if !host.ends_with(']') => name,
        _ => host,
    }
}

/// A host's name with its port.
fn authority(host: &str) -> String {
    if without_port(host) == host { format!("{host}:443") } else { host.to_owned() }
}

impl Loader {
    /// Starts a browser for `page`, whose hosts all answer at `address`. `key` is the SHA-256 of the server's public
    /// key (its SubjectPublicKeyInfo) in base64. The browser writes into `folder` only; `place` puts it on its host.
    pub fn start(
        page: &Arc<Spec>,
        version: Version,
        address: SocketAddr,
        key: &str,
        folder: PathBuf,
        place: impl FnOnce(&mut Command),
    ) -> Result<Self, BrowserError> {
        // No other name resolves, so the browser's own requests fail.
        let names = page.hosts().into_iter().map(|host| format!("MAP {} {address}", without_port(host)));
        let rules: Vec<String> = names.chain(["MAP * ~NOTFOUND".to_owned()]).collect();
        let mut flags = vec![
            format!("--host-resolver-rules={}", rules.join(",")),
            format!("--ignore-certificate-errors-spki-list={key}"),
            "--no-proxy-server".to_owned(),
        ];
        match version {
            Version::One => flags.extend(["--disable-http2", "--disable-quic"].map(str::to_owned)),
            Version::Two => flags.push("--disable-quic".to_owned()),
            Version::Three => {
                let origins: Vec<String> = page.hosts().into_iter().map(authority).collect();
                flags.push(format!("--origin-to-force-quic-on={}", origins.join(",")));
            }
        }
        // The pages are our own server's.
        let options = Options { flags, without_sandbox: true, folder: Some(folder), ..Options::default() };
        let browser = Browser::start(&options, place)?;
        let url = page.requests.first().map(|first| format!("https://{}{}", first.host, first.path));
        Ok(Self { browser, url: url.unwrap_or_default(), page: page.clone(), version, cpu_slowdown: 1 })
    }

    /// Slows the processor down for the page by this factor, as DevTools do for slower devices.
    pub fn slow_down(&mut self, factor: u32) {
        self.cpu_slowdown = factor;
    }

    /// Closes the browser and starts it again. Only the cache of [`Profile::Kept`] remains.
    pub fn restart(&mut self, place: impl FnOnce(&mut Command)) -> Result<(), BrowserError> {
        self.browser.restart(place)
    }

    /// Loads the page, within `patience`.
    pub fn load(&mut self, profile: Profile, patience: Duration) -> Result<Loaded, BrowserError> {
        self.load_in(profile, patience, false)
    }

    /// The same with pictures, which take time.
    pub fn load_filmed(&mut self, profile: Profile, patience: Duration) -> Result<Loaded, BrowserError> {
        self.load_in(profile, patience, true)
    }

    fn load_in(&mut self, profile: Profile, patience: Duration, is_filmed: bool) -> Result<Loaded, BrowserError> {
        let browser = &mut self.browser;
        let mut blank = json!({ "url": "about:blank" });
        if profile == Profile::New {
            let context = browser.call("", "Target.createBrowserContext", &json!({}))?["browserContextId"].take();
            blank["browserContextId"] = context;
        }
        let target = browser.call("", "Target.createTarget", &blank)?["targetId"].take();
        let attached = browser.call("", "Target.attachToTarget", &json!({ "targetId": target, "flatten": true }))?;
        let session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        let clock = self.page.recorded_at.map(|time| time.timestamp_millis());
        let targets = Targets { records: false, clock, latency: None };
        targets.prepare(browser, &session)?;
        if self.cpu_slowdown > 1 {
            browser.call(&session, "Emulation.setCPUThrottlingRate", &json!({ "rate": self.cpu_slowdown }))?;
        }
        let film = is_filmed.then(|| Film::start(browser, &session)).transpose()?;
        let loaded = self.navigate(&session, &targets, Instant::now() + patience, film);
        match profile {
            Profile::New => {
                let context = json!({ "browserContextId": blank["browserContextId"] });
                self.browser.call("", "Target.disposeBrowserContext", &context)?;
            }
            Profile::Kept => {
                self.browser.call("", "Target.closeTarget", &json!({ "targetId": target }))?;
            }
        }
        let late = || format!("it had not loaded after {patience:?}");
        loaded?.ok_or_else(|| BrowserError::Load { url: self.url.clone(), said: late() })
    }

    /// Follows a load to its end; none if it has not ended by `until`.
    fn navigate(
        &mut self,
        session: &str,
        targets: &Targets,
        until: Instant,
        mut film: Option<Film>,
    ) -> Result<Option<Loaded>, BrowserError> {
        let failed = |said: String| BrowserError::Load { url: self.url.clone(), said };
        self.browser.navigate(session, &self.url)?;
        let mut progress = Progress::new(session);
        while let Some(event) = self.browser.event(progress.completion.ends().unwrap_or(until).min(until))? {
            Browser::check(&event, session, &self.url)?;
            if let Some(attached) = targets.attached(&mut self.browser, &event)? {
                progress.sessions.insert(attached.session);
                continue;
            }
            if let Some(film) = film.as_mut().filter(|_| event.session == session) {
                film.take(&mut self.browser, &event)?;
            }
            progress.take(&event, self.version.protocol()).map_err(failed)?;
            if progress.completion.is_loaded()
                && progress.completion.is_idle()
                && progress.loaded.requests >= self.page.requests.len()
            {
                break;
            }
        }
        if !progress.completion.is_loaded() {
            return Ok(None);
        }
        let deviations = deviations::find(&self.page, &progress.sent).map_err(failed)?;
        let begin = progress.wall_begin.unwrap_or_default();
        let [first, largest] = paints(&mut self.browser, session, begin)?;
        let film = film.map(|film| film.finish(&mut self.browser, session, begin)).transpose()?;
        Ok(Some(Loaded {
            deviations,
            first_contentful_paint: first,
            largest_contentful_paint: largest,
            fetches: progress.fetches.finish(),
            film: film.unwrap_or_default(),
            ..progress.loaded
        }))
    }
}

/// The state of a load.
struct Progress {
    loaded: Loaded,
    completion: Completion,
    /// The sessions of its targets, the page's first. Events of earlier contexts may still arrive.
    sessions: HashSet<String>,
    page: String,
    /// When the first request was sent, on the browser's clock.
    begin: Option<f64>,
    /// The same since 1970.
    wall_begin: Option<f64>,
    fetches: Fetches,
    /// The requests, and where the latest of each id is.
    sent: Vec<Sent>,
    latest: HashMap<String, usize>,
    /// The ids and URLs of the requests of the browser itself.
    own: HashSet<String>,
}

impl Progress {
    fn new(session: &str) -> Self {
        Self {
            loaded: Loaded::default(),
            completion: Completion::new(Instant::now()),
            sessions: [session.to_owned()].into(),
            page: session.to_owned(),
            begin: None,
            wall_begin: None,
            fetches: Fetches::default(),
            sent: Vec::new(),
            latest: HashMap::new(),
            own: HashSet::new(),
        }
    }

    /// Takes an event into account; fails for a response over another protocol than `expected`.
    fn take(&mut self, event: &Event, expected: &str) -> Result<(), String> {
        let Event { session, method, params } = event;
        if !self.sessions.contains(session) {
            return Ok(());
        }
        let time = params["timestamp"].as_f64();
        if method == "Page.loadEventFired" && *session == self.page {
            let took = self.begin.zip(time).map(|(begin, end)| Duration::try_from_secs_f64(end - begin));
            self.loaded.took = took.and_then(Result::ok).unwrap_or_default();
            self.completion.load(Instant::now());
        }
        let Some(id) = params["requestId"].as_str() else { return Ok(()) };
        // The browser itself requests the tab's icon, perhaps through a service worker.
        let url = params["request"]["url"].as_str().unwrap_or_default();
        if params["type"] == "Other" && params["initiator"]["type"] == "other" || self.own.contains(url) {
            self.own.extend([id.to_owned(), url.to_owned()]);
        }
        if self.own.contains(id) {
            return Ok(());
        }
        self.completion.take(method, params, Instant::now());
        self.fetches.take(event);
        let sent = self.latest.get(id).copied();
        match method.as_str() {
            "Network.requestWillBeSent" => {
                self.begin = self.begin.or(time);
                self.wall_begin = self.wall_begin.or(params["wallTime"].as_f64());
                // A redirected request keeps its id.
                let redirect = &params["redirectResponse"];
                match sent {
                    Some(sent) if redirect.is_object() => self.respond(sent, redirect, expected)?,
                    // Two targets report it.
                    Some(_) => return Ok(()),
                    None => {}
                }
                let text = |name: &str| params["request"][name].as_str().unwrap_or_default().to_owned();
                self.latest.insert(id.to_owned(), self.sent.len());
                self.sent.push(Sent { url: text("url"), method: text("method"), ..Sent::default() });
            }
            "Network.responseReceived" if let Some(sent) = sent => self.respond(sent, &params["response"], expected)?,
            "Network.requestServedFromCache" if let Some(sent) = sent => self.sent[sent].is_cached = true,
            "Network.loadingFailed" if let Some(sent) = sent => {
                let error = params["errorText"].as_str().unwrap_or("it failed").to_owned();
                let sent = &mut self.sent[sent];
                // With a response, it is the page that did not accept it, as in the recording.
                sent.failed = Some(error).filter(|_| !sent.has_response);
            }
            _ => {}
        }
        Ok(())
    }

    /// A response has begun.
    fn respond(&mut self, sent: usize, response: &Value, expected: &str) -> Result<(), String> {
        let sent = &mut self.sent[sent];
        let is = |flag: &str| response[flag] == true;
        let internal = response["headers"].get("Non-Authoritative-Reason").is_some();
        sent.is_internal |= internal;
        sent.is_cached |= is("fromDiskCache") || is("fromPrefetchCache") || is("fromServiceWorker");
        let protocol = response["protocol"].as_str().unwrap_or_default();
        if sent.is_internal || sent.is_cached || sent.has_response || !sent.url.starts_with("https:") {
            return Ok(());
        }
        sent.has_response = true;
        self.loaded.requests += 1;
        if protocol == expected { Ok(()) } else { Err(format!("{} came over {protocol}, not {expected}", sent.url)) }
    }
}
