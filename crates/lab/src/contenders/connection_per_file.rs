//! One connection per file: how much TCP Fast Open saves if every request needs a handshake, and how much it costs on
//! paths that do not support it.
//!
//! Files are downloaded one after another, each with `Connection: close`. There are two clients, each with and without
//! TCP Fast Open. Longhaul's engine remembers whether a path supports it, and races a plain connection against one that
//! gets no answer. curl leaves both to the kernel, as most programs do; it has 20 s for each file. Neither has a cookie
//! at the start. The engine also runs with connections that are made ahead, as a program with a pool of them does: there,
//! what one connection learns has to reach those that already exist.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use haul_http::Origin;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transport::{ConnectSettings, Connected, Connector, FastOpen, Offer};

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup, curl::CURL, io_failure};
use crate::{
    host_task::start,
    process::{Program, run},
    servers::{Http, Server},
    work::{Done, Work},
};

/// curl's time limit for each file, in seconds.
const PATIENCE: &str = "20";

/// The engine's time limit for a handshake; the sample has its own deadline.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// The number of connections that exist at a time where they are made ahead.
const AHEAD: usize = 3;

macro_rules! registered {
    ($name:literal, $client:expr) => {
        Registered {
            name: $name,
            parameters: &[],
            make: |_| Box::new(ConnectionPerFile { name: $name, client: $client }),
        }
    };
}

pub(super) const ENGINE: Registered = registered!("engine-tcp", Client::Engine(FastOpen::Off, 1));
pub(super) const ENGINE_TFO: Registered = registered!("engine-tfo", Client::Engine(FastOpen::On, 1));
pub(super) const ENGINE_AHEAD: Registered = registered!("engine-tcp-ahead", Client::Engine(FastOpen::Off, AHEAD));
pub(super) const ENGINE_TFO_AHEAD: Registered = registered!("engine-tfo-ahead", Client::Engine(FastOpen::On, AHEAD));
pub(super) const CURL_TCP: Registered = registered!("curl-tcp", Client::Curl(&[]));
pub(super) const CURL_TFO: Registered = registered!("curl-tfo", Client::Curl(&["--tcp-fastopen"]));

#[derive(Clone, Copy)]
enum Client {
    /// With so many connections at a time; the first alone, because a pool begins with one too.
    Engine(FastOpen, usize),
    /// curl with these options.
    Curl(&'static [&'static str]),
}

struct ConnectionPerFile {
    name: &'static str,
    client: Client,
}

impl Contender for ConnectionPerFile {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn describe(&self) -> &'static str {
        match self.client {
            Client::Engine(FastOpen::Off, 1) => "Longhaul's engine, a new TCP connection for each file",
            Client::Engine(FastOpen::Off, _) => "the same, connecting for the next two files meanwhile",
            Client::Engine(_, 1) => "the same with TCP Fast Open, falling back where the path does not support it",
            Client::Engine(..) => "the same with TCP Fast Open, connecting for the next two files meanwhile",
            Client::Curl([]) => "curl, one process, a new TCP connection for each file",
            Client::Curl(_) => "the same with --tcp-fastopen, which leaves everything to the kernel",
        }
    }

    fn needs(&self) -> &'static [Program] {
        if let Client::Curl(_) = self.client { &[CURL] } else { &[] }
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        (!matches!(work, Work::Download { .. })).then(|| "it only downloads files".to_owned())
    }

    fn settings(&self) -> Vec<(String, String)> {
        match self.client {
            Client::Engine(fast_open, connections) => vec![
                ("fast open".to_owned(), format!("{fast_open:?}").to_lowercase()),
                ("connections".to_owned(), connections.to_string()),
            ],
            Client::Curl(options) => {
                let options = [&["--http1.1", "--max-time", PATIENCE], options].concat();
                vec![("options".to_owned(), options.join(" "))]
            }
        }
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        match self.client {
            Client::Engine(fast_open, connections) => engine(sample, fast_open, connections),
            Client::Curl(options) => Ok(Box::new(Ready(move || curl(sample, options)))),
        }
    }
}

