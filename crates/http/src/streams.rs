//! What HTTP/2 and HTTP/3 have in common: many exchanges on one connection, each on its own stream.
//!
//! `http2` and `http3` differ in how a stream is opened, written and read. The handling of the job, its reader and its
//! timeouts is the same, and is here.

pub(crate) mod connection;
pub(crate) mod head;
pub(crate) mod stall_timer;

use std::{
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use tokio::sync::{mpsc, oneshot};

use self::{
    connection::SharedState,
    stall_timer::{Sending, StallTimer},
};
use crate::{
    Body, Cause, Chunks, Error, Incoming, RequestLine, ResponseInfo, Step,
    body::Piece,
    connection_messages::{ConnectionEvent, ENDLESS_INTERIM, Job, JobId, ResponseHead, Sent},
    method::is_idempotent,
    response_marks::Marks,
};

/// Why a request body was not sent completely.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// The source failed, or did not have the announced length.
    Source(io::Error),
    /// The stream was closed; the receiving half learns why.
    Closed,
}

/// Why a response is incomplete.
#[derive(Debug)]
pub(crate) enum Unreceived<E> {
    /// The caller dropped it.
    Unwanted,
    /// Too many interim responses came.
    Noise,
    /// The stream or the connection failed.
    Failed(E),
}

/// What ended an exchange.
pub(crate) enum End<E> {
    Whole,
    /// A complete response refused the request before it was sent completely.
    Refused,
    /// The request body could not be read, or did not have the announced length.
    Source(io::Error),
    Overdue(Step, Duration),
    Unwanted,
    Noise,
    Failed(E),
}

impl<E> From<Unreceived<E>> for End<E> {
    fn from(unreceived: Unreceived<E>) -> Self {
        match unreceived {
            Unreceived::Unwanted => Self::Unwanted,
            Unreceived::Noise => Self::Noise,
            Unreceived::Failed(error) => Self::Failed(error),
        }
    }
}

/// Runs both halves to the end. After an early refusal, the rest of the request is not sent (RFC 9113 §8.1, RFC 9114
/// §4.1).
pub(crate) async fn both<E>(
    sending: impl Future<Output = Result<(), Unsent>>,
    receiving: impl Future<Output = Result<StatusCode, Unreceived<E>>>,
    timer: &StallTimer,
) -> End<E> {
    let (mut sending, mut receiving, mut overdue) = (pin!(sending), pin!(receiving), pin!(timer.overdue()));
    let (mut all_sent, mut answered) = (false, false);
    loop {
        tokio::select! {
            biased;
            received = &mut receiving, if !answered => match received {
                Ok(_) if all_sent => return End::Whole,
                Ok(status) if !status.is_success() => return End::Refused,
                Ok(_) => answered = true,
                Err(unreceived) => return unreceived.into(),
            },
            sent = &mut sending, if !all_sent => match sent {
                Err(Unsent::Source(error)) => return End::Source(error),
                Ok(()) | Err(Unsent::Closed) if answered => return End::Whole,
                Ok(()) | Err(Unsent::Closed) => {
                    all_sent = true;
                    timer.sending(Sending::Done);
                }
            },
            (step, bound) = &mut overdue => return End::Overdue(step, bound),
        }
    }
}

/// The outcome of an exchange.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The reader has got everything, or an error.
    Over { job: JobId, sent: u64, received: u64, whole: bool },
    /// There is no response.
    Back(Box<Job>, Sent, Cause),
}

/// The state of the response.
pub(crate) enum Answer {
    Owed(oneshot::Sender<Result<Response<Incoming>, Error>>, CountGuard),
    Flowing(mpsc::Sender<Piece>),
}

/// Increments a counter while it lives.
pub(crate) struct CountGuard(Arc<AtomicUsize>);

