//! What a connection carries, as far as it can be read.
//!
//! Bodies are of no interest, so they are stepped over by their length: a reader says at which byte of the stream
//! it wants to go on, and what comes before that is not even looked at, whether it was captured or not. What it
//! wants, it gets in order; the little that comes early is kept for it, up to [`EARLY`] bytes. A reader that
//! misses something it needed gives up, and the connection is looked at as bursts from there on.

pub(crate) mod dns;
mod http1;
mod http2;
mod tls;

use std::collections::VecDeque;

use crate::{
    side::{PerSide, Side},
    stream_offset::ORIGIN,
};

/// How many bytes are kept that came before what is to be read next.
const EARLY: usize = 256 << 10;

/// How many bytes suffice to tell what a stream is: HTTP/2's preface has as many.
const TOLD: usize = 24;

/// The largest message head that is read; servers refuse much smaller ones.
const HEAD: usize = 64 << 10;

/// A request or a response.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Its first byte in the stream.
    pub(crate) start: u64,
    /// The byte behind it; [`u64::MAX`] where the end of the stream ends it, or where its end was not found.
    pub(crate) end: u64,
    /// `GET /index.html`, `200`.
    pub(crate) label: Box<str>,
}

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Protocol {
    /// Nobody knows.
    #[default]
    Unknown,
    Http1,
    Http2,
    Tls,
}

/// What was read of a connection.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) protocol: Protocol,
    pub(crate) messages: PerSide<Vec<Message>>,
    /// Where the first record of application data begins, with TLS.
    pub(crate) secured: PerSide<Option<u64>>,
    /// Where each side gave the other room to send, with HTTP/2 (RFC 9113 §6.9).
    pub(crate) window_updates: PerSide<Vec<u64>>,
    /// Whether the client's Finished is looked for.
    finished: bool,
    /// The methods of requests whose responses are still to come, where they decide on the body's length.
    methods: VecDeque<http1::Method>,
    streams: PerSide<Stream>,
}

/// One direction: where to go on, and by what.
#[derive(Debug, Default)]
struct Stream {
    /// The next byte wanted.
    next: Option<u64>,
    early: Vec<(u64, Box<[u8]>)>,
    early_bytes: usize,
    reader: Reader,
}

#[derive(Debug)]
enum Reader {
    /// It has not begun, or with so little that nothing can be said yet.
    New(Vec<u8>),
    Http1(http1::Reader),
    Http2(http2::Reader),
    Tls(tls::Reader),
    /// It cannot be read, or not any more.
    GivenUp,
}

impl Default for Reader {
    fn default() -> Self {
        Self::New(Vec::new())
    }
}

impl Content {
    /// A side's stream was seen from its first byte on.
    pub(crate) fn begin(&mut self, side: Side) {
        self.streams[side].next = Some(ORIGIN);
    }

    /// Takes in data at this offset of a side's stream: what of it was kept, and its length.
    pub(crate) fn add(&mut self, from: Side, at: u64, kept: &[u8], len: u32) {
        let stream = &mut self.streams[from];
        if matches!(stream.reader, Reader::GivenUp) {
            // Where a capture is cut, records begin with segments now and then.
            if self.protocol == Protocol::Tls && tls::is_data(kept) {
                self.secured[from].get_or_insert(at);
            }
            return;
        }
        let next = *stream.next.get_or_insert(at);
        let end = at + kept.len() as u64;
        if end <= next {
            // A body that is stepped over, or something sent again. A head cut off by the capture ends here.
            if at <= next && next < at + u64::from(len) && kept.len() < len as usize {
                self.give_up(from);
            }
            return;
        }
        if at > next {
            if stream.early_bytes + kept.len() > EARLY {
                return self.give_up(from);
            }
            stream.early_bytes += kept.len();
            stream.early.push((at, kept.into()));
            return;
        }
        self.read(from, &kept[(next - at) as usize..]);
        self.read_early(from);
        let cut = kept.len() < len as usize;
        if cut && self.streams[from].next.is_some_and(|next| next >= end && next < at + u64::from(len)) {
            self.give_up(from);
        }
    }

    /// Goes on with what came early.
    fn read_early(&mut self, from: Side) {
        loop {
            let stream = &mut self.streams[from];
            let Some(next) = stream.next else { return };
            stream.early.retain(|(at, kept)| at + kept.len() as u64 > next);
            let Some(place) = stream.early.iter().position(|(at, _)| *at <= next) else {
                stream.early_bytes = stream.early.iter().map(|(_, kept)| kept.len()).sum();
                return;
            };
            let (at, kept) = stream.early.swap_remove(place);
            self.read(from, &kept[(next - at) as usize..]);
        }
    }

    /// Reads bytes that are next, and says which are next then.
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
            Reader::Http1(http) => http.read(bytes, &mut self.messages[from], &mut self.methods),
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

    /// What the first bytes of a stream, or of a packet in its midst, look like.
    fn recognise(&mut self, from: Side, at: u64, bytes: &[u8]) -> Reader {
        let (reader, protocol) = if self.protocol == Protocol::Http2 || bytes.starts_with(http2::PREFACE) {
            (Reader::Http2(http2::Reader::new(from, at)), Protocol::Http2)
        } else if http1::looks_like(from, bytes) {
            (Reader::Http1(http1::Reader::new(from, at)), Protocol::Http1)
        } else if tls::looks_like(bytes) {
            (Reader::Tls(tls::Reader::new(at)), Protocol::Tls)
        } else if at != ORIGIN {
            // In the midst of a connection the next packet may begin a message.
            return Reader::default();
        } else if bytes.len() < TOLD {
            return Reader::New(bytes.to_vec());
        } else {
            return Reader::GivenUp;
        };
        self.protocol = protocol;
        reader
    }

    /// Whether all of what was sent could be read, as far as messages go.
    pub(crate) fn is_read(&self) -> bool {
        let read = |stream: &Stream| !matches!(stream.reader, Reader::GivenUp);
        let any = !self.messages.client.is_empty() || !self.messages.server.is_empty();
        any && read(&self.streams.client) && read(&self.streams.server)
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
    fn pipelined_requests_are_told_apart_though_packets_come_in_any_order() {
        let text = "PUT /a?secret=1 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloHEAD /b HTTP/1.1\r\n\r\n";
        for cut in 1..text.len() {
            let mut content = Content::default();
            content.begin(Side::Client);
            add(&mut content, Side::Client, cut as u64, &text[cut..]);
            add(&mut content, Side::Client, 0, &text[..cut]);
            let second = text.find("HEAD").unwrap() as u64;
            let whole = text.len() as u64;
            assert_eq!(
                found(&content, Side::Client),
                [(0, second, "PUT /a"), (second, whole, "HEAD /b")],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_body_that_was_not_captured_is_stepped_over() {
        let mut content = Content::default();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
        content.add(Side::Server, ORIGIN, head.as_bytes(), head.len() as u32 + 500);
        add(&mut content, Side::Server, head.len() as u64 + 1000, "HTTP/1.1 204 No Content\r\n\r\n");
        let whole = head.len() as u64 + 1000;
        assert_eq!(found(&content, Side::Server), [(0, whole, "200"), (whole, whole + 27, "204")]);
    }

    #[test]
    fn responses_end_where_their_framing_says() {
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
    fn a_head_that_was_cut_off_is_given_up() {
        let mut content = Content::default();
        content.add(Side::Client, ORIGIN, b"GET / HT", 100);
        assert!(matches!(content.streams.client.reader, Reader::GivenUp) && content.messages.client.is_empty());
    }
}
