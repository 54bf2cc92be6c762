//! What a listing says about a file.

use std::time::SystemTime;

use haul_http::Expected;

use super::unchanged::Version;
use crate::{ETag, Properties};

/// What a listing says about a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFacts {
    /// Its length in bytes.
    pub length: Option<u64>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
    /// Its entity tag, if it is on a server that has them.
    pub etag: Option<ETag>,
    /// Digests that the server stores.
    pub checksums: Vec<String>,
}

impl FileFacts {
    pub(crate) fn of(properties: Properties) -> Self {
        let Properties { length, modified, etag, checksums, .. } = properties;
        Self { length, modified, etag, checksums }
    }

    /// What the answer to a GET must match.
    pub(crate) fn expected(&self) -> Expected {
        let etag = self.etag.as_ref().map(ToString::to_string);
        Expected { etag, length: self.length, modified: self.modified }
    }

    pub(crate) fn version(&self) -> Version<'_> {
        Version { length: self.length, modified: self.modified, etag: self.etag.as_ref() }
    }
}
