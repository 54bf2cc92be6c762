//! Calls of programs, and when they are answered.
//!
//! Each call becomes a future. It is polled once at once: what needs no server is answered without leaving the thread.
//! Otherwise it continues on the runtime, and the thread takes the next call.
//!
//! A call that waits is answered before its operation has ended if its program is to stop (`signals`), or if the server has
//! been away for as long as a request may take: every wait of an operation, for a lock or a listing of another call too, is
//! in the end for a request, and each of these fails in time. An operation that only looks is then dropped. One that changes
//! something continues, or tree and server could differ; but it begins no request that was not begun ([`still_wanted`]),
//! because nobody expects that any more. If it changes a name, the kernel goes on with the old one after the answer. So tree
//! and kernel take the new one together: an operation that has [`decide`]d is answered with its result, and one that comes too
//! late for that leaves the tree as it is.

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use fuser::{
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request,
};
use futures_util::FutureExt;
use haul_http::Client;
use nix::errno::Errno;
use tokio::{
    runtime::Handle,
    task,
    time::{Instant, interval_at},
};

use crate::{
    panics::{caught, guarded},
    replies,
    share::Result,
    signals,
};

/// A call that waits for longer is watched, so often.
const WATCH: Duration = Duration::from_millis(200);

/// The call may be answered before its operation has ended.
const OPEN: u8 = 0;
/// It was.
const ANSWERED: u8 = 1;
/// It waits for the end of its operation.
const DECIDED: u8 = 2;

tokio::task_local! {
    static CALL: Arc<AtomicU8>;
}

/// Fails if the program was told already that its call has failed.
pub(crate) fn still_wanted() -> Result<()> {
    let is_answered = CALL.try_with(|call| call.load(Ordering::SeqCst) == ANSWERED).unwrap_or(false);
    if is_answered { Err(Errno::EINTR) } else { Ok(()) }
}

/// From here on, the call waits for its operation. Fails if the program was told already that it has failed.
pub(crate) fn decide() -> Result<()> {
    let _ = CALL.try_with(|call| call.compare_exchange(OPEN, DECIDED, Ordering::SeqCst, Ordering::SeqCst));
    still_wanted()
}

/// A reply that can be an error.
pub(crate) trait Reply: Send + 'static {
    fn refuse(self, errno: fuser::Errno);
}

macro_rules! replies {
    ($($reply:ty),*) => {
        $(impl Reply for $reply {
            fn refuse(self, errno: fuser::Errno) {
                self.error(errno);
            }
        })*
    };
}

replies!(
    ReplyAttr,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

/// Does at once what can be done without waiting, and the rest on the runtime.
pub(crate) fn begin(work: impl Future<Output = ()> + Send + 'static) {
    let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
    if work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        task::spawn(work);
    }
}

/// Runs operations for calls.
#[derive(Clone)]
pub(crate) struct Calls {
    runtime: Handle,
    client: Client,
}

impl Calls {
    pub(crate) fn new(runtime: Handle, client: Client) -> Self {
        Self { runtime, client }
    }

