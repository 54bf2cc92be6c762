//! `haul serve` as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::assert::OutputAssertExt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Timeout of all waits.
const LIMIT: Duration = Duration::from_secs(20);

fn haul() -> Command {
    Command::new(env!("CARGO_BIN_EXE_haul"))
}

/// A server that does not outlive its test.
struct Server {
    child: Child,
    address: String,
    /// Kept open: the server might fail to write to a closed pipe.
    _said: BufReader<ChildStderr>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn start(root: &Path, arguments: &[&str]) -> Server {
    let mut command = haul();
    command.arg("serve").arg(root).args(["--listen", "127.0.0.1:0"]).args(arguments).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.contains("://"));
    let address = url.and_then(|url| url.split("://").nth(1)).unwrap_or_else(|| panic!("no address in: {line}"));
    Server { child, address: address.trim_end_matches('/').to_owned(), _said: said }
}

impl Server {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream
            .write_all(format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Begins an upload and never sends its last byte.
    fn upload_most(&self) -> TcpStream {
        let mut upload = self.connect();
        upload.write_all(b"PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 600001\r\n\r\n").unwrap();
        upload.write_all(&vec![b'n'; 600_000]).unwrap();
        upload
    }

    /// Sends a signal and waits for the end.
    fn stop(&mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
        until(|| self.child.try_wait().unwrap())
    }
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "what the test waits for happens in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn ctrl_c_during_an_upload_leaves_nothing_behind() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "old").unwrap();
        let mut server = start(root.path(), &[]);
        let _upload = server.upload_most();
        until(|| (names(root.path()).len() == 2).then_some(()));
        assert_eq!(server.stop(signal).code(), Some(0));
        assert_eq!(names(root.path()), ["file"]);
        assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"old");
    }
}

#[test]
fn leftovers_of_a_killed_server_are_removed_by_the_next() {
    let root = tempfile::tempdir().unwrap();
    let mut server = start(root.path(), &[]);
    let _upload = server.upload_most();
    until(|| (names(root.path()).len() == 1).then_some(()));
    server.stop(Signal::SIGKILL);
    assert_eq!(names(root.path()).len(), 1, "nobody could clean up");
    let _next = start(root.path(), &[]);
    until(|| names(root.path()).is_empty().then_some(()));
}

#[test]
fn requests_are_logged_to_a_file() {
    let (root, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = place.path().join("log");
    let server = start(root.path(), &["--read-only", "--log", log.to_str().unwrap()]);
    assert!(server.ask("GET /missing").starts_with("HTTP/1.1 404 "));
    assert!(server.ask("DELETE /missing").starts_with("HTTP/1.1 405 "));
    let text = until(|| std::fs::read_to_string(&log).ok().filter(|text| text.lines().count() == 2));
    assert!(text.contains("\"GET /missing HTTP/1.1\" 404 "), "{text}");
    assert!(text.contains("\"DELETE /missing HTTP/1.1\" 405 "), "{text}");
}

#[test]
fn certificate_is_exported_on_request() {
    let (root, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pem = place.path().join("cert.pem");
    let server = start(root.path(), &["--tls", "self-signed", "--cert-out", pem.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&pem).unwrap().starts_with("-----BEGIN CERTIFICATE-----\n"));
    assert!(names(root.path()).is_empty());
    let port = server.address.rsplit(':').next().unwrap();
    let trusting = Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "20", "--cacert", pem.to_str().unwrap()])
        .arg(format!("https://localhost:{port}/"))
        .output();
    match trusting {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(_) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: curl is not installed; apt-get install curl");
        }
    }
}

#[test]
fn startup_errors_are_one_sentence_and_status_1() {
    let passwords = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(passwords.path(), "ann:secret\n").unwrap();
    let file = passwords.path().to_str().unwrap();
    let loopback = ["/", "--listen", "127.0.0.1:0"];
    for (arguments, said) in [
        (vec!["/nowhere", "--listen", "127.0.0.1:0"], "haul: cannot serve /nowhere: "),
        (vec!["/", "--listen", "192.0.2.1:1"], "haul: cannot listen on 192.0.2.1:1: "),
        (
            [&loopback[..], &["--tls", "/no/cert,/no/key"]].concat(),
            "haul: cannot use /no/cert as a certificate or key: ",
        ),
        ([&loopback[..], &["--tls", "/tmp,/tmp"]].concat(), "haul: cannot use /tmp as a certificate or key: Is a dir"),
        ([&loopback[..], &["--log", "/no/log"]].concat(), "haul: cannot write the access log /no/log: "),
        ([&loopback[..], &["--auth", file]].concat(), "line 1: the hash of the user ann is not bcrypt"),
    ] {
        let failure = haul().arg("serve").args(&arguments).assert().code(1);
        let text = String::from_utf8_lossy(&failure.get_output().stderr).into_owned();
        assert!(text.contains(said) && text.lines().count() == 1 && !text.contains("secret"), "{arguments:?}: {text}");
    }
}

#[test]
fn wrong_usage_is_status_2() {
    for (arguments, said) in [
        (&["serve"][..], "<DIR>"),
        (&["serve", "/", "--listen", "localhost:8080"], "like 127.0.0.1:8080"),
        (&["serve", "/", "--tls", "x"], "self-signed"),
        (&["sevre"], "'serve'"),
    ] {
        let failure = haul().args(arguments).assert().code(2);
        let text = String::from_utf8_lossy(&failure.get_output().stderr).into_owned();
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
}
