//! What can go wrong before a server runs. Once it runs, errors are answers to requests.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory to serve cannot be opened.
    #[error("cannot serve {}: {error}; name a directory that exists and that you may read", root.display())]
    Root {
        /// The directory.
        root: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The kernel lacks `openat2(2)`.
    #[error("this kernel cannot open paths safely (no openat2): serving files needs Linux 5.6 or later")]
    Kernel,
    /// No address to listen on was given.
    #[error("there is no address to listen on: give at least one, such as 127.0.0.1:8080")]
    NoAddress,
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A listener that was handed over cannot be used.
    #[error("cannot use a listening socket: {0}")]
    Listener(#[source] io::Error),
    /// Passwords would cross a network in the clear.
    #[error("passwords would cross the network in the clear on {0}: add --tls, or listen on 127.0.0.1")]
    ClearPasswords(SocketAddr),
    /// A certificate or key file cannot be read or used.
    #[error("cannot use {} as a certificate or key: {why}; write two PEM files as CERT,KEY", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate could not be made or does not fit its key.
    #[error("cannot set up TLS: {0}; check that the certificate and the key belong together")]
    Certificate(String),
    /// The password file cannot be read.
    #[error("cannot read the password file {}: {error}", path.display())]
    Passwords {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A line of the password file cannot be used. The line itself is not told: it holds a secret.
    #[error("{}, line {line}: {why}", path.display())]
    PasswordLine {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// The access log cannot be opened.
    #[error("cannot write the access log {}: {error}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}
