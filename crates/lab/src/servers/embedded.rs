//! Longhaul's own WebDAV server, on a thread of the server's host: what a race falls back
//! on where no other is installed.
//!
//! It offers HTTP/2 and HTTP/1.1 always, and over TLS HTTP/3 as well. That changes no race: every contender that is to
//! speak another version asks for it or knows nothing else.

use std::{net::TcpListener, sync::mpsc, thread::JoinHandle};

use tokio::sync::oneshot;

use super::{Folder, Process, RequestLog, Running, Server, ServerError, Setup, url};
use crate::process::{Missing, ProcessError};

const NAME: &str = "embedded";

pub(super) struct Embedded;

/// The running server; dropping it stops the server, which takes bounded time.
pub(super) struct Handle {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server for Embedded {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> &'static str {
        "Longhaul's own server, the one of `haul serve`"
    }

    fn missing(&self) -> Option<Missing> {
        None
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
        let mut folder = Folder::new(NAME, setup.scratch)?;
        // It runs as we do.
        folder.owner = None;
        let root = folder.folder("root")?;
        let log = setup.scratch.join("access.log");
        let tls = setup.certificates.map(|certificates| folder.certificates(certificates)).transpose()?;
        let failed = |why: String| ServerError::Start { server: NAME, address: setup.address, why };
        let config = serve::Config {
            root: root.clone(),
            tls: tls.map(|(certificate, key)| serve::Tls::Files { certificate, key }),
            access_log: Some(serve::AccessLog::file(&log).map_err(|error| failed(error.to_string()))?),
            ..serve::Config::default()
        };

        let address = setup.address;
        let (started, outcome) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // On this thread because the socket belongs to the host it is made on.
            let listen = || -> Result<_, String> {
                let listener = TcpListener::bind(address).map_err(|error| error.to_string())?;
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
                let server = serve::Server::on(config, vec![listener]).map_err(|error| error.to_string())?;
                Ok((runtime.map_err(|error| error.to_string())?, server))
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
        let thread = setup.place.thread(NAME, Box::new(run)).map_err(|error| failed(error.to_string()))?;
        let handle = Handle { stop: Some(stop), thread: Some(thread) };
        match outcome.recv() {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(failed(why)),
            Err(_) => return Err(failed("its thread ended early".to_owned())),
        }
        let log = RequestLog::new(log);
        Ok(Running { url: url(setup), root, owner: None, log, process: Process::Embedded(handle) })
    }
}

impl Handle {
    pub(super) fn check(&mut self) -> Result<(), ProcessError> {
        match &self.thread {
            Some(thread) if !thread.is_finished() => Ok(()),
            _ => Err(ProcessError::Ended { program: "the embedded server".to_owned() }),
        }
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
