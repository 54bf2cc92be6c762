//! The source of a file that is uploaded: a local file, or one on another server.

use std::{fmt, io, path::PathBuf, sync::Arc};

use super::file_facts::FileFacts;
use crate::{Error, RemotePath};

/// The source of an uploaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceFile {
    /// A local file.
    Local(PathBuf),
    /// A file on another server.
    Remote(Arc<RemoteSource>),
}

/// A file on the source server, and its listed facts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemoteSource {
    pub(crate) path: RemotePath,
    pub(crate) facts: FileFacts,
}

impl SourceFile {
    pub(crate) fn remote(path: RemotePath, facts: FileFacts) -> Self {
        Self::Remote(RemoteSource { path, facts }.into())
    }

    /// What the server lists of it; none for a local file.
    pub(crate) fn facts(&self) -> Option<&FileFacts> {
        match self {
            Self::Local(_) => None,
            Self::Remote(remote) => Some(&remote.facts),
        }
    }

    /// The error that it cannot be uploaded.
    pub(crate) fn refused(&self, why: String) -> Error {
        match self {
            Self::Local(local) => Error::local("upload", local, io::Error::other(why)),
            Self::Remote(remote) => Error::Differs { path: remote.path.clone(), why },
        }
    }
}

/// The name that the user knows it by.
impl fmt::Display for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(local) => local.display().fmt(f),
            Self::Remote(remote) => remote.path.fmt(f),
        }
    }
}
