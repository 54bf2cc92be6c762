//! A program that passes a fixed number of bytes to each write, and writes again when they are acknowledged. (It does
//! not use chunked transfer coding.)
//!
//! Internet Explorer 5 and 6 sent files like this, in writes of 8217 bytes: Winsock completes a write that fills
//! `SO_SNDBUF` only when it is acknowledged (KB 823764, KB 329781). Linux completes a write when the kernel has copied
//! it. So this program reads the number of acknowledged bytes (`tcpi_bytes_acked` of `TCP_INFO`) and waits. Several
//! writes in flight correspond to a larger send buffer.
//!
//! Segments are as small as in the source's trace (`TCP_MAXSEG`), so that a write ends with a partial segment. They are
//! sent at once (`TCP_NODELAY`), as in the trace.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    thread::sleep,
    time::Duration,
};

use http::Uri;
use nix::sys::socket::{setsockopt, sockopt::TcpMaxSeg};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    task::yield_now,
};
use transport::TcpInfo;

use super::{Contender, Failure, Prepared, Registered, SampleSetup, Values};
use crate::{
    host_task::start,
    servers::{Http, Server},
    work::{Done, Work},
};

pub(super) const REGISTERED: Registered = Registered {
    name: "chunked-upload",
    parameters: &[("chunk", 8217), ("in-flight", 1), ("mss", 1160)],
    make: |values| Box::new(ChunkedUpload::new(values)),
};

/// The interval of polling acknowledgements: much less than a relevant RTT.
const GLANCE: Duration = Duration::from_micros(200);

/// The maximum size of a response's head.
const LONGEST_HEAD: usize = 64 * 1024;

#[derive(Clone)]
struct ChunkedUpload {
    name: String,
    /// The bytes of a write.
    chunk: u32,
    /// How many writes may be unacknowledged.
    in_flight: u32,
    /// The largest segment, in bytes.
    mss: u32,
}

impl ChunkedUpload {
    fn new(values: &Values) -> Self {
        let [chunk, in_flight, mss] = ["chunk", "in-flight", "mss"].map(|name| values.get(name));
        Self { name: values.name(), chunk, in_flight, mss }
    }
}

impl Contender for ChunkedUpload {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        "a program that writes 8217 bytes at a time and waits until they are acknowledged, as Internet Explorer 5 did"
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, work: &Work, _server: &dyn Server, tls: bool) -> Option<String> {
        let uploads = matches!(work, Work::Upload { .. });
        (tls || !uploads).then(|| "it only uploads files over plain HTTP".to_owned())
    }

    fn settings(&self) -> Vec<(String, String)> {
        [("chunk", self.chunk), ("in flight", self.in_flight), ("MSS", self.mss)]
            .map(|(name, value)| (name.to_owned(), value.to_string()))
            .into()
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let url: Uri = sample.url.parse().map_err(|_| Failure::Url(sample.url.clone()))?;
        let address = url.authority().and_then(|authority| authority.as_str().parse().ok());
        let address: SocketAddr = address.ok_or_else(|| Failure::Url(sample.url.clone()))?;
        let (program, task) = (self.clone(), sample.task.clone());
        let work = move |()| async move {
            for (_, content, name) in task.writes() {
                program.upload(address, &format!("{}{name}", url.path()), content).await?;
            }
            Ok(Done::default())
        };
        Ok(Box::new(start(sample.client, &sample.deadline, || async { Ok(()) }, work)?))
    }
}

impl ChunkedUpload {
    /// Uploads a file on a connection of its own.
    async fn upload(&self, address: SocketAddr, path: &str, content: &[u8]) -> Result<(), Failure> {
        let failed = |source| Failure::Connect { address, source };
        let mut stream = self.connect(address).await.map_err(failed)?;
        let length = content.len();
        let head = format!("PUT {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
        let written = self.write(&mut stream, head.as_bytes(), content).await;
        let status = match written {
            Ok(()) => status(&mut stream).await,
            Err(error) => Err(error),
        };
        let status = status.map_err(|error| Failure::Answer {
            method: "PUT".to_owned(),
            path: path.to_owned(),
            why: format!("did not come: {error}"),
        })?;
        if (200..300).contains(&status) {
            return Ok(());
        }
        Err(Failure::Status { method: "PUT".to_owned(), path: path.to_owned(), status })
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = match address.ip() {
            IpAddr::V4(_) => TcpSocket::new_v4(),
            IpAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        setsockopt(&socket, TcpMaxSeg, &self.mss)?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn write(&self, stream: &mut TcpStream, head: &[u8], content: &[u8]) -> io::Result<()> {
        let before = acknowledged(stream)?;
        let mut written = 0;
        let mut ends = VecDeque::new();
        for write in std::iter::once(head).chain(content.chunks(self.chunk as usize)) {
            while ends.len() >= self.in_flight as usize {
                sleep(GLANCE);
                // Lets the runtime check the deadline.
                yield_now().await;
                let arrived = acknowledged(stream)?.saturating_sub(before);
                while ends.pop_front_if(|end| *end <= arrived).is_some() {}
            }
            stream.write_all(write).await?;
            written += write.len() as u64;
            if write.len() == self.chunk as usize {
                ends.push_back(written);
            }
        }
        Ok(())
    }
}

/// The number of bytes that the peer has acknowledged.
fn acknowledged(stream: &TcpStream) -> io::Result<u64> {
    let old = || io::Error::other("this kernel does not report acknowledged bytes; Linux 4.1 or later is required");
    TcpInfo::of(stream)?.bytes_acked.ok_or_else(old)
}

/// Reads the status of the response.
async fn status(stream: &mut TcpStream) -> io::Result<u16> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 || head.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = head.split(|byte| *byte == b' ').nth(1).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    status.ok_or_else(|| io::Error::other("not an HTTP/1.1 response"))
}
