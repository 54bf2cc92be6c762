//! A link whose rate follows a trace file, in the format of Mahimahi (Netravali et al., ATC 2015).
//!
//! Each line of the file is a delivery opportunity: a whole millisecond at which the link may deliver 1504 bytes. A
//! millisecond may occur several times. After the last line the file repeats, with its time zero at the last line. An
//! opportunity is wasted if the queue is empty. Several small packets share an opportunity, and a packet that does not
//! fit into the rest of one continues in the next, as in Mahimahi's `link_queue.cc`.
//!
//! Mahimahi counts 1504 bytes for a packet of 1500, because its TUN device puts four bytes in front of each packet. Ours
//! does not, so each packet counts four bytes more: a trace carries the same packets here and there.
//!
//! The trace starts with the first packet that arrives at the link. If both directions have a trace, both start with the
//! first packet of either direction.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{queue::Queue, start_time::Start};
use crate::{
    packet::Packet,
    stage::{Out, Stage, same_type},
};
use units::Rate;

/// Bytes per delivery opportunity.
const OPPORTUNITY: usize = 1504;
/// Bytes that each packet counts in addition to its own.
const TUN_HEADER: usize = 4;

/// The delivery opportunities of a trace.
#[derive(Debug, PartialEq, Eq)]
pub struct Schedule {
    /// In milliseconds; not empty, in order, the last not zero.
    opportunities: Vec<u64>,
}

/// A text that is not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that is not a number.
    #[error("line {line} is `{text}`; each line must be a whole number of milliseconds")]
    NotANumber {
        /// The line, from 1.
        line: usize,
        /// What it says, shortened.
        text: String,
    },
    /// A time before the one above it.
    #[error("line {line} is earlier than the previous line; times must not decrease")]
    Backwards {
        /// The line, from 1.
        line: usize,
    },
    /// A trace of length zero.
    #[error("the last time is missing or zero; a trace must end after 0 ms")]
    Empty,
}

impl Schedule {
    /// Reads the lines of a trace file; empty lines are skipped.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut opportunities = Vec::new();
        for (line, text) in text.lines().enumerate() {
            let (line, text) = (line + 1, text.trim());
            if text.is_empty() {
                continue;
            }
            // 32 bits of milliseconds are seven weeks, and avoid overflows.
            let ms: u32 =
                text.parse().map_err(|_| TraceError::NotANumber { line, text: text.chars().take(40).collect() })?;
            if opportunities.last().is_some_and(|last| *last > u64::from(ms)) {
                return Err(TraceError::Backwards { line });
            }
            opportunities.push(u64::from(ms));
        }
        if opportunities.last().is_none_or(|last| *last == 0) {
            return Err(TraceError::Empty);
        }
        Ok(Self { opportunities })
    }

    /// The mean rate of the trace.
    pub fn rate(&self) -> Rate {
        let bits = self.opportunities.len() as u128 * OPPORTUNITY as u128 * 8 * 1000 / u128::from(self.period());
        Rate::bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    fn period(&self) -> u64 {
        self.opportunities[self.opportunities.len() - 1]
    }
}

/// A place in the trace: a cycle and a line of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    cycle: u64,
    line: usize,
}

/// See the module documentation.
#[derive(Debug)]
pub struct TraceLink {
    schedule: Arc<Schedule>,
    start: Start,
    queue: Queue,
    /// The packet that is partly sent, and how many of its bytes are not.
    sending: Option<(Packet, usize)>,
    /// The next opportunity. Out of date while nothing waits.
    next: Place,
}

impl TraceLink {
    /// A link with this trace behind this queue. The links of both directions are given clones of
    /// one `start`.
    pub fn new(schedule: Arc<Schedule>, queue: Queue, start: Start) -> Self {
        Self { schedule, start, queue, sending: None, next: Place::default() }
    }

    fn is_idle(&self) -> bool {
        self.sending.is_none() && self.queue.is_empty()
    }

    fn time_of(&self, place: Place, start: Instant) -> Instant {
        let ms = place.cycle.saturating_mul(self.schedule.period()) + self.schedule.opportunities[place.line];
        start + Duration::from_millis(ms)
    }

    /// The first opportunity after `now`.
    fn after(&self, now: Instant, start: Instant) -> Place {
        let past = now.saturating_duration_since(start).as_millis() as u64;
        let (cycle, ms) = (past / self.schedule.period(), past % self.schedule.period());
        let line = self.schedule.opportunities.partition_point(|opportunity| *opportunity <= ms);
        // `ms` is less than the last opportunity, so there is one after it in this cycle.
        Place { cycle, line }
    }
}

