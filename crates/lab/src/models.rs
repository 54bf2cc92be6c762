//! The HTTP client of the models: one connection, one request in flight, every header set by the model. A model replays
//! the request sequence of a client that cannot run here, so this layer adds, reorders, retries and hides nothing.
//!
//! A model of a mounted drive opens its first connection before the clock starts, like the mounts it competes with. It
//! runs on a thread of ours and starts no process.

mod client;
mod multistatus;

use std::{future::Future, sync::mpsc, thread::JoinHandle};

use tokio::sync::oneshot;

pub use self::{
    client::{Answer, Connection, Endpoint},
    multistatus::names,
};
use crate::{
    contenders::Failure,
    deadline::{Deadline, Stop},
    spawn::Spawn,
};

/// A model on its thread, with what it keeps open: it has connected, as a mapped drive has, and
/// its work has not begun. Dropping it ends it, in bounded time.
pub struct Started<T> {
    begin: Option<oneshot::Sender<()>>,
    news: mpsc::Receiver<News<T>>,
    thread: Option<JoinHandle<()>>,
}

enum News<T> {
    Opened,
    Ended(Result<T, Failure>),
}

/// Starts a model on a thread of a host, bounded, and returns when `open` has succeeded.
pub fn start<C, T, Opening, Working>(
    host: &dyn Spawn,
    deadline: &Deadline,
    open: impl FnOnce() -> Opening + Send + 'static,
    work: impl FnOnce(C) -> Working + Send + 'static,
) -> Result<Started<T>, Failure>
where
    T: Send + 'static,
    Opening: Future<Output = Result<C, Failure>>,
    Working: Future<Output = Result<T, Failure>>,
{
    let (answer, news) = mpsc::channel();
    let (begin, signal) = oneshot::channel();
    let deadline = deadline.clone();
    let run = move || {
        let opened = answer.clone();
        let model = async {
            let connected = open().await?;
            let _ = opened.send(News::Opened);
            signal.await.map_err(|_| ended_early())?;
            work(connected).await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(Failure::Thread).and_then(|runtime| {
            runtime.block_on(async {
                tokio::select! {
                    outcome = model => outcome,
                    stop = expired(&deadline) => Err(Failure::Stopped { what: "the model".to_owned(), stop }),
                }
            })
        });
        let _ = answer.send(News::Ended(outcome));
    };
    let thread = host.thread("model", Box::new(run)).map_err(Failure::Thread)?;
    let started = Started { begin: Some(begin), news, thread: Some(thread) };
    match started.news.recv() {
        Ok(News::Opened) => Ok(started),
        Ok(News::Ended(Err(failure))) => Err(failure),
        Ok(News::Ended(Ok(_))) | Err(_) => Err(ended_early()),
    }
}

impl<T> Started<T> {
    /// Has the model do its work, which it does once.
    pub fn run(&mut self) -> Result<T, Failure> {
        if let Some(begin) = self.begin.take() {
            let _ = begin.send(());
        }
        match self.news.recv() {
            Ok(News::Ended(outcome)) => outcome,
            Ok(News::Opened) | Err(_) => Err(ended_early()),
        }
    }
}

impl<T> Drop for Started<T> {
    fn drop(&mut self) {
        drop(self.begin.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs what keeps nothing open on a thread of a host, bounded.
pub fn drive<T, F, Fut>(host: &dyn Spawn, deadline: &Deadline, model: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, Failure>>,
{
    start(host, deadline, || async { Ok(()) }, |()| model())?.run()
}

fn ended_early() -> Failure {
    Failure::Thread(std::io::Error::other("the model's thread ended early"))
}

/// Ends when the deadline does.
async fn expired(deadline: &Deadline) -> Stop {
    loop {
        if let Err(stop) = deadline.check() {
            return stop;
        }
        tokio::time::sleep(deadline.slice()).await;
    }
}
