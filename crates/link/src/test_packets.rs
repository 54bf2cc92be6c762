//! Packets for tests: TCP, UDP, ICMP, with correct checksums.

#![allow(dead_code, reason = "shared by several test programs, each of which uses a part")]
#![allow(clippy::needless_pass_by_value, clippy::struct_excessive_bools, reason = "so that tests read well")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::{
    Icmpv4Type, Icmpv6Type, IpHeaders, IpSlice, Ipv4Extensions, Ipv4Header, Ipv4HeaderSlice, Ipv6Extensions,
    Ipv6Header, Ipv6HeaderSlice, PacketBuilder, PacketBuilderStep, TcpHeader, UdpSlice, checksum::Sum16BitWords,
    icmpv4, icmpv6, ip_number,
};

pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(crate) const CLIENT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
pub(crate) const SERVER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));

/// The fields of a TCP segment.
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

/// A segment with this payload length, from the client to the server.
pub(crate) fn segment(payload: usize) -> Segment {
    Segment { port: 40_000, seq: 1000, ack: Some(5000), window: 500, payload, ..Segment::default() }
}

fn start(v6: bool, down: bool) -> PacketBuilderStep<IpHeaders> {
    let (client, server) = if v6 { (CLIENT6, SERVER6) } else { (CLIENT, SERVER) };
    let (from, to) = if down { (server, client) } else { (client, server) };
    PacketBuilder::ip(match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let header = Ipv4Header::new(0, 64, ip_number::TCP, from.octets(), to.octets()).unwrap();
            IpHeaders::Ipv4(header, Ipv4Extensions::default())
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let header = Ipv6Header { source: from.octets(), destination: to.octets(), ..Default::default() };
            IpHeaders::Ipv6(Ipv6Header { hop_limit: 64, ..header }, Ipv6Extensions::default())
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

/// The IPv4 packet of a segment, with "don't fragment".
pub(crate) fn tcp(segment: Segment) -> Vec<u8> {
    built(false, &segment)
}

/// The IPv6 packet of a segment.
pub(crate) fn tcp6(segment: Segment) -> Vec<u8> {
    built(true, &segment)
}

/// An IPv4 packet with UDP from the client, without "don't fragment".
pub(crate) fn udp(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    start(false, false).udp(40_000, 53).write(&mut bytes, payload).unwrap();
    let mut header = Ipv4Header::from_slice(&bytes).unwrap().0;
    (header.dont_fragment, header.identification) = (false, 77);
    header.header_checksum = header.calc_header_checksum();
    bytes[..20].copy_from_slice(&header.to_bytes());
    bytes
}

/// An ICMP echo request or reply, from the client or from the server (`down`).
pub(crate) fn ping(v6: bool, down: bool, reply: bool, id: u16) -> Vec<u8> {
    let start = start(v6, down);
    let mut bytes = Vec::new();
    match (v6, reply) {
        (false, false) => start.icmpv4_echo_request(id, 1).write(&mut bytes, b"ping"),
        (false, true) => start.icmpv4_echo_reply(id, 1).write(&mut bytes, b"ping"),
        (true, false) => start.icmpv6_echo_request(id, 1).write(&mut bytes, b"ping"),
        (true, true) => start.icmpv6_echo_reply(id, 1).write(&mut bytes, b"ping"),
    }
    .unwrap();
    bytes
}

/// The ICMP error "port unreachable" from a packet's destination; the quoted packet may be truncated.
pub(crate) fn icmp_error(quoted: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if quoted[0] >> 4 == 4 {
        let ip = Ipv4HeaderSlice::from_slice(quoted).unwrap();
        let error = Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port);
        PacketBuilder::ipv4(ip.destination(), ip.source(), 64).icmpv4(error).write(&mut bytes, quoted).unwrap();
    } else {
        let ip = Ipv6HeaderSlice::from_slice(quoted).unwrap();
        let error = Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::Port);
        PacketBuilder::ipv6(ip.destination(), ip.source(), 64).icmpv6(error).write(&mut bytes, quoted).unwrap();
    }
    bytes
}

/// A response to a packet: the same with addresses and ports exchanged; for an echo request, the reply.
pub(crate) fn answer_to(bytes: &[u8]) -> Vec<u8> {
    let mut answer = bytes.to_vec();
    let (address, len, payload) = if bytes[0] >> 4 == 4 { (12, 4, 20) } else { (8, 16, 40) };
    answer[address..address + 2 * len].rotate_left(len);
    match answer[payload] {
        8 if bytes[9] == ip_number::ICMP.0 => answer[payload] = 0,
        128 if bytes[6] == ip_number::IPV6_ICMP.0 => answer[payload] = 129,
        _ => answer[payload..payload + 4].rotate_left(2),
    }
    with_checksums(answer)
}

/// The packet with recomputed checksums (IP without options, and TCP, UDP or ICMP).
pub(crate) fn with_checksums(mut bytes: Vec<u8>) -> Vec<u8> {
    let payload = if bytes[0] >> 4 == 4 {
        let mut header = Ipv4Header::from_slice(&bytes).unwrap().0;
        header.header_checksum = header.calc_header_checksum();
        bytes[..20].copy_from_slice(&header.to_bytes());
        20
    } else {
        40
    };
    let protocol = IpSlice::from_slice(&bytes).unwrap().payload_ip_number();
    let at = payload
        + match protocol {
            ip_number::TCP => 16,
            ip_number::UDP => 6,
            _ => 2,
        };
    bytes[at..at + 2].copy_from_slice(&[0, 0]);
    let sum = sum(&bytes);
    bytes[at..at + 2].copy_from_slice(&sum.to_ne_bytes());
    bytes
}

/// The checksum over the IP payload and the pseudo header, if there is one; zero if the contained checksum is correct.
fn sum(bytes: &[u8]) -> u16 {
    let ip = IpSlice::from_slice(bytes).expect("an IP packet");
    let (protocol, payload) = (ip.payload_ip_number(), ip.payload().payload);
    let sum = match (ip.source_addr(), ip.destination_addr()) {
        _ if protocol == ip_number::ICMP => Sum16BitWords::new(),
        (IpAddr::V4(from), IpAddr::V4(to)) => Sum16BitWords::new().add_4bytes(from.octets()).add_4bytes(to.octets()),
        (IpAddr::V6(from), IpAddr::V6(to)) => Sum16BitWords::new().add_16bytes(from.octets()).add_16bytes(to.octets()),
        _ => unreachable!(),
    };
    let mut sum = sum.add_slice(payload);
    if protocol != ip_number::ICMP {
        sum = sum.add_4bytes((payload.len() as u32).to_be_bytes()).add_2bytes([0, protocol.0]);
    }
    sum.ones_complement()
}

/// Whether the checksums of IP and of TCP, UDP or ICMP are correct.
pub(crate) fn checksums_are_right(bytes: &[u8]) -> bool {
    let ip = IpSlice::from_slice(bytes).expect("an IP packet");
    if let Some(ip) = ip.ipv4() {
        let header = ip.header().to_header();
        if header.header_checksum != header.calc_header_checksum() {
            return false;
        }
    }
    let payload = ip.payload();
    match payload.ip_number {
        _ if payload.fragmented => true,
        ip_number::UDP if UdpSlice::from_slice(payload.payload).is_ok_and(|udp| udp.checksum() == 0) => true,
        ip_number::TCP | ip_number::UDP | ip_number::ICMP | ip_number::IPV6_ICMP => sum(bytes) == 0,
        _ => true,
    }
}
