//! Control frames: data of the protocol above TCP that is no message, such as HTTP/2's `WINDOW_UPDATE`.
//!
//! Without TLS, frames can be read. Inside TLS only sizes are visible, and two questions must be answered from them.
//!
//! **Is a small segment a control frame, or a message?** HTTP/2's response to a `PUT` has a dozen bytes, as have its
//! window updates. But control frames have fixed lengths: 13 bytes (`WINDOW_UPDATE`, RFC 9113 §6.9), 9 (`SETTINGS`
//! acknowledgement, §6.5) or 17 (`PING`, §6.7), plus the overhead of a record: 22 bytes in TLS 1.3, 29 or 21 in TLS 1.2
//! with AES-GCM or ChaCha20 (RFC 8446 §5.2, RFC 5288 §3, RFC 7905 §2). A small segment of another length is a message,
//! if its sender may have received everything that the other side sent.
//!
//! **Did an HTTP/2 window stop the sender?** That it went on when a control frame came proves nothing: a client that
//! sends one request at a time does the same. The pattern of a window is a sender that stops after the same number of
//! bytes again and again, and this number is a plausible window, or quarters of one, since receivers open it frame by
//! frame. Without this pattern, HTTP/2 is not blamed.

use std::{cmp::Reverse, collections::VecDeque, ops::Range};

use super::{sender_properties::mss, vantage::VantagePoint};
use crate::{
    collect::CapturedConnection,
    read::Protocol,
    segment::SegmentRecord,
    side::{PerSide, Side},
    stream_offset::ORIGIN,
};

/// The largest TLS segment that may be a control frame: one or two HTTP/2 frames with their record overhead.
pub(crate) const MAX_CONTROL_FRAME: u32 = 80;

/// The lengths in records of frames of 9, 13, 17 and twice 13 bytes, and of the closing alert (RFC 8446 §6.1) alone,
/// twice, and after a frame of 17 bytes.
const CONTROL_LENGTHS: [u32; 16] = [23, 24, 30, 31, 34, 35, 38, 39, 42, 46, 47, 48, 55, 63, 70, 77];

/// The lengths of one to four window updates (RFC 9113 §6.9) without TLS.
const PLAIN_LENGTHS: [u32; 4] = [13, 26, 39, 52];

/// The maximum number of bytes that a server sends before any response: HTTP/2's settings, and session tickets
/// (RFC 8446 §4.6.1).
pub(super) const MAX_PRELUDE: u64 = 800;

/// The number of data packets that are searched for the prelude.
const PRELUDE_PACKETS: usize = 64;

/// How often a sender must stop after the same number of bytes.
const MIN_REPEATS: usize = 3;

/// The smallest and the largest window considered, as powers of two: the minimum of the maximum frame size (RFC 9113
/// §4.2), and more than any receiver offers.
const WINDOW_POWERS: Range<u32> = 14..25;

/// The maximum overhead of frames and records, relative to a window's bytes. It is largest for programs that begin with
/// small records.
const MAX_OVERHEAD: f64 = 1.035;

/// By how much the overhead may differ from burst to burst.
const OVERHEAD_TOLERANCE: f64 = 0.005;

/// How soon a sender reacts when its window opens, in nanoseconds.
const PROMPT: u64 = 3_000_000;

