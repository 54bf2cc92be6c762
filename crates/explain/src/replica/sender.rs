//! The sending TCP: which packet goes when.

mod estimator;
mod flight;

use std::collections::VecDeque;

use super::{
    Fate, Model, Nagle, Way,
    clock::{MILLISECOND, Nanos, nanos},
    congestion::{self, Control, Feedback, Window},
    receiver::Ack,
};
use estimator::Estimator;
use flight::{Flight, Packet};

/// What Linux adds to the time of a probe: two of its ticks, of which there are 250 a second.
const TICKS: Nanos = 8 * MILLISECOND;

/// Linux does not pace a connection's first packets.
const UNPACED: u64 = 10;

/// What a path has taken, and when it arrives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Nanos,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The last packet of a burst, or of what was written so far.
    pub(super) push: bool,
}

/// What has been counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) retransmissions: u64,
    pub(super) dropped: u64,
    pub(super) timeouts: u64,
    pub(super) probes: u64,
}

/// Whether losses are being repaired, and up to which byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// By what is acknowledged (RFC 6675).
    Recovery(u64),
    /// After a timeout.
    Loss(u64),
}

/// RFC 6937: how far the window has come down in this recovery.
#[derive(Debug, Clone, Copy, Default)]
struct Reduction {
    prior: u32,
    delivered: u32,
    sent: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// A packet that was overtaken is taken for lost (RFC 8985 §6.2).
    Overtaken(Nanos),
    /// The end of the flight is probed (RFC 8985 §7).
    Probe(Nanos),
    /// RFC 6298.
    Retransmission(Nanos),
    /// The window has no room for a packet and nothing is under way (RFC 9293 §3.8.6.1).
    Persist(Nanos),
}

impl Timer {
    fn at(self) -> Nanos {
        match self {
            Self::Overtaken(at) | Self::Probe(at) | Self::Retransmission(at) | Self::Persist(at) => at,
        }
    }
}

#[derive(Debug)]
pub(super) struct Sender {
    mss: u64,
    initial_window: u32,
    clamp: u32,
    nagle: Nagle,
    sack: bool,
    tail_loss_probe: bool,
    restart_after_idle: bool,
    control: Box<dyn Control>,
    window: Window,
    flight: Flight,
    estimator: Estimator,
    state: State,
    reduction: Reduction,
    /// What the program has given, what has been sent, and up to where the receiver's window reaches.
    written: u64,
    next: u64,
    edge: u64,
    widest: u64,
    /// The end of the last packet below the MSS.
    small_end: u64,
    /// The window kept the sender from sending since it was last full.
    limited: bool,
    most_under_way: u32,
    limit_ends: u64,
    duplicates: u32,
    /// A probe that is not answered yet: what had been sent then, and whether it repeated bytes.
    probe: Option<(u64, bool)>,
    timer: Option<Timer>,
    backoff: u32,
    /// When pacing lets the next burst go, and how much is left of this one.
    paced: Nanos,
    burst: u32,
    last_sent: Nanos,
    last_end: u64,
    pub(super) counts: Counts,
}

impl Sender {
    pub(super) fn new(model: &Model, start: Nanos, edge: u64) -> Self {
        let (sender, rtt) = (&model.sender, nanos(model.path.rtt));
        let packets = |bytes: super::Bytes| u32::try_from(bytes.0.div_ceil(sender.mss.0)).unwrap_or(u32::MAX);
        Self {
            mss: sender.mss.0,
            initial_window: sender.initial_window,
            clamp: sender.largest_window.map_or(u32::MAX, |window| packets(window).max(1)),
            nagle: sender.nagle,
            sack: sender.sack,
            tail_loss_probe: sender.tail_loss_probe && sender.sack,
            restart_after_idle: sender.restart_after_idle,
            control: congestion::of(model, start, rtt),
            window: Window {
                size: sender.initial_window,
                threshold: sender.slow_start_threshold.map_or(u32::MAX, |threshold| packets(threshold).max(2)),
            },
            flight: Flight::new(start),
            estimator: Estimator::new(rtt, nanos(sender.min_rto)),
            state: State::Open,
            reduction: Reduction::default(),
            written: 0,
            next: 0,
            edge,
            widest: edge,
            small_end: 0,
            limited: false,
            most_under_way: 0,
            limit_ends: 0,
            duplicates: 0,
            probe: None,
            timer: None,
            backoff: 0,
            paced: 0,
            burst: 0,
            last_sent: start,
            last_end: 0,
            counts: Counts::default(),
        }
    }

