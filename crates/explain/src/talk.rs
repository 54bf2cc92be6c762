//! Talk: what the protocol above TCP says beside its messages, as HTTP/2 does when it gives room.
//!
//! In the clear its frames say what they are. Inside TLS there are only sizes, and two things must be told from them.
//!
//! **Is a small segment talk, or a message?** HTTP/2's answer to a `PUT` has a dozen bytes, as its windows have. But those
//! have lengths of their own: a frame of 13 bytes (`WINDOW_UPDATE`, RFC 9113 §6.9), 9 (`SETTINGS` acknowledged, §6.5) or
//! 17 (`PING`, §6.7), and what a record adds: 22 bytes in TLS 1.3, 29 or 21 in TLS 1.2 with AES-GCM or ChaCha20 (RFC 8446
//! §5.2, RFC 5288 §3, RFC 7905 §2). A small segment of another length, from a side that may have heard all that the other
//! sent, is a message.
//!
//! **Did HTTP/2's window stop a sender?** That it went on when talk came proves nothing: who asks one thing at a time does
//! so too. A window shows by what it is: the sender stops after the same number of bytes again and again, a number such
//! as windows have. Where it does not, nothing is said of HTTP/2.

use std::ops::Range;

use crate::{
    collect::Connection,
    event::{Both, Event, ORIGIN, Offsets, Side},
    read::Protocol,
    vantage::Place,
};

/// The largest TLS segment that may be the protocol's own talk: a frame or two of HTTP/2 with their seals.
pub(crate) const TALK: u32 = 80;

/// What frames of 9, 13, 17 and twice 13 bytes are in records, and the alert that closes (RFC 8446 §6.1) by itself, twice,
/// and behind a frame of 17.
const FRAMES: [u32; 16] = [23, 24, 30, 31, 34, 35, 38, 39, 42, 46, 47, 48, 55, 63, 70, 77];

/// The most that a server says first of all, in bytes: HTTP/2's settings, tickets to resume the session (RFC 8446 §4.6.1).
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

/// How soon a sender goes on when it is given room, in nanoseconds.
const PROMPT: u64 = 3_000_000;

/// Whether a segment is talk, unless a message begins with it; `silent` says whether its sender may have heard all that
/// the other side has sent.
pub(crate) fn is_talk(connection: &Connection, event: &Event, at: &Range<u64>, silent: bool) -> bool {
    let content = &connection.content;
    if event.len > TALK {
        return false;
    }
    match content.protocol {
        Protocol::Tls => {
            let secured = content.secured[event.from()].is_some_and(|secured| at.start > secured);
            secured && !(silent && may_be_message(event))
        }
        Protocol::Http2 => {
            let updates = &content.window_updates[event.from()];
            let has = |places: &[u64]| {
                let place = places.partition_point(|place| *place < at.start);
                places.get(place).is_some_and(|place| at.contains(place))
            };
            let begins = content.messages[event.from()].iter().any(|message| at.contains(&message.start));
            !begins && has(updates)
        }
        _ => false,
    }
}

/// Whether a small segment has another length than talk.
fn may_be_message(event: &Event) -> bool {
    !FRAMES.contains(&event.len)
}

/// Up to which byte a server speaks before it answers anything: what it says as soon as the handshake is over, if the
/// next that comes is the answer. With TLS alone, where nobody can read it.
pub(crate) fn prelude(connection: &Connection, place: &Place) -> u64 {
    let Some(mut offsets) = connection.offsets.server.map(Offsets::rewound) else { return 0 };
    let Some(secured) = connection.content.secured.client.and(connection.content.secured.server) else { return 0 };
    let pause = PROMPT.max(place.rtt() / 8);
    let (mut asked, mut spoken, mut end, mut last) = (false, 0, 0, 0);
    for event in connection.events.iter().filter(|event| event.len > 0).take(BEGINNING) {
        if event.from() == Side::Client {
            let seq = connection.offsets.client.map_or(0, |offsets| offsets.rewound().near(event.seq));
            let data = connection.content.secured.client.is_some_and(|secured| seq >= secured);
            if data && spoken > 0 && event.len > TALK && place.has_heard(Side::Client, last, event.time) {
                return 0;
            }
            asked |= data;
            continue;
        }
        let Some(start) = offsets.of(event.seq) else { continue };
        if !asked || start < secured {
            continue;
        }
        if spoken > 0 && event.time > last + pause {
            return end;
        }
        spoken += u64::from(event.len);
        if spoken > PRELUDE {
            return 0;
        }
        (end, last) = (start + u64::from(event.len), event.time);
    }
    0
}

/// HTTP/2's window by which one side was stopped, in bytes, where TLS hides who gave room and the pattern shows it.
pub(crate) fn window(connection: &Connection, place: &Place, side: Side) -> Option<u64> {
    if connection.content.protocol != Protocol::Tls {
        return None;
    }
    let bursts = bursts(connection, place, side)?;
    let whole: Vec<u64> = bursts.into_iter().filter(|bytes| *bytes >= 1 << WINDOWS.start).collect();
    let fits = |window: u64, bytes: u64| (1.0..SEALED).contains(&(bytes as f64 / (window - 1) as f64));
    let fitting = WINDOWS.map(|power| 1_u64 << power).map(|window| {
        let mut fitting: Vec<u64> = whole.iter().copied().filter(|bytes| fits(window, *bytes)).collect();
        fitting.sort_unstable();
        let middle = fitting.get(fitting.len() / 2).copied().unwrap_or(0);
        (fitting.iter().filter(|bytes| bytes.abs_diff(middle) * 200 <= middle).count(), window)
    });
    let (count, window) = fitting.max_by_key(|(count, _)| *count)?;
    // The protocol's own first window is one less (RFC 9113 §6.9.2).
    let window = if window == 1 << 16 { window - 1 } else { window };
    // Some round trips give half of it, some more than once.
    (count >= REPEATS && count * 3 >= whole.len()).then_some(window)
}

/// How much a side sent in each round trip that began with talk which let it go on.
fn bursts(connection: &Connection, place: &Place, side: Side) -> Option<Vec<u64>> {
    let mut offsets =
        Both { client: connection.offsets.client?.rewound(), server: connection.offsets.server?.rewound() };
    let pause = PROMPT.max(place.rtt() / 8);
    let (mut bursts, mut sent, mut next) = (Vec::new(), 0, ORIGIN);
    // When it last sent, and when talk came while it was silent.
    let (mut last, mut talk) = (None, None);
    // When this round trip began.
    let mut began: Option<u64> = None;
    for event in connection.events.iter().filter(|event| event.len > 0) {
        let Some(start) = offsets[event.from()].of(event.seq) else { continue };
        let end = start + u64::from(event.len);
        if event.from() == side {
            if end <= next {
                continue;
            }
            let prompt = |at: u64| event.time <= at + place.to[side] + pause;
            // A receiver gives room little by little; all of it comes in a round trip.
            let another = began.is_none_or(|began| event.time >= began + place.rtt() * 7 / 10);
            if talk.take().is_some_and(prompt) && another {
                began = Some(event.time);
                bursts.push(std::mem::take(&mut sent));
            }
            sent += end - start.max(next);
            (next, last) = (end, Some(event.time));
        } else if is_talk(connection, event, &(start..end), true) {
            let silent = last.is_some_and(|last| event.time + place.to[side] > last + pause);
            talk = if silent { talk.or(Some(event.time)) } else { None };
        } else {
            // A message: what is sent upon it is another.
            (sent, talk) = (0, None);
        }
    }
    Some(bursts)
}
