//! What one hostile client makes `haul serve` and `haul gateway` hold, as the kernel counts it, and whether they give it
//! back.

#[path = "../common/mod.rs"]
mod common;
mod flood;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Stdio,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, pem::PemObject},
};

use common::{HAUL, PATIENCE, Room, Running, eventually};
use flood::{Flood, Request, connect_from};

const MIB: usize = 1 << 20;
/// What one client may make a server hold above what it held before.
const HELD: usize = 64 * MIB;
/// What may stay when all is over: caches and fragments.
const KEPT: usize = 24 * MIB;
const FILES: usize = 3000;
/// Connections of HTTP/1.1 from one address.
const CONNECTIONS: usize = 600;

fn allow_many_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).expect("the hard limit");
}

/// A server or gateway under test.
struct Program {
    running: Running,
    /// Host and port.
    at: String,
    /// Where its metrics are.
    metrics: String,
    tls: Option<Arc<ClientConfig>>,
}

/// One end of a TCP connection.
struct Socket {
    is_open: bool,
    /// Bytes that the kernel has taken, and the other end has not acknowledged.
    queued: usize,
}

trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

impl Program {
    fn start(room: &Room, arguments: &[&str]) -> Self {
        let mut command = room.command(HAUL);
        command.args(arguments).args(["--listen", "127.0.0.1:0", "--status", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut running = Running::start(command);
        let mut said = BufReader::new(running.0.stderr.take().expect("it is piped"));
        let mut next = |begin: &str| {
            let mut line = String::new();
            while !line.starts_with(begin) {
                line.clear();
                assert!(said.read_line(&mut line).expect("a line") > 0, "no {begin}");
            }
            let url = line.split_whitespace().rfind(|word| word.contains("://")).expect("a URL");
            url.split('/').nth(2).expect("a host").to_owned()
        };
        let (at, metrics) = (next("Serving "), next("Metrics "));
        thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { running, at, metrics, tls: None }
    }

    /// The server with TLS.
    fn serve_tls(room: &Room) -> Self {
        let certificate = room.path("cert.pem");
        let arguments = ["--tls", "self-signed", "--cert-out", &certificate.display().to_string()];
        let server = Self::serve_with(room, &arguments);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&certificate).expect("a certificate")).expect("it is valid");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(roots).with_no_client_auth();
        Self { tls: Some(Arc::new(config)), ..server }
    }

    /// A connection from this address, with TLS if the server has it.
    fn connect(&self, source: [u8; 4]) -> Box<dyn Connection> {
        let stream = connect_from(source, &self.at);
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let Some(config) = &self.tls else { return Box::new(stream) };
        let name = "localhost".try_into().expect("a name");
        Box::new(StreamOwned::new(ClientConnection::new(config.clone(), name).expect("a client"), stream))
    }

    /// The value of one of its metrics.
    fn metric(&self, name: &str) -> usize {
        let mut stream = TcpStream::connect(&self.metrics).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse().expect("a number")
    }

    fn serve(room: &Room) -> Self {
        Self::serve_with(room, &[])
    }

    fn serve_with(room: &Room, arguments: &[&str]) -> Self {
        let folder = room.path("root");
        fs::create_dir_all(folder.join("files/many")).expect("a folder");
        fs::File::create(folder.join("files/large")).expect("a file").set_len(64 << 20).expect("a size");
        fs::write(folder.join("files/small"), "small").expect("a file");
        for number in 0..FILES {
            fs::write(folder.join(format!("files/many/some file with a name {number}.txt")), "x").expect("a file");
        }
        Self::start(room, &[&["serve", &folder.display().to_string()], arguments].concat())
    }

