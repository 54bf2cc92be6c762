//! Latencies that Chromium emulates: how much later than the request it delivers each response.

use std::time::Duration;

use serde_json::{Value, json};
use url::{Position, Url};

/// The least time between a request and the head of its response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Latency {
    /// For all responses but the late ones.
    pub(crate) general: Duration,
    /// For the late ones.
    pub(crate) late: Duration,
    /// Their URLs, with any query.
    pub(crate) late_urls: Vec<Url>,
}

impl Latency {
    /// The latency of a URL.
    pub(crate) fn of(&self, url: &str) -> Duration {
        let path = |url: &Url| url[..Position::AfterPath].to_owned();
        let is_late = Url::parse(url).is_ok_and(|url| self.late_urls.iter().any(|late| path(late) == path(&url)));
        if is_late { self.late } else { self.general }
    }

    /// Chromium's command for it. The first rule that matches a URL holds.
    pub(crate) fn command(&self) -> (&'static str, Value) {
        let rule = |pattern: String, latency: Duration| {
            let (ms, unlimited) = (latency.as_millis() as u64, -1);
            json!({
                "urlPattern": pattern,
                "latency": ms,
                "downloadThroughput": unlimited,
                "uploadThroughput": unlimited,
            })
        };
        let late = self.late_urls.iter().map(|url| rule(pattern(url), self.late));
        let rules: Vec<Value> = late.chain([rule(String::new(), self.general)]).collect();
        let name = "Network.emulateNetworkConditionsByRule";
        (name, json!({ "emulateOfflineServiceWorker": false, "matchedNetworkConditions": rules }))
    }
}

/// The pattern of a URL with any query (WHATWG, "URL Pattern": a backslash escapes a character of its syntax, and what is
/// behind the last component given is a wildcard).
fn pattern(url: &Url) -> String {
    let escape = |text: &str| -> String {
        text.chars().flat_map(|c| "+*?:{}()\\".contains(c).then_some('\\').into_iter().chain([c])).collect()
    };
    let (host, path) = (url.host_str().unwrap_or_default(), url.path());
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}{}?*", url.scheme(), escape(host), escape(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_urls_have_a_latency_of_their_own() {
        let script = Url::parse("https://a.example:8443/a(1)+b.js?v=2").unwrap();
        let (general, late) = (Duration::from_millis(100), Duration::from_millis(400));
        let latency = Latency { general, late, late_urls: vec![script] };
        assert_eq!(latency.of("https://a.example:8443/a(1)+b.js"), late);
        assert_eq!(latency.of("https://a.example:8443/a(1)+b.js?v=3"), late);
        assert_eq!(latency.of("https://a.example/a(1)+b.js"), general);
        assert_eq!(latency.of("data:,"), general);
        let (_, params) = latency.command();
        let rules = &params["matchedNetworkConditions"];
        assert_eq!(rules[0]["urlPattern"], r"https://a.example:8443/a\(1\)\+b.js?*");
        assert_eq!((&rules[0]["latency"], &rules[1]["latency"]), (&json!(400), &json!(100)));
        assert_eq!(rules[1]["urlPattern"], "", "all others");
        assert_eq!(pattern(&Url::parse("http://[::1]/").unwrap()), r"http://[\:\:1]/?*");
    }
}
