//! Infers the replica's model of a captured transfer.
//!
//! The model describes the message with most bytes. What happens before its first byte, the handshakes and the request,
//! becomes one-way trips and think time; what follows an upload is the response. The model begins when the client began
//! and ends when the last byte arrived, so that times are shifted from the capture point to the ends.

use std::time::Duration;

use units::{Rate, Size};

use crate::{
    causes::{Cause, CauseTimes},
    collect::CapturedConnection,
    critical_path::message_history::{DirectionStats, ObservedMessage},
    infer::{ack_policy::AckPolicy, sender_properties::SenderProperties, vantage::VantagePoint},
    replica::{AckRule, Before, Loss, Model, Nagle, Pause, RecordedTransfer, Since, Stall, Until, WhatIf},
    side::{PerSide, Side},
};

/// What was inferred of a transfer.
pub(crate) struct ModelInput<'a> {
    pub(crate) connection: &'a CapturedConnection,
    pub(crate) vantage: &'a VantagePoint,
    pub(crate) properties: &'a PerSide<SenderProperties>,
    pub(crate) stats: &'a PerSide<DirectionStats>,
    pub(crate) messages: &'a PerSide<ObservedMessage>,
    pub(crate) times: &'a CauseTimes,
    /// How the main message is acknowledged.
    pub(crate) ack_policy: Option<AckPolicy>,
    /// The sender of the main message, the one with most bytes.
    pub(crate) sender: Side,
    /// When the transfer began, as seen from the capture point.
    pub(crate) start: u64,
    /// The time before the main message's first byte, by cause.
    pub(crate) lead: CauseTimes,
}

