//! How a browser's load differs from the recording.
//!
//! Most differences do not matter: a beacon with another time in its query, a font that is fetched twice. They are listed.
//! A load is another one than the recorded one if requests that delay the `load` event are missing: then its time says
//! nothing about the page.

use std::fmt;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::{Spec, replay::Index};

/// The maximum share of a page that a load may lack: of the requests that delay the `load` event, and of their bytes.
pub const MAX_MISSING: f64 = 0.1;

/// How a request differs from the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It is not in the recording; the server answered 404.
    NotRecorded,
    /// It is not in the recording; the recorded request of the same path with the nearest query answered it.
    Nearest,
    /// It was sent more often than recorded.
    Repeated,
    /// It is in the recording, and was not sent.
    NotSent,
    /// It has no response.
    Failed,
}

/// A difference between a load and the recording.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Deviation {
    /// How it differs.
    pub kind: Kind,
    /// The URL that the browser requested, or the recorded one if it was not sent.
    pub url: String,
    /// What answered it, or the browser's error; empty if there is nothing to add.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, url, detail } = self;
        match kind {
            Kind::NotRecorded => write!(f, "{url} is not recorded (404)"),
            Kind::Nearest => write!(f, "{url} was answered by {detail}"),
            Kind::Repeated => write!(f, "{url} was requested more often than recorded"),
            Kind::NotSent => write!(f, "{url} was not requested"),
            Kind::Failed => write!(f, "{url} failed: {detail}"),
        }
    }
}

/// A request of the browser over the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) url: String,
    pub(super) method: String,
    /// Its error, if it has no response.
    pub(super) failed: Option<String>,
    /// Whether its response has begun.
    pub(super) has_response: bool,
    /// Whether a cache or a service worker answered it.
    pub(super) is_cached: bool,
    /// Whether the browser itself redirected it.
    pub(super) is_internal: bool,
}

/// The differences of a load, in the order of its requests, those that were not sent last. The error says why the load is
/// none of this page.
pub(super) fn find(spec: &Spec, sent: &[Sent]) -> Result<Vec<Deviation>, String> {
    let (index, group_of) = Index::new(spec);
    let mut left = vec![0usize; index.groups()];
    for group in &group_of {
        left[*group] += 1;
    }
    let first = |group: usize| &spec.requests[group_of.iter().position(|of| *of == group).unwrap_or(0)];
    let mut deviations = Vec::new();
    let mut cached = Vec::new();
    for Sent { url, method, failed, is_cached, is_internal, .. } in sent {
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && !is_internal);
        let Some(parsed) = parsed else { continue };
        let mut deviates = |kind, detail| deviations.push(Deviation { kind, url: url.clone(), detail });
        let found = index.find(&authority(&parsed), &target(&parsed), method);
        if *is_cached {
            cached.extend(found.filter(|found| found.is_exact));
            continue;
        }
        match (found, failed) {
            (None, _) if parsed.path() == ICON => {}
            (None, Some(failed)) => deviates(Kind::NotRecorded, failed.clone()),
            (None, None) => deviates(Kind::NotRecorded, String::new()),
            (Some(_), Some(failed)) => deviates(Kind::Failed, failed.clone()),
            (Some(found), None) => {
                if !found.is_exact {
                    deviates(Kind::Nearest, address(first(found.group)));
                } else if left[found.group] == 0 {
                    deviates(Kind::Repeated, String::new());
                }
                left[found.group] = left[found.group].saturating_sub(1);
            }
        }
    }
    // What was not requested from the network, as in a repeat view, is not missing.
    for found in cached {
        left[found.group] = left[found.group].saturating_sub(1);
    }
    let missing = |at: &usize| {
        // Of equal requests, the last ones are missing.
        let later = group_of[at + 1..].iter().filter(|group| **group == group_of[*at]).count();
        later < left[group_of[*at]]
    };
    let is_icon = |at: &usize| spec.requests[*at].path == ICON;
    let missing: Vec<usize> = (0..spec.requests.len()).filter(|at| missing(at) && !is_icon(at)).collect();
    let failed =
        |url: &String| deviations.iter().any(|known: &Deviation| known.kind == Kind::Failed && known.url == *url);
    let not_sent = missing.iter().map(|at| address(&spec.requests[*at])).filter(|url| !failed(url));
    let not_sent: Vec<_> = not_sent.map(|url| Deviation { kind: Kind::NotSent, url, detail: String::new() }).collect();
    deviations.extend(not_sent);
    judge(spec, &missing)?;
    Ok(deviations)
}

/// The icon that a browser requests by itself, once for a profile and when it has time: in a load or not.
const ICON: &str = "/favicon.ico";

/// The number of missing requests that an error names.
const NAMED: usize = 3;

/// Fails if too much of the page is missing.
fn judge(spec: &Spec, missing: &[usize]) -> Result<(), String> {
    let size = |at: usize| spec.requests[at].response.size() as f64;
    let delaying = |at: &usize| spec.requests[*at].delays_load;
    let all: Vec<usize> = (0..spec.requests.len()).filter(delaying).collect();
    let lost: Vec<usize> = missing.iter().copied().filter(delaying).collect();
    let bytes = |of: &[usize]| of.iter().map(|at| size(*at)).sum::<f64>();
    let is_too_much = |lost: f64, all: f64| lost > all * MAX_MISSING;
    if !is_too_much(lost.len() as f64, all.len() as f64) && !is_too_much(bytes(&lost), bytes(&all)) {
        return Ok(());
    }
    let named: Vec<String> = lost.iter().take(NAMED).map(|at| address(&spec.requests[*at])).collect();
    let more = lost.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(format!(
        "{} of the {} requests that delay its load event ({:.0} % of their bytes) were not sent or failed: {}{more}",
        lost.len(),
        all.len(),
        100.0 * bytes(&lost) / bytes(&all).max(1.0),
        named.join(", ")
    ))
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn target(url: &Url) -> String {
    url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()))
}

fn address(request: &crate::Request) -> String {
    format!("https://{}{}", request.host, request.path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Kind, Sent, Spec, find};

    const PAGE: &str = r#"
schema = "longhaul.page/1"
title = "Small"
[[request]]
id = "page"
host = "a.example"
path = "/"
connection = 0
response = { body = 900 }
"#;

    #[test]
    fn icon_that_the_browser_requests_by_itself_is_no_deviation() {
        let spec = Spec::parse(PAGE, Path::new("small.toml")).unwrap();
        let sent = ["/", "/favicon.ico", "/other"].map(|path| Sent {
            url: format!("https://a.example{path}"),
            method: "GET".to_owned(),
            failed: None,
            has_response: true,
            is_cached: false,
            is_internal: false,
        });
        let found = find(&spec, &sent).unwrap();
        let found: Vec<_> = found.iter().map(|one| (one.kind, one.url.as_str())).collect();
        assert_eq!(found, [(Kind::NotRecorded, "https://a.example/other")]);
    }
}
