//! LOCK, its refresh, and UNLOCK (RFC 4918 §9.10, §9.11).

use std::time::Duration;

use haul_http::Options;
use http::StatusCode;

use super::{Dav, whole};
use crate::{
    Error, LockToken, Properties, RemotePath, Wanted,
    client::confirmation::{Confirmed, Intent},
};

/// A lock that was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// Its name.
    pub token: LockToken,
    /// For how long; `None` if it does not end by itself.
    pub lasts: Option<Duration>,
    /// Whether the lock made an empty file, as there was nothing of that name (201, RFC 4918 §7.3).
    pub created: bool,
}

impl Dav {
    /// Locks a file or a folder for oneself. A refusal names who else has a lock, where the server tells.
    pub async fn lock(&self, path: &RemotePath, owner: &str, lasting: Duration) -> Result<Locked, Error> {
        let answer = self.ask(self.requests.lock(path, owner, lasting), path, Options::default()).await;
        let answer = match answer {
            Err(Error::Refused(failure)) if failure.status == StatusCode::LOCKED => {
                let found = self.stat(path, Wanted::LOCKS).await.ok().flatten();
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
            why: "the server says that it is locked, but gives no lock token".into(),
        })?;
        Ok(Locked { token, lasts: lock.timeout, created })
    }

    /// Holds a lock for longer; for how long, if it ends.
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

    /// Gives a lock back.
    pub async fn unlock(&self, path: &RemotePath, token: &LockToken) -> Result<Confirmed, Error> {
        let unlocked = self.done(self.requests.unlock(path, token), path, Options::default()).await;
        self.confirmed(unlocked, Intent::Unlock(path, token)).await
    }
}
