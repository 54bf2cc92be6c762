//! The kernel's view of a connection: `TCP_INFO`.
//!
//! Linux appends to `struct tcp_info` with nearly every release, and returns how much of it is filled in; `libc`'s
//! struct ends, on glibc, where the kernel of 2016 did. So this parses the bytes itself, and a field that the kernel
//! did not return is `None`. The layout is in `include/uapi/linux/tcp.h`. The call exists on Linux only; another system
//! needs another `of`.

#![expect(unsafe_code, reason = "getsockopt(TCP_INFO) has a safe wrapper in none of socket2, rustix and nix")]

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    time::Duration,
};

/// A snapshot of a TCP connection, flat as in the kernel. All fields are about the sending direction, except `bytes_received`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Time since the last acknowledgement, in whole milliseconds.
    pub last_ack: Duration,
    /// The smoothed RTT (RFC 6298's SRTT).
    pub rtt: Duration,
    /// Its variation (RTTVAR).
    pub rtt_var: Duration,
    /// The retransmission timeout now in force.
    pub rto: Duration,
    /// The minimum RTT seen in the kernel's window (`net.ipv4.tcp_min_rtt_wlen`); Linux 4.6.
    pub min_rtt: Option<Duration>,
    /// The MSS for sending, in bytes of payload.
    pub snd_mss: u32,
    /// The congestion window, in segments. [`TcpInfo::cwnd`] has it in bytes.
    pub snd_cwnd: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Of those, segments presumed lost.
    pub lost: u32,
    /// Segments retransmitted since the connection began.
    pub retransmits: u32,
    /// Bytes acknowledged since the connection began; Linux 4.1. A SYN of ours counts as one.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order since the connection began; Linux 4.1.
    pub bytes_received: Option<u64>,
    /// The latest estimate of the delivery rate, in bytes per second; Linux 4.9.
    pub delivery_rate: Option<u64>,
    /// Whether the application, not the path, limited that estimate.
    pub app_limited: bool,
    /// Time with data to send or to be acknowledged, in whole ticks of the kernel (1 to 10 ms); Linux 4.10, as the two
    /// below.
    pub busy_time: Option<Duration>,
    /// Of that, time limited by the receive window.
    pub rwnd_limited: Option<Duration>,
    /// Of that, time limited by the send buffer.
    pub sndbuf_limited: Option<Duration>,
    /// The window the peer offers, in bytes; Linux 5.4.
    pub snd_wnd: Option<u32>,
    /// Whether the SYN is not acknowledged yet.
    pub connecting: bool,
    /// Whether the SYN carried data and the SYN-ACK acknowledged it: TCP Fast Open (RFC 7413) has worked. Set at both
    /// ends.
    pub syn_data_accepted: bool,
    /// Why it has not, if it was tried; Linux 5.5.
    pub fast_open_failure: Option<FastOpenFailure>,
}

/// Why a SYN's data was not accepted (Linux's `tcp_fastopen_client_fail`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastOpenFailure {
    /// There was no cookie for the server, so no data was sent.
    NoCookie,
    /// The SYN-ACK acknowledged the SYN without its data, which was then retransmitted.
    NotAcknowledged,
    /// The SYN was retransmitted without data before a SYN-ACK came.
    Retransmitted,
}

/// `TCP_SYN_SENT` among the states, and `TCPI_OPT_SYN_DATA` among the options.
const SYN_SENT: u8 = 2;
const SYN_DATA: u8 = 32;

impl TcpInfo {
    /// Reads the `TCP_INFO` of a socket.
    pub fn of(socket: &impl AsFd) -> io::Result<Self> {
        let mut bytes = [0_u8; 512];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes, which is the room behind the pointer, and then says in
        // `length` how many it wrote. Both outlive the call.
        let status = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::parse(&bytes[..length as usize])
            .ok_or_else(|| io::Error::other("this kernel's TCP_INFO is older than Linux 2.6"))
    }

