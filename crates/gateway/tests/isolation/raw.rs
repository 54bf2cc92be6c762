//! A client that sends any bytes, and parses what comes back strictly.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::upstream::{World, basic};

const PATIENCE: Duration = Duration::from_mins(1);

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A connection.
pub(crate) struct Raw {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Raw {
    pub(crate) async fn open(to: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(to).await.unwrap(), read: Vec::new() }
    }

    /// Sends; the other side may have closed already.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    async fn more(&mut self) -> bool {
        let mut chunk = [0; 4096];
        let read = timeout(PATIENCE, self.stream.read(&mut chunk)).await.expect("an answer or the end in time");
        let read = read.unwrap_or(0);
        self.read.extend_from_slice(&chunk[..read]);
        read > 0
    }

    /// The next response; None at the end of the connection.
    pub(crate) async fn answer(&mut self, to_head: bool) -> Option<Answer> {
        let end = loop {
            match self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None if self.more().await => {}
                None => {
                    assert!(self.read.is_empty(), "half a head: {}", String::from_utf8_lossy(&self.read));
                    return None;
                }
            }
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        let status: u16 = head[9..12].parse().unwrap();
        if status == 100 {
            return Box::pin(self.answer(to_head)).await;
        }
        let field = |name: &str| {
            head.lines().find_map(|line| {
                line.split_once(": ").filter(|(at, _)| at.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
            })
        };
        assert!(field("content-length").is_none() || field("transfer-encoding").is_none(), "{head}");
        let mut body = Vec::new();
        if to_head || matches!(status, 204 | 304) {
        } else if let Some(length) = field("content-length") {
            let length: usize = length.parse().unwrap();
            while self.read.len() < length {
                assert!(self.more().await, "half a body after {head}");
            }
            body = self.read.drain(..length).collect();
        } else {
            assert_eq!(field("transfer-encoding").as_deref(), Some("chunked"), "{head}");
            loop {
                let line = loop {
                    match self.read.windows(2).position(|bytes| bytes == b"\r\n") {
                        Some(end) => break end,
                        None => assert!(self.more().await, "half a chunk"),
                    }
                };
                let size = usize::from_str_radix(str::from_utf8(&self.read[..line]).unwrap(), 16).unwrap();
                while self.read.len() < line + 2 + size + 2 {
                    assert!(self.more().await, "half a chunk");
                }
                body.extend_from_slice(&self.read[line + 2..line + 2 + size]);
                assert_eq!(&self.read[line + 2 + size..][..2], b"\r\n");
                self.read.drain(..line + 2 + size + 2);
                if size == 0 {
                    break;
                }
            }
        }
        Some(Answer { status, head, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// All responses until the other side closes, or is silent for a while.
    pub(crate) async fn all(mut self) -> Vec<Answer> {
        let (mut answers, mut patience) = (Vec::new(), Duration::from_secs(1));
        while let Ok(Some(answer)) = timeout(patience, self.answer(false)).await {
            answers.push(answer);
            patience = Duration::from_millis(250);
        }
        answers
    }
}

/// A request of a user on a connection of its own.
pub(crate) async fn ask(world: &World, user: &str, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    let authorization = if user.is_empty() { String::new() } else { basic(user) };
    ask_with(world.gateway, &authorization, line, fields, body).await
}

/// A request with these credentials.
pub(crate) async fn ask_with(
    to: SocketAddr,
    authorization: &str,
    line: &str,
    fields: &[(&str, &str)],
    body: &str,
) -> Answer {
    let fields = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    let length = body.len();
    let mut raw = Raw::open(to).await;
    raw.send(format!("{line} HTTP/1.1\r\nHost: {to}\r\nContent-Length: {length}\r\n{authorization}{fields}\r\n{body}"))
        .await;
    raw.answer(line.starts_with("HEAD")).await.expect("an answer")
}
