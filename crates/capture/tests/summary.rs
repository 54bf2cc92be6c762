//! The summary of a capture: connections and traffic.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use capture::{
    Direction, LinkType, Packet, Summary,
    pcapng::{Reader, Writer},
    summary::{FastOpen, Traffic},
};
use etherparse::{PacketBuilder, TcpHeader, ip_number};

const CLIENT: &str = "10.0.0.1:40000";
const SERVER: &str = "10.0.0.2:443";

/// A segment from one end to the other, as an IP packet.
fn segment(from: &str, to: &str, set: impl FnOnce(&mut TcpHeader), data: &[u8]) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().expect("an end"), to.parse().expect("an end"));
    let mut tcp = TcpHeader::new(from.port(), to.port(), 0, 65_000);
    set(&mut tcp);
    let ip = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => PacketBuilder::ipv4(from.octets(), to.octets(), 64),
        (IpAddr::V6(from), IpAddr::V6(to)) => PacketBuilder::ipv6(from.octets(), to.octets(), 64),
        _ => panic!("IPv4 and IPv6 ends"),
    };
    let mut packet = Vec::new();
    ip.tcp_header(tcp).write(&mut packet, data).expect("memory takes all");
    packet
}

/// A SYN without data or options.
fn syn(from: &str, to: &str, isn: u32) -> Vec<u8> {
    segment(from, to, |tcp| (tcp.syn, tcp.sequence_number) = (true, isn), b"")
}

/// A SYN with these options and this data.
fn syn_with(options: &[u8], data: &[u8]) -> Vec<u8> {
    let set = |tcp: &mut TcpHeader| {
        tcp.syn = true;
        tcp.set_options_raw(options).expect("options that fit");
    };
    segment(CLIENT, SERVER, set, data)
}

fn syn_ack() -> Vec<u8> {
    segment(SERVER, CLIENT, |tcp| (tcp.syn, tcp.ack) = (true, true), b"")
}

fn data(from: &str, to: &str, len: usize) -> Vec<u8> {
    segment(from, to, |tcp| tcp.ack = true, &vec![b'x'; len])
}

/// The summary of these packets, one per second, captured at the client.
fn summary(packets: &[Vec<u8>]) -> Summary {
    let mut summary = Summary::default();
    let client: SocketAddr = CLIENT.parse().expect("an end");
    for (second, bytes) in packets.iter().enumerate() {
        let sent = matches!((client.ip(), bytes.get(12..16)), (IpAddr::V4(ip), Some(from)) if ip.octets() == from);
        summary.add(&Packet {
            number: second as u64 + 1,
            time: Duration::from_secs(second as u64),
            interface: 0,
            link: LinkType::RAW,
            direction: Some(if sent { Direction::Outbound } else { Direction::Inbound }),
            original_len: bytes.len() as u32,
            bytes,
        });
    }
    summary
}

#[test]
fn connection_is_counted_once_with_all_its_packets() {
    let packets = [
        syn(CLIENT, SERVER, 7),
        syn_ack(),
        data(CLIENT, SERVER, 100),
        data(SERVER, CLIENT, 1000),
        data(SERVER, CLIENT, 1000),
    ];
    let seen = summary(&packets);
    assert_eq!(seen.connections.len(), 1);
    let connection = &seen.connections[0];
    assert_eq!(connection.client.to_string(), CLIENT);
    assert_eq!(connection.server.to_string(), SERVER);
    assert_eq!((connection.isn, connection.syn), (7, Duration::ZERO));
    assert_eq!((connection.syn_data, connection.fast_open), (0, None));
    assert_eq!(connection.to_server, Traffic { packets: 2, bytes: 40 + 140 });
    assert_eq!(connection.to_client, Traffic { packets: 3, bytes: 40 + 1040 + 1040 });
    assert_eq!((seen.outbound, seen.inbound), (connection.to_server, connection.to_client));
    assert_eq!(seen.undirected, Traffic::default());
    assert_eq!(seen.span, Some((Duration::ZERO, Duration::from_secs(4))));
}

#[test]
fn retransmitted_syn_opens_no_connection() {
    let seen = summary(&[syn(CLIENT, SERVER, 7), syn(CLIENT, SERVER, 7), syn(CLIENT, SERVER, 7), syn_ack()]);
    assert_eq!(seen.connections.len(), 1);
    assert_eq!(seen.syn_retransmissions(), 2);
    assert_eq!(seen.connections[0].to_server.packets, 3);
    assert_eq!(seen.connections[0].to_client.packets, 1);
}

#[test]
fn reused_port_is_a_new_connection_and_a_late_syn_is_not() {
    let late = syn(CLIENT, SERVER, 7);
    let packets = [late.clone(), syn(CLIENT, SERVER, 8), late, data(CLIENT, SERVER, 1)];
    let seen = summary(&packets);
    let counts: Vec<_> = seen.connections.iter().map(|known| (known.isn, known.to_server.packets)).collect();
    assert_eq!(counts, [(7, 2), (8, 2)]);
    assert_eq!(seen.syn_retransmissions(), 1);
}

