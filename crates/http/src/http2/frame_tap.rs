//! A tap on the connection's bytes, for what `h2` does not report.
//!
//! `h2` respects the server's limits, but reports only the number of streams. The planner and `haul probe` also need
//! the windows, because they limit each stream to window ÷ RTT. A stream's free capacity does not show them, because
//! the connection's window and our own buffer limit it too. So this module reads the server's SETTINGS and
//! WINDOW_UPDATE frames as they pass. Frames begin with their length and type (RFC 9113 §4.1), so it can skip all
//! others, and leave errors to `h2`.
//!
//! It also notes when bytes last moved, which is all that is known of a connection's health.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};
use transport::Io;

use super::Windows;

const FRAME_HEAD: usize = 9;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
/// The maximum payload kept of a frame: a WINDOW_UPDATE has 4 bytes, six settings have 36.
const KEPT: usize = 512;

/// Finds the frames in the server's bytes.
#[derive(Debug, Default)]
struct FrameParser {
    head: Vec<u8>,
    payload: Vec<u8>,
    /// Bytes left of the frame's payload.
    left: usize,
}

impl FrameParser {
    /// Parses the next bytes, and calls `frame` with type, flags, stream and payload of each frame that ends in them.
    fn follow(&mut self, mut bytes: &[u8], mut frame: impl FnMut(u8, u8, u32, &[u8])) {
        while !bytes.is_empty() {
            if self.head.len() < FRAME_HEAD {
                let (some, rest) = bytes.split_at(bytes.len().min(FRAME_HEAD - self.head.len()));
                self.head.extend_from_slice(some);
                bytes = rest;
                if self.head.len() < FRAME_HEAD {
                    return;
                }
                self.left = u32::from_be_bytes([0, self.head[0], self.head[1], self.head[2]]) as usize;
            }
            let (some, rest) = bytes.split_at(bytes.len().min(self.left));
            if matches!(self.head[3], SETTINGS | WINDOW_UPDATE) {
                self.payload.extend_from_slice(&some[..some.len().min(KEPT - self.payload.len())]);
            }
            self.left -= some.len();
            bytes = rest;
            if self.left == 0 {
                let stream = number(&self.head[5..9]) & 0x7fff_ffff;
                frame(self.head[3], self.head[4], stream, &self.payload);
                self.head.clear();
                self.payload.clear();
            }
        }
    }
}

/// What was observed.
#[derive(Debug)]
pub(super) struct Observed {
    parser: FrameParser,
    windows: Windows,
    /// The sum of the server's WINDOW_UPDATEs for the connection.
    granted: u64,
    /// Whether there are changes since the last query.
    news: bool,
    /// When a byte was last received.
    pub(super) read: Instant,
    /// When a byte was last written.
    pub(super) written: Instant,
    /// Whether the connection was aborted; it then ends with a reset.
    pub(super) given_up: bool,
}

impl Observed {
    fn new() -> Self {
        let now = Instant::now();
        let (parser, windows) = (FrameParser::default(), Windows::default());
        Self { parser, windows, granted: 0, news: false, read: now, written: now, given_up: false }
    }