    /// Everything before this offset is acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.flight.start(self.next)
    }

    /// Everything before this offset has been sent.
    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    /// How long round trips take, smoothed.
    pub(super) fn smooth_rtt(&self) -> Nanos {
        self.estimator.smooth()
    }

    /// The program has given it all bytes before this offset.
    pub(super) fn give(&mut self, written: u64) {
        self.written = written;
    }

    /// When it does something by itself.
    pub(super) fn wake(&self) -> Option<Nanos> {
        let timer = self.timer.map(Timer::at);
        let paced = (self.paced > self.last_sent && self.wants_to_send()).then_some(self.paced);
        [timer, paced].into_iter().flatten().min()
    }

    fn wants_to_send(&self) -> bool {
        self.under_way() < self.may_be_under_way() && (self.flight.has_lost() || self.next_packet().is_some())
    }

    fn may_be_under_way(&self) -> u32 {
        self.window.size.min(self.clamp)
    }

    /// Packets under way; without SACK each duplicate tells of one that has left.
    fn under_way(&self) -> u32 {
        self.flight.under_way().saturating_sub(if self.sack { 0 } else { self.duplicates })
    }

    /// The end of the next new packet, if there is one that may go as far as the program, the receiver and Nagle
    /// are concerned.
    fn next_packet(&self) -> Option<u64> {
        // No packet above half of the largest window, or the last bytes of every window would wait for a timer.
        let mss = if self.widest > 536 { self.mss.min(self.widest / 2) } else { self.mss.min(self.widest.max(1)) };
        let end = self.written.min(self.next + mss);
        if end == self.next || end > self.edge {
            return None;
        }
        let small = end - self.next < mss;
        let waits = match self.nagle {
            Nagle::Off => false,
            _ if !small => false,
            Nagle::Any => !self.flight.is_empty(),
            Nagle::Small => self.small_end > self.acknowledged(),
        };
        (!waits).then_some(end)
    }

    /// Sends what may be sent; the rest waits for an acknowledgement, the program or the pacing.
    pub(super) fn transmit(&mut self, way: &mut Way, now: Nanos, out: &mut VecDeque<Arrival>) {
        let (mut blocked, before) = (false, self.counts.packets);
        loop {
            if self.under_way() >= self.may_be_under_way() {
                blocked = true;
                break;
            }
            let lost = self.flight.has_lost();
            let end = self.next_packet();
            if !lost && end.is_none() {
                break;
            }
            if !self.may_go(now) {
                blocked = true;
                break;
            }
            if lost {
                let packet = self.flight.retransmit(now);
                self.counts.retransmissions += 1;
                self.put(packet, way, now, out);
            } else if let Some(end) = end {
                self.send_new(end, way, now, out);
            }
        }
        // Linux marks what it hands its network card at once; a single packet only if it is the last.
        if self.counts.packets > before + 1
            && let Some(last) = out.back_mut().filter(|last| last.end == self.last_end)
        {
            last.push = true;
        }
        self.note_limit(blocked);
        if self.written == self.next && !blocked {
            self.flight.nothing_to_send(self.under_way());
        }
        if self.flight.is_empty() && self.written > self.next && self.timer.is_none() {
            self.timer = Some(Timer::Persist(now.saturating_add(self.timeout())));
        }
    }

    fn send_new(&mut self, end: u64, way: &mut Way, now: Nanos, out: &mut VecDeque<Arrival>) {
        let first = self.flight.is_empty();
        if first && self.counts.packets > 0 {
            self.restart(now);
        }
        let start = std::mem::replace(&mut self.next, end);
        if end - start < self.mss {
            self.small_end = end;
        }
        let packet = self.flight.send(start, end, now);
        self.put(packet, way, now, out);
        if first || matches!(self.timer, None | Some(Timer::Probe(_) | Timer::Persist(_))) {
            self.arm(now);
        }
    }

    /// Hands a packet to the path.
    fn put(&mut self, packet: Packet, way: &mut Way, now: Nanos, out: &mut VecDeque<Arrival>) {
        (self.last_sent, self.last_end) = (now, packet.end);
        self.counts.packets += 1;
        self.reduction.sent += 1;
        match way.send(packet.start, packet.end - packet.start, packet.times, now) {
            Fate::Arrives(at) => {
                let (Packet { start, end, .. }, push) = (packet, packet.end == self.written);
                out.push_back(Arrival { at, start, end, push });
            }
            Fate::Lost => {}
            Fate::Dropped => self.counts.dropped += 1,
        }
    }

    /// Whether pacing lets a packet go; if so, it is counted.
    fn may_go(&mut self, now: Nanos) -> bool {
        let Some(pacing) = self.control.pacing().filter(|_| self.counts.packets >= UNPACED) else { return true };
        if self.burst == 0 {
            if now < self.paced {
                return false;
            }
            self.burst = pacing.burst;
            let bytes = f64::from(pacing.burst) * self.mss as f64;
            self.paced = now.saturating_add((bytes / pacing.rate * 1e9) as Nanos);
        }
        self.burst -= 1;
        true
    }

    /// Linux grows a window only while it is what limits (RFC 7661): in slow start, while more than half of it is
    /// used.
    fn note_limit(&mut self, blocked: bool) {
        let under_way = self.under_way();
        if self.acknowledged() >= self.limit_ends || under_way > self.most_under_way {
            self.most_under_way = under_way;
            self.limit_ends = self.next;
            self.limited = blocked;
        } else if blocked && under_way >= self.window.size {
            self.limited = true;
        }
    }

    fn is_limited(&self) -> bool {
        self.limited || (self.window.in_slow_start() && self.window.size < 2 * self.most_under_way)
    }

    /// After a pause the window says little about the path (RFC 5681 §4.1).
    fn restart(&mut self, now: Nanos) {
        let idle = now - self.last_sent;
        self.control.resumes(idle, now);
        self.burst = 0;
        if !self.restart_after_idle || self.control.repairs() {
            return;
        }
        let (least, mut left) = (self.initial_window.min(self.window.size), idle);
        if idle >= self.estimator.timeout() {
            self.window.threshold = self.threshold_kept();
        }
        while left >= self.estimator.timeout() && self.window.size > least {
            left -= self.estimator.timeout();
            self.window.size = (self.window.size / 2).max(least);
        }
    }

    /// A threshold that lets the window come back most of the way.
    fn threshold_kept(&self) -> u32 {
        if self.window.threshold == u32::MAX { u32::MAX } else { self.window.threshold.max(self.window.size / 4 * 3) }
    }

    /// An acknowledgement comes.
    pub(super) fn hear(&mut self, ack: &Ack, now: Nanos) {
        let before = self.under_way();
        let una = self.acknowledged();
        self.widest = self.widest.max(ack.edge.saturating_sub(ack.upto));
        self.edge = self.edge.max(ack.edge);
        let news = self.flight.acknowledge(ack, self.sack, now);
        if let Some(rtt) = news.rtt {
            self.estimator.sample(rtt);
        }
        let advanced = ack.upto > una;
        if advanced {
            (self.duplicates, self.backoff) = (0, 0);
        } else if ack.sack.is_some() {
            self.duplicates += 1;
        }
        self.end_probe(ack, advanced);
        let lost = self.find_lost(advanced, now);
        self.change_state(ack.upto, lost);
        let repairing = matches!(self.state, State::Recovery(_));
        let feedback = Feedback {
            now,
            acknowledged: news.acknowledged,
            delivered: news.delivered,
            lost,
            rtt: news.rtt,
            least_rtt: self.estimator.least(),
            limited: self.is_limited(),
            before,
            in_flight: self.under_way(),
            una: ack.upto,
            next: self.next,
            repairing: repairing || matches!(self.state, State::Loss(_)),
            sample: news.sample,
            total: self.flight.delivered(),
        };
        if self.control.repairs() || !repairing {
            self.control.acknowledged(&feedback, &mut self.window);
        } else {
            self.reduce(news.delivered, advanced && lost == 0);
        }
        self.window.size = self.window.size.min(self.clamp);
        if self.flight.is_empty() {
            self.timer = None;
        } else if advanced || lost > 0 || news.delivered > 0 {
            self.arm(now);
        }
        if !self.flight.is_empty() && self.state == State::Open && self.sack && self.flight.has_gaps() {
            self.await_overtaken(now);
        }
    }

    /// RFC 8985 §7.4: the probe was answered; if it repaired something, that was a loss.
    fn end_probe(&mut self, ack: &Ack, advanced: bool) {
        let Some((sent, repeats)) = self.probe else { return };
        if ack.duplicate {
            self.probe = None;
        } else if advanced && ack.upto >= sent {
            self.probe = None;
            if repeats && self.state == State::Open && !self.control.repairs() {
                self.window.threshold = self.control.lost(&self.window);
                self.window.size = self.window.threshold;
            }
        }
    }

    /// Marks packets as lost that later ones have overtaken; says how many.
    fn find_lost(&mut self, advanced: bool, now: Nanos) -> u32 {
        let repairing = self.state != State::Open;
        if !self.sack {
            let third = self.duplicates == 3 && !repairing;
            let partial = advanced && matches!(self.state, State::Recovery(end) if self.acknowledged() < end);
            return if third || partial { self.flight.lose_first() } else { 0 };
        }
        let at_once = repairing || self.flight.gaps_seen() >= 3;
        let patience = if at_once { 0 } else { self.estimator.least() / 4 };
        self.flight.lose_overtaken(now, patience)
    }

    fn await_overtaken(&mut self, now: Nanos) {
        if let Some(at) = self.flight.overtaken_at(self.estimator.least() / 4) {
            self.timer = Some(Timer::Overtaken(at.max(now + 1)));
        }
    }

    fn change_state(&mut self, una: u64, lost: u32) {
        match self.state {
            State::Recovery(end) if una >= end => {
                self.state = State::Open;
                if !self.control.repairs() {
                    self.window.size = self.window.threshold;
                }
            }
            State::Loss(end) if una >= end => self.state = State::Open,
            _ => {}
        }
        if lost > 0 && self.state == State::Open {
            self.state = State::Recovery(self.next);
            self.reduction = Reduction { prior: self.window.size, delivered: 0, sent: 0 };
            self.window.threshold = self.control.lost(&self.window);
        }
    }

    /// RFC 6937, with the slow start of its reduction bound as in RFC 9937.
    fn reduce(&mut self, delivered: u32, heals: bool) {
        self.reduction.delivered += delivered;
        let (pipe, threshold) = (self.under_way(), self.window.threshold);
        let Reduction { prior, delivered: all, sent } = self.reduction;
        let send = if pipe > threshold {
            let share = u64::from(threshold) * u64::from(all) / u64::from(prior.max(1));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_add(1).saturating_sub(sent)
        } else {
            let bound = all.saturating_sub(sent).max(delivered) + u32::from(heals);
            bound.min(threshold - pipe)
        };
        self.window.size = pipe + send.max(u32::from(sent == 0));
    }

    fn timeout(&self) -> Nanos {
        self.estimator.timeout().saturating_mul(1 << self.backoff.min(16)).min(120_000 * MILLISECOND)
    }

    /// Sets the timer for what is under way: a probe of its end, if one may be sent, or the timeout.
    fn arm(&mut self, now: Nanos) {
        let timeout = now.saturating_add(self.timeout());
        let probes =
            self.tail_loss_probe && self.state == State::Open && self.probe.is_none() && !self.flight.has_gaps();
        let mut wait = self.estimator.smooth().saturating_mul(2);
        wait += if self.flight.under_way() == 1 { self.estimator.least_timeout() } else { TICKS };
        let probe = now.saturating_add(wait).min(timeout);
        self.timer = Some(if probes { Timer::Probe(probe) } else { Timer::Retransmission(timeout) });
    }

    /// The time named by [`Sender::wake`] has come.
    pub(super) fn poll(&mut self, way: &mut Way, now: Nanos, out: &mut VecDeque<Arrival>) {
        let Some(timer) = self.timer.take_if(|timer| timer.at() <= now) else { return };
        match timer {
            Timer::Overtaken(_) => {
                let lost = self.flight.lose_overtaken(now, self.estimator.least() / 4);
                self.change_state(self.acknowledged(), lost);
                if lost > 0 && !self.control.repairs() {
                    self.reduce(0, false);
                }
                self.arm(now);
            }
            Timer::Probe(_) => {
                self.counts.probes += 1;
                let new = self.next_packet();
                self.probe = Some((new.unwrap_or(self.next), new.is_none()));
                if let Some(end) = new {
                    self.send_new(end, way, now, out);
                } else {
                    let packet = self.flight.repeat_last(now);
                    self.counts.retransmissions += 1;
                    self.put(packet, way, now, out);
                }
                self.timer = Some(Timer::Retransmission(now.saturating_add(self.timeout())));
            }
            Timer::Retransmission(_) => self.time_out(now),
            Timer::Persist(_) => {
                let end = self.written.min(self.edge).min(self.next + self.mss);
                if end > self.next {
                    self.send_new(end, way, now, out);
                }
            }
        }
    }

    fn time_out(&mut self, now: Nanos) {
        self.counts.timeouts += 1;
        if !matches!(self.state, State::Loss(_)) {
            self.window.threshold = self.control.lost(&self.window);
        }
        self.control.timed_out();
        self.flight.lose_all();
        (self.state, self.window.size) = (State::Loss(self.next), 1);
        (self.duplicates, self.probe, self.burst) = (0, None, 0);
        self.backoff += 1;
        self.timer = Some(Timer::Retransmission(now.saturating_add(self.timeout())));
    }
}
