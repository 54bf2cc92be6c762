//! What a gateway has done, for monitoring: `/metrics` in Prometheus' text format, and `/healthz`.
//!
//! Both are on a listener of their own, not among the paths of the server. They name no user, path or credential.

use std::{
    fmt::Write,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures_util::{FutureExt, future::BoxFuture};
use http::{Method, Request, StatusCode};
use serve::{Answered, RequestStream, Service};

use crate::{Gateway, answers};

/// Counters of one gateway.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Requests of clients.
    pub(crate) requests: Counter,
    /// Answers from listings.
    pub(crate) listings: Counter,
    /// Files from memory.
    pub(crate) contents: Counter,
    /// Large files from disk.
    pub(crate) large: Counter,
    /// Answers to the redirector before the server's, or in place of them.
    pub(crate) redirector: Counter,
    /// Requests without an answer of the server.
    pub(crate) failures: Counter,
    /// Acknowledged requests that have failed.
    pub(crate) broken: Counter,
    /// Saved files that somebody else has changed meanwhile.
    pub(crate) conflicts: Counter,
    /// Whether the last request to the server had no answer.
    pub(crate) is_away: AtomicBool,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    /// In Prometheus' text format.
    fn text(&self, gauges: &[(&str, &str, u64)]) -> String {
        let counters = [
            ("requests", "Requests of clients.", &self.requests),
            ("listing_answers", "Answers from listings, without a request to the server.", &self.listings),
            ("content_answers", "Files from memory, as a fresh listing shows them.", &self.contents),
            ("disk_answers", "Large files from the disk cache, confirmed by the server.", &self.large),
            ("redirector_answers", "Answers to the Windows redirector before the server's.", &self.redirector),
            ("failures", "Requests that the server did not answer.", &self.failures),
            (
                "conflicts",
                "Saved files that somebody else had changed meanwhile; both versions are kept.",
                &self.conflicts,
            ),
            ("acknowledged_failures", "Acknowledged requests that failed at the server.", &self.broken),
        ];
        let mut text = String::new();
        for (name, help, Counter(count)) in counters {
            let count = count.load(Ordering::Relaxed);
            let name = format!("longhaul_gateway_{name}_total");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {count}\n");
        }
        for (name, help, value) in gauges {
            let name = format!("longhaul_gateway_{name}");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
        }
        text
    }
}

/// Answers `/healthz` and `/metrics`.
pub struct Status(Arc<Gateway>);

impl Status {
    /// Of this gateway.
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self(gateway)
    }

    fn answer(&self, method: &Method, path: &str) -> http::Response<serve::AnswerBody> {
        let metrics = self.0.metrics();
        match path {
            "/healthz" | "/metrics" if !matches!(*method, Method::GET | Method::HEAD) => {
                answers::without_body(StatusCode::METHOD_NOT_ALLOWED)
            }
            "/healthz" if metrics.is_away.load(Ordering::Relaxed) => {
                answers::text(StatusCode::SERVICE_UNAVAILABLE, "the server has not answered the last request\n")
            }
            "/healthz" => answers::text(StatusCode::OK, "ok\n"),
            "/metrics" => answers::text(StatusCode::OK, metrics.text(&self.0.gauges())),
            _ => answers::text(StatusCode::NOT_FOUND, "404: there are /healthz and /metrics\n"),
        }
    }
}

impl Service for Status {
    fn answer(&self, _client: SocketAddr, request: Request<RequestStream>) -> BoxFuture<'_, Answered> {
        let response = self.answer(request.method(), request.uri().path());
        async move { Answered { response, user: None } }.boxed()
    }
}
