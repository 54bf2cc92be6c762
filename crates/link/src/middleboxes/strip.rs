//! Strips a TCP option: overwrites it with NOPs and corrects the checksum, in every segment of both directions, like
//! `xt_TCPOPTSTRIP` of Linux's netfilter.
//!
//! The segment keeps its length, so nothing else changes, and the receiving end does without the option. Most options
//! fail this way on the Internet (Honda et al., "Is it still possible to extend TCP?", IMC 2011): the connection works,
//! but without the option.

use std::time::Instant;

use capture::tcp::options;

use super::{Arguments, Kind, MiddleboxError, Parameter, Side};
use crate::{
    headers::{Change, Tcp},
    lanes::Element,
    packet::Packet,
    stage::{Out, Stage},
};

/// TCP's no-operation option.
const NOP: u8 = 1;
/// Maximum length of the options in a TCP header.
const MAX_OPTIONS: usize = 40;
/// Offset of the checksum in a TCP header.
const CHECKSUM: usize = 16;

pub(super) const OPTION: Kind = Kind {
    name: "strip-option",
    help: "overwrite a TCP option with NOPs, in every segment",
    parameters: &[Parameter {
        name: "kind",
        form: "NUMBER",
        help: "the option's kind, such as 34; required",
        default: "",
    }],
    side: Side::Client,
    build: |arguments| match arguments.get::<u8>("kind")? {
        None => arguments.not_once("kind", "NUMBER"),
        Some(0 | 1) => arguments.invalid("kind", "kinds 0 and 1 are padding, not options"),
        Some(kind) => Ok(strip(move |option| option[0] == kind)),
    },
};

pub(super) const TFO: Kind =
    named("strip-tfo", "strip TCP Fast Open (kind 34, RFC 7413, and the experimental 254 with magic 0xF989)", |_| {
        Ok(strip(|option| matches!(option, [34, ..] | [254, _, 0xf9, 0x89, ..])))
    });

pub(super) const SACK: Kind = named("strip-sack", "strip selective acknowledgments (kinds 4 and 5, RFC 2018)", |_| {
    Ok(strip(|option| matches!(option[0], 4 | 5)))
});

pub(super) const TIMESTAMPS: Kind =
    named("strip-timestamps", "strip TCP timestamps (kind 8, RFC 7323)", |_| Ok(strip(|option| option[0] == 8)));

pub(super) const WSCALE: Kind =
    named("strip-wscale", "strip the window scale, which limits windows to 64 KiB (kind 3, RFC 7323)", |_| {
        Ok(strip(|option| option[0] == 3))
    });

const fn named(
    name: &'static str,
    help: &'static str,
    build: fn(&Arguments) -> Result<Element, MiddleboxError>,
) -> Kind {
    Kind { name, help, parameters: &[], side: Side::Client, build }
}

fn strip(is_stripped: impl Fn(&[u8]) -> bool + Copy + Send + 'static) -> Element {
    Element::both(|_| Strip { is_stripped })
}

struct Strip<F> {
    is_stripped: F,
}

impl<F: Fn(&[u8]) -> bool + Send + 'static> Stage for Strip<F> {
    fn push(&mut self, mut packet: Packet, _now: Instant, out: &mut Out) {
        if let Some(tcp) = Tcp::of(&packet.bytes) {
            let (checksum, start) = (tcp.headers.payload.start + CHECKSUM, tcp.options_start());
            let ranges = options(tcp.options()).filter(|range| (self.is_stripped)(&tcp.options()[range.clone()]));
            let ranges: Vec<_> = ranges.collect();
            let mut change = Change::default();
            for range in &ranges {
                change.write(&mut packet.bytes, start + range.start, &[NOP; MAX_OPTIONS][..range.len()]);
            }
            if !ranges.is_empty() {
                change.apply(&mut packet.bytes, checksum);
            }
        }
        out.forward(packet);
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        middleboxes::tests::pass_up,
        test_packets::{Segment, checksums_are_right, segment, tcp, tcp6},
    };

    /// The options after the middlebox.
    fn left(middlebox: &str, options: &[u8]) -> Vec<u8> {
        let with_options = Segment { syn: true, options: options.to_vec(), ..segment(5) };
        for (packet, at) in [(tcp(with_options.clone()), 40), (tcp6(with_options), 60)] {
            let out = pass_up(middlebox, packet.clone());
            assert_eq!((out.forward.len(), out.back.len()), (1, 0));
            let stripped = &out.forward[0].bytes;
            assert!(checksums_are_right(stripped));
            assert_eq!(
                (stripped.len(), &stripped[at + options.len()..]),
                (packet.len(), &packet[at + options.len()..])
            );
            if at == 60 {
                return stripped[60..60 + options.len()].to_vec();
            }
        }
        unreachable!()
    }

    #[test]
    fn named_option_becomes_nops_and_others_stay() {
        let mss = [2, 4, 5, 180];
        let sack = [4, 2, 1, 1];
        let cookie = [1, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        let all = [&mss[..], &sack, &cookie].concat();
        assert_eq!(left("strip-tfo", &all), [&mss[..], &sack, &[1; 11], &[0]].concat());
        assert_eq!(left("strip-option:kind=34", &all), [&mss[..], &sack, &[1; 11], &[0]].concat());
        assert_eq!(left("strip-sack", &all), [&mss[..], &[1; 4], &cookie].concat());
        assert_eq!(left("strip-option:kind=99", &all), all);
    }

    #[test]
    fn experimental_fast_open_option_is_recognized_by_its_magic_number() {
        let fast_open = [254, 4, 0xf9, 0x89];
        let other = [254, 4, 0x12, 0x34];
        let both = [fast_open, other].concat();
        assert_eq!(left("strip-tfo", &both), [&[1; 4], &other[..]].concat());
        assert_eq!(left("strip-option:kind=254", &both), [1; 8]);
    }

    #[test]
    fn malformed_options_are_left_unchanged() {
        for broken in [[34, 0, 1, 1], [34, 1, 1, 1], [34, 9, 1, 1], [1, 1, 1, 34], [0, 34, 2, 1]] {
            assert_eq!(left("strip-tfo", &broken), broken);
        }
    }
}
