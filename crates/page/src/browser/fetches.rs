//! The times of a load's requests, as the browser reports them.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

use super::Event;

/// A request of a load. Times count from the first request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Its URL.
    pub url: String,
    /// When the browser wanted it.
    pub started: Duration,
    /// When the head of the response arrived; none if it did not.
    pub head: Option<Duration>,
    /// When the last byte arrived, or the request failed; none if neither happened during the load.
    pub end: Option<Duration>,
    /// Whether the body came from the browser's cache.
    pub is_cached: bool,
}

/// The requests so far, in the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct Fetches {
    all: Vec<Fetch>,
    /// The latest one of an id: a redirected request keeps it.
    latest: HashMap<String, usize>,
    /// When the first one began, on the browser's clock.
    begin: Option<f64>,
}

impl Fetches {
    pub(super) fn take(&mut self, Event { method, params, .. }: &Event) {
        let (Some(id), time) = (params["requestId"].as_str(), params["timestamp"].as_f64()) else { return };
        let begin = *self.begin.get_or_insert(time.unwrap_or_default());
        let since = |time: f64| Duration::try_from_secs_f64(time - begin).unwrap_or_default();
        let now = time.map(since);
        let fetch = self.latest.get(id).and_then(|index| self.all.get_mut(*index));
        match (method.as_str(), fetch) {
            ("Network.requestWillBeSent", before) => {
                if let Some(before) = before {
                    let redirect = &params["redirectResponse"];
                    // Two targets report it.
                    if !redirect.is_object() {
                        return;
                    }
                    before.respond(redirect, since);
                    before.end = now;
                }
                let url = params["request"]["url"].as_str().unwrap_or_default().to_owned();
                self.latest.insert(id.to_owned(), self.all.len());
                self.all.push(Fetch { url, started: now.unwrap_or_default(), ..Fetch::default() });
            }
            ("Network.responseReceived", Some(fetch)) => {
                fetch.respond(&params["response"], since);
                fetch.head = fetch.head.or(now);
            }
            ("Network.requestServedFromCache", Some(fetch)) => fetch.is_cached = true,
            ("Network.loadingFinished" | "Network.loadingFailed", Some(fetch)) => fetch.end = now,
            _ => {}
        }
    }

    /// The requests over the network and from the cache; others (`data:`) are left out.
    pub(super) fn finish(self) -> Vec<Fetch> {
        self.all.into_iter().filter(|fetch| fetch.url.starts_with("http")).collect()
    }
}

impl Fetch {
    fn respond(&mut self, response: &Value, since: impl Fn(f64) -> Duration) {
        let timing = &response["timing"];
        let ms = timing["receiveHeadersEnd"].as_f64().filter(|ms| *ms >= 0.0);
        self.head = timing["requestTime"].as_f64().zip(ms).map(|(from, ms)| since(from + ms / 1e3));
        self.is_cached |= response["fromDiskCache"] == true;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn redirect_is_a_request_of_its_own() {
        let mut fetches = Fetches::default();
        let timing = |head: f64| json!({ "requestTime": 10.0, "receiveHeadersEnd": head });
        for (method, params) in [
            ("requestWillBeSent", json!({ "requestId": "1", "timestamp": 10.0, "request": { "url": "http://a/" } })),
            (
                "requestWillBeSent",
                json!({ "requestId": "1", "timestamp": 10.2, "request": { "url": "http://a/b" },
                        "redirectResponse": { "timing": timing(150.0) } }),
            ),
            (
                "responseReceived",
                json!({ "requestId": "1", "timestamp": 10.5, "response": { "timing": timing(400.0) } }),
            ),
            ("loadingFinished", json!({ "requestId": "1", "timestamp": 10.6 })),
            ("requestWillBeSent", json!({ "requestId": "2", "timestamp": 10.6, "request": { "url": "http://a/c" } })),
            ("requestServedFromCache", json!({ "requestId": "2" })),
            ("requestWillBeSent", json!({ "requestId": "3", "timestamp": 10.6, "request": { "url": "data:," } })),
        ] {
            fetches.take(&Event { session: String::new(), method: format!("Network.{method}"), params });
        }
        let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64().mul_add(1e3, 0.5) as u64);
        let all = fetches.finish();
        let times = all.iter().map(|one| (ms(Some(one.started)), ms(one.head), ms(one.end), one.is_cached));
        let times: Vec<_> = times.collect();
        assert_eq!(times[0], (Some(0), Some(150), Some(200), false));
        assert_eq!(times[1], (Some(200), Some(400), Some(600), false));
        assert_eq!(times[2], (Some(600), None, None, true));
        assert_eq!(times.len(), 3);
    }
}
