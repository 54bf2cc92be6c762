//! The content of a connection, as far as it can be read: HTTP messages, TLS records, window updates.
//!
//! Bodies are skipped by their length: a reader says at which byte of the stream it continues, and everything before is
//! ignored, whether it was captured or not. From there it gets the bytes in order; out-of-order segments are kept for it,
//! up to [`MAX_EARLY`] bytes. A reader that misses a byte it needs gives up, and the connection's exchanges are then
//! inferred from the ends' turns.

pub(crate) mod dns;
mod http1;
mod http2;
mod request_target;
mod tls;

pub(crate) use tls::alert_name;

use std::collections::VecDeque;

use crate::{
    side::{PerSide, Side},
    stream_offset::ORIGIN,
};

/// The maximum number of out-of-order bytes that are kept.
const MAX_EARLY: usize = 256 << 10;

/// The number of bytes that suffice to recognise a protocol: the length of HTTP/2's preface.
const RECOGNISABLE: usize = 24;

/// The maximum size of a message head in bytes; servers refuse much smaller ones.
const MAX_HEAD: usize = 64 << 10;

/// A request or a response; its range is given in stream offsets.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// The first byte.
    pub(crate) start: u64,
    /// The byte after it; [`u64::MAX`] if the stream's end ends it, or its end was not found.
    pub(crate) end: u64,
    /// `GET /index.html?page=2`, with secrets of the query masked; `200`.
    pub(crate) label: Box<str>,
}

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// Not recognised.
    #[default]
    Unknown,
    Http1,
    Http2,
    Tls,
    /// HTTP/2 whose bytes were not captured: its receiver's window stops the sender again and again.
    HiddenHttp2,
}

/// What was read of a connection.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) protocol: Protocol,
    pub(crate) messages: PerSide<Vec<Message>>,
    /// Where the first TLS record of application data begins.
    pub(crate) secured: PerSide<Option<u64>>,
    /// Where the bodies begin before which the client waits for `100 Continue` (RFC 9110 §10.1.1), and where the server's
    /// `100 Continue` begin.
    pub(crate) continues: PerSide<Vec<u64>>,
    /// Where each side sent an HTTP/2 `WINDOW_UPDATE` (RFC 9113 §6.9).
    pub(crate) window_updates: PerSide<Vec<u64>>,
    /// Whether the client's Finished message is expected.
    finished: bool,
    /// The methods of the requests without response so far, which affect the length of the response's body.
    methods: VecDeque<http1::Method>,
    streams: PerSide<Stream>,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Stream {
    /// The next byte that the reader needs.
    next: Option<u64>,
    /// Out-of-order bytes.
    early: Vec<(u64, Box<[u8]>)>,
    early_bytes: usize,
    /// Whether its first byte is in the capture.
    is_from_start: bool,
    /// Whether data passed before a message was recognised.
    has_skipped: bool,
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    /// Nothing was recognised so far.
    New(Vec<u8>),
    Http1(http1::Reader),
    Http2(http2::Reader),
    Tls(tls::Reader),
    /// It cannot be read, or not any longer.
    GivenUp,
}

impl Default for Reader {
    fn default() -> Self {
        Self::New(Vec::new())
    }
}

impl Content {
    /// The capture contains a side's stream from its first byte on.
    pub(crate) fn begin(&mut self, side: Side) {
        let stream = &mut self.streams[side];
        (stream.next, stream.is_from_start) = (Some(ORIGIN), true);
    }

    /// Adds data at this offset of a side's stream: the captured bytes, and the original length.
    pub(crate) fn add(&mut self, from: Side, at: u64, kept: &[u8], len: u32) {
        let stream = &mut self.streams[from];
        if matches!(stream.reader, Reader::GivenUp) {
            // In a truncated capture, records occasionally begin with a segment.
            if self.protocol == Protocol::Tls && tls::is_data(kept) {
                self.secured[from].get_or_insert(at);
            }
            return;
        }
        let next = *stream.next.get_or_insert(at);
        let end = at + kept.len() as u64;
        if end <= next {
            // A body that is skipped, or a retransmission. A head truncated by the capture ends here.
            if at <= next && next < at + u64::from(len) && kept.len() < len as usize {
                self.cut(from, next);
            }
            return;
        }
        if at > next {
            if stream.early_bytes + kept.len() > MAX_EARLY {
                return self.give_up(from);
            }
            stream.early_bytes += kept.len();
            stream.early.push((at, kept.into()));
            return;
        }
        self.read(from, &kept[(next - at) as usize..]);
        self.read_early(from);
        let missing = end..at + u64::from(len);
        if let Some(next) = self.streams[from].next.filter(|next| missing.contains(next)) {
            self.cut(from, next);
        }
    }

