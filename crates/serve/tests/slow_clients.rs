//! Slow clients. tokio's clock is paused and advances when all tasks are idle, so timeouts pass without waiting.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serve::{AccessLog, Config, Server, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

fn server(root: &std::path::Path, tls: Option<Tls>) -> Server {
    let listen = vec![([127, 0, 0, 1], 0).into()];
    Server::bind(Config { root: root.to_owned(), listen, tls, ..Config::default() }).unwrap()
}

/// A client that sends some bytes, falls silent, and returns what it receives until the server closes the connection.
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

/// What a silent client receives.
async fn outcome(root: &std::path::Path, tls: Option<Tls>, words: &[u8]) -> String {
    let server = server(root, tls);
    let answer = client(server.local_addr(), words);
    // Only now the server's timeout begins.
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(server.run(async { drop(stopped.await) }));
    let answer = answer.await.unwrap();
    drop(stop);
    running.await.unwrap().unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn silent_connection_times_out() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(outcome(root.path(), None, b"").await, "");
    assert_eq!(outcome(root.path(), None, b"GET / HTTP/1.1\r\nHost: te").await, "");
    assert_eq!(outcome(root.path(), Some(Tls::SelfSigned), b"").await, "");
    assert_eq!(outcome(root.path(), Some(Tls::SelfSigned), b"\x16\x03\x01").await, "");
}

#[tokio::test(start_paused = true)]
async fn idle_connection_times_out() {
    let root = tempfile::tempdir().unwrap();
    let answer = outcome(root.path(), None, b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn http2_client_without_ping_replies_is_disconnected() {
    let root = tempfile::tempdir().unwrap();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    assert_ne!(outcome(root.path(), None, preface).await, "the server never hung up");
}

#[tokio::test(start_paused = true)]
async fn stalled_upload_times_out() {
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

/// The response to an upload at a rate in bytes per second, and the seconds until it arrived.
async fn upload_at(rate: usize, seconds: usize) -> (String, u64) {
    let root = tempfile::tempdir().unwrap();
    let server = server(root.path(), None);
    let address = server.local_addr();
    let running = tokio::spawn(server.run(std::future::pending()));
    let (mut from, mut to) = tokio::net::TcpStream::connect(address).await.unwrap().into_split();
    let began = tokio::time::Instant::now();
    let length = rate * seconds;
    let head =
        format!("PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    let sending = tokio::spawn(async move {
        to.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..seconds {
            if to.write_all(&vec![b'x'; rate]).await.is_err() {
                break;
            }
            sleep(Duration::from_secs(1)).await;
        }
    });
    let mut answer = [0; 12];
    timeout(Duration::from_hours(1), from.read_exact(&mut answer)).await.expect("an answer in time").unwrap();
    sending.abort();
    running.abort();
    (String::from_utf8_lossy(&answer).into_owned(), began.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn upload_below_min_rate_times_out() {
    let (answer, after) = upload_at(50, 1000).await;
    assert_eq!(answer, "HTTP/1.1 408");
    assert!((30..60).contains(&after), "{after} s");
}

#[tokio::test(start_paused = true)]
async fn slow_upload_above_min_rate_arrives() {
    let (answer, after) = upload_at(600, 600).await;
    assert_eq!(answer, "HTTP/1.1 201");
    assert!(after >= 599, "{after} s");
}

/// An access log that sends its lines.
struct Lines(mpsc::UnboundedSender<String>);

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.send(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn client_that_does_not_read_its_response_is_disconnected() {
    let root = tempfile::tempdir().unwrap();
    std::fs::File::create(root.path().join("large")).unwrap().set_len(1 << 30).unwrap();
    for http2 in [false, true] {
        let (lines, mut log) = mpsc::unbounded_channel();
        let config = Config {
            root: root.path().to_owned(),
            listen: vec![([127, 0, 0, 1], 0).into()],
            access_log: Some(AccessLog::new(Lines(lines))),
            ..Config::default()
        };
        let server = Server::bind(config).unwrap();
        let address = server.local_addr();
        let running = tokio::spawn(server.run(std::future::pending()));
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = http::Request::get(format!("http://localhost:{}/large", address.port()));
        let request = request.header("host", "localhost").body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        // Its body is not read.
        let _untaken = if http2 {
            let executor = hyper_util::rt::TokioExecutor::new();
            let (mut client, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
            tokio::spawn(connection);
            client.send_request(request).await.unwrap()
        } else {
            let (mut client, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            client.send_request(request).await.unwrap()
        };
        let line = timeout(Duration::from_hours(1), log.recv()).await.expect("the answer is given up").unwrap();
        assert!(line.contains("GET /large"), "{line}");
        running.abort();
    }
}
