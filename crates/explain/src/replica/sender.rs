//! The sending TCP: which packet goes when.

mod estimator;
mod flight;
mod hearing;
mod timer;

use std::collections::VecDeque;

use units::Size;

use super::{
    Fate, Model, Nagle, Sender as Settings, Way,
    clock::{Nanos, nanos},
    congestion::{self, Control, Window},
};
use estimator::Estimator;
use flight::{Flight, Packet};
use hearing::{Reduction, State};
use timer::Timer;

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

/// Whether the window holds the sender, in the time of one window.
#[derive(Debug, Clone, Copy, Default)]
struct Limit {
    holds: bool,
    /// The most packets that were under way.
    most: u32,
    /// The offset whose acknowledgement ends it.
    ends: u64,
}

#[derive(Debug)]
pub(super) struct Sender {
    clamp: u32,
    settings: Settings,
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
    limit: Limit,
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
        let packets = |bytes: Size| u32::try_from(bytes.0.div_ceil(sender.mss.0)).unwrap_or(u32::MAX);
        Self {
            settings: Settings { tail_loss_probe: sender.tail_loss_probe && sender.sack, ..sender.clone() },
            clamp: sender.largest_window.map_or(u32::MAX, |window| packets(window).max(1)),
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
            limit: Limit::default(),
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
        self.flight.under_way().saturating_sub(if self.settings.sack { 0 } else { self.duplicates })
    }

    /// The end of the next new packet, if there is one that may go as far as the program, the receiver and Nagle
    /// are concerned.
    fn next_packet(&self) -> Option<u64> {
        // No packet above half of the largest window, or the last bytes of every window would wait for a timer.
        let mss = if self.widest > 536 {
            self.settings.mss.0.min(self.widest / 2)
        } else {
            self.settings.mss.0.min(self.widest.max(1))
        };
        let end = self.written.min(self.next + mss);
        if end == self.next || end > self.edge {
            return None;
        }
        let small = end - self.next < mss;
        let waits = match self.settings.nagle {
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
        if end - start < self.settings.mss.0 {
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
            let bytes = f64::from(pacing.burst) * self.settings.mss.0 as f64;
            self.paced = now.saturating_add((bytes / pacing.rate * 1e9) as Nanos);
        }
        self.burst -= 1;
        true
    }

    /// Linux grows a window only while it is what limits (compare RFC 7661): in slow start, while more than half of it
    /// is used.
    fn note_limit(&mut self, blocked: bool) {
        let under_way = self.under_way();
        if self.acknowledged() >= self.limit.ends || under_way > self.limit.most {
            self.limit = Limit { holds: blocked, most: under_way, ends: self.next };
        } else if blocked && under_way >= self.window.size {
            self.limit.holds = true;
        }
    }

    /// After a pause the window says little about the path (RFC 5681 §4.1).
    fn restart(&mut self, now: Nanos) {
        let idle = now - self.last_sent;
        self.control.resumes(idle, now);
        self.burst = 0;
        if !self.settings.restart_after_idle || self.control.repairs() {
            return;
        }
        let (least, mut left) = (self.settings.initial_window.min(self.window.size), idle);
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
}
