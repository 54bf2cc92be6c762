//! Files as `dav-server` sees them while it moves their content: one being uploaded, one being read.
//!
//! `dav-server` writes a `PUT`'s body piece by piece and calls `flush` when, and only when, the body
//! has ended well; if the client vanishes or the body breaks off, it just drops the file. So `flush` is
//! the moment an upload takes effect, and dropping is how it is given up.
//!
//! System calls run on the blocking pool, in as few trips as there can be: pieces gather in memory up to
//! [`GATHER`], so that a small upload is created, written, synced and put in place in a single trip.

use std::fs::File;
use std::io::SeekFrom;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use dav_server::fs::{DavFile, DavMetaData, FsError, FsFuture, FsResult};
use futures_util::future;
use rustix::io::Errno;

use super::blocking;
use super::draft::Draft;
use super::meta::Meta;
use super::root::{Root, refusal};
use super::visit::Visit;

/// How many bytes of a body gather in memory before they are written.
const GATHER: usize = 256 * 1024;

/// A file being uploaded.
#[derive(Debug)]
pub(crate) struct Upload {
    root: Arc<Root>,
    visit: Arc<Visit>,
    /// How many bytes the client announced, if it did.
    announced: Option<u64>,
    /// Gone after a failure and after the upload has taken effect.
    draft: Option<Draft>,
    gathered: Vec<Bytes>,
    size: usize,
    placed: Option<Meta>,
}

impl Upload {
    pub(crate) fn new(root: Arc<Root>, draft: Draft, announced: Option<u64>, visit: Arc<Visit>) -> Self {
        Upload { root, visit, announced, draft: Some(draft), gathered: Vec::new(), size: 0, placed: None }
    }

    async fn gather(&mut self, piece: Bytes) -> FsResult<()> {
        self.size += piece.len();
        self.gathered.push(piece);
        if self.size < GATHER {
            return Ok(());
        }
        self.size = 0;
        let pieces = std::mem::take(&mut self.gathered);
        let mut draft = self.draft.take().ok_or(FsError::GeneralFailure)?;
        self.draft = Some(blocking(move || draft.write(&pieces).map(|()| draft)).await?);
        Ok(())
    }

    async fn finish(&mut self) -> FsResult<()> {
        let pieces = std::mem::take(&mut self.gathered);
        let mut draft = self.draft.take().ok_or(FsError::GeneralFailure)?;
        let total = draft.written() + self.size as u64;
        if self.announced.is_some_and(|announced| announced != total) {
            // Not what was announced: give it up. `dav-server` counts too and answers 400.
            return Ok(());
        }
        let (root, visit) = (Arc::clone(&self.root), Arc::clone(&self.visit));
        self.placed = Some(
            blocking(move || {
                draft.write(&pieces)?;
                draft.commit(&root, &visit)
            })
            .await?,
        );
        Ok(())
    }
}

impl DavFile for Upload {
    fn metadata(&mut self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        let placed = self.placed.clone().ok_or(FsError::NotFound);
        Box::pin(future::ready(placed.map(|meta| Box::new(meta) as Box<dyn DavMetaData>)))
    }

    fn write_buf(&mut self, mut buf: Box<dyn Buf + Send>) -> FsFuture<'_, ()> {
        let piece = buf.copy_to_bytes(buf.remaining());
        Box::pin(self.gather(piece))
    }

    fn write_bytes(&mut self, piece: Bytes) -> FsFuture<'_, ()> {
        Box::pin(self.gather(piece))
    }

    fn read_bytes(&mut self, _count: usize) -> FsFuture<'_, Bytes> {
        Box::pin(future::ready(Err(FsError::Forbidden)))
    }

    /// Partial writes are refused before they come here; see the crate's page.
    fn seek(&mut self, _position: SeekFrom) -> FsFuture<'_, u64> {
        Box::pin(future::ready(Err(FsError::NotImplemented)))
    }

    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(self.finish())
    }
}

/// A file being read.
#[derive(Debug)]
pub(crate) struct Download {
    file: Arc<File>,
    meta: Meta,
    position: u64,
}

impl Download {
    pub(crate) fn new(file: OwnedFd) -> FsResult<Self> {
        let meta = Meta::of(&file).map_err(refusal)?;
        if !meta.kind().is_file() {
            return Err(FsError::Forbidden);
        }
        Ok(Download { file: Arc::new(file.into()), meta, position: 0 })
    }
}

impl DavFile for Download {
    fn metadata(&mut self) -> FsFuture<'_, Box<dyn DavMetaData>> {
        Box::pin(future::ready(Ok(Box::new(self.meta.clone()) as Box<dyn DavMetaData>)))
    }

    fn write_buf(&mut self, _buf: Box<dyn Buf + Send>) -> FsFuture<'_, ()> {
        Box::pin(future::ready(Err(FsError::Forbidden)))
    }

    fn write_bytes(&mut self, _piece: Bytes) -> FsFuture<'_, ()> {
        Box::pin(future::ready(Err(FsError::Forbidden)))
    }

    fn read_bytes(&mut self, count: usize) -> FsFuture<'_, Bytes> {
        Box::pin(async move {
            let (file, position) = (Arc::clone(&self.file), self.position);
            let read = blocking(move || {
                let mut buffer = vec![0; count];
                let read = file
                    .read_at(&mut buffer, position)
                    .map_err(|e| Errno::from_io_error(&e).map_or(FsError::GeneralFailure, refusal))?;
                buffer.truncate(read);
                Ok(Bytes::from(buffer))
            })
            .await?;
            self.position += read.len() as u64;
            Ok(read)
        })
    }

    fn seek(&mut self, position: SeekFrom) -> FsFuture<'_, u64> {
        let target = match position {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.meta.len().checked_add_signed(by),
        };
        if let Some(target) = target {
            self.position = target;
        }
        Box::pin(future::ready(target.ok_or(FsError::GeneralFailure)))
    }

    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(future::ready(Ok(())))
    }
}