/// Whether a segment is a control frame, unless a message begins with it. `has_heard_all` says whether its sender may
/// have received everything that the other side has sent.
pub(crate) fn is_control_frame(
    connection: &CapturedConnection,
    segment: &SegmentRecord,
    range: &Range<u64>,
    has_heard_all: bool,
) -> bool {
    let content = &connection.content;
    if segment.len > MAX_CONTROL_FRAME {
        return false;
    }
    if segment.from() == Side::Server && content.has_continue(range.start) {
        return true;
    }
    match content.protocol {
        Protocol::Tls => {
            let is_secured = content.secured[segment.from()].is_some_and(|secured| range.start > secured);
            is_secured && (!has_heard_all || CONTROL_LENGTHS.contains(&segment.len))
        }
        Protocol::Http2 => {
            let updates = &content.window_updates[segment.from()];
            let next = updates.partition_point(|start| *start < range.start);
            let has_update = updates.get(next).is_some_and(|start| range.contains(start));
            let begins_message = || content.messages[segment.from()].iter().any(|one| range.contains(&one.start));
            has_update && !begins_message()
        }
        Protocol::HiddenHttp2 => {
            !has_heard_all || PLAIN_LENGTHS.contains(&segment.len) || CONTROL_LENGTHS.contains(&segment.len)
        }
        Protocol::Unknown | Protocol::Http1 => false,
    }
}

/// Recognises HTTP/2 by the pattern of its windows, in a capture of headers only.
pub(crate) fn recognise_hidden_http2(connection: &mut CapturedConnection, vantage: &VantagePoint) {
    if connection.content.protocol != Protocol::Unknown || !connection.cut.has_data {
        return;
    }
    connection.content.protocol = Protocol::HiddenHttp2;
    let mut windows =
        [Side::Client, Side::Server].map(|side| flow_control_window(connection, vantage, side)).into_iter();
    if windows.all(|window| window.is_none()) {
        connection.content.protocol = Protocol::Unknown;
    }
}

/// Where the server's prelude ends: what it sends as soon as the handshake is over, if its next data is the response;
/// 0 if there is no prelude. Only inside TLS, where it cannot be read.
///
/// A client that sends after it is continuing its request, which its window had stopped: either it cannot have received
/// the prelude yet, or its last segment was a full one.
pub(crate) fn prelude_end(connection: &CapturedConnection, vantage: &VantagePoint) -> u64 {
    let (Some(client), Some(mut server)) = (connection.offsets.client, connection.offsets.server) else { return 0 };
    let (Some(client_secured), Some(server_secured)) =
        (connection.content.secured.client, connection.content.secured.server)
    else {
        return 0;
    };
    // Until the first `100 Continue`, the server has sent only session tickets.
    if let (Protocol::Tls, Some(answer)) = (connection.content.protocol, connection.content.continues.server.first()) {
        return *answer;
    }
    server = server.rewound();
    let (mut client, mss) = (client.rewound(), mss(connection, Side::Client).max(1));
    let pause = PROMPT.max(vantage.rtt() / 8);
    let (mut has_request, mut prelude_bytes, mut end, mut last) = (false, 0, 0, 0);
    // Whether the client's last segment was full, and whether it continued its request after the prelude.
    let (mut was_full, mut has_continued) = (false, false);
    for segment in connection.segments.iter().filter(|segment| segment.len > 0).take(PRELUDE_PACKETS) {
        if segment.from() == Side::Client {
            // The request may share a packet with the end of the handshake.
            let sent = client.of(segment.seq).map(|start| start + u64::from(segment.len));
            let is_request = sent.is_some_and(|sent| sent > client_secured);
            let follows_prelude = is_request && prelude_bytes > 0 && segment.len > MAX_CONTROL_FRAME;
            if follows_prelude && vantage.has_heard(Side::Client, last, segment.time) {
                if !was_full && server.near(segment.ack) >= end {
                    return 0;
                }
                has_continued = true;
            }
            has_request |= is_request;
            was_full = u64::from(segment.len).is_multiple_of(mss);
            continue;
        }
        let Some(start) = server.of(segment.seq) else { continue };
        if !has_request || start < server_secured {
            continue;
        }
        if prelude_bytes > 0 && segment.time > last + pause {
            return end;
        }
        prelude_bytes += u64::from(segment.len);
        if prelude_bytes > MAX_PRELUDE {
            return 0;
        }
        (end, last) = (start + u64::from(segment.len), segment.time);
    }
    if has_continued { end } else { 0 }
}

