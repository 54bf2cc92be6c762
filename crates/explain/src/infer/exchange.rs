//! Exchanges: requests with their responses.
//!
//! HTTP that can be read is explicit. Otherwise the two ends take turns: an exchange begins when the client sends after
//! the server has sent. What the client sends within a round trip of the response's first byte it sent before it could
//! know, so it belongs to the request before. Inside TLS, a segment with the size of a control frame is no message
//! ([`super::control_frames`]).

use capture::tcp::Flags;

use super::{
    control_frames::{self, MAX_CONTROL_FRAME},
    vantage::VantagePoint,
};
use crate::{
    collect::CapturedConnection,
    read::Protocol,
    side::{PerSide, Side},
    stream_offset::{ORIGIN, StreamOffsets},
};

/// A request and its response.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchange {
    /// `PUT /file`, as far as it can be read.
    pub(crate) request: Box<str>,
    /// The response's status, as far as it can be read.
    pub(crate) status: Box<str>,
    /// The range of each side's stream that belongs to it.
    pub(crate) parts: PerSide<Option<(u64, u64)>>,
}

/// The exchanges of `connection`, in order.
pub(crate) fn exchanges(connection: &CapturedConnection, vantage: &VantagePoint) -> Vec<Exchange> {
    let content = &connection.content;
    match content.protocol {
        Protocol::Http1 | Protocol::Http2 if content.is_read() => by_messages(connection),
        _ => with_labels(by_turns(connection, vantage), connection),
    }
}

/// Labels turns with the messages that could be read: a capture truncated to headers often contains the requests.
fn with_labels(mut turns: Vec<Exchange>, connection: &CapturedConnection) -> Vec<Exchange> {
    let messages = &connection.content.messages;
    let first_label = |side: Side, part: Option<(u64, u64)>| {
        let (start, end) = part?;
        let index = messages[side].partition_point(|message| message.start < start);
        messages[side].get(index).filter(|message| message.start < end).map(|message| message.label.clone())
    };
    for turn in &mut turns {
        turn.request = first_label(Side::Client, turn.parts.client).unwrap_or_default();
        turn.status = first_label(Side::Server, turn.parts.server).unwrap_or_default();
    }
    turns
}

/// Exchanges by the HTTP messages that were read.
fn by_messages(connection: &CapturedConnection) -> Vec<Exchange> {
    let messages = &connection.content.messages;
    let part = |side: Side, index: usize| {
        let message = messages[side].get(index)?;
        // A message without a known end lasts until the next one, or until the stream's end.
        let next = messages[side].get(index + 1).map_or(u64::MAX, |next| next.start);
        Some((message.start, message.end.min(next.max(message.start))))
    };
    let label =
        |side: Side, index: usize| messages[side].get(index).map(|message| message.label.clone()).unwrap_or_default();
    (0..messages.client.len().max(messages.server.len()))
        .map(|index| Exchange {
            request: label(Side::Client, index),
            status: label(Side::Server, index),
            parts: PerSide::of(|side| part(side, index)),
        })
        .collect()
}

/// Exchanges by the ends' turns; one pass with a state that is too entangled to split.
fn by_turns(connection: &CapturedConnection, vantage: &VantagePoint) -> Vec<Exchange> {
    let mut offsets = PerSide::of(|side| connection.offsets[side].map(StreamOffsets::rewound));
    let mut snd_nxt = PerSide { client: ORIGIN, server: ORIGIN };
    let mut last_sent = PerSide::<u64>::default();
    let is_tls = connection.content.protocol == Protocol::Tls;
    let prelude_end = control_frames::prelude_end(connection, vantage);
    let mut exchanges: Vec<Exchange> = Vec::new();
    // When the latest response began.
    let mut response_began = None;
    // When and where the client began to send what may be a new request.
    let mut candidate: Option<(u64, u64)> = None;
    for segment in connection.segments.iter().filter(|segment| segment.len > 0) {
        let side = segment.from();
        let syn = u32::from(segment.has(Flags::SYN));
        let Some(start) = offsets[side].as_mut().and_then(|offsets| offsets.of(segment.seq.wrapping_add(syn))) else {
            continue;
        };
        let end = start + u64::from(segment.len);
        if end <= snd_nxt[side] || segment.len <= 1 {
            continue;
        }
        let start = start.max(snd_nxt[side]);
        // What is missing before it comes late, and is its beginning. Inside TLS, it may belong to the handshake.
        let begin = if is_tls { start } else { snd_nxt[side] };
        snd_nxt[side] = end;
        let is_handshake =
            is_tls && connection.content.secured[side].is_none_or(|secured| start < secured && end <= secured);
        let is_prelude = side == Side::Server && (end <= prelude_end || is_tls && exchanges.is_empty());
        if is_handshake || is_prelude {
            continue;
        }
        let response = exchanges.last().filter(|last| last.parts.server.is_some()).and(response_began);
        let has_heard_all = vantage.has_heard(side, last_sent[!side], segment.time);
        last_sent[side] = segment.time;
        if control_frames::is_control_frame(connection, segment, &(start..end), has_heard_all) {
            continue;
        }
        match side {
            // What the client sent before it could receive the response is no new request.
            Side::Client
                if exchanges.is_empty()
                    || response.is_some_and(|began| vantage.has_heard(side, began, segment.time)) =>
            {
                // A small segment long before the rest was a control frame after all.
                candidate = candidate.filter(|(time, begin)| {
                    start.saturating_sub(*begin) > MAX_CONTROL_FRAME.into() || segment.time < time + vantage.rtt() / 2
                });
                candidate.get_or_insert((segment.time, begin));
                if exchanges.is_empty() {
                    exchanges.push(Exchange::default());
                    candidate = None;
                }
            }
            Side::Client => {}
            Side::Server => {
                if let Some((time, begin)) = candidate.take()
                    && vantage.has_heard(Side::Server, time, segment.time)
                {
                    begin_exchange(&mut exchanges, begin, snd_nxt.client);
                }
                if exchanges.is_empty() {
                    exchanges.push(Exchange::default());
                }
            }
        }
        if let Some(last) = exchanges.last_mut() {
            if side == Side::Server && last.parts.server.is_none() {
                response_began = Some(segment.time);
            }
            let part = last.parts[side].get_or_insert((begin, end));
            part.1 = end;
        }
    }
    if let Some((_, begin)) = candidate {
        begin_exchange(&mut exchanges, begin, snd_nxt.client);
    }
    exchanges
}

/// Begins an exchange with the client's bytes from `begin` to `end`, and ends the request before it.
fn begin_exchange(exchanges: &mut Vec<Exchange>, begin: u64, end: u64) {
    if let Some(Exchange { parts: PerSide { client: Some((start, end)), .. }, .. }) = exchanges.last_mut() {
        *end = begin.max(*start).min(*end);
    }
    exchanges.push(Exchange { parts: PerSide { client: Some((begin, end)), server: None }, ..Exchange::default() });
}
