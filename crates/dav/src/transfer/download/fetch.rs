//! One file: fetched under a temporary name, whole or in parts, and set down when it is right.

use std::{
    ffi::OsStr,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Seek, SeekFrom, Write},
    ops::RangeInclusive,
    os::unix::{
        ffi::OsStrExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, atomic::Ordering},
};

use haul_http::{Answer, Body, Class};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use rustix::{fs::OFlags, process::geteuid};
use tokio::io::AsyncWriteExt;

use super::{
    Facts, Find, Work,
    early::{self, Asked},
    here::in_the_way,
    parts::is_part,
    surplus::{Extent, stood_still},
};
use crate::{
    ETag, Error, RemotePath,
    compare::{as_stored, with_digests},
    transfer::{Verify, lock, part_name, temporary_name},
};

/// Answers up to this size may stand before others on a connection.
const SMALL: u64 = 256 * 1024;
/// The size from which a file is worth parts.
const LARGE: u64 = 8 * 1024 * 1024;
/// How often an answer that breaks off is asked for, the first time included: until all that came of it is as much as a
/// large file, within these bounds. Where connections end after so many bytes, each one that others have used may break
/// once more, and then there is a fresh one. One that stands still until its bound is exceeded is asked for once more.
const TRIES: RangeInclusive<u64> = 3..=10;

impl Facts {
    /// Its length and tag, if it has that many bytes and one version can be told from another.
    fn in_parts(&self, least: u64) -> Option<(u64, &ETag)> {
        self.length.filter(|length| *length >= least).zip(self.etag.as_ref().filter(|tag| !tag.is_weak()))
    }
}

