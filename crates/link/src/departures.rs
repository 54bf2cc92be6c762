//! When packets left their host.
//!
//! A relay sleeps until its device has something to read. To be woken takes it some 50 µs on an idle
//! machine, for one processor has to interrupt another, and milliseconds on a busy one, where it has to
//! wait for its turn. If a packet's way along the cable began when the relay reads it, all of that
//! would be added to the delay that was asked for. So the kernel is asked: a packet socket (packet(7))
//! hears of each packet on its way into the device, and of the time. Then it does not matter how late
//! the relay reads, as long as the packet is held longer than that.
//!
//! Times and packets are paired by their order, which must never make a packet earlier than it was.
//! So only times are used from which on the device is known to have been empty before: until it is
//! empty again, the first of them belongs to the first packet and the next to the next. A time that
//! is missing, because nobody asked for so long that the socket is full, makes packets later at most.

#![expect(unsafe_code, reason = "bind(2) to a device and SO_ATTACH_FILTER have no safe wrapper in nix")]

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant, SystemTime},
};

use nix::{
    errno::Errno,
    libc,
    sys::socket::{
        AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg, setsockopt, socket, sockopt,
    },
    sys::time::TimeSpec,
};

/// The times at which packets went into a device.
#[derive(Debug)]
pub(crate) struct Departures(OwnedFd);

impl Departures {
    /// Those of the device of this index, in the namespace of the calling thread.
    pub(crate) fn of(index: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, None)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        // Of packets that the device sends, one byte; of those that it receives, nothing.
        let kind = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
        let mut filter = [
            (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, kind),
            (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::PACKET_OUTGOING.into()),
            (libc::BPF_RET | libc::BPF_K, 0, 0, 1),
            (libc::BPF_RET | libc::BPF_K, 0, 0, 0),
        ]
        .map(|(code, jt, jf, k)| libc::sock_filter { code: code as u16, jt, jf, k });
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the kernel reads the program, its filter and the address during the calls, each of
        // the size it is told.
        unsafe {
            let size = size_of::<libc::sock_fprog>() as u32;
            let program = (&raw const program).cast();
            Errno::result(libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                program,
                size,
            ))?;
            let size = size_of::<libc::sockaddr_ll>() as u32;
            Errno::result(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size))?;
        }
        Ok(Self(socket))
    }

    /// When the next packet left that left after `since` and was not asked about before; `None` when
    /// that is not known.
    pub(crate) fn next(&self, since: Instant) -> Option<Instant> {
        loop {
            let left = SystemTime::UNIX_EPOCH + self.time()?;
            // Whoever is interrupted between two clocks must not take an old time for a new one, nor
            // make a time earlier than it was.
            let before = Instant::now();
            let age = SystemTime::now().duration_since(left).unwrap_or_default();
            let after = Instant::now();
            if before.checked_sub(age)? >= since {
                return after.checked_sub(age);
            }
        }
    }

    /// The next time, since 1970-01-01 00:00 UTC.
    fn time(&self) -> Option<Duration> {
        let mut room = nix::cmsg_space!(TimeSpec);
        let message = recvmsg::<()>(self.0.as_raw_fd(), &mut [], Some(&mut room), MsgFlags::empty()).ok()?;
        message.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => Some(time.into()),
            _ => None,
        })
    }
}
