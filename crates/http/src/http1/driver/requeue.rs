//! Requests that go back without a response: at the connection's end, or recalled from behind a slow response.

use tokio::sync::mpsc;

use super::{Driver, InFlight, read::Reader};
use crate::{
    Cause, Error,
    body::Piece,
    connection_messages::{ConnectionEvent, Job, Recall, Sent},
    method::is_safe,
};

/// The cause for recalled requests.
const SLOW: Cause = Cause::Retired("it waited behind a slow response");

impl Driver {
    /// Returns the requests that were not sent, and perhaps those that may be sent twice. Responses to the latter still
    /// come, so the connection ends before them.
    pub(super) fn recall(&mut self, Recall { behind, sent }: Recall) {
        if self.in_flight.front().is_none_or(|first| first.id != behind) {
            return;
        }
        while let Some(Ok(job)) = self.channels.jobs.as_mut().map(mpsc::UnboundedReceiver::try_recv) {
            self.waiting.push_back(job);
        }
        let mut back: Vec<(Job, Sent)> = self.waiting.drain(..).rev().map(|job| (job, Sent::Nothing)).collect();
        while self.in_flight.len() > 1
            && let Some(last) = self.in_flight.pop_back()
        {
            let gone = last.start < self.output.written;
            let InFlight { job: Some(mut job), .. } = last else { break };
            if gone && !(sent && may_be_sent_twice(&job)) {
                self.in_flight.push_back(InFlight { job: Some(job), ..last });
                break;
            }
            self.exchanges.forget();
            if last.end.is_none() {
                self.output.body = None;
            }
            if gone {
                job.sendings += 1;
                self.is_draining = true;
                back.push((job, Sent::Something));
            } else {
                self.output.buffer.truncate((last.start - self.output.written) as usize);
                back.push((job, Sent::Nothing));
            }
        }
        if self.is_draining {
            let _ = self.channels.events.send(ConnectionEvent::Draining { connection: self.id, cause: SLOW });
        }
        for (job, sent) in back {
            let _ = self.channels.events.send(ConnectionEvent::Returned {
                connection: self.id,
                job: job.into(),
                sent,
                cause: SLOW,
            });
        }
    }

    /// Returns every job without a response, and fails the reader of an incomplete one.
    ///
    /// Requests in flight are aborted. The kernel might otherwise send them when the link comes back in an hour, after
    /// the caller was told of the failure, and perhaps has sent them again.
    pub(super) async fn end(mut self, cause: Cause) {
        if !self.in_flight.is_empty() {
            self.io.abort();
        }
        drop(self.io);
        let mut unanswered = Vec::new();
        let mut cut = None;
        for in_flight in self.in_flight.drain(..) {
            match in_flight.job {
                Some(mut job) => {
                    let sent = if in_flight.start < self.output.written { Sent::Something } else { Sent::Nothing };
                    job.sendings += u32::from(sent == Sent::Something);
                    unanswered.push((job, sent));
                }
                None => cut = Some(in_flight.asked),
            }
        }
        let mut never = Vec::from(std::mem::take(&mut self.waiting));
        if let Some(mut jobs) = self.channels.jobs.take() {
            jobs.close();
            while let Ok(job) = jobs.try_recv() {
                never.push(job);
            }
        }
        unanswered.extend(never.into_iter().map(|job| (job, Sent::Nothing)));
        let _ = self.channels.events.send(ConnectionEvent::Closed {
            connection: self.id,
            cause: cause.clone(),
            unanswered,
        });
        if let Reader::Active(sender, waiting) = self.reader
            && let Some(sender) = sender.get_ref()
        {
            let failed = cut.map(|asked| Piece::Failed(Error::Exchange { asked, cause }));
            // As long as there is a reader, it gets what was received, at its own pace.
            for piece in waiting.into_iter().chain(failed) {
                if sender.send(piece).await.is_err() {
                    break;
                }
            }
        }
    }
}

/// Whether a request that was sent may be sent once more: it is safe, was sent once, and is not a follow-up.
fn may_be_sent_twice(job: &Job) -> bool {
    !job.is_follow_up && is_safe(job.request.method()) && job.request.body().is_repeatable() && job.sendings == 0
}
