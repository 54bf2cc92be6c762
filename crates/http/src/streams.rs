//! What HTTP/2 and HTTP/3 have in common: many exchanges on one connection, each on a stream of its own.
//!
//! `http2` and `http3` differ in how a stream is opened, written and read. What becomes of the job, its reader and
//! its bounds is the same, and is here.

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
    connection::Common,
    stall_timer::{Sending, StallTimer},
};
use crate::{
    Body, Cause, Chunks, Error, Incoming, RequestLine, ResponseInfo, Step,
    body::Piece,
    identity::Marks,
    messages::{ConnectionEvent, ENDLESS_INTERIM, Job, JobId, ResponseHead, Sent},
    method::is_idempotent,
};

/// Why a body was not sent whole.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// Our own source failed, or was not as long as told.
    Source(io::Error),
    /// The stream takes no more; the receiving half learns why.
    Closed,
}

/// Why an answer did not come whole.
#[derive(Debug)]
pub(crate) enum Unreceived<E> {
    /// Nobody wants it any more.
    Unwanted,
    /// Interim answers came, and more of them than are believed.
    Noise,
    /// The stream or the connection ended before it.
    Failed(E),
}

/// What ended an exchange.
pub(crate) enum End<E> {
    Whole,
    /// The answer is whole and refuses what has not been sent whole.
    Refused,
    /// Our own body could not be read, or was not as long as told.
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

/// Runs both halves until nothing more is to be had. A refusal that comes before the request is whole makes the
/// rest of it pointless (RFC 9113 §8.1, RFC 9114 §4.1).
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

/// How an exchange went.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Whatever there was to say was said to the reader.
    Over { job: JobId, sent: u64, received: u64, whole: bool },
    /// There is no answer.
    Back(Box<Job>, Sent, Cause),
}

/// What became of the answer so far.
pub(crate) enum Answer {
    Owed(oneshot::Sender<Result<Response<Incoming>, Error>>, Count),
    Flowing(mpsc::Sender<Piece>),
}

/// One of a number, while it lives.
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    /// One more, and how many there were before.
    pub(crate) fn one_more(of: &Arc<AtomicUsize>) -> (Self, usize) {
        let before = of.fetch_add(1, Ordering::Relaxed);
        (Self(of.clone()), before)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Answer {
    /// Tells the driver of the head, and hands it over with the body that is to come; its status.
    pub(crate) fn begin<E>(
        &mut self,
        mut response: Response<Incoming>,
        pieces: &mpsc::Sender<Piece>,
        (job, info): (JobId, ResponseInfo),
        common: &Common,
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

    /// Tells the reader that this was all.
    pub(crate) async fn end(self) {
        if let Self::Flowing(pieces) = self {
            let _ = pieces.send(Piece::End).await;
        }
    }

    /// Tells the reader why there is no answer, or no whole one.
    pub(crate) async fn fail(self, error: Error) {
        match self {
            Self::Owed(reply, _) => drop(reply.send(Err(error))),
            Self::Flowing(pieces) => drop(pieces.send(Piece::Failed(error)).await),
        }
    }
}

/// What an error means for the request that it ended.
pub(crate) enum Fate {
    /// What came is not what the protocol allows.
    Malformed(Cause),
    /// So much of the request had left.
    Unanswered(Sent, Cause),
}

/// A job without its reader.
pub(crate) struct JobParts {
    pub(crate) id: JobId,
    pub(crate) request: Request<Body>,
    pub(crate) sendings: u32,
    pub(crate) follows: bool,
    pub(crate) marks: Option<Marks>,
}

/// Decides what becomes of a job: its reader is told, or it goes back.
pub(crate) async fn conclude<E>(
    end: End<E>,
    answer: Answer,
    job: JobParts,
    timer: &StallTimer,
    fate: impl FnOnce(&E, &Answer) -> Fate,
) -> Outcome {
    let JobParts { id, request, sendings, follows, marks } = job;
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
            Outcome::Back(Box::new(Job { id, request, reply, sendings, follows, marks }), sent, cause)
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
    if is_idempotent(asked.method()) { Error::Exchange { asked, cause } } else { Error::Undecided { asked, cause } }
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

/// The error of a body that does not have the length that was told.
pub(crate) fn wrong_length(it_is: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("its source is {it_is} than announced"))
}
