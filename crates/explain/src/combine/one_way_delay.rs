//! The way between two captures of one connection: how long packets took each way, and which never came.
//!
//! A packet that both ends' captures show has left and arrived, but by two clocks. What the clocks differ by is in
//! every packet of one way with one sign, and in every packet of the other with the other: so half of the difference of
//! the shortest ways is the difference of the clocks, if the ways are equally long when nothing waits (RFC 5905 §8
//! estimates it so, and Paxson, SIGMETRICS 1998, says what it cannot see: a way that is longer than the other one, and
//! a clock that drifts). What a packet took beyond the shortest of its way it waited: in a queue, or where somebody
//! held it.
//!
//! The same packet has the same numbers at both ends; one that was sent again has them more than once, and what
//! arrived is the latest that could have. Where network cards merge or cut segments, a segment has arrived that is part
//! of one that did.

use std::{collections::HashMap, time::Duration};

use crate::{
    causes::Cause,
    explanation::{Connection, Direction},
    format::ms,
    infer::vantage::Vantage,
    segment::SegmentRecord,
    side::{PerSide, Side},
};

/// How many lost packets are named.
const NAMED: usize = 5;

/// How far two measurements of the shortest way are apart at most, in nanoseconds.
const NEAR: i64 = 1_000_000;

/// The longest that a packet is on its way, in nanoseconds (RFC 9293 §3.4.2 allows minutes; no sender waits for them).
const LONGEST: i64 = 10_000_000_000;

/// How many packets around a time are searched.
const NEARBY: usize = 10_000;

/// What two captures tell of the way between them.
#[derive(Debug, Clone, PartialEq)]
pub struct OneWayDelays {
    /// The captures' places in the list: the one nearer the client, and the other.
    pub captures: [usize; 2],
    /// How many nanoseconds the second's clock is ahead of the first's, if both ways are equally long.
    pub clock_ahead: i64,
    /// From the client to the server.
    pub up: OneWay,
    /// From the server to the client.
    pub down: OneWay,
}

/// One way.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneWay {
    /// The shortest time that a packet took, the one in the middle, and the longest.
    pub least: Duration,
    /// See `least`; what is more than that was waited.
    pub typical: Duration,
    /// See `least`.
    pub most: Duration,
    /// How many packets left in the time that both captures show.
    pub sent: u64,
    /// How many of them never came.
    pub lost: u64,
    /// Some of these, by their numbers in the capture where they left.
    pub packets: Vec<u32>,
}

/// A packet in one capture.
#[derive(Debug, Clone, Copy)]
struct Passed {
    time: i64,
    number: u32,
    seq: u32,
    len: u32,
}

/// What is the same in both captures.
type Numbers = (Side, u32, u32, u32, u16);

/// The packets of a capture, those with the same numbers in order.
type Packets = HashMap<Numbers, Vec<Passed>>;

fn time(segment: &SegmentRecord) -> i64 {
    i64::try_from(segment.time).unwrap_or(i64::MAX)
}

fn packets(segments: &[SegmentRecord]) -> Packets {
    let mut packets = Packets::new();
    for segment in segments {
        let numbers = (segment.from(), segment.seq, segment.ack, segment.len, segment.window);
        let passed = Passed { time: time(segment), number: segment.number, seq: segment.seq, len: segment.len };
        packets.entry(numbers).or_default().push(passed);
    }
    packets
}

/// How much nearer a capture is to the server than to the client.
fn place(connection: &Connection) -> u8 {
    match connection.vantage {
        Vantage::Client => 0,
        Vantage::Middle | Vantage::Unknown => 1,
        Vantage::Server => 2,
    }
}

