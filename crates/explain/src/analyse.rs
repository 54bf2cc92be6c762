//! From a captured connection to an explained one: its transfers, their times by cause, and the findings.

mod infer_model;

use std::time::Duration;

use crate::{
    causes::{
        Cause,
        evidence::{Chunk, Evidence, RFC_6928, Situation, Timer},
    },
    collect::CapturedConnection,
    counters::Counters,
    critical_path::{
        message_history::ObservedMessage,
        timeline::{Interval, Timeline},
    },
    ending,
    explanation::{Connection, Direction, Transfer},
    finding::Finding,
    infer::{
        ack_policy::AckPolicy,
        control_frames,
        exchange::{self, Exchange},
        expect_continue,
        sender_properties::SenderProperties,
        survey,
        uncaptured::uncaptured_bytes,
        vantage::VantagePoint,
    },
    known_link::KnownLink,
    number_format::percent,
    packet_store::{LossRank, PacketStore},
    phases::Phases,
    side::{PerSide, Side},
};

use infer_model::ModelInput;

/// The longest pause between two exchanges that counts as the client's think time, in nanoseconds. After a longer one,
/// the client has returned to an idle connection.
const MAX_PAUSE: u64 = 5_000_000_000;

/// The smallest share of a transfer's time that makes a finding, in whole per cent, as it is printed.
const MIN_SHARE: u64 = 10;

/// The shortest time that makes a finding, in nanoseconds. Users do not notice less.
pub(crate) const MIN_COST: u64 = 1_000_000;

/// The smallest number of waits for a window, or of round trips, that makes a finding. Fewer are normal at the start of a
/// connection.
const MIN_WINDOW_WAITS: u32 = 3;

/// The smallest number of needless retransmissions that shows reordering.
const MIN_NEEDLESS: u64 = 3;

/// The smallest number of timeouts for full segments that shows that none passes.
const MIN_FULL_TIMEOUTS: u64 = 3;

/// The bytes whose sender's waits cannot be explained without its round-trip time.
const MIN_STREAM: u64 = 65_536;

/// The maximum number of packets that a finding names.
const MAX_PACKETS: usize = 5;

