//! Decoding response bodies (RFC 9112 §6 and §7.1).

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use super::head::{Framing, read_trailers};

/// The maximum length of a chunk-size line. Chunk extensions are ignored (RFC 9112 §7.1.1).
const MAX_LINE: usize = 4096;

/// Decodes a body from the bytes of a connection.
#[derive(Debug)]
pub(crate) struct Decoder {
    state: State,
}

#[derive(Debug)]
enum State {
    /// So many bytes left.
    Plain(u64),
    UntilClose,
    /// In a chunk-size line.
    Size,
    /// So many bytes of a chunk left.
    Chunk(u64),
    /// At the line break after a chunk.
    Break,
    Trailers,
    Ended,
}

/// A piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
}

impl Decoder {
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Length(length) => State::Plain(length),
            Framing::Chunked => State::Size,
            Framing::Close => State::UntilClose,
        };
        Self { state }
    }

    /// Takes the next piece from `buffer`; `None` if more bytes are needed.
    pub(crate) fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Decoded>, String> {
        loop {
            match &mut self.state {
                State::Plain(0) | State::Ended => {
                    self.state = State::Ended;
                    return Ok(Some(Decoded::End));
                }
                State::UntilClose | State::Plain(_) | State::Chunk(1..) if buffer.is_empty() => return Ok(None),
                State::UntilClose => return Ok(Some(Decoded::Data(buffer.split().freeze()))),
                State::Plain(left) | State::Chunk(left @ 1..) => {
                    let taken = (*left).min(buffer.len() as u64);
                    *left -= taken;
                    return Ok(Some(Decoded::Data(buffer.split_to(taken as usize).freeze())));
                }
                State::Chunk(0) => self.state = State::Break,
                State::Break => match &buffer[..buffer.len().min(2)] {
                    b"\r\n" => {
                        let _ = buffer.split_to(2);
                        self.state = State::Size;
                    }
                    b"" | b"\r" => return Ok(None),
                    _ => return Err("a chunk of the response is longer than its size line".into()),
                },
                State::Size => match size_line(buffer)? {
                    None => return Ok(None),
                    Some(0) => self.state = State::Trailers,
                    Some(size) => self.state = State::Chunk(size),
                },
                State::Trailers => match read_trailers(buffer)? {
                    None => return Ok(None),
                    Some(trailers) => {
                        self.state = State::Ended;
                        if !trailers.is_empty() {
                            return Ok(Some(Decoded::Trailers(trailers)));
                        }
                    }
                },
            }
        }
    }

    /// The length of the rest, if the body is not chunked and has one.
    pub(crate) fn plain(&self) -> Option<usize> {
        if let State::Plain(left) = self.state { left.try_into().ok() } else { None }
    }

    /// Takes so much from the buffer as the rest of the body.
    pub(crate) fn take_rest(&mut self, buffer: &mut BytesMut, length: usize) -> Bytes {
        self.state = State::Ended;
        buffer.split_to(length).freeze()
    }

    /// Whether the body ends with the connection.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// The number of bytes left, if known.
    pub(crate) fn left(&self) -> Option<u64> {
        match self.state {
            State::Plain(left) => Some(left),
            State::Ended | State::Trailers => Some(0),
            _ => None,
        }
    }
}

/// Takes a chunk-size line from the buffer.
fn size_line(buffer: &mut BytesMut) -> Result<Option<u64>, String> {
    let Some(end) = buffer.iter().take(MAX_LINE).position(|&byte| byte == b'\n') else {
        return if buffer.len() < MAX_LINE { Ok(None) } else { Err("a chunk's size line has no end".into()) };
    };
    let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let digits = line.split(';').next().unwrap_or_default().trim();
    // Sixteen hexadecimal digits are all that fit.
    let valid = (1..=16).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let size = if valid { u64::from_str_radix(digits, 16).ok() } else { None };
    let size = size.ok_or_else(|| format!("{digits:?} is not a chunk size"))?;
    let _ = buffer.split_to(end + 1);
    Ok(Some(size))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that comes out when `pieces` come in one after another.
    fn decode(framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), String> {
        let (mut decoder, mut buffer, mut all) = (Decoder::new(framing), BytesMut::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                match decoder.next(&mut buffer)? {
                    Some(Decoded::Data(data)) => all.extend_from_slice(&data),
                    Some(Decoded::Trailers(_)) => {}
                    Some(Decoded::End) => return Ok((all, true)),
                    None => break,
                }
            }
        }
        Ok((all, false))
    }

    #[test]
    fn malformed_chunk_is_refused() {
        for wrong in ["x\r\n", "-1\r\n", "fffffffffffffffff\r\n", "\r\n", "1\r\nab\r\n", "0x1\r\na\r\n"] {
            assert!(decode(Framing::Chunked, &[wrong.as_bytes()]).is_err(), "{wrong:?}");
        }
        assert!(decode(Framing::Chunked, &[&[b'1'; MAX_LINE]]).is_err());
    }

    #[test]
    fn trailers_come_before_the_end() {
        let mut buffer = BytesMut::from("1;name=value\r\na\r\n0\r\nDigest: x\r\n\r\nHTTP/1.1");
        let mut decoder = Decoder::new(Framing::Chunked);
        assert_eq!(decoder.next(&mut buffer), Ok(Some(Decoded::Data("a".into()))));
        let Ok(Some(Decoded::Trailers(trailers))) = decoder.next(&mut buffer) else { panic!("no trailers") };
        assert_eq!(trailers["digest"], "x");
        assert_eq!(decoder.next(&mut buffer), Ok(Some(Decoded::End)));
        assert_eq!(&buffer[..], b"HTTP/1.1", "the rest belongs to the next response");
    }

    proptest! {
        #[test]
        fn result_does_not_depend_on_how_input_is_split(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..6), cuts in prop::collection::vec(0usize..400, 0..8)) {
            let mut wire = Vec::new();
            for body in &bodies {
                wire.extend(format!("{:x}\r\n", body.len()).bytes());
                wire.extend(body);
                wire.extend(b"\r\n");
            }
            wire.extend(b"0\r\n\r\n");
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(wire.len())).chain([0, wire.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|pair| &wire[pair[0]..pair[1]]).collect();
            prop_assert_eq!(decode(Framing::Chunked, &pieces), Ok((bodies.concat(), true)));
        }

        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(Framing::Chunked, &[&bytes]);
        }
    }
}
