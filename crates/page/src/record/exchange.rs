//! A request and its response, as Chromium reports them.

use std::time::Duration;

use ::bytes::Bytes;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize as _;
use serde_json::Value;

use super::exchanges::parsed;
use crate::import::{
    har::Caller,
    observed::{self, Content, Initiator, Observed, priority},
};

/// The types of resources that delay a document's `load` event (HTML, "delay the load event").
const DELAYING: [&str; 7] = ["Document", "Stylesheet", "Script", "Image", "Font", "Media", "TextTrack"];

/// A request and its response. Times are seconds of the browser's clock.
// One field for each thing that the events report; they arrive in any order.
#[derive(Default)]
pub(super) struct Exchange {
    /// The sessions that reported it, in this order.
    pub(super) sessions: Vec<String>,
    pub(super) id: String,
    pub(super) url: String,
    pub(super) method: String,
    pub(super) started: f64,
    first: Option<f64>,
    pub(super) end: Option<f64>,
    pub(super) failed: Option<String>,
    pub(super) initiator: Value,
    /// The resource type: `Document`, `Fetch`, …
    pub(super) kind: String,
    priority: String,
    pub(super) headers: Value,
    sent: Option<String>,
    response: Value,
    /// Whether it is answered without the network: by a cache, a service worker or the browser itself.
    pub(super) is_local: bool,
    /// Whether its response has no end by its type.
    pub(super) is_stream: bool,
    /// The received header fields, with those that scripts must not see.
    received_fields: Value,
    /// The size of the response's head, over HTTP/1.1.
    head: Option<usize>,
    status: Option<u16>,
    pub(super) transferred: Option<f64>,
    /// The number of body bytes received, decoded.
    pub(super) received: u64,
    bytes: Option<Bytes>,
}

impl Exchange {
    pub(super) fn new(session: &str, id: &str, params: &Value) -> Self {
        let request = &params["request"];
        Self {
            sessions: vec![session.to_owned()],
            id: id.to_owned(),
            url: request["url"].as_str().unwrap_or_default().to_owned(),
            method: request["method"].as_str().unwrap_or_default().to_owned(),
            started: params["timestamp"].as_f64().unwrap_or(0.0),
            initiator: params["initiator"].clone(),
            kind: params["type"].as_str().unwrap_or_default().to_owned(),
            priority: request["initialPriority"].as_str().unwrap_or_default().to_owned(),
            headers: request["headers"].clone(),
            sent: request["postData"].as_str().map(str::to_owned),
            ..Self::default()
        }
    }

    /// A session has reported it, the latest one last.
    pub(super) fn known_to(&mut self, session: &str) {
        if self.sessions.last().is_none_or(|last| last != session) {
            self.sessions.retain(|known| known != session);
            self.sessions.push(session.to_owned());
        }
    }

    /// The head of its response, which Chromium delivers at least `latency` after the request.
    pub(super) fn respond(&mut self, response: &Value, latency: Duration) {
        let timing = &response["timing"];
        let from = timing["requestTime"].as_f64();
        let at = |name: &str| Some(from? + timing[name].as_f64().filter(|ms| *ms >= 0.0)? / 1e3);
        let delivered = at("sendEnd").map(|sent| sent + latency.as_secs_f64());
        self.first = at("receiveHeadersEnd").map(|first| delivered.map_or(first, |delivered| first.max(delivered)));
        // HSTS and Content-Security-Policy change a URL by a redirect that no server sent.
        let internal = response["headers"].get("Non-Authoritative-Reason").is_some();
        let flags = ["fromDiskCache", "fromServiceWorker", "fromPrefetchCache"];
        self.is_local |= internal || flags.into_iter().any(|flag| response[flag] == true);
        self.response = response.clone();
    }

    pub(super) fn respond_extra(&mut self, params: &Value) {
        self.received_fields = params["headers"].clone();
        self.head = params["headersText"].as_str().map(str::len);
        self.status = params["statusCode"].as_u64().and_then(|code| u16::try_from(code).ok());
    }

    /// Whether a service worker answered it.
    pub(super) fn is_by_service_worker(&self) -> bool {
        self.response["fromServiceWorker"] == true
    }

    /// It is the request of a service worker that forwarded `original`.
    pub(super) fn forward(&mut self, original: Self) {
        (self.initiator, self.kind) = (original.initiator, original.kind);
        self.bytes = self.bytes.take().or(original.bytes);
        self.received = self.received.max(original.received);
    }

    /// Whether Chromium names nothing that caused it.
    pub(super) fn has_no_initiator(&self) -> bool {
        self.initiators().is_empty()
    }

    fn initiators(&self) -> Vec<Initiator> {
        Caller::deserialize(&self.initiator).map_or_else(|_| Vec::new(), |caller| caller.initiators())
    }

    /// Whether Chromium may return a body.
    pub(super) fn has_body(&self) -> bool {
        let is_finished = self.end.is_some() && self.failed.is_none() && self.transferred.is_some();
        is_finished || self.end.is_none() && self.is_stream
    }

    /// Takes the body from Chromium's answer.
    pub(super) fn set_body(&mut self, answer: &Value) {
        let encoded =
            answer["bufferedData"].as_str().or(answer["body"].as_str().filter(|_| answer["base64Encoded"] == true));
        let bytes = match encoded {
            Some(text) => STANDARD.decode(text).ok().map(Bytes::from),
            None => answer["body"].as_str().map(|text| Bytes::from(text.to_owned())),
        };
        // Of what a service worker stores or forwards, it returns nothing.
        self.bytes = bytes.filter(|bytes| !bytes.is_empty());
    }

