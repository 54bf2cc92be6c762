//! Packets for tests.

#![allow(dead_code, reason = "shared by several test programs, each of which uses a part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    IpHeaders, IpNumber, IpSlice, Ipv4Header, Ipv6Header, PacketBuilder, PacketBuilderStep, TcpHeader, TcpSlice,
    UdpSlice, checksum::Sum16BitWords, ip_number,
};

pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const CLIENT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
pub(crate) const SERVER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));

/// A TCP segment to be built.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segment {
    pub(crate) down: bool,
    pub(crate) port: u16,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) window: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) payload: usize,
}

/// A segment with so many bytes, from the client to the server.
pub(crate) fn segment(payload: usize) -> Segment {
    Segment { port: 40_000, seq: 1000, ack: Some(5000), window: 500, payload, ..Segment::default() }
}

fn start(v6: bool, down: bool) -> PacketBuilderStep<IpHeaders> {
    let (client, server) = if v6 { (CLIENT6, SERVER6) } else { (CLIENT, SERVER) };
    let (from, to) = if down { (server, client) } else { (client, server) };
    PacketBuilder::ip(match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = Ipv4Header::new(0, 64, ip_number::TCP, from.octets(), to.octets()).unwrap();
            IpHeaders::Ipv4(header, Default::default())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Header { source: from.octets(), destination: to.octets(), ..Default::default() };
            IpHeaders::Ipv6(Ipv6Header { hop_limit: 64, ..header }, Default::default())
        }
        _ => unreachable!(),
    })
}

fn built(v6: bool, segment: &Segment) -> Vec<u8> {
    let (from, to) = if segment.down { (443, segment.port) } else { (segment.port, 443) };
    let mut header = TcpHeader::new(from, to, segment.seq, segment.window);
    header.set_options_raw(&segment.options).unwrap();
    (header.ack, header.acknowledgment_number) = (segment.ack.is_some(), segment.ack.unwrap_or(0));
    (header.syn, header.fin, header.rst) = (segment.syn, segment.fin, segment.rst);
    let mut bytes = Vec::new();
    let payload: Vec<u8> = (0..=255).cycle().take(segment.payload).collect();
    start(v6, segment.down).tcp_header(header).write(&mut bytes, &payload).unwrap();
    bytes
}

/// The IPv4 packet of a segment, which may not be fragmented.
pub(crate) fn tcp(segment: Segment) -> Vec<u8> {
    built(false, &segment)
}

/// The IPv6 packet of a segment.
pub(crate) fn tcp6(segment: Segment) -> Vec<u8> {
    built(true, &segment)
}

/// An IPv4 packet with UDP from the client, which may be fragmented.
pub(crate) fn udp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    start(false, false).udp(40_000, 53).write(&mut bytes, payload).unwrap();
    let mut header = Ipv4Header::from_slice(&bytes).unwrap().0;
    (header.dont_fragment, header.identification) = (false, 77);
    header.header_checksum = header.calc_header_checksum();
    bytes[..20].copy_from_slice(&header.to_bytes());
    bytes
}

/// Whether the checksums of IP and of TCP, UDP or ICMP in a packet are right, computed anew.
pub(crate) fn checksums_are_right(bytes: &[u8]) -> bool {
    let ip = IpSlice::from_slice(bytes).expect("an IP packet");
    let payload = ip.payload();
    if let Some(ip) = ip.ipv4() {
        let header = ip.header().to_header();
        if header.header_checksum != header.calc_header_checksum() {
            return false;
        }
    }
    // A sum over all words with the checksum among them is all ones, so its complement is zero.
    let mut sum = match (ip.source_addr(), ip.destination_addr()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => Sum16BitWords::new().add_4bytes(from.octets()).add_4bytes(to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => Sum16BitWords::new().add_16bytes(from.octets()).add_16bytes(to.octets()),
        _ => unreachable!(),
    };
    let mut pseudo = |protocol: IpNumber| {
        let sum = sum.add_4bytes((payload.payload.len() as u32).to_be_bytes());
        sum.add_2bytes([0, protocol.0]).add_slice(payload.payload).ones_complement() == 0
    };
    match payload.ip_number {
        _ if payload.fragmented => true,
        ip_number::TCP => TcpSlice::from_slice(payload.payload).is_err() || pseudo(ip_number::TCP),
        ip_number::UDP => {
            UdpSlice::from_slice(payload.payload).is_ok_and(|udp| udp.checksum() == 0) || pseudo(ip_number::UDP)
        }
        ip_number::ICMP => Sum16BitWords::new().add_slice(payload.payload).ones_complement() == 0,
        ip_number::IPV6_ICMP => pseudo(ip_number::IPV6_ICMP),
        _ => true,
    }
}
