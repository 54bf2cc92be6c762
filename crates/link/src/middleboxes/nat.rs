//! Translates the client's address, as the NAT of a home or a mobile network does (RFC 2663).
//!
//! TCP, UDP and ICMP echo from the client's side leave with a public address, and with the port they
//! had where that is free; answers are translated back. Each connection has its translation for
//! itself ("address and port-dependent mapping", RFC 4787 §4.1), for as long as the table of 4096
//! has room. Packets of these kinds that come to no translation are dropped: nobody asked for them.
//! ICMP errors are translated with the packet they quote (RFC 5508 §4.2). Everything else passes as
//! it is: other protocols, multicast and link-local traffic.
//!
//! Of a datagram in fragments only the first has ports. The others are given the address that it was
//! given; if it was dropped, or is still to come, they are dropped ("received fragments ordered", RFC
//! 4787 §11): with an address of the other side they would be of no use to anybody.
//!
//! The public address can change, for every connection or from time to time; connections that are
//! there keep theirs. A server that knows its clients by address then meets a stranger: a Fast Open
//! cookie, which is made from the address (RFC 7413 §4.1.2), does not hold any more.
//!
//! The server's host must route the public addresses back along the cable.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::Range,
    time::{Duration, Instant},
};

use etherparse::{IpNumber, ip_number};

use super::{
    Kind, Parameter, Side,
    both::{Watcher, stages},
    flows::Flows,
};
use crate::{
    headers::{Change, Flow, Fragment, Headers},
    packet::Packet,
    stage::{Direction, Out},
    stages::Start,
    units::Span,
};

/// How many addresses are taken in turn, from the first on.
const ADDRESSES: u64 = 254;

pub(super) const KIND: Kind = Kind {
    name: "nat",
    help: "translate the client's address and port",
    parameters: &[
        Parameter { name: "address", form: "IPV4", help: "the first public address", default: "203.0.113.1" },
        Parameter {
            name: "address6",
            form: "IPV6",
            help: "the first public address for IPv6",
            default: "2001:db8:113::1",
        },
        Parameter {
            name: "renew",
            form: "connection|TIME",
            help: "take the next of 254 addresses for each connection, or each time so long has passed",
            default: "never",
        },
    ],
    side: Side::Client,
    build: |arguments| {
        let v4 = arguments.get("address")?.unwrap_or(Ipv4Addr::new(203, 0, 113, 1));
        let v6 = arguments.get("address6")?.unwrap_or(Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 1));
        let renew = match arguments.get::<String>("renew")?.as_deref() {
            None | Some("never") => Renew::Never,
            Some("connection") => Renew::Connection,
            Some(time) => match time.parse::<Span>() {
                Ok(time) if !time.0.is_zero() => Renew::Every(time.0),
                _ => return arguments.bad("renew", "write connection, never, or a time such as 30s"),
            },
        };
        let (outward, inward, fragments) = (Flows::default(), BTreeMap::new(), Flows::default());
        Ok(stages(Nat { v4, v6, renew, start: Start::default(), made: 0, outward, inward, fragments }))
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renew {
    Never,
    Connection,
    Every(Duration),
}

struct Nat {
    v4: Ipv4Addr,
    v6: Ipv6Addr,
    renew: Renew,
    start: Start,
    /// How many translations there have been.
    made: u64,
    /// The public end of each connection.
    outward: Flows<SocketAddr>,
    /// The client's end of each connection as the server sees it.
    inward: BTreeMap<Flow, SocketAddr>,
    /// The address that the first fragment of each datagram was given.
    fragments: Flows<IpAddr, Datagram>,
}

/// What the fragments of one datagram have in common (RFC 791 §3.2; in IPv6 the protocol is not of
/// it, RFC 8200 §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    direction: Direction,
    source: IpAddr,
    destination: IpAddr,
    protocol: Option<IpNumber>,
    id: u32,
}

impl Datagram {
    fn of(headers: &Headers, direction: Direction, id: u32) -> Self {
        let &Headers { source, destination, protocol, .. } = headers;
        Self { direction, source, destination, protocol: source.is_ipv4().then_some(protocol), id }
    }
}

/// The addresses and ports of a packet that can be translated, and where to write new ones.
struct Ends {
    protocol: IpNumber,
    source: SocketAddr,
    destination: SocketAddr,
    /// Where the ports are. For ICMP echo both are the identifier's place; of the two ports, the one
    /// on the side that asks is the identifier, and the other zero.
    source_port: usize,
    destination_port: usize,
    /// Where the transport's checksum is.
    checksum: usize,
}

