//! A client that opens 200 streams on one HTTP/2 connection and reads nothing, as raw frames.

use std::{
    io::Write,
    net::{SocketAddr, TcpStream},
    os::fd::AsRawFd,
    thread,
    time::Duration,
};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, connect, socket};

const STREAMS: u32 = 200;

/// What is asked for on each stream.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) depth: Option<&'a str>,
    /// This many bytes of a body are sent, and never its end.
    pub(crate) body: usize,
}

/// A connection from this loopback address.
pub(crate) fn connect_from(source: [u8; 4], to: &str) -> TcpStream {
    let stream = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket");
    let [a, b, c, d] = source;
    bind(stream.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).expect("an address of ours");
    let SocketAddr::V4(to) = to.parse().expect("an address") else { panic!("IPv4") };
    connect(stream.as_raw_fd(), &SockaddrIn::from(to)).expect("the server listens");
    stream.into()
}

/// The connection; the server may have closed it.
pub(crate) struct Flood(TcpStream);

impl Flood {
    /// Asks on all streams, each with this window for the answer.
    pub(crate) fn begin(to: &str, request: &Request<'_>, window: u32) -> Self {
        let mut stream = connect_from([127, 0, 0, 1], to);
        stream.set_write_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        let mut block = vec![0x86];
        block.extend(literal(2, request.method));
        block.extend(literal(4, request.path));
        block.extend(literal(1, "localhost"));
        if let Some(depth) = request.depth {
            block.extend([0, 5]);
            block.extend(b"depth");
            block.extend(text(depth));
        }
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        bytes.extend(frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
        bytes.extend(frame(8, 0, 0, &(1u32 << 30).to_be_bytes()));
        let ends = if request.body == 0 { 5 } else { 4 };
        let ids = (0..STREAMS).map(|number| 2 * number + 1);
        // The server says first how many streams and bytes it takes.
        let _ = stream.write_all(&bytes);
        thread::sleep(Duration::from_millis(50));
        let mut bytes: Vec<u8> = ids.clone().flat_map(|id| frame(1, ends, id, &block)).collect();
        let piece = vec![b'x'; 12 << 10];
        for _ in 0..request.body / piece.len() {
            bytes.extend(ids.clone().flat_map(|id| frame(0, 0, id, &piece)));
        }
        let _ = stream.write_all(&bytes);
        Self(stream)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&length.to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal without indexing, its name from the static table (RFC 7541 §6.2.2).
fn literal(name: u8, value: &str) -> Vec<u8> {
    [vec![name], text(value)].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).expect("a short text")], text.as_bytes()].concat()
}
