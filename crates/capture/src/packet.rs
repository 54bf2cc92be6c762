//! One packet of a capture, whatever the format.

use std::{net::IpAddr, time::Duration};

use crate::{Error, LinkRates};

/// A captured packet, borrowed from its [`Source`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its number in the capture, from 1 as in Wireshark, or as printed in a printed capture.
    pub number: u64,
    /// Its time, since 1970-01-01 00:00 UTC.
    pub time: Duration,
    /// The number of its interface, from 0 in the order of the file's descriptions.
    pub interface: u32,
    /// The type of the link-layer header.
    pub link: LinkType,
    /// Its direction, seen from the capturing host, if the capture has it.
    pub direction: Option<Direction>,
    /// Its length on the link in bytes; larger than `bytes` if the capture truncated it.
    pub original_len: u32,
    /// The captured bytes, from the link-layer header on.
    pub bytes: &'a [u8],
}

/// The direction of a packet, seen from the capturing host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The host received it.
    Inbound,
    /// The host sent it.
    Outbound,
}

/// The type of the link-layer header: a number in the [registry of link types](https://www.tcpdump.org/linktypes.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD's loopback: an address family in the byte order of the machine.
    pub const NULL: Self = Self(0);
    /// An Ethernet header.
    pub const ETHERNET: Self = Self(1);
    /// An IPv4 or IPv6 header, as on our cables.
    pub const RAW: Self = Self(101);
    /// OpenBSD's loopback: an address family in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux's cooked header, which `tcpdump -i any` used to write.
    pub const LINUX_SLL: Self = Self(113);
    /// The second version of it, which names the interface.
    pub const LINUX_SLL2: Self = Self(276);
    /// An IPv4 header.
    pub const IPV4: Self = Self(228);
    /// An IPv6 header.
    pub const IPV6: Self = Self(229);
}

/// Packets that the capture itself lost: they passed the network, and the capturing machine was too busy to record them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Drops {
    /// Dropped by the interface, because it lacked room (pcapng's `isb_ifdrop`; dumpcap counts all drops there).
    pub by_interface: u64,
    /// Dropped by the operating system, because the capturing program read too slowly (pcapng's `isb_osdrop`; snoop).
    pub by_system: u64,
    /// Counted at the packets after the gaps (pcapng's `epb_dropcount`).
    pub at_packets: u64,
}

impl Drops {
    /// The number of lost packets. Both kinds of counters count the same packets.
    pub fn total(self) -> u64 {
        self.by_interface.saturating_add(self.by_system).max(self.at_packets)
    }
}

/// A stream of packets in the order of their capture.
///
/// A packet is borrowed until the next call, so this cannot be an [`Iterator`].
pub trait Source {
    /// The next packet, or `None` after the last one and after an error.
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error>;

    /// The host name in a printed capture for which `address` is our placeholder.
    fn name(&self, _address: IpAddr) -> Option<&str> {
        None
    }

    /// The packets that the capture lost, as far as the part that was read so far says it. Most captures say it at their
    /// end; pcap never does.
    fn drops(&self) -> Drops {
        Drops::default()
    }

    /// The rates of the link on which it was captured, if an emulator wrote it and says them.
    fn link_rates(&self) -> Option<LinkRates> {
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        (**self).next()
    }

    fn name(&self, address: IpAddr) -> Option<&str> {
        (**self).name(address)
    }

    fn drops(&self) -> Drops {
        (**self).drops()
    }

    fn link_rates(&self) -> Option<LinkRates> {
        (**self).link_rates()
    }
}
