//! Shared by the tests with real kernels. The harness is libtest-mimic, because the sandbox must be entered before any
//! thread starts.

#![allow(dead_code, clippy::type_complexity, reason = "each test file uses a part")]

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use libtest_mimic::{Arguments, Failed, Trial};
use link::{
    cable::{Cable, Options},
    host::Host,
    lanes::Lanes,
    sandbox,
};

/// A timeout that no step reaches, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Runs the tests in a sandbox, or skips them with a message if the machine allows no cable.
pub(crate) fn run(trials: &[(&'static str, fn() -> Result<(), Failed>)]) {
    let arguments = Arguments::from_args();
    let ready = sandbox::enter().map_err(|error| error.to_string()).and_then(|sandbox| {
        let hosts = Host::new("a").and_then(|a| Ok((a, Host::new("b")?))).map_err(|error| error.to_string())?;
        let cable = Cable::connect(&hosts.0, &hosts.1, Lanes::default(), &Options::default());
        cable.map(|_| sandbox).map_err(|error| error.to_string())
    });
    if let Err(error) = &ready {
        eprintln!("SKIPPED: hosts and cables: {error}");
    }
    let trials = trials.iter().map(|&(name, f)| Trial::test(name, f).with_ignored_flag(ready.is_err()));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// A UDP echo server.
pub(crate) fn echo(host: &Host, ip: IpAddr) -> Result<SocketAddr> {
    let socket = host.run(move || UdpSocket::bind((ip, 0)))??;
    let address = socket.local_addr()?;
    socket.set_read_timeout(Some(PATIENCE))?;
    host.thread("echo", move || {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    })?;
    Ok(address)
}

/// Sends one datagram, and returns the time until its echo.
pub(crate) fn ask(host: &Host, address: SocketAddr, patience: Duration) -> Result<Duration> {
    let took = host.run(move || -> std::io::Result<Duration> {
        let any: IpAddr = if address.is_ipv4() { "0.0.0.0".parse().unwrap() } else { "::".parse().unwrap() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.set_read_timeout(Some(patience))?;
        let start = Instant::now();
        socket.send_to(b"are you there?", address)?;
        socket.recv(&mut [0; 100])?;
        Ok(start.elapsed())
    })??;
    Ok(took)
}

/// Accepts one connection, and reads to its end.
pub(crate) fn receive(host: &Host, ip: IpAddr) -> Result<(SocketAddr, JoinHandle<std::io::Result<Vec<u8>>>)> {
    let listener = host.run(move || TcpListener::bind((ip, 0)))??;
    let address = listener.local_addr()?;
    let receiver = host.thread("receiver", move || -> std::io::Result<Vec<u8>> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received)?;
        Ok(received)
    })?;
    Ok((address, receiver))
}

/// Sends `bytes` from one host to another over TCP and returns what arrived.
pub(crate) fn transfer(from: &Host, to: &Host, ip: IpAddr, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let (address, receiver) = receive(to, ip)?;
    from.run(move || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&bytes)
    })??;
    Ok(receiver.join().map_err(|_| "the receiver panicked")??)
}

/// Bytes without repetition, so that misplaced ones show.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
