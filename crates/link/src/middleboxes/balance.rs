//! A load balancer in front of servers that do not share the key of their Fast Open cookies. It selects a server by the
//! connection's ports, as routers do (RFC 2992).
//!
//! All servers are the same host. A client can tell them apart only by their cookies, so each server's cookies are the
//! host's with another mask. A cookie that returns to its own server is unmasked to what the host issued; for any other
//! server it is noise. Such a server ignores the data in the SYN and issues a cookie of its own (RFC 7413 §4.1.3).
//! Behind load balancers, 40 % of first revisits miss TFO (Sy et al., arXiv 1905.03518).

use std::{ops::Range, time::Instant};

use capture::tcp::options;

use super::{Kind, Parameter, Side};
use crate::{
    headers::{Change, Flow, Tcp},
    lanes::Element,
    packet::Packet,
    stage::{Direction, Out, Stage},
};

/// Offset of the checksum in a TCP header.
const CHECKSUM: usize = 16;

pub(super) const KIND: Kind = Kind {
    name: "balance",
    help: "distribute connections over servers with different Fast Open keys",
    parameters: &[Parameter {
        name: "servers",
        form: "NUMBER",
        help: "number of servers, from 2 to 255",
        default: "2",
    }],
    side: Side::Server,
    build: |arguments| match arguments.get::<u8>("servers")?.unwrap_or(2) {
        servers @ 2.. => Ok(Element::both(move |direction| Balance { servers, direction })),
        _ => arguments.invalid("servers", "write a number from 2 to 255"),
    },
};

struct Balance {
    servers: u8,
    direction: Direction,
}

impl Balance {
    /// The server of a connection. Knuth's multiplicative hash spreads consecutive ports.
    fn server(&self, flow: &Flow) -> u8 {
        let ports = u32::from(flow.client.port()) << 16 | u32::from(flow.server.port());
        ((ports.wrapping_mul(2_654_435_769) >> 16) % u32::from(self.servers)) as u8
    }
}

/// The range of a Fast Open cookie in a segment's options.
fn cookie(tcp: &Tcp<'_>) -> Option<Range<usize>> {
    options(tcp.options()).find_map(|range| match &tcp.options()[range.clone()] {
        [34, _, _, ..] => Some(range.start + 2..range.end),
        [254, _, 0xf9, 0x89, _, ..] => Some(range.start + 4..range.end),
        _ => None,
    })
}

impl Stage for Balance {
    fn push(&mut self, mut packet: Packet, _now: Instant, out: &mut Out) {
        if let Some(tcp) = Tcp::of(&packet.bytes)
            && tcp.syn()
            && let Some(range) = cookie(&tcp)
        {
            let server = self.server(&tcp.flow(self.direction));
            let (start, checksum) = (tcp.options_start(), tcp.headers.payload.start + CHECKSUM);
            let masked: Vec<u8> = tcp.options()[range.clone()].iter().map(|byte| byte ^ server).collect();
            let mut change = Change::default();
            change.write(&mut packet.bytes, start + range.start, &masked);
            change.apply(&mut packet.bytes, checksum);
        }
        out.forward(packet);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{
        middleboxes::Middlebox,
        test_packets::{Segment, checksums_are_right, segment, tcp},
    };

    #[test]
    fn cookie_is_valid_only_at_the_server_that_issued_it() {
        let element = "balance:servers=2".parse::<Middlebox>().unwrap().build().unwrap();
        let (mut up, mut down) = (element.up.unwrap(), element.down.unwrap());
        let now = Instant::now();
        // The options of a SYN or SYN-ACK after the box.
        let mut pass = |port, answer: bool, options: &[u8]| {
            let ack = answer.then_some(1);
            let syn = tcp(Segment { syn: true, port, down: answer, ack, options: options.to_vec(), ..segment(0) });
            let mut out = Out::default();
            let stage = if answer { &mut down } else { &mut up };
            stage.push(Packet::new(syn), now, &mut out);
            assert!(checksums_are_right(&out.forward[0].bytes));
            Tcp::of(&out.forward[0].bytes).unwrap().options().to_vec()
        };
        for cookie in [&[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1][..], &[254, 8, 0xf9, 0x89, 1, 2, 3, 4]] {
            let given: Vec<Vec<u8>> = (40_000..40_100).map(|port| pass(port, true, cookie)).collect();
            let mut holds = 0;
            for (port, held) in (40_000..40_100).flat_map(|port| given.iter().map(move |held| (port, held))) {
                let same = *held == given[usize::from(port - 40_000u16)];
                assert_eq!(pass(port, false, held) == cookie, same);
                holds += u32::from(same);
            }
            assert!((4000..=6000).contains(&holds), "{holds} of 10000");
        }
        assert_eq!(pass(40_001, false, &[34, 2, 1, 1]), [34, 2, 1, 1], "a request for a cookie contains none");
    }
}
