//! HTTP/2 over plain TCP (RFC 9113): where requests and responses begin and end, and where windows are updated.
//!
//! Inside TLS none of this can be read; exchanges are then inferred from the ends' turns.

use super::Message;
use crate::side::Side;

/// The client's connection preface (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The head of a `WINDOW_UPDATE` (RFC 9113 §6.9) without its stream, and the whole frame's length.
const WINDOW_UPDATE_HEAD: [u8; 5] = [0, 0, 4, 8, 0];
const WINDOW_UPDATE_LEN: usize = 13;

/// Whether a packet in the middle of a connection consists of window updates.
pub(super) fn looks_like_window_updates(bytes: &[u8]) -> bool {
    let (frames, rest) = bytes.as_chunks::<WINDOW_UPDATE_LEN>();
    !frames.is_empty() && rest.is_empty() && frames.iter().all(|frame| frame.starts_with(&WINDOW_UPDATE_HEAD))
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;

/// The maximum plausible frame size in bytes (RFC 9113 §4.2: by default 16 KiB).
const MAX_FRAME: u64 = 1 << 24;

#[derive(Debug)]
pub(super) struct Reader {
    from: Side,
    /// The incomplete header of a frame.
    header: Vec<u8>,
    at: u64,
    /// The stream identifier of each message.
    streams: Vec<u32>,
}

impl Reader {
    pub(super) fn new(from: Side, at: u64) -> Self {
        let preface = if from == Side::Client { PREFACE.len() as u64 } else { 0 };
        Self { from, header: Vec::with_capacity(9), at: at + preface, streams: Vec::new() }
    }

    /// A reader of frames in the middle of a connection, of which one begins at `at`.
    pub(super) fn within(from: Side, at: u64) -> Self {
        Self { at, ..Self::new(from, at) }
    }

    /// Reads on; returns the next byte needed, or none if the data is invalid.
    pub(super) fn read(
        &mut self,
        mut bytes: &[u8],
        messages: &mut Vec<Message>,
        window_updates: &mut Vec<u64>,
    ) -> Option<u64> {
        if self.from == Side::Client && bytes.starts_with(PREFACE) {
            bytes = &bytes[PREFACE.len()..];
        }
        loop {
            let (head, rest) = bytes.split_at(bytes.len().min(9 - self.header.len()));
            self.header.extend_from_slice(head);
            let Some((head, [])) = self.header.split_first_chunk::<9>() else { break };
            let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            let (length, kind, flags) = (u64::from(number(&head[..3])), head[3], head[4]);
            if length >= MAX_FRAME {
                return None;
            }
            let stream = number(&head[5..]) & 0x7fff_ffff;
            let end = self.at + 9 + length;
            self.frame(kind, flags, stream, end, messages, window_updates);
            self.at = end;
            self.header.clear();
            match rest.get(length as usize..) {
                Some(rest) => bytes = rest,
                None => return Some(self.at),
            }
        }
        Some(self.at + self.header.len() as u64)
    }

    fn frame(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        end: u64,
        messages: &mut Vec<Message>,
        window_updates: &mut Vec<u64>,
    ) {
        match kind {
            WINDOW_UPDATE => window_updates.push(self.at),
            HEADERS | DATA => {
                let known = self.streams.iter().rposition(|known| *known == stream);
                let index = known.unwrap_or_else(|| {
                    let label = if self.from == Side::Client { format!("stream {stream}") } else { String::new() };
                    messages.push(Message { start: self.at, end: u64::MAX, label: label.into() });
                    self.streams.push(stream);
                    self.streams.len() - 1
                });
                if flags & END_STREAM != 0
                    && let Some(message) = messages.get_mut(index)
                {
                    message.end = end;
                }
            }
            _ => {}
        }
    }
}
