//! Transmit timestamps: when a packet left its host.
//!
//! A relay sleeps until its device has something to read. Waking up takes about 50 µs on an idle machine, since one
//! processor interrupts another, and milliseconds on a busy one, where the relay waits for its turn. If a packet's time
//! on the cable started when the relay reads it, all of that would add to the configured delay. So the kernel takes the
//! time: a packet socket (packet(7)) gets a copy of each packet that enters the device, with its timestamp. The relay
//! may then read late, as long as the packet is held for longer.
//!
//! Timestamps and packets are matched by their order, and a wrong match must never make a packet too early. So a
//! timestamp is used only if the device is known to have been empty before it: from there until the device is empty
//! again, the first timestamp belongs to the first packet, and so on. A missing timestamp (the socket was full because
//! nobody read it) can only make packets later.

#![expect(
    unsafe_code,
    reason = "bind(2) to a device needs a sockaddr_ll, which neither nix nor socket2 builds safely; and SO_ATTACH_FILTER"
)]

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

/// The timestamps of packets that entered a device.
#[derive(Debug)]
pub(crate) struct TxTimestamps(OwnedFd);

impl TxTimestamps {
    /// For the device with this index, in the network namespace of the calling thread.
    pub(crate) fn new(index: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, None)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        // Keep one byte of each packet that the device sends, and nothing of those that it receives.
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
        // SAFETY: the kernel reads the program, its filter and the address during the calls, each with its given size.
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

    /// The next unread timestamp after `since`; `None` if there is none.
    pub(crate) fn next(&self, since: Instant) -> Option<Instant> {
        loop {
            let sent = SystemTime::UNIX_EPOCH + self.time()?;
            // An interruption between reading the two clocks must not make an old timestamp look new, nor move one
            // back in time.
            let before = Instant::now();
            let age = SystemTime::now().duration_since(sent).unwrap_or_default();
            let after = Instant::now();
            if before.checked_sub(age)? >= since {
                return after.checked_sub(age);
            }
        }
    }

    /// The next timestamp, since 1970-01-01 00:00 UTC.
    fn time(&self) -> Option<Duration> {
        let mut room = nix::cmsg_space!(TimeSpec);
        let message = recvmsg::<()>(self.0.as_raw_fd(), &mut [], Some(&mut room), MsgFlags::empty()).ok()?;
        message.cmsgs().ok()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => Some(time.into()),
            _ => None,
        })
    }
}
