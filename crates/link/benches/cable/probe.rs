//! Traffic over a rig: pings, a UDP flood, a TCP flow.

use std::{
    io::{self, IoSliceMut, Read, Write},
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket},
    os::fd::AsRawFd,
    thread,
    time::{Duration, Instant, SystemTime},
};

use nix::sys::{
    prctl,
    socket::{
        AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg, setsockopt, socket,
        sockopt,
    },
    time::TimeSpec,
};

use crate::{Result, rig::Joined};

/// The timeout of each wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// IP and UDP headers, in bytes.
const HEADERS: usize = 28;

/// The RTTs of `count` pings, with pauses in which the machine becomes idle.
///
/// As with ping(8), each ends when the kernel receives the reply, not when it has woken us.
pub(crate) fn ping(joined: &Joined, count: u16) -> Result<Vec<Duration>> {
    let address = joined.address;
    joined.client.run(move || {
        // The kernel fills in the identifier and the checksum, and replies at the other end (icmp(7)).
        let icmp = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)?;
        setsockopt(&icmp, sockopt::ReceiveTimestampns, &true)?;
        let socket = UdpSocket::from(icmp);
        socket.connect((address, 0))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let trip = |number: u16| -> io::Result<Duration> {
            let mut echo = [0; 64];
            echo[0] = 8;
            echo[6..8].copy_from_slice(&number.to_be_bytes());
            let start = SystemTime::now();
            socket.send(&echo)?;
            loop {
                let (answer, came) = receive(&socket)?;
                if answer == number {
                    return Ok((SystemTime::UNIX_EPOCH + came).duration_since(start).unwrap_or_default());
                }
            }
        };
        trip(0)?; // resolves addresses
        (1..=count)
            .map(|number| {
                thread::sleep(Duration::from_micros(1000 + u64::from(number % 7) * 300));
                trip(number)
            })
            .collect()
    })
}

/// The number of the next reply, and its time since 1970-01-01 00:00 UTC.
fn receive(socket: &UdpSocket) -> io::Result<(u16, Duration)> {
    let mut buffer = [0; 64];
    let mut room = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let message = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut room), MsgFlags::empty())?;
    let came = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(time) => Some(time.into()),
        _ => None,
    });
    let came = came.ok_or_else(|| io::Error::other("the kernel does not say when an answer came"))?;
    Ok((u16::from_be_bytes([buffer[6], buffer[7]]), came))
}

/// The rate at which a UDP flood arrives, in bits of IP packets per second; it is sent a quarter faster than `nominal`.
pub(crate) fn flood(joined: &Joined, nominal: u64, mtu: u16, time: Duration) -> Result<f64> {
    let address = joined.address;
    let receiver = joined.server.run(move || {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20))?;
        Ok(socket)
    })?;
    let target = receiver.local_addr()?;
    let size = usize::from(mtu) - HEADERS;
    let receive = joined.server.thread(move || {
        // Without the start, when the queue fills, and the end, when it drains.
        let mut buffer = [0; 2048];
        receiver.recv(&mut buffer)?;
        let begin = Instant::now() + time / 5;
        let end = begin + time * 4 / 5;
        let (mut first, mut last, mut packets) = (None, begin, 0);
        while last < end {
            receiver.recv(&mut buffer)?;
            last = Instant::now();
            if last >= begin {
                first.get_or_insert(last);
                packets += 1;
            }
        }
        let span = last.duration_since(first.unwrap_or(begin)).as_secs_f64();
        Ok(f64::from(packets - 1) * f64::from(mtu) * 8.0 / span)
    })?;
    joined.client.run(move || {
        let _ = prctl::set_timerslack(1);
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let payload = vec![0; size];
        let start = Instant::now();
        let per_second = nominal as f64 * 1.25 / (f64::from(mtu) * 8.0);
        let mut sent = 0;
        while start.elapsed() < time + Duration::from_millis(150) {
            while f64::from(sent) < start.elapsed().as_secs_f64() * per_second {
                socket.send_to(&payload, target)?;
                sent += 1;
            }
            thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    })?;
    Ok(receive.join().map_err(|_| "the receiver panicked")??)
}

/// The goodput of one TCP flow in bits per second over `time`, after `warm_up` for its window to open.
pub(crate) fn flow(joined: &Joined, warm_up: Duration, time: Duration) -> Result<f64> {
    const BLOCK: usize = 256 << 10;
    let address = joined.address;
    let listener = joined.server.run(move || TcpListener::bind(SocketAddrV4::new(address, 0)))?;
    let target = listener.local_addr()?;
    let receive = joined.server.thread(move || {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let begin = Instant::now() + warm_up;
        let mut block = vec![0; BLOCK];
        let (mut first, mut last, mut bytes) = (None, begin, 0);
        loop {
            let length = stream.read(&mut block)?;
            let now = Instant::now();
            if length == 0 || now > begin + time {
                break;
            }
            if now >= begin {
                match first {
                    None => first = Some(now), // its bytes came earlier
                    Some(_) => bytes += length,
                }
                last = now;
            }
        }
        // The sender may have more, which is not measured.
        while stream.read(&mut block)? > 0 {}
        Ok(bytes as f64 * 8.0 / last.duration_since(first.unwrap_or(begin)).as_secs_f64())
    })?;
    joined.client.run(move || {
        let mut stream = TcpStream::connect_timeout(&target, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let block = vec![0; BLOCK];
        let start = Instant::now();
        while start.elapsed() < warm_up + time {
            stream.write_all(&block)?;
        }
        Ok(())
    })?;
    Ok(receive.join().map_err(|_| "the receiver panicked")??)
}