#[test]
fn connections_differ_by_address_port_and_ip_version() {
    let packets = [
        syn(CLIENT, SERVER, 7),
        syn("10.0.0.1:40001", SERVER, 7),
        syn("[fd00::1]:40000", "[fd00::2]:443", 7),
        data("[fd00::2]:443", "[fd00::1]:40000", 10),
        data("10.0.0.9:1", SERVER, 10), // opened before the capture began
    ];
    let seen = summary(&packets);
    let clients: Vec<_> = seen.connections.iter().map(|known| known.client.to_string()).collect();
    assert_eq!(clients, [CLIENT, "10.0.0.1:40001", "[fd00::1]:40000"]);
    assert_eq!(seen.connections[2].to_client, Traffic { packets: 1, bytes: 40 + 20 + 10 });
    assert_eq!(seen.outbound.packets + seen.inbound.packets, 5);
}

#[test]
fn fast_open_is_found_after_other_options() {
    let request = [2, 4, 5, 180, 1, 1, 34, 2];
    let cookie = [1, 1, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let too_long = [34, 40, 1, 2];
    let length_0 = [5, 0, 34, 2];
    let after_end = [0, 34, 2, 0];
    let option = |bytes: &[u8], data: &[u8]| summary(&[syn_with(bytes, data)]).connections[0].clone();
    assert_eq!(option(&request, b"").fast_open, Some(FastOpen::Request));
    assert_eq!(option(&cookie, b"GET").fast_open, Some(FastOpen::Cookie(8)));
    assert_eq!(option(&cookie, b"GET").syn_data, 3);
    for options in [&too_long[..], &length_0, &after_end, &[]] {
        assert_eq!(option(options, b"").fast_open, None);
    }
}

#[test]
fn first_flight_ends_with_the_servers_first_data_and_counts_nothing_twice() {
    let mss = segment(
        SERVER,
        CLIENT,
        |tcp| {
            (tcp.syn, tcp.ack) = (true, true);
            tcp.set_options_raw(&[2, 4, 5, 180]).expect("options that fit");
        },
        b"",
    );
    let at = |sequence, len| {
        segment(CLIENT, SERVER, |tcp| (tcp.ack, tcp.sequence_number) = (true, sequence), &vec![b'x'; len])
    };
    let start = syn_with(&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1], &[0; 500]);
    let whole = summary(&[start.clone(), mss.clone(), data(SERVER, CLIENT, 9), at(501, 300)]);
    assert_eq!((whole.connections[0].first_flight, whole.connections[0].mss), (500, Some(1460)));
    // The rest of the request, and the SYN's data again.
    let rest = summary(&[start.clone(), mss.clone(), at(501, 300), at(1, 500), data(SERVER, CLIENT, 9)]);
    assert_eq!((rest.connections[0].syn_data, rest.connections[0].first_flight), (500, 800));
    assert_eq!(summary(&[start, syn_ack()]).connections[0].mss, None);
}

#[test]
fn truncated_bytes_are_counted() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    let end = writer.interface("client", LinkType::RAW, Some(60)).expect("memory takes all");
    let packet = syn_with(&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1], &[0; 500]);
    writer.packet(end, Duration::ZERO, None, &packet).expect("memory takes all");
    let file = writer.into_output();
    let seen = Summary::of(&mut Reader::new(&file[..], "cut.pcapng")).expect("a whole capture");
    assert_eq!(seen.connections[0].syn_data, 500);
    assert_eq!(seen.connections[0].fast_open, Some(FastOpen::Cookie(8)));
    assert_eq!(seen.undirected, Traffic { packets: 1, bytes: 552 });
}

#[test]
fn other_protocols_count_only_in_the_totals() {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.tcp(1, 2, 3, 4).syn().write(&mut frame, b"").expect("memory takes all");
    let mut udp = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(1, 2);
    builder.write(&mut udp, b"no connection").expect("memory takes all");
    let mut fragment = syn(CLIENT, SERVER, 7);
    fragment[6] |= 0x20; // more fragments follow
    let mut other = syn(CLIENT, SERVER, 7);
    other[9] = ip_number::IGMP.0;
    let links = [LinkType::ETHERNET, LinkType::RAW, LinkType::RAW, LinkType::RAW, LinkType(147), LinkType::RAW];
    let mut seen = Summary::default();
    for (link, bytes) in links.into_iter().zip([&frame[..], &udp, &fragment, &other, &frame, &[]]) {
        let original_len = bytes.len() as u32;
        seen.add(&Packet { number: 1, time: Duration::ZERO, interface: 0, link, direction: None, original_len, bytes });
    }
    let found: Vec<_> = seen.connections.iter().map(|known| (known.client.port(), known.isn)).collect();
    assert_eq!(found, [(1, 3)]);
    assert_eq!(seen.undirected.packets, 6);
}