impl ModelInput<'_> {
    /// The model of the transfer, and the time that it must reproduce.
    pub(crate) fn recorded(&self) -> Option<RecordedTransfer> {
        let (vantage, sender) = (self.vantage, self.sender);
        let (properties, message) = (&self.properties[sender], &self.messages[sender]);
        let one_way = |side: Side| vantage.rtt_to[side] / 2;
        let began = self.start.saturating_sub(one_way(Side::Client));
        let first_sent = message.flow_began()?.saturating_sub(one_way(sender));
        let delivered = match message.acked {
            Some(acked) if acked > message.last => acked.saturating_sub(one_way(!sender)),
            _ => message.last + one_way(!sender),
        };
        let response = self.messages.server.first.filter(|_| sender == Side::Client);
        let (until, ended) = match response {
            // The response's first byte reached the client.
            Some(first) => {
                let think_time = first.saturating_sub(one_way(Side::Server)).saturating_sub(delivered);
                (Until::Answered(Duration::from_nanos(think_time)), first + one_way(Side::Client))
            }
            None => (Until::Delivered, delivered),
        };
        let mut model = Model::new(Size(message.flow_bytes()), Duration::from_nanos(vantage.rtt()));
        model.before = self.before(first_sent.saturating_sub(began));
        model.until = until;
        model.path.rate = properties.rate.map(|rate| Rate::bits_per_second(rate as u64));
        self.set_share(&mut model);
        model.path.headers = Size(properties.headers);
        let losses = message.history.losses.iter();
        model.path.losses = losses.map(|(from, to, times)| Loss { bytes: *from..*to, times: *times }).collect();
        self.set_writes(&mut model);
        self.set_sender(&mut model);
        self.set_receiver(&mut model);
        let observed = Duration::from_nanos(ended.saturating_sub(began));
        Some(RecordedTransfer::new(model, observed, self.lead))
    }

    /// The transfer's part of a link that others share: its own bytes took the time of `path_rate`, theirs that of
    /// `shared_link`.
    fn set_share(&self, model: &mut Model) {
        let (own, others) = (self.times[Cause::PathRate] as f64, self.times[Cause::SharedLink] as f64);
        if let Some(rate) =
            self.properties[self.sender].rate.filter(|_| own > 0.0 && self.share(Cause::SharedLink) > 0.05)
        {
            model.path.unshared_rate = model.path.rate;
            model.path.rate = Some(Rate::bits_per_second((rate * own / (own + others)) as u64));
        }
    }

    fn share(&self, cause: Cause) -> f64 {
        self.times[cause] as f64 / self.times.sum().max(1) as f64
    }

    /// Handshakes and the request as one-way trips, the rest as time; the wait for `100 Continue` apart.
    fn before(&self, lead: u64) -> Before {
        let one_way = (self.vantage.rtt() / 2).max(1);
        let tls_trips = self.lead[Cause::Tls] / (2 * one_way) * 2;
        let travel = self.lead[Cause::Connect] + self.lead[Cause::Propagation] + tls_trips * one_way;
        // Rounded: a request of which only the arrival was captured took a trip as well.
        let trips = ((travel + one_way / 2) / one_way).min(lead / one_way);
        let held = self.lead[Cause::ExpectContinue];
        let got_continue = self.messages.client.held.is_some_and(|held| held.got_continue);
        let held_trips = if got_continue { 2.min(held / one_way) } else { 0 };
        // A measurement error of the RTT is no time besides the trips.
        let time = lead.saturating_sub(trips * one_way + held);
        Before {
            trips: u32::try_from(trips).unwrap_or(u32::MAX),
            time: Duration::from_nanos(time),
            held_trips: held_trips as u32,
            held_time: Duration::from_nanos(held - held_trips * one_way),
        }
    }

    fn set_writes(&self, model: &mut Model) {
        let (properties, message) = (&self.properties[self.sender], &self.messages[self.sender]);
        model.writes.pauses = message
            .history
            .pauses
            .iter()
            .map(|(at, time)| Pause { at: *at, time: Duration::from_nanos(*time), since: Since::Sent })
            .collect();
        if let Some(chunk) = properties.chunk {
            model.writes.chunk = Some(Size(chunk));
            model.writes.pauses.clear();
            model.writes.in_flight = Some(1);
            model.sender.nagle = Nagle::Off;
        } else if message.history.nagle_holds > 0
            && message.history.minshall_holds == message.history.nagle_holds
            && model.path.unshared_rate.is_none()
        {
            model.sender.nagle = Nagle::Small;
            let ends = message.history.write_ends.iter().filter(|end| **end < message.flow_bytes());
            model.writes.pauses.extend(ends.map(|at| Pause { at: *at, time: Duration::ZERO, since: Since::Sent }));
        } else if message.history.nagle_holds > 0 && self.share(Cause::Nagle) > 0.05 {
            // As many writes as it takes to be held this often.
            let writes = message.history.nagle_holds + 1;
            model.writes.chunk = Some(Size(message.flow_bytes().div_ceil(writes).max(1)));
            model.sender.nagle = Nagle::Any;
        } else if let Some(flight) = properties.steady_flight.filter(|_| self.share(Cause::SendBuffer) > 0.05) {
            model.writes.send_buffer = Some(Size(flight));
        }
    }

    fn set_sender(&self, model: &mut Model) {
        let (properties, stats, message) =
            (&self.properties[self.sender], &self.stats[self.sender], &self.messages[self.sender]);
        let history = &message.history;
        model.sender.mss = Size(properties.mss);
        model.sender.sack = self.connection.syn[self.sender].is_none_or(|syn| syn.sack);
        model.sender.pacing = properties.pacing.as_ref().map(|pacing| Rate::bits_per_second(pacing.rate as u64));
        // Lost bytes were part of the first flight, although they were captured later.
        let lost: u64 = history.losses.iter().map(|(from, to, _)| to - from).sum();
        let not_lost = message.flow_bytes().saturating_sub(lost);
        let min_cwnd = match history.initial_cwnd {
            Some(cwnd) => cwnd.max(10 * properties.mss),
            // Nagle's algorithm may have ended the first flight before the window did.
            None if history.first_flight < not_lost && history.nagle_holds == 0 => properties.mss,
            None => 10 * properties.mss,
        };
        let cwnd = history.first_flight.max(min_cwnd);
        model.sender.initial_window = u32::try_from(cwnd.div_ceil(properties.mss)).unwrap_or(u32::MAX);
        // A sender that waited for an acknowledgement beyond two RTTs sends no tail loss probes (RFC 8985 §7.2).
        let longest = stats.acks.iter().map(|ack| ack.held).max().unwrap_or(0);
        model.sender.tail_loss_probe = longest <= 2 * self.vantage.rtt() || stats.retransmissions > 0;
    }

    fn set_receiver(&self, model: &mut Model) {
        let (stats, message) = (&self.stats[self.sender], &self.messages[self.sender]);
        let mut held: Vec<u64> = stats.acks.iter().map(|ack| ack.held).filter(|held| *held > 0).collect();
        held.sort_unstable();
        if let Some(timer) = held.get(held.len() / 2) {
            model.receiver.acks.timer = Duration::from_nanos(*timer);
            model.receiver.acks.quick = 0;
            model.receiver.acks.pushed_at_once = false;
            if self.properties[self.sender].chunk.is_some() {
                model.receiver.acks.rule = AckRule::Segments(2);
            }
        }
        if let Some(policy) = self.ack_policy {
            model.receiver.acks.rule = policy.rule;
            // Only the first packets of a connection are acknowledged individually.
            if self.properties[self.sender].from_start && message.history.initial_cwnd.is_none() {
                model.receiver.acks.quick = policy.quick;
            }
        }
        // Without window scaling, a window that was the same all the time cannot grow. If the scale is unknown, this is the
        // least that is possible, and nothing is predicted to be faster than it allows.
        let is_fixed = stats.first_window == stats.max_window && stats.max_window < 65_536;
        let is_limiting = self.share(Cause::ReceiveWindow) + self.share(Cause::ReceiverStalled) > 0.05;
        // No receiver offers less than a segment for long; what seems to is a window whose scale was not captured, or none
        // that was captured at all.
        if stats.max_window > 0 && (is_fixed || is_limiting) {
            let mss = self.properties[self.sender].mss;
            model.receiver.window = Some(Size(stats.first_window.max(mss)));
            model.receiver.largest_window = Some(Size(stats.max_window.max(mss)));
        }
        if self.share(Cause::HttpFlowControl) > 0.05 {
            // An HTTP/2 window limits the sender as a receive window does.
            let window = Some(Size(stats.max_in_flight));
            (model.receiver.window, model.receiver.largest_window) = (window, window);
        }
        let stall = |(at, time): &(u64, u64)| Stall {
            at: at.saturating_sub(stats.max_window),
            time: Duration::from_nanos(*time),
        };
        model.receiver.stalls = message.history.stalls.iter().map(stall).collect();
    }
}