/// Explains a connection; none if it carried nothing: late packets of a connection that is over.
pub(crate) fn explain(
    connection: &mut CapturedConnection,
    link: Option<KnownLink>,
    store: Option<&PacketStore>,
) -> Option<Connection> {
    let opened = connection.syn.client.is_some();
    if !opened && connection.segments.iter().all(|segment| segment.len <= 1) {
        return None;
    }
    let vantage = VantagePoint::of(connection);
    control_frames::recognise_hidden_http2(connection, &vantage);
    expect_continue::recognise_in_tls(connection, &vantage);
    let connection = &*connection;
    let link = link.or_else(|| KnownLink::captured(connection));
    let properties = survey::properties(connection, &vantage, link);
    let exchanges = exchange::exchanges(connection, &vantage);
    let mut timeline = Timeline::of(connection, &vantage, &properties, &exchanges);
    let only_from = connection.only_from();
    let main_sender = if delivered(&timeline, Side::Client) > delivered(&timeline, Side::Server) {
        Side::Client
    } else {
        Side::Server
    };
    // At the sender's own end, only the way to the receiver and back counts.
    let is_rtt_unknown = vantage.is_unknown[main_sender]
        && vantage.is_at(!main_sender)
        && delivered(&timeline, main_sender) > MIN_STREAM;
    if only_from.is_some() || is_rtt_unknown {
        timeline.leave_unexplained();
    }
    let ack_policies = PerSide::of(|side| AckPolicy::of(&timeline.stats[side].acks, properties[side].mss));
    let analysis =
        Analysis { connection, vantage: &vantage, properties: &properties, timeline: &timeline, ack_policies };
    let mut transfers = analysis.transfers(&exchanges);
    let ending = ending::ending(connection, &vantage, &exchanges, &timeline.messages);
    if exchanges.is_empty() && ending.is_some() {
        // There is nothing to speed up.
        for transfer in &mut transfers {
            transfer.findings.clear();
        }
    }
    if only_from.is_some() || is_rtt_unknown {
        for transfer in &mut transfers {
            transfer.recorded = None;
        }
    }
    let sent = |side| {
        let transfers = transfers.iter().filter(|transfer| transfer.direction.sender() == side);
        transfers.map(|transfer| transfer.bytes).sum::<u64>()
    };
    let sender = if sent(Side::Client) > sent(Side::Server) { Side::Client } else { Side::Server };
    let first = connection.segments.first();
    let mut explained = Connection {
        client: connection.ends.client,
        server: connection.ends.server,
        names: [None, None],
        isn: connection.syn.client.map(|syn| syn.isn),
        start: Duration::from_nanos(first.map_or(0, |segment| segment.time)),
        packet: first.map_or(0, |segment| segment.number),
        packets: connection.segments.len() as u64,
        duplicates: connection.duplicates.found,
        uncaptured: uncaptured_bytes(connection, Side::Client) + uncaptured_bytes(connection, Side::Server),
        only_from,
        is_rtt_unknown,
        rtt: Duration::from_nanos(vantage.rtt()),
        mss: properties[sender].mss,
        rate: properties[sender].rate,
        chunk: properties[sender].chunk,
        rtt_to_client: Duration::from_nanos(vantage.rtt_to.client),
        knows_window: properties[sender].knows_window,
        acks: ack_policies[sender],
        systems: PerSide::of(|side| connection.syn[side]?.system),
        vantage: vantage.position,
        counters: PerSide::<Counters>::of_connection(connection, &vantage),
        ending,
        transfers,
        packets_kept: None,
        segments: Vec::new(),
    };
    explained.packets_kept = store.and_then(|store| {
        let worst = explained.transfers.iter().max_by_key(|transfer| (transfer.avoidable(), transfer.duration))?;
        let rank = LossRank::new(worst.avoidable(), worst.duration, connection);
        store.keep(connection, &timeline, rank, worst.start)
    });
    Some(explained)
}

/// The bytes of a side's messages.
fn delivered(timeline: &Timeline, side: Side) -> u64 {
    timeline.messages.iter().map(|messages| messages[side].bytes).sum()
}

/// A connection and what was inferred of it.
struct Analysis<'a> {
    connection: &'a CapturedConnection,
    vantage: &'a VantagePoint,
    properties: &'a PerSide<SenderProperties>,
    timeline: &'a Timeline,
    /// How the data of each side is acknowledged.
    ack_policies: PerSide<Option<AckPolicy>>,
}

