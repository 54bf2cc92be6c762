//! HTTP/3: many exchanges at once on one QUIC connection (RFC 9114), by the crates `h3` and `quinn`.
//!
//! It differs from HTTP/2 where the link loses packets, and at its beginning. A lost packet holds up the streams whose
//! bytes it carried and no others. One handshake brings transport and keys, a round trip less than TCP with TLS 1.3;
//! and when a session is resumed, requests that may be repeated leave with its first packet (0-RTT).
//!
//! # Before the handshake is done
//! The driver's [`ConnectionEvent::Confirmed`] tells when the handshake is done; until then the scheduler gives this connection
//! nothing but requests with safe methods. A server that does not take early data has done nothing with it, so its
//! jobs go back as never sent, and `h3` begins anew on the same connection: its own streams went with the data. The
//! server's are taken only when that is known, since whoever takes them must keep them: to drop a control stream is the
//! connection's end (RFC 9114 §6.2.1). What is never confirmed is given up within [`PATIENCE`]: a path that swallows UDP
//! says nothing at all.
//!
//! # Windows, liveness and fates
//! `quinn` gives windows back as the exchanges read, and these read no faster than their readers, so that what a slow
//! reader holds is bounded as over HTTP/2. It also asks a silent server for a sign of life. Each job is settled
//! exactly once, and what becomes of it is decided as over HTTP/2 (`streams`).

mod exchange;

