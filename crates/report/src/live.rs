//! A live report, served only to the browsers of this machine's user.
//!
//! Any web page can send requests to loopback addresses, and every user of a shared machine can connect to its ports. So
//! a request is answered only if it passes four checks: it came over loopback, the only interface that the socket
//! listens on; its URL has a token of 128 random bits, which only the user who started the run has seen; its `Host` is
//! that address, and not a name that an attacker's name server points here (DNS rebinding); and its `Origin`, which
//! browsers send with every change, is the report's own.
//!
//! The report polls for the state. A response is sent when the state is newer than the client's, or after some seconds
//! (long polling). Server-sent events were rejected: they need a response without an end, and save nothing at one
//! response per sample.

mod responder;

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

use responder::Responder;

/// Time limit for the header of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 64;

/// How long an open live report has to fetch the final report.
const LAST_FETCH: Duration = Duration::from_secs(5);

/// The state that clients poll for.
#[derive(Debug, Clone, Default)]
struct State {
    version: u64,
    json: Arc<Vec<u8>>,
    report: Option<Arc<Vec<u8>>>,
}

/// A socket on loopback that is not served yet. Bind it before entering a network namespace with another loopback.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    token: String,
}

/// A served live report; dropping it stops the server.
#[derive(Debug)]
pub struct Server {
    state: watch::Sender<State>,
    fetched: watch::Receiver<Fetched>,
    thread: Option<JoinHandle<()>>,
}

/// What clients have fetched.
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

    /// The URL of the live report, token included.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.address, self.token)
    }

    /// Serves the live report of `state`, on a thread of its own. `cancel` is called when a user stops the run there.
    pub fn serve(self, state: &impl Serialize, cancel: impl Fn() + Send + Sync + 'static) -> io::Result<Server> {
        let first = State { version: 1, json: Arc::new(serde_json::to_vec(state)?), report: None };
        let (sender, state) = watch::channel(first);
        let (had, fetched) = watch::channel(Fetched::default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let responder = Responder { address: self.address, token: self.token, state, had, cancel: Box::new(cancel) };
        let listener = self.socket;
        let thread = thread::Builder::new().name("live".into()).spawn(move || {
            // The accept loop and its connections end after the last publisher.
            if let Err(error) = runtime.block_on(accept(listener, responder)) {
                tracing::warn!("the live report is no longer served: {error}");
            }
        })?;
        Ok(Server { state: sender, fetched, thread: Some(thread) })
    }
}

impl Server {
    /// Publishes a new state.
    pub fn publish(&self, state: &impl Serialize) {
        let Ok(json) = serde_json::to_vec(state) else { return };
        self.state
            .send_modify(|state| *state = State { version: state.version + 1, json: Arc::new(json), ..state.clone() });
    }

    /// Publishes the last state, and gives an open live report some seconds to fetch the final report.
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
                tokio::time::timeout(LAST_FETCH, fetched.wait_for(|fetched| fetched.report)).await.map(drop)
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

async fn accept(listener: TcpListener, responder: Responder) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut over = responder.state.clone();
    let (responder, room) = (Arc::new(responder), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = async { while over.changed().await.is_ok() {} } => break,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else {
            // Probably out of file descriptors; other connections may close theirs.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(room) = room.clone().try_acquire_owned() else { continue };
        let responder = responder.clone();
        let service = hyper::service::service_fn(move |request| {
            let responder = responder.clone();
            async move { Ok::<_, std::convert::Infallible>(responder.to(&request).await) }
        });
        connections.spawn(async move {
            let mut builder = hyper::server::conn::http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(16 * 1024);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            drop(room);
        });
    }
    // Lets responses in flight finish.
    let _ =
        tokio::time::timeout(Duration::from_millis(200), async { while connections.join_next().await.is_some() {} })
            .await;
    Ok(())
}

#[cfg(test)]
mod tests;
