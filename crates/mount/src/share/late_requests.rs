//! Requests that arrive late must not undo what has been saved since.
//!
//! A request without an answer has failed for the program, and may still wait in the send buffer of a connection, or of a
//! box on the path. When the link is back, the server carries it out: a MOVE would replace, and a DELETE remove, what the
//! program has saved in the meantime. So both say which version they mean, as uploads do. rename(2) and unlink(2) do not ask
//! for a version: if the server has another one, it is looked up, and the request is repeated for that one.
//!
//! A MOVE names the version of its source in `If-Match`, and that of its target in `If`, whose lists are alternatives (RFC 4918
//! §10.4.3). One that is repeated because its answer was lost finds its target changed, by itself. So after a refusal its
//! source and its target are looked up, before it is repeated for what is there now.
//!
//! A lock may be our own, too: of a LOCK that was carried out late, or whose UNLOCK was lost. It is released then.
//!
//! What they have changed all the same by the time of a later save is no conflict: see [`crate::late_changes`].

use dav::{Confirmed, ETag, Entry, Error, If, Precondition, PropertySet, RemotePath};
use haul_http::Error::{Connect, Credentials, Shutdown};
use tokio::time::Instant;

use super::Share;
use crate::{calls::decide, tree::Ino};

/// How often a request is repeated for another version, before it is for any.
const REPETITIONS: u32 = 2;

/// What a request replaces or deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Victim {
    Nothing,
    Version(ETag),
    /// A folder where a file was expected: nothing replaces or deletes it with what is in it.
    Folder,
    /// Its version has no name that a request could use.
    Any,
}

impl Victim {
    fn tag(&self) -> Option<&ETag> {
        if let Self::Version(tag) = self { Some(tag) } else { None }
    }
}

/// What is at the old name of a file after a MOVE was refused.
enum Source {
    Unchanged,
    /// Another version.
    Changed(Victim),
    /// Nothing of the file: an earlier copy of the MOVE was carried out.
    Moved,
    Gone,
}

/// A request, until its outcome is known. If that never happens, it may be carried out later.
pub(super) struct Sending<'a> {
    share: &'a Share,
    number: u64,
}

impl Sending<'_> {
    fn ends(self, outcome: Result<Confirmed, Error>) -> Result<Confirmed, Error> {
        let is_final = match &outcome {
            // Too late for the answer, it has failed for its program.
            Ok(_) => decide().is_ok(),
            Err(Error::Path(_) | Error::Http(Connect(_) | Credentials { .. } | Shutdown)) => true,
            // A proxy may have given up on it.
            Err(Error::Refused(failure)) => failure.times_sent <= 1 && !matches!(failure.status.as_u16(), 502 | 504),
            Err(_) => false,
        };
        if is_final {
            self.share.late_changes().settled(self.number);
        }
        outcome
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.share.late_changes().failed(self.number);
    }
}

