//! The survey: a first pass over a sender's packets, which infers its properties ([`SenderProperties`]).
//!
//! The bottleneck's rate follows from the spacing of packets that were sent back to back ([`super::dispersion`]), the rate
//! of a sender that paces from that of its departures ([`super::pacing`]). The other properties follow from what repeats:
//! the bytes between two times at which everything is acknowledged, the bytes in flight per round trip, and what the
//! sender's waits end with.

use std::collections::{HashMap, HashSet};

use capture::tcp::Flags;

use super::{
    control_frames,
    dispersion::{Delivery, Dispersion, Seen},
    pacing::{Departure, Departures},
    sender_properties::SenderProperties,
    sender_state::{PROGRAM_DELAY, SenderState, Sent},
    shared_link::SharedLink,
    vantage::VantagePoint,
};
use crate::{
    collect::CapturedConnection,
    known_link::KnownLink,
    read::Protocol,
    side::{PerSide, Side},
};

/// The smallest number of acknowledgements that show whether a sender stops at the window's end.
const MIN_RELEASES: u32 = 8;

/// What shows that it is no coincidence if a sender stops at the end of a window whose scale is guessed: this many segments
/// that are not full and end exactly there, or this many different windows, or room for this many full segments.
const MIN_ENDS: u32 = 3;
const MIN_WINDOWS: usize = 3;
const MIN_FLIGHT: u64 = 4;

/// How many times as high as the sender's rate the path's must be to be no limit.
const MUCH_FASTER: f64 = 1.25;

/// The number of round trips that it takes to see that the data in flight does not grow.
const STEADY_ROUNDS: usize = 6;

/// Infers the properties of both senders of `connection`.
pub(crate) fn properties(
    connection: &CapturedConnection,
    vantage: &VantagePoint,
    link: Option<KnownLink>,
) -> PerSide<SenderProperties> {
    PerSide::of(|side| {
        let mut properties = SenderProperties::from_headers(connection, vantage, side);
        let survey = survey(connection, vantage, side, &mut properties);
        if let Some(survey) = survey {
            // A capture that begins in the middle of a full path has no packets that the path has spread.
            let is_at_sender = connection.syn[side].is_some() && vantage.is_near(side);
            let seen = match (is_at_sender, survey.has_echo) {
                (true, _) => Seen::FromSender,
                (false, true) => Seen::WithEcho,
                (false, false) => Seen::WithoutEcho,
            };
            properties.rate = survey.dispersion.rate(&properties, seen, vantage.rtt(), survey.has_loss);
            properties.chunk = survey.chunk(&properties);
            let is_below_window = |flight: &u64| *flight < survey.max_window / 10 * 9;
            properties.steady_flight = steady_flight(&survey.rounds).filter(is_below_window);
            survey.set_pacing(&mut properties, seen);
            properties.is_ack_clocked = survey.is_ack_clocked();
            properties.nodelay = survey.nodelay;
        }
        properties.shared_link = SharedLink::of(connection, vantage, side);
        if let Some(link) = &properties.shared_link {
            // Between the packets of others, its own show only a part of the rate.
            properties.rate = Some(link.rate);
        }
        if let Some(link) = link {
            link.correct(side, &mut properties);
        }
        let window = control_frames::flow_control_window(connection, vantage, side);
        properties.is_flow_controlled = window.is_some();
        properties.http2_window = window.filter(|_| connection.content.protocol != Protocol::Http2);
        properties
    })
}

/// The survey; decides whether a window of a guessed scale can be believed. A sender that goes by a timer does not stop at
/// its end.
fn survey(
    connection: &CapturedConnection,
    vantage: &VantagePoint,
    side: Side,
    properties: &mut SenderProperties,
) -> Option<Survey> {
    let survey = Survey::of(connection, vantage, side, properties)?;
    if !properties.knows_window && survey.departures.pacing(properties).is_none() {
        let mut shifts = vec![properties.window_shift, properties.most_window_shift];
        shifts.dedup();
        for window_shift in shifts {
            let believing = SenderProperties { knows_window: true, window_shift, ..properties.clone() };
            let believed = Survey::of(connection, vantage, side, &believing)?;
            if !believed.stops_at_window() {
                continue;
            }
            if believed.is_proof_of_window(properties) {
                *properties = believing;
                return Some(believed);
            }
            properties.may_be_window_limited = true;
        }
    }
    Some(survey)
}

