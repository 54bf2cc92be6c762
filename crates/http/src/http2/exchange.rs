//! One request and its response on a stream.
//!
//! Both halves run concurrently, because a server may respond before it has read everything. The response is complete
//! only when the request is: an upload that fails after an early success is no success. One place handles all endings,
//! and decides whether the job goes back, its reader gets an error, or all is well.

use std::sync::Arc;

use bytes::Bytes;
use h2::{Reason, SendStream, client::ResponseFuture};
use http::{Response, StatusCode, Version};

use super::{
    end_of_connection,
    receive::{self, Unreceived},
    send,
};
use crate::{
    Cause, Chunks, Options, ResponseInfo,
    connection_messages::{Job, JobId, Sent},
    streams::{
        Answer, CountGuard, End, Fate, JobParts, Outcome, both, conclude, connection::SharedState,
        stall_timer::StallTimer,
    },
};

/// A request whose header was sent.
pub(super) struct Begun {
    pub(super) job: Job,
    pub(super) stream: SendStream<Bytes>,
    pub(super) response: ResponseFuture,
    /// The body, if there is one.
    pub(super) chunks: Option<Chunks>,
    /// Counts it among the requests without a response header, and how many were before it.
    pub(super) unanswered: (CountGuard, usize),
}

/// Runs the exchange to its end.
pub(super) async fn exchange(begun: Begun, common: Arc<SharedState>) -> Outcome {
    let Begun {
        job: Job { id, request, reply, sendings, is_follow_up, marks },
        mut stream,
        response,
        chunks,
        unanswered: (count, behind),
    } = begun;
    let bounds = request.extensions().get::<Options>().and_then(|options| options.timeouts).unwrap_or(common.timeouts);
    let timer = StallTimer::new(common.traffic.clone(), bounds);
    let info = ResponseInfo {
        connection: common.id.0,
        version: Version::HTTP_2,
        sendings: sendings + 1,
        behind: behind.try_into().unwrap_or(u32::MAX),
    };
    let mut answer = Answer::Owed(reply, count);
    let told = request.body().length();
    let sending =
        async { if let Some(chunks) = chunks { send::send(&mut stream, chunks, told, &timer).await } else { Ok(()) } };
    let end = both(sending, receive(response, &mut answer, id, info, &common, &timer), &timer).await;

    if !matches!(end, End::Whole | End::Failed(_)) {
        stream.send_reset(Reason::CANCEL);
    }
    let job = JobParts { id, request, sendings, is_follow_up, marks };
    conclude(end, answer, job, &timer, |error, answer| {
        if error.is_reset() && error.is_library() {
            return Fate::Malformed(malformed(answer, error));
        }
        let (sent, cause) = fate(error, &common);
        Fate::Unanswered(sent, cause)
    })
    .await
}

/// The receiving half: header, then body. Returns the status of a complete response.
async fn receive(
    mut response: ResponseFuture,
    answer: &mut Answer,
    job: JobId,
    info: ResponseInfo,
    common: &SharedState,
    timer: &StallTimer,
) -> Result<StatusCode, Unreceived> {
    let head = {
        let Answer::Owed(reply, _) = answer else { return Err(Unreceived::Unwanted) };
        tokio::select! {
            biased;
            head = receive::head(&mut response, timer) => head?,
            () = reply.closed() => return Err(Unreceived::Unwanted),
        }
    };
    let (pieces, incoming) = receive::channel(&head, common.traffic.stream_window());
    let (parts, mut body) = head.into_parts();
    let status = answer.begin(Response::from_parts(parts, incoming), &pieces, (job, info), common)?;
    receive::body(&mut body, &pieces, timer).await?;
    Ok(status)
}

/// What an error of a stream or of its connection means for its request. Streams above the last one that a GOAWAY
/// names, and those reset with REFUSED_STREAM, had no effect (RFC 9113 §6.8, §8.7); HTTP_1_1_REQUIRED refuses, too.
fn fate(error: &h2::Error, common: &SharedState) -> (Sent, Cause) {
    let http2 = |code: Reason, said: &str| Cause::Http2 { code: code.into(), said: format!("{said} ({code:?})") };
    match error.reason() {
        Some(code) if error.is_remote() && error.is_reset() => {
            let nothing = matches!(code, Reason::REFUSED_STREAM | Reason::HTTP_1_1_REQUIRED);
            let sent = if nothing { Sent::Nothing } else { Sent::Something };
            (sent, http2(code, "the server reset the request's stream"))
        }
        Some(code) if error.is_remote() && error.is_go_away() => {
            (Sent::Nothing, http2(code, "the server closed the connection before it processed the request"))
        }
        _ => (Sent::Something, common.ended.get().cloned().unwrap_or_else(|| end_of_connection(error))),
    }
}

/// The cause for a response that `h2` rejects. It does not say which rule was broken.
fn malformed(answer: &Answer, error: &h2::Error) -> Cause {
    Cause::Protocol(match (answer, error.reason()) {
        (_, Some(Reason::FLOW_CONTROL_ERROR)) => "the server exceeded its flow-control window".to_owned(),
        (Answer::Owed(..), _) => {
            format!("the response header is malformed, or exceeds {} KiB", super::HEADER_LIST / 1024)
        }
        (Answer::Flowing(_), _) => "the response body does not match its Content-Length".to_owned(),
    })
}
