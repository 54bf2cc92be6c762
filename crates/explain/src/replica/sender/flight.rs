//! What has been sent and is not acknowledged: which packets are under way, which have arrived, which are lost.

use std::collections::VecDeque;

use crate::replica::{clock::Nanos, congestion::RateSample, receiver::Ack};

/// What the path is given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) start: u64,
    pub(super) end: u64,
    /// 1 for an original.
    pub(super) times: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    UnderWay,
    /// Acknowledged selectively.
    Arrived,
    /// Lost, and not sent again yet.
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    packet: Packet,
    place: Place,
    at: Nanos,
    /// The how-manieth of all packets sent.
    order: u64,
    /// For the rate: what had been delivered when it was sent, when, and when the first packet of that flight went.
    delivered: u64,
    delivered_at: Nanos,
    first_at: Nanos,
    app_limited: bool,
}

/// What an acknowledgement changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct News {
    pub(super) acknowledged: u32,
    pub(super) delivered: u32,
    pub(super) rtt: Option<Nanos>,
    pub(super) sample: Option<RateSample>,
}

#[derive(Debug)]
pub(super) struct Flight {
    /// In the order of their bytes, without gaps.
    sent: VecDeque<Sent>,
    under_way: u32,
    lost: u32,
    /// No packet before this offset is lost.
    lost_from: u64,
    arrived: u32,
    orders: u64,
    /// The latest sent of those that arrived: its order, when it was sent, and its round-trip time.
    newest: (u64, Nanos, Nanos),
    delivered: u64,
    delivered_at: Nanos,
    first_at: Nanos,
    /// Until so many are delivered, the sender had too little to send.
    app_limited: u64,
}

