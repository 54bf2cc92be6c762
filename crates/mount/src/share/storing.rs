//! Storing a version of a file: one PUT under its lock and precondition, and what a refusal means.
//!
//! A refusal is a conflict only if somebody else has changed the file, or the lock is lost under which it was edited. So the
//! file is looked up. A late request of our own may have put another file of ours there, or taken this one away. Or an earlier
//! PUT of the same content has arrived, whose answer was lost. Otherwise it is somebody else's, even with equal content: of two
//! programs that create a file exclusively, one must fail.

use dav::{Error, If, PropertySet, RemotePath};
use haul_http::{
    Body,
    Error::{Connect, Credentials, Shutdown},
};
use nix::errno::Errno;
use tokio::time::Instant;

use super::{
    Result, Share, facts,
    writing::{Content, precondition},
};
use crate::{
    file_state::Base,
    journal::Failure,
    late_changes::Late,
    tree::{Facts, Ino},
};

/// How often a version is sent for another reason each time.
const TRIES: u32 = 3;

/// A version to store.
pub(super) struct Version<'a, C> {
    pub(super) path: &'a RemotePath,
    /// What it replaces.
    pub(super) base: &'a Base,
    /// Its node, which may be locked.
    pub(super) ino: Option<Ino>,
    /// Whether an earlier PUT of it may have arrived.
    pub(super) is_doubtful: bool,
    pub(super) content: C,
}

/// Why the server does not have a version.
pub(super) enum Unstored {
    /// Its content cannot be read here.
    Unreadable(Errno),
    /// Somebody else has changed the file, or may have, as its lock is lost.
    Conflict(Error),
    Failed(Failure, Error),
}

/// What is at a path instead of the version to replace.
enum Found {
    /// What is to be stored.
    Ours(Facts),
    /// Nothing that somebody else has made.
    Replaceable(Base),
    Theirs,
}

/// A lookup has failed, so the outcome of the PUT before is still unknown.
fn unknown(error: Error) -> Unstored {
    Unstored::Failed(Failure::Unknown, error)
}

impl Share {
    pub(super) async fn store<C: Fn() -> Result<Content>>(
        &self,
        mut version: Version<'_, C>,
    ) -> std::result::Result<Facts, Unstored> {
        let (path, ino) = (version.path, version.ino);
        let (mut base, mut refusal) = (version.base.clone(), None);
        for _ in 0..TRIES {
            self.locks.fence(path).await.map_err(unknown)?;
            if self.has_lost_lock(ino, None).await && !self.is_free(path, &base).await {
                let why = "the server has ended the lock under which it was edited".into();
                return Err(Unstored::Conflict(Error::Differs { path: path.clone(), why }));
            }
            let content = (version.content)().map_err(Unstored::Unreadable)?;
            let refused = match self.put_locked(path, &base, content).await {
                Ok(facts) => return Ok(self.is_stored(path, facts)),
                Err(error) => error,
            };
            if self.has_lost_lock(ino, Some(&refused)).await && !self.is_free(path, &base).await {
                return Err(Unstored::Conflict(refused));
            }
            if refused.is(423) && self.locks.undo_unused(path).await {
                continue;
            }
            if !refused.is(412) {
                return Err(Unstored::Failed(failure(&refused), refused));
            }
            version.is_doubtful |= refused.refusal().is_some_and(|refusal| refusal.times_sent > 1);
            refusal = Some(refused);
            match self.found_instead(&version, &base).await? {
                Found::Ours(facts) => return Ok(self.is_stored(path, facts)),
                Found::Replaceable(now) => base = now,
                Found::Theirs => break,
            }
        }
        Err(refusal.map_or(Unstored::Unreadable(Errno::EIO), Unstored::Conflict))
    }

    /// Whether there is nothing, as expected, or because a late DELETE or MOVE of our own has taken the file away, and the lock
    /// with it.
    async fn is_free(&self, path: &RemotePath, base: &Base) -> bool {
        (*base == Base::New || self.late_changes().reason(Instant::now(), path, None) == Some(Late::TakenAway))
            && matches!(self.dav.stat(path, PropertySet::LISTING).await, Ok(None))
    }

    fn is_stored(&self, path: &RemotePath, facts: Facts) -> Facts {
        self.locks.written(path);
        facts
    }

    async fn put_locked(&self, path: &RemotePath, base: &Base, content: Content) -> std::result::Result<Facts, Error> {
        let claims = self.locks.claims(&[path]);
        let is_locked = claims != If::default();
        let precondition = match base {
            Base::New if is_locked => self.locks.precondition_of_new(path),
            base => precondition(base),
        };
        let _turn = if is_locked { Some(self.locks.turn(true).await) } else { None };
        self.put(path, content, &precondition, &claims).await
    }