impl Share {
    pub(super) fn sending(&self, from: &RemotePath, version: Option<&ETag>, to: Option<&RemotePath>) -> Sending<'_> {
        let number = self.late_changes().expect(Instant::now(), from, version, to);
        Sending { share: self, number }
    }

    /// Sends a change, and once more if a lock of our own at one of its paths was in its way.
    async fn past_own_locks<F: Future<Output = Result<Confirmed, Error>>>(
        &self,
        paths: &[&RemotePath],
        send: impl Fn() -> F,
    ) -> Result<Confirmed, Error> {
        let refused = match send().await {
            Err(error) if error.is(423) => error,
            outcome => return outcome,
        };
        let mut is_undone = false;
        for path in paths {
            is_undone |= self.locks.undo_unused(path).await;
        }
        if is_undone { send().await } else { Err(refused) }
    }

    /// Deletes the file of a node, if it is known.
    pub(super) async fn delete_version(
        &self,
        path: &RemotePath,
        ino: Option<Ino>,
        locks: &If,
    ) -> Result<Confirmed, Error> {
        let (mut victim, mut repetitions) = (self.known(ino), 0);
        if victim == Victim::Any && self.in_journal(path).is_some() {
            // An earlier mount may have uploaded it.
            victim = self.found_at(path).await?;
        }
        let request = self.sending(path, None, None);
        loop {
            let precondition = match &victim {
                Victim::Version(tag) => Precondition::Unchanged(tag.clone()),
                // A late copy of a request without a condition would delete what is saved here from now on.
                Victim::Nothing => return request.ends(Ok(Confirmed::ByLookup)),
                _ => Precondition::None,
            };
            let deleted = self.past_own_locks(&[path], || self.dav.delete(path, &precondition, locks)).await;
            match deleted {
                Err(error) if error.is(412) && victim != Victim::Any => {
                    victim = self.instead_of(path, &victim, repetitions).await?;
                    if victim == Victim::Folder {
                        return request.ends(Err(error));
                    }
                    repetitions += 1;
                }
                outcome => return request.ends(outcome),
            }
        }
    }

    /// Deletes a folder that a listing has shown to be empty; 412 if it has changed since. Most servers give a folder a new
    /// entity tag with each new member.
    pub(super) async fn delete_listed(&self, path: &RemotePath, ino: Ino) -> Result<Confirmed, Error> {
        let precondition = match self.known(Some(ino)) {
            Victim::Version(tag) => Precondition::Unchanged(tag),
            _ => Precondition::None,
        };
        self.dav.delete(path, &precondition, &If::default()).await
    }

    /// Renames the node `ino`, and replaces the node `replaced`, or nothing. The program may forbid to replace anything else,
    /// and a folder replaces nothing that was not listed before.
    pub(super) async fn rename_version(
        &self,
        (ino, from, to): (Ino, &RemotePath, &RemotePath),
        replaced: Option<Ino>,
        may_replace: bool,
        locks: &If,
    ) -> Result<Confirmed, Error> {
        let (mut source, mut repetitions) = (self.known(Some(ino)), 0);
        let mut victim = match replaced {
            None => Victim::Nothing,
            replaced => self.known(replaced),
        };
        let request = self.sending(from, source.tag(), Some(to));
        loop {
            let overwrite = victim != Victim::Nothing;
            let claims = match &victim {
                Victim::Version(tag) => locks.clone().unchanged(to, tag.clone()),
                _ => locks.clone(),
            };
            let unchanged = match &source {
                Victim::Version(tag) if !from.is_folder() => Precondition::Unchanged(tag.clone()),
                _ => Precondition::None,
            };
            let rename = || self.dav.rename_version(from, &unchanged, to, overwrite, &claims);
            match self.past_own_locks(&[from, to], rename).await {
                Err(error)
                    if error.is(412) && !from.is_folder() && !(source == Victim::Any && victim == Victim::Any) =>
                {
                    match self.source_after(from, to, &source).await? {
                        Source::Moved => return request.ends(Ok(Confirmed::ByLookup)),
                        Source::Gone => return request.ends(Err(error)),
                        Source::Changed(_) if repetitions >= REPETITIONS => source = Victim::Any,
                        Source::Changed(now) => {
                            if let Some(tag) = now.tag() {
                                self.late_changes().sends(request.number, tag);
                            }
                            source = now;
                        }
                        Source::Unchanged => match self.found_at(to).await? {
                            Victim::Folder => return request.ends(Err(error)),
                            found if !may_replace && found != Victim::Nothing => return request.ends(Err(error)),
                            found if found != victim && repetitions < REPETITIONS => victim = found,
                            // The server does not know its own entity tags.
                            _ if source != Victim::Any => source = Victim::Any,
                            _ if may_replace => victim = Victim::Any,
                            _ => return request.ends(Err(error)),
                        },
                    }
                    repetitions += 1;
                }
                outcome => return request.ends(outcome),
            }
        }
    }

    /// What a MOVE that was refused may have found at its source, or left of it.
    async fn source_after(&self, from: &RemotePath, to: &RemotePath, source: &Victim) -> Result<Source, Error> {
        let Victim::Version(tag) = source else { return Ok(Source::Unchanged) };
        let found = self.dav.stat(from, PropertySet::LISTING).await?;
        let is_it = |found: &Entry| found.properties.etag.as_ref().is_some_and(|found| found.resembles(tag));
        if found.as_ref().is_some_and(is_it) {
            return Ok(Source::Unchanged);
        }
        let there = self.dav.stat(to, PropertySet::LISTING).await?;
        Ok(match found {
            _ if there.as_ref().is_some_and(is_it) => Source::Moved,
            Some(found) if !found.path.is_folder() => Source::Changed(self.victim(found.properties.etag)),
            _ => Source::Gone,
        })
    }

    fn known(&self, ino: Option<Ino>) -> Victim {
        let tree = self.tree();
        self.victim(ino.filter(|ino| tree.contains(*ino)).and_then(|ino| tree.facts(ino).etag.clone()))
    }

    fn victim(&self, tag: Option<ETag>) -> Victim {
        tag.filter(|tag| self.dav.compares(tag)).map_or(Victim::Any, Victim::Version)
    }

    /// What the server has at a path.
    async fn found_at(&self, path: &RemotePath) -> Result<Victim, Error> {
        Ok(match self.dav.stat(path, PropertySet::LISTING).await? {
            Some(found) if !found.path.is_folder() => self.victim(found.properties.etag),
            Some(_) => Victim::Folder,
            None => Victim::Nothing,
        })
    }

    /// What the server has in place of what it said it has not. Some servers answer 412 to every entity tag. An error if it does
    /// not answer: a request for any version could arrive late.
    async fn instead_of(&self, path: &RemotePath, tried: &Victim, repetitions: u32) -> Result<Victim, Error> {
        let found = self.found_at(path).await?;
        if found == Victim::Folder {
            return Ok(found);
        }
        Ok(if repetitions >= REPETITIONS || found == *tried { Victim::Any } else { found })
    }
}
