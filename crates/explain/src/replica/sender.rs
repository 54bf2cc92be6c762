//! The sending TCP: which packet is sent when.

mod on_ack;
mod rto;
mod scoreboard;
mod timer;

use std::collections::VecDeque;

use units::Size;

use super::{
    Bottleneck, Fate, Model, Nagle, Sender as Settings,
    clock::{Nanos, nanos},
    congestion::{self, CongestionControl, Cwnd, Pacing},
};
use on_ack::LossRecovery;
use rto::RttEstimator;
use scoreboard::{Packet, Scoreboard};
use timer::Timer;

/// The number of packets at the start of a connection that are not paced, as in Linux.
const UNPACED: u64 = 10;

/// The number of packets that are sent at once below a pacing limit (Linux: `tcp_min_tso_segs`).
const MIN_QUANTUM: u32 = 2;

/// A packet on the path, and when it arrives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Nanos,
    pub(super) start: u64,
    pub(super) end: u64,
    /// The PSH flag: the last packet of a burst, or of the data written so far.
    pub(super) push: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) packets: u64,
    pub(super) retransmissions: u64,
    pub(super) dropped: u64,
    pub(super) timeouts: u64,
    pub(super) probes: u64,
}

/// Whether the congestion window limited the sender during the current window (Linux: `tcp_cwnd_validate`).
#[derive(Debug, Clone, Copy, Default)]
struct CwndUsage {
    is_cwnd_limited: bool,
    max_in_flight: u32,
    /// The window ends when this offset is acknowledged.
    end_seq: u64,
}

#[derive(Debug, Default)]
struct PacingState {
    /// When the next burst may be sent.
    next_send_time: Nanos,
    /// How many packets of the current burst may still be sent.
    quantum_left: u32,
}

/// The sending TCP's transmission control block; hence its many fields.
#[derive(Debug)]
pub(super) struct Sender {
    settings: Settings,
    control: Box<dyn CongestionControl>,
    window: Cwnd,
    /// The largest window in packets (Linux: `snd_cwnd_clamp`).
    clamp: u32,
    cwnd_usage: CwndUsage,
    scoreboard: Scoreboard,
    rtt: RttEstimator,
    recovery: LossRecovery,
    /// The end of the data that the program has written.
    written: u64,
    snd_nxt: u64,
    /// The right edge of the receive window, and the largest window so far.
    right_edge: u64,
    max_window: u64,
    /// The end of the last packet below the MSS (Linux: `snd_sml`).
    snd_sml: u64,
    timer: Option<Timer>,
    /// How often the RTO has been doubled.
    backoff: u32,
    pacing: PacingState,
    /// The limit of the pacing rate in payload bytes per second (Linux: `sk_max_pacing_rate`).
    max_pacing_rate: f64,
    last_sent: Nanos,
    /// The end of the last packet sent.
    last_end: u64,
    pub(super) counters: Counters,
}

impl Sender {
    pub(super) fn new(model: &Model, start: Nanos, right_edge: u64) -> Self {
        let (sender, rtt) = (&model.sender, nanos(model.path.rtt));
        let packets = |bytes: Size| u32::try_from(bytes.0.div_ceil(sender.mss.0)).unwrap_or(u32::MAX);
        Self {
            settings: Settings { tail_loss_probe: sender.tail_loss_probe && sender.sack, ..sender.clone() },
            control: congestion::of(model, start, rtt),
            window: Cwnd {
                cwnd: sender.initial_window,
                ssthresh: sender.slow_start_threshold.map_or(u32::MAX, |ssthresh| packets(ssthresh).max(2)),
            },
            clamp: sender.largest_window.map_or(u32::MAX, |window| packets(window).max(1)),
            cwnd_usage: CwndUsage::default(),
            scoreboard: Scoreboard::new(start),
            rtt: RttEstimator::new(rtt, nanos(sender.min_rto)),
            recovery: LossRecovery::default(),
            written: 0,
            snd_nxt: 0,
            right_edge,
            max_window: right_edge,
            snd_sml: 0,
            timer: None,
            backoff: 0,
            pacing: PacingState::default(),
            max_pacing_rate: sender.pacing.map_or(f64::INFINITY, |rate| {
                let payload = sender.mss.0 as f64 / (sender.mss.0 + model.path.headers.0) as f64;
                rate.as_bits_per_second() as f64 / 8.0 * payload
            }),
            last_sent: start,
            last_end: 0,
            counters: Counters::default(),
        }
    }

