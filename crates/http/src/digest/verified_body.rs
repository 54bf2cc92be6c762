//! A body that ends only if its digest matches.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};

use super::{Verified, Verifier};
use crate::{Error, RequestLine};

/// A response body that is checked against its digests.
///
/// Each chunk is delivered when the next has come, the last one when the digest is verified. A mismatch is an
/// [`Error::Digest`] in place of the last chunk. Without a digest, nothing is held back.
#[derive(Debug)]
pub struct Checked<B> {
    body: B,
    asked: RequestLine,
    stage: Stage,
    held: Option<Bytes>,
    trailers: Option<HeaderMap>,
    verified: Vec<Verified>,
}

#[derive(Debug)]
enum Stage {
    /// Nothing to check.
    Passing,
    Checking(Verifier),
    /// Complete and verified: the rest is delivered.
    Right,
    Over,
}

impl<B> Checked<B> {
    /// Wraps the body of a response to this request.
    pub fn response(asked: RequestLine, response: Response<B>) -> Response<Self> {
        let verifier = Verifier::of_response(asked.method(), response.status(), response.headers());
        let stage = if verifier.is_idle() { Stage::Passing } else { Stage::Checking(verifier) };
        response.map(|body| Self { body, asked, stage, held: None, trailers: None, verified: Vec::new() })
    }

    /// The digests verified; known after the last chunk, and empty if there was none.
    pub fn verified(&self) -> &[Verified] {
        &self.verified
    }
}