/// What the first pass over a sender's packets collects.
#[derive(Debug, Default)]
struct Survey {
    dispersion: Dispersion,
    departures: Departures,
    /// Bytes sent between two times at which everything was acknowledged.
    chunks: Vec<u64>,
    /// The same, where the sender took longer to go on.
    late_chunks: Vec<u64>,
    /// The most that was in flight in each round trip, if nothing was lost.
    rounds: Vec<u64>,
    has_loss: bool,
    /// The largest window that the receiver offered.
    max_window: u64,
    /// Whether it is known at the receiver's end when data was released.
    has_echo: bool,
    /// How often the sender went on when an acknowledgement arrived.
    releases: u32,
    /// The time that it had waited for them, and the part of it while the window was full.
    waited: u64,
    waited_for_window: u64,
    /// The different windows at these times, up to [`MIN_WINDOWS`].
    windows: HashSet<u64>,
    /// The number of segments that were not full and ended where the window does, and within it.
    ends_at_edge: u32,
    ends_within: u32,
    waits: u32,
    waits_ended_by_ack: u32,
    nodelay: bool,
}

impl Survey {
    /// One pass over the packets, which all properties share.
    fn of(
        connection: &CapturedConnection,
        vantage: &VantagePoint,
        side: Side,
        properties: &SenderProperties,
    ) -> Option<Self> {
        let rtt = vantage.rtt();
        let mut sender = SenderState::new(connection.offsets[side]?, vantage, side, properties);
        let scale = properties.window_shift;
        // At the receiver's end, the data itself shows the deliveries; elsewhere the acknowledgements do.
        let is_at_receiver = vantage.rtt_to[!side] * 4 < vantage.rtt_to[side];
        let departures = Departures::new(properties.mss, rtt, sender.is_away);
        let mut survey = Self { departures, ..Self::default() };
        let (mut chunk_start, mut delivered, mut last_small) = (sender.snd_nxt, 0, None);
        let mut all_acked: u64 = 0;
        // Whether the latest packet was not full, and ended within the window: its sender had no more, or no buffer.
        let mut ended_within = false;
        let mut last_sent = None;
        for segment in &connection.segments {
            if segment.from() != side {
                if segment.has(Flags::ACK) {
                    let window = if properties.knows_window { u64::from(segment.window) << scale } else { u64::MAX };
                    survey.max_window = survey.max_window.max(window);
                    sender.expect_ack(segment, scale);
                }
                continue;
            }
            if segment.len == 0 {
                continue;
            }
            let sent = sender.send(segment);
            for ack in sender.acks.drain(..) {
                if ack.is_repair {
                    survey.dispersion.interrupt();
                } else if ack.acks_all {
                    all_acked = ack.time;
                    // The path was empty, and this acknowledgement may be a delayed one: it says nothing of the rate.
                    survey.dispersion.interrupt();
                } else if !is_at_receiver {
                    let delivery = Delivery {
                        time: ack.time,
                        total: ack.ack,
                        sent: ack.last_packet_sent,
                        queued: ack.time.saturating_sub(ack.last_packet_sent + rtt) + ack.last_packet_late,
                    };
                    survey.dispersion.deliver(delivery, ack.bytes, properties, rtt);
                }
            }
            let Some(Sent::New(context)) = sent else {
                survey.dispersion.interrupt();
                survey.departures.interrupt();
                continue;
            };
            if context.recovery.is_some() || context.receive_window.is_limiting {
                survey.departures.interrupt();
            } else {
                survey.departures.add(Departure::of(segment, &sender, properties));
            }
            if is_at_receiver {
                delivered += u64::from(segment.len);
                let sent = segment.echo().map_or(0, |age| segment.time - age);
                let queued = sender.lag(segment).unwrap_or(0);
                let delivery = Delivery { time: segment.time, total: delivered, sent, queued };
                survey.dispersion.deliver(delivery, segment.len.into(), properties, rtt);
                if u64::from(segment.len) < properties.mss || sent == 0 && context.receive_window.is_limiting {
                    // The sender had no more to send, or was not allowed to: the path was not full.
                    survey.dispersion.interrupt();
                }
            }
            survey.has_echo |= segment.echo().is_some();
            let start = sender.snd_nxt - u64::from(segment.len);
            if context.writer.sent_small_segment {
                survey.nodelay |= last_small.replace(sender.snd_nxt).is_some_and(|end| sender.snd_una < end);
            }
            let waited = segment.time - last_sent.replace(segment.time).unwrap_or(segment.time);
            if context.released_by.is_some() {
                survey.releases += 1;
                survey.waited += waited;
                if context.receive_window.is_limiting && !ended_within {
                    survey.waited_for_window += waited;
                }
                if survey.windows.len() < MIN_WINDOWS {
                    survey.windows.extend(sender.last_window());
                }
            }
            ended_within = survey.end(segment.len.into(), &sender, properties);
            if context.receive_window.is_limiting || context.receive_window.closed.is_some() {
                // What was delivered before was spaced by the receiver.
                survey.dispersion.interrupt();
            }
            let is_window_limited = context.receive_window.is_limiting;
            if !is_window_limited && context.released_by.is_some_and(|ack| ack.acks_all) {
                survey.chunks.push(start - chunk_start);
                chunk_start = start;
            } else if sender.snd_una == start {
                if !is_window_limited && segment.time <= all_acked + PROGRAM_DELAY * sender.prompt() {
                    survey.late_chunks.push(start - chunk_start);
                }
                // The sender went on by itself, or a window let it: no chunk ended here.
                chunk_start = start;
            }
            if context.room_since.is_some_and(|room| segment.time > room + rtt / 8 + 1_000_000) {
                survey.waits += 1;
                survey.waits_ended_by_ack += u32::from(context.released_by.is_some());
            }
        }
        survey.chunks.push(sender.snd_nxt - chunk_start);
        survey.rounds = sender.take_rounds();
        survey.has_loss = sender.has_loss();
        Some(survey)
    }