use std::{future::poll_fn, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use h3::error::Code;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use transport::{EarlyData, Pending, Quic, QuicSettings, TlsFacts, connection_error, frame_guard::Guarded};

use self::exchange::Begun;
use crate::{
    Cause, Step, Timeouts,
    messages::{ConnectionEvent, ConnectionId, Job},
    streams::{Count, Outcome, connection::Exchanges, stall_timer::Traffic},
};

/// How long a handshake may go on under early data: a second for the first packet to be taken for lost and sent again
/// (RFC 9002 §6.2.2), a round trip across the world, and some more.
const PATIENCE: Duration = Duration::from_secs(3);
/// The most that the head of an answer may be, in bytes.
const FIELD_SECTION: u64 = 64 * 1024;
/// How long a farewell may take to leave.
const FAREWELL: Duration = Duration::from_millis(100);

type Driver = h3::client::Connection<Guarded<h3_quinn::Connection>, Bytes>;
type Sender = h3::client::SendRequest<Guarded<h3_quinn::OpenStreams>, Bytes>;

/// Serves jobs on a connection until it ends, or until `jobs` is dropped and all is done.
pub(crate) async fn run(
    quic: Quic,
    id: ConnectionId,
    settings: QuicSettings,
    timeouts: Timeouts,
    jobs: mpsc::UnboundedReceiver<Job>,
    events: mpsc::UnboundedSender<ConnectionEvent>,
) {
    let Quic { connection: quic, endpoint, pending, facts: _ } = quic;
    let traffic = Traffic::new(settings.stream_window, settings.connection_window);
    let exchanges = Exchanges::new(id, timeouts, traffic, jobs, events);
    let mut connection = Connection { exchanges, quic: quic.clone(), pending };
    let cause = connection.live().await;
    quic.close(quinn::VarInt::from_u32(Code::H3_NO_ERROR.value() as u32), b"");
    connection.exchanges.close(cause).await;
    let _ = timeout(FAREWELL, endpoint.wait_idle()).await;
}

struct Connection {
    exchanges: Exchanges,
    quic: quinn::Connection,
    /// The handshake, until it is known how it came out.
    pending: Option<Pending>,
}

/// Why a connection is not served on.
enum End {
    Over(Cause),
    /// The server did not take early data, and with it went the streams of `h3` itself.
    Rejected(TlsFacts),
}

impl Connection {
    /// Serves until the end, and gives its reason.
    async fn live(&mut self) -> Cause {
        loop {
            let mut http3 = h3::client::builder();
            http3.max_field_section_size(FIELD_SECTION).send_grease(false);
            let built = http3.build(Guarded::new(self.quic.clone()));
            let end = match timeout(self.exchanges.common.timeouts.connect, built).await {
                Ok(Ok((driver, sender))) => self.serve(driver, sender).await,
                Ok(Err(error)) => self.unbuilt(error.to_string()).await,
                Err(_) => End::Over(Cause::TimedOut(Step::Send, self.exchanges.common.timeouts.connect)),
            };
            match end {
                End::Over(cause) => return cause,
                End::Rejected(told) => self.confirm(told),
            }
        }
    }

    /// Why there is no HTTP/3: the early data may have been rejected meanwhile.
    async fn unbuilt(&mut self, why: String) -> End {
        if let Some(pending) = &mut self.pending
            && let Ok(told) = timeout(PATIENCE, pending.end()).await
            && self.quic.close_reason().is_none()
        {
            self.pending = None;
            return End::Rejected(told);
        }
        End::Over(self.ended().unwrap_or(Cause::Protocol(why)))
    }

    async fn serve(&mut self, mut driver: Driver, sender: Sender) -> End {
        // Whatever else happens meanwhile.
        let at_last = Instant::now() + PATIENCE;
        loop {
            while let Some(job) = self.exchanges.waiting.pop_front() {
                self.begin(job, &sender);
            }
            if !self.exchanges.open && self.exchanges.running.is_empty() {
                return End::Over(Cause::Retired("the connection is no longer needed"));
            }
            let pending = self.pending.as_mut();
            tokio::select! {
                biased;
                error = poll_fn(|context| driver.poll_close(context)), if pending.is_none() => {
                    return End::Over(self.ended().unwrap_or_else(|| Cause::Protocol(error.to_string())));
                }
                end = async { timeout_at(at_last, pending?.end()).await.ok() }, if pending.is_some() => {
                    if let Some(end) = self.confirmed(end).await {
                        return end;
                    }
                }
                job = self.exchanges.jobs.recv(), if self.exchanges.open => self.exchanges.take(job),
                Some(outcome) = self.exchanges.running.next() => self.settle(outcome),
            }
        }
    }

    /// The handshake is done, or is not waited for any longer.
    async fn confirmed(&mut self, end: Option<TlsFacts>) -> Option<End> {
        let Some(told) = end else { return Some(End::Over(Cause::TimedOut(Step::Quic, PATIENCE))) };
        if let Some(cause) = self.ended() {
            return Some(End::Over(cause));
        }
        self.pending = None;
        if told.early == EarlyData::Accepted {
            self.confirm(told);
            return None;
        }
        // Their streams are gone: all come back at once.
        while let Some(outcome) = self.exchanges.running.next().await {
            self.settle(outcome);
        }
        Some(End::Rejected(told))
    }

    fn confirm(&self, tls: TlsFacts) {
        self.exchanges
            .common
            .report(ConnectionEvent::Confirmed { connection: self.exchanges.common.id, tls: Box::new(tls) });
    }

    /// What the connection ended from, if it did.
    fn ended(&self) -> Option<Cause> {
        let waiting = if self.pending.is_some() { Step::Quic } else { Step::Receive };
        self.quic.close_reason().map(|error| connection_error(&error, waiting))
    }

    fn begin(&mut self, job: Job, sender: &Sender) {
        if job.reply.is_closed() {
            return self.exchanges.over(job.id, 0, 0, false);
        }
        let unanswered = Count::one_more(&self.exchanges.common.unanswered);
        let begun = Begun { job, sender: sender.clone(), unanswered };
        self.exchanges.running.push(Box::pin(exchange::exchange(begun, self.exchanges.common.clone())));
    }

    fn settle(&mut self, outcome: Outcome) {
        if let Outcome::Back(_, _, cause) = &outcome
            && exchange::says_farewell(cause)
            && self.exchanges.farewell.is_none()
        {
            self.exchanges.drain(cause.clone());
        }
        self.exchanges.settle(outcome);
    }
}
