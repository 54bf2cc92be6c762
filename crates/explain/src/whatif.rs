//! What if: from a transfer that was seen to the model of it that is run again.
//!
//! The model is of the message that most bytes belong to. What happened before its first byte could be sent, the
//! handshakes and the request, are trips of half a round trip and time beside them; what came behind an upload is the
//! answer. Seen from the middle or the other end, everything is half a distance away: the model begins when the
//! client began, and ends when the last byte was where it went.

use std::time::Duration;

use units::{Rate, Size};

use crate::{
    acks::AckHabit,
    causes::{Cause, Times},
    collect::Connection,
    event::{Both, Side},
    facts::Facts,
    replica::{
        AckRule, Before, Loss, Model, Nagle, Pause, Prediction, PredictionError, Since, Stall, Until, WhatIf, replay,
    },
    report::Transfer,
    story::{Counts, Seen},
    vantage::Place,
};

/// How many chunks are paced at most.
const MOST_CHUNKS: u32 = 10_000;

/// What an end may take for a chunk beside a round trip: more is something else.
const MOST_PACE: Duration = Duration::from_millis(50);

/// A transfer's model, and the time that it must reproduce.
#[derive(Debug, Clone)]
pub(crate) struct Replica {
    model: Model,
    observed: Duration,
    /// How much of the time before the first byte was spent on a lost SYN.
    retried: Duration,
}

impl Replica {
    /// The model, with a pause before each chunk for what it took beyond what the model knows of: the ends' own time.
    fn paced(&self) -> Model {
        let mut model = self.model.clone();
        let chunk = model.writes.in_flight.and(model.writes.chunk);
        let (Some(Size(chunk)), Ok(replayed)) = (chunk, replay(&model)) else { return model };
        let bytes = model.bytes.0;
        let missing = self.observed.saturating_sub(replayed.duration);
        let waits = u32::try_from(bytes.saturating_sub(1) / chunk.max(1)).unwrap_or(u32::MAX);
        let Some(each) = missing.checked_div(waits) else { return model };
        let worth = missing * 50 > self.observed;
        if worth && waits <= MOST_CHUNKS && model.writes.pauses.is_empty() && each <= model.path.rtt + MOST_PACE {
            // The last chunk's comes only where more follows.
            let ends = (1..=bytes / chunk).map(|count| count * chunk);
            model.writes.pauses = ends.map(|at| Pause { at, time: each, since: Since::Acknowledged }).collect();
        }
        model
    }
}

/// How long a transfer would take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// From its first cause to its last byte.
    pub duration: Duration,
    /// How much longer the replica of what was seen took than what was seen, as a share of it.
    pub model_error: f64,
}

impl Transfer {
    /// A prediction from this transfer, if it can be reproduced; none where it carried nothing.
    pub fn replica(&self) -> Option<Result<Prediction, PredictionError>> {
        let replica = self.replica.as_deref()?;
        Some(Prediction::new(replica.paced(), replica.observed))
    }

    /// How long this transfer would take with these changes and, if said, with another number of bytes; none where
    /// it carried nothing.
    pub fn what_if(&self, what_if: &WhatIf, bytes: Option<Size>) -> Option<Result<Predicted, PredictionError>> {
        let prediction = match self.replica()? {
            Ok(prediction) => prediction,
            Err(error) => return Some(Err(error)),
        };
        let model_error = prediction.model_error();
        let prediction = bytes.map_or_else(|| prediction.clone(), |bytes| prediction.of_bytes(bytes));
        let retried = self.replica.as_deref().map_or(Duration::ZERO, |replica| replica.retried);
        let saved = if what_if.removes_loss() { retried } else { Duration::ZERO };
        let duration = prediction.with(what_if).map(|duration| duration.saturating_sub(saved));
        Some(duration.map(|duration| Predicted { duration, model_error }).map_err(PredictionError::from))
    }
}

/// What is known of a transfer.
pub(crate) struct Known<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) place: &'a Place,
    pub(crate) facts: &'a Both<Facts>,
    pub(crate) counts: &'a Both<Counts>,
    pub(crate) seen: &'a Both<Seen>,
    pub(crate) times: &'a Times,
    /// How that is acknowledged.
    pub(crate) habit: Option<AckHabit>,
    /// Who sent most of it.
    pub(crate) main: Side,
    /// When it began, as seen from the capture.
    pub(crate) start: u64,
    /// How its time before the first byte of the main message was spent.
    pub(crate) lead: Times,
}