    /// The memory that it has, in bytes.
    fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// The server's ends of its clients' connections.
    fn sockets(&self) -> Vec<Socket> {
        let port = self.at.rsplit(':').next().expect("a port").parse::<u16>().expect("a number");
        let sockets = fs::read_to_string("/proc/net/tcp").expect("Linux");
        let socket = |line: &str| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let is_here = fields.get(1)?.ends_with(&format!(":{port:04X}"));
            let (queued, _) = fields.get(4)?.split_once(':')?;
            let queued = usize::from_str_radix(queued, 16).ok()?;
            is_here.then_some(Socket { is_open: fields[3] == "01", queued })
        };
        sockets.lines().filter_map(socket).collect()
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.running.0.id())).expect("it runs").count()
    }

    /// Waits until its memory changes no more, and returns the largest that was seen.
    fn settled(&self) -> usize {
        let (mut largest, mut last, mut since, began) = (0, 0usize, Instant::now(), Instant::now());
        while since.elapsed() < Duration::from_secs(3) && began.elapsed() < PATIENCE {
            let now = self.memory();
            largest = largest.max(now);
            if now.abs_diff(last) > MIB {
                (last, since) = (now, Instant::now());
            }
            thread::sleep(Duration::from_millis(100));
        }
        largest
    }

    /// The answer to a request over a connection of its own from this address.
    fn ask(&self, source: [u8; 4], method: &str, path: &str, fields: &str) -> String {
        let mut stream = self.connect(source);
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(head.as_bytes()).expect("it is sent");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

/// A client opens many streams, and reads nothing of what it asks for.
fn attack(request: &Request<'_>) {
    const CONNECTIONS: usize = 24;
    let room = Room::new();
    let server = Program::serve(&room);
    let is_served = |source| server.ask(source, "GET", "/files/small", "").starts_with("HTTP/1.1 200 ");
    let listed = server.ask([127, 0, 0, 1], "PROPFIND", "/files/many/", "Depth: 1\r\n");
    assert!(listed.starts_with("HTTP/1.1 207 ") && is_served([127, 0, 0, 1]), "control");
    let before = server.settled();
    let floods: Vec<_> =
        (0..CONNECTIONS).map(|number| Flood::begin(&server.at, request, [65_535, 0, 1][number % 3])).collect();
    let largest = server.settled();
    let (held, descriptors) = (largest.saturating_sub(before), server.descriptors());
    assert!(held <= HELD, "{request:?}: {} MiB are held", held / MIB);
    assert!(descriptors < 4000, "{request:?}: {descriptors} descriptors are open");
    let counted = server.metric("longhaul_serve_held_bytes");
    assert!(counted <= HELD, "{request:?}: {counted} bytes are said to be held");
    // Others are served, and so is who asks from the same address.
    for source in [[127, 0, 0, 2], [127, 0, 0, 1]] {
        // At once, or when the server has refused what it cannot work on.
        assert!(eventually(|| is_served(source)), "{request:?}: {source:?} is not served");
        let length = server.ask(source, "GET", "/files/large", "").len();
        assert!(length > 64 << 20, "{request:?}: {source:?} got {length} bytes");
    }
    drop(floods);
    let given_back = eventually(|| server.memory() <= before + KEPT && server.descriptors() < 50);
    assert!(given_back, "{request:?}: {} MiB stay of {}", server.memory() / MIB, largest / MIB);
    assert_nothing_is_held(&server);
}

fn assert_nothing_is_held(server: &Program) {
    for name in ["longhaul_serve_held_bytes", "longhaul_serve_requests", "longhaul_serve_connections"] {
        assert!(eventually(|| server.metric(name) == 0), "{name} is {}", server.metric(name));
    }
    assert!(server.metric("longhaul_serve_requests_total") > 0, "control");
}

/// A client asks for a large file over many connections of HTTP/1.1, and reads nothing. Those at these addresses are served
/// meanwhile.
fn ask_over_many_connections(server: &Program, sources: &[[u8; 4]]) {
    let gets_small = |source| server.ask(source, "GET", "/files/small", "").starts_with("HTTP/1.1 200 ");
    assert!(gets_small([127, 0, 0, 1]), "control");
    let before = server.settled();
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut connection = server.connect([127, 0, 0, 1]);
            connection.write_all(b"GET /files/large HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is sent");
            connection
        })
        .collect();
    let largest = server.settled();
    let held = largest.saturating_sub(before);
    assert!(held <= HELD, "{} MiB are held", held / MIB);
    let queued: usize = server.sockets().iter().map(|socket| socket.queued).sum();
    assert!(queued <= HELD, "{} MiB are held in the kernel", queued / MIB);
    let open = server.metric("longhaul_serve_connections");
    // Beyond the limit of requests, some are closed.
    assert!(open > CONNECTIONS / 2, "control: {open} connections");
    for &source in sources {
        assert!(gets_small(source), "{source:?} is not served");
        let length = server.ask(source, "GET", "/files/large", "").len();
        assert!(length > 64 << 20, "{source:?} got {length} bytes");
    }
    drop(connections);
    let given_back = eventually(|| server.memory() <= before + KEPT && server.descriptors() < 50);
    assert!(given_back, "{} MiB stay of {}", server.memory() / MIB, largest / MIB);
    assert_nothing_is_held(server);
}

#[test]
fn unread_downloads_over_many_connections_hold_little_and_give_it_back() {
    allow_many_files();
    let room = Room::new();
    let served = [[127, 0, 0, 2], [127, 0, 0, 1]];
    ask_over_many_connections(&Program::serve(&room), &served);
    ask_over_many_connections(&Program::serve_tls(&room), &served);
}

#[test]
fn unread_downloads_hold_little_and_give_it_back() {
    attack(&Request { method: "GET", path: "/files/large", depth: None, body: 0 });
}

