//! The errors of this crate, one sentence each.

use std::{io, os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

use crate::{
    failure::Failure,
    path::{PathError, RemotePath},
    terminal::terminal_safe,
    xml::XmlError,
};

/// Why something was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There was no complete answer.
    #[error(transparent)]
    Http(#[from] haul_http::Error),
    /// The server sent an error status.
    #[error(transparent)]
    Refused(#[from] Box<Failure>),
    /// The server's multistatus answer is invalid.
    #[error("{path}: invalid multistatus answer from the server: {why}")]
    Listing {
        /// The path of the request.
        path: RemotePath,
        /// The fault of the answer.
        why: XmlError,
    },
    /// The answer was lost, and a lookup shows that the request did not take effect.
    #[error("{asked}: {cause}; a check shows: {found}")]
    Lost {
        /// The request.
        asked: haul_http::RequestLine,
        /// The cause of the missing answer.
        cause: haul_http::Cause,
        /// What the lookup found.
        found: String,
    },
    /// A path is not usable on the other side.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A local operation failed. The name may come from the server, so it is escaped.
    #[error("cannot {doing} {}: {source}", terminal_safe(path.as_os_str().as_bytes()))]
    Local {
        /// The operation, as a verb.
        doing: &'static str,
        /// Its file or folder.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The server that is copied from did not send a file. Says nothing about the target server.
    #[error(transparent)]
    Source(Box<Self>),
    /// The server and this side disagree, or a path is not what it should be.
    #[error("{path}: {why}")]
    Differs {
        /// The path.
        path: RemotePath,
        /// The contradiction.
        why: String,
    },
}

impl Error {
    /// A local error.
    pub(crate) fn local(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Local { doing, path: path.into(), source: source.into() }
    }

    /// Adds what a lookup found. An error response needs no addition.
    pub(crate) fn with_found(self, found: String) -> Self {
        use haul_http::Error::{Exchange, OutcomeUnknown};
        match self {
            Self::Http(OutcomeUnknown { asked, cause } | Exchange { asked, cause }) => {
                Self::Lost { asked, cause, found }
            }
            other => other,
        }
    }

    /// The request had been sent once before, with an unknown outcome.
    pub(crate) fn sent_again(mut self) -> Self {
        if let Self::Refused(failure) = &mut self {
            failure.times_sent += 1;
        }
        self
    }

    /// The message without the name of the file, which failures of the same kind have in common.
    pub fn reason(&self) -> String {
        use haul_http::Error::{Exchange, OutcomeUnknown};
        match self {
            Self::Refused(failure) => failure.reason(),
            Self::Local { doing, source, .. } => format!("cannot {doing} them: {source}"),
            Self::Differs { why, .. } => why.clone(),
            Self::Listing { why, .. } => format!("invalid multistatus answer from the server: {why}"),
            Self::Lost { cause, found, .. } => format!("{cause}; a check shows: {found}"),
            Self::Path(error) => format!("the path {}", error.why),
            Self::Source(error) => error.reason(),
            Self::Http(Exchange { cause, .. } | OutcomeUnknown { cause, .. }) => cause.to_string(),
            Self::Http(error) => error.to_string(),
        }
    }

    /// The error response, if it is one.
    pub fn refusal(&self) -> Option<&Failure> {
        if let Self::Refused(failure) = self { Some(failure) } else { None }
    }

    /// The pause that the server asks for.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        self.refusal()?.retry_after
    }

    /// Whether it is an error response with this status.
    pub fn is(&self, status: u16) -> bool {
        self.refusal().is_some_and(|failure| failure.status.as_u16() == status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_local_names_are_escaped() {
        let told = Error::local("make", "a\x1b[2J/ü b\n\u{9b}c", io::ErrorKind::NotFound.into()).to_string();
        assert_eq!(told, "cannot make a\\u{1b}[2J/ü b\\n\\u{9b}c: entity not found");
    }
}
