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
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};

use common::{HAUL, PATIENCE, Room, Running, eventually};
use flood::{Flood, Request, connect_from};

const MIB: usize = 1 << 20;
/// What one client may make a server hold above what it held before.
const HELD: usize = 64 * MIB;
/// What may stay when all is over: caches and fragments.
const KEPT: usize = 24 * MIB;
const FILES: usize = 3000;

/// A server or gateway under test.
struct Program {
    running: Running,
    /// Host and port.
    at: String,
}

impl Program {
    fn start(room: &Room, arguments: &[&str]) -> Self {
        let mut command = room.command(HAUL);
        command.args(arguments).args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
        let mut running = Running::start(command);
        let mut said = BufReader::new(running.0.stderr.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let url = line.split_whitespace().rfind(|word| word.starts_with("http://")).unwrap_or_else(|| panic!("{line}"));
        let at = url.trim_start_matches("http://").split('/').next().expect("a host").to_owned();
        Self { running, at }
    }

    fn serve(room: &Room) -> Self {
        let folder = room.path("root");
        fs::create_dir_all(folder.join("files/many")).expect("a folder");
        fs::File::create(folder.join("files/large")).expect("a file").set_len(64 << 20).expect("a size");
        fs::write(folder.join("files/small"), "small").expect("a file");
        for number in 0..FILES {
            fs::write(folder.join(format!("files/many/some file with a name {number}.txt")), "x").expect("a file");
        }
        Self::start(room, &["serve", &folder.display().to_string()])
    }

    /// The memory that it has, in bytes.
    fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.0.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
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
        let mut stream = connect_from(source, &self.at);
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
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

/// The connections that a gateway has to its server.
fn upstream_connections(server: &Program) -> usize {
    let port = server.at.rsplit(':').next().expect("a port").parse::<u16>().expect("a number");
    let sockets = fs::read_to_string("/proc/net/tcp").expect("Linux");
    let is_at_the_port = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let is_here = fields.next().is_some_and(|local| local.ends_with(&format!(":{port:04X}")));
        is_here && fields.nth(1) == Some("01")
    };
    sockets.lines().filter(is_at_the_port).count()
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
        let now = upstream_connections(&server);
        assert!(now <= 64, "{now} connections to the server");
        if now != last.0 {
            last = (now, Instant::now());
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert!(last.0 > 0, "control");
}
