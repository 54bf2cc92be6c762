//! The content of a file to upload, and the check that it did not change during the upload.

use std::{
    fs,
    io::{self, Read},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use haul_http::Body;

use super::Upload;
use crate::{
    Dav, Error, RemotePath,
    transfer::{
        Event, SHARED, Watch, body_of,
        remote_body::content_of,
        source_file::{RemoteSource, SourceFile},
    },
};

/// A file up to this size is read at once, and sent in the same segments as the head of its request.
const AT_ONCE: u64 = 128 * 1024;

/// A file that is being uploaded.
pub(super) struct Source {
    pub(super) origin: SourceFile,
    pub(super) body: Body,
    pub(super) seen: Seen,
    /// Whether it is read as it is sent, and not in memory.
    pub(super) is_read_later: bool,
}

/// Length and time of a file when it was opened, to detect changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    length: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// The content of a file, `length` bytes when it was listed. A small file is read now; a large one while it is
    /// sent.
    async fn open(local: &Path, length: u64, watch: &Watch) -> Result<Self, Error> {
        let origin = SourceFile::Local(local.to_owned());
        let path = local.to_owned();
        let open = move || {
            let mut file = fs::File::open(&path)?;
            let modified = file.metadata()?.modified().ok();
            let mut bytes = Vec::with_capacity(if length <= AT_ONCE { length as usize + 1 } else { 0 });
            if length <= AT_ONCE {
                // Limited, since many files are in memory at once, and this one may have grown.
                file.by_ref().take(AT_ONCE + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > AT_ONCE {
                    return Err(io::Error::other("it has grown since it was listed; upload it again"));
                }
            }
            Ok((bytes, modified))
        };
        let opened = tokio::task::spawn_blocking(open).await;
        let (bytes, modified) = opened
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|error| Error::local("read", local, error))?;
        if length <= AT_ONCE {
            let seen = Seen { length: bytes.len() as u64, modified };
            watch(Event::Moved { bytes: seen.length });
            return Ok(Self { origin, body: bytes.into(), seen, is_read_later: false });
        }
        let (watch, file) = (watch.clone(), Body::file(local.to_owned(), 0, length));
        let body = file.watched(move |bytes| watch(Event::Moved { bytes }));
        Ok(Self { origin, body, seen: Seen { length, modified }, is_read_later: true })
    }

    /// The same for a file on another server. A small one is downloaded now, so that a truncated or delayed response
    /// does not block a connection to the target.
    async fn fetch(upload: &Upload<'_>, remote: &Arc<RemoteSource>, length: u64) -> Result<Self, Error> {
        let origin = SourceFile::Remote(remote.clone());
        let from = upload.source_server(&remote.path)?;
        let (seen, watch) = (Seen { length, modified: None }, upload.watch.clone());
        if length <= SHARED {
            let content = content_of(from, remote, upload.options.verify).await;
            let content = content.map_err(|error| Error::Source(error.into()))?;
            watch(Event::Moved { bytes: length });
            return Ok(Self { origin, body: content.into(), seen, is_read_later: false });
        }
        let body = body_of(from, &remote.path, &remote.facts).watched(move |bytes| watch(Event::Moved { bytes }));
        Ok(Self { origin, body, seen, is_read_later: true })
    }
}

impl Upload<'_> {
    /// Opens a file that is to be sent.
    pub(super) async fn open(&self, origin: &SourceFile, length: u64) -> Result<Source, Error> {
        match origin {
            SourceFile::Local(local) => {
                let _turn = self.slots.readers.acquire().await;
                Source::open(local, length, self.watch).await
            }
            SourceFile::Remote(remote) => Source::fetch(self, remote, length).await,
        }
    }

    /// The content of a file, read again.
    pub(super) fn content(&self, origin: &SourceFile, length: u64) -> Result<Body, Error> {
        Ok(match origin {
            SourceFile::Local(local) => Body::file(local.clone(), 0, length),
            SourceFile::Remote(remote) => body_of(self.source_server(&remote.path)?, &remote.path, &remote.facts),
        })
    }

    /// The server that is copied from.
    pub(super) fn source_server(&self, path: &RemotePath) -> Result<&Dav, Error> {
        let none = || Error::Differs { path: path.clone(), why: "the source server is unknown".into() };
        self.source.map(|source| source.dav).ok_or_else(none)
    }
}

impl Seen {
    /// The present state of a file, if it still has the listed length.
    pub(super) fn look(local: &Path, length: u64) -> Result<Self, Error> {
        let kind = fs::metadata(local).map_err(|error| Error::local("read", local, error))?;
        let seen = Self { length, modified: kind.modified().ok() };
        seen.still(local).map(|()| seen)
    }

    /// The same for any source. A GET from a server is for the listed version only.
    pub(super) fn still_of(self, origin: &SourceFile) -> Result<(), Error> {
        match origin {
            SourceFile::Local(local) => self.still(local),
            SourceFile::Remote(_) => Ok(()),
        }
    }

    /// Fails if the file has changed: then half of one version and half of another may have been sent. A small file was
    /// read at once.
    pub(super) fn still(self, local: &Path) -> Result<(), Error> {
        if self.length <= AT_ONCE {
            return Ok(());
        }
        let now = fs::metadata(local).map_err(|error| Error::local("read", local, error))?;
        if now.len() == self.length && now.modified().ok() == self.modified {
            return Ok(());
        }
        Err(Error::local("upload", local, io::Error::other("it changed during the upload; upload it again")))
    }
}