impl Known<'_> {
    /// The model of the transfer.
    pub(crate) fn replica(&self) -> Option<Replica> {
        let (place, main) = (self.place, self.main);
        let (facts, seen) = (&self.facts[main], &self.seen[main]);
        let half = |side: Side| place.to[side] / 2;
        // When the client began, and when the main message's first byte left.
        let began = self.start.saturating_sub(half(Side::Client));
        let left = seen.first?.saturating_sub(half(main));
        let delivered = match seen.acked {
            Some(acked) if acked > seen.last => acked.saturating_sub(half(!main)),
            _ => seen.last + half(!main),
        };
        let answer = self.seen.server.first.filter(|_| main == Side::Client);
        let (until, ended) = match answer {
            // The answer's first byte reached the client.
            Some(first) => {
                let thought = first.saturating_sub(half(Side::Server)).saturating_sub(delivered);
                (Until::Answered(Duration::from_nanos(thought)), first + half(Side::Client))
            }
            None => (Until::Delivered, delivered),
        };
        let rtt = Duration::from_nanos(place.rtt());
        let mut model = Model::new(Size(seen.bytes), rtt);
        model.before = self.before(left.saturating_sub(began));
        model.until = until;
        model.path.rate = facts.rate.map(|rate| Rate::bits_per_second(rate as u64));
        model.path.headers = Size(facts.headers);
        let lost = seen.story.lost.iter();
        model.path.losses = lost.map(|(from, to, times)| Loss { bytes: *from..*to, times: *times }).collect();
        self.writes(&mut model);
        self.sender(&mut model);
        self.receiver(&mut model);
        let observed = Duration::from_nanos(ended.saturating_sub(began));
        let retried = Duration::from_nanos(self.lead[Cause::ConnectRetry]);
        Some(Replica { model, observed, retried })
    }

    fn share(&self, cause: Cause) -> f64 {
        self.times[cause] as f64 / self.times.sum().max(1) as f64
    }

    /// Handshakes and the request in trips, the rest in time.
    fn before(&self, lead: u64) -> Before {
        let half = (self.place.rtt() / 2).max(1);
        let tls = self.lead[Cause::Tls] / (2 * half) * 2;
        let way = self.lead[Cause::Connect] + self.lead[Cause::Propagation] + tls * half;
        // A request that the capture saw only arrive has travelled as well.
        let trips = ((way + half / 2) / half).min(lead / half);
        // Distances are measured; what they miss by is not time beside them.
        let time = lead.saturating_sub(trips * half);
        Before { trips: u32::try_from(trips).unwrap_or(u32::MAX), time: Duration::from_nanos(time) }
    }

    fn writes(&self, model: &mut Model) {
        let (facts, story) = (&self.facts[self.main], &self.seen[self.main].story);
        model.writes.pauses = story
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
            model.writes.chunk = Some(Size(self.seen[self.main].bytes.div_ceil(story.naggled + 1).max(1)));
            model.sender.nagle = Nagle::Any;
        } else if let Some(level) = facts.level.filter(|_| self.share(Cause::SendBuffer) > 0.05) {
            model.writes.send_buffer = Some(Size(level));
        }
    }

    fn sender(&self, model: &mut Model) {
        let (facts, counts, story) = (&self.facts[self.main], &self.counts[self.main], &self.seen[self.main].story);
        model.sender.mss = Size(facts.mss);
        model.sender.sack = self.connection.syn[self.main].is_none_or(|syn| syn.sack);
        // What was lost was sent in time, though it was not seen then.
        let lost: u64 = story.lost.iter().map(|(from, to, _)| to - from).sum();
        let whole = self.seen[self.main].bytes.saturating_sub(lost);
        let least = match story.warm {
            Some(warm) => warm.max(10 * facts.mss),
            None if story.burst < whole => facts.mss,
            None => 10 * facts.mss,
        };
        let begins_with = story.burst.max(least);
        // Who waited longer for an acknowledgement than a probe would have, sends none (RFC 8985 §7.2).
        let longest = counts.acks.iter().map(|acked| acked.held).max().unwrap_or(0);
        model.sender.tail_loss_probe = longest <= 2 * self.place.rtt() || counts.again > 0;
        model.sender.initial_window = u32::try_from(begins_with.div_ceil(facts.mss)).unwrap_or(u32::MAX);
    }

    fn receiver(&self, model: &mut Model) {
        let (counts, seen) = (&self.counts[self.main], &self.seen[self.main]);
        let mut held: Vec<u64> = counts.acks.iter().map(|acked| acked.held).filter(|held| *held > 0).collect();
        held.sort_unstable();
        if let Some(timer) = held.get(held.len() / 2) {
            model.receiver.acks.timer = Duration::from_nanos(*timer);
            model.receiver.acks.quick = 0;
            model.receiver.acks.pushed_at_once = false;
            if self.facts[self.main].chunk.is_some() {
                model.receiver.acks.rule = AckRule::Segments(2);
            }
        }
        if let Some(habit) = self.habit {
            model.receiver.acks.rule = habit.rule;
            if self.facts[self.main].from_start {
                model.receiver.acks.quick = habit.quick;
            }
        }
        // A window that was full, or that cannot grow: without scaling, it was the same all the time.
        let fixed = counts.first_window == counts.window && counts.window < 65_536;
        if fixed || self.share(Cause::ReceiveWindow) + self.share(Cause::ReceiverStalled) > 0.05 {
            model.receiver.window = Some(Size(counts.first_window.max(1)));
            model.receiver.largest_window = Some(Size(counts.window.max(1)));
        }
        if self.share(Cause::HttpFlowControl) > 0.05 {
            // A window is a window, whoever keeps it.
            (model.receiver.window, model.receiver.largest_window) = (Some(Size(counts.peak)), Some(Size(counts.peak)));
        }
        let stall =
            |(at, time): &(u64, u64)| Stall { at: at.saturating_sub(counts.window), time: Duration::from_nanos(*time) };
        model.receiver.stalls = seen.story.stalls.iter().map(stall).collect();
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
