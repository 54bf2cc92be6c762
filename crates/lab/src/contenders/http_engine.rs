//! Longhaul's HTTP engine alone, without WebDAV and without starting a program, so that two contenders differ in
//! exactly one setting of the engine.
//!
//! The names and lengths of the files are known in advance, as if from a listing; by their length, large responses are
//! kept apart from small ones. All files are requested at once, in order. A sample has no pipelining history, so
//! `pipelining-safe` tests the server each time.
//!
//! For a page, all objects but one are loaded before the clock starts, each on a connection of its own; then the
//! connections stay idle as long as the workload says. The clock measures the one remaining object. The `idle-…`
//! contenders differ only in the idle connection they choose for it.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use haul_http::{
    Body, Class, Client, Expected, IdleChoice, Options, Pipelining, Settings, Versions, auth::Authenticator,
};
use http::Request;
use http_body_util::BodyExt;
use transport::ConnectSettings;

use super::{Contender, Failure, Prepared, Registered, SampleSetup, Values, io_failure};
use crate::{
    certs::Certificates,
    host_task::start,
    servers::{Http, Server},
    work::{Done, RemoteFile, Task, Work},
};

/// A larger response would block the others on its connection for too long.
const LARGE: u64 = 256 * 1024;

const SIX: &[(&str, u32)] = &[("connections", 6)];

macro_rules! registered {
    ($name:literal, $kind:expr) => {
        Registered { name: $name, parameters: SIX, make: |values| Box::new(HttpEngine::new(values, $kind)) }
    };
}

pub(super) const OLDEST: Registered = registered!("idle-oldest", Kind::Idle(IdleChoice::Oldest));
pub(super) const NEWEST: Registered = registered!("idle-newest", Kind::Idle(IdleChoice::Newest));
pub(super) const LARGEST: Registered = registered!("idle-largest-burst", Kind::Idle(IdleChoice::LargestBurst));
pub(super) const FADING: Registered = registered!("idle-fading-burst", Kind::Idle(IdleChoice::FadingBurst));
pub(super) const OFF: Registered = registered!("pipelining-off", Kind::Pipelining(Pipelining::Off));
pub(super) const SAFE: Registered = registered!("pipelining-safe", Kind::Pipelining(Pipelining::Safe));
pub(super) const AGGRESSIVE: Registered =
    registered!("pipelining-aggressive", Kind::Pipelining(Pipelining::Aggressive));
pub(super) const HTTP2: Registered =
    Registered { name: "engine-http2", parameters: &[], make: |values| Box::new(HttpEngine::new(values, Kind::Http2)) };

/// The setting that the contender tries.
#[derive(Clone, Copy)]
enum Kind {
    /// The choice among idle connections.
    Idle(IdleChoice),
    /// Pipelining over HTTP/1.1.
    Pipelining(Pipelining),
    /// HTTP/2 over one connection.
    Http2,
}

struct HttpEngine {
    name: String,
    kind: Kind,
    connections: u32,
}

impl HttpEngine {
    fn new(values: &Values, kind: Kind) -> Self {
        let connections = if let Kind::Http2 = kind { 1 } else { values.get("connections") };
        Self { name: values.name(), kind, connections }
    }

    fn client(&self, certificates: Option<&Certificates>) -> Result<Client, Failure> {
        let mut connect = ConnectSettings::default();
        connect.tls.authorities = certificates.map(|certificates| certificates.ca_file.clone()).into_iter().collect();
        let settings = Settings { connect, connections: self.connections as usize, ..Settings::default() };
        let settings = match self.kind {
            Kind::Idle(choice) => {
                Settings { versions: Versions::Http1, pipelining: Pipelining::Off, choice, ..settings }
            }
            Kind::Pipelining(pipelining) => Settings { versions: Versions::Http1, pipelining, ..settings },
            Kind::Http2 => Settings { versions: Versions::Http2, ..settings },
        };
        Client::new(settings, Authenticator::default()).map_err(|error| Failure::Engine(error.to_string()))
    }
}

impl Contender for HttpEngine {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Idle(IdleChoice::Oldest) => "Longhaul's engine, which takes the connection idle for longest (FIFO)",
            Kind::Idle(IdleChoice::Newest) => "Longhaul's engine, which takes the connection used last (LIFO)",
            Kind::Idle(IdleChoice::LargestBurst) => {
                "Longhaul's engine, which takes the connection that moved most at once"
            }
            Kind::Idle(IdleChoice::FadingBurst) => "the same, a burst fading while its connection is idle",
            Kind::Pipelining(Pipelining::Off) => "Longhaul's engine, one request at a time on each connection",
            Kind::Pipelining(Pipelining::Safe) => "Longhaul's engine, which pipelines once a test has gone well",
            Kind::Pipelining(Pipelining::Aggressive) => "Longhaul's engine, which pipelines at once and deeply",
            Kind::Http2 => "Longhaul's engine over HTTP/2, one connection",
        }
    }

    fn http(&self, _tls: bool) -> Http {
        if let Kind::Http2 = self.kind { Http::Two } else { Http::One }
    }

    fn unable(&self, work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        (!work.reads()).then(|| "the engine alone downloads by URL and speaks no WebDAV".to_owned())
    }

    fn loads_pages(&self) -> bool {
        true
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("connections".to_owned(), self.connections.to_string())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let client = self.client(sample.certificates)?;
        let fetch = Fetch { client, url: sample.url.clone().into(), task: sample.task.clone() };
        let files: Vec<_> = sample.task.reads().collect();
        let idle_time = sample.task.work().idle_time();
        let before = if let Work::Page { objects, .. } = sample.task.work() { objects.len() } else { 0 };
        let (page, after) = (files[..before].to_vec(), files[before..].to_vec());
        let open = move || async move {
            fetch.all(page).await?;
            tokio::time::sleep(idle_time).await;
            Ok(fetch)
        };
        let work = move |fetch: Fetch| async move { fetch.all(after).await.map(|()| Done::default()) };
        Ok(Box::new(start(sample.client, &sample.deadline, open, work)?))
    }
}

/// Downloads files with the engine.
struct Fetch {
    client: Client,
    url: Arc<str>,
    task: Task,
}

impl Fetch {
    /// Downloads files, requesting all at once and in order.
    async fn all(&self, files: Vec<RemoteFile>) -> Result<(), Failure> {
        let count = files.len().max(1);
        let fetches = stream::iter(files).map(|file| self.one(file));
        fetches.buffer_unordered(count).try_collect().await
    }

    async fn one(&self, RemoteFile { name, length, modified }: RemoteFile) -> Result<(), Failure> {
        let url = format!("{}{name}", self.url);
        let failed = |error: haul_http::Error| Failure::Engine(error.to_string());
        let mut request = Request::get(&url).body(Body::empty()).map_err(|_| Failure::Url(url.clone()))?;
        request.extensions_mut().insert(Options {
            class: if length > LARGE { Class::Large } else { Class::Small },
            expected: Expected { length: Some(length), modified: Some(modified), etag: None },
            ..Options::default()
        });
        let answer = self.client.send(request).await.map_err(failed)?;
        if !answer.status().is_success() {
            let (method, status) = ("GET".to_owned(), answer.status().as_u16());
            return Err(Failure::Status { method, path: url, status });
        }
        let content = answer.into_body().collect().await.map_err(failed)?.to_bytes();
        let file = self.task.target.join(name);
        std::fs::write(&file, content).map_err(io_failure("write", &file))
    }
}
