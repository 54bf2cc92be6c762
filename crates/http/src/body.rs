//! Request and response bodies.
//!
//! When a pipeline breaks, the requests without a response are sent again. So a request body is not a stream but a way
//! to open one, as often as needed. A body that can be opened only once may be sent, but its request cannot be retried.

use std::{
    fmt, io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt, stream};
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tokio::{
    io::{AsyncReadExt, AsyncSeekExt},
    sync::mpsc,
    time::{Sleep, sleep},
};

use crate::{BandwidthLimit, Error};

/// The chunks of a body.
pub type Chunks = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The size of reads from a file: few system calls, and little memory for many parallel uploads.
const FILE_CHUNK: u64 = 128 * 1024;

/// The body of a request.
pub struct Body {
    length: Option<u64>,
    source: Source,
}

enum Source {
    Bytes(Bytes),
    Repeatable(Arc<dyn Fn() -> Chunks + Send + Sync>),
    Once(Option<Chunks>),
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Bytes::new().into()
    }

    /// A body that `open` produces each time, with its length in bytes if known.
    pub fn repeatable(length: Option<u64>, open: impl Fn() -> Chunks + Send + Sync + 'static) -> Self {
        Self { length, source: Source::Repeatable(Arc::new(open)) }
    }

    /// A body that can be sent only once.
    pub fn once(length: Option<u64>, chunks: Chunks) -> Self {
        Self { length, source: Source::Once(Some(chunks)) }
    }

    /// `length` bytes of a file, from byte `start`. A file that has become shorter is an error when it is sent.
    pub fn file(path: PathBuf, start: u64, length: u64) -> Self {
        Self::repeatable(Some(length), move || Box::pin(file_chunks(path.clone(), start, length)))
    }

    /// Calls `moved` with the length of each chunk as it is sent. A retried body is counted again.
    #[must_use]
    pub fn watched(self, moved: impl Fn(u64) + Send + Sync + 'static) -> Self {
        let Source::Repeatable(open) = self.source else { return self };
        let moved = Arc::new(moved);
        Self::repeatable(self.length, move || {
            let moved = moved.clone();
            Box::pin(open().inspect_ok(move |chunk| moved(chunk.len() as u64)))
        })
    }

    /// Passes the body's chunks through `wrap`.
    pub(crate) fn wrapped(self, wrap: impl Fn(Chunks) -> Chunks + Send + Sync + 'static) -> Self {
        let length = self.length;
        match self.source {
            Source::Bytes(bytes) if bytes.is_empty() => bytes.into(),
            Source::Bytes(bytes) => {
                let open = move || wrap(Box::pin(stream::iter([Ok(bytes.clone())])));
                Self::repeatable(length, open)
            }
            Source::Repeatable(open) => Self::repeatable(length, move || wrap(open())),
            Source::Once(chunks) => Self { length, source: Source::Once(chunks.map(wrap)) },
        }
    }

    /// Its length in bytes, if known before it is sent.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// Whether it is known to be empty.
    pub fn is_empty(&self) -> bool {
        self.length == Some(0)
    }

    /// Whether it can (still) be opened more than once.
    pub fn is_repeatable(&self) -> bool {
        !matches!(self.source, Source::Once(_))
    }

    /// A second copy, if the body is repeatable.
    pub fn try_clone(&self) -> Option<Self> {
        let source = match &self.source {
            Source::Bytes(bytes) => Source::Bytes(bytes.clone()),
            Source::Repeatable(open) => Source::Repeatable(open.clone()),
            Source::Once(_) => return None,
        };
        Some(Self { length: self.length, source })
    }

    /// Opens the body; an error if it was opened before and is not repeatable.
    pub fn open(&mut self) -> io::Result<Chunks> {
        match &mut self.source {
            Source::Bytes(bytes) if bytes.is_empty() => Ok(Box::pin(stream::empty())),
            Source::Bytes(bytes) => Ok(Box::pin(stream::iter([Ok(bytes.clone())]))),
            Source::Repeatable(open) => Ok(open()),
            Source::Once(chunks) => {
                chunks.take().ok_or_else(|| io::Error::other("this body can be sent only once, and it was sent before"))
            }
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        let bytes = bytes.into();
        Self { length: Some(bytes.len() as u64), source: Source::Bytes(bytes) }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::empty()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("length", &self.length).finish_non_exhaustive()
    }
}

fn file_chunks(path: PathBuf, start: u64, length: u64) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold((None, length), move |(file, left)| {
        let path = path.clone();
        async move {
            if left == 0 {
                return Ok(None);
            }
            let mut file = if let Some(file) = file {
                file
            } else {
                let mut file = tokio::fs::File::open(&path).await?;
                file.seek(io::SeekFrom::Start(start)).await?;
                file
            };
            let mut chunk = bytes::BytesMut::with_capacity(left.min(FILE_CHUNK) as usize);
            let read = (&mut file).take(left.min(FILE_CHUNK)).read_buf(&mut chunk).await?;
            if read == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    format!("{} shrank by {left} bytes during the upload", path.display()),
                ));
            }
            Ok(Some((chunk.freeze(), (Some(file), left - read as u64))))
        }
    })
}

