//! The targets of a page: besides the page itself, its frames of other sites and its workers, which run in processes or
//! threads of their own.
//!
//! Chromium attaches to each and pauses it before it runs, so that no request of it is missed. A paused target does not
//! answer everything: a frame's renderer begins only when the frame is resumed. So all commands are sent at once, the one
//! that resumes it last, and no response is awaited; Chromium takes them in order. A client that waits for one of the
//! responses first waits for ever.
//!
//! A frame, a dedicated worker or a service worker is attached by the session of the document or worker that created it. A
//! shared worker belongs to no page, so the browser's own session attaches it. (That could attach service workers as well,
//! but too late for the request of their script.)

use serde_json::{Value, json};

use super::{Browser, BrowserError, Event, determinism, latency::Latency};

/// What to enable in each target.
#[derive(Debug, Clone, Default)]
pub(crate) struct Targets {
    /// Record bodies: keep them, bypass the cache, and note the stacks of asynchronous callbacks.
    pub(crate) records: bool,
    /// The time that `Date` begins at, in milliseconds since 1970; `Math.random` is then deterministic too. None: both
    /// are the browser's own.
    pub(crate) clock: Option<i64>,
    /// The latencies to emulate, if any.
    pub(crate) latency: Option<Latency>,
}

/// A target other than the page itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    /// Its session.
    pub(crate) session: String,
    /// The URL of the script, if it is a worker of any kind; none: it is a frame.
    pub(crate) worker: Option<String>,
}

impl Targets {
    /// Prepares a page that has loaded nothing yet.
    pub(crate) fn prepare(&self, browser: &mut Browser, session: &str) -> Result<(), BrowserError> {
        for (method, params) in self.commands(None) {
            browser.call(session, method, &params)?;
        }
        let kinds = json!([{ "type": "shared_worker" }, { "exclude": true }]);
        browser.call("", "Target.setAutoAttach", &attach(&kinds)).map(drop)
    }

    /// Prepares and resumes the target of an event; none for other events, and for pages.
    pub(crate) fn attached(&self, browser: &mut Browser, event: &Event) -> Result<Option<Attached>, BrowserError> {
        let target = &event.params["targetInfo"];
        if event.method != "Target.attachedToTarget" || target["type"] == "page" {
            return Ok(None);
        }
        let session = event.params["sessionId"].as_str().unwrap_or_default().to_owned();
        let worker = target["url"].as_str().filter(|_| target["type"] != "iframe").map(str::to_owned);
        for (method, params) in self.commands(worker.as_deref()) {
            browser.send_only(&session, method, &params)?;
        }
        browser.send_only(&session, "Runtime.runIfWaitingForDebugger", &json!({}))?;
        Ok(Some(Attached { session, worker }))
    }

    /// The commands for a document, or for the worker at a URL.
    fn commands(&self, worker: Option<&str>) -> Vec<(&'static str, Value)> {
        let mut commands = Vec::new();
        if self.records {
            let room = json!({ "maxTotalBufferSize": 512 << 20, "maxResourceBufferSize": 128 << 20 });
            commands.push(("Network.enable", room));
            commands.push(("Network.setCacheDisabled", json!({ "cacheDisabled": true })));
            commands.push(("Debugger.enable", json!({})));
            commands.push(("Debugger.setSkipAllPauses", json!({ "skip": true })));
            commands.push(("Debugger.setAsyncCallStackDepth", json!({ "maxDepth": 32 })));
        } else {
            commands.push(("Network.enable", json!({})));
        }
        commands.extend(self.latency.as_ref().map(Latency::command));
        if worker.is_none() {
            commands.push(("Page.enable", json!({})));
        }
        if let Some(clock) = self.clock {
            let script = determinism::script(clock, worker);
            // A worker has one global scope, which exists already.
            commands.push(if worker.is_some() {
                ("Runtime.evaluate", json!({ "expression": script }))
            } else {
                ("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }))
            });
        }
        commands.push(("Target.setAutoAttach", attach(&json!([{}]))));
        commands
    }
}

fn attach(kinds: &Value) -> Value {
    json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true, "filter": kinds })
}
