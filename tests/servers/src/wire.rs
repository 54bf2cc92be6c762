//! Requests and answers as they come and go, and what goes wrong with them on the way.

use std::{
    fmt::Write as _,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

use crate::double::{Fault, State};

pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    length: usize,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(status: u16) -> Self {
        Self { status, headers: String::new(), body: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    /// Its head up to the framing, which its sender adds.
    fn start(&self) -> String {
        format!("HTTP/1.1 {} Said\r\n{}", self.status, self.headers)
    }

    /// Its head, which names this length.
    pub(crate) fn head(&self, length: usize) -> Vec<u8> {
        format!("{}content-length: {length}\r\n\r\n", self.start()).into()
    }

    pub(crate) fn add(&mut self, headers: &str) {
        self.headers.push_str(headers);
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.head(self.body.len())[..], &self.body].concat()
    }
}

pub(crate) async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    // As if killed: what is not answered yet is never answered.
    let _ = stream.set_zero_linger();
    let _ = converse(&mut stream, &state).await;
}

async fn converse(stream: &mut TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let mut swapped: Option<Vec<u8>> = None;
    loop {
        let Some(request) = read_head(stream, &mut buffer, swapped.is_some()).await? else {
            // No request came behind one whose answer was to be second.
            match swapped.take() {
                Some(answer) => stream.write_all(&answer).await?,
                None => return close(stream).await,
            }
            continue;
        };
        let fault = state.lock().unwrap().hears(&request, 1 + waiting(&buffer, request.length));
        if let Some(Fault::RefuseEarly(status)) = fault {
            stream.write_all(&Answer::new(status).with("connection", "close").bytes()).await?;
            // Without reading on, so that the kernel resets what still comes.
            sleep(Duration::from_millis(20)).await;
            return close(stream).await;
        }
        while buffer.len() < request.length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let body = buffer.split_to(request.length);
        let mut answer = match fault {
            Some(Fault::Refuse(status, headers)) => {
                let mut answer = Answer::new(status);
                answer.add(headers);
                answer
            }
            Some(Fault::Say(status, document)) => Answer { body: document.into(), ..Answer::new(status) },
            Some(Fault::Reset) => return Ok(()),
            Some(Fault::Overtaken(path)) => {
                state.lock().unwrap().put(path, &[b'T'; 1000], Duration::ZERO);
                return Ok(());
            }
            Some(Fault::Silence) => {
                // Until the client has enough.
                while stream.read_buf(&mut buffer).await? > 0 {}
                return Ok(());
            }
            _ => state.lock().unwrap().answer(&request, &body),
        };
        match fault {
            Some(Fault::DoneAndReset | Fault::Reset | Fault::Silence | Fault::RefuseEarly(_) | Fault::Overtaken(_)) => {
                return Ok(());
            }
            Some(Fault::Forget) => continue,
            Some(Fault::Swap) if swapped.is_none() => {
                swapped = Some(answer.bytes());
                continue;
            }
            None | Some(Fault::Refuse(..) | Fault::Say(..) | Fault::Swap) => stream.write_all(&answer.bytes()).await?,
            Some(Fault::Cut) => {
                let bytes = answer.bytes();
                stream.write_all(&bytes[..bytes.len() - answer.body.len().div_ceil(2).max(1)]).await?;
                return close(stream).await;
            }
            Some(Fault::CutUntold) => {
                let head = format!("{}connection: close\r\n\r\n", answer.start());
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&answer.body[..answer.body.len() / 2]).await?;
                return close(stream).await;
            }
            Some(Fault::WrongDigest) => {
                // Of a part, Content-MD5 would say nothing.
                answer = answer.with("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ==");
                answer = answer.with("content-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
                stream.write_all(&answer.bytes()).await?;
            }
            Some(Fault::Surplus) => {
                let head = format!("{}content-length: {}\r\n\r\n", answer.start(), answer.body.len() + 5);
                stream.write_all(&[head.as_bytes(), &answer.body].concat()).await?;
            }
            Some(Fault::EndlessHead) => {
                stream.write_all(answer.start().as_bytes()).await?;
                for line in 0_u64.. {
                    stream.write_all(format!("x-{line}: {}\r\n", "x".repeat(2000)).as_bytes()).await?;
                }
            }
            Some(Fault::EndlessBody) => {
                stream.write_all(format!("{}transfer-encoding: chunked\r\n\r\n", answer.start()).as_bytes()).await?;
                loop {
                    stream.write_all(format!("4000\r\n{}\r\n", " ".repeat(0x4000)).as_bytes()).await?;
                }
            }
            Some(Fault::TricklingHead) => {
                stream.write_all(answer.start().as_bytes()).await?;
                trickle(stream).await?;
            }
            Some(Fault::TricklingBody) => {
                stream.write_all(format!("{}content-length: 1000000\r\n\r\n", answer.start()).as_bytes()).await?;
                trickle(stream).await?;
            }
        }
        if let Some(first) = swapped.take() {
            stream.write_all(&first).await?;
        }
    }
}

async fn trickle(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        stream.write_all(b"x").await?;
        sleep(Duration::from_millis(20)).await;
    }
}

/// Ends a connection in good order.
pub(crate) async fn close(stream: &mut TcpStream) -> io::Result<()> {
    socket2::SockRef::from(&*stream).set_linger(None)?;
    stream.shutdown().await
}

/// The requests behind the one in hand that are here already, without looking too closely.
fn waiting(buffer: &BytesMut, length: usize) -> usize {
    let behind = buffer.get(length..).unwrap_or_default();
    behind.windows(11).filter(|window| window == b" HTTP/1.1\r\n").count()
}

/// The next request's head; none at the end, or soon, if nothing comes, for those in a hurry.
async fn read_head(stream: &mut TcpStream, buffer: &mut BytesMut, hurry: bool) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        tokio::select! {
            read = stream.read_buf(buffer) => if read? == 0 { return Ok(None) },
            () = sleep(Duration::from_millis(100)), if hurry => return Ok(None),
        }
    };
    let request = parse_head(&buffer[..end]);
    buffer.advance(end + 4);
    Ok(Some(request))
}

/// The next request with its body, once all of it is there.
pub(crate) fn parse(buffer: &mut BytesMut) -> Option<(Request, BytesMut)> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let request = parse_head(&buffer[..end]);
    if buffer.len() < end + 4 + request.length {
        return None;
    }
    buffer.advance(end + 4);
    let body = buffer.split_to(request.length);
    Some((request, body))
}

fn parse_head(head: &[u8]) -> Request {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut request = Request { method, path: path.trim_end_matches('/').to_owned(), headers, length: 0 };
    request.length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request
}
