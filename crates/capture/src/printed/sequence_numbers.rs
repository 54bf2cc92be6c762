//! Turns the relative sequence numbers that tcpdump prints into absolute ones.
//!
//! Without `-S`, tcpdump prints the numbers of a connection's first segment with an acknowledgment as they are, and all
//! later numbers relative to them: its sender's to the sequence number, and the other side's to one less than the
//! acknowledgment, so that data begins at 1 after a SYN. A segment without an acknowledgment (a SYN, some resets) is
//! always printed with absolute numbers. A segment without data has no printed sequence number: it has that of its
//! sender's next byte.
//!
//! No line says whether `-S` was given. The first line where it matters decides: the reading that is closer to the
//! expected number is taken.

use std::{collections::HashMap, net::SocketAddr};

/// Maximum number of connections; they need tens of megabytes.
const MAX_CONNECTIONS: usize = 1 << 20;

/// The numbers of a line, as printed.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrintedNumbers {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) syn: bool,
    /// Not printed without data, SYN, FIN and RST.
    pub(super) sequence: Option<u32>,
    pub(super) acknowledgment: Option<u32>,
    /// By how much the segment advances its sender's sequence number.
    pub(super) len: u32,
}

/// The numbers in a segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AbsoluteNumbers {
    pub(super) sequence: u32,
    pub(super) acknowledgment: u32,
    /// The number to which the sender's acknowledgments are relative.
    pub(super) base: u32,
}

/// A connection, with its two ends in order.
#[derive(Debug, Default)]
struct Connection {
    /// The numbers to which each end's sequence numbers are relative.
    bases: Option<[u32; 2]>,
    /// The sequence number of each end's next byte.
    next: [Option<u32>; 2],
}

/// The connections of a text.
#[derive(Debug, Default)]
pub(super) struct SequenceNumbers {
    known: HashMap<[SocketAddr; 2], Connection>,
    /// Whether numbers are relative, once a line has decided it.
    relative: Option<bool>,
}

impl SequenceNumbers {
    /// Computes the numbers in the header of `printed`.
    pub(super) fn absolute(&mut self, printed: &PrintedNumbers) -> Result<AbsoluteNumbers, &'static str> {
        let PrintedNumbers { from, to, syn, sequence, acknowledgment, len } = *printed;
        let ends = [from.min(to), from.max(to)];
        if self.known.len() == MAX_CONNECTIONS && !self.known.contains_key(&ends) {
            return Err("too many connections");
        }
        let connection = self.known.entry(ends).or_default();
        let sender = usize::from(from > to);
        let other = 1 - sender;
        if syn && acknowledgment.is_none() {
            *connection = Connection::default();
        }
        let next = &mut connection.next;
        let absolute = match (acknowledgment, connection.bases) {
            (None, bases) => AbsoluteNumbers {
                sequence: sequence.or(next[sender]).unwrap_or_default(),
                acknowledgment: 0,
                base: bases.unwrap_or_default()[other],
            },
            (Some(acknowledgment), Some(bases)) if !syn => {
                let expected = |end: usize| next[end].unwrap_or(bases[end].wrapping_add(1));
                let relative = *self.relative.get_or_insert_with(|| {
                    let distance = |number: u32| number.wrapping_sub(expected(other)).cast_signed().unsigned_abs();
                    distance(acknowledgment.wrapping_add(bases[other])) <= distance(acknowledgment)
                });
                let base = |end: usize| if relative { bases[end] } else { 0 };
                AbsoluteNumbers {
                    sequence: sequence.map_or_else(|| expected(sender), |number| number.wrapping_add(base(sender))),
                    acknowledgment: acknowledgment.wrapping_add(base(other)),
                    base: bases[other],
                }
            }
            (Some(acknowledgment), _) => {
                let sequence = sequence.or(next[sender]).unwrap_or_default();
                let mut bases = [sequence; 2];
                bases[other] = acknowledgment.wrapping_sub(1);
                connection.bases = Some(bases);
                AbsoluteNumbers { sequence, acknowledgment, base: bases[other] }
            }
        };
        let end = absolute.sequence.wrapping_add(len);
        if next[sender].is_none_or(|next| end.wrapping_sub(next).cast_signed() > 0) || syn {
            next[sender] = Some(end);
        }
        Ok(absolute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The absolute numbers of these segments: whether the client sent them, their printed sequence and acknowledgment
    /// numbers, and their length; a SYN counts as one byte.
    fn absolute(segments: &[(bool, Option<u32>, Option<u32>, u32)]) -> Vec<(u32, u32)> {
        let (client, server) = ("10.0.0.1:5000".parse().expect("an end"), "10.0.0.2:80".parse().expect("an end"));
        let mut numbers = SequenceNumbers::default();
        let printed = |&(sent, sequence, acknowledgment, len)| {
            let (from, to) = if sent { (client, server) } else { (server, client) };
            let syn = len == 1;
            let printed = PrintedNumbers { from, to, syn, sequence, acknowledgment, len };
            let found = numbers.absolute(&printed).expect("one connection");
            (found.sequence, found.acknowledgment)
        };
        segments.iter().map(printed).collect()
    }

    #[test]
    fn numbers_are_relative_to_the_handshake() {
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
    fn absolute_numbers_are_kept() {
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
    fn numbers_are_relative_to_the_first_segment_without_a_handshake() {
        let seen = absolute(&[
            (true, Some(5000), Some(9000), 100),
            (false, None, Some(100), 0),
            (true, Some(100), Some(1), 50),
            (false, Some(1), Some(150), 10),
        ]);
        assert_eq!(seen, [(5000, 9000), (9000, 5100), (5100, 9000), (9000, 5150)]);
    }

    #[test]
    fn reused_port_starts_a_new_connection() {
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
