//! The timeline of a connection: every instant with its cause.
//!
//! A connection is a chain of events: this packet could be sent because that one had arrived, back to the DNS lookup.
//! Between one event and the next is a [`Wait`]. Waits follow one another without a gap, and each is divided among the
//! causes. So the times of the causes add up to the whole time, to the nanosecond, for any packets whatever. Both
//! directions form one chain: where the ends take turns, the turn is a link of it.
//!
//! Acknowledgements are no links of their own: they release a data packet, and the wait before that packet says so.

use super::{
    message_history::{DirectionStats, ObservedMessage},
    walk::Walk,
};
use crate::{
    causes::{
        Cause, CauseTimes, RULES,
        wait::{Wait, WaitEnd},
    },
    collect::CapturedConnection,
    infer::{
        exchange::Exchange, send_context::SendContext, sender_properties::SenderProperties, vantage::VantagePoint,
    },
    side::PerSide,
};

/// Intervals shorter than this are joined with a neighbour of the same cause, in nanoseconds.
const SHORT: u64 = 500_000;

/// An interval of time, in nanoseconds since the epoch, and its cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
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
    pub(crate) intervals: Vec<Interval>,
    /// The two messages of each exchange.
    pub(crate) messages: Vec<PerSide<ObservedMessage>>,
    pub(crate) stats: PerSide<DirectionStats>,
    /// Buffers of [`Timeline::account`], kept to save allocations: the parts of a wait that no cause has claimed yet.
    left: Vec<(u64, u64)>,
    spare: Vec<(u64, u64)>,
}

impl Timeline {
    pub(crate) fn of(
        connection: &CapturedConnection,
        vantage: &VantagePoint,
        properties: &PerSide<SenderProperties>,
        exchanges: &[Exchange],
    ) -> Self {
        let mut timeline = Self { messages: vec![PerSide::default(); exchanges.len()], ..Self::default() };
        let Some(first) = connection.segments.first() else { return timeline };
        let mut walk = Walk::new(connection, vantage, properties, exchanges, first);
        if let Some(lookup) = connection.lookup {
            walk.cursor = lookup.asked;
            walk.step(&mut timeline, lookup.answered, lookup.number, WaitEnd::Lookup, 0);
        }
        for segment in &connection.segments {
            walk.packet(&mut timeline, segment);
        }
        walk.finish(&mut timeline);
        timeline
    }

    /// Gives all time to propagation: too little was captured to tell what was waited for.
    pub(crate) fn leave_unexplained(&mut self) {
        if let (Some(first), Some(last)) = (self.intervals.first(), self.intervals.last()) {
            let all = Interval { from: first.from, to: last.to, cause: Cause::Propagation, number: last.number };
            self.intervals = vec![all];
        }
    }

    /// Divides a wait among the causes.
    pub(crate) fn account(&mut self, wait: &Wait, number: u32) {
        if wait.to <= wait.from {
            return;
        }
        let begin = self.intervals.len();
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
                self.intervals.push(Interval {
                    from,
                    to,
                    cause: rule.cause,
                    number: evidence_packet(wait, rule.cause, number),
                });
                self.spare.extend([(left_from, from), (to, left_to)].into_iter().filter(|(from, to)| from < to));
            }
            std::mem::swap(&mut self.left, &mut self.spare);
            if self.left.is_empty() {
                break;
            }
        }
        debug_assert!(self.left.is_empty(), "no cause claims {:?} of {wait:?}", self.left);
        self.intervals[begin..].sort_unstable_by_key(|interval| interval.from);
        self.join(begin);
    }

    /// Joins intervals with those before them.
    fn join(&mut self, begin: usize) {
        let mut kept = begin;
        for at in begin..self.intervals.len() {
            let interval = self.intervals[at];
            let short = interval.to - interval.from < SHORT;
            match kept.checked_sub(1).map(|last| &mut self.intervals[last]) {
                Some(last)
                    if last.cause == interval.cause
                        && last.to == interval.from
                        && (short || last.to - last.from < SHORT) =>
                {
                    last.to = interval.to;
                    if !short {
                        last.number = interval.number;
                    }
                }
                _ => {
                    self.intervals[kept] = interval;
                    kept += 1;
                }
            }
        }
        self.intervals.truncate(kept);
    }

    /// The intervals between two times, cut to them.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Interval> {
        let begin = self.intervals.partition_point(|interval| interval.to <= from);
        let cut =
            move |interval: &Interval| Interval { from: interval.from.max(from), to: interval.to.min(to), ..*interval };
        self.intervals[begin..].iter().take_while(move |interval| interval.from < to).map(cut)
    }

    /// The time between two times by cause.
    pub(crate) fn times(&self, from: u64, to: u64) -> CauseTimes {
        let mut times = CauseTimes::default();
        for interval in self.between(from, to) {
            times[interval.cause] += interval.to - interval.from;
        }
        times
    }

    pub(crate) fn end(&self) -> u64 {
        self.intervals.last().map_or(0, |interval| interval.to)
    }
}

/// The packet that shows a cause best: a delayed acknowledgement itself, otherwise the packet that ended the wait.
fn evidence_packet(wait: &Wait, cause: Cause, number: u32) -> u32 {
    match (cause, wait.end) {
        (Cause::DelayedAck, WaitEnd::Data(SendContext { released_by: Some(ack), .. })) => ack.packet,
        _ => number,
    }
}
