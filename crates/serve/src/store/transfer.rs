//! Files as `dav-server` sees them: one being uploaded, one being downloaded.
//!
//! `dav-server` writes a `PUT` body chunk by chunk and calls `flush` only if the body is complete; if the client
//! disconnects or the body is truncated, it drops the file. So an upload takes effect in `flush`, and drop aborts it.
//!
//! System calls run on the blocking pool, in as few tasks as possible: chunks accumulate in memory up to [`GATHER`], so
//! that a small upload is created, written, synced and renamed in a single task.

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
use super::metadata::Meta;
use super::request_context::RequestContext;
use super::root::{Root, refusal};
use super::staged_upload::StagedUpload;
use crate::activity::Activity;
use crate::budget::Hold;

/// Bytes of a body that accumulate in memory before they are written.
const GATHER: usize = 256 * 1024;

/// A file being uploaded.
#[derive(Debug)]
pub(crate) struct Upload {
    root: Arc<Root>,
    context: Arc<RequestContext>,
    /// The announced `Content-Length`, if any.
    announced: Option<u64>,
    /// `None` after a failure and after the upload has taken effect.
    staged: Option<StagedUpload>,
    gathered: Vec<Bytes>,
    /// What is gathered.
    hold: Hold,
    placed: Option<Meta>,
}

impl Upload {
    pub(crate) fn new(
        root: Arc<Root>,
        staged: StagedUpload,
        announced: Option<u64>,
        context: Arc<RequestContext>,
    ) -> Self {
        let hold = Hold::new(&context.activity, 0);
        Upload { root, context, announced, staged: Some(staged), gathered: Vec::new(), hold, placed: None }
    }

    async fn gather(&mut self, piece: Bytes) -> FsResult<()> {
        let activity = Arc::clone(&self.context.activity);
        self.hold.grow(piece.len());
        self.gathered.push(piece);
        if self.hold.bytes() < GATHER.min(2 * activity.budget.piece()) {
            return Ok(());
        }
        let (pieces, _hold) =
            (std::mem::take(&mut self.gathered), std::mem::replace(&mut self.hold, Hold::new(&activity, 0)));
        let mut staged = self.staged.take().ok_or(FsError::GeneralFailure)?;
        self.staged = Some(blocking(move || staged.write(&pieces).map(|()| staged)).await?);
        Ok(())
    }

    async fn finish(&mut self) -> FsResult<()> {
        let pieces = std::mem::take(&mut self.gathered);
        let mut staged = self.staged.take().ok_or(FsError::GeneralFailure)?;
        let total = staged.written() + self.hold.bytes() as u64;
        if self.announced.is_some_and(|announced| announced != total) {
            // Not the announced length: abort. `dav-server` counts too and responds with 400.
            return Ok(());
        }
        let (root, context) = (Arc::clone(&self.root), Arc::clone(&self.context));
        let placed = blocking(move || {
            staged.write(&pieces)?;
            staged.commit(&root, &context)
        })
        .await?;
        self.context.note_time(placed.modified_time().tv_sec);
        self.placed = Some(placed);
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

    /// Partial writes are refused earlier; see the crate's documentation.
    fn seek(&mut self, _position: SeekFrom) -> FsFuture<'_, u64> {
        Box::pin(future::ready(Err(FsError::NotImplemented)))
    }

    fn flush(&mut self) -> FsFuture<'_, ()> {
        Box::pin(self.finish())
    }
}

/// A file being downloaded.
#[derive(Debug)]
pub(crate) struct Download {
    file: Arc<File>,
    meta: Meta,
    position: u64,
    /// The connection that it is read for.
    activity: Arc<Activity>,
}

impl Download {
    pub(crate) fn new(file: OwnedFd, context: &RequestContext) -> FsResult<Self> {
        let meta = Meta::of(&file).map_err(refusal)?;
        if !meta.kind().is_file() {
            return Err(FsError::Forbidden);
        }
        Ok(Download { file: Arc::new(file.into()), meta, position: 0, activity: Arc::clone(&context.activity) })
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
            let count = count.min(self.activity.budget.piece());
            // Until the body counts the piece: many may be read at the same time.
            let _reading = Hold::new(&self.activity, count);
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
