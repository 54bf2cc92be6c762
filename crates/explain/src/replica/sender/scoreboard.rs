//! The scoreboard (RFC 6675): what has been sent and is not acknowledged; which segments are in flight, SACKed or lost.
//!
//! It also takes delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation), for BBR.

use std::{collections::VecDeque, ops::Range};

use crate::replica::{clock::Nanos, congestion::RateSample, receiver::Ack};

/// A packet as the path sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) start: u64,
    pub(super) end: u64,
    /// 1 for the original, 2 for its first retransmission.
    pub(super) transmission: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SegmentState {
    InFlight,
    /// Acknowledged selectively (RFC 2018).
    Sacked,
    /// Lost, and not retransmitted yet.
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct SentSegment {
    packet: Packet,
    state: SegmentState,
    sent_time: Nanos,
    /// Its number among all transmissions.
    transmission_number: u64,
    /// The state of the rate sampler when it was sent.
    delivered: u64,
    delivered_time: Nanos,
    first_sent_time: Nanos,
    is_app_limited: bool,
}

/// What an acknowledgement changed; the same fields as in `AckEvent`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckOutcome {
    pub(super) acked: u32,
    pub(super) delivered: u32,
    pub(super) rtt: Option<Nanos>,
    pub(super) rate_sample: Option<RateSample>,
}

/// The segment sent last of those that were delivered (RFC 8985: `RACK.segment`).
#[derive(Debug, Clone, Copy, Default)]
struct Newest {
    transmission_number: u64,
    rtt: Nanos,
}

#[derive(Debug)]
pub(super) struct Scoreboard {
    /// In the order of their bytes, without gaps.
    sent: VecDeque<SentSegment>,
    in_flight: u32,
    lost: u32,
    /// No packet before this offset is lost.
    lost_from: u64,
    sacked: u32,
    /// A part in which all packets are SACKed, so that the blocks of later acknowledgements need not be read again.
    sacked_part: Range<u64>,
    sent_count: u64,
    /// The transmissions in their order: the number and the first byte of each. Those that are over are removed once
    /// they come first.
    transmissions: VecDeque<(u64, u64)>,
    newest_delivered: Newest,
    delivered: u64,
    delivered_time: Nanos,
    first_sent_time: Nanos,
    /// Until this many packets are delivered, samples are application-limited; 0 if they are not.
    app_limited: u64,
}

impl Scoreboard {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            sent: VecDeque::new(),
            in_flight: 0,
            lost: 0,
            lost_from: 0,
            sacked: 0,
            sacked_part: 0..0,
            sent_count: 0,
            transmissions: VecDeque::new(),
            newest_delivered: Newest::default(),
            delivered: 0,
            delivered_time: now,
            first_sent_time: now,
            app_limited: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The first unacknowledged byte; `snd_nxt` if all are acknowledged.
    pub(super) fn snd_una(&self, snd_nxt: u64) -> u64 {
        self.sent.front().map_or(snd_nxt, |sent| sent.packet.start)
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// The number of SACKed packets.
    pub(super) fn sacked(&self) -> u32 {
        self.sacked
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The sender has nothing to send: until the packets in flight are delivered, rate samples measure the program.
    pub(super) fn mark_app_limited(&mut self, in_flight: u32) {
        self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
    }

    fn stamp(&mut self, start: u64, now: Nanos) {
        if self.in_flight == 0 {
            (self.first_sent_time, self.delivered_time) = (now, now);
        }
        self.sent_count += 1;
        self.in_flight += 1;
        self.transmissions.push_back((self.sent_count, start));
    }

    pub(super) fn send(&mut self, start: u64, end: u64, now: Nanos) -> Packet {
        self.stamp(start, now);
        let packet = Packet { start, end, transmission: 1 };
        let sent = self.stamped(packet, now);
        self.sent.push_back(sent);
        packet
    }

    fn stamped(&self, packet: Packet, now: Nanos) -> SentSegment {
        SentSegment {
            packet,
            state: SegmentState::InFlight,
            sent_time: now,
            transmission_number: self.sent_count,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent_time: self.first_sent_time,
            is_app_limited: self.app_limited > 0,
        }
    }

    fn resend(&mut self, index: usize, now: Nanos) -> Packet {
        self.stamp(self.sent[index].packet.start, now);
        let packet = Packet { transmission: self.sent[index].packet.transmission + 1, ..self.sent[index].packet };
        self.sent[index] = self.stamped(packet, now);
        packet
    }

    fn index_from(&self, offset: u64) -> usize {
        if self.sent.front().is_none_or(|first| first.packet.start >= offset) {
            return 0;
        }
        self.sent.partition_point(|sent| sent.packet.start < offset)
    }

    /// Retransmits the first lost packet; there must be one.
    pub(super) fn retransmit(&mut self, now: Nanos) -> Packet {
        let from = self.index_from(self.lost_from);
        let index = (from..self.sent.len()).find(|&index| self.sent[index].state == SegmentState::Lost).unwrap_or(0);
        self.lost -= 1;
        let packet = self.resend(index, now);
        self.lost_from = packet.end;
        packet
    }

    /// Retransmits the last packet as a tail loss probe; there must be one.
    pub(super) fn retransmit_last(&mut self, now: Nanos) -> Packet {
        let last = self.sent.len() - 1;
        match self.sent[last].state {
            SegmentState::InFlight => self.in_flight -= 1,
            SegmentState::Lost => self.lost -= 1,
            SegmentState::Sacked => {
                self.sacked -= 1;
                self.sacked_part = 0..0;
            }
        }
        self.resend(last, now)
    }

    pub(super) fn acknowledge(&mut self, ack: &Ack, sack: bool, now: Nanos) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let mut latest: Option<SentSegment> = None;
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.packet.end <= ack.number) {
            outcome.acked += 1;
            self.mark_delivered(sent, &mut outcome, &mut latest);
        }
        if let Some((start, end)) = ack.sack.filter(|_| sack) {
            let known = std::mem::replace(&mut self.sacked_part, start..end);
            let known = if start <= known.start && known.end <= end { known } else { start..start };
            self.mark_sacked(start..known.start, &mut outcome, &mut latest);
            self.mark_sacked(known.end..end, &mut outcome, &mut latest);
        }
        while self
            .transmissions
            .front()
            .is_some_and(|first| first.1 < ack.number || self.segment_in_flight(*first).is_none())
        {
            self.transmissions.pop_front();
        }
        self.delivered += u64::from(outcome.delivered);
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if let Some(sent) = latest {
            self.delivered_time = now;
            self.first_sent_time = sent.sent_time;
            let rtt = now - sent.sent_time;
            outcome.rtt = Some(rtt);
            if sent.transmission_number > self.newest_delivered.transmission_number {
                self.newest_delivered = Newest { transmission_number: sent.transmission_number, rtt };
            }
            let interval = (sent.sent_time - sent.first_sent_time).max(now - sent.delivered_time);
            outcome.rate_sample = (interval > 0).then(|| RateSample {
                delivered: self.delivered - sent.delivered,
                interval,
                prior_delivered: sent.delivered,
                is_app_limited: sent.is_app_limited,
            });
        }
        outcome
    }

