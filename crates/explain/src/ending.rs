//! How a connection ended, if not as its user wanted: refused, never answered, reset in the middle, or with a TLS alert.
//!
//! A reset after the last byte is no failure: many programs close so (RFC 9293 §3.10.4, RFC 2525 §2.17).

use std::time::Duration;

use capture::tcp::Flags;

use crate::{
    collect::CapturedConnection,
    critical_path::message_history::ObservedMessage,
    infer::{exchange::Exchange, vantage::VantagePoint},
    number_format::{bytes, plural, time_text},
    read::alert_name,
    segment::SegmentRecord,
    side::{PerSide, Side},
    system::{MAX_HOPS, hops},
};

/// A connection silent for this long before a reset was given up by its sender, in nanoseconds; and for this many RTTs.
const SILENCE: u64 = 1_000_000_000;
const SILENT_TRIPS: u64 = 4;

/// The bytes in one direction that are a stream rather than a request.
const MIN_STREAM: u64 = 65_536;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// A RST answered the SYN.
    Refused,
    /// Nothing answered the SYN.
    Unanswered,
    /// ICMP reported that the SYN or the data could not be delivered.
    Undelivered,
    /// A RST came before everything had arrived.
    Reset,
    /// TLS ended with an alert.
    Alert,
    /// The client closed the connection before any response, after a while.
    Abandoned,
}

impl Failure {
    /// Its name in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unanswered => "unanswered",
            Self::Undelivered => "undelivered",
            Self::Reset => "reset",
            Self::Alert => "alert",
            Self::Abandoned => "abandoned",
        }
    }
}

/// How a connection failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// What went wrong.
    pub failure: Failure,
    /// The end that ended it, if one did.
    pub by: Option<Side>,
    /// The number of the packet that shows it.
    pub packet: u32,
    /// When, since the connection's first packet.
    pub after: Duration,
    /// The whole of it in a sentence without a subject, as in `was reset by the server after 350 KB of GET /file`.
    pub why: String,
}

/// How `connection` failed; none if it did not.
pub(crate) fn ending(
    connection: &CapturedConnection,
    vantage: &VantagePoint,
    exchanges: &[Exchange],
    messages: &[PerSide<ObservedMessage>],
) -> Option<Ending> {
    let first = connection.segments.first()?;
    let ending = |failure, by, packet, time: u64, why| Ending {
        failure,
        by,
        packet,
        after: Duration::from_nanos(time.saturating_sub(first.time)),
        why,
    };
    let is_open = connection.syn.client.is_none()
        || connection.syn.server.is_some()
        || connection.segments.iter().any(|segment| segment.len > 0);
    if let Some(report) = connection.undelivered.filter(|report| !is_open || is_last(connection, report.time)) {
        let why = format!("could not be reached: {} reports “{}” (ICMP)", report.by, report.reason);
        return Some(ending(Failure::Undelivered, None, report.number, report.time, why));
    }
    if !is_open {
        let mut syns = connection.segments.iter().filter(|segment| segment.has(Flags::SYN));
        let count = syns.clone().count() as u64;
        let last = syns.next_back()?;
        if let Some(reset) = connection.reset.filter(|reset| reset.from == Side::Server) {
            let took = time_text(Duration::from_nanos(reset.time.saturating_sub(last.time)));
            let why = format!(
                "was refused by the server after {took} (RST): no program listens on this port, or a firewall rejects it"
            );
            return Some(ending(Failure::Refused, Some(Side::Server), reset.number, reset.time, why));
        }
        let tries = plural(count, "SYN");
        let lasted = time_text(Duration::from_nanos(last.time - first.time));
        let why = format!("was never answered: {tries} in {lasted}. The server is down, or a firewall drops them");
        return Some(ending(Failure::Unanswered, None, last.number, last.time, why));
    }
    if let Some((side, alert)) = connection.content.alert() {
        let end = connection.segments.last()?;
        let why = format!("ended with the TLS alert “{}” from {}", alert_name(alert), name(side));
        return Some(ending(Failure::Alert, Some(side), end.number, end.time, why));
    }
    if let Some((closed, waited, what)) = abandoned(connection, exchanges, messages) {
        let waited = time_text(Duration::from_nanos(waited));
        let why = format!("was closed by the client, which had waited {waited} for a response to {what}");
        return Some(ending(Failure::Abandoned, Some(Side::Client), closed.number, closed.time, why));
    }
    let reset = connection.reset?;
    let missing = incomplete(connection, exchanges, messages)?;
    if connection.content.is_unknown() && is_wanted(connection, vantage, reset, messages) {
        return None;
    }
    if let Some(Forged { hop_limit, others }) = reset.forged {
        let end = name(reset.from);
        let place = match hops(hop_limit) {
            0 => "the capture point itself, or next to it".to_owned(),
            hops if hops > MAX_HOPS => "another place".to_owned(),
            hops => format!("{} away", plural(hops.into(), "hop")),
        };
        let why = format!(
            "was reset by a device on the path {missing}: the RST names {end} as its sender, but comes from {place} (its time to live is {hop_limit}, that of {end}'s packets {others}). Ask the operator of the firewalls on the path"
        );
        return Some(ending(Failure::Reset, None, reset.number, reset.time, why));
    }
    let before = before(connection, vantage, reset);
    let why = format!("was reset by {} {missing}{before}", name(reset.from));
    Some(ending(Failure::Reset, Some(reset.from), reset.number, reset.time, why))
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Client => "the client",
        Side::Server => "the server",
    }
}