    /// Continues with out-of-order bytes.
    fn read_early(&mut self, from: Side) {
        loop {
            let stream = &mut self.streams[from];
            let Some(next) = stream.next else { return };
            stream.early.retain(|(at, kept)| at + kept.len() as u64 > next);
            let Some(index) = stream.early.iter().position(|(at, _)| *at <= next) else {
                stream.early_bytes = stream.early.iter().map(|(_, kept)| kept.len()).sum();
                return;
            };
            let (at, kept) = stream.early.swap_remove(index);
            self.read(from, &kept[(next - at) as usize..]);
        }
    }

    /// Reads the bytes that are next in order.
    fn read(&mut self, from: Side, bytes: &[u8]) {
        let Some(at) = self.streams[from].next else { return };
        let mut reader = std::mem::take(&mut self.streams[from].reader);
        let (mut whole, mut begin) = (bytes, at);
        let given;
        if let Reader::New(first) = &mut reader {
            let mut joined = std::mem::take(first);
            joined.extend_from_slice(bytes);
            given = joined;
            (whole, begin) = (&given, at - (given.len() - bytes.len()) as u64);
            reader = self.recognise(from, begin, whole);
        }
        let bytes = whole;
        let next = match &mut reader {
            Reader::New(_) => Some(begin + bytes.len() as u64),
            Reader::Http1(http) => {
                http.read(bytes, &mut self.messages[from], &mut self.methods, &mut self.continues[from])
            }
            Reader::Http2(http) => http.read(bytes, &mut self.messages[from], &mut self.window_updates[from]),
            Reader::Tls(tls) => {
                if from == Side::Client
                    && self.secured.client.is_none()
                    && self.secured.server.is_some()
                    && !self.finished
                {
                    self.finished = true;
                    tls.expect_finished();
                }
                tls.read(bytes, &mut self.secured[from])
            }
            Reader::GivenUp => None,
        };
        let stream = &mut self.streams[from];
        stream.reader = reader;
        match next {
            Some(next) => stream.next = Some(next),
            None => self.give_up(from),
        }
    }

    /// Recognises the protocol by the first bytes of a stream, or of a packet in its middle.
    fn recognise(&mut self, from: Side, at: u64, bytes: &[u8]) -> Reader {
        let is_http2 = self.protocol == Protocol::Http2;
        let is_start = self.streams[from].is_from_start && at == ORIGIN;
        let (reader, protocol) = if !is_start && http2::looks_like_window_updates(bytes) {
            (Reader::Http2(http2::Reader::within(from, at)), Protocol::Http2)
        } else if is_start && is_http2 || bytes.starts_with(http2::PREFACE) {
            (Reader::Http2(http2::Reader::new(from, at)), Protocol::Http2)
        } else if http1::looks_like(from, bytes) {
            (Reader::Http1(http1::Reader::new(from, at)), Protocol::Http1)
        } else if tls::looks_like(bytes) {
            (Reader::Tls(tls::Reader::new(at)), Protocol::Tls)
        } else if !is_start {
            // In the middle of a connection, the next packet may begin a message.
            self.streams[from].has_skipped = true;
            return Reader::default();
        } else if bytes.len() < RECOGNISABLE {
            return Reader::New(bytes.to_vec());
        } else {
            return Reader::GivenUp;
        };
        self.protocol = protocol;
        reader
    }

    /// The fatal TLS alert that could be read, and who sent it.
    pub(crate) fn alert(&self) -> Option<(Side, u8)> {
        [Side::Client, Side::Server].into_iter().find_map(|side| match &self.streams[side].reader {
            Reader::Tls(tls) => Some((side, tls.alert?)),
            _ => None,
        })
    }

    /// Whether the client's stream is read as TLS 1.3: its first record of application data is the Finished.
    pub(crate) fn is_tls13(&self) -> bool {
        self.finished
    }

    /// Whether the client holds a body back that begins at this offset of its stream.
    pub(crate) fn has_held_body(&self, at: u64) -> bool {
        self.continues.client.binary_search(&at).is_ok()
    }

    /// Whether a `100 Continue` of the server begins at this offset of its stream.
    pub(crate) fn has_continue(&self, at: u64) -> bool {
        self.continues.server.binary_search(&at).is_ok()
    }

