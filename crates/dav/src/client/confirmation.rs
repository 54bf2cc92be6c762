//! Requests that may have taken effect although no answer says so.
//!
//! A server does what it was asked for, and its answer gets lost: by a reset, or by a gateway that times out. The engine
//! sends most requests again, since WebDAV's methods are idempotent. But only the effect is idempotent, not the answer: the
//! second DELETE gets 404, the second MKCOL 405, the second COPY 412. So such a failure is not yet a failure. A lookup
//! (PROPFIND) checks whether the request took effect. If it did, the request is done ([`Confirmed::ByLookup`]); if not, the
//! error says what was found.
//!
//! A lookup costs a round trip, and only after a lost answer. Whatever cut the answer may cut the lookup too, so there are a
//! few attempts with a common time limit; if all of them fail, the original error stands.

use std::{collections::BTreeMap, time::Duration};

use haul_http::{Body, Expected};
use http::HeaderMap;
use tokio::time::timeout;

use crate::{ActiveLock, Dav, Depth, Entry, Error, LockToken, PropertySet, RemotePath, Setting, client::whole};

/// How it is known that a request took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// The server said so.
    ByAnswer,
    /// The answer was lost, and a PROPFIND shows the effect.
    ByLookup,
}

/// The effect that a request should have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Intent<'a> {
    Delete(&'a RemotePath),
    Make(&'a RemotePath),
    /// Nothing exists at `left`, and something exists at `to`.
    Move {
        left: &'a RemotePath,
        to: &'a RemotePath,
    },
    Copy {
        from: &'a RemotePath,
        to: &'a RemotePath,
    },
    Set(&'a RemotePath, &'a [Setting]),
    Unlock(&'a RemotePath, &'a LockToken),
}

/// What a lookup shows.
enum Observed {
    /// The effect of the request.
    AsIntended,
    /// Something else, as half a sentence for the error.
    Otherwise(String),
}

/// Time limit of all lookups together.
const LOOK: Duration = Duration::from_secs(30);
/// Maximum number of lookups.
const LOOKS: usize = 3;
/// Files up to this size are downloaded for a comparison.
const COMPARED: u64 = 16 * 1024 * 1024;
/// Trees with up to this many entries are compared.
const ENTRIES: usize = 10_000;

/// Whether the outcome of a request is unknown: it was sent once and got no answer, or a gateway timed out.
pub(crate) fn is_undecided(error: &Error) -> bool {
    matches!(error, Error::Http(haul_http::Error::OutcomeUnknown { .. })) || error.is(502) || error.is(504)
}

/// Whether a request that failed may have taken effect: an error response may be due to its own earlier sending.
pub(crate) fn may_be_done(error: &Error) -> bool {
    is_undecided(error)
        || matches!(error, Error::Http(haul_http::Error::Exchange { .. }))
        || error.refusal().is_some_and(|failure| failure.times_sent > 1)
}

impl Dav {
    /// Decides whether a failed request took effect, with a lookup if that is possible.
    pub(crate) async fn confirmed(&self, result: Result<(), Error>, what: Intent<'_>) -> Result<Confirmed, Error> {
        let failed = match result {
            Ok(()) => return Ok(Confirmed::ByAnswer),
            Err(error) if !may_be_done(&error) => return Err(error),
            Err(error) => error,
        };
        let looked = async {
            for _ in 1..LOOKS {
                match self.found(what).await {
                    Err(Error::Http(_)) => {}
                    looked => return looked,
                }
            }
            self.found(what).await
        };
        match timeout(self.look_limit(LOOK), Box::pin(looked)).await {
            Ok(Ok(Observed::AsIntended)) => Ok(Confirmed::ByLookup),
            Ok(Ok(Observed::Otherwise(found))) => Err(failed.with_found(found)),
            _ => Err(failed),
        }
    }

    async fn found(&self, what: Intent<'_>) -> Result<Observed, Error> {
        match what {
            Intent::Delete(path) => self.is_deleted(path).await,
            Intent::Make(path) => self.is_made(path).await,
            Intent::Move { left, to } => self.is_moved(left, to).await,
            Intent::Copy { from, to } => self.is_copied(from, to).await,
            Intent::Set(path, settings) => self.is_set(path, settings).await,
            Intent::Unlock(path, token) => self.is_unlocked(path, token).await,
        }
    }

    async fn is_deleted(&self, path: &RemotePath) -> Result<Observed, Error> {
        Ok(match self.stat(path, PropertySet::LISTING).await? {
            None => Observed::AsIntended,
            Some(_) => Observed::Otherwise("it still exists; retry".into()),
        })
    }

    async fn is_made(&self, path: &RemotePath) -> Result<Observed, Error> {
        Ok(match self.stat(path, PropertySet::LISTING).await? {
            Some(entry) if entry.path.is_folder() => Observed::AsIntended,
            Some(_) => Observed::Otherwise("a file of this name exists".into()),
            None => Observed::Otherwise("the folder does not exist; retry".into()),
        })
    }

    async fn is_moved(&self, left: &RemotePath, to: &RemotePath) -> Result<Observed, Error> {
        let looks = futures_util::join!(self.stat(left, PropertySet::LISTING), self.stat(to, PropertySet::LISTING));
        Ok(match (looks.0?, looks.1?) {
            (None, Some(_)) => Observed::AsIntended,
            (Some(_), _) => Observed::Otherwise("it is still at its old path; retry".into()),
            (None, None) => Observed::Otherwise(format!("neither it nor {to} exists")),
        })
    }

    async fn is_copied(&self, from: &RemotePath, to: &RemotePath) -> Result<Observed, Error> {
        let looks = futures_util::join!(self.stat(from, PropertySet::LISTING), self.stat(to, PropertySet::LISTING));
        let other = || Ok(Observed::Otherwise(format!("{to} is not a copy of it")));
        match (looks.0?, looks.1?) {
            (_, None) => Ok(Observed::Otherwise(format!("{to} does not exist; retry"))),
            (Some(ours), Some(copy)) if ours.path.is_folder() && copy.path.is_folder() => {
                match futures_util::join!(self.tree(from), self.tree(to)) {
                    (Ok(Some(ours)), Ok(Some(copy))) if ours == copy => Ok(Observed::AsIntended),
                    (Ok(Some(_)), Ok(Some(_))) => other(),
                    (Err(error), _) | (_, Err(error)) => Err(error),
                    _ => Ok(Observed::Otherwise(format!("{to} is a folder that is too large to compare"))),
                }
            }
            (Some(ours), Some(copy)) if ours.path.is_folder() == copy.path.is_folder() => {
                self.is_same_file(from, to, &ours, &copy).await
            }
            _ => other(),
        }
    }

    async fn is_same_file(
        &self,
        from: &RemotePath,
        to: &RemotePath,
        ours: &Entry,
        copy: &Entry,
    ) -> Result<Observed, Error> {
        let length = ours.properties.length;
        if length != copy.properties.length {
            return Ok(Observed::Otherwise(format!("{to} is not a copy of it")));
        }
        if length.is_none_or(|length| length > COMPARED) {
            return Ok(Observed::Otherwise(format!("a file of the same length is at {to}; compare both")));
        }
        let content = whole(self.get(from, HeaderMap::new(), haul_http::Options::default()).await?).await?;
        let same = content.len() as u64 == length.unwrap_or_default()
            && self.holds(to, &mut Body::from(content), &copy.properties.checksums, Expected::default()).await?;
        Ok(if same { Observed::AsIntended } else { Observed::Otherwise(format!("{to} is not a copy of it")) })
    }

    /// All entries below a folder with the lengths of files; none if there are too many.
    async fn tree(&self, root: &RemotePath) -> Result<Option<BTreeMap<Vec<Vec<u8>>, Option<u64>>>, Error> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![root.clone()]);
        while let Some(folder) = folders.pop() {
            self.list(&folder, Depth::One, PropertySet::LISTING, |entry| {
                let Ok(entry) = entry else { return };
                let is_folder = entry.path.is_folder();
                if entry.path.same_place(&folder) {
                    return;
                }
                if let Some(names) = entry.path.relative_to(root) {
                    let length = entry.properties.length.filter(|_| !is_folder);
                    found.insert(names.map(<[u8]>::to_vec).collect::<Vec<_>>(), length);
                }
                folders.extend(is_folder.then_some(entry.path));
            })
            .await?;
            if found.len() > ENTRIES {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    async fn is_set(&self, path: &RemotePath, settings: &[Setting]) -> Result<Observed, Error> {
        let Some(entry) = self.stat(path, PropertySet::DETAILS).await? else {
            return Ok(Observed::Otherwise("it does not exist".into()));
        };
        let set = settings.iter().all(|setting| setting.is_in(&entry.properties));
        Ok(if set { Observed::AsIntended } else { Observed::Otherwise("its properties are not set; retry".into()) })
    }

    async fn is_unlocked(&self, path: &RemotePath, token: &LockToken) -> Result<Observed, Error> {
        let found = self.stat(path, PropertySet::LOCKS).await?;
        let held = |lock: &ActiveLock| lock.token.as_ref() == Some(token);
        let is_held = found.is_some_and(|entry| entry.properties.locks.iter().any(held));
        Ok(if is_held { Observed::Otherwise("it is still locked; retry".into()) } else { Observed::AsIntended })
    }
}
