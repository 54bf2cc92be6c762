//! The programs of a scenario: a client and a server that exchange what the scenario describes, over kernel sockets.

mod http1;
mod http2;
mod lookup;
mod tls;

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread::{JoinHandle, sleep},
    time::{Duration, Instant},
};

use link::host::Host;
use nix::{setsockopt_impl, sockopt_impl, sys::socket::setsockopt};
use socket2::{Domain, Socket, Type};
use transport::TcpInfo;

use crate::scenario::{End, Protocol, Scenario};

/// Longer than any scenario, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The maximum wait for the last acknowledgement after the last byte.
const LINGER: Duration = Duration::from_secs(5);

// nix does not define this option.
sockopt_impl!(MaxPacingRate, SetOnly, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, u32);

/// What the two programs measured.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    /// The client's kernel and the server's, after the last acknowledgement.
    pub(crate) kernels: [TcpInfo; 2],
    /// The time of each exchange, from the end of the response before; it includes the client's think time.
    pub(crate) exchanges: Vec<Duration>,
    /// From the beginning to the last byte.
    pub(crate) took: Duration,
}

/// Runs the two programs; the server's address is `at`.
pub(crate) fn run_programs(scenario: &Scenario, hosts: &[Host; 2], at: IpAddr) -> io::Result<Observed> {
    let tls = tls::TlsConfigs::for_server(scenario.protocol)?;
    let end = scenario.server.clone();
    let listener = hosts[1].run(move || listen(at, &end))??;
    let address = listener.local_addr()?;
    let lookup = match (scenario.lookup, at) {
        (None, _) => None,
        (Some(lookup), IpAddr::V4(at)) => Some((lookup, at)),
        (Some(_), IpAddr::V6(_)) => return Err(io::Error::other("the name server knows only IPv4 addresses")),
    };
    let names = lookup.map(|(lookup, at)| lookup::Server::start(&hosts[1], at, lookup)).transpose()?;
    // Neither closes the connection before the other has read its kernel's counters.
    let (client_read, server_waits) = mpsc::channel();
    let (server_read, client_waits) = mpsc::channel();
    let server: JoinHandle<io::Result<TcpInfo>> = hosts[1].thread("server", {
        let (scenario, tls) = (scenario.clone(), tls.clone());
        move || {
            let (stream, _) = listener.accept()?;
            set_up(&stream, &scenario.server)?;
            let kernel = stream.try_clone()?;
            match scenario.protocol {
                Protocol::Http2 | Protocol::Http2Tls => http2::run_server(stream, &tls, &scenario)?,
                _ => http1::run_server(tls.accept(stream, scenario.handshake_takes.0)?, &scenario)?,
            }
            let info = info_after_last_ack(&kernel, scenario.sizes()[1])?;
            let _ = server_read.send(());
            let _ = server_waits.recv_timeout(LINGER);
            Ok(info)
        }
    })?;
    let client: JoinHandle<io::Result<(TcpInfo, Vec<Duration>, Duration)>> = hosts[0].thread("client", {
        let scenario = scenario.clone();
        move || {
            let began = Instant::now();
            if let Some((lookup, at)) = lookup {
                lookup::resolve(at, lookup.retry.0)?;
            }
            let stream = connect(address, &scenario.client)?;
            let kernel = stream.try_clone()?;
            let exchanges = match scenario.protocol {
                Protocol::Http2 | Protocol::Http2Tls => http2::run_client(stream, &tls, &scenario)?,
                _ => http1::run_client(tls.connect(stream)?, &scenario)?,
            };
            let took = began.elapsed();
            let info = info_after_last_ack(&kernel, scenario.sizes()[0])?;
            let _ = client_read.send(());
            let _ = client_waits.recv_timeout(LINGER);
            Ok((info, exchanges, took))
        }
    })?;
    let panicked = |_| io::Error::other("a program of the scenario panicked");
    let (client, server) = (client.join().map_err(panicked)?, server.join().map_err(panicked)?);
    drop(names);
    let (kernel, exchanges, took) = client?;
    Ok(Observed { kernels: [kernel, server?], exchanges, took })
}

fn socket(at: SocketAddr, end: &End) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, None)?;
    // Before the SYN, which has the window scale.
    if let Some(size) = end.receive_buffer {
        socket.set_recv_buffer_size(size.as_bytes() as usize)?;
    }
    if let Some(size) = end.send_buffer {
        socket.set_send_buffer_size(size.as_bytes() as usize)?;
    }
    Ok(socket)
}

fn listen(ip: IpAddr, end: &End) -> io::Result<TcpListener> {
    let at = SocketAddr::from((ip, 80));
    let socket = socket(at, end)?;
    socket.bind(&at.into())?;
    socket.listen(1)?;
    Ok(socket.into())
}

fn connect(address: SocketAddr, end: &End) -> io::Result<TcpStream> {
    let socket = socket(address, end)?;
    socket.connect_timeout(&address.into(), TIMEOUT)?;
    let stream = socket.into();
    set_up(&stream, end)?;
    Ok(stream)
}

fn set_up(stream: &TcpStream, end: &End) -> io::Result<()> {
    stream.set_nodelay(!end.nagle)?;
    if let Some(rate) = end.pacing {
        setsockopt(stream, MaxPacingRate, &((rate.as_bits_per_second() / 8) as u32))?;
    }
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))
}

/// TCP_INFO after everything is acknowledged, at least this number of bytes.
fn info_after_last_ack(stream: &TcpStream, bytes: u64) -> io::Result<TcpInfo> {
    let until = Instant::now() + LINGER;
    loop {
        let info = TcpInfo::of(stream)?;
        let acknowledged = info.bytes_acked.is_none_or(|acknowledged| acknowledged >= bytes);
        if (info.unacked == 0 && acknowledged) || Instant::now() > until {
            return Ok(info);
        }
        sleep(Duration::from_micros(500));
    }
}
