//! A server under test, and a client that may violate the protocol.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::fmt::Write as _;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serve::{AccessLog, Certificate, Config, Server};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Timeout of all waits.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A server under test.
pub(crate) struct Running {
    pub(crate) root: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) certificate: Option<Certificate>,
    log: Lines,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

/// Serves a new empty folder on loopback; `change` may change how.
pub(crate) fn start(change: impl FnOnce(&mut Config)) -> Running {
    let root = tempfile::tempdir().unwrap();
    let log = Lines::default();
    let mut config = Config {
        root: root.path().to_owned(),
        listen: vec![([127, 0, 0, 1], 0).into()],
        access_log: Some(AccessLog::new(log.clone())),
        ..Config::default()
    };
    change(&mut config);
    let server = Server::bind(config).unwrap();
    let (address, certificate) = (server.local_addr(), server.certificate().cloned());
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move { server.run(async { stopped.await.unwrap_or(()) }).await.unwrap() });
    Running { root, address, certificate, log, stop: Some(stop), task: Some(task) }
}

impl Running {
    /// Sends one request with `Connection: close` added, and returns the whole answer.
    pub(crate) async fn ask(&self, head: &str, body: &[u8]) -> ResponseBody {
        let mut stream = self.connect().await;
        let (line, headers) = head.split_once('\n').unwrap_or((head, ""));
        let mut text = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for header in headers.lines().map(str::trim).filter(|h| !h.is_empty()) {
            text += header;
            text += "\r\n";
        }
        if !body.is_empty() {
            write!(text, "Content-Length: {}\r\n", body.len()).unwrap();
        }
        text.push_str("\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let _ = stream.write_all(body).await;
        finish(stream).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.root.path().join(name)).ok()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.root.path().join(name), content).unwrap();
    }

    /// Unfinished uploads anywhere in the tree.
    pub(crate) fn unfinished(&self) -> usize {
        unfinished(self.root.path())
    }

    /// Waits for a line of the access log that has `part` in it.
    pub(crate) async fn logged(&self, part: &str) -> String {
        until(|| self.log.text().lines().find(|line| line.contains(part)).map(str::to_owned)).await
    }

    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Stops the server and waits until it has ended.
    pub(crate) async fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            timeout(LIMIT, task).await.expect("the server ends in time").unwrap();
        }
    }
}

pub(crate) fn unfinished(dir: &Path) -> usize {
    std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => unfinished(&entry.path()),
            _ => usize::from(entry.file_name().to_string_lossy().starts_with(".haul-upload-")),
        })
        .sum()
}

/// Waits until there is a value.
pub(crate) async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    timeout(LIMIT, async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("what the test waits for happens in time")
}

/// Reads the rest of a connection.
pub(crate) async fn finish(mut stream: TcpStream) -> ResponseBody {
    let mut all = Vec::new();
    let _ = timeout(LIMIT, stream.read_to_end(&mut all)).await.expect("the server answers in time");
    ResponseBody(all)
}

/// An HTTP/1.1 answer.
pub(crate) struct ResponseBody(Vec<u8>);

impl ResponseBody {
    /// The status; 0 if the connection ended without an answer.
    pub(crate) fn status(&self) -> u16 {
        self.text().split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let text = self.text();
        let head = text.split("\r\n\r\n").next()?;
        head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Prints that a test was skipped, past the test harness, which would capture it.
pub(crate) fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
