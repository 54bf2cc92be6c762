//! Request and response bodies that count bytes and enforce a minimum rate.

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
use crate::activity::{Activity, RequestGuard, WaitingForClient};
use crate::budget::Outstanding;
use crate::min_rate::MinRateTimer;
use crate::multistatus;
use crate::service::AnswerBody;
use crate::store::RequestContext;

/// Initial and maximum time credit of a body; see [`MinRateTimer`].
const INITIAL_PATIENCE: Duration = Duration::from_secs(30);
const MAX_PATIENCE: Duration = Duration::from_mins(1);

/// How many bytes of a refused body are read to keep the connection usable, and for how long.
const MAX_DRAIN: usize = 256 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A body received over any HTTP version.
pub(crate) type Incoming = UnsyncBoxBody<Bytes, io::Error>;

/// A request body as it is received.
pub(crate) struct ReceivedBody {
    incoming: Arc<Mutex<Incoming>>,
    received: Arc<AtomicU64>,
    activity: Arc<Activity>,
    waiting: Option<WaitingForClient>,
    pace: MinRateTimer,
    timeout: Pin<Box<Sleep>>,
}

/// The unread rest of a body after the response.
pub(crate) struct Remainder(Arc<Mutex<Incoming>>);

impl ReceivedBody {
    pub(crate) fn new(incoming: Incoming, received: Arc<AtomicU64>, guard: &RequestGuard) -> (Self, Remainder) {
        let incoming = Arc::new(Mutex::new(incoming));
        let upstream = ReceivedBody {
            incoming: Arc::clone(&incoming),
            received,
            activity: Arc::clone(&guard.0),
            waiting: None,
            pace: MinRateTimer::new(INITIAL_PATIENCE, MAX_PATIENCE),
            timeout: Box::pin(tokio::time::sleep(INITIAL_PATIENCE)),
        };
        (upstream, Remainder(incoming))
    }
}

impl ReceivedBody {
    /// The connection that it arrives on.
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }
}

impl Body for ReceivedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut *self.incoming.lock().unwrap_or_else(PoisonError::into_inner)).poll_frame(cx);
        if frame.is_pending() {
            if self.waiting.is_none() {
                self.waiting = Some(WaitingForClient::for_body(&self.activity));
                let end = self.pace.wait(Instant::now());
                self.timeout.as_mut().reset(end);
            }
            ready!(self.timeout.as_mut().poll(cx));
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

    fn size_hint(&self) -> SizeHint {
        self.incoming.lock().unwrap_or_else(PoisonError::into_inner).size_hint()
    }
}

impl Remainder {
    /// Reads the rest if it is short, so that the connection can carry another request. Returns whether the body has
    /// been read to its end.
    pub(crate) async fn drain(self) -> bool {
        let mut incoming = match Arc::try_unwrap(self.0) {
            Ok(incoming) => incoming.into_inner().unwrap_or_else(PoisonError::into_inner),
            Err(_) => return false,
        };
        let read = async {
            let mut left = MAX_DRAIN;
            while let Some(frame) = incoming.frame().await {
                let Ok(frame) = frame else { return false };
                match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                    Some(rest) => left = rest,
                    None => return false,
                }
            }
            true
        };
        tokio::time::timeout(DRAIN_TIMEOUT, read).await.unwrap_or(false)
    }
}

/// A request body for `dav-server`: streamed, or read completely.
pub(crate) enum RequestBody {
    Arriving(ReceivedBody),
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

/// Where a response body comes from.
pub(crate) enum Outgoing {
    Dav(DavBody),
    Service(AnswerBody),
}

impl From<DavBody> for Outgoing {
    fn from(body: DavBody) -> Self {
        Self::Dav(body)
    }
}

impl From<AnswerBody> for Outgoing {
    fn from(body: AnswerBody) -> Self {
        Self::Service(body)
    }
}

/// A response body. The log line is written when it is dropped.
pub(crate) struct ResponseBody {
    body: Outgoing,
    /// The context of a `PROPFIND` that names properties.
    named: Option<Arc<RequestContext>>,
    entry: Entry,
    guard: RequestGuard,
    outstanding: Arc<Outstanding>,
    /// Set while the client reads a frame: from producing it until the next one is polled.
    waiting: Option<WaitingForClient>,
}

impl ResponseBody {
    pub(crate) fn new(body: Outgoing, named: Option<Arc<RequestContext>>, entry: Entry, guard: RequestGuard) -> Self {
        ResponseBody { body, named, entry, guard, outstanding: Arc::default(), waiting: None }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.guard.0.budget.is_spent() && !self.outstanding.is_none(cx) {
            return Poll::Pending;
        }
        self.waiting = None;
        let mut frame = ready!(match &mut self.body {
            Outgoing::Dav(body) => Pin::new(body).poll_frame(cx),
            Outgoing::Service(body) => Pin::new(body).poll_frame(cx),
        });
        if let Some(context) = &self.named {
            frame = frame.map(|frame| frame.map(|frame| frame.map_data(|piece| multistatus::complete(piece, context))));
        }
        if let Some(Ok(frame)) = &frame {
            let length = frame.data_ref().map_or(0, Bytes::len);
            self.entry.sent += length as u64;
            self.guard.0.moved(length);
            self.waiting = Some(WaitingForClient::for_reader(&self.guard.0));
        }
        let counted = |bytes| self.outstanding.counted(bytes, &self.guard.0);
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(counted))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Outgoing::Dav(body) => matches!(body.inner, BodyType::Empty | BodyType::Bytes(None)),
            Outgoing::Service(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let body = match &self.body {
            Outgoing::Dav(body) => &body.inner,
            Outgoing::Service(body) => return body.size_hint(),
        };
        match body {
            BodyType::Empty | BodyType::Bytes(None) => SizeHint::with_exact(0),
            BodyType::Bytes(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            BodyType::AsyncStream(_) => SizeHint::default(),
        }
    }
}
