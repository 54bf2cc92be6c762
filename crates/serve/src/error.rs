//! Errors at start-up. While the server runs, errors are HTTP responses.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory to serve cannot be opened.
    #[error("cannot serve {}: {error}; name a readable directory", root.display())]
    Root {
        /// The directory.
        root: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The kernel lacks `openat2(2)`.
    #[error("this kernel lacks openat2(2); serving files needs Linux 5.6 or later")]
    Kernel,
    /// No address to listen on was given.
    #[error("no address to listen on; give one, such as 127.0.0.1:8080")]
    NoAddress,
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}; choose another address with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A listener passed by the caller cannot be used.
    #[error("cannot use a listening socket: {0}")]
    Listener(#[source] io::Error),
    /// Passwords would cross a network in cleartext.
    #[error("passwords would be sent in cleartext to {0}; add --tls, or listen on 127.0.0.1")]
    ClearPasswords(SocketAddr),
    /// A certificate or key file cannot be read or used.
    #[error("cannot use {} as a certificate or key: {why}; write two PEM files as CERT,KEY", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A certificate cannot be generated, or does not match its key.
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
    /// An invalid line of the password file. The message does not quote the line: it holds a secret.
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
