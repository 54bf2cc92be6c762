//! The page of something that still goes on, served to the browsers of this machine's user and to nobody else.
//!
//! A page in a browser can send requests to any address, loopback included, and everybody on a shared machine can
//! connect to its ports. So four things are asked of a request before it is answered: that it came over loopback, where
//! alone the socket listens; that it knows a token of 128 random bits, which stands in the address and is shown to
//! nobody but who started the run; that `Host` is that address, and not a name that somebody's name server makes point
//! here (DNS rebinding); and that `Origin`, which browsers send with whatever changes something, is the page's own.
//!
//! The page asks for the state and is answered when there is a newer one than it has, or after a while all the same:
//! a long poll, which any client does without an idea of it being one. (Server-sent events would need a body that never
//! ends, and save nothing at one answer for each sample.)

mod answer;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::sync::{Semaphore, watch};

use answer::Answers;

/// How long a client may take for the head of its request.
const HEAD: Duration = Duration::from_secs(10);

/// How many connections there may be at once.
const MOST: usize = 64;

/// How long the end waits for a page that is open to fetch the report.
const LAST: Duration = Duration::from_secs(5);

/// What clients are told, and told again when it has changed.
#[derive(Debug, Clone, Default)]
struct State {
    version: u64,
    json: Arc<Vec<u8>>,
    report: Option<Arc<Vec<u8>>>,
}

/// An address on loopback that nobody serves yet. To be made before the process goes where loopback is another one.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    token: String,
}

/// The page at its address, until it is dropped.
#[derive(Debug)]
pub struct Server {
    state: watch::Sender<State>,
    fetched: watch::Receiver<Fetched>,
    thread: Option<JoinHandle<()>>,
}

/// What clients have had.
#[derive(Debug, Clone, Copy, Default)]
struct Fetched {
    page: bool,
    report: bool,
}

impl Listener {
    /// Listens on a free port of 127.0.0.1.
    pub fn bind() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self { socket: listener, address, token: format!("{:032x}", rand::random::<u128>()) })
    }

    /// The page's address, token included.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Serves the page of `state`, on a thread of its own; `cancel` is called when somebody there wants no more.
    pub fn serve(self, state: &impl Serialize, cancel: impl Fn() + Send + Sync + 'static) -> io::Result<Server> {
        let first = State { version: 1, json: Arc::new(serde_json::to_vec(state)?), report: None };
        let (sender, state) = watch::channel(first);
        let (had, fetched) = watch::channel(Fetched::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let answers = Answers { address: self.address, token: self.token, state, had, cancel: Box::new(cancel) };
        let listener = self.socket;
        let thread = thread::Builder::new().name("live".into()).spawn(move || {
            // The accept loop ends when nobody publishes any more, and its connections with it.
            if let Err(error) = runtime.block_on(accept(listener, answers)) {
                tracing::warn!("the page is served no longer: {error}");
            }
        })?;
        Ok(Server { state: sender, fetched, thread: Some(thread) })
    }
}

impl Server {
    /// Tells everybody who looks.
    pub fn publish(&self, state: &impl Serialize) {
        let Ok(json) = serde_json::to_vec(state) else { return };
        self.state
            .send_modify(|state| *state = State { version: state.version + 1, json: Arc::new(json), ..state.clone() });
    }

    /// Tells everybody the last state, and gives a page that is open some seconds to fetch the report, which is a page
    /// by itself.
    pub fn finish(self, last: &impl Serialize, report: Vec<u8>) {
        self.state.send_modify(|state| state.report = Some(Arc::new(report)));
        self.publish(last);
        if !self.fetched.borrow().page {
            return;
        }
        let mut fetched = self.fetched.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = runtime {
            let _ = runtime.block_on(async {
                tokio::time::timeout(LAST, fetched.wait_for(|fetched| fetched.report)).await.map(drop)
            });
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Without a sender the accept loop ends.
        drop(std::mem::replace(&mut self.state, watch::channel(State::default()).0));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, answers: Answers) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut over = answers.state.clone();
    let (answers, room) = (Arc::new(answers), Arc::new(Semaphore::new(MOST)));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = async { while over.changed().await.is_ok() {} } => break,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, perhaps: others may give theirs back.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(room) = room.clone().try_acquire_owned() else { continue };
        let answers = answers.clone();
        let service = hyper::service::service_fn(move |request| {
            let answers = answers.clone();
            async move { Ok::<_, std::convert::Infallible>(answers.to(&request).await) }
        });
        connections.spawn(async move {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(16 * 1024);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(room);
        });
    }
    // An answer that is on its way may still go out.
    let _ =
        tokio::time::timeout(Duration::from_millis(200), async { while connections.join_next().await.is_some() {} })
            .await;
    Ok(())
}

#[cfg(test)]
mod tests;
