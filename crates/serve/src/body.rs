//! Request and answer bodies: counted, and never waited for without end.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use dav_server::body::{Body as DavBody, BodyType};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use tokio::time::{Instant, Sleep};

use crate::access_log::Entry;
use crate::activity::{Activity, Busy, Waiting};
use crate::multistatus;
use crate::pace::Pace;
use crate::store::Visit;

/// How long a body may keep the server waiting, at first and at most; see [`Pace`].
const PATIENCE: Duration = Duration::from_secs(30);
const MOST_PATIENCE: Duration = Duration::from_mins(1);

/// How much of a refused body is read to keep the connection usable, and for how long.
const DRAIN: usize = 256 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// What comes in, by whichever HTTP.
pub(crate) type Incoming = UnsyncBoxBody<Bytes, io::Error>;

/// A request's body as it arrives.
pub(crate) struct Upstream {
    incoming: Arc<Mutex<Incoming>>,
    received: Arc<AtomicU64>,
    activity: Arc<Activity>,
    waiting: Option<Waiting>,
    pace: Pace,
    stall: Pin<Box<Sleep>>,
}

/// What is left of a body after its request has been answered.
pub(crate) struct Remainder(Arc<Mutex<Incoming>>);

impl Upstream {
    pub(crate) fn new(incoming: Incoming, received: Arc<AtomicU64>, busy: &Busy) -> (Self, Remainder) {
        let incoming = Arc::new(Mutex::new(incoming));
        let upstream = Upstream {
            incoming: Arc::clone(&incoming),
            received,
            activity: Arc::clone(&busy.0),
            waiting: None,
            pace: Pace::new(PATIENCE, MOST_PATIENCE),
            stall: Box::pin(tokio::time::sleep(PATIENCE)),
        };
        (upstream, Remainder(incoming))
    }
}

impl Body for Upstream {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut *self.incoming.lock().unwrap_or_else(PoisonError::into_inner)).poll_frame(cx);
        if frame.is_pending() {
            if self.waiting.is_none() {
                self.waiting = Some(Waiting::for_body(&self.activity));
                let end = self.pace.wait(Instant::now());
                self.stall.as_mut().reset(end);
            }
            ready!(self.stall.as_mut().poll(cx));
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        self.waiting = None;
        frame.map(|frame| {
            frame.map(|frame| {
                let frame = frame?;
                let length = frame.data_ref().map_or(0, Bytes::len);
                self.received.fetch_add(length as u64, Ordering::Relaxed);
                self.activity.moved(length);
                self.pace.moved(length as u64, Instant::now());
                Ok(frame)
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner).is_end_stream()
    }
}

impl Remainder {
    /// Reads the rest if it is short, so that the connection can carry the next request. Returns whether
    /// all has been read.
    pub(crate) async fn drain(self) -> bool {
        let mut incoming = match Arc::try_unwrap(self.0) {
            Ok(incoming) => incoming.into_inner().unwrap_or_else(PoisonError::into_inner),
            Err(_) => return false,
        };
        let read = async {
            let mut left = DRAIN;
            while let Some(frame) = incoming.frame().await {
                let Ok(frame) = frame else { return false };
                match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                    Some(rest) => left = rest,
                    None => return false,
                }
            }
            true
        };
        tokio::time::timeout(DRAIN_TIME, read).await.unwrap_or(false)
    }
}

/// A request's body for `dav-server`: as it arrives, or read whole before.
pub(crate) enum RequestBody {
    Arriving(Upstream),
    Whole(Full<Bytes>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            RequestBody::Arriving(body) => Pin::new(body).poll_frame(cx),
            RequestBody::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
        }
    }
}

/// An answer's body on its way out. Its request's log line is written when it is dropped.
pub(crate) struct Answer {
    body: DavBody,
    /// The `PROPFIND` this answers, if it named the properties it wants.
    named: Option<Arc<Visit>>,
    entry: Entry,
    busy: Busy,
    /// From a frame until the next is asked for.
    waiting: Option<Waiting>,
}

impl Answer {
    pub(crate) fn new(body: DavBody, named: Option<Arc<Visit>>, entry: Entry, busy: Busy) -> Self {
        Answer { body, named, entry, busy, waiting: None }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.waiting = None;
        let mut frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(visit) = &self.named {
            frame = frame.map(|frame| frame.map(|frame| frame.map_data(|piece| multistatus::complete(piece, visit))));
        }
        if let Some(Ok(frame)) = &frame {
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.entry.sent += length as u64;
            self.busy.0.moved(length);
            self.waiting = Some(Waiting::for_reader(&self.busy.0));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.body.inner, BodyType::Empty | BodyType::Bytes(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body.inner {
            BodyType::Empty | BodyType::Bytes(None) => SizeHint::with_exact(0),
            BodyType::Bytes(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            BodyType::AsyncStream(_) => SizeHint::default(),
        }
    }
}