    /// Whether a body was received that Chromium does not return.
    pub(super) fn is_lost(&self) -> bool {
        let is_bodiless = self.method == "HEAD" || matches!(self.status(), None | Some(204 | 300..400));
        self.bytes.is_none() && (self.received > 0 || !is_bodiless && self.told_size().is_some_and(|size| size > 0))
    }

    /// Takes the body of the same resource, which another request got.
    pub(super) fn take_body(&mut self, other: &Self) {
        self.bytes.clone_from(&other.bytes);
    }

    /// Whether its body is known.
    pub(super) fn is_body_known(&self) -> bool {
        self.bytes.is_some()
    }

    fn status(&self) -> Option<u16> {
        let told = || self.response["status"].as_u64().and_then(|status| status.try_into().ok());
        self.status.or_else(told).filter(|status| *status >= 200)
    }

    /// The header fields of the response.
    fn response_fields(&self) -> Vec<(String, String)> {
        fields(if self.received_fields.is_object() { &self.received_fields } else { &self.response["headers"] })
    }

    fn told_size(&self) -> Option<u64> {
        observed::field(&self.response_fields(), "content-length").and_then(|length| length.parse().ok())
    }

    /// The request as an import takes it; none if it did not use the network. `begin` is the time of the first request,
    /// `loaded` that of the `load` event, if it fired; `by_worker`: a worker sent it, for which no document waits.
    pub(super) fn observed(
        &self,
        begin: f64,
        loaded: Option<f64>,
        by_worker: bool,
    ) -> Result<Option<Observed>, String> {
        // The browser itself requests the tab's icon.
        let own = self.kind == "Other" && self.initiator["type"] == "other";
        let Some(url) = parsed(&self.url).filter(|_| !own && !self.is_local) else { return Ok(None) };
        let response = &self.response;
        let status = self.status();
        let end = match (&self.failed, self.end, status) {
            (Some(failed), _, None) => return Err(format!("it failed ({failed})")),
            (None, None, _) if !self.is_stream => return Err("it had no end when the recording ended".to_owned()),
            (_, Some(end), _) => end,
            (_, None, _) => self.first.unwrap_or(self.started),
        };
        let since = |time: f64| Duration::try_from_secs_f64(time - begin).unwrap_or_default();
        let one_by_one = response["protocol"].as_str().is_some_and(|protocol| protocol.starts_with("http/1"));
        let connection = response["connectionId"].as_f64().filter(|number| one_by_one && *number > 0.0);
        let mut response_headers = self.response_fields();
        if let Some(kind) = response["mimeType"].as_str().filter(|kind| !kind.is_empty())
            && !response_headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            response_headers.push(("content-type".to_owned(), kind.to_owned()));
        }
        let is_data = matches!(self.kind.as_str(), "Fetch" | "XHR");
        Ok(Some(Observed {
            url,
            method: self.method.clone(),
            started: since(self.started),
            first: since(self.first.unwrap_or(end)),
            end: since(end),
            wait: milestone(response, "sendEnd", "receiveHeadersStart"),
            handshake: milestone(response, "connectStart", "sslStart")
                .or_else(|| milestone(response, "connectStart", "connectEnd")),
            connection: connection.map(|number| number.to_string()),
            initiators: self.initiators(),
            fetched: is_data,
            sent: self.sent().map(since),
            priority: priority(&self.priority, is_data),
            delays_load: self.end.is_some()
                && !by_worker
                && loaded.is_none_or(|loaded| end <= loaded)
                && DELAYING.contains(&self.kind.as_str()),
            head: None,
            headers: fields(&self.headers),
            body: Content { size: None, bytes: self.sent.clone().map(Bytes::from), coded: false },
            status: status.unwrap_or(0),
            response_body: Content { size: Some(self.size()), bytes: self.bytes.clone(), coded: false },
            response_head: self.head.map(|head| head as u64),
            response_headers,
        }))
    }

    /// When Chromium began to connect for it, or to use a connection.
    fn sent(&self) -> Option<f64> {
        let timing = &self.response["timing"];
        let connect = timing["connectStart"].as_f64().unwrap_or_default().max(0.0);
        Some(timing["requestTime"].as_f64()? + connect / 1e3).filter(|sent| *sent >= self.started)
    }

    /// The size of the body on the wire.
    fn size(&self) -> u64 {
        // Chromium aborts an image that it cannot decode, so the received bytes are not its size.
        if let Some(told) = self.told_size().filter(|_| self.is_lost() || self.failed.is_some()) {
            return told;
        }
        let whole = self.transferred.filter(|size| *size >= 0.0);
        whole.map_or(self.received, |size| (size as u64).saturating_sub(self.head.unwrap_or(0) as u64))
    }
}

/// The time between two of Chromium's measurements of a request; none if it lacks one, or if they are equal, as those of
/// QUIC's handshake are, which is one with that of TLS.
fn milestone(response: &Value, from: &str, to: &str) -> Option<Duration> {
    let at = |name: &str| response["timing"][name].as_f64().filter(|ms| *ms >= 0.0);
    Duration::try_from_secs_f64((at(to)? - at(from)?) / 1e3).ok().filter(|time| !time.is_zero())
}

fn fields(headers: &Value) -> Vec<(String, String)> {
    let fields = headers.as_object().into_iter().flatten();
    fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}