impl Flight {
    pub(super) fn new(now: Nanos) -> Self {
        Self {
            sent: VecDeque::new(),
            under_way: 0,
            lost: 0,
            lost_from: 0,
            arrived: 0,
            orders: 0,
            newest: (0, 0, 0),
            delivered: 0,
            delivered_at: now,
            first_at: now,
            app_limited: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// The first byte not acknowledged; `next` if all are.
    pub(super) fn start(&self, next: u64) -> u64 {
        self.sent.front().map_or(next, |sent| sent.packet.start)
    }

    pub(super) fn under_way(&self) -> u32 {
        self.under_way
    }

    pub(super) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    pub(super) fn has_gaps(&self) -> bool {
        self.arrived > 0
    }

    /// Packets that arrived behind a gap.
    pub(super) fn gaps_seen(&self) -> u32 {
        self.arrived
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// The program leaves the path idle: the rates measured meanwhile are the program's.
    pub(super) fn nothing_to_send(&mut self, under_way: u32) {
        self.app_limited = (self.delivered + u64::from(under_way)).max(1);
    }

    fn stamp(&mut self, now: Nanos) {
        if self.under_way == 0 {
            (self.first_at, self.delivered_at) = (now, now);
        }
        self.orders += 1;
        self.under_way += 1;
    }

    pub(super) fn send(&mut self, start: u64, end: u64, now: Nanos) -> Packet {
        self.stamp(now);
        let packet = Packet { start, end, times: 1 };
        let sent = self.stamped(packet, now);
        self.sent.push_back(sent);
        packet
    }

    fn stamped(&self, packet: Packet, now: Nanos) -> Sent {
        Sent {
            packet,
            place: Place::UnderWay,
            at: now,
            order: self.orders,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_at: self.first_at,
            app_limited: self.app_limited > 0,
        }
    }

    fn again(&mut self, index: usize, now: Nanos) -> Packet {
        self.stamp(now);
        let packet = Packet { times: self.sent[index].packet.times + 1, ..self.sent[index].packet };
        self.sent[index] = self.stamped(packet, now);
        packet
    }

    fn from(&self, offset: u64) -> usize {
        self.sent.partition_point(|sent| sent.packet.start < offset)
    }

    /// Sends the first lost packet again; there must be one.
    pub(super) fn retransmit(&mut self, now: Nanos) -> Packet {
        let from = self.from(self.lost_from);
        let index = (from..self.sent.len()).find(|&index| self.sent[index].place == Place::Lost).unwrap_or(0);
        self.lost -= 1;
        let packet = self.again(index, now);
        self.lost_from = packet.end;
        packet
    }

    /// Sends the last packet again, as a probe; there must be one.
    pub(super) fn repeat_last(&mut self, now: Nanos) -> Packet {
        let last = self.sent.len() - 1;
        match self.sent[last].place {
            Place::UnderWay => self.under_way -= 1,
            Place::Lost => self.lost -= 1,
            Place::Arrived => self.arrived -= 1,
        }
        self.again(last, now)
    }

    pub(super) fn acknowledge(&mut self, ack: &Ack, sack: bool, now: Nanos) -> News {
        let mut news = News::default();
        let mut latest: Option<Sent> = None;
        while let Some(sent) = self.sent.pop_front_if(|sent| sent.packet.end <= ack.upto) {
            news.acknowledged += 1;
            self.leave(sent, &mut news, &mut latest);
        }
        if let Some((start, end)) = ack.sack.filter(|_| sack) {
            for index in self.from(start)..self.sent.len() {
                let sent = self.sent[index];
                if sent.packet.end > end {
                    break;
                }
                if sent.place != Place::Arrived {
                    self.leave(sent, &mut news, &mut latest);
                    self.sent[index].place = Place::Arrived;
                    self.arrived += 1;
                }
            }
        }
        self.delivered += u64::from(news.delivered);
        if self.app_limited > 0 && self.delivered > self.app_limited {
            self.app_limited = 0;
        }
        if let Some(sent) = latest {
            self.delivered_at = now;
            self.first_at = sent.at;
            news.rtt = Some(now - sent.at);
            if sent.order > self.newest.0 {
                self.newest = (sent.order, sent.at, now - sent.at);
            }
            let interval = (sent.at - sent.first_at).max(now - sent.delivered_at);
            news.sample = (interval > 0).then(|| RateSample {
                delivered: self.delivered - sent.delivered,
                interval,
                prior: sent.delivered,
                app_limited: sent.app_limited,
            });
        }
        news
    }

    /// A packet is known to have arrived.
    fn leave(&mut self, sent: Sent, news: &mut News, latest: &mut Option<Sent>) {
        match sent.place {
            Place::UnderWay => self.under_way -= 1,
            Place::Lost => self.lost -= 1,
            Place::Arrived => {
                self.arrived -= 1;
                return;
            }
        }
        news.delivered += 1;
        if latest.is_none_or(|other| other.order < sent.order) {
            *latest = Some(sent);
        }
    }

    fn lose(&mut self, index: usize) {
        self.sent[index].place = Place::Lost;
        self.under_way -= 1;
        self.lost += 1;
        self.lost_from = self.lost_from.min(self.sent[index].packet.start);
    }

    /// The first packet is lost, if it is under way.
    pub(super) fn lose_first(&mut self) -> u32 {
        let lose = self.sent.front().is_some_and(|sent| sent.place == Place::UnderWay);
        if lose {
            self.lose(0);
        }
        lose.into()
    }

    pub(super) fn lose_all(&mut self) {
        for index in 0..self.sent.len() {
            if self.sent[index].place == Place::UnderWay {
                self.lose(index);
            }
        }
    }

    fn overtaken(&self) -> impl Iterator<Item = usize> {
        let arrived = if self.arrived > 0 || self.lost > 0 { self.sent.len() } else { 0 };
        let newest = self.newest.0;
        (0..arrived).filter(move |&index| {
            let sent = &self.sent[index];
            sent.place == Place::UnderWay && sent.order < newest
        })
    }

    /// Packets are lost that were sent before one that has arrived, and that have had a round trip and this much
    /// more time (RFC 8985 §6.2).
    pub(super) fn lose_overtaken(&mut self, now: Nanos, patience: Nanos) -> u32 {
        let (_, _, rtt) = self.newest;
        let late = |index: &usize| patience == 0 || self.sent[*index].at + rtt + patience <= now;
        let lost: Vec<usize> = self.overtaken().filter(late).collect();
        for index in &lost {
            self.lose(*index);
        }
        lost.len() as u32
    }

    /// When the first packet that was overtaken has had that time.
    pub(super) fn overtaken_at(&self, patience: Nanos) -> Option<Nanos> {
        let (_, _, rtt) = self.newest;
        self.overtaken().map(|index| self.sent[index].at + rtt + patience).min()
    }
}
