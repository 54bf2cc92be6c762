//! Why a sample failed.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use crate::{
    certs::CertError,
    deadline::Stop,
    process::{Missing, ProcessError},
    servers::ServerError,
    work::WorkError,
};

/// Why a sample failed, in one sentence.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A program is not installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A program failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The result of the work is wrong.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// TLS could not be set up.
    #[error(transparent)]
    Certificates(#[from] CertError),
    /// Something was stopped at its deadline or by an interruption.
    #[error("{what} {stop}")]
    Stopped {
        /// What was ended.
        what: String,
        /// Why.
        stop: Stop,
    },
    /// A thread could not be started, or panicked.
    #[error("cannot run on a thread of the client host: {0}")]
    Thread(io::Error),
    /// A file operation failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// Its file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A URL or path is invalid for a model.
    #[error("`{0}` is not a URL whose host is an address and a port")]
    Url(String),
    /// No connection.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The server.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// An HTTP exchange failed.
    #[error("{method} {path}: no response: {source}")]
    Http {
        /// The request's method.
        method: String,
        /// Its path.
        path: String,
        /// Why.
        source: hyper::Error,
    },
    /// A response has an unexpected status.
    #[error("{method} {path}: unexpected status {status}")]
    Status {
        /// The request's method.
        method: String,
        /// Its path.
        path: String,
        /// The response's status.
        status: u16,
    },
    /// A response is invalid.
    #[error("the response to {method} {path} {why}")]
    Answer {
        /// The request's method.
        method: String,
        /// Its path.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The middle box could not be started.
    #[error(transparent)]
    MiddleBox(#[from] ServerError),
    /// Longhaul's engine failed.
    #[error("{0}")]
    Engine(String),
    /// It needs a third host and has none.
    #[error("{0} needs a third host behind the middle box, and this network has none")]
    NoPc(&'static str),
}

/// The failure of a file operation.
pub(crate) fn io_failure(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.to_owned();
    move |source| Failure::Io { what, path, source }
}
