//! The machine's network through `passt`, which opens an ordinary socket on the machine for each connection that it sees.
//!
//! The gateway gets an Ethernet device, and two threads carry frames between it and passt over a socket. Rejected: `pasta`,
//! from the same package, which creates the device itself. It must enter the namespace for that, which pasta may do as
//! root only if started by root, and which the AppArmor profiles of Debian and Ubuntu allow in few places. passt needs
//! only the socket: it drops every capability, becomes `nobody` if started by root, and ends when the socket closes.
//!
//! passt serves one address, that of the gateway. So the threads translate the addresses of all other hosts to it, with the
//! middlebox `nat`; the kernel's own translation needs modules that many machines lack.
//!
//! The convenience features of passt stay off: no port of the machine is forwarded to the host, and no address of the
//! host maps to the machine's loopback.

use std::{
    fs::File,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, fcntl},
    poll::{PollFd, PollFlags, PollTimeout, poll},
};

use super::{OutsideError, step};
use crate::{
    host::Host,
    middleboxes::Middlebox,
    netlink,
    packet::Packet,
    stage::{Out, Stage},
    tun,
};

/// The name of the host's device.
const DEVICE: &str = "outside";

/// The largest that leaves room for an Ethernet header in passt's frames. Connections end at passt, which segments its
/// own.
const MTU: u32 = 65_520;

/// Length of an Ethernet frame with that MTU.
const MAX_FRAME: usize = MTU as usize + 14;

/// Length of the device's transmit queue in packets, as for a network card.
const QUEUE: u32 = 1000;

/// The Ethernet address of the gateway, locally administered. By default it is that of the machine's device, and a host of
/// an outer link has a TUN device, which has none.
const GATEWAY_MAC: &str = "9a:55:9a:55:9a:55";

/// Maximum time until passt is ready; it usually takes 10 ms.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Addresses of the gateway and of passt: in the range of the cables (see [`crate::addresses`]), but on none of
/// their networks.
const V4: Uplink = Uplink {
    host: IpAddr::V4(Ipv4Addr::new(100, 127, 255, 2)),
    gateway: IpAddr::V4(Ipv4Addr::new(100, 127, 255, 1)),
    prefix: 30,
    unspecified: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    probe: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
};
const V6: Uplink = Uplink {
    host: IpAddr::V6(Ipv6Addr::new(0xfd00, 0x6861, 0x756c, 0xffff, 0, 0, 0, 2)),
    gateway: IpAddr::V6(Ipv6Addr::new(0xfd00, 0x6861, 0x756c, 0xffff, 0, 0, 0, 1)),
    prefix: 64,
    unspecified: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    probe: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
};

/// Access for one address family.
#[derive(Debug, Clone, Copy)]
struct Uplink {
    host: IpAddr,
    gateway: IpAddr,
    prefix: u8,
    unspecified: IpAddr,
    /// An address for documentation (RFC 5737, RFC 3849), which only a default route reaches.
    probe: IpAddr,
}

impl Uplink {
    /// Whether the machine has a default route for this family. Connecting a UDP socket only looks up the route and sends
    /// nothing.
    fn exists(self) -> bool {
        let socket = UdpSocket::bind(SocketAddr::new(self.unspecified, 0));
        socket.is_ok_and(|socket| socket.connect(SocketAddr::new(self.probe, 9)).is_ok())
    }
}

/// A running passt with the device of a gateway. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Passt {
    socket: UnixStream,
    carriers: Option<[JoinHandle<()>; 2]>,
    /// The gateway's address on the device.
    pub(super) address: IpAddr,
}

impl Passt {
    pub(super) fn start(gateway: &Host) -> Result<Self, OutsideError> {
        let uplinks: Vec<_> = [V4, V6].into_iter().filter(|uplink| uplink.exists()).collect();
        let Some(address) = uplinks.first().map(|uplink| uplink.host) else { return Err(OutsideError::Nowhere) };
        let socket = start(&uplinks)?;
        let device = add_device(gateway, uplinks)?;
        let carriers = carry(device, &socket).map_err(step("start a thread"))?;
        Ok(Self { socket, carriers: Some(carriers), address })
    }
}

impl Drop for Passt {
    fn drop(&mut self) {
        // Both threads watch the socket, and so does passt.
        let _ = self.socket.shutdown(Shutdown::Both);
        for carrier in self.carriers.take().into_iter().flatten() {
            let _ = carrier.join();
        }
    }
}

/// Starts passt and returns our end of the socket between us.
fn start(uplinks: &[Uplink]) -> Result<UnixStream, OutsideError> {
    let (ours, theirs) = UnixStream::pair().map_err(step("create a socket"))?;
    // A program that another thread starts at this moment inherits it too. That does no harm: passt ends when our end
    // closes.
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).map_err(step("pass a socket to passt"))?;
    let mut command = Command::new("passt");
    command.args(["--quiet", "--no-map-gw", "--mac-addr", GATEWAY_MAC, "--fd", &theirs.as_raw_fd().to_string()]);
    for uplink in uplinks {
        command.args(["--address", &uplink.host.to_string(), "--gateway", &uplink.gateway.to_string()]);
    }
    if uplinks.iter().any(|uplink| uplink.host.is_ipv4()) {
        command.args(["--netmask", &V4.prefix.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OutsideError::Missing,
        _ => step("start passt")(error),
    })?;
    drop(theirs);
    wait_until_ready(child)?;
    Ok(ours)
}

