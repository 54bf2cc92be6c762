//! A page load as its client saw it: request by request, and in pictures.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use page::{
    Spec,
    browser::{Frame, load::Loaded},
    replay::Load,
    speed_index::speed_index,
};
use serde::{Deserialize, Serialize};

/// The maximum number of pictures of a film.
const MAX_PICTURES: usize = 12;

/// A page load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PageView {
    /// The time to the first contentful paint, in seconds; none if nothing is painted.
    pub fcp_s: Option<f64>,
    /// The time to the largest contentful paint.
    pub lcp_s: Option<f64>,
    /// The Speed Index, of the load that was filmed; none without a film.
    #[serde(default)]
    pub speed_index_s: Option<f64>,
    /// The requests.
    pub requests: Vec<PageRequest>,
    /// Pictures of the page, of a load before the clock started; empty if nothing is painted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub film: Vec<Picture>,
}

/// A request of a page load. Times are in seconds from the first one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PageRequest {
    /// Its URL; of our own client, its id in the spec.
    pub name: String,
    /// When it was wanted.
    pub start_s: f64,
    /// When the head of its response arrived.
    pub head_s: Option<f64>,
    /// When its last byte arrived.
    pub end_s: Option<f64>,
    /// Whether the body came from the client's cache.
    #[serde(default)]
    pub cached: bool,
}

/// A picture of a page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// When it was shown, in seconds from the first request.
    pub at_s: f64,
    /// A JPEG in base64.
    pub jpeg: String,
}

impl PageView {
    /// What a browser saw.
    pub(crate) fn of_browser(loaded: &Loaded, film: &[Frame]) -> Self {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let requests = loaded.fetches.iter().map(|fetch| PageRequest {
            name: fetch.url.clone(),
            start_s: fetch.started.as_secs_f64(),
            head_s: seconds(fetch.head),
            end_s: seconds(fetch.end),
            cached: fetch.is_cached,
        });
        Self {
            fcp_s: seconds(loaded.first_contentful_paint),
            lcp_s: seconds(loaded.largest_contentful_paint),
            speed_index_s: seconds(speed_index(film)),
            requests: requests.collect(),
            film: chosen(film).map(Picture::from).collect(),
        }
    }

    /// What our own client saw.
    pub(crate) fn of_client(page: &Spec, load: &Load) -> Self {
        let requests = page.requests.iter().zip(&load.timings).map(|(request, timing)| PageRequest {
            name: request.id.clone(),
            start_s: timing.wanted.as_secs_f64(),
            head_s: Some(timing.head.as_secs_f64()),
            end_s: Some(timing.end.as_secs_f64()),
            cached: false,
        });
        Self { requests: requests.collect(), ..Self::default() }
    }
}

/// The first and the last picture, and some between them.
fn chosen(film: &[Frame]) -> impl Iterator<Item = &Frame> {
    let count = film.len().min(MAX_PICTURES);
    (0..count).map(move |number| &film[if count < 2 { 0 } else { number * (film.len() - 1) / (count - 1) }])
}

impl From<&Frame> for Picture {
    fn from(frame: &Frame) -> Self {
        Self { at_s: frame.at.as_secs_f64(), jpeg: STANDARD.encode(&frame.jpeg) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn film_keeps_its_ends() {
        let frames = |count: u64| -> Vec<Frame> {
            (0..count).map(|ms| Frame { at: Duration::from_millis(ms), jpeg: vec![] }).collect()
        };
        for count in [0, 1, 2, 12, 13, 200] {
            let film = frames(count);
            let at: Vec<u128> = chosen(&film).map(|frame| frame.at.as_millis()).collect();
            assert_eq!(at.len(), film.len().min(MAX_PICTURES));
            assert!(at.is_sorted_by(|a, b| a < b), "{at:?}");
            let ends = (count > 0).then(|| [0, u128::from(count - 1)]);
            assert_eq!(at.first().zip(at.last()).map(|(first, last)| [*first, *last]), ends);
        }
    }
}
