//! `100 Continue` inside TLS, by the sizes of what passes.
//!
//! The server's interim response is nearly always `HTTP/1.1 100 Continue` and an empty line: 25 bytes, and a record's
//! overhead. The client sends it a head, is silent until it arrives, and sends a body then. In HTTP/2 the same sizes could
//! be a short response and the next request, so the protocol must be known: the first frame of an HTTP/2 server is SETTINGS
//! (RFC 9113 §3.4), and no SETTINGS frame has 25 bytes, alone or with the other frames of a handshake. So the record must
//! be the server's first besides session tickets; a connection on which that was so is HTTP/1.1, and later ones count too.
//!
//! If no `100 Continue` comes, the client's silence is that of any program that has nothing to send. It is not claimed.

use super::{
    control_frames::{MAX_CONTROL_FRAME, MAX_PRELUDE},
    vantage::VantagePoint,
};
use crate::{
    collect::CapturedConnection,
    read::Protocol,
    side::{PerSide, Side},
    stream_offset::ORIGIN,
};

/// The length of a segment with `100 Continue` in TLS 1.3 (RFC 8446 §5.2).
const TLS13: [u32; 1] = [25 + 22];

/// The same in TLS 1.2, with AES-GCM and ChaCha20 (RFC 5288 §3, RFC 7905 §2).
const TLS12: [u32; 2] = [25 + 29, 25 + 21];

/// The smallest segment that counts as session tickets (RFC 8446 §4.6.1): larger than the frames with which an HTTP/2
/// server begins.
const MIN_TICKET: u32 = 150;

/// The most bytes of a head that a client sends at once.
const MAX_HEAD: u64 = 16 << 10;

/// What may be a `100 Continue`.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// Where it begins, and where the client's head ends.
    start: u64,
    head_end: u64,
    time: u64,
}

/// Finds the bodies that the client of a TLS connection held back.
pub(crate) fn recognise_in_tls(connection: &mut CapturedConnection, vantage: &VantagePoint) {
    let found = held_bodies(connection, vantage);
    for (body, answer) in found {
        connection.content.continues.client.push(body);
        connection.content.continues.server.push(answer);
    }
}

/// Where the bodies begin, and the `100 Continue` before each.
fn held_bodies(connection: &CapturedConnection, vantage: &VantagePoint) -> Vec<(u64, u64)> {
    let content = &connection.content;
    let (Some(client), Some(server)) = (connection.offsets.client, connection.offsets.server) else {
        return Vec::new();
    };
    let (Some(client_secured), Some(server_secured)) = (content.secured.client, content.secured.server) else {
        return Vec::new();
    };
    if content.protocol != Protocol::Tls {
        return Vec::new();
    }
    let lengths: &[u32] = if content.is_tls13() { &TLS13 } else { &TLS12 };
    let mut offsets = PerSide { client: client.rewound(), server: server.rewound() };
    let (mut snd_nxt, mut found) = (PerSide { client: ORIGIN, server: ORIGIN }, Vec::new());
    let mut candidate: Option<Candidate> = None;
    // The bytes of the request so far, when the last of them passed, those of session tickets, and whether the server has sent
    // anything else.
    let (mut head, mut last_sent, mut tickets, mut has_responded) = (0, 0, 0, false);
    for segment in connection.segments.iter().filter(|segment| segment.len > 0) {
        let side = segment.from();
        let Some(start) = offsets[side].of(segment.seq) else { continue };
        let end = start + u64::from(segment.len);
        if start < snd_nxt[side] {
            continue;
        }
        snd_nxt[side] = end;
        if side == Side::Client {
            if end <= client_secured {
                continue;
            }
            if let Some(Candidate { start: answer, head_end, time }) = candidate.take()
                && start == head_end
                && segment.len > MAX_CONTROL_FRAME
                && vantage.has_heard(side, time, segment.time)
            {
                found.push((start, answer));
            }
            head += u64::from(segment.len);
            last_sent = segment.time;
            continue;
        }
        if start < server_secured || head == 0 {
            continue;
        }
        let has_heard = vantage.has_heard(side, last_sent, segment.time);
        let is_first = !has_responded || !found.is_empty();
        if is_first && has_heard && head <= MAX_HEAD && lengths.contains(&segment.len) && candidate.is_none() {
            candidate = Some(Candidate { start, head_end: snd_nxt.client, time: segment.time });
            continue;
        }
        tickets += u64::from(segment.len);
        if has_responded || candidate.is_some() || segment.len < MIN_TICKET || tickets > MAX_PRELUDE {
            (has_responded, head, candidate) = (true, 0, None);
        }
    }
    found
}