    /// Whether nothing is known of its messages.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.protocol, Protocol::Unknown | Protocol::HiddenHttp2)
    }

    /// Whether all messages could be read.
    pub(crate) fn is_read(&self) -> bool {
        let read = |stream: &Stream| !matches!(stream.reader, Reader::GivenUp) && !stream.has_skipped;
        let any = !self.messages.client.is_empty() || !self.messages.server.is_empty();
        any && read(&self.streams.client) && read(&self.streams.server)
    }

    /// The stream continues at `next`, but the capture lacks it. After the client's Finished, that is application data.
    fn cut(&mut self, from: Side, next: u64) {
        let reader = &self.streams[from].reader;
        if self.finished && matches!(reader, Reader::Tls(tls) if from == Side::Client && !tls.expects_finished()) {
            self.secured[from].get_or_insert(next);
        }
        self.give_up(from);
    }

    fn give_up(&mut self, from: Side) {
        let stream = &mut self.streams[from];
        *stream = Stream { reader: Reader::GivenUp, ..Stream::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(content: &mut Content, from: Side, at: u64, text: &str) {
        content.add(from, ORIGIN + at, text.as_bytes(), text.len() as u32);
    }

    fn found(content: &Content, side: Side) -> Vec<(u64, u64, &str)> {
        let message = |message: &Message| (message.start - ORIGIN, message.end.saturating_sub(ORIGIN));
        content.messages[side].iter().map(|one| (message(one).0, message(one).1, &*one.label)).collect()
    }

    #[test]
    fn pipelined_requests_are_separated_when_packets_arrive_out_of_order() {
        let text = "PUT /a?token=1&b=2 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloHEAD /b HTTP/1.1\r\n\r\n";
        for cut in 1..text.len() {
            let mut content = Content::default();
            content.begin(Side::Client);
            add(&mut content, Side::Client, cut as u64, &text[cut..]);
            add(&mut content, Side::Client, 0, &text[..cut]);
            let second = text.find("HEAD").unwrap() as u64;
            let whole = text.len() as u64;
            assert_eq!(
                found(&content, Side::Client),
                [(0, second, "PUT /a?token=…&b=2"), (second, whole, "HEAD /b")],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn body_is_skipped_when_not_captured() {
        let mut content = Content::default();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
        content.add(Side::Server, ORIGIN, head.as_bytes(), head.len() as u32 + 500);
        add(&mut content, Side::Server, head.len() as u64 + 1000, "HTTP/1.1 204 No Content\r\n\r\n");
        let whole = head.len() as u64 + 1000;
        assert_eq!(found(&content, Side::Server), [(0, whole, "200"), (whole, whole + 27, "204")]);
    }

    #[test]
    fn responses_end_as_their_framing_says() {
        let mut content = Content::default();
        add(&mut content, Side::Client, 0, "HEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n");
        let stream = [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\n\r\nall the rest",
        ];
        add(&mut content, Side::Server, 0, &stream.concat());
        let at = |count: usize| stream[..count].iter().map(|text| text.len() as u64).sum::<u64>();
        let end = u64::MAX - ORIGIN;
        let expected = [(0, at(1), "200"), (at(1) + 25, at(2), "200"), (at(2), end, "404")];
        assert_eq!(found(&content, Side::Server), expected);
    }

    #[test]
    fn messages_are_recognised_behind_a_body_with_which_the_capture_begins() {
        let mut content = Content::default();
        add(&mut content, Side::Server, 0, &"the rest of a body, longer than any preface. ".repeat(2));
        add(&mut content, Side::Client, 0, "GET /next HTTP/1.1\r\n\r\n");
        add(&mut content, Side::Server, 90, "HTTP/1.1 204 No Content\r\n\r\n");
        assert_eq!(found(&content, Side::Server), [(90, 117, "204")]);
        // The beginning has no message: turns tell it.
        assert!(!content.is_read());
    }

    #[test]
    fn reader_gives_up_when_head_is_truncated() {
        let mut content = Content::default();
        content.add(Side::Client, ORIGIN, b"GET / HT", 100);
        assert!(matches!(content.streams.client.reader, Reader::GivenUp) && content.messages.client.is_empty());
    }
    #[test]
    fn data_after_the_clients_finished_is_recognised_although_it_is_cut() {
        let record = |kind: u8, len: u16| [&[kind, 3, 3][..], &len.to_be_bytes(), &vec![0; len.into()]].concat();
        let mut content = Content::default();
        let hello = record(22, 200);
        content.add(Side::Client, ORIGIN, &hello, hello.len() as u32);
        // The server's hello, and its certificate, of which the capture lacks most.
        content.add(Side::Server, ORIGIN, &[record(22, 90), record(20, 1), record(23, 40)].concat(), 3000);
        // Two records in one segment, of which only the Finished was captured.
        let finished = record(23, 69);
        let at = ORIGIN + hello.len() as u64;
        content.add(Side::Client, at, &finished, finished.len() as u32 + 116);
        assert_eq!(content.secured.client, Some(at + finished.len() as u64));
    }
}
