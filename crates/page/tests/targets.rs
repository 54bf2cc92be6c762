//! Chromium records a page with frames of another site, workers of all kinds, redirects, and connections that never end.
//! Then it loads the spec from the replay server, and requests the same.

mod replay_server;

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use page::{
    Body, Request, Spec, Until,
    browser::{
        self,
        load::{Loader, Profile, Version},
    },
    record::record,
};

const SVG: &str = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>";

/// The event stream's events.
const EVENT: &str = "data: tick\n\n";

/// Requests whose URLs have a time and a random number.
const RANDOM: &str = "fetch(`/FILE?time=${Date.now()}&date=${+new Date()}&random=${Math.random()}`)";

const SCRIPT: &str = "
new Worker('/worker.js');
new SharedWorker('/shared.js');
new EventSource('/events');
new WebSocket(location.protocol.replace('http', 'ws') + '//' + location.host + '/socket');
fetch('/moved');
fetch('//localhost:PORT/api.json', { method: 'PUT', body: '{}' });
navigator.serviceWorker.register('/service.js').then(() => navigator.serviceWorker.ready).then(async () => {
  while (!navigator.serviceWorker.controller) await new Promise(done => setTimeout(done, 10));
  fetch('/forwarded.json');
  fetch('/cached.json');
});
";

const SERVICE: &str = "
self.addEventListener('install', event => event.waitUntil(
  caches.open('v1').then(cache => cache.addAll(['/cached.json'])).then(() => self.skipWaiting())));
self.addEventListener('activate', event => event.waitUntil(clients.claim()));
self.addEventListener('fetch', event => event.respondWith(
  caches.match(event.request).then(found => found || fetch(event.request))));
";

/// What follows the dot of a path.
fn ending(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, ending)| ending)
}

/// The type and the body of a path.
fn content(path: &str, port: u16) -> (&'static str, String) {
    let random = |file: &str| RANDOM.replace("FILE", file);
    let body = match path {
        "/" => format!(
            "<!doctype html><title>Targets</title><iframe src=//localhost:{port}/frame></iframe>\
             <img src=/image.svg><script src=/script.js></script>"
        ),
        "/frame" => format!(
            "<script src=/frame.js></script><img src=/framed.svg><iframe src=//127.0.0.1:{port}/inner></iframe>"
        ),
        "/inner" => "<img src=/inner.svg>".to_owned(),
        "/frame.js" => random("frame.json"),
        "/script.js" => SCRIPT.replace("PORT", &port.to_string()),
        "/worker.js" => format!("importScripts('/imported.js'); new Worker('/nested.js'); {}", random("worker.json")),
        "/nested.js" => "fetch('/nested.json')".to_owned(),
        "/shared.js" => random("shared.json"),
        "/service.js" => SERVICE.to_owned(),
        _ => match ending(path) {
            "svg" => SVG.to_owned(),
            "json" => format!("{{\"path\": \"{path}\"}}"),
            _ => String::new(),
        },
    };
    let kind = match ending(path) {
        "js" => "text/javascript",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        _ => "text/html",
    };
    (kind, body)
}

fn answer(stream: TcpStream, port: u16) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    loop {
        let mut lines = Vec::new();
        let mut sent = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(length) = line.strip_prefix("content-length: ") {
                sent = length.parse().unwrap_or(0);
            }
            lines.push(line);
        }
        std::io::copy(&mut std::io::Read::take(&mut reader, sent), &mut std::io::sink())?;
        let target = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or("/");
        let path = target.split('?').next().unwrap_or(target);
        if path == "/events" {
            write!(to, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            loop {
                write!(to, "{:x}\r\n{EVENT}\r\n", EVENT.len())?;
                thread::sleep(Duration::from_millis(50));
            }
        }
        let (kind, body) = content(path, port);
        let (status, more) = match path {
            "/moved" => (302, "Location: /target.json\r\n".to_owned()),
            "/api.json" => (
                200,
                format!(
                    "Access-Control-Allow-Origin: http://127.0.0.1:{port}\r\nAccess-Control-Allow-Methods: PUT\r\n\
                     Access-Control-Allow-Headers: *\r\n"
                ),
            ),
            "/socket" => (404, String::new()),
            _ => (200, String::new()),
        };
        write!(
            to,
            "HTTP/1.1 {status} Told\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        )?;
    }
}

fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream, address.port()));
        }
    });
    address
}

