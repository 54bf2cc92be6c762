//! One-way delays and losses between two captures of a connection.
//!
//! A packet that is in both ends' captures has left and arrived, but by two clocks. The clock offset adds to the apparent
//! delay in one direction and subtracts from it in the other. So half of the difference of the shortest delays is the
//! offset, if both directions have the same delay without queues. RFC 5905 §8 estimates it this way, and Paxson
//! (SIGMETRICS 1998) says what it misses: asymmetric paths, and clocks that drift. A packet's delay beyond the shortest
//! of its direction is waiting time: in a queue, or in a device that held it.
//!
//! The same packet has the same header fields at both ends. A retransmission repeats them; what arrived is the latest
//! that could have. Where network cards merge or split segments, a segment counts as arrived if it overlaps one that
//! did. Data also counts as arrived if it was acknowledged and never sent again: then the other capture lacks it, because
//! that machine was too busy to record it.

use std::{collections::HashMap, fmt, time::Duration};

use capture::tcp::Flags;

use crate::{
    causes::Cause,
    explanation::{Connection, Direction},
    infer::vantage::Vantage,
    number_format::{ms, time_text},
    segment::SegmentRecord,
    side::{PerSide, Side},
};

/// The maximum number of lost packets that are named.
const MAX_LOST_NAMED: usize = 5;

/// By how much two measurements of the shortest delay may differ, in nanoseconds.
const TOLERANCE: i64 = 1_000_000;

/// The longest one-way delay, in nanoseconds. (RFC 9293 §3.4.2 allows minutes, but no sender waits for them.)
const MAX_DELAY: i64 = 10_000_000_000;

/// The maximum number of packets around a time that are searched.
const MAX_SEARCHED: usize = 10_000;

/// Below this clock offset, clocks agree as far as the estimate can say, in nanoseconds.
const MIN_OFFSET: u64 = 1_000_000;

/// One-way delays and losses between two captures.
#[derive(Debug, Clone, PartialEq)]
pub struct OneWayDelays {
    /// The indices of the captures: the one nearer the client, and the other.
    pub captures: [usize; 2],
    /// By how many nanoseconds the second capture's clock is ahead of the first's, if the path is symmetric.
    pub clock_ahead: i64,
    /// From the client to the server.
    pub up: OneWay,
    /// From the server to the client.
    pub down: OneWay,
}

/// Delays and losses in one direction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OneWay {
    /// The shortest delay.
    pub min: Duration,
    /// The median delay.
    pub median: Duration,
    /// The longest delay.
    pub max: Duration,
    /// The number of packets sent while both captures ran.
    pub sent: u64,
    /// The number of them that never arrived.
    pub lost: u64,
    /// Some of the lost packets, by their numbers in the sender's capture.
    pub lost_packets: Vec<u32>,
}

/// A packet in one capture.
#[derive(Debug, Clone, Copy)]
struct CapturedPacket {
    time: i64,
    number: u32,
    seq: u32,
    len: u32,
}

/// The header fields that are the same in both captures.
type Header = (Side, u32, u32, u32, u16);

/// The packets of a capture by header; those with the same header in order.
type Packets = HashMap<Header, Vec<CapturedPacket>>;

fn time(segment: &SegmentRecord) -> i64 {
    i64::try_from(segment.time).unwrap_or(i64::MAX)
}

fn packets(segments: &[SegmentRecord]) -> Packets {
    let mut packets = Packets::new();
    for segment in segments {
        let header = (segment.from(), segment.seq, segment.ack, segment.len, segment.window);
        let packet = CapturedPacket { time: time(segment), number: segment.number, seq: segment.seq, len: segment.len };
        packets.entry(header).or_default().push(packet);
    }
    packets
}

/// Orders captures from the client's end to the server's.
fn position(connection: &Connection) -> u8 {
    match connection.vantage {
        Vantage::Client => 0,
        Vantage::Middle | Vantage::Unknown => 1,
        Vantage::Server => 2,
    }
}

