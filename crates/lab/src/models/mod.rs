//! The HTTP client of the models: one connection, one request at a time on it, every
//! header said by the model. A model is the sequence of requests that a client makes which
//! cannot run here, so nothing may be added, reordered, retried or hidden below it.

mod client;
mod multistatus;

use std::{future::Future, sync::mpsc};

pub use self::{
    client::{Answer, Connection, Endpoint},
    multistatus::names,
};
use crate::{
    bounds::{Bounds, Stop},
    contenders::Failure,
    place::Place,
};

/// Runs a model on a thread of a host, bounded.
pub fn drive<T, F, Fut>(place: &dyn Place, bounds: &Bounds, model: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, Failure>>,
{
    let (answer, result) = mpsc::channel();
    let bounds = bounds.clone();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(Failure::Thread).and_then(|runtime| {
            runtime.block_on(async {
                tokio::select! {
                    outcome = model() => outcome,
                    stop = expired(&bounds) => Err(Failure::Stopped { what: "the model".to_owned(), stop }),
                }
            })
        });
        let _ = answer.send(outcome);
    };
    let thread = place.thread("model", Box::new(run)).map_err(Failure::Thread)?;
    let outcome = result.recv();
    let _ = thread.join();
    outcome.unwrap_or_else(|_| Err(Failure::Thread(std::io::Error::other("the model's thread ended early"))))
}

/// Ends when the bounds do.
async fn expired(bounds: &Bounds) -> Stop {
    loop {
        if let Err(stop) = bounds.check() {
            return stop;
        }
        tokio::time::sleep(bounds.slice()).await;
    }
}
