//! `haul gateway` as processes: restarts on a socket that outlives them, and a kill in the middle.

#[path = "../common/mod.rs"]
mod common;
mod killed_with_journal;
mod start_check;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsRawFd,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::signal::Signal,
};

use common::{HAUL, PATIENCE, Room, Running, eventually};

/// The URL in the first line that it prints.
fn url(running: &mut Running) -> String {
    let mut said = BufReader::new(running.0.stderr.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    line.split_whitespace().rfind(|word| word.starts_with("http")).unwrap_or_else(|| panic!("{line}")).to_owned()
}

fn serve(room: &Room) -> (Running, String) {
    fs::create_dir_all(room.path("root/files")).expect("a folder");
    let mut command = room.command(HAUL);
    command.args(["serve", "--listen", "127.0.0.1:0"]).arg(room.path("root")).stderr(Stdio::piped());
    let mut running = Running::start(command);
    let url = url(&mut running);
    (running, format!("{url}files/"))
}

/// Starts a gateway on a socket that listens already, as systemd does.
fn activate(room: &Room, upstream: &str, listener: &TcpListener) -> Running {
    activate_with(room, upstream, listener, &[])
}

fn activate_with(room: &Room, upstream: &str, listener: &TcpListener, options: &[&str]) -> Running {
    fcntl(listener, FcntlArg::F_SETFD(FdFlag::empty())).expect("a descriptor");
    let mut command = room.command("bash");
    let script = r#"exec 3<&"$1"; export LISTEN_PID=$$ LISTEN_FDS=1; exec "$2" gateway --upstream "${@:3}""#;
    command.args(["-c", script, "bash", &listener.as_raw_fd().to_string(), HAUL, upstream]);
    command.args(options).stderr(Stdio::piped());
    let mut running = Running::start(command);
    let at = url(&mut running);
    assert!(at.contains("127.0.0.1"), "{at}");
    running
}

/// Sends a request over a connection of its own, its body in two halves with a pause between, and returns the status; None
/// without a whole answer.
fn ask(to: SocketAddr, method: &str, name: &str, body: &[u8], pause: Duration) -> Option<u16> {
    let mut stream = TcpStream::connect(to).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let length = body.len();
    let head =
        format!("{method} /files/{name} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let (first, second) = body.split_at(length / 2);
    stream.write_all(first).ok()?;
    thread::sleep(pause);
    stream.write_all(second).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer);
    let (head, content) = text.split_once("\r\n\r\n")?;
    let told = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let status = text[9..12].parse().ok()?;
    if status >= 500 {
        eprintln!("{method} {name}: {content}");
    }
    (method == "PUT" || told == Some(content.len())).then_some(status)
}

fn content(name: &str) -> Vec<u8> {
    name.as_bytes().iter().copied().cycle().take(400_000).collect()
}

/// Uploads and reads until told to stop. Returns the names that were acknowledged, and what failed.
fn clients(
    to: SocketAddr,
    stop: &Arc<AtomicBool>,
    count: &Arc<AtomicU32>,
) -> Vec<JoinHandle<(Vec<String>, Vec<String>)>> {
    let one = |client: u32| {
        let (stop, count) = (stop.clone(), count.clone());
        thread::spawn(move || {
            let (mut acknowledged, mut failed) = (Vec::new(), Vec::new());
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let name = format!("{client}-{number}");
                let pause = Duration::from_millis(u64::from(client) * 40);
                match ask(to, "PUT", &name, &content(&name), pause) {
                    Some(201) => {
                        match ask(to, "GET", &name, b"", Duration::ZERO) {
                            Some(200) => {}
                            other => failed.push(format!("GET {name}: {other:?}")),
                        }
                        acknowledged.push(name);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    other => failed.push(format!("PUT {name}: {other:?}")),
                }
                if failed.len() > 1000 {
                    break;
                }
            }
            (acknowledged, failed)
        })
    };
    (0..4).map(one).collect()
}

fn joined(clients: Vec<JoinHandle<(Vec<String>, Vec<String>)>>) -> (Vec<String>, Vec<String>) {
    let all: Vec<_> = clients.into_iter().map(|client| client.join().expect("a client")).collect();
    let (acknowledged, failed): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    (acknowledged.concat(), failed.concat())
}

/// No file is there in part, and what was acknowledged is there.
fn assert_whole(root: &Path, acknowledged: &[String]) {
    for entry in fs::read_dir(root).expect("the folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name");
        assert!(fs::read(entry.path()).expect("a file") == content(&name), "{name} is not whole");
    }
    for name in acknowledged {
        assert!(root.join(name).exists(), "{name} was acknowledged");
    }
}

#[test]
fn restart_on_a_passed_socket_fails_no_request() {
    let room = Room::new();
    let (_server, upstream) = serve(&room);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let at = listener.local_addr().expect("an address");
    let mut gateway = activate(&room, &upstream, &listener);
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let running = clients(at, &stop, &count);
    for restart in 0..3 {
        let before = count.load(Ordering::Relaxed);
        assert!(eventually(|| count.load(Ordering::Relaxed) >= before + 8), "the clients go on");
        // One that has connected and not yet asked, and a long upload in flight.
        let name = format!("long-{restart}");
        let long = thread::spawn(move || ask(at, "PUT", &name, &content(&name), Duration::from_secs(2)));
        thread::sleep(Duration::from_millis(300));
        gateway.send(Signal::SIGTERM);
        assert!(gateway.status().success(), "it ends by itself");
        gateway = activate(&room, &upstream, &listener);
        assert_eq!(long.join().expect("a client"), Some(201), "the upload in flight was waited for");
    }
    let before = count.load(Ordering::Relaxed);
    assert!(eventually(|| count.load(Ordering::Relaxed) >= before + 8), "the last one serves");
    stop.store(true, Ordering::Relaxed);
    let (acknowledged, failed) = joined(running);
    assert_eq!(failed, Vec::<String>::new(), "of {}", acknowledged.len());
    assert_whole(&room.path("root/files"), &acknowledged);
}

#[test]
fn killed_gateway_loses_no_acknowledged_file_and_leaves_no_half() {
    let room = Room::new();
    let (_server, upstream) = serve(&room);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let at = listener.local_addr().expect("an address");
    let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let mut gateway = activate(&room, &upstream, &listener);
    let running = clients(at, &stop, &count);
    for _ in 0..4 {
        let before = count.load(Ordering::Relaxed);
        assert!(eventually(|| count.load(Ordering::Relaxed) >= before + 5), "the clients go on");
        gateway.send(Signal::SIGKILL);
        gateway.status();
        gateway = activate(&room, &upstream, &listener);
    }
    stop.store(true, Ordering::Relaxed);
    let (acknowledged, failed) = joined(running);
    assert!(!failed.is_empty(), "control: the kills have hit uploads");
    // The server needs a moment to see the ends of the last.
    thread::sleep(Duration::from_millis(500));
    assert_whole(&room.path("root/files"), &acknowledged);
}
