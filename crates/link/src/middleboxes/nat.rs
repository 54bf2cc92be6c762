//! Network address translation (NAT) for the client, as in a home or a mobile network (RFC 2663).
//!
//! TCP, UDP and ICMP echo from the client's side leave with a public address, and with their own port if it is free;
//! answers are translated back. Each connection has its own mapping ("address and port-dependent mapping", RFC 4787
//! §4.1), while the table of 4096 entries has room. Packets of these kinds from the server without a mapping are
//! dropped. ICMP errors are translated together with the packet that they quote (RFC 5508 §4.2). All other packets pass
//! unchanged: other protocols, multicast and link-local traffic.
//!
//! Only the first fragment of a datagram has ports. The others get the same address. They are dropped if the first one
//! was dropped or has not arrived yet ("received fragments ordered", RFC 4787 §11).
//!
//! The public address can change, for every connection or from time to time; existing connections keep theirs. A server
//! that identifies its clients by address then sees a new client: a Fast Open cookie, which is derived from the address
//! (RFC 7413 §4.1.2), becomes invalid.
//!
//! The server's host must route the public addresses to the cable.

mod endpoints;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    ops::Range,
    time::{Duration, Instant},
};

use endpoints::{Endpoints, icmp, rewrite_address};
use etherparse::ip_number;

use super::{
    Arguments, Kind, MiddleboxError, Parameter, Side,
    bidirectional::{Bidirectional, stages},
    connection_table::Flows,
};
use crate::{
    headers::{Change, Flow, Fragment, Headers},
    packet::Packet,
    stage::{Direction, Out},
    stages::Start,
};
use units::Span;

/// Number of public addresses, from the first on.
const ADDRESSES: u64 = 254;

pub(super) const KIND: Kind = Kind {
    name: "nat",
    help: "translate the client's address and port (NAT)",
    parameters: &[
        Parameter { name: "address", form: "IPV4", help: "first public address", default: "203.0.113.1" },
        Parameter { name: "address6", form: "IPV6", help: "first public IPv6 address", default: "2001:db8:113::1" },
        Parameter {
            name: "renew",
            form: "connection|TIME",
            help: "switch to the next of 254 addresses for each connection, or at this interval",
            default: "never",
        },
    ],
    side: Side::Client,
    build: |arguments| {
        let (v4, v6) = public_addresses(arguments)?;
        let renew = match arguments.get::<String>("renew")?.as_deref() {
            None | Some("never") => Renew::Never,
            Some("connection") => Renew::Connection,
            Some(time) => match time.parse::<Span>() {
                Ok(time) if !time.0.is_zero() => Renew::Every(time.0),
                _ => return arguments.invalid("renew", "write `connection`, `never`, or a time like `30s`"),
            },
        };
        let (outward, inward, fragments) = (Flows::default(), BTreeMap::new(), Flows::default());
        Ok(stages(Nat { v4, v6, renew, start: Start::default(), mapping_count: 0, outward, inward, fragments }))
    },
};

/// The first public addresses.
pub(super) fn public_addresses(arguments: &Arguments) -> Result<(Ipv4Addr, Ipv6Addr), MiddleboxError> {
    let v4 = arguments.get("address")?.unwrap_or(Ipv4Addr::new(203, 0, 113, 1));
    let v6 = arguments.get("address6")?.unwrap_or(Ipv6Addr::new(0x2001, 0xdb8, 0x113, 0, 0, 0, 0, 1));
    Ok((v4, v6))
}

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
    /// Number of mappings so far.
    mapping_count: u64,
    /// The public address and port of each connection.
    outward: Flows<SocketAddr>,
    /// The client's address and port, for each connection as the server sees it.
    inward: BTreeMap<Flow, SocketAddr>,
    /// The new address of the first fragment of each datagram.
    fragments: Flows<IpAddr, Datagram>,
}

/// Identifies the fragments of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    direction: Direction,
    source: IpAddr,
    destination: IpAddr,
    /// See [`Fragment::datagram`].
    number: u64,
}

/// Whether routers forward a packet, so that a NAT translates it.
fn is_routed(headers: &Headers) -> bool {
    [headers.source, headers.destination].iter().all(|address| match address {
        IpAddr::V4(address) => !(address.is_multicast() || address.is_broadcast() || address.is_unspecified()),
        IpAddr::V6(address) => !(address.is_multicast() || address.is_unspecified() || address.is_unicast_link_local()),
    })
}

