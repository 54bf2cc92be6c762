//! Counters of each direction of a connection, with the meanings of tcptrace's long output (Ostermann, 1994–2003).
//!
//! All of them come from headers alone, in one pass. RTT samples follow Karn's rule (RFC 6298 §3): the acknowledgement of
//! data that was, or may have been, retransmitted gives none. They are the times between the capture point and the
//! receiver, delayed acknowledgements and queues included.

use std::collections::VecDeque;

use capture::tcp::Flags;
use serde::Serialize;

use crate::{
    collect::CapturedConnection,
    infer::{vantage::VantagePoint, window_scale::WindowScale},
    segment::SegmentRecord,
    sent_ranges::{Passage, SentRanges},
    side::{PerSide, Side},
    stream_offset::{ORIGIN, StreamOffsets},
};

/// Of the packets that one end sent, unless it says otherwise; its fields are those of the JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Counters {
    pub(crate) packets: u64,
    pub(crate) data_packets: u64,
    /// Bytes of data with retransmissions, and without.
    pub(crate) data_bytes: u64,
    pub(crate) unique_bytes: u64,
    /// Packets with data, a SYN or a FIN that were sent before; and the bytes of data in them.
    pub(crate) retransmitted_packets: u64,
    pub(crate) retransmitted_bytes: u64,
    /// Packets that were overtaken before the capture point.
    pub(crate) out_of_order_packets: u64,
    /// Acknowledgements that repeat the last one (RFC 5681 §2).
    pub(crate) duplicate_acks: u64,
    pub(crate) sack_packets: u64,
    pub(crate) zero_windows: u64,
    /// The largest window that it offered, in bytes.
    pub(crate) max_window: u64,
    /// The MSS that it announced, if its SYN was captured.
    pub(crate) mss: Option<u16>,
    /// The most bytes of data in a packet.
    pub(crate) max_segment: u64,
    /// How long its data took to be acknowledged.
    pub(crate) rtt_ms: Option<RttSamples>,
    /// Its bytes in flight when it sent data.
    pub(crate) max_in_flight: u64,
    pub(crate) median_in_flight: u64,
    /// Unique bytes between its first and its last packet, in bits per second.
    pub(crate) throughput_bits: Option<f64>,
}

/// RTT samples, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct RttSamples {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
    pub(crate) samples: usize,
}

/// The counters of both directions, as in the JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct BothDirections {
    /// Sent by the client.
    up: Counters,
    /// Sent by the server.
    down: Counters,
}

impl From<&PerSide<Counters>> for BothDirections {
    fn from(counters: &PerSide<Counters>) -> Self {
        Self { up: counters.client.clone(), down: counters.server.clone() }
    }
}

impl PerSide<Counters> {
    /// Counts the packets of a connection.
    pub(crate) fn of_connection(connection: &CapturedConnection, vantage: &VantagePoint) -> Self {
        let mut directions = PerSide::of(|side| Direction::new(connection, vantage, side));
        for segment in &connection.segments {
            let side = segment.from();
            let Some(sent) = directions[side].send(segment) else { continue };
            if let Some(ack) = segment.has(Flags::ACK).then(|| directions[!side].offset(segment.ack)).flatten() {
                let is_duplicate = directions[!side].acknowledge(ack, segment.time) && sent.may_be_duplicate_ack;
                directions[side].counters.duplicate_acks += u64::from(is_duplicate);
            }
        }
        PerSide { client: directions.client.finish(), server: directions.server.finish() }
    }
}

/// What a packet was, to its own direction.
struct SentPacket {
    /// It has no data, and offers the same window as the one before it.
    may_be_duplicate_ack: bool,
}

/// The state of one direction: the sender's data, and what acknowledges it.
struct Direction {
    counters: Counters,
    offsets: Option<StreamOffsets>,
    ranges: SentRanges,
    scale: u8,
    /// The times of its first and last packet, in nanoseconds since the epoch.
    first: Option<u64>,
    last: u64,
    window: Option<u16>,
    has_syn: bool,
    has_fin: bool,
    /// The end of all that it sent, SYN and FIN included, and of what was acknowledged.
    snd_nxt: u64,
    snd_una: Option<u64>,
    /// Data that is not acknowledged: its end, and when it was sent.
    in_flight: VecDeque<(u64, u64)>,
    /// Acknowledgements up to here may be for a retransmission.
    ambiguous_until: u64,
    rtt_samples: Vec<u64>,
    in_flight_samples: Vec<u64>,
}

