//! A connection for each request: what every handshake saved is worth, and what it costs where the way does not bear
//! it.
//!
//! Files are fetched one after another, and each asks for its connection to be closed. Two clients do it, each with
//! TCP Fast Open and without: Longhaul's engine, which remembers what a way did and has a plain connection overtake
//! one that is not answered; and curl, which leaves all of that to the kernel, as most programs that use TCP Fast
//! Open do. Neither holds a cookie when it begins. curl is given twenty seconds for each file, as a person would
//! not wait for longer.

use haul_http::{
    Body, Client, Pipelining, Settings, Versions,
    connect::{ConnectSettings, FastOpen},
    credentials::Authenticator,
};
use http::{Request, header};
use http_body_util::BodyExt;

use super::{Contender, Failure, Prepared, Ready, Registered, Sample, curl::CURL, io_failure};
use crate::{
    models::start,
    process::{Program, run},
    servers::{Http, Server},
    work::{Done, Work},
};

/// curl's bound on each file, in seconds.
const PATIENCE: &str = "20";

macro_rules! registered {
    ($name:literal, $who:expr) => {
        Registered { name: $name, parameters: &[], make: |_| Box::new(Connections { name: $name, who: $who }) }
    };
}

pub(super) const ENGINE: Registered = registered!("engine-tcp", Who::Engine(FastOpen::Off));
pub(super) const ENGINE_TFO: Registered = registered!("engine-tfo", Who::Engine(FastOpen::On));
pub(super) const CURL_TCP: Registered = registered!("curl-tcp", Who::Curl(&[]));
pub(super) const CURL_TFO: Registered = registered!("curl-tfo", Who::Curl(&["--tcp-fastopen"]));

#[derive(Clone, Copy)]
enum Who {
    Engine(FastOpen),
    /// With these options.
    Curl(&'static [&'static str]),
}

struct Connections {
    name: &'static str,
    who: Who,
}

impl Contender for Connections {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn describe(&self) -> &'static str {
        match self.who {
            Who::Engine(FastOpen::Off) => "Longhaul's engine, a new TCP connection for each file",
            Who::Engine(_) => "the same with TCP Fast Open, which is given up where the way does not bear it",
            Who::Curl([]) => "curl, one process, a new TCP connection for each file",
            Who::Curl(_) => "the same with --tcp-fastopen, which leaves everything to the kernel",
        }
    }

    fn needs(&self) -> &'static [Program] {
        if let Who::Curl(_) = self.who { &[CURL] } else { &[] }
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        (!matches!(work, Work::Download { .. })).then(|| "it only fetches files".to_owned())
    }

    fn settings(&self) -> Vec<(String, String)> {
        match self.who {
            Who::Engine(fast_open) => vec![("fast open".to_owned(), format!("{fast_open:?}").to_lowercase())],
            Who::Curl(options) => {
                let options = [&["--http1.1", "--max-time", PATIENCE], options].concat();
                vec![("options".to_owned(), options.join(" "))]
            }
        }
    }

    fn prepare<'a>(&self, sample: &'a Sample<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        match self.who {
            Who::Engine(fast_open) => engine(sample, fast_open),
            Who::Curl(options) => Ok(Box::new(Ready(move || curl(sample, options)))),
        }
    }
}

fn engine<'a>(sample: &'a Sample<'a>, fast_open: FastOpen) -> Result<Box<dyn Prepared + 'a>, Failure> {
    let mut connect = ConnectSettings { fast_open, ..ConnectSettings::default() };
    connect.tls.authorities =
        sample.certificates.map(|certificates| certificates.ca_file.clone()).into_iter().collect();
    let settings = Settings {
        connect,
        versions: Versions::Http1,
        pipelining: Pipelining::Off,
        connections: 1,
        ..Settings::default()
    };
    let client = Client::new(settings, Authenticator::default()).map_err(|error| Failure::Engine(error.to_string()))?;
    let files: Vec<_> = sample.task.names().into_iter().map(|name| (format!("{}{name}", sample.url), name)).collect();
    let target = sample.task.target.clone();
    let open = || async { Ok(()) };
    let work = move |()| async move {
        for (url, name) in files {
            let failed = |error: haul_http::Error| Failure::Engine(error.to_string());
            let request = Request::get(&url).header(header::CONNECTION, "close").body(Body::empty());
            let answer = client.send(request.map_err(|_| Failure::Url(url.clone()))?).await.map_err(failed)?;
            if !answer.status().is_success() {
                let (method, status) = ("GET".to_owned(), answer.status().as_u16());
                return Err(Failure::Status { method, path: url, status });
            }
            let content = answer.into_body().collect().await.map_err(failed)?.to_bytes();
            let file = target.join(name);
            std::fs::write(&file, content).map_err(io_failure("write", &file))?;
        }
        Ok(Done::default())
    };
    Ok(Box::new(start(sample.client, &sample.bounds, open, work)?))
}

fn curl(sample: &Sample, options: &[&str]) -> Result<Done, Failure> {
    let mut command = CURL.command(sample.scratch)?;
    command.args(["--silent", "--show-error", "--fail", "--http1.1", "--header", "Connection: close"]);
    command.args(["--max-time", PATIENCE]).args(options);
    if let Some(certificates) = sample.certificates {
        command.arg("--cacert").arg(&certificates.ca_file);
    }
    for name in sample.task.names() {
        command.arg("--output").arg(sample.task.target.join(&name)).arg(format!("{}{name}", sample.url));
    }
    run(sample.client, &mut command, &sample.bounds)?;
    Ok(Done::default())
}
