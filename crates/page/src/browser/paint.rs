//! When a page becomes visible: first and largest contentful paint (W3C: Paint Timing, Largest Contentful Paint), and
//! pictures of it.

use std::time::{Duration, Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Browser, BrowserError, Event};

/// The width and height of a picture, at most, in pixels.
const SIZE: [u32; 2] = [320, 240];

/// The quality of its JPEG, of 100.
const QUALITY: u32 = 40;

/// The maximum number of pictures of a load.
const MAX_FRAMES: usize = 200;

/// Returns the times of both paints since 1970 in milliseconds, or null. The page may be painted only after it is loaded,
/// so this waits until nothing more is painted for a while: 200 ms, and 1.5 s for the first paint. Screens of 60 Hz are
/// painted every 17 ms; a busy machine may take longer.
const PAINTS: &str = "new Promise(done => {
    const largest = [];
    const observer = new PerformanceObserver(list => largest.push(...list.getEntries()));
    observer.observe({ type: 'largest-contentful-paint', buffered: true });
    const latest = entries => entries.length > 0 ? performance.timeOrigin + entries.at(-1).startTime : null;
    const begin = performance.now();
    let count = 0, since = begin;
    const look = () => {
        const now = performance.now(), first = performance.getEntriesByName('first-contentful-paint');
        if (largest.length + first.length > count) [count, since] = [largest.length + first.length, now];
        if (now - since < (first.length > 0 ? 200 : 1500)) return setTimeout(look, 20);
        observer.disconnect();
        done([latest(first), latest(largest)]);
    };
    look();
})";

/// A picture of the page during its load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// When it was shown, from the first request.
    pub at: Duration,
    /// The picture.
    pub jpeg: Vec<u8>,
}

/// The times of the first and the largest contentful paint, from `begin` (since 1970); none if the page has none.
pub(super) fn paints(browser: &mut Browser, session: &str, begin: f64) -> Result<[Option<Duration>; 2], BrowserError> {
    let evaluated = json!({ "expression": PAINTS, "returnByValue": true, "awaitPromise": true });
    let result = browser.call(session, "Runtime.evaluate", &evaluated)?;
    let times = &result["result"]["value"];
    Ok([0, 1].map(|index| since(times[index].as_f64().map(|ms| ms / 1e3), begin)))
}

fn since(time: Option<f64>, begin: f64) -> Option<Duration> {
    time.and_then(|time| Duration::try_from_secs_f64(time - begin).ok())
}

/// Pictures of a load.
#[derive(Debug, Default)]
pub(super) struct Film {
    /// Seconds since 1970, and the picture in base64.
    frames: Vec<(f64, String)>,
}

impl Film {
    pub(super) fn start(browser: &mut Browser, session: &str) -> Result<Self, BrowserError> {
        let [width, height] = SIZE;
        let wanted = json!({ "format": "jpeg", "quality": QUALITY, "maxWidth": width, "maxHeight": height });
        browser.call(session, "Page.startScreencast", &wanted)?;
        Ok(Self::default())
    }

    /// Takes an event into account; the browser waits for the confirmation of each picture.
    pub(super) fn take(
        &mut self,
        browser: &mut Browser,
        Event { session, method, params }: &Event,
    ) -> Result<(), BrowserError> {
        if method != "Page.screencastFrame" {
            return Ok(());
        }
        if let (Some(time), Some(data)) = (params["metadata"]["timestamp"].as_f64(), params["data"].as_str())
            && self.frames.len() < MAX_FRAMES
            && self.frames.last().is_none_or(|(_, last)| last != data)
        {
            self.frames.push((time, data.to_owned()));
        }
        let number: &Value = &params["sessionId"];
        browser.send_only(session, "Page.screencastFrameAck", &json!({ "sessionId": number }))
    }

    /// The pictures after `begin` (since 1970), those among the events in the queue too.
    pub(super) fn finish(
        mut self,
        browser: &mut Browser,
        session: &str,
        begin: f64,
    ) -> Result<Vec<Frame>, BrowserError> {
        while let Some(event) = browser.event(Instant::now())? {
            if event.session == session {
                self.take(browser, &event)?;
            }
        }
        let frame = |(time, data): (f64, String)| {
            Some(Frame { at: since(Some(time), begin)?, jpeg: STANDARD.decode(data).ok()? })
        };
        Ok(self.frames.into_iter().filter_map(frame).collect())
    }
}
