//! The stall timeout of a stream.
//!
//! A stream fails when the server owes it data and nothing has moved for the timeout. Three delays are not the server's
//! fault: a request body with a slow source, a reader that does not read, and other readers that together hold the
//! connection's whole window. A fourth is hard to recognise: on a slow link with many streams, each may wait long for
//! its turn. Failing it then would send it a second time, and delay all others further. So while other streams move, a
//! stalled one gets more time, with a limit.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::{Step, Timeouts, connection_messages::PROGRESS};

/// How many timeouts a stream may stall while others on its connection move.
const PATIENCE: u32 = 5;

/// A timer that is reset only if it would fire too late: resetting it for every byte would cost more than firing early
/// now and then.
#[derive(Debug)]
pub(crate) struct Alarm(Pin<Box<Sleep>>);

impl Alarm {
    pub(crate) fn new() -> Self {
        Self(Box::pin(sleep_until(Instant::now())))
    }

    /// Ready at this time; otherwise the task is woken then, or earlier.
    pub(crate) fn poll_at(&mut self, time: Instant, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if time <= Instant::now() {
                return Poll::Ready(());
            }
            if self.0.is_elapsed() || self.0.deadline() > time {
                self.0.as_mut().reset(time);
            }
            ready!(self.0.as_mut().poll(context));
        }
    }
}

/// What the streams of a connection share.
#[derive(Debug)]
pub(crate) struct Traffic {
    /// The receive windows of a stream and of the connection, in bytes.
    stream_window: u32,
    connection_window: u32,
    /// When anything of any stream last moved.
    moved: Mutex<Instant>,
    /// The number of streams that wait for their readers.
    held_up: AtomicUsize,
    /// Bytes of bodies sent so far, which used the server's connection window.
    sent: AtomicU64,
}

impl Traffic {
    pub(crate) fn new(stream_window: u32, connection_window: u32) -> Self {
        let moved = Mutex::new(Instant::now());
        Self { stream_window, connection_window, moved, held_up: AtomicUsize::new(0), sent: AtomicU64::new(0) }
    }

    /// The receive window of a stream, in bytes.
    pub(crate) fn stream_window(&self) -> u32 {
        self.stream_window
    }

    /// How many bytes of bodies were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether slow readers may have used up the connection's window.
    fn is_blocked_by_readers(&self) -> bool {
        let held = self.held_up.load(Ordering::Relaxed) as u64 * u64::from(self.stream_window);
        held >= u64::from(self.connection_window)
    }
}

/// The state of the sending half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// It waits for the source of the body.
    Source,
    /// It waits for the server's window, or for the network.
    Window,
    /// Everything is sent.
    Done,
}

/// The state of the receiving half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// It waits for the response header.
    Head,
    /// It waits for more of the body.
    Body,
    /// It waits for the reader.
    Reader,
    /// Everything is received.
    Done,
}

/// The timer of one exchange, and its byte counts.
#[derive(Debug)]
pub(crate) struct StallTimer {
    traffic: Arc<Traffic>,
    bounds: Timeouts,
    state: Mutex<State>,
    sent: AtomicU64,
    received: AtomicU64,
}

#[derive(Debug)]
struct State {
    /// Since when nothing moved.
    since: Instant,
    /// Bytes of the response since the last progress.
    uncounted: usize,
    sending: Sending,
    receiving: Receiving,
}

impl StallTimer {
    pub(crate) fn new(traffic: Arc<Traffic>, bounds: Timeouts) -> Self {
        let state = State { since: Instant::now(), uncounted: 0, sending: Sending::Source, receiving: Receiving::Head };
        Self { traffic, bounds, state: Mutex::new(state), sent: AtomicU64::new(0), received: AtomicU64::new(0) }
    }

