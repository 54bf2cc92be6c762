//! Talk: what the protocol above TCP says beside its messages, as HTTP/2 does when it gives room.
//!
//! In the clear its frames say what they are. Inside TLS there are only sizes, and two things must be told from them.
//!
//! **Is a small segment talk, or a message?** HTTP/2's answer to a `PUT` has a dozen bytes, as its windows have. But
//! those have lengths of their own: a frame of 13 bytes (`WINDOW_UPDATE`, RFC 9113 §6.9), 9 (`SETTINGS` acknowledged,
//! §6.5) or 17 (`PING`, §6.7), and what a record adds: 22 bytes in TLS 1.3, 29 or 21 in TLS 1.2 with AES-GCM or
//! ChaCha20 (RFC 8446 §5.2, RFC 5288 §3, RFC 7905 §2). A small segment of another length, from a side that may have
//! heard all that the other sent, is a message.
//!
//! **Did HTTP/2's window stop a sender?** That it went on when talk came proves nothing: who asks one thing at a time
//! does so too. A window shows by what it is: the sender stops after the same number of bytes again and again, a number
//! such as windows have, or quarters of it, as receivers give room frame by frame. Where it does not, nothing is said
//! of HTTP/2.

use std::{cmp::Reverse, collections::VecDeque, ops::Range};

use super::{facts::mss, vantage::VantagePoint};
use crate::{
    collect::CapturedConnection,
    read::Protocol,
    segment::SegmentRecord,
    side::{PerSide, Side},
    stream_offset::ORIGIN,
};

/// The largest TLS segment that may be the protocol's own talk: a frame or two of HTTP/2 with their seals.
pub(crate) const TALK: u32 = 80;

/// What frames of 9, 13, 17 and twice 13 bytes are in records, and the alert that closes (RFC 8446 §6.1) by itself,
/// twice, and behind a frame of 17.
const FRAMES: [u32; 16] = [23, 24, 30, 31, 34, 35, 38, 39, 42, 46, 47, 48, 55, 63, 70, 77];

/// The most that a server says first of all, in bytes: HTTP/2's settings, tickets to resume the session (RFC 8446
/// §4.6.1).
const PRELUDE: u64 = 800;

/// How many packets of a connection are searched for that.
const BEGINNING: usize = 64;

/// How often a sender must stop after the same number of bytes.
const REPEATS: usize = 3;

/// The smallest and the largest window that is looked for, as powers of two: a frame's size (RFC 9113 §4.2), and more
/// than any receiver gives.
const WINDOWS: Range<u32> = 14..25;

/// What frames and records add to a window's bytes at most: programs that begin with small records add most.
const SEALED: f64 = 1.035;

/// How far apart that may be from burst to burst.
const ALIKE: f64 = 0.005;

/// How soon a sender goes on when it is given room, in nanoseconds.
const PROMPT: u64 = 3_000_000;

/// Whether a segment is talk, unless a message begins with it; `silent` says whether its sender may have heard all that
/// the other side has sent.
pub(crate) fn is_control(
    connection: &CapturedConnection,
    segment: &SegmentRecord,
    at: &Range<u64>,
    silent: bool,
) -> bool {
    let content = &connection.content;
    if segment.len > TALK {
        return false;
    }
    match content.protocol {
        Protocol::Tls => {
            let secured = content.secured[segment.from()].is_some_and(|secured| at.start > secured);
            secured && !(silent && may_be_message(segment))
        }
        Protocol::Http2 => {
            let updates = &content.window_updates[segment.from()];
            let has = |starts: &[u64]| {
                let index = starts.partition_point(|start| *start < at.start);
                starts.get(index).is_some_and(|start| at.contains(start))
            };
            let begins = content.messages[segment.from()].iter().any(|message| at.contains(&message.start));
            !begins && has(updates)
        }
        _ => false,
    }
}

/// Whether a small segment has another length than talk.
fn may_be_message(segment: &SegmentRecord) -> bool {
    !FRAMES.contains(&segment.len)
}