/// ICMP's message types: of echo request, echo reply, and those of the errors.
fn icmp(protocol: IpNumber) -> Option<(u8, u8, &'static [u8])> {
    match protocol {
        ip_number::ICMP => Some((8, 0, &[3, 11, 12])),
        ip_number::IPV6_ICMP => Some((128, 129, &[1, 2, 3, 4])),
        _ => None,
    }
}

impl Ends {
    /// Those of a packet with these headers, if it is of a kind that is translated.
    fn of(headers: &Headers, bytes: &[u8]) -> Option<Self> {
        let at = headers.payload.start;
        let payload = &bytes[headers.payload.clone()];
        let word = |at: usize| Some(u16::from_be_bytes([*payload.get(at)?, *payload.get(at + 1)?]));
        let (source, destination, source_port, destination_port, checksum) = match headers.protocol {
            ip_number::TCP => (word(0)?, word(2)?, 0, 2, 16),
            ip_number::UDP => (word(0)?, word(2)?, 0, 2, 6),
            protocol => match icmp(protocol)? {
                (request, ..) if *payload.first()? == request => (word(4)?, 0, 4, 4, 2),
                (_, reply, _) if *payload.first()? == reply => (0, word(4)?, 4, 4, 2),
                _ => return None,
            },
        };
        Some(Self {
            protocol: headers.protocol,
            source: SocketAddr::new(headers.source, source),
            destination: SocketAddr::new(headers.destination, destination),
            source_port: at + source_port,
            destination_port: at + destination_port,
            checksum: at + checksum,
        })
    }

    fn flow(&self, direction: Direction) -> Flow {
        Flow::new(self.protocol, self.source, self.destination, direction)
    }

    /// Writes a new source or destination, and corrects the checksums that are there.
    fn rewrite(&self, bytes: &mut [u8], is_source: bool, new: SocketAddr) {
        let mut transport = rewrite_address(bytes, is_source, new.ip());
        if self.protocol == ip_number::ICMP {
            transport = Change::default(); // the one that does not cover addresses
        }
        let port = if is_source { self.source_port } else { self.destination_port };
        transport.write(bytes, port, &new.port().to_be_bytes());
        if bytes.len() < self.checksum + 2 {
            return; // a quoted packet may be cut off before it
        }
        if self.protocol == ip_number::UDP {
            transport.apply_udp(bytes, self.checksum);
        } else {
            transport.apply(bytes, self.checksum);
        }
    }
}

/// Writes an address into an IP header, and corrects the header's checksum. Returns the change.
fn rewrite_address(bytes: &mut [u8], is_source: bool, new: IpAddr) -> Change {
    let mut change = Change::default();
    match new {
        IpAddr::V4(new) => {
            change.write(bytes, if is_source { 12 } else { 16 }, &new.octets());
            change.apply(bytes, 10);
        }
        IpAddr::V6(new) => change.write(bytes, if is_source { 8 } else { 24 }, &new.octets()),
    }
    change
}

/// Whether a packet may cross a router at all, and so is for a NAT to translate.
fn is_routed(headers: &Headers) -> bool {
    [headers.source, headers.destination].iter().all(|address| match address {
        IpAddr::V4(address) => !(address.is_multicast() || address.is_broadcast() || address.is_unspecified()),
        IpAddr::V6(address) => !(address.is_multicast() || address.is_unspecified() || address.is_unicast_link_local()),
    })
}

impl Nat {
    /// The public end of the client's connection, which is made if it is new.
    fn public(&mut self, flow: Flow, now: Instant) -> Option<SocketAddr> {
        if let Some(public) = self.outward.get(&flow, now) {
            return Some(*public);
        }
        let start = self.start.at(now);
        let turn = match self.renew {
            Renew::Never => 0,
            Renew::Connection => self.made,
            Renew::Every(time) => (now.saturating_duration_since(start).as_nanos() / time.as_nanos()) as u64,
        } % ADDRESSES;
        let address: IpAddr = match flow.client.ip() {
            IpAddr::V4(_) => Ipv4Addr::from(u32::from(self.v4).wrapping_add(turn as u32)).into(),
            IpAddr::V6(_) => Ipv6Addr::from(u128::from(self.v6).wrapping_add(turn.into())).into(),
        };
        let outside = |port| Flow { client: SocketAddr::new(address, port), ..flow };
        let mut ports = std::iter::once(flow.client.port()).chain(1024..=u16::MAX);
        let free = ports.find(|port| !self.inward.contains_key(&outside(*port)))?;
        let public = SocketAddr::new(address, free);
        self.made += 1;
        self.inward.insert(outside(free), flow.client);
        if let Some((old, public)) = self.outward.insert(flow, public, now) {
            self.inward.remove(&Flow { client: public, ..old });
        }
        Some(public)
    }