/// The delays between two captures of a connection; none if they were taken at the same point, or have too little in
/// common.
pub(crate) fn between(one: (usize, &Connection), other: (usize, &Connection)) -> Option<OneWayDelays> {
    let (near, far) = if position(one.1) < position(other.1) { (one, other) } else { (other, one) };
    if position(near.1) == position(far.1) || near.1.segments.is_empty() || far.1.segments.is_empty() {
        return None;
    }
    let (at_near, at_far) = (packets(&near.1.segments), packets(&far.1.segments));
    let shortest = |side: Side| {
        // Only a header that occurs once at either end certainly belongs to the same packet.
        let delay = |(header, near): (&Header, &Vec<CapturedPacket>)| {
            let far = at_far.get(header)?;
            let ([near], [far]) = (&near[..], &far[..]) else { return None };
            (header.0 == side).then(|| if side == Side::Client { far.time - near.time } else { near.time - far.time })
        };
        at_near.iter().filter_map(delay).min()
    };
    let (up, down) = (shortest(Side::Client)?, shortest(Side::Server)?);
    let (clock_ahead, min) = (up.saturating_sub(down) / 2, i64::midpoint(up, down));
    // A longer or a negative delay belongs to two connections.
    if !(-TOLERANCE..MAX_DELAY).contains(&min) {
        return None;
    }
    let segments = PerSide { client: &near.1.segments, server: &far.1.segments };
    let packets = PerSide { client: &at_near, server: &at_far };
    let one_way = |side: Side| {
        let offset = if side == Side::Client { clock_ahead } else { -clock_ahead };
        OneWay::of(side, segments, packets, offset, min.max(0))
    };
    let (up, down) = (one_way(Side::Client), one_way(Side::Server));
    Some(OneWayDelays { captures: [near.0, far.0], clock_ahead, up, down })
}

impl OneWay {
    /// The delays of the packets that `side` sent. The other capture's clock is ahead by `offset`.
    fn of(
        side: Side,
        segments: PerSide<&Vec<SegmentRecord>>,
        packets: PerSide<&Packets>,
        offset: i64,
        min: i64,
    ) -> Self {
        let mut one_way = Self::default();
        let begin = segments[!side].first().map_or(0, time);
        let end = segments[!side].last().map_or(0, time);
        let mut delays: Vec<i64> = Vec::new();
        let mut lost: Vec<u32> = Vec::new();
        for (header, sent) in packets[side].iter().filter(|(header, _)| header.0 == side) {
            let arrived = packets[!side].get(header).map_or(&[][..], |arrived| arrived);
            let mut arrived = arrived.iter().rev().peekable();
            for (index, packet) in sent.iter().enumerate().rev() {
                let due = packet.time.saturating_add(offset).saturating_add(min);
                if due < begin || due > end {
                    continue;
                }
                one_way.sent += 1;
                // It arrived after this copy was sent, and before the next one.
                if let Some(arrived) = arrived.next_if(|arrived| arrived.time >= due.saturating_sub(TOLERANCE)) {
                    delays.push(arrived.time.saturating_sub(offset).saturating_sub(packet.time).max(0));
                } else if (index > 0 || arrived.peek().is_none())
                    && !overlaps_any(packet, side, segments[!side], due)
                    && !is_acknowledged(packet, side, segments[side])
                {
                    lost.push(packet.number);
                }
            }
        }
        delays.sort_unstable();
        let at = |index: usize| Duration::from_nanos(delays.get(index).map_or(0, |time| time.unsigned_abs()));
        (one_way.min, one_way.median) = (at(0), at(delays.len() / 2));
        one_way.max = at(delays.len().saturating_sub(1));
        lost.sort_unstable();
        one_way.lost = lost.len() as u64;
        lost.truncate(MAX_LOST_NAMED);
        one_way.lost_packets = lost;
        one_way
    }
}

/// Whether a segment arrived as a part of a larger one, or in parts.
fn overlaps_any(packet: &CapturedPacket, side: Side, arrived: &[SegmentRecord], due: i64) -> bool {
    let from = arrived.partition_point(|segment| time(segment) < due.saturating_sub(TOLERANCE));
    let soon = arrived[from..]
        .iter()
        .take(MAX_SEARCHED)
        .take_while(|segment| time(segment) <= due.saturating_add(MAX_DELAY / 10));
    let data = soon.filter(|segment| segment.from() == side && segment.len > 0 && packet.len > 0);
    let overlaps = |segment: &SegmentRecord| {
        segment.seq.wrapping_sub(packet.seq) < packet.len || packet.seq.wrapping_sub(segment.seq) < segment.len
    };
    { data }.any(|segment| overlaps(segment) && (segment.seq, segment.len) != (packet.seq, packet.len))
}