/// Whether no data passed after this time.
fn is_last(connection: &CapturedConnection, time: u64) -> bool {
    connection.segments.iter().rev().take_while(|segment| segment.time > time).all(|segment| segment.len == 0)
}

/// The client's FIN, how long it had waited for a response of which nothing came, and what it had asked for; none if there was
/// a response, or nothing can be said.
fn abandoned<'a>(
    connection: &'a CapturedConnection,
    exchanges: &'a [Exchange],
    messages: &[PerSide<ObservedMessage>],
) -> Option<(&'a SegmentRecord, u64, &'a str)> {
    let (exchange, message) =
        exchanges.iter().zip(messages).rev().find(|(_, message)| message.client.first.is_some())?;
    if message.server.first.is_some() || exchange.request.is_empty() || connection.reset.is_some() {
        return None;
    }
    let is_fin = |segment: &&SegmentRecord| segment.from() == Side::Client && segment.has(Flags::FIN);
    let closed = connection.segments.iter().find(is_fin)?;
    let waited = closed.time.checked_sub(message.client.last)?;
    (waited >= SILENCE).then_some((closed, waited, &*exchange.request))
}

/// What was missing of the last exchange when the connection was reset.
fn incomplete(
    connection: &CapturedConnection,
    exchanges: &[Exchange],
    messages: &[PerSide<ObservedMessage>],
) -> Option<String> {
    let has_begun = |message: &PerSide<ObservedMessage>| message.client.first.or(message.server.first).is_some();
    let (exchange, message) = exchanges.iter().zip(messages).rev().find(|(_, message)| has_begun(message))?;
    let what = if exchange.request.is_empty() { "the exchange" } else { &*exchange.request };
    let missing = |side: Side| {
        let (start, end) = exchange.parts[side].filter(|(_, end)| *end != u64::MAX)?;
        let arrived = message[side].bytes;
        (arrived < end - start).then(|| (arrived, end - start))
    };
    if let Some((arrived, all)) = missing(Side::Client) {
        return Some(format!("after {} of {} of the request {what}", bytes(arrived), bytes(all)));
    }
    let is_finished = connection.segments.iter().any(|segment| segment.has(Flags::FIN));
    // What no protocol tells apart may have needed no response.
    if message.server.first.is_none() && !connection.content.is_unknown() {
        return Some(format!("before the response to {what} began"));
    }
    if let Some((arrived, all)) = missing(Side::Server) {
        return Some(format!("after {} of {} of the response to {what}", bytes(arrived), bytes(all)));
    }
    // The end is unknown: something was still in flight, or neither side had said that it has no more to send.
    let has_end = |side: Side| exchange.parts[side].is_none_or(|(_, end)| end != u64::MAX);
    let is_whole = has_end(Side::Client) && has_end(Side::Server) && connection.content.is_read();
    let moved = message.client.bytes + message.server.bytes;
    (!is_whole && !is_finished).then(|| format!("after {} of {what}, before either end had finished", bytes(moved)))
}