    /// What a flow's client is to be called on the other side of the box, if it is known.
    fn known(&mut self, flow: &Flow, direction: Direction, now: Instant) -> Option<SocketAddr> {
        match direction {
            Direction::Up => self.outward.get(flow, now).copied(),
            Direction::Down => {
                let client = *self.inward.get(flow)?;
                // Answers keep a translation in use as well.
                self.outward.get(&Flow { client, ..*flow }, now)?;
                Some(client)
            }
        }
    }

    /// Translates an ICMP error and the packet it quotes.
    fn error(&mut self, headers: &Headers, direction: Direction, bytes: &mut [u8], now: Instant) -> Option<()> {
        let (.., errors) = icmp(headers.protocol)?;
        let Range { start, end } = headers.payload;
        let quote = start + 8..end;
        if quote.is_empty() || !errors.contains(&bytes[start]) {
            return None;
        }
        let inner = Headers::quoted(&bytes[quote.clone()])?;
        let ends = Ends::of(&inner, &bytes[quote.clone()])?;
        // The packet quoted went the other way.
        let quoted_source = direction == Direction::Down;
        let flow = ends.flow(if quoted_source { Direction::Up } else { Direction::Down });
        let new = self.known(&flow, direction, now)?;
        let mut edited = bytes[quote.clone()].to_vec();
        ends.rewrite(&mut edited, quoted_source, new);
        let mut change = Change::default();
        change.write(bytes, quote.start, &edited);
        let outer = rewrite_address(bytes, !quoted_source, new.ip());
        change.apply(bytes, start + 2);
        if headers.protocol == ip_number::IPV6_ICMP {
            outer.apply(bytes, start + 2);
        }
        Some(())
    }
}

impl Nat {
    /// Translates a packet that holds a transport header; `None` if it is to be dropped.
    fn translate(&mut self, headers: &Headers, direction: Direction, bytes: &mut [u8], now: Instant) -> Option<()> {
        let Some(ends) = Ends::of(headers, bytes) else {
            // An error about what is not known passes as it is.
            self.error(headers, direction, bytes, now);
            return Some(());
        };
        let flow = ends.flow(direction);
        let new = match direction {
            Direction::Up => self.public(flow, now),
            Direction::Down => self.known(&flow, direction, now),
        }?;
        ends.rewrite(bytes, direction == Direction::Up, new);
        Some(())
    }

    /// The same for a fragment.
    fn translate_fragment(
        &mut self,
        headers: &Headers,
        fragment: Fragment,
        direction: Direction,
        bytes: &mut [u8],
        now: Instant,
    ) -> Option<()> {
        let datagram = Datagram::of(headers, direction, fragment.id);
        if !fragment.is_first {
            let new = *self.fragments.get(&datagram, now)?;
            rewrite_address(bytes, direction == Direction::Up, new);
            return Some(());
        }
        self.fragments.remove(&datagram); // that was another of the same number
        self.translate(headers, direction, bytes, now)?;
        let new = Headers::of(bytes)?;
        let address = if direction == Direction::Up { new.source } else { new.destination };
        self.fragments.insert(datagram, address, now);
        Some(())
    }
}

impl Watcher for Nat {
    fn push(&mut self, direction: Direction, mut packet: Packet, now: Instant, out: &mut Out) {
        self.start.at(now);
        let bytes = &mut packet.bytes;
        if let Some(headers) = Headers::of_any(bytes).filter(is_routed) {
            let done = match headers.fragment {
                None => self.translate(&headers, direction, bytes, now),
                Some(fragment) => self.translate_fragment(&headers, fragment, direction, bytes, now),
            };
            if done.is_none() {
                return;
            }
        }
        out.forward(packet);
    }

