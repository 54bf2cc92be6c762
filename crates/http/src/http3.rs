//! HTTP/3: many exchanges at once on one QUIC connection (RFC 9114), by the crates `h3` and `quinn`.
//!
//! It differs from HTTP/2 on lossy links and in its handshake. A lost packet delays only the streams whose data it
//! carried. One handshake sets up transport and keys, a round trip less than TCP with TLS 1.3; and if a session is
//! resumed, requests that may be repeated leave with the first packet (0-RTT).
//!
//! # Before the handshake is done
//! [`ConnectionEvent::Confirmed`] signals the end of the handshake; until then the scheduler gives this connection only
//! safe requests. A server that rejects early data has not processed it, so its jobs go back as not sent, and `h3`
//! starts again on the same connection, because its own streams were rejected too. The server's streams are accepted
//! only then, because dropping an accepted control stream would end the connection (RFC 9114 §6.2.1). A handshake that
//! is not confirmed within [`PATIENCE`] fails: a path that drops UDP is silent.
//!
//! # Windows, liveness and outcomes
//! `quinn` extends windows as the exchanges read, and these read no faster than their readers, so a slow reader's
//! memory is bounded as over HTTP/2. It also sends PINGs to a silent server. Each job is settled exactly once, as over
//! HTTP/2 (`streams`).

mod exchange;

use std::{future::poll_fn, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use h3::error::Code;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use transport::{EarlyData, Pending, Quic, QuicSettings, TlsFacts, connection_error, h3_frame_limit::FrameLimited};

use self::exchange::Begun;
use crate::{
    Cause, Step, Timeouts,
    connection_messages::{ConnectionEvent, ConnectionId, Job},
    streams::{CountGuard, Outcome, connection::Exchanges, stall_timer::Traffic},
};

/// The timeout of a handshake under early data: a second until the first packet is retransmitted (RFC 9002 §6.2.2), a
/// round trip across the world, and some reserve.
const PATIENCE: Duration = Duration::from_secs(3);
/// The maximum size of a response header, in bytes.
const FIELD_SECTION: u64 = 64 * 1024;
/// How long to wait for the CONNECTION_CLOSE to be sent.
const FAREWELL: Duration = Duration::from_millis(100);

type Driver = h3::client::Connection<FrameLimited<h3_quinn::Connection>, Bytes>;
type Sender = h3::client::SendRequest<FrameLimited<h3_quinn::OpenStreams>, Bytes>;

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
    /// The handshake, if it is still in progress.
    pending: Option<Pending>,
}

/// Why serving a connection ended.
enum End {
    Over(Cause),
    /// The server rejected early data, and with it the streams of `h3` itself.
    Rejected(TlsFacts),
}

impl Connection {
    /// Serves until the end, and returns its cause.
    async fn live(&mut self) -> Cause {
        loop {
            let mut http3 = h3::client::builder();
            http3.max_field_section_size(FIELD_SECTION).send_grease(false);
            let built = http3.build(FrameLimited::new(self.quic.clone()));
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

    /// HTTP/3 could not be set up, perhaps because early data was rejected meanwhile.
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

    /// The handshake is done, or has timed out.
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
        // Their streams are gone, so all come back at once.
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

    /// The cause of the connection's end, if it has ended.
    fn ended(&self) -> Option<Cause> {
        let waiting = if self.pending.is_some() { Step::Quic } else { Step::Receive };
        self.quic.close_reason().map(|error| connection_error(&error, waiting))
    }

    fn begin(&mut self, job: Job, sender: &Sender) {
        if job.reply.is_closed() {
            return self.exchanges.over(job.id, 0, 0, false);
        }
        let unanswered = CountGuard::increment(&self.exchanges.common.unanswered);
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