impl Nat {
    /// The public address and port of a connection; creates the mapping if there is none.
    fn map(&mut self, flow: Flow, now: Instant) -> Option<SocketAddr> {
        if let Some(public) = self.outward.get(&flow, now) {
            return Some(*public);
        }
        let start = self.start.at(now);
        let index = match self.renew {
            Renew::Never => 0,
            Renew::Connection => self.mapping_count,
            Renew::Every(time) => (now.saturating_duration_since(start).as_nanos() / time.as_nanos()) as u64,
        } % ADDRESSES;
        let address: IpAddr = match flow.client.ip() {
            IpAddr::V4(_) => Ipv4Addr::from(u32::from(self.v4).wrapping_add(index as u32)).into(),
            IpAddr::V6(_) => Ipv6Addr::from(u128::from(self.v6).wrapping_add(index.into())).into(),
        };
        let translated = |port| Flow { client: SocketAddr::new(address, port), ..flow };
        let mut ports = std::iter::once(flow.client.port()).chain(1024..=u16::MAX);
        let free = ports.find(|port| !self.inward.contains_key(&translated(*port)))?;
        let public = SocketAddr::new(address, free);
        self.mapping_count += 1;
        self.inward.insert(translated(free), flow.client);
        if let Some((old, public)) = self.outward.insert(flow, public, now) {
            self.inward.remove(&Flow { client: public, ..old });
        }
        Some(public)
    }

    /// The client's address and port on the other side of the box, if there is a mapping.
    fn lookup(&mut self, flow: &Flow, direction: Direction, now: Instant) -> Option<SocketAddr> {
        match direction {
            Direction::Up => self.outward.get(flow, now).copied(),
            Direction::Down => {
                let client = *self.inward.get(flow)?;
                // Answers also count as use of the mapping.
                self.outward.get(&Flow { client, ..*flow }, now)?;
                Some(client)
            }
        }
    }

    /// Translates an ICMP error and the packet that it quotes.
    fn translate_error(
        &mut self,
        headers: &Headers,
        direction: Direction,
        bytes: &mut [u8],
        now: Instant,
    ) -> Option<()> {
        let (.., errors) = icmp(headers.protocol)?;
        let Range { start, end } = headers.payload;
        let quote = start + 8..end;
        if quote.is_empty() || !errors.contains(&bytes[start]) {
            return None;
        }
        let inner = Headers::quoted(&bytes[quote.clone()])?;
        let endpoints = Endpoints::of(&inner, &bytes[quote.clone()])?;
        // The quoted packet went in the other direction.
        let quoted_source = direction == Direction::Down;
        let flow = endpoints.flow(if quoted_source { Direction::Up } else { Direction::Down });
        let new = self.lookup(&flow, direction, now)?;
        let mut edited = bytes[quote.clone()].to_vec();
        endpoints.rewrite(&mut edited, quoted_source, new);
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
    /// Translates a packet with a transport header; `None` if it is to be dropped.
    fn translate(&mut self, headers: &Headers, direction: Direction, bytes: &mut [u8], now: Instant) -> Option<()> {
        let Some(endpoints) = Endpoints::of(headers, bytes) else {
            // An error about an unknown connection passes unchanged.
            self.translate_error(headers, direction, bytes, now);
            return Some(());
        };
        let flow = endpoints.flow(direction);
        let new = match direction {
            Direction::Up => self.map(flow, now),
            Direction::Down => self.lookup(&flow, direction, now),
        }?;
        endpoints.rewrite(bytes, direction == Direction::Up, new);
        Some(())
    }

    /// Translates a fragment; `None` if it is to be dropped.
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
        self.fragments.remove(&datagram); // an earlier datagram with the same identification
        self.translate(headers, direction, bytes, now)?;
        let new = Headers::of(bytes)?;
        let address = if direction == Direction::Up { new.source } else { new.destination };
        self.fragments.insert(datagram, address, now);
        Some(())
    }
}

impl Bidirectional for Nat {
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
        (self.start, self.mapping_count) = (old.start.clone(), old.mapping_count);
    }
}