/// The body of a response. Dropping it before its end may close the connection.
pub struct Incoming {
    pieces: Pieces,
    /// Bytes left, if the length is known.
    left: Option<u64>,
    ended: bool,
    bandwidth_limit: Option<Arc<BandwidthLimit>>,
    /// A received chunk that waits for the bandwidth limit.
    held: Option<(Pin<Box<Sleep>>, Bytes)>,
}

/// Where the pieces of a body come from.
enum Pieces {
    Channel(mpsc::Receiver<Piece>),
    /// All of it has come with the header.
    Whole(Bytes),
}

impl Pieces {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        match self {
            Self::Channel(pieces) => pieces.poll_recv(context),
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(Some(Piece::End)),
            Self::Whole(bytes) => Poll::Ready(Some(Piece::Data(std::mem::take(bytes)))),
        }
    }
}

/// A message from a connection to the reader of a body. Without an `End`, the body is incomplete.
#[derive(Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    Failed(Error),
}

impl Incoming {
    /// A body, and the channel that feeds it. The channel's bound is how far the reader may lag behind.
    pub(crate) fn channel(length: Option<u64>, pieces: usize) -> (mpsc::Sender<Piece>, Self) {
        let (sender, pieces) = mpsc::channel(pieces);
        (sender, Self::of(Pieces::Channel(pieces), length))
    }

    /// A body that has come with its header.
    pub(crate) fn whole(bytes: Bytes) -> Self {
        let length = Some(bytes.len() as u64);
        Self::of(Pieces::Whole(bytes), length)
    }

    fn of(pieces: Pieces, left: Option<u64>) -> Self {
        Self { pieces, left, ended: false, bandwidth_limit: None, held: None }
    }

    /// Limits the bandwidth.
    pub(crate) fn limit(&mut self, bandwidth_limit: Arc<BandwidthLimit>) {
        self.bandwidth_limit = Some(bandwidth_limit);
    }
}

impl http_body::Body for Incoming {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if let Some((wait, _)) = &mut self.held {
            ready!(wait.as_mut().poll(context));
        }
        if let Some((_, chunk)) = self.held.take() {
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.pieces.poll_next(context)) {
            Some(Piece::Data(chunk)) => {
                self.left = self.left.map(|left| left.saturating_sub(chunk.len() as u64));
                let wait = self
                    .bandwidth_limit
                    .as_ref()
                    .map_or(Duration::ZERO, |bandwidth_limit| bandwidth_limit.down(chunk.len()));
                if !wait.is_zero() {
                    let mut wait = Box::pin(sleep(wait));
                    if wait.as_mut().poll(context).is_pending() {
                        self.held = Some((wait, chunk));
                        return Poll::Pending;
                    }
                }
                Some(Ok(Frame::data(chunk)))
            }
            Some(Piece::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(Piece::End) => {
                self.ended = true;
                None
            }
            Some(Piece::Failed(error)) => {
                self.ended = true;
                Some(Err(error))
            }
            None => {
                self.ended = true;
                Some(Err(Error::Shutdown))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        let is_taken = matches!(&self.pieces, Pieces::Whole(bytes) if bytes.is_empty());
        (self.ended || is_taken) && self.held.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").field("left", &self.left).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn read(body: &mut Body) -> io::Result<Vec<u8>> {
        body.open()?.try_fold(Vec::new(), |all, chunk| async move { Ok([&all[..], &chunk].concat()) }).await
    }

    #[tokio::test]
    async fn file_body_is_read_from_the_start_each_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; 300_000]).unwrap();
        let mut body = Body::file(path.clone(), 100_000, 200_000);
        for _ in 0..2 {
            assert_eq!(read(&mut body).await.unwrap().len(), 200_000);
        }
        std::fs::write(&path, b"short").unwrap();
        assert_eq!(read(&mut body).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn stream_body_is_sent_once() {
        let mut body = Body::once(None, Box::pin(stream::iter([Ok("once".into())])));
        assert!(!body.is_repeatable());
        assert_eq!(read(&mut body).await.unwrap(), b"once");
        assert!(read(&mut body).await.is_err());
    }

    #[tokio::test]
    async fn whole_body_ends_with_its_bytes() {
        use http_body::Body as _;

        let mut body = Incoming::whole("abc".into());
        assert!(!body.is_end_stream() && body.size_hint().exact() == Some(3));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
        assert!(body.is_end_stream() && body.frame().await.is_none() && body.frame().await.is_none());
        assert!(Incoming::whole(Bytes::new()).is_end_stream());
    }

    #[tokio::test]
    async fn body_without_an_end_is_an_error() {
        for (last, whole) in [(Some(Piece::End), true), (None, false)] {
            let (sender, body) = Incoming::channel(None, 4);
            sender.send(Piece::Data("abc".into())).await.unwrap();
            if let Some(last) = last {
                sender.send(last).await.unwrap();
            }
            drop(sender);
            assert_eq!(body.collect().await.is_ok(), whole);
        }
    }
}