// One recording for all checks, since Chromium takes seconds to start.
#[test]
fn frames_and_workers_are_recorded_and_loaded_again() {
    if browser::find().is_err() {
        println!("skipped: Chromium is not installed (sudo apt-get install {})", browser::PACKAGE);
        return;
    }
    let address = start();
    let url = format!("http://{address}/").parse().unwrap();
    let options = browser::Options { without_sandbox: true, ..Default::default() };
    // The event stream never ends; the recording does, long before this.
    let limit = Duration::from_mins(10);
    let recorded = record(&url, Path::new("targets.toml"), 2, limit, &options, &AtomicBool::new(false)).unwrap();
    let spec = Arc::new(recorded.spec);
    println!("{}\n{:#?}", spec.to_toml(), recorded.notes);
    dependencies_are_those_of_the_targets(&spec);
    endless_connections_are_named(&spec, &recorded.notes, address);
    same_requests_in_a_replay(&spec);
}

fn path(request: &Request) -> &str {
    request.path.split('?').next().unwrap_or_default()
}

fn dependencies_are_those_of_the_targets(spec: &Spec) {
    let find = |wanted: &str| {
        let mut found = spec.requests.iter().filter(|request| path(request) == wanted && request.method != "OPTIONS");
        let Some(request) = found.next() else { panic!("{wanted} is missing") };
        assert!(found.next().is_none(), "{wanted} is there twice");
        request
    };
    for (wanted, cause, delays) in [
        ("/frame", "/", true),
        ("/frame.js", "/frame", true),
        ("/framed.svg", "/frame", true),
        ("/frame.json", "/frame.js", false),
        ("/inner", "/frame", true),
        ("/inner.svg", "/inner", true),
        ("/image.svg", "/", true),
        ("/script.js", "/", true),
        ("/worker.js", "/script.js", false),
        ("/imported.js", "/worker.js", false),
        ("/worker.json", "/worker.js", false),
        ("/nested.js", "/worker.js", false),
        ("/nested.json", "/nested.js", false),
        ("/shared.js", "/script.js", false),
        ("/shared.json", "/shared.js", false),
        ("/service.js", "/script.js", false),
        // The worker sent it when it was installed, and answered the page's request itself.
        ("/cached.json", "/service.js", false),
        // The worker forwarded it.
        ("/forwarded.json", "/script.js", false),
        ("/target.json", "/moved", false),
        ("/events", "/script.js", false),
    ] {
        let request = find(wanted);
        let Some(after) = request.after.first() else { panic!("{wanted} waits for nothing") };
        assert_eq!(path(&spec.requests[after.request]), cause, "{wanted}");
        assert_eq!(request.delays_load, delays, "{wanted}");
        if ending(wanted) == "json" {
            assert_eq!(request.response.body, Body::Kept(format!("{{\"path\": \"{wanted}\"}}").into()));
        }
    }
    let [preflight, put] = [("OPTIONS"), ("PUT")].map(|method| {
        let found = spec.requests.iter().position(|request| path(request) == "/api.json" && request.method == method);
        found.unwrap_or_else(|| panic!("no {method}"))
    });
    let after = spec.requests[put].after[0];
    assert_eq!((after.request, after.until), (preflight, Until::End), "the request waits for its preflight");
}

fn endless_connections_are_named(spec: &Spec, notes: &[String], address: SocketAddr) {
    let Some(events) = spec.requests.iter().find(|request| path(request) == "/events") else { panic!("no events") };
    let Body::Kept(body) = &events.response.body else { panic!("{:?}", events.response.body) };
    assert!(body.starts_with(EVENT.as_bytes()), "{body:?}");
    let note = |part: &str| notes.iter().any(|note| note.contains(part));
    assert!(note(&format!("http://{address}/events: has no end; the spec has the ")), "{notes:?}");
    assert!(note(&format!("ws://{address}/socket: omitted, since only HTTP requests are replayed")), "{notes:?}");
    assert!(!note("was not complete"), "{notes:?}");
}

fn same_requests_in_a_replay(spec: &Arc<Spec>) {
    let folder = tempfile::tempdir().unwrap();
    let (address, key) = replay_server::start(spec, folder.path());
    let mut loader = Loader::start(spec, Version::Two, address, &key, folder.path().to_owned(), |_| {}).unwrap();
    for load in 0..2 {
        let done = loader.load(Profile::New, Duration::from_mins(10)).unwrap();
        // The stream is finite here, so the browser may open it again.
        let others = done.deviations.iter().filter(|deviation| !deviation.url.ends_with("/events"));
        assert_eq!(others.collect::<Vec<_>>(), Vec::<&_>::new(), "load {load}");
    }
}
