//! Compressed listings (RFC 9110 §8.4).
//!
//! Nine tenths of a listing are the same few elements, and a new connection sends some ten segments in its first round trip.
//! Compressed, a thousand entries arrive in one or two round trips instead of five. So requests for listings accept gzip.
//! Apache's mod_dav compresses if the folder has `SetOutputFilter DEFLATE`; `AddOutputFilterByType`, Debian's default, has no
//! effect on it.
//!
//! A small input may expand to a huge output, so it is decoded in pieces, and the reader of the pieces limits their content.

use std::io::{self, Write};

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};

/// The coding that requests for listings accept.
pub(crate) const ACCEPTED: &str = "gzip";

/// Decodes a body as it arrives.
pub(crate) enum Decoder {
    Identity,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Decoder {
    /// The decoder for the `Content-Encoding` of a response.
    pub(crate) fn of(headers: &HeaderMap) -> io::Result<Self> {
        let mut decoder = Self::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            for coding in value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                // The second name is the first one's alias (RFC 9110 §8.4.1.3).
                let gzip = [&b"gzip"[..], b"x-gzip"].iter().any(|name| coding.eq_ignore_ascii_case(name));
                decoder = match decoder {
                    plain if coding.is_empty() || coding.eq_ignore_ascii_case(b"identity") => plain,
                    Self::Identity if gzip => Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
                    _ => {
                        let coding = String::from_utf8_lossy(coding).into_owned();
                        return Err(io::Error::other(format!("unexpected Content-Encoding {coding:?}")));
                    }
                };
            }
        }
        Ok(decoder)
    }

    /// Decodes a piece and removes it from `coded`; none if more input is needed.
    pub(crate) fn next(&mut self, coded: &mut Bytes) -> io::Result<Option<Bytes>> {
        let Self::Gzip(decoder) = self else { return Ok(Some(std::mem::take(coded)).filter(|all| !all.is_empty())) };
        while !coded.is_empty() {
            // It consumes no more than fills its buffer when decoded.
            let taken = decoder.write(coded)?;
            if taken == 0 {
                return Err(io::Error::other("unexpected data after the end of the compressed body"));
            }
            coded.advance(taken);
            let text = std::mem::take(decoder.get_mut());
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
        }
        Ok(None)
    }

    /// Ends the input: returns the rest, or an error if the input is truncated.
    pub(crate) fn finish(&mut self) -> io::Result<Bytes> {
        let Self::Gzip(decoder) = self else { return Ok(Bytes::new()) };
        decoder.try_finish()?;
        Ok(std::mem::take(decoder.get_mut()).into())
    }
}

/// About the first `most` bytes of a body, decoded as far as possible.
pub(crate) fn beginning(headers: &HeaderMap, mut coded: Bytes, most: usize) -> Vec<u8> {
    let mut text = Vec::new();
    if let Ok(mut decoder) = Decoder::of(headers) {
        while text.len() < most
            && let Ok(Some(piece)) = decoder.next(&mut coded)
        {
            text.extend_from_slice(&piece);
        }
        text.extend_from_slice(&decoder.finish().unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn headers(codings: &[&'static str]) -> HeaderMap {
        let each = codings.iter().map(|coding| (header::CONTENT_ENCODING, HeaderValue::from_static(coding)));
        each.collect()
    }

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<Vec<u8>> {
        let mut decoder = Decoder::of(&headers(&["gzip"]))?;
        let mut text = Vec::new();
        for piece in pieces {
            let mut coded = Bytes::copy_from_slice(piece);
            while let Some(piece) = decoder.next(&mut coded)? {
                assert!(piece.len() <= 256 * 1024, "{} bytes at once", piece.len());
                text.extend_from_slice(&piece);
            }
        }
        text.extend_from_slice(&decoder.finish()?);
        Ok(text)
    }

    proptest! {
        #[test]
        fn decoding_restores_any_text_in_any_pieces(text: Vec<u8>, size in 1_usize..50, cut: prop::sample::Index) {
            let sent = encoded(&text);
            prop_assert_eq!(&decoded(sent.chunks(size)).unwrap(), &text);
            let cut = cut.index(sent.len());
            prop_assert!(cut == 0 || decoded(sent[..cut].chunks(size)).is_err(), "cut at {}", cut);
        }

        #[test]
        fn arbitrary_input_is_decoded_or_an_error(sent: Vec<u8>) {
            let _ = decoded(std::iter::once(&sent[..]));
        }
    }

    #[test]
    fn highly_compressed_input_is_decoded_in_pieces() {
        let text = vec![b'a'; 20_000_000];
        let sent = encoded(&text);
        assert!(sent.len() < 200_000);
        assert!(decoded(std::iter::once(&sent[..])).unwrap() == text);
    }

    #[test]
    fn only_the_beginning_of_an_error_body_is_read() {
        let sent = encoded(&vec![b'a'; 1_000_000]);
        for length in [sent.len(), sent.len() / 2] {
            let text = beginning(&headers(&["gzip"]), Bytes::copy_from_slice(&sent[..length]), 100_000);
            assert!((100_000..500_000).contains(&text.len()) && text.iter().all(|byte| *byte == b'a'));
        }
        assert_eq!(beginning(&headers(&[]), Bytes::from_static(b"as it is"), 4), b"as it is");
    }

    #[test]
    fn only_requested_encodings_are_decoded() {
        for plain in [&[][..], &["identity"], &[""]] {
            assert!(matches!(Decoder::of(&headers(plain)), Ok(Decoder::Identity)));
        }
        assert!(matches!(Decoder::of(&headers(&["X-GZip"])), Ok(Decoder::Gzip(_))));
        for wrong in [&["br"][..], &["gzip, gzip"], &["gzip", "deflate"]] {
            assert!(Decoder::of(&headers(wrong)).is_err());
        }
    }
}
