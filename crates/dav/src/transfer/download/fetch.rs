//! Downloads one file under a temporary name, whole or in ranges, and puts it in place when it is complete.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Mutex, atomic::Ordering},
};

use haul_http::{Answer, Body, Class};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;
use transport::stable_hash;

use super::{
    Download, FileFacts, RemoteFile,
    announced_length::AnnouncedLength,
    local_files::in_the_way,
    partial_file::{PartialFile, ours_alone},
    prefetch::{self, PrefetchedRange},
    range_request::is_part,
    retry::{FetchError, cut, retry},
};
use crate::{
    ETag, Error, RemotePath,
    client::compare::{as_stored, with_digests},
    transfer::{Verify, lock, part_name, temporary_name},
};

/// Answers up to this size may precede others on a connection.
const SMALL: u64 = 256 * 1024;
/// Files from this size are downloaded in ranges.
pub(super) const LARGE: u64 = 8 * 1024 * 1024;
impl FileFacts {
    /// Length and entity tag, if the file has at least `least` bytes and a strong tag.
    fn in_parts(&self, least: u64) -> Option<(u64, &ETag)> {
        self.length.filter(|length| *length >= least).zip(self.etag.as_ref().filter(|tag| !tag.is_weak()))
    }
}

impl Download<'_> {
    /// Downloads a file to its local path; returns its length.
    pub(super) async fn fetch(&self, remote: &RemoteFile, path: &RemotePath) -> Result<u64, Error> {
        let local = remote.local_path_through_link();
        let (Some(folder), Some(name)) = (local.parent(), local.file_name()) else {
            return Err(Error::local("write", &local, io::Error::other("it has no name")));
        };
        let there = if remote.folder.named { fs::metadata(&local) } else { fs::symlink_metadata(&local) };
        let (mode, replaces) = match there {
            Ok(kind) if kind.is_file() => (Some(kind.permissions()), false),
            Ok(kind) if !kind.is_symlink() => {
                if remote.folder.named && remote.folder.rename_to.is_some() || !self.options.replaces() {
                    return Err(Error::local("write", &local, in_the_way(&kind)));
                }
                (None, true)
            }
            _ => (None, false),
        };
        if self.options.dry_run {
            let replacing = if replaces { self.replace(&local, || Ok(())) } else { Ok(()) };
            let write_error = |error| Error::local("write", &local, error);
            return replacing.map(|()| remote.facts.length.unwrap_or(0)).map_err(write_error);
        }
        let mut part = self.partial_file(folder, name, path, &remote.facts);
        let mut fetched = self.fetch_or_hedge(remote, path, folder, name, &mut part).await;
        if let Ok(None) = fetched {
            // The whole file may be another version than what an earlier run left: start over.
            self.discard_partial(&part);
            part = self.new_partial_file(folder, name);
            fetched = self.fetch_whole(remote, path, &part.path, None).await.map(Some);
        }
        let placed = match fetched {
            Ok(length) => {
                let kept = if mode.is_some() { self.back_up_copy(&local) } else { Ok(()) };
                kept.and_then(|()| self.put_in_place(remote, mode, &part.path, &local, replaces)).map(|here| {
                    self.record_synced(remote, here);
                    length.unwrap_or_default()
                })
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &placed {
            let useful = part.left.is_some()
                && matches!(error, Error::Http(_) | Error::Local { .. })
                && fs::metadata(&part.path).is_ok_and(|kind| kind.len() > 0);
            if !useful {
                let _ = fs::remove_file(&part.path);
            }
        }
        lock(&self.temporary_files).remove(&part.path);
        // Name the file, not its temporary name.
        placed.map_err(|error| match error {
            Error::Local { doing, path, source } if path == part.path => Error::Local { doing, path: local, source },
            other => other,
        })
    }

    /// Fetches a file to `part`; a small one that is late is requested a second time, and `part` becomes the file of the
    /// request that wins. None if the server does not send ranges.
    async fn fetch_or_hedge(
        &self,
        remote: &RemoteFile,
        path: &RemotePath,
        folder: &Path,
        name: &OsStr,
        part: &mut PartialFile,
    ) -> Result<Option<u64>, Error> {
        if remote.facts.length.is_none_or(|length| length > SMALL) {
            return self.fetch_to(remote, path, part).await;
        }
        let first = async { Ok::<_, Error>((self.fetch_to(remote, path, part).await?, None)) };
        let second = || async {
            let other = self.new_partial_file(folder, name);
            Ok((Some(self.fetch_whole(remote, path, &other.path, None).await?), Some(other)))
        };
        let (length, other) = self.progress.hedge.race(first, second).await?;
        if let Some(other) = other {
            self.discard_partial(&std::mem::replace(part, other));
        }
        Ok(length)
    }

    /// The temporary file of a download. With `--resume`, a large file with a strong entity tag always gets the same
    /// name, so that it continues what an earlier run left, unless another process is writing it.
    fn partial_file(&self, folder: &Path, name: &OsStr, path: &RemotePath, facts: &FileFacts) -> PartialFile {
        if let Some((length, tag)) =
            facts.in_parts(LARGE).filter(|_| self.options.resume && !self.ranges.unsupported.load(Ordering::Relaxed))
        {
            let version = [&path.target() as _, &length.to_be_bytes() as _, &tag.to_string() as _];
            let mark = stable_hash("longhaul.download/1", &version);
            let local = folder.join(OsStr::from_bytes(&part_name(name.as_bytes(), mark)));
            if let Some(file) = ours_alone(&local) {
                let has = file.metadata().map_or(0, |kind| kind.len());
                return PartialFile { path: local, has: if has > length { 0 } else { has }, left: Some(file) };
            }
        }
        self.new_partial_file(folder, name)
    }

    fn discard_partial(&self, part: &PartialFile) {
        let _ = fs::remove_file(&part.path);
        lock(&self.temporary_files).remove(&part.path);
    }

    fn new_partial_file(&self, folder: &Path, name: &OsStr) -> PartialFile {
        let local = folder.join(OsStr::from_bytes(&temporary_name(name.as_bytes())));
        lock(&self.temporary_files).insert(local.clone());
        PartialFile { path: local, has: 0, left: None }
    }

    /// Downloads a file to `part`, in ranges if that pays; returns its length. None if the server does not send ranges.
    async fn fetch_to(&self, remote: &RemoteFile, path: &RemotePath, part: &PartialFile) -> Result<Option<u64>, Error> {
        let apart = self.options.connections > 1 && !self.dav.client().is_limited();
        let worth = part.left.is_some() || apart && !self.ranges.unsupported.load(Ordering::Relaxed);
        let mut early =
            lock(&self.prefetch).take_if(|early| early.path == *path).map(|early| early.ranges).unwrap_or_default();
        let least = if early.is_empty() { LARGE } else { prefetch::FIRST + 1 };
        let Some((length, tag)) = remote.facts.in_parts(least).filter(|_| worth) else {
            early.truncate(1);
            return self.fetch_whole(remote, path, &part.path, early.pop_front()).await.map(Some);
        };
        // Boxed, so that hundreds of small files need no memory for it.
        let fetched = Box::pin(self.fetch_parts(path, part, length, tag, early)).await?;
        if fetched.is_some() {
            self.compare(remote, path, &part.path, length).await?;
        }
        Ok(fetched)
    }

    /// With `--verify digest`, compares the received file with the server's digest, if there is one.
    async fn compare(&self, remote: &RemoteFile, path: &RemotePath, part: &Path, length: u64) -> Result<(), Error> {
        if self.options.verify != Verify::Digest {
            return Ok(());
        }
        let mut body = Body::file(part.to_owned(), 0, length);
        match self.dav.digest_fits(path, &mut body, &remote.facts.checksums).await? {
            Some(false) => {
                let why = "the received data does not match the server's digest; retry".into();
                Err(Error::Differs { path: path.clone(), why })
            }
            _ => Ok(()),
        }
    }

    /// Downloads a file by one request, which may have been sent already.
    async fn fetch_whole(
        &self,
        remote: &RemoteFile,
        path: &RemotePath,
        part: &Path,
        asked: Option<PrefetchedRange>,
    ) -> Result<u64, Error> {
        let asked = Mutex::new(asked);
        let fetch = || self.try_whole(remote, path, part, lock(&asked).take());
        let (length, verified) = retry(remote.facts.length.unwrap_or(LARGE), fetch).await?;
        // A digest in the answer was verified while reading; a listed one was not.
        if !verified || !remote.facts.checksums.is_empty() {
            self.compare(remote, path, part, length).await?;
        }
        Ok(length)
    }

    async fn try_whole(
        &self,
        remote: &RemoteFile,
        path: &RemotePath,
        part: &Path,
        asked: Option<PrefetchedRange>,
    ) -> Result<(u64, bool), FetchError> {
        let facts = &remote.facts;
        let length = facts.length.unwrap_or(0);
        let early = match asked {
            Some(asked) => asked.answer().await.filter(|answer| is_part(answer, &(0..length), length)),
            None => None,
        };
        if let Some(answer) = early {
            return self.write(answer, facts, path, part).await;
        }
        let class = if facts.length.is_some_and(|length| length <= SMALL) { Class::Small } else { Class::Large };
        let options = haul_http::Options { class, expected: facts.expected(), ..haul_http::Options::default() };
        let digests = self.options.verify == Verify::Digest;
        let headers = if digests { with_digests() } else { HeaderMap::from_iter([as_stored()]) };
        let answer = self.dav.get(path, headers, options).await?;
        if answer.status() != StatusCode::OK {
            let why = format!("the server answers {} instead of sending the file", answer.status());
            return Err(Error::Differs { path: path.clone(), why }.into());
        }
        self.write(answer, facts, path, part).await
    }

    /// Writes the body to `part`; returns its length, and whether a digest in the answer was verified.
    async fn write(
        &self,
        answer: Answer,
        facts: &FileFacts,
        path: &RemotePath,
        part: &Path,
    ) -> Result<(u64, bool), FetchError> {
        let extent = AnnouncedLength::of(&answer, facts.length);
        let mut body = answer.into_body();
        let written = |error| Error::local("write", part, error);
        // Created right here: a spawned task might create it after an interrupt has removed all temporary files.
        let mut file = fs::File::create(part).map_err(written)?;
        let mut length = 0;
        let first = extent.next(&mut body, 0, path).await?.and_then(|frame| frame.into_data().ok());
        if let Some(piece) = first.clone().filter(|piece| extent.is_all(piece.len() as u64)) {
            // A single piece is written at once.
            let moved = piece.len();
            self.add_received(moved);
            while let Some(end) = body.frame().await {
                end.map_err(cut)?;
            }
            let wrote = tokio::task::spawn_blocking(move || file.write_all(&piece)).await;
            wrote.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(written)?;
            self.check_length(facts, path, moved as u64, extent.is_blind())?;
            return Ok((moved as u64, !body.verified().is_empty()));
        }
        let mut file = tokio::fs::File::from_std(file);
        let mut piece = first;
        loop {
            if let Some(piece) = piece.take() {
                length += piece.len() as u64;
                self.add_received(piece.len());
                file.write_all(&piece).await.map_err(written)?;
            }
            // A body that is too long may never end.
            if facts.length.is_some_and(|listed| length > listed) {
                break;
            }
            match extent.next(&mut body, length, path).await? {
                Some(frame) => piece = frame.into_data().ok(),
                None => break,
            }
        }
        file.flush().await.map_err(written)?;
        self.check_length(facts, path, length, extent.is_blind())?;
        Ok((length, !body.verified().is_empty()))
    }

    /// Compares the received with the listed length. An answer without an announced length may be truncated, so it is
    /// retried.
    fn check_length(&self, facts: &FileFacts, path: &RemotePath, length: u64, blind: bool) -> Result<(), FetchError> {
        let Some(listed) = facts.length.filter(|listed| *listed != length) else { return Ok(()) };
        if self.options.verify == Verify::None && !blind {
            return Ok(());
        }
        let more = if length > listed { "more than " } else { "" };
        let why = format!("the server listed {listed} bytes, but sent {more}{}", length.min(listed));
        let error = Error::Differs { path: path.clone(), why };
        Err(if blind { FetchError::Interrupted(error) } else { FetchError::Final(error) })
    }
}
