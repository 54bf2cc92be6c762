//! What a gateway says at its start about a server that it cannot use.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    thread,
};

use crate::common::{HAUL, PATIENCE, Room, Running};

/// Starts a gateway, and returns it with its URL and its greeting up to the last line.
fn greeting(room: &Room, upstream: &str) -> (Running, String, String) {
    let mut command = room.command(HAUL);
    command.args(["gateway", "--upstream", upstream, "--listen", "127.0.0.1:0", "--timeout", "2s"]);
    start(command)
}

fn start(mut command: Command) -> (Running, String, String) {
    command.stderr(Stdio::piped());
    let mut running = Running::start(command);
    let (mut said, mut text) = (BufReader::new(running.0.stderr.take().expect("it is piped")), String::new());
    while !text.contains("Stop with Ctrl-C") {
        assert!(said.read_line(&mut text).expect("a line") > 0, "{text}");
    }
    thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let url = text.split_whitespace().filter(|word| word.starts_with("http")).nth(1).expect("a URL").to_owned();
    (running, url, text)
}

#[test]
fn server_that_cannot_be_used_is_a_warning_with_the_reason() {
    let room = Room::new();
    std::fs::create_dir(room.path("root")).expect("a folder");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = format!("http://{}/", free.local_addr().expect("an address"));
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = (format!("http://{}/", silent.local_addr().expect("an address")), silent);
    drop(free);
    let pages = TcpListener::bind("127.0.0.1:0").expect("a port");
    let page = format!("http://{}/dav/", pages.local_addr().expect("an address"));
    thread::spawn(move || {
        for mut stream in pages.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let mut secured = room.command(HAUL);
    secured.args(["serve", "--listen", "127.0.0.1:0", "--tls", "self-signed"]).arg(room.path("root"));
    secured.stderr(Stdio::piped());
    let mut secured = Running::start(secured);
    let secured_url = crate::url(&mut secured);
    let (_server, good) = crate::serve(&room);
    for (upstream, reason) in [
        (&*closed, "Connection refused"),
        (&page, "without the header DAV; is it a WebDAV folder?"),
        (&silent.0, "no response within 2 s"),
        (&secured_url, "not from a trusted authority"),
    ] {
        let (_gateway, _, said) = greeting(&room, upstream);
        let warning = said.lines().find(|line| line.starts_with("Warning: requests may fail"));
        assert!(warning.is_some_and(|warning| warning.contains(reason)), "{upstream}: {said}");
    }
    let (_gateway, _, said) = greeting(&room, &good);
    assert!(!said.contains("Warning"), "{said}");
}

#[test]
fn failed_request_gets_the_reason_in_its_body() {
    let room = Room::new();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = format!("http://{}/", free.local_addr().expect("an address"));
    drop(free);
    let (_gateway, url, _) = greeting(&room, &closed);
    let mut stream = TcpStream::connect(url.trim_start_matches("http://").trim_end_matches('/')).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(b"GET /a HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("Connection refused"), "{answer}");
}
