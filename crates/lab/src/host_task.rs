//! A task on a thread of a host, for everything that runs in our own process: models, the HTTP engine, page loads.
//!
//! A task has two phases. [`start`] returns when the first one has succeeded, before the clock starts: a mapped drive
//! has connected, a page has been loaded. [`HostTask::run`] runs the second one, within the clock.

use std::{future::Future, sync::mpsc, thread::JoinHandle};

use tokio::sync::oneshot;

use crate::{
    contenders::Failure,
    deadline::{Deadline, Stop},
    spawn::Spawn,
};

/// A task whose first phase is done. Dropping it ends it, in bounded time.
pub struct HostTask<T> {
    begin: Option<oneshot::Sender<()>>,
    progress: mpsc::Receiver<Progress<T>>,
    thread: Option<JoinHandle<()>>,
}

enum Progress<T> {
    Opened,
    Ended(Result<T, Failure>),
}

/// Starts a task on a thread of a host, and returns when its first phase, `open`, has succeeded.
pub fn start<C, T, Opening, Working>(
    host: &dyn Spawn,
    deadline: &Deadline,
    open: impl FnOnce() -> Opening + Send + 'static,
    work: impl FnOnce(C) -> Working + Send + 'static,
) -> Result<HostTask<T>, Failure>
where
    T: Send + 'static,
    Opening: Future<Output = Result<C, Failure>>,
    Working: Future<Output = Result<T, Failure>>,
{
    let (sender, progress) = mpsc::channel();
    let (begin, signal) = oneshot::channel();
    let deadline = deadline.clone();
    let run = move || {
        let opened = sender.clone();
        let task = async {
            let connected = open().await?;
            let _ = opened.send(Progress::Opened);
            signal.await.map_err(|_| ended_early())?;
            work(connected).await
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let outcome = runtime.map_err(Failure::Thread).and_then(|runtime| {
            runtime.block_on(async {
                tokio::select! {
                    outcome = task => outcome,
                    stop = expired(&deadline) => Err(Failure::Stopped { what: "the model".to_owned(), stop }),
                }
            })
        });
        let _ = sender.send(Progress::Ended(outcome));
    };
    let thread = host.thread("model", Box::new(run)).map_err(Failure::Thread)?;
    let started = HostTask { begin: Some(begin), progress, thread: Some(thread) };
    match started.progress.recv() {
        Ok(Progress::Opened) => Ok(started),
        Ok(Progress::Ended(Err(failure))) => Err(failure),
        Ok(Progress::Ended(Ok(_))) | Err(_) => Err(ended_early()),
    }
}

impl<T> HostTask<T> {
    /// Runs the second phase, once.
    pub fn run(&mut self) -> Result<T, Failure> {
        if let Some(begin) = self.begin.take() {
            let _ = begin.send(());
        }
        match self.progress.recv() {
            Ok(Progress::Ended(outcome)) => outcome,
            Ok(Progress::Opened) | Err(_) => Err(ended_early()),
        }
    }
}

impl<T> Drop for HostTask<T> {
    fn drop(&mut self) {
        drop(self.begin.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs a task without a first phase.
pub fn run_task<T, F, Fut>(host: &dyn Spawn, deadline: &Deadline, task: F) -> Result<T, Failure>
where
    T: Send + 'static,
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, Failure>>,
{
    start(host, deadline, || async { Ok(()) }, |()| task())?.run()
}

fn ended_early() -> Failure {
    Failure::Thread(std::io::Error::other("the model's thread ended early"))
}

/// Returns when the deadline has passed.
async fn expired(deadline: &Deadline) -> Stop {
    loop {
        if let Err(stop) = deadline.check() {
            return stop;
        }
        tokio::time::sleep(deadline.slice()).await;
    }
}