    /// Runs an operation that only looks.
    pub(crate) fn look<T: Send + 'static, R: Reply>(
        &self,
        request: &Request,
        reply: R,
        operation: impl Future<Output = Result<T>> + Send + 'static,
        answer: impl FnOnce(T, R) + Send + 'static,
    ) {
        self.run(self.early_end(request.pid()), reply, operation, answer, None::<fn(T)>);
    }

    /// Runs an operation that changes something. `undo` gets the result if the program has not waited for it, and gives back
    /// what the kernel was to hold.
    pub(crate) fn change<T: Send + 'static, R: Reply>(
        &self,
        request: &Request,
        reply: R,
        operation: impl Future<Output = Result<T>> + Send + 'static,
        answer: impl FnOnce(T, R) + Send + 'static,
        undo: impl FnOnce(T) + Send + 'static,
    ) {
        self.run(self.early_end(request.pid()), reply, operation, answer, Some(undo));
    }

    /// Runs what no program waits for.
    pub(crate) fn detached(&self, work: impl Future<Output = ()> + Send + 'static) {
        let _entered = self.runtime.enter();
        begin(work);
    }

    /// `early` ends when the call is to be answered although its operation has not ended.
    pub(crate) fn run<T: Send + 'static, R: Reply>(
        &self,
        early: impl Future<Output = Errno> + Send + 'static,
        reply: R,
        operation: impl Future<Output = Result<T>> + Send + 'static,
        answer: impl FnOnce(T, R) + Send + 'static,
        undo: Option<impl FnOnce(T) + Send + 'static>,
    ) {
        let _entered = self.runtime.enter();
        let call = Arc::new(AtomicU8::new(OPEN));
        let mut operation: Pin<Box<dyn Future<Output = Result<T>> + Send>> =
            Box::pin(CALL.scope(call.clone(), caught(operation)));
        let finish = move |result, reply: R| match result {
            Ok(result) => answer(result, reply),
            Err(error) => reply.refuse(replies::errno(error)),
        };
        if let Poll::Ready(result) = operation.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return guarded(|| finish(result, reply));
        }
        self.runtime.spawn(async move {
            let errno = tokio::select! {
                biased;
                result = &mut operation => return finish(result, reply),
                errno = early => errno,
            };
            if call.compare_exchange(OPEN, ANSWERED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                return finish(operation.await, reply);
            }
            reply.refuse(replies::errno(errno));
            if let Some(undo) = undo
                && let Ok(result) = operation.await
            {
                undo(result);
            }
        });
    }

    /// Waits until there is a reason to answer a call although its operation has not ended.
    fn early_end(&self, pid: u32) -> impl Future<Output = Errno> + Send + 'static {
        let (is_late, begin) = (self.is_late(), Instant::now());
        let stops = async move {
            let mut watch = interval_at(begin + WATCH, WATCH);
            loop {
                watch.tick().await;
                // Not here: of a program that waits for us in execve(2), reading /proc can take until we have answered.
                if matches!(task::spawn_blocking(move || signals::has_to_stop(pid)).await, Ok(true)) {
                    return Errno::EINTR;
                }
            }
        };
        async move {
            tokio::select! {
                errno = stops => errno,
                errno = is_late => errno,
            }
        }
    }

    /// Waits until a call has waited for as long as a request may take, and the server is away.
    pub(crate) fn is_late(&self) -> impl Future<Output = Errno> + Send + 'static {
        let (client, begin) = (self.client.clone(), Instant::now());
        async move {
            let mut watch = interval_at(begin + WATCH, WATCH);
            loop {
                watch.tick().await;
                let has_waited = client.patience().is_some_and(|patience| begin.elapsed() >= patience);
                if has_waited && client.away_since().is_some_and(|since| since >= begin.into_std()) {
                    return Errno::ETIMEDOUT;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future, sync::mpsc};

    use haul_http::{Settings, auth::Authenticator};
    use tokio::{runtime::Runtime, sync::oneshot};

    use super::*;

    /// What became of a call.
    #[derive(Debug, PartialEq)]
    enum Event {
        Answered(&'static str),
        Refused(i32),
        Undone(&'static str),
        Unwanted,
        Dropped,
    }

    struct Answer(mpsc::Sender<Event>);

    impl Reply for Answer {
        fn refuse(self, errno: fuser::Errno) {
            self.0.send(Event::Refused(errno.into())).unwrap();
        }
    }

    struct DropMark(mpsc::Sender<Event>);

    impl Drop for DropMark {
        fn drop(&mut self) {
            let _ = self.0.send(Event::Dropped);
        }
    }

    fn calls(runtime: &Runtime) -> Calls {
        let _entered = runtime.enter();
        Calls::new(runtime.handle().clone(), Client::new(Settings::default(), Authenticator::default()).unwrap())
    }

    #[test]
    fn a_late_success_is_undone_and_begins_nothing_new() {
        let runtime = Runtime::new().unwrap();
        let ((events, seen), (done, is_done)) = (mpsc::channel(), oneshot::channel());
        let (marks, undone, answered) = (events.clone(), events.clone(), events.clone());
        let operation = async move {
            let result = is_done.await.unwrap();
            if still_wanted().is_err() {
                marks.send(Event::Unwanted).unwrap();
            }
            Ok(result)
        };
        calls(&runtime).run(
            future::ready(Errno::EINTR),
            Answer(events),
            operation,
            move |result, _| answered.send(Event::Answered(result)).unwrap(),
            Some(move |result| undone.send(Event::Undone(result)).unwrap()),
        );
        assert_eq!(seen.recv(), Ok(Event::Refused(Errno::EINTR as i32)));
        done.send("handle").unwrap();
        assert_eq!(seen.iter().collect::<Vec<_>>(), [Event::Unwanted, Event::Undone("handle")]);
    }

    #[test]
    fn a_success_in_time_is_answered_and_not_undone() {
        let runtime = Runtime::new().unwrap();
        let ((events, seen), (done, is_done)) = (mpsc::channel(), oneshot::channel());
        let (undone, answered) = (events.clone(), events.clone());
        calls(&runtime).run(
            future::pending(),
            Answer(events),
            async move { Ok(is_done.await.unwrap()) },
            move |result, _| answered.send(Event::Answered(result)).unwrap(),
            Some(move |result| undone.send(Event::Undone(result)).unwrap()),
        );
        done.send("handle").unwrap();
        assert_eq!(seen.iter().collect::<Vec<_>>(), [Event::Answered("handle")]);
    }

    #[test]
    fn what_is_decided_is_answered_with_its_result() {
        let runtime = Runtime::new().unwrap();
        let ((events, seen), (done, is_done)) = (mpsc::channel(), oneshot::channel());
        let (undone, answered) = (events.clone(), events.clone());
        let operation = async move {
            decide()?;
            Ok(is_done.await.unwrap())
        };
        calls(&runtime).run(
            future::ready(Errno::EINTR),
            Answer(events),
            operation,
            move |result, _| answered.send(Event::Answered(result)).unwrap(),
            Some(move |result| undone.send(Event::Undone(result)).unwrap()),
        );
        done.send("renamed").unwrap();
        assert_eq!(seen.iter().collect::<Vec<_>>(), [Event::Answered("renamed")]);
    }

    async fn fault(is_late: bool) -> Result<&'static str> {
        if is_late {
            task::yield_now().await;
        }
        panic!("of this test");
    }

    #[test]
    fn a_panic_is_an_error_for_the_program() {
        let runtime = Runtime::new().unwrap();
        for is_late in [false, true] {
            let (events, seen) = mpsc::channel();
            let answered = events.clone();
            let answer = move |result, _| answered.send(Event::Answered(result)).unwrap();
            calls(&runtime).run(future::pending(), Answer(events), fault(is_late), answer, None::<fn(&'static str)>);
            assert_eq!(seen.iter().collect::<Vec<_>>(), [Event::Refused(Errno::EIO as i32)]);
        }
    }

    #[test]
    fn what_only_looks_is_dropped_when_it_was_answered() {
        let runtime = Runtime::new().unwrap();
        let (events, seen) = mpsc::channel();
        let (mark, answered) = (DropMark(events.clone()), events.clone());
        let operation = async move {
            let _mark = mark;
            future::pending().await
        };
        calls(&runtime).run(
            future::ready(Errno::ETIMEDOUT),
            Answer(events),
            operation,
            move |result, _| answered.send(Event::Answered(result)).unwrap(),
            None::<fn(&'static str)>,
        );
        let expected = [Event::Refused(Errno::ETIMEDOUT as i32), Event::Dropped];
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected);
    }
}
