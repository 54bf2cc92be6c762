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

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    Browser, BrowserError, Event, Fetch, Frame, Options,
    fetches::Fetches,
    paint::{Film, paints},
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

/// After the `load` event, a load ends after this time without network events, even if requests are missing.
const QUIET: Duration = Duration::from_secs(1);

/// A browser that loads one page several times.
#[derive(Debug)]
pub struct Loader {
    browser: Browser,
    options: Options,
    url: String,
    /// The number of requests of the page.
    requests: usize,
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
    /// URLs with a 404, and the errors of requests without a response.
    pub missing: Vec<String>,
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
        page: &Spec,
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
        let options = Options { flags, without_sandbox: true, folder: Some(folder) };
        let browser = Browser::start(&options, place)?;
        let url = page.requests.first().map(|first| format!("https://{}{}", first.host, first.path));
        let (url, requests) = (url.unwrap_or_default(), page.requests.len());
        Ok(Self { browser, options, url, requests, version, cpu_slowdown: 1 })
    }

    /// Slows the processor down for the page by this factor, as DevTools do for slower devices.
    pub fn slow_down(&mut self, factor: u32) {
        self.cpu_slowdown = factor;
    }

    /// Closes the browser and starts it again. Only the cache of [`Profile::Kept`] remains.
    pub fn restart(&mut self, place: impl FnOnce(&mut Command)) -> Result<(), BrowserError> {
        self.browser.restart(&self.options, place)
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
        browser.call(&session, "Network.enable", &json!({}))?;
        browser.call(&session, "Page.enable", &json!({}))?;
        if self.cpu_slowdown > 1 {
            browser.call(&session, "Emulation.setCPUThrottlingRate", &json!({ "rate": self.cpu_slowdown }))?;
        }
        let film = is_filmed.then(|| Film::start(browser, &session)).transpose()?;
        let loaded = self.navigate(&session, Instant::now() + patience, film);
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
        until: Instant,
        mut film: Option<Film>,
    ) -> Result<Option<Loaded>, BrowserError> {
        let failed = |said: String| BrowserError::Load { url: self.url.clone(), said };
        let navigated = self.browser.call(session, "Page.navigate", &json!({ "url": self.url }))?;
        if let Some(said) = navigated["errorText"].as_str().filter(|said| !said.is_empty()) {
            return Err(failed(said.to_owned()));
        }
        let mut progress = Progress::default();
        while let Some(event) = self.browser.event(progress.quiet.unwrap_or(until).min(until))? {
            // Events of earlier contexts may still arrive.
            if event.session != session {
                continue;
            }
            if let Some(film) = &mut film {
                film.take(&mut self.browser, &event)?;
            }
            progress.take(&event, self.version.protocol()).map_err(failed)?;
            if progress.quiet.is_some() && progress.open <= 0 && progress.loaded.requests >= self.requests {
                break;
            }
        }
        if progress.quiet.is_none() {
            return Ok(None);
        }
        let begin = progress.wall_begin.unwrap_or_default();
        let [first, largest] = paints(&mut self.browser, session, begin)?;
        let film = film.map(|film| film.finish(&mut self.browser, session, begin)).transpose()?;
        Ok(Some(Loaded {
            first_contentful_paint: first,
            largest_contentful_paint: largest,
            fetches: progress.fetches.finish(),
            film: film.unwrap_or_default(),
            ..progress.loaded
        }))
    }
}

/// The state of a load.
#[derive(Default)]
struct Progress {
    loaded: Loaded,
    /// When the first request was sent, on the browser's clock.
    begin: Option<f64>,
    /// The same since 1970.
    wall_begin: Option<f64>,
    fetches: Fetches,
    /// The number of requests in flight.
    open: i64,
    /// The end of the wait for more requests, once the `load` event has fired.
    quiet: Option<Instant>,
    /// The requests of the browser itself.
    own: Vec<Value>,
}

impl Progress {
    /// Takes an event into account; fails for a response over another protocol than `expected`.
    fn take(&mut self, event: &Event, expected: &str) -> Result<(), String> {
        let Event { method, params, .. } = event;
        // The browser itself requests the tab's icon.
        if params["type"] == "Other" && params["initiator"]["type"] == "other" {
            self.own.push(params["requestId"].clone());
        }
        if self.own.contains(&params["requestId"]) {
            return Ok(());
        }
        self.fetches.take(event);
        let time = params["timestamp"].as_f64();
        match method.as_str() {
            "Network.requestWillBeSent" => {
                self.begin = self.begin.or(time);
                self.wall_begin = self.wall_begin.or(params["wallTime"].as_f64());
                // A redirected request keeps its id.
                if params["redirectResponse"].is_object() {
                    self.loaded.requests += 1;
                } else {
                    self.open += 1;
                }
            }
            "Network.responseReceived" => {
                let response = &params["response"];
                let protocol = response["protocol"].as_str().unwrap_or_default();
                let url = response["url"].as_str().unwrap_or_default();
                if !url.starts_with("https:") {
                    return Ok(());
                }
                if protocol != expected && response["fromDiskCache"] != true {
                    return Err(format!("{url} came over {protocol}, not {expected}"));
                }
                self.loaded.requests += 1;
                if response["status"] == 404 {
                    self.loaded.missing.push(url.to_owned());
                }
            }
            "Network.loadingFinished" => self.open -= 1,
            "Network.loadingFailed" => {
                self.open -= 1;
                self.loaded.missing.push(params["errorText"].as_str().unwrap_or_default().to_owned());
            }
            "Page.loadEventFired" => {
                let took = self.begin.zip(time).map(|(begin, end)| Duration::try_from_secs_f64(end - begin));
                self.loaded.took = took.and_then(Result::ok).unwrap_or_default();
                self.quiet = Some(Instant::now() + QUIET);
            }
            _ => {}
        }
        if self.quiet.is_some() && method.starts_with("Network.") {
            self.quiet = Some(Instant::now() + QUIET);
        }
        Ok(())
    }
}
