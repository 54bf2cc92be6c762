//! The order in which an end sent its packets, by the IP identification and the timestamps of its packets.
//!
//! At the receiver's end, a packet that was lost on the way leaves a gap in the data only if later data arrives before its
//! retransmission. The last packet of a request leaves none: its retransmission looks like a packet that was sent late. But
//! Linux counts the IP identification of each TCP socket by one for each packet (`inet_id`; RFC 6864 wants no more than that
//! it is unique for fragments). Others count for all connections to a host or of the machine (Windows), or do not count
//! (macOS, FreeBSD), so their gaps say nothing. The SYN says which system it is, and the connection itself whether the
//! numbers are still those of its end: a translator may write others. Without a SYN, it takes many packets without any long
//! step. A gap may also be a lost acknowledgement, so as many packets as the end may have acknowledged are taken off. Nor is a
//! lost window update a lost request: an end sends one of its own accord if its window has doubled (Linux: `tcp_cleanup_rbuf`),
//! which the next packet's window shows; and the timer of a request that was lost takes a round trip and the least timeout.
//!
//! What fills a gap in the data is a retransmission, or it was overtaken. Its timestamp tells (RFC 7323 §3.2: the time at
//! which it was sent; a retransmission gets a new one), or its identification: an original is older than what overtook it.

use std::collections::VecDeque;

use capture::tcp::{Flags, Segment};

use crate::system::System;

/// The maximum number of gaps in the data that are remembered.
const MAX_GAPS: usize = 16;

/// A step of the identification that is longer is no gap: the counter is not this connection's own.
const MAX_STEP: u16 = 64;

/// The share of steps of one, in per cent, if some are strange; and the number of them if the system is not known.
const MIN_SHARE: u32 = 80;
const MIN_COUNTED: u32 = 30;

/// The most packets that are missing before one of an end of unknown system: more were those of other connections.
const MAX_LOST: u16 = 3;

/// The payload of a full segment where no SYN says it.
const DEFAULT_MSS: u16 = 1460;

/// What the order says about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Order {
    /// How many packets of the same end, sent just before it, were not captured; without those that may have been
    /// acknowledgements. Only if the end counts.
    pub(crate) missing: u16,
    /// For data that fills a gap: whether it was sent after the data behind the gap, if that is known.
    pub(crate) is_resent: Option<bool>,
}

/// What an end has sent so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct SendOrder {
    /// The latest identification; none behind a packet that a network card joined from an unknown number.
    latest: Option<u16>,
    /// The steps between the identifications of successive packets, and those of one.
    steps: u32,
    counted: u32,
    /// Steps that no lost packets explain, and those of more than [`MAX_LOST`].
    strange: u32,
    long: u32,
    /// Packets of the other end that this one may have acknowledged since its last packet.
    owed: u16,
    /// The window of its latest packet.
    window: u16,
    /// The sequence number after its latest data.
    end: Option<u32>,
    gaps: VecDeque<Gap>,
}

/// Data that was not captured when later data was.
#[derive(Debug, Clone, Copy)]
struct Gap {
    start: u32,
    end: u32,
    /// Of the packet behind it.
    identification: Option<u16>,
    timestamp: Option<u32>,
}

impl SendOrder {
    /// The other end sent a packet.
    ///
    /// `latest` is the sequence number after everything that it had sent before: an empty packet with an older one, a
    /// keep-alive or a window probe, is acknowledged as well (RFC 9293 §3.8.4, §3.8.6.1).
    pub(crate) fn hear(&mut self, segment: &Segment, latest: Option<u32>) {
        let is_probe = latest.is_some_and(|latest| (segment.sequence.wrapping_sub(latest) as i32) < 0);
        if segment.data > 0 || segment.flags.has(Flags::SYN) || segment.flags.has(Flags::FIN) || is_probe {
            let packets = 1 + segment.data / u32::from(DEFAULT_MSS);
            self.owed = self.owed.saturating_add(u16::try_from(packets).unwrap_or(u16::MAX));
        }
    }

