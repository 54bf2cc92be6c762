//! What can go wrong, in one sentence each.

use std::{io, os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

use crate::{
    failure::Failure,
    path::{PathError, RemotePath, terminal_safe},
    xml::XmlError,
};

/// Why something was not done.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There was no answer, or no whole one.
    #[error(transparent)]
    Http(#[from] haul_http::Error),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Box<Failure>),
    /// The server's answer cannot be read.
    #[error("the server's listing of {path} cannot be used: {why}")]
    Listing {
        /// What was listed.
        path: RemotePath,
        /// What is wrong with the answer.
        why: XmlError,
    },
    /// The answer was lost, and a look shows that what was asked for is not the case.
    #[error("{asked}: {cause}; a look shows that {found}")]
    Lost {
        /// What was asked.
        asked: haul_http::RequestLine,
        /// Why there was no answer.
        cause: haul_http::Cause,
        /// What is there.
        found: String,
    },
    /// A name cannot be on that side.
    #[error(transparent)]
    Path(#[from] PathError),
    /// Something here, not on the server, failed. Its name may be one that the server gave.
    #[error("cannot {doing} {}: {source}", terminal_safe(path.as_os_str().as_bytes()))]
    Local {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// What arrived is not what was sent.
    #[error("{path}: {why}")]
    Differs {
        /// Which file.
        path: RemotePath,
        /// In what.
        why: String,
    },
}

impl Error {
    /// An error of this side's file system.
    pub(crate) fn local(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Local { doing, path: path.into(), source: source.into() }
    }

    /// The same failure, with what a look has shown since. A refusal says enough by itself.
    pub(crate) fn with_found(self, found: String) -> Self {
        use haul_http::Error::{Exchange, Undecided};
        match self {
            Self::Http(Undecided { asked, cause } | Exchange { asked, cause }) => Self::Lost { asked, cause, found },
            other => other,
        }
    }

    /// The server's refusal, if it is one.
    pub fn refusal(&self) -> Option<&Failure> {
        if let Self::Refused(failure) = self { Some(failure) } else { None }
    }

    /// Whether the server refused with this status.
    pub fn is(&self, status: u16) -> bool {
        self.refusal().is_some_and(|failure| failure.status.as_u16() == status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_name_is_as_harmless_as_the_servers() {
        let told = Error::local("make", "a\x1b[2J/ü b\n\u{9b}c", io::ErrorKind::NotFound.into()).to_string();
        assert_eq!(told, "cannot make a\\u{1b}[2J/ü b\\n\\u{9b}c: entity not found");
    }
}
