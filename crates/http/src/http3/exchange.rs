//! One request and its response on a stream.
//!
//! Both halves run concurrently, as over HTTP/2. This module does what `h3` leaves to its caller: it checks that a body
//! matches its Content-Length (RFC 9114 §4.1.2), and cancels both halves of an abandoned request (§4.1.1).

use std::{sync::Arc, time::Duration};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use h3::{
    client::RequestStream,
    error::{Code, StreamError},
};
use http::{Method, Request, Response, StatusCode, Version};
use tokio::sync::mpsc;
use transport::{
    content_length,
    h3_frame_limit::{self, TooLong},
};

use super::Sender;
use crate::{
    Body, Cause, Chunks, Error, Incoming, Options, RequestLine, ResponseInfo, Step,
    body::Piece,
    connection_messages::{Job, JobId, MAX_INTERIM, Sent},
    streams::{
        self, Answer, CountGuard, End, Fate, JobParts, Outcome, Unreceived, Unsent, both, conclude,
        connection::SharedState,
        head, over,
        stall_timer::{Receiving, Sending, StallTimer},
        wrong_length,
    },
};

/// The number of pieces that a reader may lag behind.
const PIECES: usize = 16;
/// The maximum size of a write: small, so that uploads take turns.
const TURN: usize = 64 * 1024;
/// The cause after a GOAWAY (RFC 9114 §5.2).
const GOING_AWAY: &str = "the server accepts no more requests on the connection";

type Upstream = RequestStream<h3_quinn::SendStream<Bytes>, Bytes>;
type Downstream = RequestStream<h3_frame_limit::RecvStream<h3_quinn::RecvStream>, Bytes>;

/// A request to send.
pub(super) struct Begun {
    pub(super) job: Job,
    pub(super) sender: Sender,
    /// Counts it among the requests without a response header, and how many were before it.
    pub(super) unanswered: (CountGuard, usize),
}

/// Why there is no response, or no complete one.
pub(super) enum Failure {
    Stream(StreamError),
    /// The server allowed no stream for this time: nothing was sent.
    Unopened(Duration),
    /// It violates HTTP/3, or does not match its Content-Length.
    Malformed(String),
}

impl From<StreamError> for Unreceived<Failure> {
    fn from(error: StreamError) -> Self {
        Self::Failed(Failure::Stream(error))
    }
}

fn malformed(why: String) -> Unreceived<Failure> {
    Unreceived::Failed(Failure::Malformed(why))
}

/// Runs the exchange to its end.
pub(super) async fn exchange(begun: Begun, common: Arc<SharedState>) -> Outcome {
    let Begun {
        job: Job { id, mut request, reply, sendings, is_follow_up, marks },
        sender,
        unanswered: (count, behind),
    } = begun;
    let bounds = request.extensions().get::<Options>().and_then(|options| options.timeouts).unwrap_or(common.timeouts);
    let timer = StallTimer::new(common.traffic.clone(), bounds);
    let info = ResponseInfo {
        connection: common.id.0,
        version: Version::HTTP_3,
        sendings: sendings + 1,
        behind: behind.try_into().unwrap_or(u32::MAX),
    };
    let asked = RequestLine::of(&request);
    let mut answer = Answer::Owed(reply, count);
    let (head, chunks) = match ready(&mut request, &asked) {
        Ok(ready) => ready,
        Err(error) => {
            answer.fail(error).await;
            return over(id, &timer, false);
        }
    };
    let told = request.body().length();
    let end = match begin(sender, head, &mut answer, &timer).await {
        Ok((mut up, down)) => {
            let sending = async {
                match chunks {
                    Some(chunks) => send(&mut up, chunks, told, &timer).await,
                    None => up.finish().await.map_err(|_| Unsent::Closed),
                }
            };
            let receiving = receive(down, &mut answer, (id, request.method()), info, &common, &timer);
            let end = both(sending, receiving, &timer).await;
            // A dropped receiving half has already told the server. `h3-quinn` panics if it is stopped while it reads.
            match end {
                End::Whole => {}
                End::Failed(Failure::Malformed(_)) => up.stop_stream(Code::H3_MESSAGE_ERROR),
                _ => up.stop_stream(Code::H3_REQUEST_CANCELLED),
            }
            end
        }
        Err(end) => end,
    };
    let job = JobParts { id, request, sendings, is_follow_up, marks };
    conclude(end, answer, job, &timer, |failure, _| match failure {
        Failure::Malformed(why) => Fate::Malformed(Cause::Protocol(why.clone())),
        Failure::Unopened(bound) => Fate::Unanswered(Sent::Nothing, Cause::TimedOut(Step::Streams, *bound)),
        Failure::Stream(error) => {
            if let Some(frame) = too_long(error) {
                return Fate::Malformed(Cause::Protocol(format!("the response has {frame}")));
            }
            let (sent, cause) = fate(error, &common);
            Fate::Unanswered(sent, cause)
        }
    })
    .await
}