    fn observe(&mut self, bytes: &[u8]) {
        self.read = Instant::now();
        let Self { parser, windows, granted, news, .. } = self;
        parser.follow(bytes, |kind, flags, stream, payload| match (kind, stream) {
            (SETTINGS, _) if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    match u16::from_be_bytes([setting[0], setting[1]]) {
                        INITIAL_WINDOW_SIZE => windows.stream = number(&setting[2..]),
                        MAX_FRAME_SIZE => windows.frame = number(&setting[2..]),
                        _ => {}
                    }
                }
                *news = true;
            }
            (WINDOW_UPDATE, 0) if payload.len() == 4 => {
                *granted += u64::from(number(payload) & 0x7fff_ffff);
                *news = true;
            }
            _ => {}
        });
    }

    /// Whether the server's windows may have changed since the last query.
    pub(super) fn has_news(&self) -> bool {
        self.news
    }

    /// The server's windows, if they may have changed since the last call; `sent` is how much of the connection's
    /// window was used so far. The widest window so far is what the server wants to have in flight.
    pub(super) fn news(&mut self, sent: u64) -> Option<Windows> {
        std::mem::take(&mut self.news).then(|| {
            let open = (u64::from(Windows::default().connection) + self.granted).saturating_sub(sent);
            self.windows.connection = self.windows.connection.max(u32::try_from(open).unwrap_or(u32::MAX));
            self.windows
        })
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

/// The shared handle of a tap.
#[derive(Debug, Clone)]
pub(super) struct FrameTap(Arc<Mutex<Observed>>);

impl FrameTap {
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut Observed) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection with a tap.
pub(super) struct Tapped<T: Io> {
    io: T,
    tap: FrameTap,
}

impl<T: Io> Drop for Tapped<T> {
    fn drop(&mut self) {
        if self.tap.with(|observed| observed.given_up) {
            self.io.abort();
        }
    }
}

impl<T: Io> Tapped<T> {
    pub(super) fn new(io: T) -> (Self, FrameTap) {
        let tap = FrameTap(Arc::new(Mutex::new(Observed::new())));
        (Self { io, tap: tap.clone() }, tap)
    }

    fn wrote(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if matches!(result, Poll::Ready(Ok(bytes)) if bytes > 0) {
            self.tap.with(|observed| observed.written = Instant::now());
        }
        result
    }
}

impl<T: Io> AsyncRead for Tapped<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.io).poll_read(context, buffer);
        let new = &buffer.filled()[before..];
        if !new.is_empty() {
            self.tap.with(|observed| observed.observe(new));
        }
        result
    }
}

impl<T: Io> AsyncWrite for Tapped<T> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(context, bytes);
        self.wrote(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    fn setting(id: u16, value: u32) -> Vec<u8> {
        [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
    }

    #[test]
    fn windows_follow_settings_and_window_update() {
        let mut observed = Observed::new();
        observed.observe(&frame(SETTINGS, 0, 0, &[setting(3, 7), setting(4, 1 << 20), setting(5, 32_768)].concat()));
        observed.observe(&frame(WINDOW_UPDATE, 0, 0, &1_000_000u32.to_be_bytes()));
        observed.observe(&frame(WINDOW_UPDATE, 0, 1, &5_000_000u32.to_be_bytes()));
        observed.observe(&frame(SETTINGS, ACK, 0, &[]));
        assert_eq!(observed.news(0), Some(Windows { stream: 1 << 20, connection: 1_065_535, frame: 32_768 }));
        assert_eq!(observed.news(0), None);
        observed.observe(&frame(WINDOW_UPDATE, 0, 0, &1_000_000u32.to_be_bytes()));
        let refilled = observed.news(1_000_000).unwrap();
        assert_eq!(refilled.connection, 1_065_535, "what is given back does not widen the window");
    }

    proptest! {
        #[test]
        fn frames_are_found_however_bytes_are_split(
            frames in prop::collection::vec((0u8..10, 0u8..4, 0u32..4, prop::collection::vec(any::<u8>(), 0..600)), 0..8),
            cuts in prop::collection::vec(1usize..700, 1..40),
        ) {
            let bytes: Vec<u8> = frames.iter().flat_map(|(k, f, s, p)| frame(*k, *f, *s, p)).collect();
            let (mut parser, mut found, mut rest) = (FrameParser::default(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at(rest.len().min(*cut));
                parser.follow(piece, |k, f, s, p| found.push((k, f, s, p.to_vec())));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            let kept = |k: u8, p: Vec<u8>| if matches!(k, SETTINGS | WINDOW_UPDATE) { p } else { Vec::new() };
            let expected: Vec<_> = frames.into_iter().map(|(k, f, s, mut p)| { p.truncate(KEPT); (k, f, s, kept(k, p)) }).collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            Observed::new().observe(&bytes);
        }
    }
}
