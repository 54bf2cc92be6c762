//! A file as it is sent, and whether it stayed the same meanwhile.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

use haul_http::Body;

use crate::{
    Error,
    transfer::{Event, Watch},
};
/// A file up to this size is read at once, and travels in the same segments as its request's head.
const AT_ONCE: u64 = 128 * 1024;

/// A file on its way.
pub(super) struct Source {
    pub(super) local: PathBuf,
    pub(super) body: Body,
    pub(super) seen: Seen,
}

/// What a file looked like when it was opened, by which a change is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    length: u64,
    modified: Option<SystemTime>,
}

impl Source {
    /// A file's content, `length` bytes when it was listed. A small one is read now, and is what it is now; a large one
    /// is read as it is sent.
    pub(super) async fn open(local: &Path, length: u64, watch: &Watch) -> Result<Self, Error> {
        let path = local.to_owned();
        let open = move || {
            let mut file = fs::File::open(&path)?;
            let modified = file.metadata()?.modified().ok();
            let mut bytes = Vec::with_capacity(if length <= AT_ONCE { length as usize + 1 } else { 0 });
            if length <= AT_ONCE {
                // No more than may be in memory many times over, whatever it has become.
                file.by_ref().take(AT_ONCE + 1).read_to_end(&mut bytes)?;
                if bytes.len() as u64 > AT_ONCE {
                    return Err(io::Error::other("it has grown since it was listed: upload it again"));
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
            return Ok(Self { local: local.to_owned(), body: bytes.into(), seen });
        }
        let (watch, file) = (watch.clone(), Body::file(local.to_owned(), 0, length));
        let body = file.watched(move |bytes| watch(Event::Moved { bytes }));
        Ok(Self { local: local.to_owned(), body, seen: Seen { length, modified } })
    }
}

impl Source {
    /// Whether it is read as it is sent, and not in memory.
    pub(super) fn is_read_later(&self) -> bool {
        self.seen.length > AT_ONCE
    }
}

impl Seen {
    /// A file's present state, if it still has the length that was listed.
    pub(super) fn look(local: &Path, length: u64) -> Result<Self, Error> {
        let kind = fs::metadata(local).map_err(|error| Error::local("read", local, error))?;
        let seen = Self { length, modified: kind.modified().ok() };
        seen.still(local).map(|()| seen)
    }

    /// Whether the file is what it was: else what was sent may be half of one version and half of another. What was
    /// read at once is of one version, whatever came later.
    pub(super) fn still(self, local: &Path) -> Result<(), Error> {
        if self.length <= AT_ONCE {
            return Ok(());
        }
        let now = fs::metadata(local).map_err(|error| Error::local("read", local, error))?;
        if now.len() == self.length && now.modified().ok() == self.modified {
            return Ok(());
        }
        Err(Error::local("upload", local, io::Error::other("it was changed while it was sent: upload it again")))
    }
}