/// The header and the body to send.
fn ready(request: &mut Request<Body>, asked: &RequestLine) -> Result<(Request<()>, Option<Chunks>), Error> {
    let mut head = head::head(request)?;
    *head.version_mut() = Version::HTTP_3;
    let chunks =
        streams::open(request).map_err(|error| Error::Sending { asked: asked.clone(), source: Arc::new(error) })?;
    Ok((head, chunks))
}

/// Opens the stream, once the server allows one more, and sends the header.
async fn begin(
    mut sender: Sender,
    head: Request<()>,
    answer: &mut Answer,
    timer: &StallTimer,
) -> Result<(Upstream, Downstream), End<Failure>> {
    let Answer::Owed(reply, _) = answer else { return Err(End::Unwanted) };
    timer.sending(Sending::Window);
    tokio::select! {
        biased;
        stream = sender.send_request(head) => match stream {
            Ok(stream) => Ok(stream.split()),
            Err(error) => Err(End::Failed(Failure::Stream(error))),
        },
        () = reply.closed() => Err(End::Unwanted),
        (_, bound) = timer.overdue() => Err(End::Failed(Failure::Unopened(bound))),
    }
}

/// Sends the body. If its length was announced, the last bytes are sent only once the source has ended: a body that
/// turns out longer is an error on both sides, not a truncated file.
async fn send(stream: &mut Upstream, mut chunks: Chunks, told: Option<u64>, timer: &StallTimer) -> Result<(), Unsent> {
    let mut left = told;
    let mut held = Bytes::new();
    loop {
        timer.sending(Sending::Source);
        let Some(chunk) = chunks.next().await.transpose().map_err(Unsent::Source)? else { break };
        if chunk.is_empty() {
            continue;
        }
        pour(stream, std::mem::take(&mut held), timer).await?;
        if let Some(left) = &mut left {
            let rest = left.checked_sub(chunk.len() as u64);
            *left = rest.ok_or_else(|| Unsent::Source(wrong_length("longer")))?;
        }
        if left == Some(0) {
            held = chunk;
        } else {
            pour(stream, chunk, timer).await?;
        }
    }
    if left.is_some_and(|left| left > 0) {
        return Err(Unsent::Source(wrong_length("shorter")));
    }
    pour(stream, held, timer).await?;
    stream.finish().await.map_err(|_| Unsent::Closed)?;
    timer.sending(Sending::Done);
    Ok(())
}

async fn pour(stream: &mut Upstream, mut chunk: Bytes, timer: &StallTimer) -> Result<(), Unsent> {
    while !chunk.is_empty() {
        timer.sending(Sending::Window);
        let piece = chunk.split_to(chunk.len().min(TURN));
        let length = piece.len();
        stream.send_data(piece).await.map_err(|_| Unsent::Closed)?;
        timer.sent(length);
    }
    Ok(())
}

/// The receiving half: header, then body. Returns the status of a complete response.
async fn receive(
    mut stream: Downstream,
    answer: &mut Answer,
    (job, method): (JobId, &Method),
    info: ResponseInfo,
    common: &SharedState,
    timer: &StallTimer,
) -> Result<StatusCode, Unreceived<Failure>> {
    timer.receiving(Receiving::Head);
    let head = {
        let Answer::Owed(reply, _) = answer else { return Err(Unreceived::Unwanted) };
        let mut interim = 0;
        loop {
            let head = tokio::select! {
                biased;
                head = stream.recv_response() => head?,
                () = reply.closed() => return Err(Unreceived::Unwanted),
            };
            timer.record_progress();
            // Interim responses (RFC 9110 §15.2) count as progress.
            if !head.status().is_informational() {
                break head;
            }
            interim += 1;
            if interim > MAX_INTERIM {
                return Err(Unreceived::Noise);
            }
        }
    };
    let (parts, ()) = head.into_parts();
    let told = content_length(&parts.headers).map_err(|wrong| malformed(format!("the response {wrong}")))?;
    let bare = *method == Method::HEAD || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let length = if bare { Some(0) } else { told };
    let (pieces, incoming) = Incoming::channel(length, PIECES);
    let status = answer.begin(Response::from_parts(parts, incoming), &pieces, (job, info), common)?;
    body(&mut stream, &pieces, length, timer).await?;
    Ok(status)
}

