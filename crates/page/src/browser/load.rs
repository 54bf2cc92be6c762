//! A real browser loads a page from a replay server.
//!
//! Our own client follows the recorded dependencies; a browser makes its own, from the recorded bodies, or from HTML in
//! their place ([`Spec::body`]). So this is the check on the replay, and the measure of what a person would see. Every
//! name is mapped to the server, which is told from others by the hash of its key, and everything goes through TLS, as
//! browsers have no other way to HTTP/2 and HTTP/3. Each load has a browser context of its own: no connection, cookie,
//! ticket or cached byte of an earlier one.
//!
//! The time is that between two marks of the browser's own clock: the first request is sent, the `load` event fires.
//! What scripts ask for later is not in it. It is waited for all the same, so that each load asks for the whole page.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Browser, BrowserError, Event, Options};
use crate::{Spec, synthetic_html::is_html};

/// The version of HTTP that the browser is to use.
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

    /// What Chromium calls it.
    fn protocol(self) -> &'static str {
        match self {
            Self::One => "http/1.1",
            Self::Two => "h2",
            Self::Three => "h3",
        }
    }
}

/// Nothing has to come for so long after the `load` event before what is missing is not waited for any more.
const QUIET: Duration = Duration::from_secs(1);

/// A browser that loads one page, again and again.
#[derive(Debug)]
pub struct Loader {
    browser: Browser,
    url: String,
    /// How many requests the page has.
    requests: usize,
    version: Version,
}

/// What a load took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// From the first request to the `load` event.
    pub took: Duration,
    /// Responses that came over the network.
    pub requests: usize,
    /// Addresses that got no answer, or the answer that there is none.
    pub missing: Vec<String>,
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
    /// key (its SubjectPublicKeyInfo) in base64; what the browser writes goes into `folder`; `place` puts it on its
    /// host.
    pub fn start(
        page: &Spec,
        version: Version,
        address: SocketAddr,
        key: &str,
        folder: PathBuf,
        place: impl FnOnce(&mut Command),
    ) -> Result<Self, BrowserError> {
        // Whom else the browser would like to ask on its own account, it does not find.
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
        Ok(Self { browser, url: url.unwrap_or_default(), requests: page.requests.len(), version })
    }

    /// Loads the page with nothing left of an earlier load; waits for so long at most.
    pub fn load(&mut self, patience: Duration) -> Result<Loaded, BrowserError> {
        let browser = &mut self.browser;
        let context = browser.call("", "Target.createBrowserContext", &json!({}))?["browserContextId"].take();
        let blank = json!({ "url": "about:blank", "browserContextId": context });
        let target = browser.call("", "Target.createTarget", &blank)?["targetId"].take();
        let attached = browser.call("", "Target.attachToTarget", &json!({ "targetId": target, "flatten": true }))?;
        let session = attached["sessionId"].as_str().unwrap_or_default().to_owned();
        browser.call(&session, "Network.enable", &json!({}))?;
        browser.call(&session, "Page.enable", &json!({}))?;
        let loaded = self.navigate(&session, Instant::now() + patience);
        self.browser.call("", "Target.disposeBrowserContext", &json!({ "browserContextId": context }))?;
        let late = || format!("it had not loaded after {patience:?}");
        loaded?.ok_or_else(|| BrowserError::Load { url: self.url.clone(), said: late() })
    }

    /// Follows a load to its end; none, if that had not come by `until`.
    fn navigate(&mut self, session: &str, until: Instant) -> Result<Option<Loaded>, BrowserError> {
        let failed = |said: String| BrowserError::Load { url: self.url.clone(), said };
        let navigated = self.browser.call(session, "Page.navigate", &json!({ "url": self.url }))?;
        if let Some(said) = navigated["errorText"].as_str().filter(|said| !said.is_empty()) {
            return Err(failed(said.to_owned()));
        }
        let mut begin = None;
        let mut loaded = Loaded { took: Duration::ZERO, requests: 0, missing: Vec::new() };
        // Requests without an end, and, once the `load` event has fired, for how long silence is borne.
        let (mut open, mut quiet) = (0, None);
        let mut own = Vec::new();
        while let Some(Event { session: whose, method, params }) =
            self.browser.event(quiet.unwrap_or(until).min(until))?
        {
            // What a context that is gone had still to say.
            if whose != session {
                continue;
            }
            // The tab's icon is asked for by nothing on the page, but by the browser.
            if params["type"] == "Other" && params["initiator"]["type"] == "other" {
                own.push(params["requestId"].clone());
            }
            if own.contains(&params["requestId"]) {
                continue;
            }
            let time = params["timestamp"].as_f64();
            match method.as_str() {
                "Network.requestWillBeSent" => {
                    begin = begin.or(time);
                    // One that was led elsewhere goes on under its name.
                    if params["redirectResponse"].is_object() {
                        loaded.requests += 1;
                    } else {
                        open += 1;
                    }
                }
                "Network.responseReceived" => {
                    let response = &params["response"];
                    let protocol = response["protocol"].as_str().unwrap_or_default();
                    let url = response["url"].as_str().unwrap_or_default();
                    if !url.starts_with("https:") {
                        continue;
                    }
                    if protocol != self.version.protocol() {
                        return Err(failed(format!("{url} came over {protocol}, not {}", self.version.protocol())));
                    }
                    loaded.requests += 1;
                    if response["status"] == 404 {
                        loaded.missing.push(url.to_owned());
                    }
                }
                "Network.loadingFinished" => open -= 1,
                "Network.loadingFailed" => {
                    open -= 1;
                    loaded.missing.push(params["errorText"].as_str().unwrap_or_default().to_owned());
                }
                "Page.loadEventFired" => {
                    let took = begin.zip(time).map(|(begin, end)| Duration::try_from_secs_f64(end - begin));
                    loaded.took = took.and_then(Result::ok).unwrap_or_default();
                    quiet = Some(Instant::now() + QUIET);
                }
                _ => {}
            }
            if quiet.is_some() && method.starts_with("Network.") {
                quiet = Some(Instant::now() + QUIET);
            }
            if quiet.is_some() && open <= 0 && loaded.requests >= self.requests {
                break;
            }
        }
        Ok(quiet.map(|_| loaded))
    }
}
