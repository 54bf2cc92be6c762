//! Failures with the same reason are one line.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Output,
    thread,
};

use crate::{
    common::text,
    fixture::{Fixture, json, write},
    lost_responses::message,
};

/// A proxy that answers requests with this method and a `/f` in their path with 500.
fn failing(method: &'static str, fixture: &Fixture) -> String {
    let server = fixture.url.strip_prefix("http://").expect("a URL").parse().expect("an address");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || pass(&client, method, server));
        }
    });
    format!("http://{address}")
}

fn pass(mut client: &TcpStream, method: &str, server: SocketAddr) -> io::Result<()> {
    let upstream = TcpStream::connect(server)?;
    let (mut requests, mut answers) = (BufReader::new(client), BufReader::new(&upstream));
    loop {
        let request = message(&mut requests)?;
        if request.is_empty() {
            return Ok(());
        }
        let line = text(request.split(|byte| *byte == b'\r').next().unwrap_or_default());
        if line.starts_with(method) && line.contains("/f") {
            client.write_all(b"HTTP/1.1 500 Failed\r\nContent-Length: 0\r\n\r\n")?;
            continue;
        }
        (&upstream).write_all(&request)?;
        client.write_all(&message(&mut answers)?)?;
    }
}

/// The numbers of files in the lines that sum up failures, and the other lines.
fn sums(output: &Output) -> (Vec<u32>, Vec<String>) {
    let (mut sums, mut others) = (Vec::new(), Vec::new());
    for line in text(&output.stderr).lines() {
        match line.strip_prefix("haul: ").and_then(|line| line.split_once(" files: the server failed (500); see ")) {
            Some((number, rest)) if rest.ends_with("more; -v lists all)") => {
                sums.push(number.parse().expect("a number"));
            }
            _ => others.push(line.to_owned()),
        }
    }
    (sums, others)
}

#[test]
fn equal_failures_are_summed_up_unless_verbose() {
    let fixture = Fixture::new();
    let names: BTreeMap<String, String> =
        (0..20).map(|number| (format!("f{number}"), "x".repeat(number + 1))).collect();
    let files: Vec<_> = names.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
    write(&fixture.path("source"), &files);
    write(&fixture.served("there"), &files);
    let (put, get, delete) = (failing("PUT", &fixture), failing("GET", &fixture), failing("DELETE", &fixture));
    let all: Vec<String> = names.keys().map(|name| format!("{delete}/there/{name}")).collect();
    let removal: Vec<&str> = ["rm"].into_iter().chain(all.iter().map(String::as_str)).collect();
    for arguments in [
        &["cp", "-r", "source", &format!("{put}/up")][..],
        &["sync", "source", &format!("{put}/up")],
        &["sync", &format!("{get}/there"), "down"],
        &["check", "--download", "source", &format!("{get}/there")],
        &removal,
        &["mv", "source", &format!("{put}/up")],
        &["mv", &format!("{get}/there"), "moved"],
        &["rm", &format!("{delete}/there/f*")],
    ] {
        let ended = fixture.haul(&[arguments, &["--json", "found.json"]].concat());
        let (sums, others) = sums(&ended);
        assert_eq!((ended.status.code(), sums.iter().sum()), (Some(1), 20), "{}", text(&ended.stderr));
        // The last line of a transfer, and of a slow one the failures in parts.
        assert!(sums.len() <= 3 && others.len() <= 1, "{arguments:?}: {}", text(&ended.stderr));
        let found = json(&fs::read(fixture.path("found.json")).unwrap(), arguments[0]);
        assert_eq!(found["failed"].as_array().unwrap().len(), 20, "JSON has each");

        let told = text(&fixture.haul(&[arguments, &["-v"]].concat()).stderr);
        for name in names.keys() {
            let lines = told.lines().filter(|line| line.contains(&format!("/{name}: the server failed (500)")));
            assert_eq!(lines.count(), 1, "{arguments:?}: {told}");
        }
    }
    assert_eq!(fs::read_dir(fixture.path("source")).unwrap().count(), 20, "nothing was removed");
}
