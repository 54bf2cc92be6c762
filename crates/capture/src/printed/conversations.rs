//! Sequence numbers as tcpdump prints them, made absolute.
//!
//! Without `-S`, tcpdump prints a connection's first segment that acknowledges something with the numbers
//! it has, and all later ones relative to that: the sender's to its own number, the other's to one
//! less than what was acknowledged, so that data begin at 1 behind a SYN. A segment without an
//! acknowledgment (a SYN, some resets) is always printed as it is. A segment without data has no
//! sequence number printed at all: it has the one that its sender's next byte will have.
//!
//! So this keeps for each connection what tcpdump kept. Whether `-S` was given no line says; the first
//! that would tell does: whichever of the two readings lies nearer to what was to be expected.

use std::{collections::HashMap, net::SocketAddr};

/// The most connections that are told apart: tens of megabytes of them.
const MAX: usize = 1 << 20;

/// The numbers of a line, as printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printed {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) syn: bool,
    /// Not printed where there are neither data nor SYN, FIN or RST.
    pub(super) sequence: Option<u32>,
    pub(super) acknowledgment: Option<u32>,
    /// How far the segment moves its sender's sequence number.
    pub(super) len: u32,
}

/// The numbers of a segment, as they were in its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absolute {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    /// What the sender's acknowledgments are printed relative to.
    pub(super) base: u32,
}

/// A connection, with its two ends in order.
#[derive(Debug, Default)]
struct Conversation {
    /// What each end's numbers are relative to.
    bases: Option<[u32; 2]>,
    /// The sequence number that each end's next byte will have.
    next: [Option<u32>; 2],
}

/// The connections of a text.
#[derive(Debug, Default)]
pub(super) struct Conversations {
    known: HashMap<[SocketAddr; 2], Conversation>,
    /// Whether numbers are relative, once a line has told.
    relative: Option<bool>,
}

impl Conversations {
    /// The numbers that `printed` had in its header.
    pub(super) fn absolute(&mut self, printed: &Printed) -> Result<Absolute, &'static str> {
        let Printed { from, to, syn, sequence, acknowledgment, len } = *printed;
        let ends = [from.min(to), from.max(to)];
        if self.known.len() == MAX && !self.known.contains_key(&ends) {
            return Err("too many connections");
        }
        let conversation = self.known.entry(ends).or_default();
        let me = usize::from(from > to);
        let other = 1 - me;
        if syn && acknowledgment.is_none() {
            *conversation = Conversation::default();
        }
        let next = &mut conversation.next;
        let absolute = match (acknowledgment, conversation.bases) {
            (None, bases) => Absolute {
                sequence: sequence.or(next[me]).unwrap_or_default(),
                acknowledgment: 0,
                base: bases.unwrap_or_default()[other],
            },
            (Some(acknowledgment), Some(bases)) if !syn => {
                let expected = |end: usize| next[end].unwrap_or(bases[end].wrapping_add(1));
                let relative = *self.relative.get_or_insert_with(|| {
                    let far = |number: u32| number.wrapping_sub(expected(other)).cast_signed().unsigned_abs();
                    far(acknowledgment.wrapping_add(bases[other])) <= far(acknowledgment)
                });
                let base = |end: usize| if relative { bases[end] } else { 0 };
                Absolute {
                    sequence: sequence.map_or_else(|| expected(me), |number| number.wrapping_add(base(me))),
                    acknowledgment: acknowledgment.wrapping_add(base(other)),
                    base: bases[other],
                }
            }
            (Some(acknowledgment), _) => {
                let sequence = sequence.or(next[me]).unwrap_or_default();
                let mut bases = [sequence; 2];
                bases[other] = acknowledgment.wrapping_sub(1);
                conversation.bases = Some(bases);
                Absolute { sequence, acknowledgment, base: bases[other] }
            }
        };
        let end = absolute.sequence.wrapping_add(len);
        if next[me].is_none_or(|next| end.wrapping_sub(next).cast_signed() > 0) || syn {
            next[me] = Some(end);
        }
        Ok(absolute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that these segments had, sent by the client or not, with their sequence and
    /// acknowledgment numbers as printed and their length; a SYN counts for one byte.
    fn absolute(segments: &[(bool, Option<u32>, Option<u32>, u32)]) -> Vec<(u32, u32)> {
        let (client, server) = ("10.0.0.1:5000".parse().expect("an end"), "10.0.0.2:80".parse().expect("an end"));
        let mut conversations = Conversations::default();
        let printed = |&(sent, sequence, acknowledgment, len)| {
            let (from, to) = if sent { (client, server) } else { (server, client) };
            let syn = len == 1;
            let printed = Printed { from, to, syn, sequence, acknowledgment, len };
            let found = conversations.absolute(&printed).expect("one connection");
            (found.sequence, found.acknowledgment)
        };
        segments.iter().map(printed).collect()
    }

    #[test]
    fn relative_numbers_begin_at_the_handshake() {
        let seen = absolute(&[
            (true, Some(7000), None, 1),
            (false, Some(u32::MAX), Some(7001), 1),
            (true, None, Some(1), 0),
            (true, Some(1), Some(1), 100),
            (false, None, Some(101), 0),
            (false, Some(1), Some(101), 1000),
            (true, None, Some(1001), 0),
        ]);
        let max = u32::MAX;
        let expected = [(7000, 0), (max, 7001), (7001, 0), (7001, 0), (0, 7101), (0, 7101), (7101, 1000)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn absolute_numbers_stay() {
        let seen = absolute(&[
            (true, Some(7000), None, 1),
            (false, Some(9000), Some(7001), 1),
            (true, None, Some(9001), 0),
            (true, Some(7001), Some(9001), 100),
            (false, None, Some(7101), 0),
        ]);
        assert_eq!(seen, [(7000, 0), (9000, 7001), (7001, 9001), (7001, 9001), (9001, 7101)]);
    }

    #[test]
    fn relative_numbers_begin_midway_too() {
        let seen = absolute(&[
            (true, Some(5000), Some(9000), 100),
            (false, None, Some(100), 0),
            (true, Some(100), Some(1), 50),
            (false, Some(1), Some(150), 10),
        ]);
        assert_eq!(seen, [(5000, 9000), (9000, 5100), (5100, 9000), (9000, 5150)]);
    }

    #[test]
    fn a_port_used_again_begins_anew() {
        let seen = absolute(&[
            (true, Some(7000), None, 1),
            (false, Some(9000), Some(7001), 1),
            (true, Some(1), Some(1), 100),
            (true, Some(50), None, 1),
            (false, Some(60), Some(51), 1),
            (true, Some(1), Some(1), 100),
        ]);
        assert_eq!(seen[3..], [(50, 0), (60, 51), (51, 61)]);
    }
}
