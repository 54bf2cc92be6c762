//! The translator, packet by packet.

use std::{
    net::{IpAddr, SocketAddr},
    time::Instant,
};

use etherparse::{IpFragOffset, IpNumber, Ipv6FragmentHeader, Ipv6Header, ip_number};

use crate::{
    headers::Headers,
    middleboxes::tests::Bench,
    packet::Packet,
    stage::{
        Direction::{self, Down, Up},
        Out, Stage,
    },
    stages::Mtu,
    test_packets::{
        CLIENT, CLIENT6, SERVER, SERVER6, Segment, answer_to, checksums_are_right, icmp_error, ping, segment, tcp,
        tcp6, udp, with_checksums,
    },
};

fn ends(bytes: &[u8]) -> [SocketAddr; 2] {
    let endpoints = super::endpoints::Endpoints::of(&Headers::of(bytes).unwrap(), bytes).unwrap();
    [endpoints.source, endpoints.destination]
}

/// What comes out when this goes in, if anything.
fn through(bench: &mut Bench, direction: Direction, ms: u64, bytes: Vec<u8>) -> Option<Vec<u8>> {
    bench.passes(direction, ms, bytes);
    let mut new = bench.take_new();
    assert!(new.len() <= 1);
    let (way, packet) = new.pop()?;
    assert_eq!(way, direction);
    assert!(checksums_are_right(&packet.bytes));
    Some(packet.bytes)
}

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn request_and_response_are_translated() {
    let mut bench = Bench::new("nat");
    let up = through(&mut bench, Up, 0, tcp(segment(100))).unwrap();
    assert_eq!(ends(&up), [end("203.0.113.1:40000"), SocketAddr::new(SERVER, 443)]);
    let answer = answer_to(&up);
    let down = through(&mut bench, Down, 1, answer).unwrap();
    assert_eq!(ends(&down), [SocketAddr::new(SERVER, 443), SocketAddr::new(CLIENT, 40_000)]);

    let up = through(&mut bench, Up, 2, tcp6(segment(100))).unwrap();
    assert_eq!(ends(&up), [end("[2001:db8:113::1]:40000"), SocketAddr::new(SERVER6, 443)]);
    let down = through(&mut bench, Down, 3, answer_to(&up)).unwrap();
    assert_eq!(ends(&down)[1], SocketAddr::new(CLIENT6, 40_000));

    let up = through(&mut bench, Up, 4, udp(b"query")).unwrap();
    assert_eq!(ends(&up)[0], end("203.0.113.1:40000"));
}

#[test]
fn echo_requests_are_translated_by_identifier() {
    for v6 in [false, true] {
        let mut bench = Bench::new("nat");
        let up = through(&mut bench, Up, 0, ping(v6, false, false, 7)).unwrap();
        let public = Headers::of(&up).unwrap().source;
        assert_ne!(public, Headers::of(&ping(v6, false, false, 7)).unwrap().source);
        let down = through(&mut bench, Down, 1, answer_to(&up)).unwrap();
        assert_eq!(down, ping(v6, true, true, 7));
        assert_eq!(through(&mut bench, Down, 2, ping(v6, true, false, 7)), None); // not asked for
    }
}

#[test]
fn unsolicited_packets_are_dropped() {
    let mut bench = Bench::new("nat");
    assert_eq!(through(&mut bench, Down, 0, tcp(Segment { down: true, ..segment(1) })), None);
    assert!(!bench.passes(Down, 0, tcp6(Segment { down: true, ..segment(1) })));
}

#[test]
fn each_connection_can_have_its_own_public_address() {
    let mut bench = Bench::new("nat:renew=connection,address=192.0.2.7");
    let mut up = |ms, port| ends(&through(&mut bench, Up, ms, tcp(Segment { port, ..segment(1) })).unwrap())[0];
    assert_eq!((up(0, 5), up(1, 6)), (end("192.0.2.7:5"), end("192.0.2.8:6")));
    assert_eq!(up(2, 5), end("192.0.2.7:5")); // the same connection keeps its own
}

#[test]
fn public_address_can_change_with_time() {
    let mut bench = Bench::new("nat:renew=10ms");
    let mut up = |ms, port| ends(&through(&mut bench, Up, ms, tcp(Segment { port, ..segment(1) })).unwrap())[0];
    assert_eq!((up(0, 5), up(9, 6), up(10, 7)), (end("203.0.113.1:5"), end("203.0.113.1:6"), end("203.0.113.2:7")));
    assert_eq!(up(25, 5), end("203.0.113.1:5"));
}

#[test]
fn icmp_errors_quote_the_clients_own_packet() {
    for packet in [tcp(segment(1000)), tcp6(segment(1000)), udp(&[1; 500])] {
        let mut bench = Bench::new("nat");
        let up = through(&mut bench, Up, 0, packet.clone()).unwrap();
        // Whole, and cut off behind the ports.
        for quoted in [up.len(), Headers::of(&up).unwrap().payload.start + 8] {
            let down = through(&mut bench, Down, 1, icmp_error(&up[..quoted])).unwrap();
            assert_eq!(down, icmp_error(&packet[..quoted]));
        }
    }
}

