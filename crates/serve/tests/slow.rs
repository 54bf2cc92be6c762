//! Clients that take their time. The clock is tokio's own and leaps ahead whenever nothing else happens, so
//! the bounds are met without waiting for them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serve::{Config, Server, Tls};
use tokio::sync::oneshot;

fn server(root: &std::path::Path, tls: Option<Tls>) -> Server {
    let listen = vec![([127, 0, 0, 1], 0).into()];
    Server::bind(Config { root: root.to_owned(), listen, tls, ..Config::default() }).unwrap()
}

/// A client that says its words, falls silent, and reports what it gets until the server hangs up.
fn client(address: SocketAddr, words: &[u8]) -> oneshot::Receiver<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(words).unwrap();
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let hung = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        sender.send(if hung { "the server never hung up".into() } else { answer })
    });
    receiver
}

/// What a silent client gets in the end.
async fn outcome(root: &std::path::Path, tls: Option<Tls>, words: &[u8]) -> String {
    let server = server(root, tls);
    let answer = client(server.local_addr(), words);
    // Only now does the clock of the server begin to run.
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { drop(stopped.await) }));
    let answer = answer.await.unwrap();
    drop(stop);
    running.await.unwrap().unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_connection() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(outcome(root.path(), None, b"").await, "");
    assert_eq!(outcome(root.path(), None, b"GET / HTTP/1.1\r\nHost: te").await, "");
    assert_eq!(outcome(root.path(), Some(Tls::SelfSigned), b"").await, "");
    assert_eq!(outcome(root.path(), Some(Tls::SelfSigned), b"\x16\x03\x01").await, "");
}

#[tokio::test(start_paused = true)]
async fn silence_between_requests_ends_a_connection() {
    let root = tempfile::tempdir().unwrap();
    let answer = outcome(root.path(), None, b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn an_http2_client_that_does_not_answer_is_left() {
    let root = tempfile::tempdir().unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    assert_ne!(outcome(root.path(), None, preface).await, "the server never hung up");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_is_given_up() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("file"), "old").unwrap();
    let words = b"PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nnew";
    let answer = outcome(root.path(), None, words).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert_eq!(std::fs::read(root.path().join("file")).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    let words = b"PROPFIND / HTTP/1.1\r\nHost: localhost\r\nDepth: 0\r\nContent-Length: 10\r\n\r\n<a>";
    let answer = outcome(root.path(), None, words).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}