    /// A packet with this much data was sent: counts where it ended, if it is not full; returns whether within the window.
    fn end(&mut self, len: u64, sender: &SenderState, properties: &SenderProperties) -> bool {
        let is_partial = !len.is_multiple_of(properties.mss);
        let is_within = is_partial && !sender.is_at_edge();
        self.ends_within += u32::from(is_within);
        self.ends_at_edge += u32::from(is_partial && !is_within);
        is_within
    }

    /// Sets the pacing of the sender, and with it what evenly sent packets say of the path and the send buffer.
    fn set_pacing(&self, properties: &mut SenderProperties, seen: Seen) {
        let Some(pacing) = self.departures.pacing(properties) else { return };
        let is_away = self.departures.is_away;
        let is_of_sender = if is_away {
            // A path that carried the first packets faster is no bottleneck, unless packets queue in front of it or are lost
            // there. Without timestamps, a queue does not show.
            let is_path_empty = pacing.is_without_queue && !self.has_loss;
            seen == Seen::WithEcho && is_path_empty && self.dispersion.began_faster(properties, pacing.rate)
        } else {
            // The path would spread them between here and the receiver.
            properties.rate.is_none_or(|rate| rate > pacing.rate * MUCH_FASTER)
                && !self.dispersion.has_spread_to(properties, pacing.rate)
        };
        if is_of_sender {
            properties.rate = self.dispersion.faster_rate(properties, pacing.rate);
            (properties.chunk, properties.steady_flight) = (None, None);
            properties.pacing = Some(pacing);
        } else if is_away
            && properties.rate.is_none_or(|rate| pacing.is_held_in_host && rate > pacing.rate * MUCH_FASTER)
        {
            // From here, a shaper in the sender's host looks like a bottleneck, and one with a bucket was faster at first.
            properties.rate = Some(pacing.rate);
        }
    }

    /// The size of most chunks, if the sender repeatedly sends the same number of bytes and then waits.
    fn chunk(&self, properties: &SenderProperties) -> Option<u64> {
        let mut counts: HashMap<u64, u32> = HashMap::new();
        let sizes = || self.chunks.iter().chain(&self.late_chunks);
        for size in sizes().filter(|size| **size > properties.mss) {
            *counts.entry(*size).or_default() += 1;
        }
        let (size, count) = counts.into_iter().max_by_key(|(size, count)| (*count, *size))?;
        // A program that writes at times of its own is always late; one that waits only if its machine is busy.
        let on_time = self.chunks.iter().filter(|chunk| **chunk == size).count();
        if on_time * 3 < count as usize {
            return None;
        }
        let is_uneven = !size.is_multiple_of(properties.mss);
        let is_repeated = count >= 4 || is_uneven && count >= 2;
        (is_repeated && count as usize * 2 >= sizes().count()).then_some(size)
    }

    /// Whether the sender nearly always stops at the window's end. With a scale that is only guessed, it would do so rarely, by
    /// chance.
    fn stops_at_window(&self) -> bool {
        self.releases >= MIN_RELEASES && self.waited_for_window * 3 >= self.waited * 2
    }

    /// Whether segments that are not full mostly end exactly where the window does.
    fn fills_window(&self) -> bool {
        self.ends_at_edge >= MIN_ENDS && self.ends_at_edge >= 2 * self.ends_within
    }

    /// Whether it is no coincidence that the sender stops at the window's end.
    fn is_proof_of_window(&self, properties: &SenderProperties) -> bool {
        self.fills_window() || self.windows.len() >= MIN_WINDOWS || self.max_window >= MIN_FLIGHT * properties.mss
    }

    fn is_ack_clocked(&self) -> bool {
        // Fewer than three waits say nothing.
        self.waits < 3 || self.waits_ended_by_ack * 5 >= self.waits * 3
    }
}

/// The number of bytes in flight of nearly all round trips, if it was reached early and did not grow afterwards.
fn steady_flight(rounds: &[u64]) -> Option<u64> {
    let percentile_80 = |part: &[u64]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.get(part.len() * 4 / 5).copied()
    };
    let (first, last) = rounds.split_at(rounds.len() / 2);
    let (first, last) = (percentile_80(first)?, percentile_80(last)?);
    (rounds.len() >= STEADY_ROUNDS && last * 100 <= first * 115).then_some(first.max(last))
}