/// The way between two captures of a connection; none if they are at the same place, or have too little in common.
pub(crate) fn between(one: (usize, &Connection), other: (usize, &Connection)) -> Option<OneWayDelays> {
    let (near, far) = if place(one.1) < place(other.1) { (one, other) } else { (other, one) };
    if place(near.1) == place(far.1) || near.1.segments.is_empty() || far.1.segments.is_empty() {
        return None;
    }
    let (here, there) = (packets(&near.1.segments), packets(&far.1.segments));
    // Only what passed once at either end is surely the same packet.
    let apart = |side: Side| {
        let alone = |(numbers, at_near): (&Numbers, &Vec<Passed>)| {
            let at_far = there.get(numbers)?;
            let ([near], [far]) = (&at_near[..], &at_far[..]) else { return None };
            (numbers.0 == side).then(|| if side == Side::Client { far.time - near.time } else { near.time - far.time })
        };
        here.iter().filter_map(alone).min()
    };
    let (up, down) = (apart(Side::Client)?, apart(Side::Server)?);
    let (clock_ahead, least) = (up.saturating_sub(down) / 2, i64::midpoint(up, down));
    // Longer ways than that, or ways back in time, are of two connections.
    if !(-NEAR..LONGEST).contains(&least) {
        return None;
    }
    let segments = PerSide { client: &near.1.segments, server: &far.1.segments };
    let all = PerSide { client: &here, server: &there };
    let way = |side: Side| {
        let behind = if side == Side::Client { clock_ahead } else { -clock_ahead };
        OneWay::of(side, segments, all, behind, least.max(0))
    };
    let (up, down) = (way(Side::Client), way(Side::Server));
    Some(OneWayDelays { captures: [near.0, far.0], clock_ahead, up, down })
}

impl OneWay {
    /// The way from a side, whose capture's clock is so far behind the other's.
    fn of(side: Side, segments: PerSide<&Vec<SegmentRecord>>, all: PerSide<&Packets>, behind: i64, least: i64) -> Self {
        let mut way = Self::default();
        let begin = segments[!side].first().map_or(0, time);
        let end = segments[!side].last().map_or(0, time);
        let mut took: Vec<i64> = Vec::new();
        let mut lost: Vec<u32> = Vec::new();
        for (numbers, left) in all[side].iter().filter(|(numbers, _)| numbers.0 == side) {
            let came = all[!side].get(numbers).map_or(&[][..], |came| came);
            let mut came = came.iter().rev().peekable();
            for (place, one) in left.iter().enumerate().rev() {
                let due = one.time.saturating_add(behind).saturating_add(least);
                if due < begin || due > end {
                    continue;
                }
                way.sent += 1;
                // It came after this one left, and before the next.
                if let Some(arrived) = came.next_if(|came| came.time >= due.saturating_sub(NEAR)) {
                    took.push(arrived.time.saturating_sub(behind).saturating_sub(one.time).max(0));
                } else if (place > 0 || came.peek().is_none()) && !is_part(one, side, segments[!side], due) {
                    lost.push(one.number);
                }
            }
        }
        took.sort_unstable();
        let at = |place: usize| Duration::from_nanos(took.get(place).map_or(0, |time| time.unsigned_abs()));
        (way.least, way.typical, way.most) = (at(0), at(took.len() / 2), at(took.len().saturating_sub(1)));
        lost.sort_unstable();
        way.lost = lost.len() as u64;
        lost.truncate(NAMED);
        way.packets = lost;
        way
    }