#[test]
fn unread_listings_hold_little_and_give_it_back() {
    attack(&Request { method: "PROPFIND", path: "/files/many/", depth: Some("1"), body: 0 });
}

#[test]
fn unread_web_pages_hold_little_and_give_it_back() {
    attack(&Request { method: "GET", path: "/files/many/", depth: None, body: 0 });
}

#[test]
fn stalled_uploads_hold_little_and_give_it_back() {
    attack(&Request { method: "PUT", path: "/files/new", depth: None, body: 36 << 10 });
}

#[test]
fn listings_of_many_credentials_hold_little_and_are_given_back() {
    let room = Room::new();
    let server = Program::serve(&room);
    let upstream = format!("http://{}/files/", server.at);
    let gateway = Program::start(&room, &["gateway", "--upstream", &upstream]);
    let list = |number: usize| {
        let credential = BASE64_STANDARD.encode(format!("user{number}:password"));
        let fields = format!("Depth: 1\r\nAuthorization: Basic {credential}\r\n");
        let answer = gateway.ask([127, 0, 0, 1], "PROPFIND", "/files/many/", &fields);
        assert!(answer.starts_with("HTTP/1.1 207 ") && answer.contains("name%202999.txt"), "{number}: {answer:.300}");
    };
    list(0);
    let before = gateway.settled();
    (1..40).for_each(list);
    let held = gateway.memory().saturating_sub(before);
    assert!(held <= HELD, "{} MiB are held", held / MIB);
    let given_back = eventually(|| gateway.memory() <= before + KEPT);
    assert!(given_back, "{} MiB stay", gateway.memory().saturating_sub(before) / MIB);
}

#[test]
fn unfinished_heads_over_many_connections_hold_little_and_give_it_back() {
    allow_many_files();
    let room = Room::new();
    let server = Program::serve(&room);
    let before = server.settled();
    // Shorter ones than the limit, and longer ones.
    for fields in [14, 60] {
        let field = format!("X: {}\r\n", "a".repeat(1000));
        let request = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}", field.repeat(fields));
        let connections: Vec<_> = (0..750)
            .map(|_| {
                let mut connection = connect_from([127, 0, 0, 1], &server.at);
                // The server refuses a head that is too long, and closes its connection.
                let _ = connection.write_all(request.as_bytes());
                connection
            })
            .collect();
        let held = server.settled().saturating_sub(before);
        assert!(held <= HELD, "{fields} fields: {} MiB are held", held / MIB);
        assert!(server.metric("longhaul_serve_connections") > 50, "control");
        assert!(server.ask([127, 0, 0, 2], "GET", "/files/small", "").starts_with("HTTP/1.1 200 "), "{fields} fields");
        drop(connections);
        let given_back = eventually(|| server.memory() <= before + KEPT);
        assert!(given_back, "{fields} fields: {} MiB stay", server.memory().saturating_sub(before) / MIB);
    }
    assert_nothing_is_held(&server);
}

#[test]
fn unread_downloads_through_a_gateway_hold_little_and_give_it_back() {
    allow_many_files();
    let room = Room::new();
    let server = Program::serve(&room);
    let upstream = format!("http://{}/files/", server.at);
    let gateway = Program::start(&room, &["gateway", "--upstream", &upstream, "--cache-size", "0"]);
    // The client itself waits for its downloads.
    ask_over_many_connections(&gateway, &[[127, 0, 0, 2]]);
}

#[test]
fn one_users_requests_share_its_connections_however_they_are_written() {
    let room = Room::new();
    let server = Program::serve(&room);
    let upstream = format!("http://{}/files/", server.at);
    let gateway = Program::start(&room, &["gateway", "--upstream", &upstream, "--cache-size", "1KiB"]);
    let mut streams: Vec<TcpStream> = Vec::new();
    for number in 0..120 {
        let mut stream = connect_from([127, 0, 0, 1], &gateway.at);
        let (scheme, spaces) = (["Basic", "basic", "BASIC", "bAsIc"][number % 4], " ".repeat(number / 4 + 1));
        let cookie = if number % 2 == 0 { String::new() } else { format!("Cookie: a={number}\r\n") };
        let head = format!(
            "GET /files/large HTTP/1.1\r\nHost: gw\r\nAuthorization: {scheme}{spaces}YW5uOnNlY3JldA==\r\n{cookie}\r\n"
        );
        stream.write_all(head.as_bytes()).expect("it is sent");
        streams.push(stream);
    }
    let mut last = (0, Instant::now());
    while last.1.elapsed() < Duration::from_secs(5) {
        let now = server.sockets().iter().filter(|socket| socket.is_open).count();
        assert!(now <= 64, "{now} connections to the server");
        if now != last.0 {
            last = (now, Instant::now());
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert!(last.0 > 0, "control");
}
