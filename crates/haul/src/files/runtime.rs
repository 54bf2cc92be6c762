//! Runs a command, and stops it on Ctrl-C.
//!
//! Ctrl-C notifies a command that cleans up itself ([`Stop::notified`]), and drops the future of every other command. Cleanup
//! tasks that were spawned continue, so the program exits when no task is left, after some seconds, or on a second Ctrl-C:
//! a server that no longer responds must not keep the program running.

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

use crate::files::Outcome;

/// How long an interrupted command may clean up.
const FAREWELL: Duration = Duration::from_secs(12);

/// How often to check for remaining tasks.
const LOOK: Duration = Duration::from_millis(10);

/// The user's request to stop a command.
#[derive(Default)]
pub(crate) struct Stop {
    request: Notify,
    notified: AtomicBool,
    requested: AtomicBool,
}

impl Stop {
    /// Whether the user has requested it.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }

    /// The notification of the request. From now on the command ends by itself when notified.
    pub(crate) fn notified(&self) -> &Notify {
        self.notified.store(true, Ordering::Relaxed);
        &self.request
    }
}

/// Runs a command to its end, or until Ctrl-C.
pub(crate) fn run_until_stopped<F: Future<Output = Outcome>>(command: impl FnOnce(Arc<Stop>) -> F) -> Outcome {
    run(None, command)
}

/// Runs a command that goes on until Ctrl-C: its outcome then counts. It may take this long to end.
pub(crate) fn run_service<F: Future<Output = Outcome>>(
    farewell: Duration,
    command: impl FnOnce(Arc<Stop>) -> F,
) -> Outcome {
    run(Some(farewell), command)
}

fn run<F: Future<Output = Outcome>>(service: Option<Duration>, command: impl FnOnce(Arc<Stop>) -> F) -> Outcome {
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
            if stop.notified.load(Ordering::Relaxed) {
                stop.requested.store(true, Ordering::Relaxed);
                stop.request.notify_one();
                let ended = tokio::select! {
                    ended = timeout(service.unwrap_or(FAREWELL), &mut command) => ended.ok(),
                    () = signals.next() => None,
                };
                if let Some(outcome) = ended.filter(|_| service.is_some()) {
                    return outcome;
                }
            }
        }
        tokio::select! {
            _ = timeout(FAREWELL, at_rest()) => {}
            () = signals.next() => {}
        }
        Err("interrupted; completed changes are kept".into())
    });
    // A blocking read or write must not keep the program running.
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