/// The what-if change that removes a cause, if the replica has one. `is_held_by_nagle`: Nagle's algorithm held a part of the
/// transfer's data.
pub(crate) fn remedy(cause: Cause, is_held_by_nagle: bool) -> Option<WhatIf> {
    let text = match cause {
        // The sender need not wait for the acknowledgement at all.
        Cause::DelayedAck if is_held_by_nagle => "nodelay",
        Cause::DelayedAck => "deferred-ack=1ms",
        Cause::Nagle => "nodelay",
        Cause::ExpectContinue => "no-expect",
        Cause::ServerThink => "no-server-think",
        Cause::ClientThink => "no-client-think",
        Cause::SenderIdle => "no-idle",
        Cause::ReceiverStalled => "no-stalls",
        Cause::Queueing => "no-queue",
        Cause::Pacing => "no-pacing",
        Cause::SharedLink => "alone",
        Cause::SendBuffer => "send-buffer=16MiB",
        Cause::ReceiveWindow => "receive-window=16MiB",
        Cause::HttpFlowControl => "http2-window=16MiB",
        Cause::SlowStart => "initial-window=40",
        Cause::ConnectRetry | Cause::FastRecovery | Cause::RetransmissionTimeout | Cause::CongestionWindow => "no-loss",
        _ => return None,
    };
    text.parse().ok()
}