impl<B: Body<Data = Bytes, Error = Error> + Unpin> Body for Checked<B> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        loop {
            let verifier = match &mut this.stage {
                Stage::Passing => return Pin::new(&mut this.body).poll_frame(context),
                Stage::Checking(verifier) => verifier,
                Stage::Right => {
                    let last = this.held.take().map(Frame::data).or_else(|| this.trailers.take().map(Frame::trailers));
                    return Poll::Ready(last.map(Ok));
                }
                Stage::Over => return Poll::Ready(None),
            };
            match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) if chunk.is_empty() => {}
                    Ok(chunk) => {
                        verifier.update(&chunk);
                        if let Some(chunk) = this.held.replace(chunk) {
                            return Poll::Ready(Some(Ok(Frame::data(chunk))));
                        }
                    }
                    Err(frame) => {
                        if let Ok(trailers) = frame.into_trailers() {
                            verifier.trailers(&trailers);
                            this.trailers = Some(trailers);
                        }
                    }
                },
                Some(Err(error)) => {
                    this.stage = Stage::Over;
                    this.held = None;
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    let Stage::Checking(verifier) = std::mem::replace(&mut this.stage, Stage::Right) else { continue };
                    match verifier.finish() {
                        Ok(right) => this.verified = right,
                        Err(mismatch) => {
                            this.stage = Stage::Over;
                            this.held = None;
                            let (asked, mismatch) = (this.asked.clone(), mismatch.into());
                            return Poll::Ready(Some(Err(Error::Digest { asked, mismatch })));
                        }
                    }
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.stage {
            Stage::Passing => self.body.is_end_stream(),
            Stage::Checking(_) => false,
            Stage::Right => self.held.is_none() && self.trailers.is_none(),
            Stage::Over => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().map_or(0, |chunk| chunk.len() as u64);
        let to_come = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(to_come.lower() + held);
        if let Some(upper) = to_come.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt, stream};
    use http::{Method, Uri};
    use http_body_util::{BodyExt, StreamBody};
    use proptest::prelude::*;

    use transport::{Cause, ConnectError, Origin};

    use super::*;
    use crate::digest::{Algorithm, Digests, Field};

    fn asked(url: &'static str) -> RequestLine {
        RequestLine::new(&Method::GET, &Uri::from_static(url))
    }

    type Frames = Vec<Result<Frame<Bytes>, Error>>;

    fn checked(
        field: Option<(Field, &[u8])>,
        frames: Frames,
    ) -> Checked<impl Body<Data = Bytes, Error = Error> + Unpin> {
        let mut response = Response::new(StreamBody::new(stream::iter(frames)));
        if let Some((field, bytes)) = field {
            let value = Digests::of(bytes, &[Algorithm::Md5]).value(field).unwrap();
            response.headers_mut().insert(field.name(), value);
        }
        Checked::response(asked("http://example.org/a"), response).into_body()
    }

    fn chunks(bytes: &[u8], size: usize) -> Frames {
        bytes.chunks(size).map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk)))).collect()
    }

    /// What a consumer gets, and how it ends.
    async fn read(body: Checked<impl Body<Data = Bytes, Error = Error> + Unpin>) -> (Vec<u8>, Option<Error>) {
        let mut got = Vec::new();
        let mut frames = body.into_data_stream();
        while let Some(chunk) = frames.next().await {
            match chunk {
                Ok(chunk) => got.extend_from_slice(&chunk),
                Err(error) => return (got, Some(error)),
            }
        }
        (got, None)
    }

    #[tokio::test]
    async fn last_chunk_of_a_wrong_body_is_withheld() {
        for field in Field::ALL {
            let (got, error) = read(checked(Some((field, b"abcdefgH")), chunks(b"abcdefgh", 3))).await;
            assert_eq!(got, b"abcdef");
            let told = error.unwrap().to_string();
            assert!(told.starts_with("GET http://example.org/a: ") && told.contains(field.title()), "{told}");
        }
    }

    #[tokio::test]
    async fn empty_frame_is_not_the_last_chunk() {
        let mut frames = chunks(b"abc", 3);
        frames.push(Ok(Frame::data(Bytes::new())));
        let (got, error) = read(checked(Some((Field::ContentMd5, b"abC")), frames)).await;
        assert!(got.is_empty() && error.is_some());
    }

    #[tokio::test]
    async fn empty_body_is_verified() {
        assert!(read(checked(Some((Field::ContentMd5, b"")), Vec::new())).await.1.is_none());
        assert!(read(checked(Some((Field::ContentMd5, b"a")), Vec::new())).await.1.is_some());
    }

    #[tokio::test]
    async fn body_error_is_passed_on() {
        let mut frames = chunks(b"abc", 1);
        frames.push(Err(Error::Connect(ConnectError {
            origin: Origin::of(&Uri::from_static("http://a")).unwrap(),
            cause: Cause::Closed,
        })));
        let (got, error) = read(checked(Some((Field::ContentMd5, b"abc")), frames)).await;
        assert_eq!(got, b"ab");
        assert!(matches!(error, Some(Error::Connect(_))));
    }

    #[tokio::test]
    async fn digest_may_be_in_the_trailers() {
        for (body, right) in [(b"abc", true), (b"abd", false)] {
            let mut trailers = HeaderMap::new();
            let value = Digests::of(b"abc", &[Algorithm::Sha256]).value(Field::ReprDigest).unwrap();
            trailers.insert(Field::ReprDigest.name(), value);
            let mut frames = chunks(body, 2);
            frames.push(Ok(Frame::trailers(trailers.clone())));
            let mut response = Response::new(StreamBody::new(stream::iter(frames)));
            response.headers_mut().insert("trailer", "Repr-Digest".parse().unwrap());
            let body = Checked::response(asked("/"), response).into_body();
            let collected = body.collect().await;
            assert_eq!(collected.is_ok(), right);
            if let Ok(collected) = collected {
                assert_eq!(collected.trailers(), Some(&trailers));
            }
        }
    }

    #[tokio::test]
    async fn verified_digests_are_reported() {
        let mut body = checked(Some((Field::Digest, b"abc")), chunks(b"abc", 2));
        while !body.is_end_stream() {
            let hint = body.size_hint();
            let frame = body.frame().await.unwrap().unwrap();
            assert!(hint.lower() <= frame.data_ref().unwrap().len() as u64);
        }
        assert_eq!(body.verified(), [Verified { field: Field::Digest, algorithm: Algorithm::Md5 }]);
    }

    proptest! {
        #[test]
        fn correct_body_passes_and_changed_body_fails(
            bytes in proptest::collection::vec(any::<u8>(), 1..400),
            size in 1_usize..50,
            said in proptest::option::of(proptest::sample::select(Field::ALL.to_vec())),
            at in any::<prop::sample::Index>(),
            flip in 0_u8..=8,
        ) {
            let mut sent = bytes.clone();
            if flip < 8 {
                sent[at.index(bytes.len())] ^= 1 << flip;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let body = checked(said.map(|field| (field, bytes.as_slice())), chunks(&sent, size));
            let (got, error) = runtime.block_on(read(body));
            prop_assert_eq!(error.is_some(), said.is_some() && flip < 8);
            if error.is_some() {
                prop_assert!(got.len() < sent.len());
            } else {
                prop_assert_eq!(got, sent);
            }
        }
    }
}
