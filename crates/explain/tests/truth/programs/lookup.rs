//! A DNS server that knows one name, and a resolver that queries it (RFC 1035).

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{JoinHandle, sleep},
    time::Duration,
};

use link::host::Host;

use super::TIMEOUT;
use crate::scenario::Lookup;

/// The query: a header with recursion desired, and one question: `server.test`, type A, class IN.
const QUERY: &[u8] = b"\x5a\x5a\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06server\x04test\x00\x00\x01\x00\x01";

/// The interval at which the server checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A name server, which stops when it is dropped.
pub(super) struct Server {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(host: &Host, ip: Ipv4Addr, lookup: Lookup) -> io::Result<Self> {
        let socket = host.run(move || UdpSocket::bind((ip, 53)))??;
        socket.set_read_timeout(Some(POLL_INTERVAL))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = host.thread("name server", move || {
            let mut buffer = [0; 512];
            while !stopped.load(Ordering::Relaxed) {
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                sleep(lookup.takes.0);
                let mut answer = buffer[..length].to_vec();
                // A response, recursion available, one record.
                answer[2..8].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1]);
                // The name of the question (compressed), type A, class IN, TTL 60 s, four bytes.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                answer.extend(ip.octets());
                let _ = socket.send_to(&answer, from);
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Queries until there is an answer, again after each `retry`.
pub(super) fn resolve(server: Ipv4Addr, retry: Duration) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(SocketAddr::from((server, 53)))?;
    socket.set_read_timeout(Some(retry))?;
    for _ in 0..TIMEOUT.as_millis() / retry.as_millis().max(1) {
        socket.send(QUERY)?;
        if socket.recv(&mut [0; 512]).is_ok() {
            return Ok(());
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "the name server never answered"))
}