/// The fragments of 600 bytes at most, of an IPv4 packet.
fn fragments(bytes: Vec<u8>) -> Vec<Vec<u8>> {
    let mut out = Out::default();
    Mtu::new(600, false).push(Packet::new(bytes), Instant::now(), &mut out);
    assert!(out.forward.len() > 2);
    out.forward.into_iter().map(|packet| packet.bytes).collect()
}

/// An IPv6 fragment header in front of a datagram's bytes from `offset` on, and 16 of them; what the datagram
/// begins with is `first`.
fn fragment6(first: IpNumber, datagram: &[u8], offset: usize) -> Vec<u8> {
    let more = offset + 16 < datagram.len();
    let offset = IpFragOffset::try_new((offset / 8) as u16).unwrap();
    let header = Ipv6FragmentHeader::new(first, offset, more, 9).to_bytes();
    let start = usize::from(offset.value()) * 8;
    let payload = [&header[..], &datagram[start..datagram.len().min(start + 16)]].concat();
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (CLIENT6, SERVER6) else { unreachable!() };
    let (source, destination) = (source.octets(), destination.octets());
    let ip = Ipv6Header { source, destination, next_header: ip_number::IPV6_FRAG, ..Default::default() };
    let ip = Ipv6Header { payload_length: payload.len() as u16, hop_limit: 64, ..ip };
    [&ip.to_bytes()[..], &payload].concat()
}

#[test]
fn fragments_get_the_address_of_the_first() {
    let mut bench = Bench::new("nat");
    for packet in fragments(udp(&[7; 1500])) {
        let up = through(&mut bench, Up, 0, packet).unwrap();
        assert_eq!(Headers::of_any(&up).unwrap().source, end("203.0.113.1:1").ip());
    }
    let up = through(&mut bench, Up, 1, udp(&[7; 1500])).unwrap();
    for packet in fragments(answer_to(&up)) {
        let down = through(&mut bench, Down, 2, packet).unwrap();
        assert_eq!(Headers::of_any(&down).unwrap().destination, CLIENT);
    }
    let datagram = [[9; 8], [0; 8], [3; 8], [3; 8], [3; 8]].concat();
    for offset in [0, 16, 32] {
        let up = through(&mut bench, Up, 3, fragment6(ip_number::UDP, &datagram, offset)).unwrap();
        assert_eq!(Headers::of_any(&up).unwrap().source, end("[2001:db8:113::1]:1").ip());
    }
}

/// The datagram begins with extension headers; in the later fragments there is nothing of that, whatever the
/// bytes there look like.
#[test]
fn payload_of_a_later_fragment_is_not_parsed_as_a_header() {
    let options = [ip_number::UDP.0, 0, 1, 4, 0, 0, 0, 0];
    for middle in [[0; 8], [0xff; 8], [ip_number::AUTH.0, 0, 0, 0, 0, 0, 0, 0], [ip_number::IPV6_HOP_BY_HOP.0; 8]] {
        let mut bench = Bench::new("nat");
        let datagram = [options, [9; 8], middle, middle, middle].concat();
        for offset in [0, 16, 32] {
            bench.passes(Up, 0, fragment6(ip_number::IPV6_DEST_OPTIONS, &datagram, offset));
            let [(Up, up)] = &bench.take_new()[..] else { panic!("a fragment leaves, with another address") };
            let headers = Headers::of_any(&up.bytes).unwrap();
            assert_eq!(headers.source, end("[2001:db8:113::1]:1").ip(), "{middle:?} at {offset}");
            assert_eq!(headers.fragment.map(|fragment| fragment.is_first), Some(offset == 0));
        }
    }
}

#[test]
fn fragment_without_its_first_is_dropped() {
    let mut bench = Bench::new("nat");
    let parts = fragments(udp(&[7; 1500]));
    assert_eq!(through(&mut bench, Up, 0, parts[1].clone()), None);
    assert!(through(&mut bench, Up, 0, parts[0].clone()).is_some());
    // The other way, the same number is another datagram; it was not asked for.
    for part in fragments(answer_to(&udp(&[7; 1500]))) {
        assert_eq!(through(&mut bench, Down, 0, part), None);
    }
    assert_eq!(through(&mut bench, Up, 0, fragment6(ip_number::UDP, &[3; 40], 16)), None);
}

#[test]
fn same_port_of_two_clients_is_mapped_to_two() {
    let mut bench = Bench::new("nat");
    let first = through(&mut bench, Up, 0, tcp(segment(1))).unwrap();
    let mut other = tcp(segment(1));
    other[15] = 99; // 10.0.0.99; the checksums move by the same amount
    let other = with_checksums(other);
    let second = through(&mut bench, Up, 1, other).unwrap();
    assert_eq!((ends(&first)[0], ends(&second)[0]), (end("203.0.113.1:40000"), end("203.0.113.1:1024")));
    let down = through(&mut bench, Down, 2, answer_to(&second)).unwrap();
    assert_eq!(ends(&down)[1], end("10.0.0.99:40000"));
}