/// The HTTP/2 flow-control window in bytes that repeatedly stopped a side, if the pattern shows one.
pub(crate) fn flow_control_window(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Option<u64> {
    if !matches!(connection.content.protocol, Protocol::Tls | Protocol::HiddenHttp2 | Protocol::Http2) {
        return None;
    }
    let bursts = bursts(connection, vantage, side)?;
    let large: Vec<u64> = bursts.into_iter().filter(|bytes| *bytes >= 1 << WINDOW_POWERS.start).collect();
    let candidates = WINDOW_POWERS.map(|power| {
        let window = 1_u64 << power;
        // How many quarters of the window a burst is, and its overhead.
        let fit = |bytes: &u64| {
            let quarters = bytes * 4 / (window - 1);
            let overhead = (bytes * 4) as f64 / (quarters * (window - 1)) as f64;
            ((1..=4).contains(&quarters) && overhead < MAX_OVERHEAD).then_some((quarters, overhead))
        };
        let mut fits: Vec<(u64, f64)> = large.iter().filter_map(fit).collect();
        fits.sort_unstable_by(|(_, one), (_, other)| one.total_cmp(other));
        let median = fits.get(fits.len() / 2).map_or(1.0, |(_, overhead)| *overhead);
        fits.retain(|(_, overhead)| (overhead - median).abs() <= OVERHEAD_TOLERANCE);
        let whole = fits.iter().filter(|(quarters, _)| *quarters == 4).count();
        (fits.len(), whole, Reverse(window))
    });
    let (count, _, Reverse(window)) = candidates.max()?;
    // The initial window is one byte less than a power of two (RFC 9113 §6.9.2).
    let window = if window == 1 << 16 { window - 1 } else { window };
    // The congestion window limits some round trips.
    (count >= MIN_REPEATS && count * 3 >= large.len()).then_some(window)
}

/// The bytes that a side sent in each round trip that began with a control frame upon which it went on.
fn bursts(connection: &CapturedConnection, vantage: &VantagePoint, side: Side) -> Option<Vec<u64>> {
    let mut offsets =
        PerSide { client: connection.offsets.client?.rewound(), server: connection.offsets.server?.rewound() };
    let pause = PROMPT.max(vantage.rtt() / 8);
    let (mut bursts, mut burst, mut snd_nxt) = (Vec::new(), 0, ORIGIN);
    // When it last sent, and when control frames reach it, both as seen from the capture point.
    let (mut last_sent, mut control_frames) = (None, VecDeque::new());
    let mut round_began: Option<u64> = None;
    for segment in connection.segments.iter().filter(|segment| segment.len > 0) {
        let Some(start) = offsets[segment.from()].of(segment.seq) else { continue };
        let end = start + u64::from(segment.len);
        if segment.from() == side {
            if end <= snd_nxt {
                continue;
            }
            let arrived = std::iter::from_fn(|| control_frames.pop_front_if(|arrival| *arrival <= segment.time)).last();
            if let Some(arrived) = arrived {
                // A receiver opens its window in small steps, all of them within a round trip.
                let is_next_round = round_began.is_none_or(|began| segment.time >= began + vantage.rtt() * 7 / 10);
                let was_silent = last_sent.is_some_and(|last| arrived > last + pause);
                if was_silent && is_next_round && segment.time <= arrived + 2 * pause {
                    round_began = Some(segment.time);
                    bursts.push(std::mem::take(&mut burst));
                }
            }
            burst += end - start.max(snd_nxt);
            (snd_nxt, last_sent) = (end, Some(segment.time));
        } else if is_control_frame(connection, segment, &(start..end), true) {
            control_frames.push_back(segment.time + vantage.rtt_to[side] - vantage.rtt_to[side] / 16);
        } else {
            // A message: what is sent upon it is another message.
            burst = 0;
            control_frames.clear();
        }
    }
    Some(bursts)
}
