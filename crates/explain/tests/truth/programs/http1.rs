//! HTTP/1.1, or bodies only, over any byte stream.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    thread::sleep,
    time::{Duration, Instant},
};

use transport::TcpInfo;

use super::TIMEOUT;
use crate::scenario::{Exchange, Protocol, Reads, Scenario, Writes};

/// A byte stream over a socket, with or without TLS.
pub(super) trait SyncStream: Read + Write {
    fn socket(&self) -> &TcpStream;
}

impl SyncStream for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// The server's interim response to `Expect: 100-continue`.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Reads the interim response, for no longer than this.
fn wait_for_continue(stream: &mut dyn SyncStream, limit: Duration) -> io::Result<()> {
    stream.socket().set_read_timeout(Some(limit))?;
    let answer = stream.read_exact(&mut [0; CONTINUE.len()]);
    stream.socket().set_read_timeout(Some(TIMEOUT))?;
    match answer {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => Ok(()),
        answer => answer,
    }
}

/// Runs the client; returns the time of each exchange.
pub(super) fn run_client(mut stream: Box<dyn SyncStream>, scenario: &Scenario) -> io::Result<Vec<Duration>> {
    let (mut took, mut since) = (Vec::new(), Instant::now());
    let mut sender = Sender::new(stream.socket(), scenario.client.writes)?;
    for group in groups(scenario) {
        for exchange in group {
            sleep(exchange.client_think.0);
            let mut head = request_head(scenario, exchange);
            if let Some(limit) = exchange.expects_for {
                stream.write_all(&std::mem::take(&mut head))?;
                stream.flush()?;
                wait_for_continue(&mut *stream, limit.0)?;
            }
            sender.send(&mut *stream, &head, exchange.request.as_bytes())?;
        }
        for exchange in group {
            let length = response_head(scenario, exchange).len() as u64 + exchange.response.as_bytes();
            receive(&mut *stream, length, scenario.client.reads)?;
            took.push(since.elapsed());
            since = Instant::now();
        }
    }
    Ok(took)
}

/// Runs the server.
pub(super) fn run_server(mut stream: Box<dyn SyncStream>, scenario: &Scenario) -> io::Result<()> {
    let mut sender = Sender::new(stream.socket(), scenario.server.writes)?;
    for exchange in &scenario.exchange {
        let mut length = request_head(scenario, exchange).len() as u64 + exchange.request.as_bytes();
        if exchange.expects_for.is_some() && !exchange.ignores_expect {
            receive(&mut *stream, length - exchange.request.as_bytes(), scenario.server.reads)?;
            stream.write_all(CONTINUE)?;
            stream.flush()?;
            length = exchange.request.as_bytes();
        }
        receive(&mut *stream, length, scenario.server.reads)?;
        sleep(exchange.server_think.0);
        sender.send(&mut *stream, &response_head(scenario, exchange), exchange.response.as_bytes())?;
    }
    Ok(())
}

/// The exchanges, in groups of requests that are sent together.
fn groups(scenario: &Scenario) -> impl Iterator<Item = &[Exchange]> {
    let size = if scenario.pipelined { scenario.exchange.len() } else { 1 };
    scenario.exchange.chunks(size)
}

fn request_head(scenario: &Scenario, exchange: &Exchange) -> Vec<u8> {
    let length = exchange.request.as_bytes();
    match (scenario.protocol, length) {
        (Protocol::Raw, _) => Vec::new(),
        (_, 0) => b"GET /file HTTP/1.1\r\nHost: server.test\r\n\r\n".to_vec(),
        _ => {
            let expect = exchange.expects_for.map_or("", |_| "Expect: 100-continue\r\n");
            format!("PUT /file HTTP/1.1\r\nHost: server.test\r\nContent-Length: {length}\r\n{expect}\r\n").into_bytes()
        }
    }
}

fn response_head(scenario: &Scenario, exchange: &Exchange) -> Vec<u8> {
    let length = exchange.response.as_bytes();
    match scenario.protocol {
        Protocol::Raw => Vec::new(),
        _ => format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes(),
    }
}

/// Writes messages as a scenario describes.
struct Sender {
    writes: Writes,
    written: u64,
    /// The acknowledged bytes before the first write.
    acked_before: u64,
    /// The ends of the writes in flight.
    ends: std::collections::VecDeque<u64>,
}

impl Sender {
    fn new(socket: &TcpStream, writes: Writes) -> io::Result<Self> {
        let acked_before = TcpInfo::of(socket)?.bytes_acked.unwrap_or(0);
        Ok(Self { writes, written: 0, acked_before, ends: std::collections::VecDeque::new() })
    }

    fn send(&mut self, stream: &mut dyn SyncStream, head: &[u8], body: u64) -> io::Result<()> {
        let mut message = head.to_vec();
        message.resize(head.len() + body as usize, b'.');
        let (first, rest) = message.split_at(if self.writes.head_apart { head.len() } else { 0 });
        let size = self.writes.chunk.map_or(message.len(), |chunk| chunk.as_bytes() as usize).max(1);
        let mut done = 0;
        for chunk in first.chunks(size).chain(rest.chunks(size)) {
            if done > 0 {
                sleep(self.writes.pause.0);
            }
            let rests = |at: u64| (done..done + chunk.len()).contains(&(at as usize));
            if self.writes.rests_at.is_some_and(|at| rests(at.as_bytes())) {
                sleep(self.writes.rests_for.0);
            }
            self.wait_for_room(stream.socket())?;
            stream.write_all(chunk)?;
            stream.flush()?;
            done += chunk.len();
            self.written += chunk.len() as u64;
            // A head of its own does not count as a chunk.
            if done > first.len() {
                self.ends.push_back(self.written);
            }
        }
        Ok(())
    }

    /// Waits until fewer writes than are allowed are unacknowledged.
    fn wait_for_room(&mut self, socket: &TcpStream) -> io::Result<()> {
        let Some(most) = self.writes.in_flight else { return Ok(()) };
        let until = Instant::now() + TIMEOUT;
        loop {
            let acknowledged = TcpInfo::of(socket)?.bytes_acked.unwrap_or(u64::MAX).saturating_sub(self.acked_before);
            while self.ends.pop_front_if(|end| *end <= acknowledged).is_some() {}
            if self.ends.len() < most as usize {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a write was never acknowledged"));
            }
            sleep(Duration::from_micros(200));
        }
    }
}

fn receive(stream: &mut dyn SyncStream, length: u64, reads: Reads) -> io::Result<()> {
    let mut buffer = vec![0; reads.chunk.map_or(256 << 10, |chunk| chunk.as_bytes() as usize)];
    let (mut done, mut stops) = (0, reads.stops_at);
    while done < length {
        let most = buffer.len().min((length - done) as usize);
        let count = stream.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        done += count as u64;
        if stops.take_if(|at| at.as_bytes() <= done).is_some() {
            sleep(reads.stops_for.0);
        }
        if done < length {
            sleep(reads.pause.0);
        }
    }
    Ok(())
}