    /// The congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        u64::from(self.snd_cwnd) * u64::from(self.snd_mss)
    }

    /// Parses as much as there is; `None` if even the first fields are missing.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let u32_at = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let micros = |count: u32| Duration::from_micros(count.into());
        // A C compiler puts the first bit field lowest on little-endian machines, and highest on the others.
        let (first_bit, next_two) = if cfg!(target_endian = "little") {
            (0x01, bytes.get(7)? >> 1 & 3)
        } else {
            (0x80, bytes.get(7)? >> 5 & 3)
        };
        Some(Self {
            rto: micros(u32_at(8)?),
            snd_mss: u32_at(16)?,
            unacked: u32_at(24)?,
            lost: u32_at(32)?,
            last_ack: Duration::from_millis(u32_at(56)?.into()),
            rtt: micros(u32_at(68)?),
            rtt_var: micros(u32_at(72)?),
            snd_cwnd: u32_at(80)?,
            retransmits: u32_at(100)?,
            bytes_acked: u64_at(120),
            bytes_received: u64_at(128),
            // All ones until there is a sample.
            min_rtt: u32_at(148).filter(|&none| none != u32::MAX).map(micros),
            delivery_rate: u64_at(160),
            app_limited: bytes.get(7)? & first_bit != 0,
            busy_time: u64_at(168).map(Duration::from_micros),
            rwnd_limited: u64_at(176).map(Duration::from_micros),
            sndbuf_limited: u64_at(184).map(Duration::from_micros),
            snd_wnd: u32_at(228),
            connecting: *bytes.first()? == SYN_SENT,
            syn_data_accepted: bytes.get(5)? & SYN_DATA != 0,
            fast_open_failure: match next_two {
                1 => Some(FastOpenFailure::NoCookie),
                2 => Some(FastOpenFailure::NotAcknowledged),
                3 => Some(FastOpenFailure::Retransmitted),
                _ => None,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream, UdpSocket},
    };

    use super::*;

    #[tokio::test]
    async fn tcp_info_describes_a_live_connection() {
        // More than the buffers of both sides hold.
        const SENT: usize = 32 << 20;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut client, (mut server, _)) = (client.unwrap(), server.unwrap());
        let before = TcpInfo::of(&client).unwrap();
        let mut received = vec![0; SENT];
        let sending = vec![7; SENT];
        let reading = async {
            // The sender is stopped by the window for some of the kernel's ticks.
            tokio::time::sleep(Duration::from_millis(200)).await;
            server.read_exact(&mut received).await
        };
        tokio::try_join!(client.write_all(&sending), reading).unwrap();
        // The server's own byte carries the last acknowledgement, so that it has come once the byte has.
        server.write_all(b".").await.unwrap();
        client.read_exact(&mut [0]).await.unwrap();

        let (here, there) = (TcpInfo::of(&client).unwrap(), TcpInfo::of(&server).unwrap());
        assert_eq!(there.bytes_received, Some(SENT as u64), "{there:?}");
        assert_eq!(here.bytes_received, Some(1), "{here:?}");
        assert_eq!(here.bytes_acked.unwrap() - before.bytes_acked.unwrap(), SENT as u64, "{here:?}");
        assert_eq!((here.unacked, here.lost, before.retransmits), (0, 0, 0), "{before:?} {here:?}");
        assert!(here.rtt > Duration::ZERO && here.min_rtt.unwrap() <= here.rtt * 8, "{here:?}");
        assert!(here.rto >= here.rtt && here.snd_mss >= 536 && here.cwnd() >= 2 * 536, "{here:?}");
        let limited = here.rwnd_limited.unwrap() + here.sndbuf_limited.unwrap();
        assert!(limited > Duration::ZERO && here.busy_time.unwrap() >= limited, "{here:?}");
        assert!(here.delivery_rate.unwrap() > 0, "{here:?}");
        assert!(here.snd_wnd.unwrap() > 0, "{here:?}");
    }

    #[tokio::test]
    async fn udp_socket_has_no_tcp_info() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        assert!(TcpInfo::of(&socket).is_err());
    }

    #[test]
    fn fields_missing_in_older_kernels_are_none() {
        // Each byte is the low byte of its own place, so that every field has a value of its own.
        let all: Vec<u8> = (0..=255).collect();
        let whole = TcpInfo::parse(&all).unwrap();
        assert!(whole.snd_wnd.is_some() && whole.app_limited);
        for length in 0..all.len() {
            let Some(told) = TcpInfo::parse(&all[..length]) else {
                assert!(length < 104);
                continue;
            };
            assert_eq!((told.rtt, told.snd_cwnd, told.retransmits), (whole.rtt, whole.snd_cwnd, whole.retransmits));
            assert_eq!(told.bytes_acked, whole.bytes_acked.filter(|_| length >= 128));
            assert_eq!(told.delivery_rate, whole.delivery_rate.filter(|_| length >= 168));
            assert_eq!(told.sndbuf_limited, whole.sndbuf_limited.filter(|_| length >= 192));
            assert_eq!(told.snd_wnd, whole.snd_wnd.filter(|_| length >= 232));
        }
        let none_yet = [[0xff; 256]].concat();
        assert_eq!(TcpInfo::parse(&none_yet).unwrap().min_rtt, None);
    }
}