    fn take_over(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.outward, &mut old.outward);
        std::mem::swap(&mut self.inward, &mut old.inward);
        std::mem::swap(&mut self.fragments, &mut old.fragments);
        (self.start, self.made) = (old.start.clone(), old.made);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{IpAddr, SocketAddr},
        time::Instant,
    };

    use etherparse::{IpFragOffset, Ipv6FragmentHeader, Ipv6Header, ip_number};

    use crate::{
        headers::Headers,
        middleboxes::tests::Bench,
        packet::Packet,
        stage::{
            Direction::{self, Down, Up},
            Out, Stage,
        },
        stages::Mtu,
        testing::{
            CLIENT, CLIENT6, SERVER, SERVER6, Segment, answer_to, checksums_are_right, icmp_error, ping, segment, tcp,
            tcp6, udp, with_checksums,
        },
    };

    fn ends(bytes: &[u8]) -> [SocketAddr; 2] {
        let ends = super::Ends::of(&Headers::of(bytes).unwrap(), bytes).unwrap();
        [ends.source, ends.destination]
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
    fn there_and_back() {
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
    fn pings_are_translated_by_their_identifier() {
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
    fn what_nobody_asked_for_is_dropped() {
        let mut bench = Bench::new("nat");
        assert_eq!(through(&mut bench, Down, 0, tcp(Segment { down: true, ..segment(1) })), None);
        assert!(!bench.passes(Down, 0, tcp6(Segment { down: true, ..segment(1) })));
    }

    #[test]
    fn each_connection_can_have_an_address_of_its_own() {
        let mut bench = Bench::new("nat:renew=connection,address=192.0.2.7");
        let mut up = |ms, port| ends(&through(&mut bench, Up, ms, tcp(Segment { port, ..segment(1) })).unwrap())[0];
        assert_eq!((up(0, 5), up(1, 6)), (end("192.0.2.7:5"), end("192.0.2.8:6")));
        assert_eq!(up(2, 5), end("192.0.2.7:5")); // the same connection keeps its own
    }

    #[test]
    fn the_address_can_change_with_time() {
        let mut bench = Bench::new("nat:renew=10ms");
        let mut up = |ms, port| ends(&through(&mut bench, Up, ms, tcp(Segment { port, ..segment(1) })).unwrap())[0];
        assert_eq!((up(0, 5), up(9, 6), up(10, 7)), (end("203.0.113.1:5"), end("203.0.113.1:6"), end("203.0.113.2:7")));
        assert_eq!(up(25, 5), end("203.0.113.1:5"));
    }

    #[test]
    fn errors_reach_the_client_as_being_about_its_own_packet() {
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

    /// An IPv6 fragment header in front of the UDP datagram's bytes from `offset` on, and 16 of them.
    fn fragment6(datagram: &[u8], offset: usize) -> Vec<u8> {
        let more = offset + 16 < datagram.len();
        let offset = IpFragOffset::try_new((offset / 8) as u16).unwrap();
        let header = Ipv6FragmentHeader::new(ip_number::UDP, offset, more, 9).to_bytes();
        let start = usize::from(offset.value()) * 8;
        let payload = [&header[..], &datagram[start..datagram.len().min(start + 16)]].concat();
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (CLIENT6, SERVER6) else { unreachable!() };
        let (source, destination) = (source.octets(), destination.octets());
        let ip = Ipv6Header { source, destination, next_header: ip_number::IPV6_FRAG, ..Default::default() };
        let ip = Ipv6Header { payload_length: payload.len() as u16, hop_limit: 64, ..ip };
        [&ip.to_bytes()[..], &payload].concat()
    }

    #[test]
    fn every_fragment_is_given_the_address_of_the_first() {
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
            let up = through(&mut bench, Up, 3, fragment6(&datagram, offset)).unwrap();
            assert_eq!(Headers::of_any(&up).unwrap().source, end("[2001:db8:113::1]:1").ip());
        }
    }

    #[test]
    fn a_fragment_without_its_first_does_not_leave() {
        let mut bench = Bench::new("nat");
        let parts = fragments(udp(&[7; 1500]));
        assert_eq!(through(&mut bench, Up, 0, parts[1].clone()), None);
        assert!(through(&mut bench, Up, 0, parts[0].clone()).is_some());
        // The other way, the same number is another datagram; it was not asked for.
        for part in fragments(answer_to(&udp(&[7; 1500]))) {
            assert_eq!(through(&mut bench, Down, 0, part), None);
        }
        assert_eq!(through(&mut bench, Up, 0, fragment6(&[3; 40], 16)), None);
    }

    #[test]
    fn two_clients_with_one_port_get_two() {
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
}