impl Work<'_> {
    /// Fetches a file to its place: its length.
    pub(super) async fn fetch(&self, find: &Find, path: &RemotePath) -> Result<u64, Error> {
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
    fn part(&self, folder: &Path, name: &OsStr, path: &RemotePath, facts: &Facts) -> Part {
        if let Some((length, tag)) =
            facts.in_parts(LARGE).filter(|_| self.options.resume && !self.whole_only.load(Ordering::Relaxed))
        {
            let mut mark = DefaultHasher::new();
            (path.target(), length, tag).hash(&mut mark);
            let place = folder.join(OsStr::from_bytes(&part_name(name.as_bytes(), mark.finish())));
            if let Some(file) = ours_alone(&place) {
                let has = file.metadata().map_or(0, |kind| kind.len());
                return Part { place, has: if has > length { 0 } else { has }, left: Some(file) };
            }
        }
        self.new_part(folder, name)
    }

    fn gives_up(&self, part: &Part) {
        let _ = fs::remove_file(&part.place);
        lock(&self.parts).remove(&part.place);
    }

    fn new_part(&self, folder: &Path, name: &OsStr) -> Part {
        let place = folder.join(OsStr::from_bytes(&temporary_name(name.as_bytes())));
        lock(&self.parts).insert(place.clone());
        Part { place, has: 0, left: None }
    }

    /// Fetches a file, in parts if it is worth that: its length. None if the server does not send parts.
    async fn fetch_to(&self, find: &Find, path: &RemotePath, part: &Part) -> Result<Option<u64>, Error> {
        let apart = self.options.connections > 1 && !self.dav.client().is_limited();
        let worth = part.left.is_some() || apart && !self.whole_only.load(Ordering::Relaxed);
        let mut early =
            lock(&self.early).take_if(|early| early.path == *path).map(|early| early.ranges).unwrap_or_default();
        let least = if early.is_empty() { LARGE } else { early::FIRST + 1 };
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
    async fn compare(&self, find: &Find, path: &RemotePath, part: &Path, length: u64) -> Result<(), Error> {
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
        find: &Find,
        path: &RemotePath,
        part: &Path,
        asked: Option<Asked>,
    ) -> Result<u64, Error> {
        let asked = Mutex::new(asked);
        let fetch = || self.try_whole(find, path, part, lock(&asked).take());
        let (length, verified) = again(find.facts.length.unwrap_or(LARGE), fetch).await?;
        // A digest that came with the answer has been compared as it was read; what was listed comes from elsewhere.
        if !verified || !find.facts.checksums.is_empty() {
            self.compare(find, path, part, length).await?;
        }
        Ok(length)
    }

    async fn try_whole(
        &self,
        find: &Find,
        path: &RemotePath,
        part: &Path,
        asked: Option<Asked>,
    ) -> Result<(u64, bool), Lost> {
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
    async fn write(&self, answer: Answer, facts: &Facts, path: &RemotePath, part: &Path) -> Result<(u64, bool), Lost> {
        let extent = Extent::of(&answer, facts.length);
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
    fn is_as_listed(&self, facts: &Facts, path: &RemotePath, length: u64, blind: bool) -> Result<(), Lost> {
        let Some(listed) = facts.length.filter(|listed| *listed != length) else { return Ok(()) };
        if self.options.verify == Verify::None && !blind {
            return Ok(());
        }
        let more = if length > listed { "more than " } else { "" };
        let why = format!("the server listed {listed} bytes and sent {more}{}", length.min(listed));
        let error = Error::Differs { path: path.clone(), why };
        Err(if blind { Lost::Amid(error) } else { Lost::Whole(error) })
    }
}

/// Where a file is written first.
pub(super) struct Part {
    pub(super) place: PathBuf,
    /// What is there already, and right.
    pub(super) has: u64,
    /// The file, if it is left for the next run when this one is interrupted. It is written by this, under our lock:
    /// its name may come to lead elsewhere.
    left: Option<fs::File>,
}

impl Part {
    /// The file, to be written from the end of what is there.
    pub(super) fn open(&self) -> io::Result<fs::File> {
        let mut file = match &self.left {
            Some(file) => file.try_clone()?,
            None => fs::File::options().create(true).truncate(false).write(true).open(&self.place)?,
        };
        // What is beyond is of no use.
        file.set_len(self.has)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }
}

/// The file at a place that others can foretell, made if there is none, and locked; none if another process writes it.
/// In a folder that is not only ours, something may have been put there for us: a link, a pipe, another's file.
fn ours_alone(place: &Path) -> Option<fs::File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::File::options().create(true).truncate(false).write(true).custom_flags(flags).open(place).ok()?;
    let it = file.metadata().ok()?;
    let ours = it.is_file() && it.nlink() == 1 && it.uid() == geteuid().as_raw();
    // Between the two, whoever held the lock may have given it its name.
    let is_there = || fs::symlink_metadata(place).is_ok_and(|there| (there.dev(), there.ino()) == (it.dev(), it.ino()));
    (ours && file.try_lock().is_ok() && is_there()).then_some(file)
}

/// Why a file, or a part of it, did not come.
pub(super) enum Lost {
    /// What the engine could do about it, it has done; or nothing can be done.
    Whole(Error),
    /// Its answer had begun, and could not be tried elsewhere by then.
    Amid(Error),
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        Self::Whole(error)
    }
}

pub(super) fn cut(error: haul_http::Error) -> Lost {
    Lost::Amid(error.into())
}

/// Tries a few times to have what is lost in the middle, of so many bytes.
pub(super) async fn again<T, F: Future<Output = Result<T, Lost>>>(
    length: u64,
    fetch: impl Fn() -> F,
) -> Result<T, Error> {
    let tries = (LARGE / length.max(1)).clamp(*TRIES.start(), *TRIES.end());
    let mut stood = false;
    for left in (0..tries).rev() {
        match fetch().await {
            Ok(fetched) => return Ok(fetched),
            Err(Lost::Amid(error)) if left > 0 => {
                if stood_still(&error) && std::mem::replace(&mut stood, true) {
                    return Err(error);
                }
            }
            Err(Lost::Amid(error) | Lost::Whole(error)) => return Err(error),
        }
    }
    unreachable!("the last try returns")
}
