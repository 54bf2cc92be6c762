//! Exchanges: a request with its response, wherever one can be told from the next.
//!
//! HTTP says so itself where it can be read. Elsewhere the two ends take turns: an exchange begins when the client
//! sends after the server has sent, and the server had finished: what follows within a round trip it must have sent
//! before it knew. With TLS, what has the length of the protocol's own talk is no message ([`crate::infer::control_frames`]).

use super::{control_frames, vantage::VantagePoint};
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
    /// Which bytes of each side's stream belong to it.
    pub(crate) parts: PerSide<Option<(u64, u64)>>,
}

/// What `connection` was used for, in order.
pub(crate) fn exchanges(connection: &CapturedConnection, vantage: &VantagePoint) -> Vec<Exchange> {
    let content = &connection.content;
    match content.protocol {
        Protocol::Http1 | Protocol::Http2 if content.is_read() => told(connection),
        _ => named(turns(connection, vantage), connection),
    }
}

/// Gives turns the names of what could be read of them: a capture that is cut to headers often shows the requests.
fn named(mut turns: Vec<Exchange>, connection: &CapturedConnection) -> Vec<Exchange> {
    let messages = &connection.content.messages;
    let first = |side: Side, part: Option<(u64, u64)>| {
        let (start, end) = part?;
        let index = messages[side].partition_point(|message| message.start < start);
        messages[side].get(index).filter(|message| message.start < end).map(|message| message.label.clone())
    };
    for turn in &mut turns {
        turn.request = first(Side::Client, turn.parts.client).unwrap_or_default();
        turn.status = first(Side::Server, turn.parts.server).unwrap_or_default();
    }
    turns
}

/// By what was read.
fn told(connection: &CapturedConnection) -> Vec<Exchange> {
    let messages = &connection.content.messages;
    let part = |side: Side, index: usize| {
        let list = &messages[side];
        let message = list.get(index)?;
        // Where no end was found, the next message or the stream's end is one.
        let next = list.get(index + 1).map_or(u64::MAX, |next| next.start);
        Some((message.start, message.end.min(next.max(message.start))))
    };
    let label = |side: Side, index: usize| messages[side].get(index).map(|one| one.label.clone()).unwrap_or_default();
    (0..messages.client.len().max(messages.server.len()))
        .map(|index| Exchange {
            request: label(Side::Client, index),
            status: label(Side::Server, index),
            parts: PerSide::of(|side| part(side, index)),
        })
        .collect()
}

/// By turns.
fn turns(connection: &CapturedConnection, vantage: &VantagePoint) -> Vec<Exchange> {
    let mut offsets = PerSide::of(|side| connection.offsets[side].map(StreamOffsets::rewound));
    let mut next = PerSide { client: ORIGIN, server: ORIGIN };
    // When the latest answer began.
    let mut began = None;
    // When each side last sent.
    let mut sent = PerSide::<u64>::default();
    let tls = connection.content.protocol == Protocol::Tls;
    let prelude = control_frames::prelude(connection, vantage);
    let mut found: Vec<Exchange> = Vec::new();
    // Since when the client sends what may be a new request.
    let mut asks: Option<(u64, u64)> = None;
    for segment in connection.segments.iter().filter(|segment| segment.len > 0) {
        let side = segment.from();
        let syn = u32::from(segment.has(capture::tcp::Flags::SYN));
        let Some(start) = offsets[side].as_mut().and_then(|offsets| offsets.of(segment.seq.wrapping_add(syn))) else {
            continue;
        };
        let end = start + u64::from(segment.len);
        if end <= next[side] || segment.len <= 1 {
            continue;
        }
        let start = start.max(next[side]);
        next[side] = end;
        let handshake = tls && connection.content.secured[side].is_none_or(|secured| start < secured && end <= secured);
        let speaks = side == Side::Server && end <= prelude;
        if handshake || speaks || tls && found.is_empty() && side == Side::Server {
            continue;
        }
        let answered = found.last().filter(|last| last.parts.server.is_some()).and(began);
        let silent = vantage.has_heard(side, sent[!side], segment.time);
        sent[side] = segment.time;
        if control_frames::is_control(connection, segment, &(start..end), silent) {
            continue;
        }
        match side {
            // What the client sent before it could hear the answer is no new request.
            Side::Client
                if answered.is_some_and(|at| vantage.has_heard(side, at, segment.time)) || found.is_empty() =>
            {
                // What was small, and long before the rest, was talk after all.
                asks = asks.filter(|(at, begin)| {
                    start.saturating_sub(*begin) > control_frames::TALK.into() || segment.time < at + vantage.rtt() / 2
                });
                asks.get_or_insert((segment.time, start));
                if found.is_empty() {
                    found.push(Exchange::default());
                    asks = None;
                }
            }
            Side::Client => {}
            Side::Server => {
                if let Some((asked, at)) = asks.take()
                    && vantage.has_heard(Side::Server, asked, segment.time)
                {
                    if let Some(last) = found.last_mut() {
                        cut(&mut last.parts.client, at);
                    }
                    found.push(Exchange {
                        parts: PerSide { client: Some((at, next.client)), server: None },
                        ..Exchange::default()
                    });
                }
                if found.is_empty() {
                    found.push(Exchange::default());
                }
            }
        }
        if let Some(last) = found.last_mut() {
            if side == Side::Server && last.parts.server.is_none() {
                began = Some(segment.time);
            }
            let part = last.parts[side].get_or_insert((start, end));
            part.1 = end;
        }
    }
    if let Some((_, at)) = asks {
        if let Some(last) = found.last_mut() {
            cut(&mut last.parts.client, at);
        }
        found
            .push(Exchange { parts: PerSide { client: Some((at, next.client)), server: None }, ..Exchange::default() });
    }
    found
}

/// Ends a part before the byte that another begins with.
fn cut(part: &mut Option<(u64, u64)>, at: u64) {
    if let Some((start, end)) = part {
        *end = at.max(*start).min(*end);
    }
}
