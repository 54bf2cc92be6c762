//! How a command runs, and how it stops.
//!
//! Ctrl-C asks a command that puts things in order itself to do so ([`Stop::minded`]), and drops every other's future,
//! wherever it is. What still goes on then goes on in tasks of its own, so the end is when no task is left; or after
//! some seconds, or a second Ctrl-C: a server that no longer answers must not keep anybody.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
    time::{sleep, timeout},
};

use super::Outcome;

/// How long an interrupted command may take to put things in order.
const FAREWELL: Duration = Duration::from_secs(12);

/// How often it is seen whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// The wish of a person that a command should stop.
#[derive(Default)]
pub(super) struct Stop {
    wish: Notify,
    minded: AtomicBool,
    wished: AtomicBool,
}

impl Stop {
    /// Whether it has been wished.
    pub(super) fn is_wished(&self) -> bool {
        self.wished.load(Ordering::Relaxed)
    }

    /// Where the wish will be heard. From now on the command ends by itself when it is.
    pub(super) fn minded(&self) -> &Notify {
        self.minded.store(true, Ordering::Relaxed);
        &self.wish
    }
}

/// Runs a command to its end, or until Ctrl-C.
pub(super) fn conduct<F: Future<Output = Outcome>>(command: impl FnOnce(Arc<Stop>) -> F) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let stop = Arc::new(Stop::default());
        {
            let mut command = pin!(command(stop.clone()));
            tokio::select! {
                outcome = &mut command => return outcome,
                () = signals.next() => {}
            }
            if stop.minded.load(Ordering::Relaxed) {
                stop.wished.store(true, Ordering::Relaxed);
                stop.wish.notify_one();
                tokio::select! {
                    _ = timeout(FAREWELL, &mut command) => {}
                    () = signals.next() => {}
                }
            }
        }
        tokio::select! {
            _ = timeout(FAREWELL, at_rest()) => {}
            () = signals.next() => {}
        }
        Err("interrupted; what was done until then stays done".into())
    });
    // A read of the terminal, or a write to a pipe that nobody reads, must not keep the program.
    runtime.shutdown_timeout(Duration::from_millis(200));
    outcome
}

/// Waits until no task is left.
async fn at_rest() {
    while Handle::current().metrics().num_alive_tasks() > 0 {
        sleep(LOOK).await;
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
