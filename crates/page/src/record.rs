//! Recording: Chromium loads a page several times, and what its loads have in common becomes a spec
//! ([`observed::stable`]).
//!
//! Chromium reports the initiator of each request: the parser, with line and column of the reference, or a script with
//! its stack. So dependencies need not be guessed from times. The cache is off. Frames of other sites and workers,
//! which run in processes of their own, are recorded as well. `Date` and `Math.random` are deterministic, so that a
//! replay's browser requests the same URLs. Recording ends when the page has loaded and the network has been quiet for a
//! while; requests without end do not count for that.

mod exchange;
mod exchanges;

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime},
};

use chrono::{DateTime, Utc};
use serde_json::json;
use url::Url;

use self::exchanges::Exchanges;
use crate::{
    browser::{Browser, BrowserError, Options, completion::Completion, latency::Latency, targets::Targets},
    import::{
        ImportError, Imported,
        observed::{self, Observed, rounded},
    },
};

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

/// The latencies that recordings emulate, in turn: of scripts, and of everything else. Over a short link, a page's scripts,
/// styles and frames all arrive at once and compete for the processor, and all is there before it is used. What a browser
/// computes while it waits, and what waits for what, shows only over a long one; what does not wait for scripts, only if these
/// arrive later than everything else.
const LATENCIES: [Option<(Duration, Duration)>; 3] = [
    None,
    Some((Duration::from_secs(1), Duration::from_millis(100))),
    Some((Duration::from_millis(400), Duration::from_millis(400))),
];

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
    // The same for all, so that they request the same URLs.
    let clock = DateTime::<Utc>::from(SystemTime::now()).timestamp_millis();
    let count = runs.max(1) as usize;
    let mut runs: Vec<Run> = Vec::with_capacity(count);
    for number in 0..count {
        let latency = LATENCIES[number % LATENCIES.len()].map(|(late, general)| {
            let late_urls = runs.first().map(Run::scripts).unwrap_or_default();
            Latency { general, late, late_urls }
        });
        runs.push(observe(url, clock, latency, timeout, options, stop)?);
    }
    let mut notes: Vec<String> = runs.iter_mut().flat_map(|run| std::mem::take(&mut run.notes)).collect();
    notes.sort();
    notes.dedup();
    let (title, source) = runs.first_mut().map(|run| (run.title.clone(), run.source.clone())).unwrap_or_default();
    let compute = runs.iter().filter_map(Run::last_computation).min();
    let all = runs.into_iter().map(|run| run.observed).collect();
    let mut imported = observed::stable(all, title, source, path)?;
    imported.spec.recorded_at = DateTime::from_timestamp_millis(clock);
    imported.spec.compute = compute.unwrap_or_default();
    imported.notes.append(&mut notes);
    Ok(imported)
}

/// One recording.
struct Run {
    observed: Vec<Observed>,
    /// The time of the `load` event, if it fired.
    loaded: Option<Duration>,
    title: String,
    source: String,
    notes: Vec<String>,
}

impl Run {
    /// The time between the last script or document that the `load` event waited for and the event; none if it did not
    /// fire.
    fn last_computation(&self) -> Option<Duration> {
        let ends = self.observed.iter().filter(|one| one.delays_load && one.is_script()).map(|one| one.end);
        Some(rounded(self.loaded?.saturating_sub(ends.max()?)))
    }

    /// The URLs of its scripts.
    fn scripts(&self) -> Vec<Url> {
        let is_script = |one: &&Observed| one.is_script() && !one.is_html();
        self.observed.iter().filter(is_script).map(|one| one.url.clone()).collect()
    }
}

/// Records the page once, at the time `clock`, in milliseconds since 1970.
fn observe(
    url: &Url,
    clock: i64,
    latency: Option<Latency>,
    timeout: Duration,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Run, RecordError> {
    let mut browser = Browser::start(options, |_| {})?;
    let session = browser.page()?;
    let version = browser.call("", "Browser.getVersion", &json!({}))?;
    let mut exchanges = Exchanges::new(latency.clone().unwrap_or_default());
    let targets = Targets { records: true, clock: Some(clock), latency };
    let is_complete = load(&mut browser, &session, url, &targets, &mut exchanges, timeout, stop)?;
    let mut notes = Vec::new();
    if !is_complete {
        notes.push(format!("the page was not complete after {timeout:?}; the spec has the requests up to then"));
    }
    let title = browser.call(&session, "Runtime.evaluate", &json!({ "expression": "document.title" }))?;
    let title =
        title["result"]["value"].as_str().filter(|title| !title.trim().is_empty()).unwrap_or(url.as_str()).to_owned();
    exchanges.get_bodies(&mut browser);
    drop(browser);
    let product = version["product"].as_str().unwrap_or("Chromium");
    let source = format!("Recorded from {url} with {product}.");
    let loaded = exchanges.load_event();
    let observed = exchanges.observed(&mut notes);
    Ok(Run { observed, loaded, title, source, notes })
}

/// Adds what to do about a certificate.
fn with_advice(error: BrowserError) -> BrowserError {
    match error {
        BrowserError::Load { url, said } if said.contains("ERR_CERT_") => {
            let said = format!("{said}; trust its authority with --ca FILE, or any certificate with --insecure");
            BrowserError::Load { url, said }
        }
        other => other,
    }
}

/// Loads the page until it is complete and quiet, for at most `timeout`. Returns whether its `load` event has fired.
fn load(
    browser: &mut Browser,
    session: &str,
    url: &Url,
    targets: &Targets,
    exchanges: &mut Exchanges,
    timeout: Duration,
    stop: &AtomicBool,
) -> Result<bool, RecordError> {
    targets.prepare(browser, session)?;
    let deadline = Instant::now() + timeout;
    let mut completion = Completion::new(Instant::now());
    browser.navigate(session, url.as_str()).map_err(with_advice)?;
    loop {
        let wait = completion.ends().map_or(deadline, |ends| ends.min(deadline));
        let now = Instant::now();
        if now >= wait {
            return Ok(completion.is_loaded());
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RecordError::Stopped);
        }
        let Some(event) = browser.event(wait.min(now + STOP_POLL))? else { continue };
        Browser::check(&event, session, url.as_str())?;
        if let Some(attached) = targets.attached(browser, &event)? {
            exchanges.attached(attached);
        } else if event.method == "Page.loadEventFired" && event.session == session {
            completion.load(Instant::now());
            exchanges.loaded(&event.params);
        } else if event.method.starts_with("Network.") {
            completion.take(&event.method, &event.params, Instant::now());
            exchanges.take(&event.session, &event.method, &event.params);
        }
    }
}
