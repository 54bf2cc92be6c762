//! A way from a host to the network that this machine is on, beside its cables.
//!
//! What leads out must leave no trace on the machine: no forwarding switched on, no address
//! translation, no device that a `kill -9` would leave behind; and it must serve an ordinary user. So
//! it is a program: `passt` opens an ordinary socket out there for each connection that a host opens
//! in here.
//!
//! The host gets an Ethernet device, and two threads carry frames between it and passt over a socket.
//! The package has a second program, `pasta`, which makes the device itself; but it has to enter the
//! namespace for that, which root's pasta may only as root, and which the AppArmor profiles of Debian
//! and Ubuntu allow in few places. passt needs nothing of ours but the socket: it gives up every
//! capability, root's becomes `nobody`, and it ends when the socket closes, however we end.
//!
//! passt's own conveniences stay off: no port of the machine leads in, and no address in here stands
//! for the machine's loopback. Only its resolver is reached there: see [`dns`].

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
    outside::dns::StandIn,
    tun::{self, TunError},
};

/// The name of the host's device.
const DEVICE: &str = "outside";

/// The largest that leaves room for an Ethernet header in passt's frames. Connections end at passt,
/// which divides anew.
const MTU: u32 = 65_520;

/// An Ethernet frame of that MTU.
const MAX_FRAME: usize = MTU as usize + 14;

/// Outgoing frames may wait for passt as they would for a network card.
const QUEUE: u32 = 1000;

/// How long passt may take to be ready; it takes some ten milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// The host's address and its gateway's, in the range of the cables' (see
/// [`crate::host::Addresses`]) but on none of their networks.
const V4: Way = Way {
    host: IpAddr::V4(Ipv4Addr::new(100, 127, 255, 2)),
    gateway: IpAddr::V4(Ipv4Addr::new(100, 127, 255, 1)),
    prefix: 30,
    anywhere: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    somewhere: IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)),
};
const V6: Way = Way {
    host: IpAddr::V6(Ipv6Addr::new(0xfd00, 0x6861, 0x756c, 0xffff, 0, 0, 0, 2)),
    gateway: IpAddr::V6(Ipv6Addr::new(0xfd00, 0x6861, 0x756c, 0xffff, 0, 0, 0, 1)),
    prefix: 64,
    anywhere: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    somewhere: IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
};

/// The way out of one address family.
#[derive(Debug, Clone, Copy)]
struct Way {
    host: IpAddr,
    gateway: IpAddr,
    prefix: u8,
    anywhere: IpAddr,
    /// An address for documentation (RFC 5737, RFC 3849), which only a default route leads to.
    somewhere: IpAddr,
}

impl Way {
    /// Whether the machine has such a way itself. To connect a UDP socket is to look up the route;
    /// nothing is sent.
    fn exists(self) -> bool {
        let socket = UdpSocket::bind(SocketAddr::new(self.anywhere, 0));
        socket.is_ok_and(|socket| socket.connect(SocketAddr::new(self.somewhere, 9)).is_ok())
    }
}

/// Why there is no way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutsideError {
    /// There is no passt.
    #[error("a host reaches the outside by `passt`, which is not installed: install the package passt")]
    Missing,
    /// The machine has no network.
    #[error("there is no outside to reach: this machine has no default route")]
    Nowhere,
    /// passt does not want to.
    #[error("a host cannot reach the outside: passt says: {0}")]
    Refused(String),
    /// passt does nothing.
    #[error("a host cannot reach the outside: passt was not ready within {} s", PATIENCE.as_secs())]
    Slow,
    /// There is no device.
    #[error(transparent)]
    Device(#[from] TunError),
    /// A step failed.
    #[error("cannot {what} for the way to the outside: {error}")]
    Step {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

fn step<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> OutsideError {
    move |error| OutsideError::Step { what, error: error.into() }
}

/// A host's way to the outside. Dropping it closes it.
#[derive(Debug)]
pub struct Outside {
    passt: UnixStream,
    carriers: Option<[JoinHandle<()>; 2]>,
    _resolver: Option<StandIn>,
}

impl Outside {
    /// Opens a way out for `host`. It is the host's way to everywhere if it is opened before the host's
    /// first cable is laid, and what a cable leads to goes along the cable all the same.
    pub fn open(host: &Host) -> Result<Self, OutsideError> {
        let ways: Vec<_> = [V4, V6].into_iter().filter(|way| way.exists()).collect();
        if ways.is_empty() {
            return Err(OutsideError::Nowhere);
        }
        let passt = start(&ways)?;
        let device = plug_in(host, ways)?;
        let resolver = StandIn::listen(host).map_err(step("stand in for the resolver"))?;
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
fn start(ways: &[Way]) -> Result<UnixStream, OutsideError> {
    let (ours, theirs) = UnixStream::pair().map_err(step("make a socket"))?;
    // A program that another thread starts just now would inherit it too, which does not matter: what
    // passt waits for is that ours closes.
    fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).map_err(step("pass on a socket"))?;
    let mut command = Command::new("passt");
    command.args(["--quiet", "--no-map-gw", "--fd", &theirs.as_raw_fd().to_string()]);
    for way in ways {
        command.args(["--address", &way.host.to_string(), "--gateway", &way.gateway.to_string()]);
    }
    if ways.iter().any(|way| way.host.is_ipv4()) {
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

/// passt goes to the background when it is ready.
fn wait_until_ready(mut child: Child) -> Result<(), OutsideError> {
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(step("wait for passt"))? {
            break status;
        }
        if start.elapsed() > PATIENCE {
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

/// The device on the host, with addresses and routes.
fn plug_in(host: &Host, ways: Vec<Way>) -> Result<File, OutsideError> {
    let device = tun::ethernet(host, DEVICE)?;
    let default_route = host.wants_default_route();
    let set_up = move || {
        netlink::run(|net| async move {
            let index = net.index(DEVICE).await?;
            net.set_up(index, MTU, QUEUE).await?;
            for way in ways {
                net.address(index, way.host, way.prefix).await?;
                if default_route {
                    net.route(way.anywhere, 0, way.gateway).await?;
                }
            }
            Ok(())
        })
    };
    host.run(set_up).and_then(|result| result).map_err(step("set up a device"))?;
    Ok(device)
}

/// Carries frames both ways until the socket closes. Each way has a thread of its own: passt may wait
/// until we have read before it reads.
fn carry(device: File, passt: &UnixStream) -> io::Result<[JoinHandle<()>; 2]> {
    let device = Arc::new(device);
    let spawn = |name: &str, carrier: fn(&File, UnixStream) -> io::Result<()>| {
        let (device, passt) = (device.clone(), passt.try_clone()?);
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(error) = carrier(&device, passt) {
                tracing::debug!("the way to the outside is closed: {error}");
            }
        })
    };
    Ok([spawn("outside up", up)?, spawn("outside down", down)?])
}

/// From the host to passt: each frame goes behind its length, four bytes in network order (QEMU's
/// stream netdev).
fn up(device: &File, mut passt: UnixStream) -> io::Result<()> {
    let mut buffer = vec![0; 4 + MAX_FRAME];
    loop {
        // Asked for nothing, the socket still says when it is closed.
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
        // A frame that the host does not take is lost, as on any wire.
        let _ = (&mut &*device).write(frame);
    }
}
