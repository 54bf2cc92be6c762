//! Drops unusual SYNs: with an option that the box does not know, or with data.
//!
//! The sender sees a timeout of a second or more, and cannot distinguish it from loss. This is the risk of a new option,
//! more than the speed that it fails to bring. SYN-ACKs are checked too.

use std::time::Instant;

use capture::tcp::options;

use super::{Kind, Side};
use crate::{
    headers::Tcp,
    lanes::Element,
    middleboxes::Parameter,
    packet::Packet,
    stage::{Out, Stage},
};

pub(super) const UNKNOWN_OPTIONS: Kind = Kind {
    name: "drop-unknown-options",
    help: "drop SYNs with a TCP option that is not in `known`",
    parameters: &[Parameter {
        name: "known",
        form: "KIND+KIND…",
        help: "allowed option kinds, besides padding",
        default: "2+3+4+8",
    }],
    side: Side::Client,
    build: |arguments| {
        // MSS, window scale, SACK permitted, timestamps.
        let mut known = vec![2, 3, 4, 8];
        if let Some(list) = arguments.get::<String>("known")? {
            known.clear();
            for kind in list.split('+') {
                match kind.trim().parse() {
                    Ok(kind) => known.push(kind),
                    Err(_) => return arguments.invalid("known", "write numbers from 0 to 255, separated by +"),
                }
            }
        }
        Ok(drop_syns(move |tcp| options(tcp.options()).any(|range| !known.contains(&tcp.options()[range.start]))))
    },
};

pub(super) const DATA: Kind = Kind {
    name: "drop-syn-data",
    help: "drop SYNs with data",
    parameters: &[],
    side: Side::Client,
    build: |_| Ok(drop_syns(|tcp| !tcp.payload().is_empty())),
};

fn drop_syns(is_dropped: impl Fn(&Tcp<'_>) -> bool + Clone + Send + 'static) -> Element {
    Element::both(|_| DropSyns { is_dropped: is_dropped.clone() })
}

struct DropSyns<F> {
    is_dropped: F,
}

impl<F: Fn(&Tcp<'_>) -> bool + Send + 'static> Stage for DropSyns<F> {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        let dropped = Tcp::of(&packet.bytes).is_some_and(|tcp| tcp.syn() && (self.is_dropped)(&tcp));
        if !dropped {
            out.forward(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        middleboxes::tests::pass_up,
        test_packets::{Segment, segment, tcp, udp},
    };

    fn passes(middlebox: &str, syn: bool, options: &[u8], payload: usize) -> bool {
        let packet = tcp(Segment { syn, options: options.to_vec(), ..segment(payload) });
        let out = pass_up(middlebox, packet.clone());
        assert!(out.back.is_empty());
        out.forward.first().is_some_and(|passed| passed.bytes == packet)
    }

    #[test]
    fn unknown_options_in_syns_are_dropped() {
        let usual = [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7];
        let fast_open = [34, 2, 1, 1];
        let name = "drop-unknown-options";
        assert!(passes(name, true, &usual, 0));
        assert!(!passes(name, true, &fast_open, 0));
        assert!(!passes(name, true, &[&usual[..], &fast_open].concat(), 0));
        assert!(passes(name, false, &fast_open, 0)); // not a SYN
        assert!(passes("drop-unknown-options:known=34", true, &fast_open, 0));
        assert!(!passes("drop-unknown-options:known=34+2", true, &usual, 0));
    }

    #[test]
    fn data_in_syns_is_dropped_with_the_syn() {
        assert!(passes("drop-syn-data", true, &[], 0));
        assert!(!passes("drop-syn-data", true, &[], 1));
        assert!(passes("drop-syn-data", false, &[], 1000));
        assert_eq!(pass_up("drop-syn-data", udp(b"hi")).forward.len(), 1);
    }
}
