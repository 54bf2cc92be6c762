//! Gateways with short timeouts, before real and failing servers.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use gateway::{Gateway, Settings, WriteBack};
use haul_http::Timeouts;
use serve::{Config, Server};
use servers::Apache;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinHandle,
    time::timeout,
};

/// A test fails if anything takes longer, on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Something that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) at: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn config() -> Config {
    Config { listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() }
}

fn run(server: Server) -> Running {
    let at = server.local_addr();
    Running { at, task: tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() }) }
}

/// A gateway to a server, with so much patience.
pub(crate) fn gateway(upstream: SocketAddr, patience: Duration) -> Running {
    gateway_with(upstream, patience, None)
}

/// The same, perhaps with a journal.
pub(crate) fn gateway_with(upstream: SocketAddr, patience: Duration, write_back: Option<WriteBack>) -> Running {
    let timeouts =
        Timeouts { connect: patience, first_byte: patience, pipelined: patience, stall: patience, idle: patience };
    let client = haul_http::Settings { timeouts, ..haul_http::Settings::default() };
    let upstream = format!("http://{upstream}/files/").parse().unwrap();
    let settings = Settings { upstream, client, fresh: Duration::from_secs(5), write_back, cache: None };
    run(Server::with_service(Arc::new(Gateway::new(settings).unwrap()), &config()).unwrap())
}

/// `haul serve` in a folder.
pub(crate) fn embedded(root: &Path) -> Running {
    std::fs::create_dir_all(root.join("files")).unwrap();
    run(Server::bind(Config { root: root.to_owned(), ..config() }).unwrap())
}

/// Apache without passwords.
pub(crate) fn apache() -> Option<Apache> {
    Apache::start(&[], "<Directory \"ROOT/files\">\nDav On\nRequire all granted\n</Directory>\n", |_| ())
}

/// Accepts connections, and does this with each.
pub(crate) async fn scripted<F, R>(script: F) -> Running
where
    F: Fn(TcpStream) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(script(stream));
        }
    });
    Running { at, task }
}

/// Sends the head of a PUT and a part of its body.
pub(crate) async fn begin_put(to: SocketAddr, name: &str, framing: &str, part: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let head = format!("PUT /files/{name} HTTP/1.1\r\nHost: gw\r\n{framing}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let _ = timeout(PATIENCE, stream.write_all(part)).await.expect("the gateway reads or ends");
    stream
}

/// All that is sent until the end of the connection, or of a response with this length.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let reading = async {
        let mut chunk = [0; 4096];
        while let Ok(read) = stream.read(&mut chunk).await {
            all.extend_from_slice(&chunk[..read]);
            let text = String::from_utf8_lossy(&all);
            let is_whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head
                    .lines()
                    .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                length.is_some_and(|length| body.len() >= length.parse().unwrap())
            });
            if read == 0 || is_whole {
                break;
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("an answer in time");
    String::from_utf8_lossy(&all).into_owned()
}

/// The status of a whole request.
pub(crate) async fn put(to: SocketAddr, name: &str, content: &[u8]) -> u16 {
    let mut stream =
        begin_put(to, name, &format!("Content-Length: {}\r\nConnection: close", content.len()), content).await;
    status(&rest(&mut stream).await)
}

pub(crate) fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no status in {answer:?}"))
}