impl CountGuard {
    /// Increments the counter, and returns its value before.
    pub(crate) fn increment(of: &Arc<AtomicUsize>) -> (Self, usize) {
        let before = of.fetch_add(1, Ordering::Relaxed);
        (Self(of.clone()), before)
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Answer {
    /// Reports the response header, and delivers it with the body to come. Returns the status.
    pub(crate) fn begin<E>(
        &mut self,
        mut response: Response<Incoming>,
        pieces: &mpsc::Sender<Piece>,
        (job, info): (JobId, ResponseInfo),
        common: &SharedState,
    ) -> Result<StatusCode, Unreceived<E>> {
        response.extensions_mut().insert(info);
        let status = response.status();
        let length = response.body().size_hint().exact();
        let head = ResponseHead { version: info.version, length, keep: None, last: false };
        let owed = std::mem::replace(self, Self::Flowing(pieces.clone()));
        common.report(ConnectionEvent::Head { connection: common.id, job, head });
        if let Self::Owed(reply, count) = owed {
            drop(count);
            reply.send(Ok(response)).map_err(|_| Unreceived::Unwanted)?;
        }
        Ok(status)
    }

    /// Ends the body.
    pub(crate) async fn end(self) {
        if let Self::Flowing(pieces) = self {
            let _ = pieces.send(Piece::End).await;
        }
    }

    /// Fails the response.
    pub(crate) async fn fail(self, error: Error) {
        match self {
            Self::Owed(reply, _) => drop(reply.send(Err(error))),
            Self::Flowing(pieces) => drop(pieces.send(Piece::Failed(error)).await),
        }
    }
}

/// What an error means for the request that it ended.
pub(crate) enum Fate {
    /// The response violates the protocol.
    Malformed(Cause),
    /// There is no response; how much of the request was sent.
    Unanswered(Sent, Cause),
}

/// A job without its reply channel.
pub(crate) struct JobParts {
    pub(crate) id: JobId,
    pub(crate) request: Request<Body>,
    pub(crate) sendings: u32,
    pub(crate) is_follow_up: bool,
    pub(crate) marks: Option<Marks>,
}

/// Decides the outcome: the reader gets the end or an error, or the job goes back.
pub(crate) async fn conclude<E>(
    end: End<E>,
    answer: Answer,
    job: JobParts,
    timer: &StallTimer,
    fate: impl FnOnce(&E, &Answer) -> Fate,
) -> Outcome {
    let JobParts { id, request, sendings, is_follow_up, marks } = job;
    let asked = RequestLine::of(&request);
    let whole = matches!(end, End::Whole | End::Refused);
    let (sent, cause) = match end {
        End::Whole | End::Refused => {
            answer.end().await;
            return over(id, timer, whole);
        }
        End::Unwanted => return over(id, timer, whole),
        End::Source(source) => {
            answer.fail(Error::Sending { asked, source: Arc::new(source) }).await;
            return over(id, timer, whole);
        }
        End::Overdue(step, bound) => (Sent::Something, Cause::TimedOut(step, bound)),
        End::Noise => (Sent::Something, Cause::Unexpected(ENDLESS_INTERIM)),
        End::Failed(error) => match fate(&error, &answer) {
            Fate::Malformed(cause) => {
                answer.fail(failed(asked, cause)).await;
                return over(id, timer, whole);
            }
            Fate::Unanswered(sent, cause) => (sent, cause),
        },
    };
    match answer {
        Answer::Owed(reply, _count) => {
            let sendings = sendings + u32::from(sent == Sent::Something);
            Outcome::Back(Box::new(Job { id, request, reply, sendings, is_follow_up, marks }), sent, cause)
        }
        flowing @ Answer::Flowing(_) => {
            flowing.fail(failed(asked, cause)).await;
            over(id, timer, whole)
        }
    }
}

pub(crate) fn over(job: JobId, timer: &StallTimer, whole: bool) -> Outcome {
    let (sent, received) = timer.counts();
    Outcome::Over { job, sent, received, whole }
}

fn failed(asked: RequestLine, cause: Cause) -> Error {
    if is_idempotent(asked.method()) {
        Error::Exchange { asked, cause }
    } else {
        Error::OutcomeUnknown { asked, cause }
    }
}

/// Opens the body of a request, if it has one.
pub(crate) fn open(request: &mut Request<Body>) -> std::io::Result<Option<Chunks>> {
    let empty = request.body().is_empty();
    let mut chunks = request.body_mut().open()?;
    if !empty {
        return Ok(Some(chunks));
    }
    match chunks.next().now_or_never().flatten().transpose()? {
        Some(chunk) if !chunk.is_empty() => Err(wrong_length("longer")),
        _ => Ok(None),
    }
}

/// The error of a body that does not have its announced length.
pub(crate) fn wrong_length(it_is: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("its source is {it_is} than announced"))
}
