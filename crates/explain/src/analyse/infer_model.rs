//! What if: from a transfer that was seen to the model of it that is run again.
//!
//! The model is of the message that most bytes belong to. What happened before its first byte could be sent, the
//! handshakes and the request, are trips of half a round trip and time beside them; what came behind an upload is the
//! answer. ObservedMessage from the middle or the other end, everything is half a distance away: the model begins when the
//! client began, and ends when the last byte was where it went.

use std::time::Duration;

use units::{Rate, Size};

use crate::{
    causes::{Cause, CauseTimes},
    collect::CapturedConnection,
    critical_path::message_history::{DirectionStats, ObservedMessage},
    infer::{ack_policy::AckPolicy, facts::Facts, vantage::VantagePoint},
    replica::{AckRule, Before, Loss, Model, Nagle, Pause, RecordedTransfer, Since, Stall, Until, WhatIf},
    side::{PerSide, Side},
};

/// What is known of a transfer.
pub(crate) struct ModelInput<'a> {
    pub(crate) connection: &'a CapturedConnection,
    pub(crate) vantage: &'a VantagePoint,
    pub(crate) facts: &'a PerSide<Facts>,
    pub(crate) stats: &'a PerSide<DirectionStats>,
    pub(crate) messages: &'a PerSide<ObservedMessage>,
    pub(crate) times: &'a CauseTimes,
    /// How that is acknowledged.
    pub(crate) ack_policy: Option<AckPolicy>,
    /// Who sent most of it.
    pub(crate) sender: Side,
    /// When it began, as seen from the capture.
    pub(crate) start: u64,
    /// How its time before the first byte of the sender message was spent.
    pub(crate) lead: CauseTimes,
}

