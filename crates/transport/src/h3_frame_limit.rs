//! A limit on the length of HTTP/3 frames, between `h3` and `h3-quinn`.
//!
//! `h3` buffers a frame other than DATA until it is complete, whatever its announced length, and meanwhile extends
//! QUIC's windows. So a peer could fill our memory with one HEADERS frame, or one of an unknown type. This module
//! parses the frame headers as they pass (RFC 9114 §7.1), and ends a stream whose next frame is too long with
//! H3_EXCESSIVE_LOAD, before it reads the payload. DATA frames pass unchanged and may have any length.
//!
//! [`FrameLimited`] replaces `h3_quinn::Connection`, in a server as in a client.

use std::{
    fmt::{self, Display},
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use h3::{
    error::Code,
    quic::{self, ConnectionErrorIncoming, StreamErrorIncoming, StreamId, WriteBuf},
};

/// The maximum length in bytes of a frame other than DATA. Decoded header sections are limited to half of it.
pub const MAX_FRAME_LENGTH: u64 = 128 * 1024;

/// DATA (RFC 9114 §7.2.1).
const DATA: u64 = 0x00;
/// A control stream (RFC 9114 §6.2.1).
const CONTROL: u64 = 0x00;

/// A frame that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong(u64);

impl Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a frame of {} bytes, but the limit is {MAX_FRAME_LENGTH}", self.0)
    }
}

impl std::error::Error for TooLong {}

/// The position of the parser in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// In the type of a unidirectional stream, received so far.
    Stream(Number),
    /// In the type of a frame.
    Type(Number),
    /// In the length of a frame of this type.
    Length(u64, Number),
    /// In its payload, with so many bytes left.
    Payload(u64),
    /// In a stream without frames.
    Other,
}

/// A variable-length integer (RFC 9000 §16), received so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Number {
    bytes: u8,
    value: u64,
}

impl Number {
    /// Adds a byte. Returns the number once it is complete.
    fn take(&mut self, byte: u8) -> Option<u64> {
        self.value = if self.bytes == 0 { u64::from(byte) } else { self.value << 8 | u64::from(byte) };
        self.bytes += 1;
        // The first two bits say how long it is.
        let length = 1 << (self.value >> (8 * u32::from(self.bytes) - 2) & 3);
        (self.bytes == length).then(|| self.value & !(3 << (8 * u32::from(length) - 2)))
    }
}

impl Place {
    /// Follows the next bytes of the stream.
    fn pass(&mut self, mut bytes: &[u8]) -> Result<(), TooLong> {
        while let Some((first, rest)) = bytes.split_first() {
            match self {
                Self::Stream(number) => {
                    bytes = rest;
                    match number.take(*first) {
                        Some(CONTROL) => *self = Self::Type(Number::default()),
                        Some(_) => *self = Self::Other,
                        None => {}
                    }
                }
                Self::Type(number) => {
                    bytes = rest;
                    if let Some(kind) = number.take(*first) {
                        *self = Self::Length(kind, Number::default());
                    }
                }
                Self::Length(kind, number) => {
                    bytes = rest;
                    match number.take(*first) {
                        Some(length) if *kind != DATA && length > MAX_FRAME_LENGTH => return Err(TooLong(length)),
                        Some(0) => *self = Self::Type(Number::default()),
                        Some(length) => *self = Self::Payload(length),
                        None => {}
                    }
                }
                Self::Payload(left) => {
                    let passed = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    bytes = &bytes[passed..];
                    *left -= passed as u64;
                    if *left == 0 {
                        *self = Self::Type(Number::default());
                    }
                }
                Self::Other => return Ok(()),
            }
        }
        Ok(())
    }
}

/// The receiving half of a stream.
pub struct RecvStream<S> {
    inner: S,
    place: Place,
}

impl<S: quic::RecvStream<Buf = Bytes>> quic::RecvStream for RecvStream<S> {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let data = ready!(self.inner.poll_data(context))?;
        if let Some(data) = &data
            && let Err(too_long) = self.place.pass(data)
        {
            self.inner.stop_sending(Code::H3_EXCESSIVE_LOAD.value());
            return Poll::Ready(Err(StreamErrorIncoming::Unknown(Box::new(too_long))));
        }
        Poll::Ready(Ok(data))
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.inner.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.inner.recv_id()
    }
}

/// A bidirectional stream: a request and its response.
pub type BidiStream<B> = RecvStream<h3_quinn::BidiStream<B>>;

