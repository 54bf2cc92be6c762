//! Drops every packet from some moment on, for a while or forever.
//!
//! Like a dead link, a firewall that lost its state, or a used-up quota: the ends get no error. The moment is a time
//! after the first packet, or a number of bytes of IP packets, both directions together.

use std::time::{Duration, Instant};

use super::{
    Kind, Parameter, Side,
    bidirectional::{Bidirectional, stages},
};
use crate::{
    packet::Packet,
    stage::{Direction, Out},
};
use units::{Size, Span};

pub(super) const KIND: Kind = Kind {
    name: "silent",
    help: "drop every packet after a time or a number of bytes",
    parameters: &[
        Parameter { name: "after", form: "TIME", help: "start this long after the first packet", default: "0s" },
        Parameter {
            name: "bytes",
            form: "SIZE",
            help: "start after this many bytes, in place of `after`",
            default: "",
        },
        Parameter { name: "for", form: "TIME", help: "stop after this long", default: "never" },
        Parameter { name: "way", form: "up|down|both", help: "direction that is dropped", default: "both" },
    ],
    side: Side::Client,
    build: |arguments| {
        let after = arguments.get::<Span>("after")?;
        let begin = match arguments.get::<Size>("bytes")? {
            Some(_) if after.is_some() => return arguments.one_of("after and bytes"),
            Some(bytes) => Begin::Bytes(bytes.as_bytes()),
            None => Begin::After(after.unwrap_or_default().0),
        };
        let length = arguments.get::<Span>("for")?.map(Duration::from);
        let way = match arguments.get::<String>("way")?.as_deref() {
            None | Some("both") => None,
            Some("up") => Some(Direction::Up),
            Some("down") => Some(Direction::Down),
            Some(_) => return arguments.invalid("way", "write up, down or both"),
        };
        Ok(stages(Silent { begin, length, way, from: None, passed: 0 }))
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begin {
    After(Duration),
    Bytes(u64),
}

struct Silent {
    begin: Begin,
    length: Option<Duration>,
    /// `None`: both.
    way: Option<Direction>,
    /// When the silence starts, once that is known.
    from: Option<Instant>,
    passed: u64,
}

impl Silent {
    fn is_silent(&mut self, size: usize, now: Instant) -> bool {
        if self.from.is_none() {
            match self.begin {
                Begin::After(time) => self.from = Some(now + time),
                Begin::Bytes(most) => {
                    self.passed += size as u64;
                    if self.passed <= most {
                        return false;
                    }
                    self.from = Some(now);
                }
            }
        }
        self.from.is_some_and(|from| now >= from && self.length.is_none_or(|length| now < from + length))
    }
}

impl Bidirectional for Silent {
    fn push(&mut self, direction: Direction, packet: Packet, now: Instant, out: &mut Out) {
        let silent = self.is_silent(packet.len(), now);
        if !silent || self.way.is_some_and(|way| way != direction) {
            out.forward(packet);
        }
    }

    fn take_over(&mut self, old: &mut Self) {
        if self.begin == old.begin {
            (self.from, self.passed) = (old.from, old.passed);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        middleboxes::tests::Bench,
        stage::Direction::{Down, Up},
    };

    #[test]
    fn drops_everything_for_a_time() {
        let mut bench = Bench::new("silent:after=5ms,for=3ms");
        let passed: Vec<_> = (0..12).filter(|ms| bench.passes(Up, *ms, vec![0; 9])).collect();
        assert_eq!(passed, [0, 1, 2, 3, 4, 8, 9, 10, 11]);
        assert!(bench.passes(Down, 12, vec![0; 9]));
    }

    #[test]
    fn drops_one_direction_after_a_number_of_bytes() {
        let mut bench = Bench::new("silent:bytes=100B,way=down");
        assert!(bench.passes(Up, 0, vec![0; 60]) && bench.passes(Down, 1, vec![0; 40]));
        assert!(!bench.passes(Down, 2, vec![0; 40]));
        assert!(bench.passes(Up, 2, vec![0; 60]) && !bench.passes(Down, 60_000, vec![0; 1]));
    }

    #[test]
    fn change_of_stages_keeps_the_byte_count() {
        let mut bench = Bench::new("silent:after=5ms");
        assert!(bench.passes(Up, 0, vec![0]));
        bench.replace("silent:after=5ms,for=10ms", 3);
        assert!(!bench.passes(Down, 5, vec![0]) && bench.passes(Up, 15, vec![0]));
    }
}
