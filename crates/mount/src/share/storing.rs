//! Storing a version of a file: one PUT under its lock and precondition, and what a refusal means.
//!
//! A refusal is a conflict only if somebody else has changed the file. So the file is looked up. An earlier PUT of the same
//! content may have arrived, whose answer was lost. A late request of our own may have put another file of ours there, or
//! taken this one away. Or only the lock is gone, because the server has ended it during a long break of the link. Then the
//! version that is there may be replaced, as long as it stays the same, which the next PUT requires.

use dav::{Error, If, Precondition, PropertySet, RemotePath};
use nix::errno::Errno;

use super::{
    Result, Share, facts,
    writing::{Content, precondition},
};
use crate::{cached_file::CachedFile, file_state::Base, tree::Facts};

/// How often a version is sent for another reason each time.
const TRIES: u32 = 3;

/// Why the server does not have a version.
pub(super) enum Unstored {
    /// Its content cannot be read here.
    Unreadable(Errno),
    /// Somebody else has changed or locked the file.
    Conflict(Error),
    Failed(Error),
}

/// What is at a path instead of the version to replace.
enum Found {
    /// What is to be stored.
    Ours(Facts),
    /// Nothing that somebody else has made.
    Replaceable(Base),
    Theirs,
}

impl Share {
    /// Stores a version that replaces `base`. `file` is where programs have it open.
    pub(super) async fn store(
        &self,
        path: &RemotePath,
        base: &Base,
        file: Option<&CachedFile>,
        content: impl Fn() -> Result<Content>,
    ) -> std::result::Result<Facts, Unstored> {
        let (mut base, mut was_locked, mut refusal) = (base.clone(), false, None);
        for _ in 0..TRIES {
            let refused = if self.has_lost_lock(file, None).await {
                was_locked = true;
                let why = "the server has ended the lock under which it was edited".into();
                Error::Differs { path: path.clone(), why }
            } else {
                match self.put_locked(path, &base, content().map_err(Unstored::Unreadable)?).await {
                    Ok(facts) => return Ok(facts),
                    Err(error) => {
                        was_locked |= self.has_lost_lock(file, Some(&error)).await;
                        let may_be_conflict = error.is(412) || (was_locked && error.is(423));
                        if !may_be_conflict {
                            return Err(Unstored::Failed(error));
                        }
                        error
                    }
                }
            };
            refusal = Some(refused);
            match self.found_instead(path, &base, was_locked, &content).await? {
                Found::Ours(facts) => return Ok(facts),
                Found::Replaceable(now) => base = now,
                Found::Theirs => break,
            }
        }
        Err(refusal.map_or(Unstored::Unreadable(Errno::EIO), Unstored::Conflict))
    }

    async fn put_locked(&self, path: &RemotePath, base: &Base, content: Content) -> std::result::Result<Facts, Error> {
        let claims = self.locks.claims(&[path]);
        let is_locked = claims != If::default();
        let precondition = match base {
            // Its lock has created an empty file (RFC 4918 §7.3), and keeps others out.
            Base::New if is_locked => Precondition::None,
            base => precondition(base),
        };
        let _turn = if is_locked { Some(self.locks.turn(true).await) } else { None };
        let stored = self.put(path, content, &precondition, &claims).await?;
        self.locks.written(path);
        if let Some(tag) = &stored.etag {
            self.late_changes().stored(path, tag);
        }
        Ok(stored)
    }

    async fn found_instead(
        &self,
        path: &RemotePath,
        base: &Base,
        was_locked: bool,
        content: &impl Fn() -> Result<Content>,
    ) -> std::result::Result<Found, Unstored> {
        let found = self.dav.stat(path, PropertySet::LISTING).await.map_err(Unstored::Failed)?;
        if found.as_ref().is_some_and(|found| found.path.is_folder()) {
            return Ok(Found::Theirs);
        }
        let found = found.map(|found| facts(&found));
        if let Some(facts) = &found {
            let content = content().map_err(Unstored::Unreadable)?;
            if facts.length == content.length
                && self.dav.has_content(path, content.body).await.map_err(Unstored::Failed)?
            {
                return Ok(Found::Ours(facts.clone()));
            }
        }
        let is_same = match (base, &found) {
            (Base::New, None) => true,
            // What its lock has created.
            (Base::New, Some(facts)) => was_locked && facts.length == 0,
            (Base::Version(base), Some(facts)) => facts.is_version(base),
            (Base::Version(_), None) => false,
        };
        let (tag, is_gone) = (found.as_ref().and_then(|facts| facts.etag.as_ref()), found.is_none());
        let is_late = (tag.is_some() || is_gone) && self.late_changes().may_have_left(path, tag);
        let now = found.map_or(Base::New, Base::Version);
        // Somebody else could write between this and the next PUT.
        let can_be_named = precondition(&now) != Precondition::None;
        Ok(if (is_same || is_late) && can_be_named { Found::Replaceable(now) } else { Found::Theirs })
    }
}