    async fn found_instead<C: Fn() -> Result<Content>>(
        &self,
        version: &Version<'_, C>,
        base: &Base,
    ) -> std::result::Result<Found, Unstored> {
        let path = version.path;
        let found = self.dav.stat(path, PropertySet::LISTING).await.map_err(unknown)?;
        if found.as_ref().is_some_and(|found| found.path.is_folder()) {
            return Ok(Found::Theirs);
        }
        let found = found.map(|found| facts(&found));
        if let (Base::Version(base), Some(found)) = (base, &found)
            && found.etag.is_some()
            && found.is_version(base)
        {
            // It was refused for its lock, which has ended.
            return Ok(Found::Replaceable(Base::Version(found.clone())));
        }
        // What is under a lock that has created the file is ours: an earlier upload, whose answer was lost.
        let is_locked = self.locks.claims(&[path]) != If::default();
        let is_new = is_locked && *base == Base::New && self.locks.has_created(path);
        if let Some(ours) = found.clone().filter(|_| is_new) {
            self.locks.written(path);
            return Ok(Found::Replaceable(Base::Version(ours)));
        }
        // So is the empty file that a lock of an earlier mount has created.
        let is_empty = found.as_ref().is_some_and(|found| found.length == 0);
        if is_empty && *version.base == Base::New && self.locks.has_created(path) {
            return Ok(Found::Replaceable(found.map_or(Base::New, Base::Version)));
        }
        // And the empty file that our lock has created in place of an empty one, or of one that a late request took away.
        let was_empty = matches!(version.base, Base::Version(base) if base.length == 0);
        if is_empty && is_locked && (was_empty || self.late_changes().reason(Instant::now(), path, None).is_some()) {
            return Ok(Found::Replaceable(found.map_or(Base::New, Base::Version)));
        }
        if found.is_none() && *version.base == Base::New {
            return Ok(Found::Replaceable(Base::New));
        }
        if self.may_replace(path, base, found.as_ref()).await.map_err(unknown)? {
            return Ok(Found::Replaceable(found.map_or(Base::New, Base::Version)));
        }
        if !version.is_doubtful {
            return Ok(Found::Theirs);
        }
        let arrived = self.has_arrived(path, (version.content)().map_err(Unstored::Unreadable)?).await;
        Ok(arrived.map_err(unknown)?.map_or(Found::Theirs, Found::Ours))
    }

    /// What the server has at a path, if it is this content. An error if it does not answer.
    pub(super) async fn has_arrived(
        &self,
        path: &RemotePath,
        content: Content,
    ) -> std::result::Result<Option<Facts>, Error> {
        let found = self.dav.stat(path, PropertySet::LISTING).await?;
        let Some(facts) = found.map(|found| facts(&found)).filter(|facts| facts.length == content.length) else {
            return Ok(None);
        };
        Ok(self.has_content(path, content.body).await?.then_some(facts))
    }

    /// An error if the server does not answer, or cannot at the moment.
    pub(super) async fn has_content(&self, path: &RemotePath, content: Body) -> std::result::Result<bool, Error> {
        match self.dav.has_content(path, content).await {
            Err(error @ Error::Http(_)) => Err(error),
            Err(Error::Refused(refusal)) if refusal.is_passing() => Err(Error::Refused(refusal)),
            // Or the server does not show it.
            has_it => Ok(has_it.unwrap_or(false)),
        }
    }

    /// Whether nobody would lose anything if what was found at a path were replaced.
    async fn may_replace(
        &self,
        path: &RemotePath,
        base: &Base,
        found: Option<&Facts>,
    ) -> std::result::Result<bool, Error> {
        let Some(found) = found else {
            let is_taken_away = || self.late_changes().reason(Instant::now(), path, None) == Some(Late::TakenAway);
            return Ok(*base == Base::New || is_taken_away());
        };
        // Somebody else could write between this and the next PUT.
        let Some(tag) = found.etag.as_ref().filter(|tag| self.dav.compares(tag)) else { return Ok(false) };
        let late = self.late_changes().reason(Instant::now(), path, Some(tag));
        match late {
            Some(Late::MovedFrom(from)) => self.put_back(path, &from).await,
            Some(_) => Ok(true),
            None => self.is_from_late_upload(path, found).await,
        }
    }

    /// A late renaming has moved a file here, for whose program it has failed. Before this one takes its place, it gets its
    /// old name again, unless there is a newer version of it by now.
    async fn put_back(&self, path: &RemotePath, from: &RemotePath) -> std::result::Result<bool, Error> {
        let is_replaced = self.tree().find(from);
        if is_replaced.is_some_and(|ino| self.is_only_here(ino)) {
            // Its program has made a new file of that name meanwhile.
            return Ok(true);
        }
        // Without a condition on its version, which dav-server (of `haul serve`) refuses for COPY; the next PUT has one.
        let copied = self.dav.copy(path, from, false, &If::default()).await;
        let is_copied = match copied {
            Ok(_) => true,
            Err(error) if error.is(412) => false,
            Err(error @ Error::Http(_)) => return Err(error),
            Err(_) => return Ok(false),
        };
        let there = self.dav.stat(from, PropertySet::LISTING).await?.and_then(|there| facts(&there).etag);
        let mut late = self.late_changes();
        if is_copied && let Some(there) = &there {
            late.put_back(from, there);
        }
        Ok(is_copied || there.is_some_and(|there| late.is_newer(from, &there)))
    }
}

/// Whether an upload that failed may have reached the server all the same, and whether to try again soon.
pub(super) fn failure(error: &Error) -> Failure {
    match error {
        // A proxy does not know either.
        Error::Refused(refusal) if matches!(refusal.status.as_u16(), 502 | 504) => Failure::Unknown,
        Error::Refused(refusal) if refusal.is_passing() => Failure::Passing,
        Error::Refused(_) | Error::Path(_) | Error::Http(Credentials { .. }) => Failure::Refused,
        Error::Local { .. } | Error::Http(Connect(_) | Shutdown) => Failure::Passing,
        _ => Failure::Unknown,
    }
}