    fn mark_sacked(&mut self, part: Range<u64>, outcome: &mut AckOutcome, latest: &mut Option<SentSegment>) {
        if part.is_empty() {
            return;
        }
        for index in self.index_from(part.start)..self.sent.len() {
            let sent = self.sent[index];
            if sent.packet.end > part.end {
                break;
            }
            if sent.state != SegmentState::Sacked {
                self.mark_delivered(sent, outcome, latest);
                self.sent[index].state = SegmentState::Sacked;
                self.sacked += 1;
            }
        }
    }

    /// Counts a packet as delivered.
    fn mark_delivered(&mut self, sent: SentSegment, outcome: &mut AckOutcome, latest: &mut Option<SentSegment>) {
        match sent.state {
            SegmentState::InFlight => self.in_flight -= 1,
            SegmentState::Lost => self.lost -= 1,
            SegmentState::Sacked => {
                self.sacked -= 1;
                return;
            }
        }
        outcome.delivered += 1;
        if latest.is_none_or(|other| other.transmission_number < sent.transmission_number) {
            *latest = Some(sent);
        }
    }

    fn mark_lost(&mut self, index: usize) {
        self.sent[index].state = SegmentState::Lost;
        self.in_flight -= 1;
        self.lost += 1;
        self.lost_from = self.lost_from.min(self.sent[index].packet.start);
    }

    /// Marks the first packet as lost, if it is in flight; returns how many were marked.
    pub(super) fn mark_first_lost(&mut self) -> u32 {
        let is_in_flight = self.sent.front().is_some_and(|sent| sent.state == SegmentState::InFlight);
        if is_in_flight {
            self.mark_lost(0);
        }
        is_in_flight.into()
    }

    pub(super) fn mark_all_lost(&mut self) {
        for index in 0..self.sent.len() {
            if self.sent[index].state == SegmentState::InFlight {
                self.mark_lost(index);
            }
        }
    }

    /// The index of the segment of a transmission, if that is in flight: neither delivered nor taken for lost.
    fn segment_in_flight(&self, (number, start): (u64, u64)) -> Option<usize> {
        let index = self.index_from(start);
        let sent = self.sent.get(index)?;
        (sent.transmission_number == number && sent.state == SegmentState::InFlight).then_some(index)
    }

    /// The packet in flight that was sent first, if another that was sent later has been delivered.
    fn first_overtaken(&mut self) -> Option<usize> {
        if self.sacked == 0 && self.lost == 0 {
            return None;
        }
        while let Some(first) = self.transmissions.front().copied()
            && first.0 < self.newest_delivered.transmission_number
        {
            if let Some(index) = self.segment_in_flight(first) {
                return Some(index);
            }
            self.transmissions.pop_front();
        }
        None
    }

    /// Marks packets as lost that were sent before one that was delivered, a round trip and the reordering window ago
    /// (RFC 8985 §6.2); returns how many.
    pub(super) fn mark_overtaken_lost(&mut self, now: Nanos, reo_wnd: Nanos) -> u32 {
        let rtt = self.newest_delivered.rtt;
        let mut lost = 0;
        // In the order of their transmission: if one is not late, the others are not either.
        while let Some(index) = self.first_overtaken()
            && (reo_wnd == 0 || self.sent[index].sent_time + rtt + reo_wnd <= now)
        {
            self.mark_lost(index);
            lost += 1;
        }
        lost
    }

    /// When the first overtaken packet will be marked as lost.
    pub(super) fn reordering_timeout(&mut self, reo_wnd: Nanos) -> Option<Nanos> {
        let rtt = self.newest_delivered.rtt;
        self.first_overtaken().map(|index| self.sent[index].sent_time + rtt + reo_wnd)
    }
}
