//! LOCK, its refresh, and UNLOCK (RFC 4918 §9.10, §9.11).

use std::time::Duration;

use haul_http::Options;
use http::StatusCode;

use super::{Dav, whole};
use crate::{
    Error, LockToken, Properties, PropertySet, RemotePath,
    client::confirmation::{Confirmed, Intent},
};

/// A granted lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// The lock token.
    pub token: LockToken,
    /// Its timeout; `None` if it does not expire.
    pub lasts: Option<Duration>,
    /// Whether the LOCK created an empty file, because none existed (201, RFC 4918 §7.3).
    pub created: bool,
}

impl Dav {
    /// Acquires an exclusive lock on a file or folder. If it is locked already, the error names the owner, if the
    /// server tells.
    pub async fn lock(&self, path: &RemotePath, owner: &str, lasting: Duration) -> Result<Locked, Error> {
        let answer = self.ask(self.requests.lock(path, owner, lasting), path, Options::default()).await;
        let answer = match answer {
            Err(Error::Refused(failure)) if failure.status == StatusCode::LOCKED => {
                let found = self.stat(path, PropertySet::LOCKS).await.ok().flatten();
                let locks = found.map(|entry| entry.properties.locks).unwrap_or_default();
                return Err(Box::new(failure.with_locks(&locks)).into());
            }
            other => other?,
        };
        let created = answer.status() == StatusCode::CREATED;
        let token = answer.headers().get("lock-token").and_then(|token| LockToken::parse(token.to_str().ok()?));
        let body = whole(answer).await?;
        let lock = Properties::read(&body).ok().and_then(|found| found.locks.into_iter().next()).unwrap_or_default();
        let token = token.or(lock.token).ok_or_else(|| Error::Differs {
            path: path.clone(),
            why: "the server granted the lock without a lock token".into(),
        })?;
        Ok(Locked { token, lasts: lock.timeout, created })
    }

    /// Refreshes a lock; returns its new timeout, if it expires.
    pub async fn relock(
        &self,
        path: &RemotePath,
        token: &LockToken,
        lasting: Duration,
    ) -> Result<Option<Duration>, Error> {
        let answer = self.ask(self.requests.refresh(path, token, lasting), path, Options::default()).await?;
        let body = whole(answer).await?;
        Ok(Properties::read(&body).ok().and_then(|found| found.locks.into_iter().next()).and_then(|lock| lock.timeout))
    }

    /// Releases a lock.
    pub async fn unlock(&self, path: &RemotePath, token: &LockToken) -> Result<Confirmed, Error> {
        let unlocked = self.done(self.requests.unlock(path, token), path, Options::default()).await;
        self.confirmed(unlocked, Intent::Unlock(path, token)).await
    }
}