/// Up to which byte a server speaks before it answers anything: what it says as soon as the handshake is over, if the
/// next that comes is the answer. With TLS alone, where nobody can read it.
///
/// A client that sends after that may only go on with its request, which its window had stopped: it has not heard the
/// server yet, or its last segment was a full one.
pub(crate) fn prelude(connection: &CapturedConnection, vantage: &VantagePoint) -> u64 {
    let (Some(asks), Some(mut offsets)) = (connection.offsets.client, connection.offsets.server) else { return 0 };
    let (Some(first), Some(secured)) = (connection.content.secured.client, connection.content.secured.server) else {
        return 0;
    };
    offsets = offsets.rewound();
    let (mut asks, mss) = (asks.rewound(), mss(connection, Side::Client).max(1));
    let pause = PROMPT.max(vantage.rtt() / 8);
    let (mut asked, mut spoken, mut end, mut last) = (false, 0, 0, 0);
    // Whether the client's last segment was full, and whether it went on with its request when the server had spoken.
    let (mut full, mut went_on) = (false, false);
    for segment in connection.segments.iter().filter(|segment| segment.len > 0).take(BEGINNING) {
        if segment.from() == Side::Client {
            let data = asks.of(segment.seq).is_some_and(|start| start >= first);
            if data && spoken > 0 && segment.len > TALK && vantage.has_heard(Side::Client, last, segment.time) {
                if !full && offsets.near(segment.ack) >= end {
                    return 0;
                }
                went_on = true;
            }
            asked |= data;
            full = u64::from(segment.len).is_multiple_of(mss);
            continue;
        }
        let Some(start) = offsets.of(segment.seq) else { continue };
        if !asked || start < secured {
            continue;
        }
        if spoken > 0 && segment.time > last + pause {
            return end;
        }
        spoken += u64::from(segment.len);
        if spoken > PRELUDE {
            return 0;
        }
        (end, last) = (start + u64::from(segment.len), segment.time);
    }
    if went_on { end } else { 0 }
}

/// HTTP/2's window by which one side was stopped, in bytes, where TLS hides who gave room and the pattern shows it.
pub(crate) fn window(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Option<u64> {
    if connection.content.protocol != Protocol::Tls {
        return None;
    }
    let bursts = bursts(connection, vantage, side)?;
    let whole: Vec<u64> = bursts.into_iter().filter(|bytes| *bytes >= 1 << WINDOWS.start).collect();
    let fitting = WINDOWS.map(|power| {
        let window = 1_u64 << power;
        // How many quarters of the window a burst is, and how much more by frames and records.
        let fits = |bytes: &u64| {
            let quarters = bytes * 4 / (window - 1);
            let more = (bytes * 4) as f64 / (quarters * (window - 1)) as f64;
            ((1..=4).contains(&quarters) && more < SEALED).then_some((quarters, more))
        };
        let mut fitting: Vec<(u64, f64)> = whole.iter().filter_map(fits).collect();
        fitting.sort_unstable_by(|(_, one), (_, other)| one.total_cmp(other));
        let usual = fitting.get(fitting.len() / 2).map_or(1.0, |(_, more)| *more);
        fitting.retain(|(_, more)| (more - usual).abs() <= ALIKE);
        let full = fitting.iter().filter(|(quarters, _)| *quarters == 4).count();
        (fitting.len(), full, Reverse(window))
    });
    let (count, _, Reverse(window)) = fitting.max()?;
    // The protocol's own first window is one less (RFC 9113 §6.9.2).
    let window = if window == 1 << 16 { window - 1 } else { window };
    // Some round trips are the congestion window's.
    (count >= REPEATS && count * 3 >= whole.len()).then_some(window)
}

/// How much a side sent in each round trip that began with talk which let it go on.
fn bursts(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Option<Vec<u64>> {
    let mut offsets =
        PerSide { client: connection.offsets.client?.rewound(), server: connection.offsets.server?.rewound() };
    let pause = PROMPT.max(vantage.rtt() / 8);
    let (mut bursts, mut sent, mut next) = (Vec::new(), 0, ORIGIN);
    // When it last sent, and when talk reaches it, both as seen from here.
    let (mut last, mut talk) = (None, VecDeque::new());
    // When this round trip began.
    let mut began: Option<u64> = None;
    for segment in connection.segments.iter().filter(|segment| segment.len > 0) {
        let Some(start) = offsets[segment.from()].of(segment.seq) else { continue };
        let end = start + u64::from(segment.len);
        if segment.from() == side {
            if end <= next {
                continue;
            }
            // What was on its way before the talk could be heard is of the round trip before.
            let heard = std::iter::from_fn(|| talk.pop_front_if(|heard| *heard <= segment.time)).last();
            if let Some(heard) = heard {
                // A receiver gives room little by little; all of it comes in a round trip.
                let another = began.is_none_or(|began| segment.time >= began + vantage.rtt() * 7 / 10);
                let silent = last.is_some_and(|last| heard > last + pause);
                if silent && another && segment.time <= heard + 2 * pause {
                    began = Some(segment.time);
                    bursts.push(std::mem::take(&mut sent));
                }
            }
            sent += end - start.max(next);
            (next, last) = (end, Some(segment.time));
        } else if is_control(connection, segment, &(start..end), true) {
            talk.push_back(segment.time + vantage.rtt_to[side] - vantage.rtt_to[side] / 16);
        } else {
            // A message: what is sent upon it is another.
            sent = 0;
            talk.clear();
        }
    }
    Some(bursts)
}
