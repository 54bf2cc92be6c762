//! A TUN device: the end of a cable on a host. And a TAP device, which carries Ethernet frames, for `outside`.
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
    addresses::{Addresses, PREFIX, PREFIX6},
    host::Host,
    netlink,
    offload::Header,
    tx_timestamps::TxTimestamps,
};

const DEVICE: &str = "/dev/net/tun";

/// Length of the device's transmit queue in packets: 20 ms of 1500-byte packets at 10 Gbit/s.
const QUEUE: u32 = 16_384;

nix::ioctl_write_ptr_bad!(tun_set_iff, nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()), libc::ifreq);
nix::ioctl_write_int_bad!(tun_set_offload, nix::request_code_write!(b'T', 208, size_of::<libc::c_uint>()));

/// Why a device could not be created or queried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunError {
    /// The machine has no TUN devices.
    #[error("this machine has no {DEVICE}: load the module with `modprobe tun`, or pass the device into the container")]
    Missing,
    /// The user may not open it.
    #[error("no permission to open {DEVICE}: allow it with `chmod 0666 {DEVICE}`, as udev does, or run this as root")]
    Forbidden,
    /// A step failed.
    #[error("cannot set up or query a network device on host `{host}`: {error}")]
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
    /// `None` if the kernel gives none.
    timestamps: Option<TxTimestamps>,
}

impl Tun {
    /// A new device on `host` with these addresses, up; the first device of a host gets the default route.
    pub(crate) fn new(host: &Host, addresses: Addresses, mtu: u32) -> Result<Self, TunError> {
        let (name, default_route) = (host.next_device(), host.wants_default_route());
        let file = create(host, &name, libc::IFF_TUN | libc::IFF_VNET_HDR)?;
        let device = name.clone();
        let set_up = move || {
            netlink::run(|net| async move {
                let index = net.index(&device).await?;
                net.address(index, IpAddr::V4(addresses.v4), PREFIX).await?;
                net.set_up(index, mtu, QUEUE).await?;
                // Without IPv6 in the kernel, the cable carries IPv4 only.
                let v6 = net.address(index, IpAddr::V6(addresses.v6), PREFIX6).await;
                match &v6 {
                    Ok(()) => await_address(addresses.v6),
                    Err(error) => tracing::warn!("a cable without IPv6: {error}"),
                }
                if default_route {
                    net.default_route(index, v6.is_ok()).await?;
                }
                Ok(TxTimestamps::new(index).ok())
            })
        };
        let timestamps = offload(&file).and_then(|()| host.run(set_up)?).map_err(|error| step(host, error))?;
        Ok(Self { file, host: host.clone(), name, timestamps })
    }

    /// Its host.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// Number of packets that the host sent while the device's queue was full, and that were dropped.
    pub(crate) fn dropped(&self) -> Result<u64, TunError> {
        let name = self.name.clone();
        let read = self.host.run(move || netlink::run(|net| async move { net.dropped(&name).await }));
        read.and_then(|result| result).map_err(|error| step(&self.host, error))
    }

    /// Whether a read or write failed because the device no longer exists.
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

    /// When the next packet to be read left its host, if that was after `since` and is known; see [`TxTimestamps`].
    pub(crate) fn sent_at(&self, since: Instant) -> Option<Instant> {
        self.timestamps.as_ref()?.next(since)
    }

    /// Delivers one packet, or one segment, to the host.
    pub(crate) fn write(&self, header: Header, bytes: &[u8]) -> io::Result<()> {
        let header = header.to_bytes();
        writev(&self.file, &[IoSlice::new(&header), IoSlice::new(bytes)])?;
        Ok(())
    }

    /// Warms the processor's caches for a write: after milliseconds of idleness, the first write takes ten
    /// microseconds longer than the second. This one is shorter than the header, so the kernel rejects it.
    pub(crate) fn warm_up(&self) {
        let _ = writev(&self.file, &[IoSlice::new(&[0]), IoSlice::new(&[0])]);
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Waits up to a second until packets to an IPv6 address arrive on the host of the calling thread. The kernel assigns
/// the address at once, but it works only after duplicate address detection (RFC 4862 §5.4).
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

/// A TAP device called `name` on `host`: one Ethernet frame per read and write, no address, down.
pub(crate) fn ethernet(host: &Host, name: &str) -> Result<File, TunError> {
    create(host, name, libc::IFF_TAP)
}

fn step(host: &Host, error: io::Error) -> TunError {
    TunError::Step { host: host.name().to_owned(), error }
}

/// Creates the device.
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
