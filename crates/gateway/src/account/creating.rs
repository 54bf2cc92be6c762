//! A new file, created by its lock instead of an empty PUT.

use std::sync::{Arc, atomic::Ordering};
use tokio::time::Instant;

use bytes::Bytes;
use dav::RemotePath;
use haul_http::FollowUpResponse;
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Collected};
use serve::AnswerBody;

use super::{Account, Change, PATIENCE, locked};
use crate::{
    answers::{self, LOCK_TOKEN, Shown, ShownContent},
    listings,
    passing::{Passing, TIMEOUT},
    redirector::{Locked, Template},
};

/// What is under a locked name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// No content: the lock has created the file, or reserved its name, or there is nothing to lose.
    Nothing,
    /// Content, as far as is known.
    Content,
    /// Not even the name. Apache loses locks when clients lock several files at once.
    NoName,
}

impl Account {
    /// Creates a file by its lock. Goes on if the client disconnects, so that the lock is known.
    pub(super) async fn create(
        self: Arc<Self>,
        put: Passing,
        template: Template,
    ) -> Result<Response<AnswerBody>, haul_http::Error> {
        let account = self.clone();
        self.prepare_to_save(&put);
        let creating = tokio::spawn(async move {
            let path = put.path.clone();
            let mut lock = put.sibling("LOCK", put.url.clone(), path.clone(), template.body);
            lock.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/xml; charset=\"utf-8\""));
            if let Some(timeout) = template.timeout {
                lock.headers.insert(TIMEOUT, timeout);
            }
            let change = Change::new(&account, [path.clone()]);
            // Apache answers 200 also for a new name, so that the file has to be looked at.
            let says_created = account.says_created.load(Ordering::Relaxed);
            let looks = !says_created || account.write_back.is_some();
            let follow_up = looks.then(|| put.look().into_follow_up()).flatten();
            let (parts, body) = account.exchange_followed(lock, follow_up).await?.into_parts();
            let status = parts.status;
            let body = answers::read(body, listings::LARGEST).await.unwrap_or_default();
            drop(change);
            account.says_created.store(status != StatusCode::OK, Ordering::Relaxed);
            let locked = locked(&parts.headers, &body).filter(|_| status.is_success());
            let seen = parts.extensions.get::<FollowUpResponse>().cloned();
            let found = match &locked {
                Some(_) if status != StatusCode::CREATED => account.clone().find_content(put.look(), seen).await,
                Some(locked) => {
                    account.note_base(&locked.token, put.look(), seen);
                    Found::Nothing
                }
                None => Found::Nothing,
            };
            match locked {
                Some(locked) if found == Found::Nothing => {
                    let creation = (status != StatusCode::CREATED).then(|| put.under(&locked.token)).flatten();
                    account.saves().created(path.clone(), locked, creation, Instant::now());
                    account.clone().abandon_unclaimed(path, put);
                    Ok(answers::without_body(StatusCode::CREATED))
                }
                Some(locked) if found == Found::NoName => {
                    account.unlock(&put, &locked);
                    account.later.settle(&path).await;
                    account.pass(put).await
                }
                Some(locked) => {
                    account.unlock(&put, &locked);
                    Ok(answers::text(StatusCode::CONFLICT, "409: somebody else has created the file in the meantime\n"))
                }
                None => {
                    account.saves().cannot_create();
                    account.pass(put).await
                }
            }
        });
        creating.await.unwrap_or_else(|_| Ok(answers::without_body(StatusCode::INTERNAL_SERVER_ERROR)))
    }

    /// Looks whether a locked file has content.
    async fn find_content(self: Arc<Self>, look: Passing, seen: Option<FollowUpResponse>) -> Found {
        let (path, head) = (look.path.clone(), look.head());
        let Ok((status, body)) = self.seen_behind(look, seen).await else { return Found::Content };
        if status == StatusCode::NOT_FOUND {
            return Found::NoName;
        }
        match body.map(|body| Shown::of(&body, &path).content) {
            // A server that never lists them would show a file with content so, too.
            Some(ShownContent::Nothing) if !self.reserves_names.load(Ordering::Relaxed) => {
                let Ok(answer) = self.exchange(head).await else { return Found::Content };
                let reserves = answer.status() == StatusCode::NOT_FOUND;
                self.reserves_names.store(reserves, Ordering::Relaxed);
                let length = answer.headers().get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
                let is_empty = answer.status() == StatusCode::OK && length == Some(&b"0"[..]);
                if reserves || is_empty { Found::Nothing } else { Found::Content }
            }
            Some(ShownContent::Empty | ShownContent::Nothing) => Found::Nothing,
            Some(ShownContent::Some) | None => Found::Content,
        }
    }

    /// The answer to a look, if possible to the one that was sent right behind another request.
    pub(super) async fn seen_behind(
        &self,
        look: Passing,
        seen: Option<FollowUpResponse>,
    ) -> Result<(StatusCode, Option<Bytes>), haul_http::Error> {
        let seen = match seen {
            Some(seen) => seen.answer().await,
            None => None,
        };
        if let Some(seen) = seen {
            return Ok((seen.status(), seen.into_body().collect().await.ok().map(Collected::to_bytes)));
        }
        let answer = self.exchange(look).await?;
        Ok((answer.status(), answers::read(answer.into_body(), listings::LARGEST).await.ok()))
    }

    /// Releases a lock that no client has claimed: it was not about to lock the file.
    fn abandon_unclaimed(self: Arc<Self>, path: RemotePath, put: Passing) {
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            let unclaimed = self.saves().unclaimed(&path);
            if let Some((locked, kept)) = unclaimed {
                self.send_later(path, kept);
                self.unlock(&put, &locked);
            }
        });
    }

    pub(super) fn unlock(self: &Arc<Self>, put: &Passing, locked: &Locked) {
        let mut unlock = put.sibling("UNLOCK", put.url.clone(), put.path.clone(), Bytes::new());
        if let Ok(token) = HeaderValue::from_str(&locked.token) {
            unlock.headers.insert(LOCK_TOKEN, token);
            self.send_later(put.path.clone(), vec![unlock]);
        }
    }
}