/// Delivers the body to its reader, except for the end, which waits until the request is complete.
async fn body(
    stream: &mut Downstream,
    pieces: &mpsc::Sender<Piece>,
    length: Option<u64>,
    timer: &StallTimer,
) -> Result<(), Unreceived<Failure>> {
    let mut left = length;
    let wrong = || malformed("the response body does not match its Content-Length".to_owned());
    loop {
        room(pieces, timer).await?;
        let data = tokio::select! {
            biased;
            data = stream.recv_data() => data?,
            () = pieces.closed() => return Err(Unreceived::Unwanted),
        };
        let Some(mut data) = data else { break };
        let data = data.copy_to_bytes(data.remaining());
        timer.received(data.len());
        if let Some(left) = &mut left {
            *left = left.checked_sub(data.len() as u64).ok_or_else(wrong)?;
        }
        if !data.is_empty() {
            pieces.try_send(Piece::Data(data)).map_err(|_| Unreceived::Unwanted)?;
        }
    }
    if left.is_some_and(|left| left > 0) {
        return Err(wrong());
    }
    if let Some(trailers) = stream.recv_trailers().await? {
        room(pieces, timer).await?;
        pieces.try_send(Piece::Trailers(trailers)).map_err(|_| Unreceived::Unwanted)?;
    }
    timer.receiving(Receiving::Done);
    Ok(())
}

/// Waits until the reader has room for a piece.
async fn room(pieces: &mpsc::Sender<Piece>, timer: &StallTimer) -> Result<(), Unreceived<Failure>> {
    if pieces.capacity() == 0 {
        timer.receiving(Receiving::Reader);
    }
    let room = pieces.reserve().await.map_err(|_| Unreceived::Unwanted)?;
    drop(room);
    timer.receiving(Receiving::Body);
    Ok(())
}

/// The frame that was too long, if a stream ended for that.
fn too_long(error: &StreamError) -> Option<&TooLong> {
    if let StreamError::Undefined(inner) = error { inner.downcast_ref() } else { None }
}

/// What an error of a stream or of its connection means for its request. Requests that the server rejects, or that come
/// after its GOAWAY, had no effect (RFC 9114 §4.1.1, §5.2); nor had rejected early data.
fn fate(error: &StreamError, common: &SharedState) -> (Sent, Cause) {
    if let StreamError::Undefined(inner) = error
        && matches!(
            (inner.downcast_ref(), inner.downcast_ref()),
            (Some(quinn::ReadError::ZeroRttRejected), _) | (_, Some(quinn::WriteError::ZeroRttRejected))
        )
    {
        return (Sent::Nothing, Cause::Retired("the server rejected early data"));
    }
    match error {
        StreamError::RemoteTerminate { code } => {
            let nothing = matches!(*code, Code::H3_REQUEST_REJECTED | Code::H3_VERSION_FALLBACK);
            let sent = if nothing { Sent::Nothing } else { Sent::Something };
            (sent, Cause::Http3 { code: code.value(), said: format!("the server reset the request's stream ({code})") })
        }
        StreamError::RemoteClosing => (Sent::Nothing, Cause::Retired(GOING_AWAY)),
        StreamError::HeaderTooBig { max_size, .. } => {
            (Sent::Something, Cause::Protocol(format!("header fields of more than {max_size} bytes")))
        }
        other => {
            let cause = common.ended.get().cloned();
            (Sent::Something, cause.unwrap_or_else(|| Cause::Protocol(other.to_string())))
        }
    }
}

/// Whether this cause means that the connection takes no more requests.
pub(super) fn says_farewell(cause: &Cause) -> bool {
    matches!(cause, Cause::Retired(GOING_AWAY))
        || matches!(cause, Cause::Http3 { code, .. } if *code == Code::H3_VERSION_FALLBACK.value())
}