impl ModelInput<'_> {
    /// The model of the transfer.
    pub(crate) fn recorded(&self) -> Option<RecordedTransfer> {
        let (vantage, sender) = (self.vantage, self.sender);
        let (facts, message) = (&self.facts[sender], &self.messages[sender]);
        let half = |side: Side| vantage.rtt_to[side] / 2;
        // When the client began, and when the sender message's first byte left.
        let began = self.start.saturating_sub(half(Side::Client));
        let left = message.first?.saturating_sub(half(sender));
        let delivered = match message.acked {
            Some(acked) if acked > message.last => acked.saturating_sub(half(!sender)),
            _ => message.last + half(!sender),
        };
        let answer = self.messages.server.first.filter(|_| sender == Side::Client);
        let (until, ended) = match answer {
            // The answer's first byte reached the client.
            Some(first) => {
                let thought = first.saturating_sub(half(Side::Server)).saturating_sub(delivered);
                (Until::Answered(Duration::from_nanos(thought)), first + half(Side::Client))
            }
            None => (Until::Delivered, delivered),
        };
        let rtt = Duration::from_nanos(vantage.rtt());
        let mut model = Model::new(Size(message.bytes), rtt);
        model.before = self.before(left.saturating_sub(began));
        model.until = until;
        model.path.rate = facts.rate.map(|rate| Rate::bits_per_second(rate as u64));
        model.path.headers = Size(facts.headers);
        let lost = message.history.losses.iter();
        model.path.losses = lost.map(|(from, to, times)| Loss { bytes: *from..*to, times: *times }).collect();
        self.writes(&mut model);
        self.sender(&mut model);
        self.receiver(&mut model);
        let observed = Duration::from_nanos(ended.saturating_sub(began));
        let syn_retry = Duration::from_nanos(self.lead[Cause::ConnectRetry]);
        Some(RecordedTransfer { model, observed, syn_retry })
    }

    fn share(&self, cause: Cause) -> f64 {
        self.times[cause] as f64 / self.times.sum().max(1) as f64
    }

    /// Handshakes and the request in trips, the rest in time.
    fn before(&self, lead: u64) -> Before {
        let half = (self.vantage.rtt() / 2).max(1);
        let tls = self.lead[Cause::Tls] / (2 * half) * 2;
        let way = self.lead[Cause::Connect] + self.lead[Cause::Propagation] + tls * half;
        // A request that the capture saw only arrive has travelled as well.
        let trips = ((way + half / 2) / half).min(lead / half);
        // Distances are measured; what they miss by is not time beside them.
        let time = lead.saturating_sub(trips * half);
        Before { trips: u32::try_from(trips).unwrap_or(u32::MAX), time: Duration::from_nanos(time) }
    }

    fn writes(&self, model: &mut Model) {
        let (facts, history) = (&self.facts[self.sender], &self.messages[self.sender].history);
        model.writes.pauses = history
            .pauses
            .iter()
            .map(|(at, time)| Pause { at: *at, time: Duration::from_nanos(*time), since: Since::Sent })
            .collect();
        if let Some(chunk) = facts.chunk {
            model.writes.chunk = Some(Size(chunk));
            model.writes.pauses.clear();
            model.writes.in_flight = Some(1);
            model.sender.nagle = Nagle::Off;
        } else if self.share(Cause::Nagle) > 0.05 {
            // So many writes as it takes to be held so often.
            model.writes.chunk = Some(Size(self.messages[self.sender].bytes.div_ceil(history.nagle_holds + 1).max(1)));
            model.sender.nagle = Nagle::Any;
        } else if let Some(level) = facts.level.filter(|_| self.share(Cause::SendBuffer) > 0.05) {
            model.writes.send_buffer = Some(Size(level));
        }
    }

    fn sender(&self, model: &mut Model) {
        let (facts, stats, history) =
            (&self.facts[self.sender], &self.stats[self.sender], &self.messages[self.sender].history);
        model.sender.mss = Size(facts.mss);
        model.sender.sack = self.connection.syn[self.sender].is_none_or(|syn| syn.sack);
        // What was lost was sent in time, though it was not seen then.
        let lost: u64 = history.losses.iter().map(|(from, to, _)| to - from).sum();
        let whole = self.messages[self.sender].bytes.saturating_sub(lost);
        let least = match history.initial_cwnd {
            Some(warm) => warm.max(10 * facts.mss),
            None if history.first_flight < whole => facts.mss,
            None => 10 * facts.mss,
        };
        let begins_with = history.first_flight.max(least);
        // Who waited longer for an acknowledgement than a probe would have, sends none (RFC 8985 §7.2).
        let longest = stats.acks.iter().map(|acked| acked.held).max().unwrap_or(0);
        model.sender.tail_loss_probe = longest <= 2 * self.vantage.rtt() || stats.retransmissions > 0;
        model.sender.initial_window = u32::try_from(begins_with.div_ceil(facts.mss)).unwrap_or(u32::MAX);
    }

    fn receiver(&self, model: &mut Model) {
        let (stats, message) = (&self.stats[self.sender], &self.messages[self.sender]);
        let mut held: Vec<u64> = stats.acks.iter().map(|acked| acked.held).filter(|held| *held > 0).collect();
        held.sort_unstable();
        if let Some(timer) = held.get(held.len() / 2) {
            model.receiver.acks.timer = Duration::from_nanos(*timer);
            model.receiver.acks.quick = 0;
            model.receiver.acks.pushed_at_once = false;
            if self.facts[self.sender].chunk.is_some() {
                model.receiver.acks.rule = AckRule::Segments(2);
            }
        }
        if let Some(ack_policy) = self.ack_policy {
            model.receiver.acks.rule = ack_policy.rule;
            if self.facts[self.sender].from_start {
                model.receiver.acks.quick = ack_policy.quick;
            }
        }
        // A window that was full, or that cannot grow: without scaling, it was the same all the time.
        let fixed = stats.first_window == stats.max_window && stats.max_window < 65_536;
        if fixed || self.share(Cause::ReceiveWindow) + self.share(Cause::ReceiverStalled) > 0.05 {
            model.receiver.window = Some(Size(stats.first_window.max(1)));
            model.receiver.largest_window = Some(Size(stats.max_window.max(1)));
        }
        if self.share(Cause::HttpFlowControl) > 0.05 {
            // A window is a window, whoever keeps it.
            (model.receiver.window, model.receiver.largest_window) =
                (Some(Size(stats.max_in_flight)), Some(Size(stats.max_in_flight)));
        }
        let stall = |(at, time): &(u64, u64)| Stall {
            at: at.saturating_sub(stats.max_window),
            time: Duration::from_nanos(*time),
        };
        model.receiver.stalls = message.history.stalls.iter().map(stall).collect();
    }
}

/// The change to a transfer that stands for taking a cause away.
pub(crate) fn remedy(cause: Cause) -> Option<WhatIf> {
    let text = match cause {
        Cause::DelayedAck => "deferred-ack=1ms",
        Cause::Nagle => "nodelay",
        Cause::SendBuffer => "send-buffer=16MiB",
        Cause::ReceiveWindow => "receive-window=16MiB",
        Cause::SlowStart => "initial-window=40",
        Cause::ConnectRetry | Cause::FastRecovery | Cause::RetransmissionTimeout | Cause::CongestionWindow => "no-loss",
        _ => return None,
    };
    text.parse().ok()
}