    /// The first unacknowledged byte.
    pub(super) fn snd_una(&self) -> u64 {
        self.scoreboard.snd_una(self.snd_nxt)
    }

    /// The next byte to send.
    pub(super) fn snd_nxt(&self) -> u64 {
        self.snd_nxt
    }

    pub(super) fn srtt(&self) -> Nanos {
        self.rtt.srtt()
    }

    /// The program has written all bytes before this offset.
    pub(super) fn write(&mut self, written: u64) {
        self.written = written;
    }

    /// When it acts without an acknowledgement or a write.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let timer = self.timer.map(Timer::at);
        let paced = self.pacing.next_send_time;
        let paced = (paced > self.last_sent && self.has_packet_to_send()).then_some(paced);
        [timer, paced].into_iter().flatten().min()
    }

    fn has_packet_to_send(&self) -> bool {
        self.in_flight() < self.max_in_flight() && (self.scoreboard.has_lost() || self.next_packet_end().is_some())
    }

    fn max_in_flight(&self) -> u32 {
        self.window.cwnd.min(self.clamp)
    }

    /// Packets in flight. Without SACK, each duplicate acknowledgement means that one has arrived.
    fn in_flight(&self) -> u32 {
        self.scoreboard.in_flight().saturating_sub(if self.settings.sack { 0 } else { self.recovery.dup_acks })
    }

    /// The end of the next new packet, if the program, the receive window and Nagle's algorithm allow one.
    fn next_packet_end(&self) -> Option<u64> {
        // No packet is larger than half of the largest window (RFC 9293 §3.8.6.2.1), or the last bytes of each window
        // would wait for a timer.
        let mss = if self.max_window > 536 {
            self.settings.mss.0.min(self.max_window / 2)
        } else {
            self.settings.mss.0.min(self.max_window.max(1))
        };
        let end = self.written.min(self.snd_nxt + mss);
        if end == self.snd_nxt || end > self.right_edge {
            return None;
        }
        let is_small = end - self.snd_nxt < mss;
        let is_held = match self.settings.nagle {
            Nagle::Off => false,
            _ if !is_small => false,
            Nagle::Any => !self.scoreboard.is_empty(),
            Nagle::Small => self.snd_sml > self.snd_una(),
        };
        (!is_held).then_some(end)
    }

    /// Sends everything that may be sent now. The rest waits for an acknowledgement, the program or the pacing.
    pub(super) fn send(&mut self, bottleneck: &mut Bottleneck, now: Nanos, out: &mut VecDeque<Arrival>) {
        let (mut is_blocked, packets_before) = (false, self.counters.packets);
        loop {
            if self.in_flight() >= self.max_in_flight() {
                is_blocked = true;
                break;
            }
            let has_lost = self.scoreboard.has_lost();
            let end = self.next_packet_end();
            if !has_lost && end.is_none() {
                break;
            }
            if !self.take_from_quantum(now) {
                is_blocked = true;
                break;
            }
            if has_lost {
                let packet = self.scoreboard.retransmit(now);
                self.counters.retransmissions += 1;
                self.transmit(packet, bottleneck, now, out);
            } else if let Some(end) = end {
                self.send_new(end, bottleneck, now, out);
            }
        }
        // Linux sets PSH on the last packet that it hands to the network card at once; on a single one only if no more
        // data is written.
        if self.counters.packets > packets_before + 1
            && let Some(last) = out.back_mut().filter(|last| last.end == self.last_end)
        {
            last.push = true;
        }
        self.update_cwnd_usage(is_blocked);
        if self.written == self.snd_nxt && !is_blocked {
            self.scoreboard.mark_app_limited(self.in_flight());
        }
        if self.scoreboard.is_empty() && self.written > self.snd_nxt && self.timer.is_none() {
            self.timer = Some(Timer::Persist(now.saturating_add(self.backed_off_rto())));
        }
    }

    fn send_new(&mut self, end: u64, bottleneck: &mut Bottleneck, now: Nanos, out: &mut VecDeque<Arrival>) {
        let is_first = self.scoreboard.is_empty();
        if is_first && self.counters.packets > 0 {
            self.restart_after_idle(now);
        }
        let start = std::mem::replace(&mut self.snd_nxt, end);
        if end - start < self.settings.mss.0 {
            self.snd_sml = end;
        }
        let packet = self.scoreboard.send(start, end, now);
        self.transmit(packet, bottleneck, now, out);
        if is_first || matches!(self.timer, None | Some(Timer::Probe(_) | Timer::Persist(_))) {
            self.arm_timer(now);
        }
    }

    /// Hands a packet to the path.
    fn transmit(&mut self, packet: Packet, bottleneck: &mut Bottleneck, now: Nanos, out: &mut VecDeque<Arrival>) {
        (self.last_sent, self.last_end) = (now, packet.end);
        self.counters.packets += 1;
        self.recovery.prr.prr_out += 1;
        match bottleneck.send(packet.start, packet.end - packet.start, packet.transmission, now) {
            Fate::Arrives(at) => {
                let (Packet { start, end, .. }, push) = (packet, packet.end == self.written);
                out.push_back(Arrival { at, start, end, push });
            }
            Fate::Lost => {}
            Fate::Dropped => self.counters.dropped += 1,
        }
    }

    /// How packets are paced: by the congestion control, or a limit below its rate.
    fn pacing(&self) -> Option<Pacing> {
        let control = self.control.pacing();
        if control.is_some_and(|pacing| pacing.rate <= self.max_pacing_rate) || self.max_pacing_rate.is_infinite() {
            return control;
        }
        Some(Pacing { rate: self.max_pacing_rate, send_quantum: MIN_QUANTUM })
    }

    /// Whether pacing allows a packet now; if so, takes it from the current burst.
    fn take_from_quantum(&mut self, now: Nanos) -> bool {
        let Some(pacing) = self.pacing().filter(|_| self.counters.packets >= UNPACED) else { return true };
        if self.pacing.quantum_left == 0 {
            if now < self.pacing.next_send_time {
                return false;
            }
            self.pacing.quantum_left = pacing.send_quantum;
            let bytes = f64::from(pacing.send_quantum) * self.settings.mss.0 as f64;
            self.pacing.next_send_time = now.saturating_add((bytes / pacing.rate * 1e9) as Nanos);
        }
        self.pacing.quantum_left -= 1;
        true
    }

    /// Linux grows a window only while it is the limit (compare RFC 7661); in slow start, while more than half of it is
    /// used.
    fn update_cwnd_usage(&mut self, is_blocked: bool) {
        let in_flight = self.in_flight();
        if self.snd_una() >= self.cwnd_usage.end_seq || in_flight > self.cwnd_usage.max_in_flight {
            self.cwnd_usage =
                CwndUsage { is_cwnd_limited: is_blocked, max_in_flight: in_flight, end_seq: self.snd_nxt };
        } else if is_blocked && in_flight >= self.window.cwnd {
            self.cwnd_usage.is_cwnd_limited = true;
        }
    }

    /// After a pause, the window says little about the path (RFC 5681 §4.1).
    fn restart_after_idle(&mut self, now: Nanos) {
        let idle = now - self.last_sent;
        self.control.on_restart(idle, now);
        self.pacing.quantum_left = 0;
        if !self.settings.restart_after_idle || self.control.controls_recovery() {
            return;
        }
        let (restart_window, mut left) = (self.settings.initial_window.min(self.window.cwnd), idle);
        let rto = self.rtt.rto();
        if idle >= rto && self.window.ssthresh != u32::MAX {
            // Lets the window return most of the way (Linux: `tcp_current_ssthresh`).
            self.window.ssthresh = self.window.ssthresh.max(self.window.cwnd / 4 * 3);
        }
        while left >= rto && self.window.cwnd > restart_window {
            left -= rto;
            self.window.cwnd = (self.window.cwnd / 2).max(restart_window);
        }
    }
}