impl Stage for TraceLink {
    fn push(&mut self, packet: Packet, now: Instant, _out: &mut Out) {
        let start = self.start.at(now);
        if self.is_idle() {
            self.next = self.next.max(self.after(now, start)); // an opportunity is used once, even by a late packet
        }
        self.queue.put(packet, now);
    }

    fn wake(&self) -> Option<Instant> {
        if self.is_idle() { None } else { Some(self.time_of(self.next, self.start.get()?)) }
    }

    fn poll(&mut self, now: Instant, out: &mut Out) {
        let mut room = OPPORTUNITY;
        while room > 0 {
            let next = self.sending.take().or_else(|| {
                let packet = self.queue.take(now)?;
                let size = packet.len() + TUN_HEADER;
                Some((packet, size))
            });
            let Some((packet, left)) = next else { break };
            if left <= room {
                room -= left;
                out.forward(packet);
            } else {
                self.sending = Some((packet, left - room));
                room = 0;
            }
        }
        self.next.line += 1;
        if self.next.line == self.schedule.opportunities.len() {
            self.next = Place { cycle: self.next.cycle + 1, line: 0 };
        }
    }

    fn replace(&mut self, old: Box<dyn Stage>, now: Instant) {
        let Some(old) = same_type::<Self>(old) else { return };
        self.queue.take_over(old.queue);
        self.sending = old.sending;
        if self.schedule == old.schedule {
            (self.start, self.next) = (old.start, old.next);
        } else {
            let start = self.start.at(now);
            self.next = self.after(now, start);
        }
    }

    fn drain(&mut self) -> Vec<Packet> {
        let sending = self.sending.take().map(|(packet, _)| packet);
        sending.into_iter().chain(self.queue.drain()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chain::{Chain, Output},
        stages::Discipline,
    };

    /// The milliseconds and sizes of what a trace delivers of the packets sent at given ms.
    fn deliver(trace: &str, packets: &[(u64, usize)]) -> Vec<(u64, usize)> {
        let schedule = Arc::new(Schedule::parse(trace).unwrap());
        let start = Instant::now();
        let link = TraceLink::new(schedule, Queue::new(Discipline::Infinite), Start::default());
        let mut chain = Chain::new(vec![Box::new(link)]);
        let mut output = Output::default();
        for (ms, size) in packets {
            chain.push(0, Packet::new(vec![0; *size]), start + Duration::from_millis(*ms), &mut output);
        }
        chain.run(start + Duration::from_secs(1000), &mut output);
        assert_eq!(chain.wake(), None);
        let delivered = output.delivered.iter();
        delivered.map(|(at, packet)| ((*at - start).as_millis() as u64, packet.len())).collect()
    }

    #[test]
    fn each_line_sends_one_full_packet_and_the_file_repeats() {
        let sent = [(0, 1500); 7];
        let at: Vec<_> = deliver("2\n5\n5\n10\n", &sent).iter().map(|(ms, _)| *ms).collect();
        assert_eq!(at, [2, 5, 5, 10, 12, 15, 15]);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_span_several() {
        assert_eq!(deliver("3\n", &[(0, 748), (0, 748), (0, 10)]), [(3, 748), (3, 748), (6, 10)]);
        // 1004 + 1004 bytes: the second needs an opportunity more, which it shares with the third.
        assert_eq!(deliver("3\n", &[(0, 1000), (0, 1000), (0, 996)]), [(3, 1000), (6, 1000), (6, 996)]);
        assert_eq!(deliver("3\n", &[(0, 4500)]), [(9, 4500)]);
    }

    #[test]
    fn opportunities_are_wasted_while_the_queue_is_empty() {
        assert_eq!(deliver("1\n2\n3\n", &[(0, 1500), (2, 1500), (3000, 1500)]), [(1, 1500), (3, 1500), (3001, 1500)]);
        assert_eq!(deliver("0\n7\n", &[(0, 100), (7, 100), (8, 100)]), [(7, 100), (14, 100), (14, 100)]);
    }

    #[test]
    fn mean_rate_is_computed_and_malformed_traces_are_errors() {
        assert_eq!(Schedule::parse("1\n").unwrap().rate(), Rate::bits_per_second(12_032_000));
        let error = |text| Schedule::parse(text).unwrap_err().to_string();
        assert!(error("1\nx\n").starts_with("line 2 is `x`"));
        assert!(error("1\n-1\n").starts_with("line 2"));
        assert!(error("3\n\n2\n").starts_with("line 3 is earlier"));
        assert_eq!(Schedule::parse(""), Err(TraceError::Empty));
        assert_eq!(Schedule::parse("0\n0\n"), Err(TraceError::Empty));
    }
}
