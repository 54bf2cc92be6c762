//! Longhaul's own WebDAV server, on threads of the server's host: the fallback if no other server is installed.
//!
//! It always offers HTTP/2 and HTTP/1.1, and HTTP/3 over TLS. This changes no race: a contender for another version
//! asks for it explicitly or supports nothing else.

use std::{
    net::TcpListener,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::oneshot;

use super::{Folder, Process, RequestLog, Running, Server, ServerError, Setup, url};
use crate::{
    disturbance::tasks::IsServer,
    process::{Missing, ProcessError},
};

const NAME: &str = "embedded";

/// The user's line in the file of passwords, at bcrypt's least cost.
const PASSWORD: &str = "lab:$2b$04$abcdefghijklmnopqrstuuBma4em9AU5Wse0h3BzRWqUYtwFfWqNy\n";

pub(super) struct Embedded;

/// The running server; dropping it stops the server, which takes bounded time.
pub(super) struct Handle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    threads: Threads,
}

/// The kernel ids of a server's threads.
#[derive(Debug, Clone, Default)]
struct Threads(Arc<Mutex<Vec<i32>>>);

impl Threads {
    fn add_current(&self) {
        self.lock().push(nix::unistd::gettid().as_raw());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server for Embedded {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> &'static str {
        "Longhaul's own server, the one of `haul serve`"
    }

    fn asks(&self) -> bool {
        true
    }

    fn missing(&self) -> Option<Missing> {
        None
    }

    fn can_imitate(&self) -> bool {
        true
    }

    fn http3(&self) -> bool {
        true
    }

    fn settings(&self) -> Vec<(String, String)> {
        [("version", env!("CARGO_PKG_VERSION")), ("TLS", "1.2 and 1.3")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        start(NAME, setup, |config, listener| serve::Server::on(config, vec![listener]))
    }
}

/// Starts an embedded server with its folder, log and, for TLS, certificate.
pub(super) fn start(
    name: &'static str,
    setup: &Setup,
    make: impl FnOnce(serve::Config, TcpListener) -> Result<serve::Server, serve::Error> + Send + 'static,
) -> Result<Running, ServerError> {
    let address = setup.address;
    let mut folder = Folder::new(name, setup.scratch)?;
    // It runs as our own user.
    folder.owner = None;
    let root = folder.folder("root")?;
    let log = setup.scratch.join("access.log");
    let tls = setup.certificates.map(|made| folder.certificates(&made.all_pem(), made)).transpose()?;
    let access_log = serve::AccessLog::file(&log).map_err(|error| ServerError::Start {
        server: name,
        address,
        why: error.to_string(),
    })?;
    let config = serve::Config {
        root: root.clone(),
        tls: tls.map(|(certificate, key)| serve::Tls::Files { certificate, key }),
        access_log: Some(access_log),
        auth: setup.asks.then(|| folder.file("passwords", PASSWORD)).transpose()?,
        quirks: setup.quirks,
        ..serve::Config::default()
    };
    let handle = Handle::start(name, setup, move || {
        let listener = TcpListener::bind(address).map_err(|error| error.to_string())?;
        make(config, listener).map_err(|error| error.to_string())
    })?;
    let log = Some(RequestLog::new(log));
    Ok(Running { url: url(setup), root, owner: None, log, process: Process::Embedded(handle) })
}

impl Handle {
    /// Runs a server on threads of its host.
    fn start(
        name: &'static str,
        setup: &Setup,
        make: impl FnOnce() -> Result<serve::Server, String> + Send + 'static,
    ) -> Result<Self, ServerError> {
        let failed = |why: String| ServerError::Start { server: name, address: setup.address, why };
        let (started, outcome) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let threads = Threads::default();
        let (ours, theirs) = (threads.clone(), threads.clone());
        let run = move || {
            ours.add_current();
            // On this thread because the socket belongs to the host it is made on.
            let listen = || -> Result<_, String> {
                let server = make()?;
                let mut runtime = tokio::runtime::Builder::new_multi_thread();
                runtime.worker_threads(2).enable_all().on_thread_start(move || theirs.add_current());
                Ok((runtime.build().map_err(|error| error.to_string())?, server))
            };
            match listen() {
                Ok((runtime, server)) => {
                    let _ = started.send(Ok(()));
                    let _ = runtime.block_on(server.run(async { drop(stopped.await) }));
                    runtime.shutdown_background();
                }
                Err(why) => drop(started.send(Err(why))),
            }
        };
        let thread = setup.host.thread(name, Box::new(run)).map_err(|error| failed(error.to_string()))?;
        let handle = Handle { stop: Some(stop), thread: Some(thread), threads };
        match outcome.recv() {
            Ok(Ok(())) => Ok(handle),
            Ok(Err(why)) => Err(failed(why)),
            Err(_) => Err(failed("its thread ended early".to_owned())),
        }
    }

    pub(super) fn check(&mut self) -> Result<(), ProcessError> {
        match &self.thread {
            Some(thread) if !thread.is_finished() => Ok(()),
            _ => Err(ProcessError::Ended { program: "the embedded server".to_owned() }),
        }
    }
}

impl Handle {
    /// The processor time of its threads, from /proc/PID/task/TID/schedstat, in nanoseconds.
    pub(super) fn processor_time(&self) -> Option<Duration> {
        let of = |thread: &i32| {
            let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
            text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
        };
        let times: Option<Vec<Duration>> = self.threads.lock().iter().map(of).collect();
        times.map(|times| times.iter().sum())
    }
}

impl Handle {
    /// What tells its threads from others.
    pub(super) fn is_thread(&self) -> IsServer {
        let threads = self.threads.clone();
        Box::new(move |_, thread| threads.lock().contains(&thread))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