impl<B: Buf> quic::SendStream<B> for BidiStream<B> {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.inner.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.inner.poll_finish(context)
    }

    fn reset(&mut self, reset_code: u64) {
        self.inner.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.inner.send_id()
    }
}

impl<B: Buf> quic::BidiStream<B> for BidiStream<B> {
    type SendStream = h3_quinn::SendStream<B>;
    type RecvStream = RecvStream<h3_quinn::RecvStream>;

    fn split(self) -> (Self::SendStream, Self::RecvStream) {
        let (send, receive) = self.inner.split();
        (send, RecvStream { inner: receive, place: self.place })
    }
}

/// A connection, or its stream opener, with a limit on frames.
#[derive(Clone)]
pub struct FrameLimited<C>(C);

impl FrameLimited<h3_quinn::Connection> {
    /// Wraps a QUIC connection.
    pub fn new(connection: quinn::Connection) -> Self {
        Self(h3_quinn::Connection::new(connection))
    }
}

fn requests<S>(inner: S) -> RecvStream<S> {
    RecvStream { inner, place: Place::Type(Number::default()) }
}

impl<B: Buf> quic::Connection<B> for FrameLimited<h3_quinn::Connection> {
    type RecvStream = RecvStream<h3_quinn::RecvStream>;
    type OpenStreams = FrameLimited<h3_quinn::OpenStreams>;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        let inner = ready!(quic::Connection::<B>::poll_accept_recv(&mut self.0, context))?;
        Poll::Ready(Ok(RecvStream { inner, place: Place::Stream(Number::default()) }))
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        Poll::Ready(Ok(requests(ready!(self.0.poll_accept_bidi(context))?)))
    }

    fn opener(&self) -> Self::OpenStreams {
        FrameLimited(quic::Connection::<B>::opener(&self.0))
    }
}

impl<B, C> quic::OpenStreams<B> for FrameLimited<C>
where
    B: Buf,
    C: quic::OpenStreams<B, BidiStream = h3_quinn::BidiStream<B>, SendStream = h3_quinn::SendStream<B>>,
{
    type BidiStream = BidiStream<B>;
    type SendStream = h3_quinn::SendStream<B>;

    fn poll_open_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
        Poll::Ready(Ok(requests(ready!(self.0.poll_open_bidi(context))?)))
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
        self.0.poll_open_send(context)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.0.close(code, reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes bytes in pieces of so many.
    fn pass(mut place: Place, bytes: &[u8], at_once: usize) -> Result<Place, TooLong> {
        bytes.chunks(at_once).try_for_each(|piece| place.pass(piece))?;
        Ok(place)
    }

    fn frames() -> Place {
        Place::Type(Number::default())
    }

    /// A frame's header, with a length of eight bytes.
    fn header(kind: u8, length: u64) -> Vec<u8> {
        [&[kind][..], &(length | 3 << 62).to_be_bytes()].concat()
    }

    #[test]
    fn frames_pass_however_bytes_are_split() {
        // HEADERS of 2 bytes, DATA of 70, an unknown type of two bytes with 3, DATA of none.
        let bytes = [&[1, 2, 9, 9, 0, 0x40, 70][..], &[7; 70], &[0x40, 0x21, 3, 1, 2, 3, 0, 0]].concat();
        for at_once in 1..=bytes.len() {
            assert_eq!(pass(frames(), &bytes, at_once), Ok(frames()), "{at_once}");
        }
    }

    #[test]
    fn long_frame_is_refused_by_its_header_and_long_data_is_not() {
        for at_once in [1, 3, 100] {
            for kind in [1, 4, 0x21] {
                assert_eq!(
                    pass(frames(), &header(kind, MAX_FRAME_LENGTH + 1), at_once),
                    Err(TooLong(MAX_FRAME_LENGTH + 1))
                );
                assert_eq!(
                    pass(frames(), &header(kind, MAX_FRAME_LENGTH), at_once),
                    Ok(Place::Payload(MAX_FRAME_LENGTH))
                );
            }
            let most = (1 << 62) - 1;
            assert_eq!(pass(frames(), &header(0, most), at_once), Ok(Place::Payload(most)));
        }
    }

    #[test]
    fn control_streams_have_frames_and_others_do_not() {
        let stream = || Place::Stream(Number::default());
        assert!(pass(stream(), &[&[0][..], &header(4, 1 << 40)].concat(), 1).is_err());
        assert_eq!(pass(stream(), &[&[2][..], &header(4, 1 << 40)].concat(), 1), Ok(Place::Other));
    }
}