    /// `20 ms, mostly 22 ms, at most 41 ms; 2 of 300 packets lost (7, 9)`.
    fn says(&self) -> String {
        let nanos = |time: Duration| ms(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let times = format!("{}, mostly {}, at most {}", nanos(self.least), nanos(self.typical), nanos(self.most));
        if self.lost == 0 {
            return format!("{times}, nothing lost");
        }
        let packets: Vec<String> = self.packets.iter().map(u32::to_string).collect();
        let more = if self.lost as usize > packets.len() { ", …" } else { "" };
        format!("{times}, {} of {} packets lost ({}{more})", self.lost, self.sent, packets.join(", "))
    }
}

/// Whether a segment came as a part of a larger one, or in parts.
fn is_part(one: &Passed, side: Side, came: &[SegmentRecord], due: i64) -> bool {
    let from = came.partition_point(|segment| time(segment) < due.saturating_sub(NEAR));
    let soon = came[from..].iter().take(NEARBY).take_while(|segment| time(segment) <= due.saturating_add(LONGEST / 10));
    let data = soon.filter(|segment| segment.from() == side && segment.len > 0 && one.len > 0);
    let holds = |segment: &SegmentRecord| {
        segment.seq.wrapping_sub(one.seq) < one.len || one.seq.wrapping_sub(segment.seq) < segment.len
    };
    { data }.any(|segment| holds(segment) && (segment.seq, segment.len) != (one.seq, one.len))
}

impl OneWayDelays {
    /// What it is, for people.
    pub(crate) fn says(&self) -> String {
        let clocks = match self.clock_ahead.unsigned_abs() {
            // Less than what the estimate is good for.
            0..1_000_000 => "the clocks agree".to_owned(),
            apart => {
                let ahead = if self.clock_ahead > 0 { "ahead of" } else { "behind" };
                format!("the clock at the server's end is {} {ahead} the client's", ms(apart))
            }
        };
        format!("both ends captured: {clocks}; up {}; down {}", self.up.says(), self.down.says())
    }

    /// Who held the acknowledgements that a sender waited for: a sentence for each finding of that.
    pub(crate) fn judge(&self, seen: &mut Connection, other: &Connection) {
        let sender = if seen.direction() == Direction::Upload { Side::Client } else { Side::Server };
        let at_sender = place(seen) < place(other) && sender == Side::Client
            || place(seen) > place(other) && sender == Side::Server;
        if !at_sender {
            return;
        }
        // From the sender's clock to the receiver's.
        let behind = if sender == Side::Client { self.clock_ahead } else { -self.clock_ahead };
        let back = if sender == Side::Client { &self.down } else { &self.up };
        let segments = std::mem::take(&mut seen.segments);
        let places: HashMap<u32, usize> =
            segments.iter().enumerate().map(|(place, segment)| (segment.number, place)).collect();
        let findings = seen.transfers.iter_mut().flat_map(|transfer| &mut transfer.findings);
        for finding in findings.filter(|finding| finding.cause == Cause::DelayedAck) {
            let acks = finding.packets.iter().filter_map(|number| places.get(number)).map(|place| &segments[*place]);
            let told: Vec<(u64, u64)> = acks
                .filter_map(|ack| {
                    let due = time(ack).saturating_add(behind);
                    let until = other.segments.partition_point(|segment| time(segment) <= due.saturating_add(NEAR));
                    let before = || other.segments[..until].iter().rev().take(NEARBY);
                    let left = before().find(|segment| segment.repeats(ack))?;
                    let covers = |segment: &&SegmentRecord| {
                        segment.from() == sender && segment.len > 0 && segment.seq.wrapping_add(segment.len) == ack.ack
                    };
                    let data = before().skip_while(|segment| segment.time > left.time).find(covers)?;
                    let least = i64::try_from(back.least.as_nanos()).unwrap_or(i64::MAX);
                    let waited = due.saturating_sub(time(left)).saturating_sub(least);
                    Some((left.time - data.time, u64::try_from(waited).unwrap_or(0)))
                })
                .collect();
            let cases = told.len().max(1) as u64;
            let held = told.iter().map(|(held, _)| held).sum::<u64>() / cases;
            let waited = told.iter().map(|(_, waited)| waited).sum::<u64>() / cases;
            if told.is_empty() {
                continue;
            }
            let text = if held >= waited {
                format!(" The receiver's own capture shows it: it let {} pass each time.", ms(held))
            } else {
                format!(
                    " But the receiver's own capture shows that it acknowledged after {}: something on the way held \
                     the acknowledgements, {} each time.",
                    ms(held),
                    ms(waited)
                )
            };
            finding.why.push_str(&text);
        }
        seen.segments = segments;
    }
}
