//! When a load is complete: the `load` event has fired, and the network has been quiet for a while.
//!
//! Some requests never end, or never stop: event streams, long polls, polls. They would keep a page busy for ever, so they
//! do not count. It uses no browser and no clock of its own: events and times go in.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use serde_json::Value;

/// A loaded page is complete after this time without network events.
const QUIET: Duration = Duration::from_secs(1);

/// So long after the `load` event, or after its own start, an unfinished request is one that never ends.
const ENDLESS: Duration = Duration::from_secs(10);

/// After the `load` event, requests for the same path beyond this number are polls.
const POLLS: u32 = 2;

/// The progress of a load.
#[derive(Debug)]
pub(crate) struct Completion {
    /// When the `load` event fired.
    loaded: Option<Instant>,
    /// The last network event that counts.
    last: Instant,
    /// The unfinished requests that count, with their starts.
    open: HashMap<String, Instant>,
    /// How often each path was requested after the `load` event.
    paths: HashMap<String, u32>,
}

impl Completion {
    pub(crate) fn new(now: Instant) -> Self {
        Self { loaded: None, last: now, open: HashMap::new(), paths: HashMap::new() }
    }

    /// The page's `load` event.
    pub(crate) fn load(&mut self, now: Instant) {
        self.loaded = Some(now);
    }

    /// Whether the `load` event has fired.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.is_some()
    }

    /// Whether nothing that counts is unfinished.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// An event of the network domain.
    pub(crate) fn take(&mut self, method: &str, params: &Value, now: Instant) {
        let Some(id) = params["requestId"].as_str() else { return };
        let counts = match method {
            "Network.requestWillBeSent" => self.open.contains_key(id) || self.opens(id, params, now),
            "Network.responseReceived" if is_stream(params) => self.open.remove(id).is_some(),
            "Network.loadingFinished" | "Network.loadingFailed" => self.open.remove(id).is_some(),
            "Network.responseReceived" | "Network.dataReceived" => {
                self.open.get(id).is_some_and(|started| self.counts_until(*started).is_none_or(|until| now < until))
            }
            _ => false,
        };
        if counts {
            self.last = now;
        }
    }

    /// When it is complete if no other event arrives; none before the `load` event.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.loaded?;
        let open = self.open.values().filter_map(|started| self.counts_until(*started));
        Some(open.fold(self.last + QUIET, Instant::max))
    }

    fn opens(&mut self, id: &str, params: &Value, now: Instant) -> bool {
        if self.loaded.is_some() {
            let url = params["request"]["url"].as_str().unwrap_or_default();
            let path = url.split(['?', '#']).next().unwrap_or_default();
            let times = self.paths.entry(path.to_owned()).or_default();
            *times += 1;
            if *times > POLLS {
                return false;
            }
        }
        self.open.insert(id.to_owned(), now);
        true
    }

    /// Until when a request counts; none: without limit.
    fn counts_until(&self, started: Instant) -> Option<Instant> {
        self.loaded.map(|loaded| loaded.max(started) + ENDLESS)
    }
}

/// Whether a response has no end by its type.
pub(crate) fn is_stream(params: &Value) -> bool {
    let kind = params["response"]["mimeType"].as_str().unwrap_or_default();
    params["type"] == "EventSource" || matches!(kind, "text/event-stream" | "multipart/x-mixed-replace")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    struct Load(Completion, Instant);

    impl Load {
        fn new() -> Self {
            let start = Instant::now();
            Self(Completion::new(start), start)
        }

        fn at(&mut self, ms: u32, method: &str, params: &Value) {
            self.0.take(&format!("Network.{method}"), params, self.1 + MS * ms);
        }

        fn request(&mut self, ms: u32, id: &str, path: &str) {
            self.at(
                ms,
                "requestWillBeSent",
                &json!({ "requestId": id, "request": { "url": format!("http://a{path}") } }),
            );
        }

        fn load(&mut self, ms: u32) {
            self.0.load(self.1 + MS * ms);
        }

        fn ends(&self) -> Option<u128> {
            self.0.ends().map(|ends| (ends - self.1).as_millis())
        }
    }

    #[test]
    fn load_is_complete_after_a_quiet_second() {
        let mut load = Load::new();
        load.request(0, "1", "/");
        load.at(50, "loadingFinished", &json!({ "requestId": "1" }));
        assert_eq!(load.ends(), None, "before the load event");
        load.load(100);
        assert_eq!(load.ends(), Some(1050));
        load.request(900, "2", "/late");
        assert_eq!(load.ends(), Some(10_900));
        load.at(1500, "dataReceived", &json!({ "requestId": "2" }));
        load.at(2000, "loadingFailed", &json!({ "requestId": "2" }));
        assert_eq!(load.ends(), Some(3000));
        assert!(load.0.is_idle() && load.0.is_loaded());
    }

    #[test]
    fn endless_responses_do_not_hold_a_load_up() {
        let mut load = Load::new();
        load.request(0, "1", "/events");
        load.request(0, "2", "/long-poll");
        load.at(10, "responseReceived", &json!({ "requestId": "1", "type": "EventSource" }));
        load.load(20);
        assert_eq!(load.ends(), Some(10_020), "the long poll counts for ten seconds");
        for ms in (100..20_000).step_by(100) {
            load.at(ms, "dataReceived", &json!({ "requestId": "1" }));
            load.at(ms, "dataReceived", &json!({ "requestId": "2" }));
        }
        assert_eq!(load.ends(), Some(11_000), "then neither does");
    }

    #[test]
    fn polls_do_not_hold_a_load_up() {
        let mut load = Load::new();
        load.load(0);
        for number in 0..20 {
            let id = number.to_string();
            load.request(number * 500, &id, &format!("/poll?{number}"));
            load.at(number * 500 + 10, "loadingFinished", &json!({ "requestId": id }));
        }
        assert_eq!(load.ends(), Some(1510), "the second one is the last that counts");
    }
}
