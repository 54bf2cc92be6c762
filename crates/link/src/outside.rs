//! Access from a host to the machine's own network, besides its cables.
//!
//! It must change nothing on the machine: no forwarding, no address translation, no device that remains after a
//! `kill -9`; and it must work for an ordinary user. So it uses a program: `passt` opens an ordinary socket on the machine
//! for each connection that the host opens.
//!
//! The host gets an Ethernet device, and two threads carry frames between it and passt over a socket. Rejected: `pasta`,
//! from the same package, which creates the device itself. It must enter the namespace for that, which pasta may do as
//! root only if started by root, and which the AppArmor profiles of Debian and Ubuntu allow in few places. passt needs
//! only the socket: it drops every capability, becomes `nobody` if started by root, and ends when the socket closes.
//!
//! The convenience features of passt stay off: no port of the machine is forwarded to the host, and no address of the
//! host maps to the machine's loopback. Only the machine's resolver is reachable there: see [`dns`].

mod dns;

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

use crate::{
    host::Host,
    netlink,
    outside::dns::Proxy,
    tun::{self, TunError},
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
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Addresses of the host and its gateway: in the range of the cables (see [`crate::addresses`]), but on none of
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

/// Why a host cannot reach the machine's network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutsideError {
    /// passt is not installed.
    #[error("`--outside` needs the program `passt`; install the package passt")]
    Missing,
    /// The machine has no network.
    #[error("the client host cannot reach the outside: this machine has no default route")]
    Nowhere,
    /// passt failed.
    #[error("the client host cannot reach the outside: passt failed: {0}")]
    Refused(String),
    /// passt did not get ready.
    #[error("the client host cannot reach the outside: passt was not ready within {} s", READY_TIMEOUT.as_secs())]
    Slow,
    /// The device could not be created.
    #[error(transparent)]
    Device(#[from] TunError),
    /// A step failed.
    #[error("cannot {what} for access to the outside: {error}")]
    Step {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

fn step<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> OutsideError {
    move |error| OutsideError::Step { what, error: error.into() }
}

/// A host's access to the machine's network. Dropping it ends it.
#[derive(Debug)]
pub struct Outside {
    passt: UnixStream,
    carriers: Option<[JoinHandle<()>; 2]>,
    _resolver: Option<Proxy>,
}

impl Outside {
    /// Opens access for `host`. It gets the host's default route if it is opened before the host's first cable is
    /// connected. Packets to a cable's network still use the cable.
    pub fn open(host: &Host) -> Result<Self, OutsideError> {
        let uplinks: Vec<_> = [V4, V6].into_iter().filter(|uplink| uplink.exists()).collect();
        if uplinks.is_empty() {
            return Err(OutsideError::Nowhere);
        }
        let passt = start(&uplinks)?;
        let device = add_device(host, uplinks)?;
        let resolver = Proxy::listen(host).map_err(step("start the DNS proxy"))?;
        let carriers = carry(device, &passt).map_err(step("start a thread"))?;
        Ok(Self { passt, carriers: Some(carriers), _resolver: resolver })
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // Both threads watch the socket, and so does passt.
        let _ = self.passt.shutdown(Shutdown::Both);
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
    let spawn = |name: &str, carrier: fn(&File, UnixStream) -> io::Result<()>| {
        let (device, passt) = (device.clone(), passt.try_clone()?);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = carrier(&device, passt) {
                tracing::debug!("access to the outside ended: {error}");
            }
        })
    };
    Ok([spawn("outside up", up)?, spawn("outside down", down)?])
}

/// From the host to passt. Each frame is preceded by its length, four bytes in network order (QEMU's stream netdev).
fn up(device: &File, mut passt: UnixStream) -> io::Result<()> {
    let mut buffer = vec![0; 4 + MAX_FRAME];
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
        match (&mut &*device).read(&mut buffer[4..]) {
            Ok(length) => {
                buffer[..4].copy_from_slice(&(length as u32).to_be_bytes());
                passt.write_all(&buffer[..4 + length])?;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// From passt to the host.
fn down(device: &File, passt: UnixStream) -> io::Result<()> {
    let mut passt = io::BufReader::with_capacity(4 * MAX_FRAME, passt);
    let mut frame = vec![0; MAX_FRAME];
    loop {
        let mut length = [0; 4];
        passt.read_exact(&mut length)?;
        let frame = usize::try_from(u32::from_be_bytes(length)).ok().and_then(|length| frame.get_mut(..length));
        let frame = frame.ok_or(io::ErrorKind::InvalidData)?;
        passt.read_exact(frame)?;
        // A frame that the host rejects is lost, as on any network.
        let _ = (&mut &*device).write(frame);
    }
}