fn engine<'a>(
    sample: &'a SampleSetup<'a>,
    fast_open: FastOpen,
    connections: usize,
) -> Result<Box<dyn Prepared + 'a>, Failure> {
    let mut settings = ConnectSettings { fast_open, ..ConnectSettings::default() };
    settings.tls.authorities =
        sample.certificates.map(|certificates| certificates.ca_file.clone()).into_iter().collect();
    let connector = Connector::new(settings).map_err(|error| Failure::Engine(error.to_string()))?;
    let (url, task) = (sample.url.clone(), sample.task.clone());
    let open = || async { Ok(()) };
    let work = move |()| async move {
        let mut names = task.names().into_iter();
        let fetch = async |name: String, connected: Result<Connected, Failure>| {
            let content = fetch(connected?, &format!("{url}{name}")).await?;
            let file = task.target.join(name);
            std::fs::write(&file, content).map_err(io_failure("write", &file))
        };
        if let Some(first) = names.next() {
            fetch(first, connect(&connector, &url).await).await?;
        }
        let ahead = names.map(async |name| (name, connect(&connector, &url).await));
        let mut ahead = stream::iter(ahead).buffered(connections);
        while let Some((name, connected)) = ahead.next().await {
            fetch(name, connected).await?;
        }
        Ok(Done::default())
    };
    Ok(Box::new(start(sample.client, &sample.deadline, open, work)?))
}

async fn connect(connector: &Connector, url: &str) -> Result<Connected, Failure> {
    let failed = |why: String| Failure::Engine(format!("{url}: {why}"));
    let uri = url.parse().map_err(|_| Failure::Url(url.to_owned()))?;
    let origin = Origin::of(&uri).map_err(|error| failed(error.to_string()))?;
    connector.connect(&origin, Offer::Http1, HANDSHAKE).await.map_err(|error| failed(error.to_string()))
}

/// Downloads a file over a connection of its own, up to its `Content-Length`. It does not wait for the FIN: Linux sends
/// none in SYN-RECEIVED, even after the response, so a client that does would gain nothing from TCP Fast Open.
async fn fetch(connected: Connected, url: &str) -> Result<Vec<u8>, Failure> {
    let uri: http::Uri = url.parse().map_err(|_| Failure::Url(url.to_owned()))?;
    let failed = |why: String| Failure::Engine(format!("{url}: {why}"));
    let (host, mut io) = (uri.authority().map(http::uri::Authority::as_str).unwrap_or_default(), connected.io);
    let request = format!("GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", uri.path());
    io.repeatable(true);
    let mut answer = Vec::new();
    let exchange = async {
        io.write_all(request.as_bytes()).await?;
        io.flush().await?;
        loop {
            let done = whole(&answer);
            if done.is_some() || io.read_buf(&mut answer).await? == 0 {
                return std::io::Result::Ok(done);
            }
        }
    };
    match exchange.await.map_err(|error| failed(error.to_string()))? {
        Some(content) => Ok(answer.split_off(content)),
        None => Err(failed(format!(
            "the response begins with `{}`",
            String::from_utf8_lossy(&answer[..answer.len().min(40)])
        ))),
    }
}

/// The offset of the content in a complete response.
fn whole(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&answer[..end]).ok().filter(|head| head.starts_with("HTTP/1.1 200 "))?;
    let field = |line: &str| {
        let (_, value) = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
        value.trim().parse().ok()
    };
    let length: usize = head.lines().find_map(field)?;
    (answer.len() >= end + length).then_some(end)
}

fn curl(sample: &SampleSetup, options: &[&str]) -> Result<Done, Failure> {
    let mut command = CURL.command(sample.scratch)?;
    command.args(["--silent", "--show-error", "--fail", "--http1.1", "--header", "Connection: close"]);
    command.args(["--max-time", PATIENCE]).args(options);
    if let Some(certificates) = sample.certificates {
        command.arg("--cacert").arg(&certificates.ca_file);
    }
    for name in sample.task.names() {
        command.arg("--output").arg(sample.task.target.join(&name)).arg(format!("{}{name}", sample.url));
    }
    run(sample.client, &mut command, &sample.deadline)?;
    Ok(Done::default())
}
