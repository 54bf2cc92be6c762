//! The timeline of a connection: every instant with its cause.
//!
//! What happened is a chain: this packet could go because that one had come, back to the name that was looked up.
//! From one link of the chain to the next is a [`Wait`]; waits follow one another without a gap, and each is divided
//! among the causes. So the times of the causes add up to the time there was, to the nanosecond, for any packets
//! whatever. Both directions are one chain: where they take turns, the turn is a link of it.
//!
//! Acknowledgements are no links of their own: they are why a data packet goes, and the wait before it says so.

use crate::{
    causes::{Cause, RULES, Times},
    collect::Connection,
    event::Both,
    exchange::Exchange,
    facts::Facts,
    story::{Counts, Seen},
    vantage::Place,
    wait::{Data, End, Wait},
    walk::Walk,
};

/// Pieces shorter than this are joined with a neighbour of the same cause, in nanoseconds.
const SHORT: u64 = 500_000;

/// A piece of time and its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) cause: Cause,
    /// The packet that ended it.
    pub(crate) number: u32,
}

/// A connection's time.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// One after another, without gaps.
    pub(crate) pieces: Vec<Piece>,
    /// When each exchange's messages were seen.
    pub(crate) seen: Vec<Both<Seen>>,
    pub(crate) counts: Both<Counts>,
    left: Vec<(u64, u64)>,
    spare: Vec<(u64, u64)>,
}

impl Timeline {
    pub(crate) fn of(connection: &Connection, place: &Place, facts: &Both<Facts>, exchanges: &[Exchange]) -> Self {
        let mut timeline = Self { seen: vec![Both::default(); exchanges.len()], ..Self::default() };
        let Some(first) = connection.events.first() else { return timeline };
        let mut walk = Walk::new(connection, place, facts, exchanges, first);
        if let Some(lookup) = connection.lookup {
            walk.cursor = lookup.asked;
            walk.step(&mut timeline, lookup.answered, lookup.number, End::Lookup, 0);
        }
        for event in &connection.events {
            walk.event(&mut timeline, event);
        }
        walk.arrive(&mut timeline);
        timeline
    }

    /// Divides a wait among the causes.
    pub(crate) fn account(&mut self, wait: &Wait, number: u32) {
        if wait.to <= wait.from {
            return;
        }
        let begin = self.pieces.len();
        self.left.clear();
        self.left.push((wait.from, wait.to));
        for rule in &RULES {
            let Some((from, to)) = (rule.claim)(wait) else { continue };
            self.spare.clear();
            for (left_from, left_to) in self.left.drain(..) {
                let (from, to) = (from.clamp(left_from, left_to), to.clamp(left_from, left_to));
                if from >= to {
                    self.spare.push((left_from, left_to));
                    continue;
                }
                self.pieces.push(Piece { from, to, cause: rule.cause, number: told_by(wait, rule.cause, number) });
                self.spare.extend([(left_from, from), (to, left_to)].into_iter().filter(|(from, to)| from < to));
            }
            std::mem::swap(&mut self.left, &mut self.spare);
            if self.left.is_empty() {
                break;
            }
        }
        debug_assert!(self.left.is_empty(), "nobody claims {:?} of {wait:?}", self.left);
        self.pieces[begin..].sort_unstable_by_key(|piece| piece.from);
        self.join(begin);
    }

    /// Joins pieces with those before them.
    fn join(&mut self, begin: usize) {
        let mut kept = begin;
        for at in begin..self.pieces.len() {
            let piece = self.pieces[at];
            let short = piece.to - piece.from < SHORT;
            match kept.checked_sub(1).map(|last| &mut self.pieces[last]) {
                Some(last)
                    if last.cause == piece.cause && last.to == piece.from && (short || last.to - last.from < SHORT) =>
                {
                    last.to = piece.to;
                    if !short {
                        last.number = piece.number;
                    }
                }
                _ => {
                    self.pieces[kept] = piece;
                    kept += 1;
                }
            }
        }
        self.pieces.truncate(kept);
    }

    /// The pieces between two times, cut to them.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Piece> {
        let begin = self.pieces.partition_point(|piece| piece.to <= from);
        let cut = move |piece: &Piece| Piece { from: piece.from.max(from), to: piece.to.min(to), ..*piece };
        self.pieces[begin..].iter().take_while(move |piece| piece.from < to).map(cut)
    }

    /// What the time between two times was spent on.
    pub(crate) fn times(&self, from: u64, to: u64) -> Times {
        let mut times = Times::default();
        for piece in self.between(from, to) {
            times[piece.cause] += piece.to - piece.from;
        }
        times
    }

    pub(crate) fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.to)
    }
}

/// The packet that shows a cause best: a held acknowledgement itself, else what ended the wait.
fn told_by(wait: &Wait, cause: Cause, number: u32) -> u32 {
    match (cause, wait.end) {
        (Cause::DelayedAck, End::Data(Data { released: Some(release), .. })) => release.number,
        _ => number,
    }
}