/// Waits until passt is ready, and has gone to the background.
fn wait_until_ready(mut child: Child) -> Result<(), OutsideError> {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(step("wait for passt"))? {
            break status;
        }
        if start.elapsed() > READY_TIMEOUT {
            let _ = child.kill();
            let _ = child.wait();
            return Err(OutsideError::Slow);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    if status.success() {
        return Ok(());
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut said);
    }
    Err(OutsideError::Refused(said.lines().last().map_or_else(|| status.to_string(), str::to_owned)))
}

/// Creates the device on the host, with addresses and routes.
fn add_device(host: &Host, uplinks: Vec<Uplink>) -> Result<File, OutsideError> {
    let device = tun::ethernet(host, DEVICE)?;
    let default_route = host.wants_default_route();
    let set_up = move || {
        netlink::run(|net| async move {
            let index = net.index(DEVICE).await?;
            net.set_up(index, MTU, QUEUE).await?;
            for uplink in uplinks {
                net.address(index, uplink.host, uplink.prefix).await?;
                if default_route {
                    net.route(uplink.unspecified, 0, uplink.gateway).await?;
                }
            }
            Ok(())
        })
    };
    host.run(set_up).and_then(|result| result).map_err(step("set up a device"))?;
    Ok(device)
}

/// Starts two threads that carry frames until the socket closes. Each direction needs its own: passt may wait until we
/// have read before it reads.
fn carry(device: File, passt: &UnixStream) -> io::Result<[JoinHandle<()>; 2]> {
    let device = Arc::new(device);
    let nat: Middlebox = format!("nat:address={},address6={}", V4.host, V6.host).parse().map_err(io::Error::other)?;
    let nat = nat.build().map_err(io::Error::other)?;
    let spawn = |name: &str, carrier: fn(&File, UnixStream, Translator) -> io::Result<()>, translator: Translator| {
        let (device, passt) = (device.clone(), passt.try_clone()?);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = carrier(&device, passt, translator) {
                tracing::debug!("access to the outside ended: {error}");
            }
        })
    };
    Ok([spawn("outside up", up, Translator(nat.up))?, spawn("outside down", down, Translator(nat.down))?])
}

/// One direction of the address translation.
struct Translator(Option<Box<dyn Stage>>);

/// Length of an Ethernet header.
const ETHERNET: usize = 14;

impl Translator {
    /// Translates the IP packets in a frame; `None` if the frame is to be dropped.
    fn translate(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let is_ip = matches!(frame.get(12..ETHERNET), Some([0x08, 0x00] | [0x86, 0xdd]));
        let Some(nat) = self.0.as_mut().filter(|_| is_ip) else { return Some(frame.to_vec()) };
        let (header, packet) = frame.split_at(ETHERNET);
        let mut out = Out::default();
        nat.push(Packet::new(packet.to_vec()), Instant::now(), &mut out);
        let packet = out.forward.pop()?;
        Some([header, &packet.bytes].concat())
    }
}

/// From the host to passt. Each frame is preceded by its length, four bytes in network order (QEMU's stream netdev).
fn up(device: &File, mut passt: UnixStream, mut translator: Translator) -> io::Result<()> {
    let mut buffer = vec![0; MAX_FRAME];
    loop {
        // Without requested events, poll(2) still reports that the socket is closed.
        let mut files =
            [PollFd::new(device.as_fd(), PollFlags::POLLIN), PollFd::new(passt.as_fd(), PollFlags::empty())];
        match poll(&mut files, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if files[1].any().unwrap_or(false) {
            return Ok(());
        }
        match (&mut &*device).read(&mut buffer) {
            Ok(length) => {
                if let Some(frame) = translator.translate(&buffer[..length]) {
                    passt.write_all(&[&(frame.len() as u32).to_be_bytes(), frame.as_slice()].concat())?;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// From passt to the host.
fn down(device: &File, passt: UnixStream, mut translator: Translator) -> io::Result<()> {
    let mut passt = io::BufReader::with_capacity(4 * MAX_FRAME, passt);
    let mut frame = vec![0; MAX_FRAME];
    loop {
        let mut length = [0; 4];
        passt.read_exact(&mut length)?;
        let frame = usize::try_from(u32::from_be_bytes(length)).ok().and_then(|length| frame.get_mut(..length));
        let frame = frame.ok_or(io::ErrorKind::InvalidData)?;
        passt.read_exact(frame)?;
        if let Some(frame) = translator.translate(frame) {
            // A frame that the host rejects is lost, as on any network.
            let _ = (&mut &*device).write(&frame);
        }
    }
}