    /// Counts bytes of the request body.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.traffic.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.record_progress();
    }

    /// Counts bytes of the response body.
    pub(crate) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        let mut state = self.state();
        state.uncounted += bytes;
        if state.uncounted >= PROGRESS {
            state.uncounted = 0;
            drop(state);
            self.record_progress();
        }
    }

    /// The bytes of bodies sent and received.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Relaxed), self.received.load(Ordering::Relaxed))
    }

    /// Records progress.
    pub(crate) fn record_progress(&self) {
        let now = Instant::now();
        self.state().since = now;
        *lock(&self.traffic.moved) = now;
    }

    /// Sets the state of the sending half.
    pub(crate) fn sending(&self, sending: Sending) {
        let mut state = self.state();
        if state.sending != sending {
            (state.sending, state.since) = (sending, Instant::now());
        }
    }

    /// Sets the state of the receiving half.
    pub(crate) fn receiving(&self, receiving: Receiving) {
        let mut state = self.state();
        if state.receiving != receiving {
            self.count_held_up(state.receiving, receiving);
            (state.receiving, state.since) = (receiving, Instant::now());
        }
    }

    /// Resolves when the stream has stalled for too long.
    pub(crate) async fn overdue(&self) -> (Step, Duration) {
        let mut alarm = Alarm::new();
        std::future::poll_fn(|context| {
            let Some((step, bound)) = self.due() else { return Poll::Pending };
            ready!(alarm.poll_at(self.end_of_patience(step, bound), context));
            Poll::Ready((step, bound))
        })
        .await
    }

    /// What the server owes, and its timeout.
    fn due(&self) -> Option<(Step, Duration)> {
        let state = self.state();
        match (state.sending, state.receiving) {
            (Sending::Window, _) => Some((Step::Send, self.bounds.stall)),
            (_, Receiving::Body) => Some((Step::Receive, self.bounds.stall)),
            (Sending::Done, Receiving::Head) => Some((Step::FirstByte, self.bounds.first_byte)),
            _ => None,
        }
    }

    fn end_of_patience(&self, step: Step, bound: Duration) -> Instant {
        if step == Step::Receive && self.traffic.is_blocked_by_readers() {
            return Instant::now() + bound;
        }
        let since = self.state().since;
        (since.max(*lock(&self.traffic.moved)) + bound).min(since + bound * PATIENCE)
    }

    fn count_held_up(&self, before: Receiving, after: Receiving) {
        if after == Receiving::Reader {
            self.traffic.held_up.fetch_add(1, Ordering::Relaxed);
        } else if before == Receiving::Reader {
            self.traffic.held_up.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for StallTimer {
    fn drop(&mut self) {
        self.receiving(Receiving::Done);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(traffic: &Arc<Traffic>) -> StallTimer {
        StallTimer::new(traffic.clone(), Timeouts::default())
    }

    async fn rings_after(timer: &StallTimer) -> Option<(Step, Duration)> {
        let start = Instant::now();
        let (step, _) = tokio::time::timeout(Duration::from_hours(1), timer.overdue()).await.ok()?;
        Some((step, start.elapsed()))
    }

    #[tokio::test(start_paused = true)]
    async fn timer_runs_only_while_the_server_owes_data() {
        let traffic = Arc::new(Traffic::new(4 << 20, 16 << 20));
        let timer = timer(&traffic);
        let seconds = Duration::from_secs;
        assert_eq!(rings_after(&timer).await, None, "our own source is slow");
        timer.sending(Sending::Window);
        assert_eq!(rings_after(&timer).await, Some((Step::Send, seconds(30))));
        timer.sending(Sending::Done);
        assert_eq!(rings_after(&timer).await, Some((Step::FirstByte, seconds(60))));
        timer.receiving(Receiving::Body);
        assert_eq!(rings_after(&timer).await, Some((Step::Receive, seconds(30))));
        timer.receiving(Receiving::Reader);
        assert_eq!(rings_after(&timer).await, None, "our own reader is slow");
    }

    #[tokio::test(start_paused = true)]
    async fn few_bytes_are_not_progress() {
        let traffic = Arc::new(Traffic::new(4 << 20, 16 << 20));
        for (piece, patient) in [(1, false), (PROGRESS, true)] {
            let timer = timer(&traffic);
            timer.receiving(Receiving::Body);
            let trickle = async {
                for _ in 0..100 {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    timer.received(piece);
                }
            };
            let lasted = tokio::select! { _ = timer.overdue() => false, () = trickle => true };
            assert_eq!(lasted, patient);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_stream_gets_a_limited_extension_while_others_move() {
        let traffic = Arc::new(Traffic::new(4 << 20, 16 << 20));
        let (waits, moves) = (timer(&traffic), timer(&traffic));
        waits.receiving(Receiving::Body);
        let busy = async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                moves.record_progress();
            }
        };
        let rang = tokio::select! { rang = rings_after(&waits) => rang, () = busy => None };
        assert_eq!(rang, Some((Step::Receive, Duration::from_secs(150))));
    }

    #[tokio::test(start_paused = true)]
    async fn timer_stops_while_readers_hold_the_whole_window() {
        let traffic = Arc::new(Traffic::new(4 << 20, 16 << 20));
        let starved = timer(&traffic);
        starved.receiving(Receiving::Body);
        let mut holders: Vec<_> = (0..4).map(|_| timer(&traffic)).collect();
        for holder in &holders {
            holder.receiving(Receiving::Reader);
        }
        assert_eq!(rings_after(&starved).await, None);
        holders.pop();
        assert!(rings_after(&starved).await.is_some());
    }
}
