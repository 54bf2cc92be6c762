//! One file: fetched under a temporary name, whole or in parts, and set down when it is right.

use std::{
    ffi::OsStr,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Mutex, atomic::Ordering},
};

use haul_http::{Answer, Body, Class};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;

use super::{
    Download, FileFacts, RemoteFile,
    announced_length::AnnouncedLength,
    attempt::{FetchError, cut, retry},
    local_files::in_the_way,
    partial_file::{PartialFile, ours_alone},
    prefetch::{self, PrefetchedRange},
    range_request::is_part,
};
use crate::{
    ETag, Error, RemotePath,
    client::compare::{as_stored, with_digests},
    transfer::{Verify, lock, part_name, temporary_name},
};

/// Answers up to this size may stand before others on a connection.
const SMALL: u64 = 256 * 1024;
/// The size from which a file is worth parts.
pub(super) const LARGE: u64 = 8 * 1024 * 1024;
impl FileFacts {
    /// Its length and tag, if it has that many bytes and one version can be told from another.
    fn in_parts(&self, least: u64) -> Option<(u64, &ETag)> {
        self.length.filter(|length| *length >= least).zip(self.etag.as_ref().filter(|tag| !tag.is_weak()))
    }
}

impl Download<'_> {
    /// Fetches a file to its place: its length.
    pub(super) async fn fetch(&self, find: &RemoteFile, path: &RemotePath) -> Result<u64, Error> {
        let place = find.place_through_link();
        let (Some(folder), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(Error::local("write", &place, io::Error::other("it has no name")));
        };
        let there = if find.folder.named { fs::metadata(&place) } else { fs::symlink_metadata(&place) };
        let (mode, replaces) = match there {
            Ok(kind) if kind.is_file() => (Some(kind.permissions()), false),
            Ok(kind) if !kind.is_symlink() => {
                if find.folder.named && find.folder.alias.is_some() || !self.options.replaces() {
                    return Err(Error::local("write", &place, in_the_way(&kind)));
                }
                (None, true)
            }
            _ => (None, false),
        };
        if self.options.dry_run {
            let replacing = if replaces { self.replace(&place, || Ok(())) } else { Ok(()) };
            let local = |error| Error::local("write", &place, error);
            return replacing.map(|()| find.facts.length.unwrap_or(0)).map_err(local);
        }
        let mut part = self.part(folder, name, path, &find.facts);
        let mut fetched = if find.facts.length.is_some_and(|length| length <= SMALL) {
            let first = async { Ok((self.fetch_to(find, path, &part).await?, None)) };
            let second = || async {
                let other = self.new_part(folder, name);
                Ok((Some(self.fetch_whole(find, path, &other.place, None).await?), Some(other)))
            };
            self.late.either(first, second).await.map(|(length, other)| {
                if let Some(other) = other {
                    self.gives_up(&std::mem::replace(&mut part, other));
                }
                length
            })
        } else {
            self.fetch_to(find, path, &part).await
        };
        if let Ok(None) = fetched {
            // All of it at once may be of another version: that is nothing to go on from.
            self.gives_up(&part);
            part = self.new_part(folder, name);
            fetched = self.fetch_whole(find, path, &part.place, None).await.map(Some);
        }
        let placed = match fetched {
            Ok(length) => {
                let kept = if mode.is_some() { self.keep_copy(&place) } else { Ok(()) };
                kept.and_then(|()| self.set_down(find, mode, &part.place, &place, replaces)).map(|here| {
                    self.saw(find, here);
                    length.unwrap_or_default()
                })
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &placed {
            let useful = part.left.is_some()
                && matches!(error, Error::Http(_) | Error::Local { .. })
                && fs::metadata(&part.place).is_ok_and(|kind| kind.len() > 0);
            if !useful {
                let _ = fs::remove_file(&part.place);
            }
        }
        lock(&self.parts).remove(&part.place);
        // Whose part it is, and not what that was called.
        placed.map_err(|error| match error {
            Error::Local { doing, path, source } if path == part.place => Error::Local { doing, path: place, source },
            other => other,
        })
    }

    /// Where a file is written first. Of a large one that can be told from its other versions, the name is always the
    /// same, and what an earlier run has left is gone on from; unless another process is writing it.
    fn part(&self, folder: &Path, name: &OsStr, path: &RemotePath, facts: &FileFacts) -> PartialFile {
        if let Some((length, tag)) =
            facts.in_parts(LARGE).filter(|_| self.options.resume && !self.whole_only.load(Ordering::Relaxed))
        {
            let mut mark = DefaultHasher::new();
            (path.target(), length, tag).hash(&mut mark);
            let place = folder.join(OsStr::from_bytes(&part_name(name.as_bytes(), mark.finish())));
            if let Some(file) = ours_alone(&place) {
                let has = file.metadata().map_or(0, |kind| kind.len());
                return PartialFile { place, has: if has > length { 0 } else { has }, left: Some(file) };
            }
        }
        self.new_part(folder, name)
    }

    fn gives_up(&self, part: &PartialFile) {
        let _ = fs::remove_file(&part.place);
        lock(&self.parts).remove(&part.place);
    }

    fn new_part(&self, folder: &Path, name: &OsStr) -> PartialFile {
        let place = folder.join(OsStr::from_bytes(&temporary_name(name.as_bytes())));
        lock(&self.parts).insert(place.clone());
        PartialFile { place, has: 0, left: None }
    }

    /// Fetches a file, in parts if it is worth that: its length. None if the server does not send parts.
    async fn fetch_to(&self, find: &RemoteFile, path: &RemotePath, part: &PartialFile) -> Result<Option<u64>, Error> {
        let apart = self.options.connections > 1 && !self.dav.client().is_limited();
        let worth = part.left.is_some() || apart && !self.whole_only.load(Ordering::Relaxed);
        let mut early =
            lock(&self.early).take_if(|early| early.path == *path).map(|early| early.ranges).unwrap_or_default();
        let least = if early.is_empty() { LARGE } else { prefetch::FIRST + 1 };
        let Some((length, tag)) = find.facts.in_parts(least).filter(|_| worth) else {
            early.truncate(1);
            return self.fetch_whole(find, path, &part.place, early.pop_front()).await.map(Some);
        };
        // In a box: hundreds of small files need no room for it.
        let fetched = Box::pin(self.fetch_parts(path, part, length, tag, early)).await?;
        if fetched.is_some() {
            self.compare(find, path, &part.place, length).await?;
        }
        Ok(fetched)
    }

    /// Compares what has come with the digest that the server has of it, if that is wanted and there is one.
    async fn compare(&self, find: &RemoteFile, path: &RemotePath, part: &Path, length: u64) -> Result<(), Error> {
        if self.options.verify != Verify::Digest {
            return Ok(());
        }
        let mut body = Body::file(part.to_owned(), 0, length);
        match self.dav.digest_fits(path, &mut body, &find.facts.checksums).await? {
            Some(false) => {
                let why = "what came has another digest than the server says: try again".into();
                Err(Error::Differs { path: path.clone(), why })
            }
            _ => Ok(()),
        }
    }

    /// Fetches a file by one request, which may have been sent already.
    async fn fetch_whole(
        &self,
        find: &RemoteFile,
        path: &RemotePath,
        part: &Path,
        asked: Option<PrefetchedRange>,
    ) -> Result<u64, Error> {
        let asked = Mutex::new(asked);
        let fetch = || self.try_whole(find, path, part, lock(&asked).take());
        let (length, verified) = retry(find.facts.length.unwrap_or(LARGE), fetch).await?;
        // A digest that came with the answer has been compared as it was read; what was listed comes from elsewhere.
        if !verified || !find.facts.checksums.is_empty() {
            self.compare(find, path, part, length).await?;
        }
        Ok(length)
    }

    async fn try_whole(
        &self,
        find: &RemoteFile,
        path: &RemotePath,
        part: &Path,
        asked: Option<PrefetchedRange>,
    ) -> Result<(u64, bool), FetchError> {
        let facts = &find.facts;
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
            let why = format!("the server answers with {} instead of the file", answer.status());
            return Err(Error::Differs { path: path.clone(), why }.into());
        }
        self.write(answer, facts, path, part).await
    }

    /// Writes what comes: its length, and whether it had a digest that fits.
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
        // At once: a task for it might make it after all has been stopped and cleared away.
        let mut file = fs::File::create(part).map_err(written)?;
        let mut length = 0;
        let first = extent.next(&mut body, 0, path).await?.and_then(|frame| frame.into_data().ok());
        if let Some(piece) = first.clone().filter(|piece| extent.is_all(piece.len() as u64)) {
            // What came in one piece is written in one go.
            let moved = piece.len();
            self.moves(moved);
            while let Some(end) = body.frame().await {
                end.map_err(cut)?;
            }
            let wrote = tokio::task::spawn_blocking(move || file.write_all(&piece)).await;
            wrote.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(written)?;
            self.is_as_listed(facts, path, moved as u64, extent.is_blind())?;
            return Ok((moved as u64, !body.verified().is_empty()));
        }
        let mut file = tokio::fs::File::from_std(file);
        let mut piece = first;
        loop {
            if let Some(piece) = piece.take() {
                length += piece.len() as u64;
                self.moves(piece.len());
                file.write_all(&piece).await.map_err(written)?;
            }
            // What is longer may have no end.
            if facts.length.is_some_and(|listed| length > listed) {
                break;
            }
            match extent.next(&mut body, length, path).await? {
                Some(frame) => piece = frame.into_data().ok(),
                None => break,
            }
        }
        file.flush().await.map_err(written)?;
        self.is_as_listed(facts, path, length, extent.is_blind())?;
        Ok((length, !body.verified().is_empty()))
    }

    /// Whether so many bytes are what was listed. An answer that does not tell its length itself may be cut: then it is
    /// tried again.
    fn is_as_listed(&self, facts: &FileFacts, path: &RemotePath, length: u64, blind: bool) -> Result<(), FetchError> {
        let Some(listed) = facts.length.filter(|listed| *listed != length) else { return Ok(()) };
        if self.options.verify == Verify::None && !blind {
            return Ok(());
        }
        let more = if length > listed { "more than " } else { "" };
        let why = format!("the server listed {listed} bytes and sent {more}{}", length.min(listed));
        let error = Error::Differs { path: path.clone(), why };
        Err(if blind { FetchError::Interrupted(error) } else { FetchError::Final(error) })
    }
}