impl Analysis<'_> {
    fn transfers(&self, exchanges: &[Exchange]) -> Vec<Transfer> {
        let Some(begin) = self.timeline.intervals.first().map(|interval| interval.from) else { return Vec::new() };
        if exchanges.is_empty() {
            // The connection was opened, or tried, and carried no data.
            let (none, end) = (PerSide::default(), self.timeline.end());
            return vec![self.transfer(&Exchange::default(), &none, begin, end, PerSide::default())];
        }
        let mut previous_end: Option<u64> = None;
        let mut transfers = Vec::new();
        let mut last_sent = PerSide::<Option<u64>>::default();
        for (exchange, messages) in exchanges.iter().zip(&self.timeline.messages) {
            let Some(first) = messages.client.first.or(messages.server.first) else { continue };
            let start = match previous_end {
                None => begin,
                Some(end) if end <= first && first - end <= MAX_PAUSE => end,
                Some(_) => first,
            };
            let last = if messages.server.first.is_some() { &messages.server } else { &messages.client };
            let end = last.acked.unwrap_or(0).max(last.last).max(start).min(self.timeline.end().max(start));
            previous_end = Some(end);
            transfers.push(self.transfer(exchange, messages, start, end, last_sent));
            last_sent = PerSide::of(|side| {
                let last = Some(messages[side].last).filter(|_| messages[side].bytes > 0);
                last.or(last_sent[side])
            });
        }
        // Most connections have one transfer, and there may be very many connections.
        transfers.shrink_to_fit();
        transfers
    }

    /// The transfer between two times; `last_sent` says when each side last sent data in earlier ones.
    fn transfer(
        &self,
        exchange: &Exchange,
        messages: &PerSide<ObservedMessage>,
        start: u64,
        end: u64,
        last_sent: PerSide<Option<u64>>,
    ) -> Transfer {
        let upload = messages.client.bytes > messages.server.bytes;
        let direction = if upload { Direction::Upload } else { Direction::Download };
        let sender = direction.sender();
        let times = self.timeline.times(start, end);
        let avoidable = || times.ranked().into_iter().filter(|(cause, _)| cause.is_avoidable());
        let situation = |sender| self.situation(sender, messages, last_sent);
        let findings = avoidable().filter_map(|(cause, cost)| {
            let intervals = self.timeline.between(start, end).filter(|interval| interval.cause == cause).collect();
            let times = Times { cost, all: end - start, has_nagle: times[Cause::Nagle] > 0 };
            self.finding(cause, times, intervals, sender, situation)
        });
        let mut findings: Vec<Finding> = findings.collect();
        findings.shrink_to_fit();
        let input = ModelInput {
            connection: self.connection,
            vantage: self.vantage,
            properties: self.properties,
            stats: &self.timeline.stats,
            messages,
            times: &times,
            ack_policy: self.ack_policies[sender],
            sender,
            start,
            lead: self.timeline.times(start, messages[sender].flow_began().unwrap_or(start)),
        };
        Transfer {
            request: exchange.request.clone(),
            status: exchange.status.clone(),
            direction,
            start: Duration::from_nanos(start),
            duration: Duration::from_nanos(end - start),
            bytes: messages.client.bytes + messages.server.bytes,
            times,
            phases: Phases::of(self.timeline, messages, start, end),
            cause: avoidable().next().map(|(cause, _)| cause),
            findings,
            recorded: input.recorded().map(Box::new),
        }
    }

    /// What is known of a sender's data, apart from the waits for it; `last_sent` says when each side sent data before.
    fn situation(
        &self,
        sender: Side,
        messages: &PerSide<ObservedMessage>,
        last_sent: PerSide<Option<u64>>,
    ) -> Situation {
        let (properties, stats) = (&self.properties[sender], &self.timeline.stats[sender]);
        let idle = messages[sender].first.zip(last_sent[sender]).map_or(0, |(first, last)| first.saturating_sub(last));
        Situation {
            sender,
            systems: PerSide::of(|side| self.connection.system(side)),
            chunk: properties.chunk.map(|bytes| Chunk { bytes, segment: properties.mss }),
            has_sack: self.connection.has_sack(),
            initial_window: self.initial_window(messages, sender),
            was_idle: idle > Timer::MIN_RTO + self.vantage.rtt(),
            ignores_losses: stats.ignores_losses,
            needless_retransmissions: (stats.duplicates >= MIN_NEEDLESS
                && stats.duplicates * 2 >= stats.retransmissions)
                .then_some(stats.retransmissions),
            too_large: (stats.full_timeouts >= MIN_FULL_TIMEOUTS && stats.largest_acked < properties.mss)
                .then_some(properties.mss + properties.headers),
            timer: Timer::default(),
            held_body: messages.client.held,
            protocol: self.connection.content.protocol,
        }
    }

    /// The initial window of the connection's first message in full segments, if data had to wait for it.
    fn initial_window(&self, messages: &PerSide<ObservedMessage>, side: Side) -> Option<u64> {
        let (message, mss) = (&messages[side], self.properties[side].mss);
        let first_flight = message.history.first_flight;
        let had_to_wait = message.history.initial_cwnd.is_none() && (1..message.flow_bytes()).contains(&first_flight);
        // The acknowledgement of a head that went ahead has opened the window by as much.
        let head = message.held.map_or(0, |held| held.offset.div_ceil(mss));
        (had_to_wait && self.properties[side].from_start)
            .then(|| first_flight.div_ceil(mss).saturating_sub(head).max(1))
    }

    /// Who sent the packets that ended most of the time of these intervals; `default` if they are not captured ones.
    fn sender_of(&self, intervals: &[Interval], default: Side) -> Side {
        let segments = &self.connection.segments;
        let mut ended = PerSide::<u64>::default();
        for interval in intervals {
            if let Ok(index) = segments.binary_search_by_key(&interval.number, |segment| segment.number) {
                ended[segments[index].from()] += interval.to - interval.from;
            }
        }
        if ended[default] * 2 >= ended.client + ended.server { default } else { !default }
    }

    /// The finding of a cause with these intervals; `sender` is who sends most, `situation` what is known of a sender.
    fn finding(
        &self,
        cause: Cause,
        times: Times,
        mut intervals: Vec<Interval>,
        sender: Side,
        situation: impl Fn(Side) -> Situation,
    ) -> Option<Finding> {
        let Times { cost, all, has_nagle } = times;
        if cost < MIN_COST || percent(cost, all) < MIN_SHARE {
            return None;
        }
        intervals.sort_by_key(|interval| std::cmp::Reverse(interval.to - interval.from));
        let length = |interval: Option<&Interval>| interval.map_or(0, |interval| interval.to - interval.from);
        let longest = length(intervals.first());
        // Only waits that matter count: at least a tenth of the longest.
        let count = intervals.iter().filter(|interval| (interval.to - interval.from) * 10 >= longest).count() as u32;
        // Not always who sends most: a request is retransmitted too. The evidence of a delayed ACK is the ACK itself.
        let sender = match cause {
            Cause::DelayedAck => !self.sender_of(&intervals, !sender),
            _ => self.sender_of(&intervals, sender),
        };
        let situation = Situation { timer: Timer::of(longest, self.vantage.rtt()), ..situation(sender) };
        let is_window = matches!(cause, Cause::SlowStart | Cause::CongestionWindow | Cause::ReceiveWindow);
        let is_small = |window: u64| window < RFC_6928;
        let has_small_window = cause == Cause::SlowStart && situation.initial_window.is_some_and(is_small);
        let is_short = count < MIN_WINDOW_WAITS && cost < u64::from(MIN_WINDOW_WAITS) * self.vantage.rtt();
        if is_window && !has_small_window && is_short {
            return None;
        }
        let stats = &self.timeline.stats[sender];
        let held = stats.acks.iter().map(|ack| ack.held).filter(|held| *held > 0);
        let evidence = Evidence {
            properties: &self.properties[sender],
            rtt: self.vantage.rtt(),
            total: cost,
            longest,
            typical: length(intervals.get(count as usize / 2)),
            count,
            held: held.clone().min().zip(held.clone().max()).map(|(min, max)| (min, max, held.count())),
            window: stats.max_window,
            max_in_flight: stats.max_in_flight,
            situation,
            has_loss: stats.retransmissions > 0,
        };
        let mut packets: Vec<u32> = intervals.iter().take(MAX_PACKETS).map(|interval| interval.number).collect();
        packets.sort_unstable();
        packets.dedup();
        Some(Finding {
            cause,
            cost: Duration::from_nanos(cost),
            packets,
            why: (cause.rule().why)(&evidence),
            neighbours: Vec::new(),
            situation,
            what_if: infer_model::remedy(cause, has_nagle)
                // Without pacing, the path is the limit.
                .filter(|_| cause != Cause::Pacing || evidence.properties.rate.is_some()),
        })
    }
}

/// The time of a cause and of all, in nanoseconds, and whether Nagle's algorithm took a part of the latter.
#[derive(Debug, Clone, Copy)]
struct Times {
    cost: u64,
    all: u64,
    has_nagle: bool,
}