/// Whether a reset in an unknown protocol took nothing from anybody: its sender had delivered everything, or it was the
/// receiver of a stream, had taken what had arrived, and wanted no more (iperf3, at the end of its test).
fn is_wanted(
    connection: &CapturedConnection,
    vantage: &VantagePoint,
    reset: Reset,
    messages: &[PerSide<ObservedMessage>],
) -> bool {
    if reset.forged.is_some() {
        return false;
    }
    let segments = &connection.segments;
    let earlier = || segments.iter().rev().skip_while(|segment| segment.number >= reset.number);
    let Some(last) = earlier().find(|segment| segment.len > 0) else { return false };
    if last.from() == reset.from {
        let mut acks = earlier().filter(|segment| segment.from() != reset.from && segment.has(Flags::ACK));
        let end = last.seq.wrapping_add(last.len);
        let has_delivered = acks.next().is_some_and(|ack| ack.ack.wrapping_sub(end) as i32 >= 0);
        return has_delivered && before(connection, vantage, reset).is_empty();
    }
    // The last acknowledgement reports no gap and has room: the receiver had read.
    let has_all = earlier()
        .find(|segment| segment.from() == reset.from && segment.has(Flags::ACK))
        .is_none_or(|last| !last.has_sack() && last.window > 0);
    let streamed = messages.last().map_or(0, |message| message[last.from()].bytes);
    streamed >= MIN_STREAM && has_all && before(connection, vantage, reset).is_empty()
}

/// What came just before a reset.
fn before(connection: &CapturedConnection, vantage: &VantagePoint, reset: Reset) -> String {
    let earlier: Vec<&SegmentRecord> =
        connection.segments.iter().rev().skip_while(|segment| segment.number >= reset.number).take(64).collect();
    let Some(last) = earlier.first() else { return String::new() };
    let silence = reset.time.saturating_sub(last.time);
    if let Some(closed) = earlier.iter().find(|segment| segment.from() != reset.from && segment.has(Flags::ACK))
        && closed.window == 0
    {
        return format!("; {} had not read what it was sent (its receive window was closed)", name(!reset.from));
    }
    if silence > SILENCE.max(SILENT_TRIPS * vantage.rtt()) {
        return format!("; nothing had passed for {}: a time-out", time_text(Duration::from_nanos(silence)));
    }
    let had_finished = earlier.iter().any(|segment| segment.from() == reset.from && segment.has(Flags::FIN));
    if had_finished && last.from() != reset.from && last.len > 0 {
        return format!("; {} had closed the connection, and data still arrived", name(reset.from));
    }
    String::new()
}

/// A segment that ended a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reset {
    pub(crate) from: Side,
    pub(crate) time: u64,
    pub(crate) number: u32,
    /// How it is known that another machine sent it, if it is.
    pub(crate) forged: Option<Forged>,
}

/// A segment of another machine than the end that it names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forged {
    /// Its hop limit, and the nearest of those with which the end's own packets arrive.
    pub(crate) hop_limit: u8,
    pub(crate) others: u8,
}

/// A report that a segment could not be delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Undelivered {
    pub(crate) by: std::net::IpAddr,
    pub(crate) reason: &'static str,
    pub(crate) time: u64,
    pub(crate) number: u32,
}