    /// This end, of this system, sent a packet; `mss` is what both SYNs allow, `heard` the sequence number after
    /// everything that the other end has sent.
    pub(crate) fn send(
        &mut self,
        segment: &Segment,
        system: Option<System>,
        mss: Option<u16>,
        heard: Option<u32>,
    ) -> Order {
        let is_stateless =
            segment.flags.has(Flags::RST) || segment.flags.has(Flags::SYN) && segment.flags.has(Flags::ACK);
        let may_have_updated = self.latest.is_some() && segment.window / 2 >= self.window && !is_stateless;
        self.window = segment.window;
        if may_have_updated {
            self.owed = self.owed.saturating_add(1);
        }
        // Sent by no socket yet, or by none any more.
        let missing = if is_stateless { 0 } else { self.count(segment, mss.unwrap_or(DEFAULT_MSS)) };
        if segment.flags.has(Flags::ACK) && heard.is_none_or(|heard| heard == segment.acknowledgement) {
            self.owed = 0;
        }
        Order { missing, is_resent: self.fill(segment, system) }
    }

    /// Whether it, an end with this system, numbers its packets one by one.
    pub(crate) fn counts(&self, system: Option<System>) -> bool {
        let mostly = self.counted * 100 >= self.steps * MIN_SHARE;
        match system {
            // A translator may have written its own numbers.
            Some(System::Linux) => self.strange == 0 && self.counted * 2 >= self.steps || mostly,
            Some(_) => false,
            None => mostly && self.counted >= MIN_COUNTED && self.strange + self.long == 0,
        }
    }

    /// The window field of its latest packet.
    pub(crate) fn window(&self) -> u16 {
        self.window
    }

    /// The sequence number after its latest data.
    pub(crate) fn end(&self) -> Option<u32> {
        self.end
    }

    fn count(&mut self, segment: &Segment, mss: u16) -> u16 {
        let Some(identification) = segment.identification else { return 0 };
        // Paths carry less than jumbo frames, whatever the SYNs say.
        let is_joined = segment.data > mss.min(DEFAULT_MSS).into();
        let latest = self.latest;
        let step = latest.map(|latest| identification.wrapping_sub(latest));
        if step.is_some_and(|step| step as i16 <= 0) {
            // Overtaken, or always the same.
            self.steps += 1;
            self.strange += 1;
            return 0;
        }
        self.latest = (!is_joined).then_some(identification);
        let Some(step) = step else { return 0 };
        self.steps += 1;
        self.counted += u32::from(step == 1);
        self.strange += u32::from(step > MAX_STEP);
        self.long += u32::from(step > MAX_LOST + 1);
        if step > MAX_STEP { 0 } else { (step - 1).saturating_sub(self.owed) }
    }

    /// Data was captured: whether it fills a gap, and was sent after the data behind it.
    fn fill(&mut self, segment: &Segment, system: Option<System>) -> Option<bool> {
        let start = segment.sequence.wrapping_add(u32::from(segment.flags.has(Flags::SYN)));
        let next = start.wrapping_add(segment.data);
        let is_before = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
        let end = *self.end.get_or_insert(start);
        // A FIN is acknowledged as well.
        let after = next.wrapping_add(u32::from(segment.flags.has(Flags::FIN)));
        if is_before(end, after) {
            self.end = Some(after);
        }
        // Nearly all data is in order.
        if segment.data == 0 || start == end {
            return None;
        }
        let timestamp = segment.timestamps().map(|(value, _)| value);
        if is_before(end, start) {
            if self.gaps.len() == MAX_GAPS {
                self.gaps.pop_front();
            }
            self.gaps.push_back(Gap { start: end, end: start, identification: segment.identification, timestamp });
            return None;
        }
        let gap = self.gaps.iter().rev().find(|gap| !is_before(start, gap.start) && !is_before(gap.end, next))?;
        let by_timestamp = timestamp.zip(gap.timestamp).map(|(own, behind)| own.wrapping_sub(behind) as i32);
        let by_identification = segment
            .identification
            .zip(gap.identification)
            .map(|(own, behind)| i32::from(own.wrapping_sub(behind) as i16));
        let later = [by_timestamp, by_identification.filter(|_| self.counts(system))];
        later.into_iter().flatten().find(|later| *later != 0).map(|later| later > 0)
    }
}
