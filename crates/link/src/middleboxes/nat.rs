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

mod ends;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::Range,
    time::{Duration, Instant},
};

use ends::{Ends, icmp, rewrite_address};
use etherparse::ip_number;

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
};
use units::Span;

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

/// What the fragments of one datagram have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    direction: Direction,
    source: IpAddr,
    destination: IpAddr,
    /// See [`Fragment::datagram`].
    number: u64,
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
        let &Headers { source, destination, .. } = headers;
        let datagram = Datagram { direction, source, destination, number: fragment.datagram };
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
