//! What a server does and holds, for monitoring: `/metrics` in Prometheus' text format, and `/healthz`.
//!
//! Both are on a listener of their own, not among the paths of the server. They name no user, path or credential.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};

use crate::{AnswerBody, Answered, RequestStream, Service, whole};

/// A number to watch. Its name ends with `_total` if it only grows.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Its meaning, as a sentence.
    pub help: &'static str,
    /// The value now.
    pub value: u64,
}

/// Something with numbers to watch.
pub trait Watched: Send + Sync + 'static {
    /// The numbers now.
    fn metrics(&self) -> Vec<Metric>;

    /// Why it cannot do its work at the moment, if so.
    fn problem(&self) -> Option<&'static str> {
        None
    }
}

/// Answers `/healthz` and `/metrics`.
pub struct Status(Vec<Arc<dyn Watched>>);

impl Status {
    /// Of all these.
    pub fn new(watched: Vec<Arc<dyn Watched>>) -> Self {
        Self(watched)
    }

    fn answer(&self, method: &Method, path: &str) -> Response<AnswerBody> {
        let problem = self.0.iter().find_map(|watched| watched.problem());
        match path {
            "/healthz" | "/metrics" if !matches!(*method, Method::GET | Method::HEAD) => {
                text(StatusCode::METHOD_NOT_ALLOWED, "")
            }
            "/healthz" => match problem {
                Some(problem) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{problem}\n")),
                None => text(StatusCode::OK, "ok\n"),
            },
            "/metrics" => {
                let metrics = self.0.iter().flat_map(|watched| watched.metrics()).chain(of_process());
                text(StatusCode::OK, prometheus(metrics))
            }
            _ => text(StatusCode::NOT_FOUND, "404: there are /healthz and /metrics\n"),
        }
    }
}

impl Service for Status {
    fn answer(&self, _client: SocketAddr, request: Request<RequestStream>) -> BoxFuture<'_, Answered> {
        let response = self.answer(request.method(), request.uri().path());
        async move { Answered { response, user: None } }.boxed()
    }
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<AnswerBody> {
    let mut response = Response::new(whole(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn prometheus(metrics: impl Iterator<Item = Metric>) -> String {
    let mut text = String::new();
    for Metric { name, help, value } in metrics {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
    }
    text
}

/// What the kernel counts, under the names that Prometheus' own libraries use.
fn of_process() -> impl Iterator<Item = Metric> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok());
    let memory = memory.map(|kib: u64| Metric {
        name: "process_resident_memory_bytes",
        help: "Memory of the process.",
        value: kib * 1024,
    });
    let files = fs::read_dir("/proc/self/fd").ok().map(|open| Metric {
        name: "process_open_fds",
        help: "Open files and sockets of the process.",
        // This one closes again.
        value: open.count().saturating_sub(1) as u64,
    });
    memory.into_iter().chain(files)
}
