//! A gateway that acknowledges files before the server has them, and is killed at any moment.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Stdio,
    thread,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use nix::sys::signal::Signal;

use crate::{
    activate_with,
    common::{HAUL, PATIENCE, Room, Running, eventually},
    url,
};

const LOCK: &[u8] = br#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>PC</D:owner></D:lockinfo>"#;
/// Files in one round: saved while the server hangs.
const FILES: usize = 6;

fn rounds() -> usize {
    std::env::var("CRASHES").ok().and_then(|crashes| crashes.parse().ok()).unwrap_or(8)
}

/// A server with the user ann.
fn serve(room: &Room) -> (Running, String) {
    fs::create_dir_all(room.path("root/files")).expect("a folder");
    let hash = bcrypt::hash("secret", 4).expect("a hash");
    fs::write(room.path("passwords"), format!("ann:{hash}\n")).expect("a file");
    let mut command = room.command(HAUL);
    command.args(["serve", "--listen", "127.0.0.1:0", "--auth"]).arg(room.path("passwords"));
    command.arg(room.path("root")).stderr(Stdio::piped());
    let mut running = Running::start(command);
    let url = url(&mut running);
    (running, format!("{url}files/"))
}

/// A request of ann's Windows; none if there is no whole answer.
fn ask(to: SocketAddr, line: &str, fields: &str, body: &[u8]) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(to).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let (user, length) = (BASE64_STANDARD.encode("ann:secret"), body.len());
    let head = format!(
        "{line} HTTP/1.1\r\nHost: gw\r\nAuthorization: Basic {user}\r\nUser-Agent: Microsoft-WebDAV-MiniRedir/10.0\r\n\
         {fields}Connection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&answer).into_owned();
    Some((text.get(9..12)?.parse().ok()?, text))
}

/// Creates and locks a file, and returns the lock's token.
fn begin(to: SocketAddr, path: &str) -> Option<String> {
    ask(to, &format!("PROPFIND {path}"), "Depth: 0\r\n", b"")?;
    (ask(to, &format!("PUT {path}"), "", b"")?.0 < 300).then_some(())?;
    let (status, answer) = ask(to, &format!("LOCK {path}"), "Timeout: Second-3600\r\n", LOCK)?;
    let from = answer.find("urn:uuid:").filter(|_| status < 300)?;
    answer[from..].split(['<', '>']).next().map(str::to_owned)
}

fn content(path: &str, round: usize) -> Vec<u8> {
    // More than the gateway keeps in memory, now and then.
    let length = if round.is_multiple_of(3) { 600_000 } else { 9_000 };
    path.as_bytes().iter().copied().cycle().take(length).collect()
}

fn save(to: SocketAddr, path: &str, token: &str, content: &[u8]) -> bool {
    let put = ask(to, &format!("PUT {path}"), &format!("If: (<{token}>)\r\n"), content);
    put.is_some_and(|(status, _)| matches!(status, 201 | 204))
}

#[test]
fn whatever_was_acknowledged_is_at_the_server_in_the_end() {
    let room = Room::new();
    let (server, upstream) = serve(&room);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let at = listener.local_addr().expect("an address");
    let state = room.path("state");
    let options = ["--write", "back", "--state", state.to_str().expect("a path"), "--timeout", "20s"];
    let start = || activate_with(&room, &upstream, &listener, &options);
    let mut gateway = start();
    let waiting = || {
        let journals = fs::read_dir(state.join("journal")).into_iter().flatten().flatten();
        let files =
            journals.flat_map(|journal| fs::read_dir(journal.path().join("data")).into_iter().flatten().flatten());
        files.count()
    };
    let (mut acknowledged, mut most) = (Vec::new(), 0);
    for round in 0..rounds() {
        let paths: Vec<_> = (0..FILES).map(|number| format!("/files/{round}-{number}")).collect();
        let tokens: Vec<_> = paths.iter().filter_map(|path| Some((path, begin(at, path)?))).collect();
        assert_eq!(tokens.len(), FILES, "the server grants the locks");
        if round > 0 {
            server.send(Signal::SIGSTOP);
        }
        // The last ones are cut by the kill.
        let saving: Vec<_> = tokens
            .into_iter()
            .map(|(path, token)| {
                let path = path.clone();
                thread::spawn(move || save(at, &path, &token, &content(&path, round)).then_some(path))
            })
            .collect();
        thread::sleep(Duration::from_millis(round as u64 * 13 % 100));
        if round % 2 == 1 {
            assert!(eventually(|| waiting() > 0), "files are acknowledged without the server");
        }
        gateway.send(Signal::SIGKILL);
        gateway.status();
        most = most.max(waiting());
        server.send(Signal::SIGCONT);
        gateway = start();
        acknowledged
            .extend(saving.into_iter().filter_map(|saving| saving.join().expect("a client")).map(|path| (path, round)));
        // Ann signs in: she saves the next files.
        if round + 1 == rounds() {
            ask(at, "PROPFIND /files/", "Depth: 1\r\n", b"");
        }
    }
    assert!(most > 0, "control: a kill has left something");
    assert!(eventually(|| waiting() == 0), "all is sent: {} are left", waiting());
    for (path, round) in &acknowledged {
        let there = fs::read(room.path("root").join(&path[1..])).unwrap_or_default();
        assert!(
            there == content(path, *round),
            "{path} of round {round} was acknowledged, {} bytes are there",
            there.len()
        );
    }
    for entry in fs::read_dir(room.path("root/files")).expect("the folder").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        let round: usize = name.split('-').next().and_then(|round| round.parse().ok()).expect("no other version");
        let length = fs::metadata(entry.path()).expect("a file").len();
        let whole = content("/", round).len() as u64;
        assert!(length == 0 || length == whole, "{name} is not whole: {length} of {whole} bytes");
    }
    assert!(acknowledged.len() > rounds(), "control: only {} were acknowledged", acknowledged.len());
}
