//! One packet of a capture, whatever the format.

use std::{net::IpAddr, time::Duration};

use crate::Error;

/// A packet as it passed the place of the capture, borrowed from the [`Source`] that read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The capture's own number for it: counted from 1 where the format has none, as Wireshark does, and
    /// the printed one in a text that prints it.
    pub number: u64,
    /// When it passed, since 1970-01-01 00:00 UTC.
    pub time: Duration,
    /// The number of the interface it passed, counted from 0 in the order of the file's descriptions.
    pub interface: u32,
    /// What the bytes begin with.
    pub link: LinkType,
    /// Which way it went, seen from the host whose end was captured, where the capture tells.
    pub direction: Option<Direction>,
    /// Its length on the link in bytes; more than `bytes` holds where the capture kept only the
    /// beginning.
    pub original_len: u32,
    /// The bytes kept, from the link's header on.
    pub bytes: &'a [u8],
}

/// The way of a packet, seen from the host whose end was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The host received it.
    Inbound,
    /// The host sent it.
    Outbound,
}

/// What a captured packet begins with, by its number in the [registry of link
/// types](https://www.tcpdump.org/linktypes.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD's loopback: an address family in the byte order of the machine.
    pub const NULL: Self = Self(0);
    /// An Ethernet header.
    pub const ETHERNET: Self = Self(1);
    /// An IPv4 or IPv6 header, told apart by its version; what a cable of ours carries.
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

/// A stream of packets in the order of their capture.
///
/// It lends each packet until the next is asked for, which is why it is no [`Iterator`].
pub trait Source {
    /// The next packet, or `None` after the last. Nothing follows an error but `None`.
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error>;

    /// The name that the capture prints for `address`, which then is one of ours in its place.
    fn name(&self, _address: IpAddr) -> Option<&str> {
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
}
