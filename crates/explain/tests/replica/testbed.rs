//! One upload between two hosts, and its duration.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use link::{
    cable::{Cable, Options},
    host::Host,
    spec::LinkSpec,
};
use socket2::{Domain, Socket, Type};
use transport::TcpInfo;

use crate::{
    cases::Case,
    observing_stages::{DropRanges, RecordWindows, Windows},
};

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The measurements of one run.
pub(crate) struct Run {
    /// From the first write until the response to the last byte.
    pub(crate) time: Duration,
    pub(crate) windows: Windows,
}

pub(crate) fn upload(case: &Case) -> Result<Run> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let spec: LinkSpec = toml::from_str(&case.spec())?;
    let mut lanes = spec.lanes()?;
    let windows = Arc::new(Mutex::new(Windows::default()));
    lanes.up.back.push(0);
    lanes.up.stages.push(Box::new(DropRanges::new(case.losses.clone())));
    lanes.down.back.push(0);
    lanes.down.stages.push(Box::new(RecordWindows(windows.clone())));
    let cable = Cable::connect(&a, &b, lanes, &Options { mtu: case.mtu, ..Options::default() })?;
    a.initial_window(case.initial_window)?;
    let (receiving, ip) = (case.clone(), cable.addresses()[1].v4);
    let listener = b.run(move || -> std::io::Result<TcpListener> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        if let Some(bytes) = receiving.receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.bind(&std::net::SocketAddr::from((ip, 0)).into())?;
        socket.listen(1)?;
        Ok(socket.into())
    })??;
    let address = listener.local_addr()?;
    let receiving = case.clone();
    let receiver = b.thread("receiver", move || receive(&listener, &receiving))?;
    let sending = case.clone();
    let sender = a.thread("sender", move || -> Result<Duration> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_tcp_congestion(sending.congestion.as_bytes())?;
        socket.set_tcp_nodelay(sending.nodelay)?;
        socket.connect_timeout(&address.into(), TIMEOUT)?;
        send(socket.into(), &sending)
    })?;
    let time = sender.join().map_err(|_| "the sender panicked")??;
    receiver.join().map_err(|_| "the receiver panicked")??;
    cable.disconnect()?;
    let windows = *windows.lock().map_err(|_| "the stage panicked")?;
    Ok(Run { time, windows })
}

fn receive(listener: &TcpListener, case: &Case) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut buffer = vec![0; if case.reads.is_some() { 16 << 10 } else { 256 << 10 }];
    let mut left = case.bytes;
    let mut free = Instant::now();
    while left > 0 {
        let read = stream.read(&mut buffer)? as u64;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        left -= read;
        if let Some(rate) = case.reads {
            free = free.max(Instant::now()) + Duration::from_nanos(read * 8_000_000_000 / rate);
            if left > 0 {
                thread::sleep(free.saturating_duration_since(Instant::now()));
            }
        }
    }
    stream.write_all(b"!")
}

fn send(mut stream: TcpStream, case: &Case) -> Result<Duration> {
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let bytes = vec![7; case.chunk.unwrap_or(case.bytes) as usize];
    // The last ACK of the handshake has arrived.
    thread::sleep(case.rtt);
    let start = Instant::now();
    let mut sent = 0;
    while sent < case.bytes {
        for (_, time) in case.pauses.iter().filter(|(at, _)| *at == sent) {
            thread::sleep(*time);
        }
        let chunk = (case.bytes - sent).min(bytes.len() as u64);
        if let Some(most) = case.in_flight {
            wait_for_acks(&stream, (sent + bytes.len() as u64).saturating_sub(most))?;
        }
        stream.write_all(&bytes[..chunk as usize])?;
        sent += chunk;
    }
    stream.read_exact(&mut [0])?;
    Ok(start.elapsed())
}

/// Waits until the kernel counts this number of bytes as acknowledged.
fn wait_for_acks(stream: &TcpStream, bytes: u64) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        // The SYN counts as one byte.
        if TcpInfo::of(stream)?.bytes_acked.is_some_and(|acked| acked > bytes) {
            return Ok(());
        }
        thread::sleep(Duration::from_micros(100));
    }
    Err("a write was not acknowledged".into())
}