impl Direction {
    fn new(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Self {
        Self {
            counters: Counters { mss: connection.syn[side].and_then(|syn| syn.mss), ..Counters::default() },
            offsets: connection.offsets[side].map(StreamOffsets::rewound),
            ranges: SentRanges::new(vantage),
            scale: WindowScale::of(connection, vantage, side).shift,
            first: None,
            last: 0,
            window: None,
            has_syn: false,
            has_fin: false,
            snd_nxt: 0,
            snd_una: None,
            in_flight: VecDeque::new(),
            ambiguous_until: 0,
            rtt_samples: Vec::new(),
            in_flight_samples: Vec::new(),
        }
    }

    /// The offset of a byte in this direction; none if it is far outside any window.
    fn offset(&mut self, seq: u32) -> Option<u64> {
        self.offsets.get_or_insert_with(|| StreamOffsets::from(seq)).of(seq)
    }

    /// Counts a packet that this end sent; none if it does not belong to the connection.
    fn send(&mut self, segment: &SegmentRecord) -> Option<SentPacket> {
        let [syn, fin, rst] = [Flags::SYN, Flags::FIN, Flags::RST].map(|flag| segment.has(flag));
        self.counters.packets += 1;
        self.first.get_or_insert(segment.time);
        self.last = segment.time;
        let seq = self.offset(segment.seq)?;
        self.counters.sack_packets += u64::from(segment.has_sack());
        let is_same_window = self.window == Some(segment.window);
        if !rst {
            let window = u64::from(segment.window) << if syn { 0 } else { self.scale };
            self.counters.max_window = self.counters.max_window.max(window);
            self.counters.zero_windows += u64::from(window == 0 && !syn && !fin);
            self.window = Some(segment.window);
        }
        if segment.len > 0 || syn || fin {
            self.send_data(segment, seq, syn, fin);
        }
        Some(SentPacket { may_be_duplicate_ack: segment.len == 0 && !syn && !fin && !rst && is_same_window })
    }

    fn send_data(&mut self, segment: &SegmentRecord, seq: u64, syn: bool, fin: bool) {
        let len = u64::from(segment.len);
        let (start, end) = (seq + u64::from(syn), seq + u64::from(syn) + len);
        // A keep-alive repeats the last byte, although it was acknowledged (RFC 9293 §3.8.4).
        if len == 1 && !fin && end == self.ranges.snd_nxt() && self.snd_una.is_some_and(|una| una >= end) {
            return;
        }
        let (mut passage, first_time) = self.ranges.pass(start, end, segment.time, segment.is_resent());
        if syn && self.has_syn || fin && self.has_fin {
            passage = Passage::Retransmission;
        }
        self.has_syn |= syn;
        self.has_fin |= fin;
        let counters = &mut self.counters;
        counters.data_packets += u64::from(len > 0);
        counters.data_bytes += len;
        counters.unique_bytes += first_time;
        counters.max_segment = counters.max_segment.max(len);
        match passage {
            Passage::New => self.in_flight.push_back((end + u64::from(fin), segment.time)),
            Passage::OutOfOrder => {
                counters.out_of_order_packets += 1;
                self.ambiguous_until = self.snd_nxt;
            }
            Passage::Retransmission => {
                counters.retransmitted_packets += 1;
                counters.retransmitted_bytes += len.min(self.snd_nxt.saturating_sub(start));
                self.ambiguous_until = self.snd_nxt.max(end);
            }
        }
        self.snd_nxt = self.snd_nxt.max(end + u64::from(fin));
        if len > 0 {
            self.in_flight_samples.push(self.ranges.snd_nxt().saturating_sub(self.snd_una.unwrap_or(ORIGIN)));
        }
    }

    /// The other end acknowledges everything before an offset; whether it has done so before, while more was in flight.
    fn acknowledge(&mut self, ack: u64, now: u64) -> bool {
        match self.snd_una {
            Some(una) if ack < una => return false,
            Some(una) if ack == una => return self.snd_nxt > ack,
            _ => self.snd_una = Some(ack),
        }
        let mut newest = None;
        while let Some((end, sent)) = self.in_flight.front().copied()
            && end <= ack
        {
            newest = Some((end, sent));
            self.in_flight.pop_front();
        }
        if let Some((end, sent)) = newest
            && end > self.ambiguous_until
        {
            self.rtt_samples.push(now - sent);
        }
        false
    }

    fn finish(mut self) -> Counters {
        let mut counters = self.counters;
        let ms = |nanos: u64| nanos as f64 / 1e6;
        counters.rtt_ms = median(&mut self.rtt_samples).map(|median| RttSamples {
            min: self.rtt_samples.iter().min().copied().map_or(0.0, ms),
            median: ms(median),
            max: self.rtt_samples.iter().max().copied().map_or(0.0, ms),
            samples: self.rtt_samples.len(),
        });
        counters.max_in_flight = self.in_flight_samples.iter().max().copied().unwrap_or(0);
        counters.median_in_flight = median(&mut self.in_flight_samples).unwrap_or(0);
        let seconds = (self.last - self.first.unwrap_or(self.last)) as f64 / 1e9;
        counters.throughput_bits =
            (seconds > 0.0 && counters.unique_bytes > 0).then(|| counters.unique_bytes as f64 * 8.0 / seconds);
        counters
    }
}

/// The lower median; none of nothing.
fn median(values: &mut [u64]) -> Option<u64> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}
