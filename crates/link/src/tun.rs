//! A TUN device: the socket in a host's wall that a cable is plugged into; and its sibling that
//! carries Ethernet frames, for what is not a cable.
//!
//! Source: the kernel's Documentation/networking/tuntap.rst and <linux/if_tun.h>.

#![expect(unsafe_code, reason = "ioctl(2): TUNSETIFF and its kin have no safe wrapper in nix")]

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    net::{IpAddr, Ipv6Addr, UdpSocket},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd},
        unix::fs::OpenOptionsExt,
    },
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    libc,
    sys::uio::{readv, writev},
};

use crate::{
    departures::Departures,
    host::{Addresses, Host},
    netlink,
    offload::Header,
};

const DEVICE: &str = "/dev/net/tun";

/// Packets the kernel may queue towards us: at 10 Gbit/s of 1500-byte packets, 20 ms of them.
const QUEUE: u32 = 16_384;

nix::ioctl_write_ptr_bad!(tun_set_iff, nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()), libc::ifreq);
nix::ioctl_write_int_bad!(tun_set_offload, nix::request_code_write!(b'T', 208, size_of::<libc::c_uint>()));

/// Why there is no device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The machine has no TUN devices.
    #[error("this machine has no {DEVICE}: load the module with `modprobe tun`, or pass the device into the container")]
    Missing,
    /// The user may not make one.
    #[error(
        "{DEVICE} may not be opened by this user: allow it with `chmod 0666 {DEVICE}`, as udev does, or run this as root"
    )]
    Forbidden,
    /// A step failed.
    #[error("cannot set up or ask a device on host `{host}`: {error}")]
    Step {
        /// The host.
        host: String,
        /// What the system said.
        error: io::Error,
    },
}

/// The reader's and writer's side of a TUN device.
#[derive(Debug)]
pub(crate) struct Tun {
    file: File,
    host: Host,
    name: String,
    /// `None` where the kernel does not tell.
    departures: Option<Departures>,
}

impl Tun {
    /// A new device on `host` with these addresses, switched on; also its host's way to everywhere
    /// where it is the first.
    pub(crate) fn new(host: &Host, addresses: Addresses, mtu: u32) -> Result<Self, TunError> {
        let (name, default_route) = (host.next_device(), host.wants_default_route());
        let file = create(host, &name, libc::IFF_TUN | libc::IFF_VNET_HDR)?;
        let device = name.clone();
        let set_up = move || {
            netlink::run(|net| async move {
                let index = net.index(&device).await?;
                net.address(index, IpAddr::V4(addresses.v4), 24).await?;
                net.set_up(index, mtu, QUEUE).await?;
                // Where IPv6 is switched off, the cable is one of IPv4.
                let v6 = net.address(index, IpAddr::V6(addresses.v6), 64).await;
                match &v6 {
                    Ok(()) => await_address(addresses.v6),
                    Err(error) => tracing::warn!("a cable without IPv6: {error}"),
                }
                if default_route {
                    net.default_route(index, v6.is_ok()).await?;
                }
                Ok(Departures::of(index).ok())
            })
        };
        let departures = offload(&file).and_then(|()| host.run(set_up)?).map_err(|error| step(host, error))?;
        Ok(Self { file, host: host.clone(), name, departures })
    }

    /// The host that it is on.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// How many packets of its host's it had no room for, so that nobody read them.
    pub(crate) fn dropped(&self) -> Result<u64, TunError> {
        let name = self.name.clone();
        let read = self.host.run(move || netlink::run(|net| async move { net.dropped(&name).await }));
        read.and_then(|result| result).map_err(|error| step(&self.host, error))
    }

    /// Whether a read or write failed because there is no device any more.
    pub(crate) fn is_gone(error: &io::Error) -> bool {
        error.raw_os_error().map(Errno::from_raw) == Some(Errno::EBADFD)
    }

    /// Reads one packet, or one segment; `None` when there is none.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<(Header, usize)>> {
        let mut header = [0; Header::LEN];
        match readv(&self.file, &mut [IoSliceMut::new(&mut header), IoSliceMut::new(buffer)]) {
            Ok(length) if length >= Header::LEN => Ok(Some((Header::from_bytes(header), length - Header::LEN))),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// When the packet that is read next left its host, if it is known to have done so after `since`;
    /// see [`Departures`].
    pub(crate) fn departed(&self, since: Instant) -> Option<Instant> {
        self.departures.as_ref()?.next(since)
    }

    /// Gives one packet, or one segment, to the host.
    pub(crate) fn write(&self, header: Header, bytes: &[u8]) -> io::Result<()> {
        let header = header.to_bytes();
        writev(&self.file, &[IoSlice::new(&header), IoSlice::new(bytes)])?;
        Ok(())
    }

    /// Brings what a write passes through into the processor's caches: after milliseconds of idleness a
    /// first write takes ten microseconds longer than a second. This one is shorter than the header, so
    /// the kernel refuses it before anything comes of it.
    pub(crate) fn touch(&self) {
        let _ = writev(&self.file, &[IoSlice::new(&[0]), IoSlice::new(&[0])]);
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Waits, a second at most, until packets to an IPv6 address arrive on the host of the calling thread.
/// The kernel gives the address at once and makes it work a little later, when it has looked for
/// duplicates (RFC 4862 §5.4), also on a device where there can be none.
fn await_address(address: Ipv6Addr) {
    let reach = || -> io::Result<()> {
        let socket = UdpSocket::bind((address, 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(10)))?;
        socket.send_to(&[0], socket.local_addr()?)?;
        socket.recv(&mut [0]).map(drop)
    };
    let start = Instant::now();
    while reach().is_err() && start.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A device called `name` on `host` that carries Ethernet frames as they are, one by each read and
/// write; without an address, and off.
pub(crate) fn ethernet(host: &Host, name: &str) -> Result<File, TunError> {
    create(host, name, libc::IFF_TAP)
}

fn step(host: &Host, error: io::Error) -> TunError {
    TunError::Step { host: host.name().to_owned(), error }
}

/// Makes the device.
fn create(host: &Host, name: &str, kind: libc::c_int) -> Result<File, TunError> {
    let name = name.to_owned();
    let created = host.run(move || open(&name, kind)).map_err(|error| step(host, error))?;
    created.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT | Errno::ENODEV | Errno::ENXIO) => TunError::Missing,
        Some(Errno::EACCES) => TunError::Forbidden,
        _ => step(host, error),
    })
}

/// Makes the device in the namespace of the calling thread, to which the file belongs from its
/// opening on.
fn open(name: &str, kind: libc::c_int) -> io::Result<File> {
    let file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE)?;
    // SAFETY: an ifreq of zeros is valid; the name is shorter than IFNAMSIZ; the kernel reads it
    // during the call and does not keep it.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
        tun_set_iff(file.as_raw_fd(), &raw const request)?;
    }
    Ok(file)
}

/// Lets the kernel hand over whole TCP segments of up to 64 KiB and leave checksums to us: see
/// [`crate::offload`].
fn offload(file: &File) -> io::Result<()> {
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // SAFETY: the argument is a number.
    unsafe { tun_set_offload(file.as_raw_fd(), offloads as libc::c_int) }?;
    Ok(())
}