/// Whether the packet's data was acknowledged, and not sent again before: the first copy arrived.
fn is_acknowledged(packet: &CapturedPacket, side: Side, sent: &[SegmentRecord]) -> bool {
    let from = sent.partition_point(|segment| time(segment) < packet.time);
    let end = packet.seq.wrapping_add(packet.len);
    for segment in sent[from..].iter().take(MAX_SEARCHED).filter(|segment| segment.number > packet.number) {
        let is_repeated = segment.from() == side
            && segment.len > 0
            && (segment.seq.wrapping_sub(packet.seq) < packet.len
                || packet.seq.wrapping_sub(segment.seq) < segment.len);
        if is_repeated {
            return false;
        }
        if segment.from() != side && segment.has(Flags::ACK) && segment.ack.wrapping_sub(end) as i32 >= 0 {
            return packet.len > 0;
        }
    }
    false
}

impl fmt::Display for OneWay {
    /// `20 ms (median 22 ms, max 41 ms), 2 of 300 packets lost (7, 9)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [min, median, max] = [self.min, self.median, self.max].map(time_text);
        write!(f, "{min} (median {median}, max {max}), ")?;
        if self.lost == 0 {
            return f.write_str("no loss");
        }
        let packets: Vec<String> = self.lost_packets.iter().map(u32::to_string).collect();
        let more = if self.lost as usize > packets.len() { ", …" } else { "" };
        write!(f, "{} of {} packets lost ({}{more})", self.lost, self.sent, packets.join(", "))
    }
}

impl fmt::Display for OneWayDelays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("captured at both ends: ")?;
        match self.clock_ahead.unsigned_abs() {
            0..MIN_OFFSET => f.write_str("the clocks agree")?,
            offset if self.clock_ahead > 0 => {
                write!(f, "the server's clock is {} ahead of the client's", ms(offset))?;
            }
            offset => write!(f, "the server's clock is {} behind the client's", ms(offset))?,
        }
        write!(f, "; client to server {}; server to client {}", self.up, self.down)
    }
}

impl OneWayDelays {
    /// Adds to each finding of delayed ACKs who delayed them: the receiver, or a device on the path.
    pub(crate) fn attribute_delayed_acks(&self, explained: &mut Connection, other: &Connection) {
        let sender = if explained.direction() == Direction::Upload { Side::Client } else { Side::Server };
        let is_at_sender = position(explained) < position(other) && sender == Side::Client
            || position(explained) > position(other) && sender == Side::Server;
        if !is_at_sender {
            return;
        }
        // From the sender's clock to the receiver's.
        let offset = if sender == Side::Client { self.clock_ahead } else { -self.clock_ahead };
        let ack_path = if sender == Side::Client { &self.down } else { &self.up };
        let min_delay = i64::try_from(ack_path.min.as_nanos()).unwrap_or(i64::MAX);
        let segments = std::mem::take(&mut explained.segments);
        let indices: HashMap<u32, usize> =
            segments.iter().enumerate().map(|(index, segment)| (segment.number, index)).collect();
        // For how long the receiver and the path delayed an acknowledgement.
        let delays = |ack: &SegmentRecord| {
            let due = time(ack).saturating_add(offset);
            let until = other.segments.partition_point(|segment| time(segment) <= due.saturating_add(TOLERANCE));
            let before = || other.segments[..until].iter().rev().take(MAX_SEARCHED);
            let sent = before().find(|segment| segment.repeats(ack))?;
            let is_acked_data = |segment: &&SegmentRecord| {
                segment.from() == sender && segment.len > 0 && segment.seq.wrapping_add(segment.len) == ack.ack
            };
            let data = before().skip_while(|segment| segment.time > sent.time).find(is_acked_data)?;
            let on_path = due.saturating_sub(time(sent)).saturating_sub(min_delay);
            Some((sent.time - data.time, u64::try_from(on_path).unwrap_or(0)))
        };
        let findings = explained.transfers.iter_mut().flat_map(|transfer| &mut transfer.findings);
        for finding in findings.filter(|finding| finding.cause == Cause::DelayedAck) {
            let acks = finding.packets.iter().filter_map(|number| indices.get(number)).map(|index| &segments[*index]);
            let measured: Vec<(u64, u64)> = acks.filter_map(delays).collect();
            if measured.is_empty() {
                continue;
            }
            let count = measured.len() as u64;
            let by_receiver = measured.iter().map(|(by_receiver, _)| by_receiver).sum::<u64>() / count;
            let on_path = measured.iter().map(|(_, on_path)| on_path).sum::<u64>() / count;
            let text = if by_receiver >= on_path {
                format!(" The receiver's own capture confirms it: the receiver sent them {} late.", ms(by_receiver))
            } else {
                format!(
                    " But the receiver's own capture shows that it sent them after {}: a device on the path delayed \
                     them by {} each.",
                    ms(by_receiver),
                    ms(on_path)
                )
            };
            finding.why.push_str(&text);
        }
        explained.segments = segments;
    }
}
