//! How a command runs, and how it stops.
//!
//! Ctrl-C drops the command's future, wherever it is. What still has to be put in order then (a lock to give back, a
//! temporary name to delete, a connection to close) goes on in tasks of its own, so the end is when no task is left, or
//! after some seconds: a server that no longer answers must not keep anybody.

use std::time::Duration;

use tokio::{
    runtime::Handle,
    signal::unix::{Signal, SignalKind, signal},
    time::{sleep, timeout},
};

use super::Outcome;

/// How long an interrupted command may take to put things in order.
const FAREWELL: Duration = Duration::from_secs(8);

/// How often it is seen whether it has.
const LOOK: Duration = Duration::from_millis(10);

/// Runs a command to its end, or until Ctrl-C.
pub(super) fn conduct(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            outcome = command => return outcome,
            () = signals.next() => {}
        }
        tokio::select! {
            _ = timeout(FAREWELL, at_rest()) => {}
            () = signals.next() => {}
        }
        Err("interrupted; what was done until then stays done, and the same command again goes on from there".into())
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
