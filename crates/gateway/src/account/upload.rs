//! The upload of a file that was acknowledged before the server had it.
//!
//! It goes under the token of the lock with which the file was saved, and on condition that the server has the version that was
//! there before: an attempt without an answer may be carried out late, when the client has saved the file again, and then fails.
//! If no version is known, see `renewal`.
//! If that lock is gone, the file is locked again and looked at: it is replaced if it is missing, empty, the version that was
//! there before, or this one. Otherwise both versions are kept, this one under a name of its own beside it.

use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use dav::{Precondition, RemotePath, Retry, retry_after};
use futures_util::{StreamExt, future::BoxFuture};
use haul_http::Incoming;
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{ACCEPT_ENCODING, CONTENT_TYPE, IF_NONE_MATCH},
};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream};
use writeback::{Failed, Failure, names_beside};

use super::{Account, Change, WriteBack, locked, own_lock::OwnLock};
use crate::{
    answers::{self, Shown, ShownContent},
    journal::{Saved, failed},
    listings,
    passing::{Caller, IF, Passing, Received, TIMEOUT},
};

/// How often a file is looked at under its lock, because it is not what it was.
const LOOKS: u32 = 3;
const LOCK_TIME: HeaderValue = HeaderValue::from_static("Second-3600");

/// How an upload has ended.
enum Outcome {
    /// The server has the content.
    Stored,
    /// The server does not take the credential.
    SignedOut,
    /// It may succeed soon, and its path is waited for.
    Away(Failed),
    /// It may fail for long.
    Refused(Failed),
    /// The lock is gone, or the folder.
    Unmet(StatusCode),
}

impl Outcome {
    fn of(status: StatusCode, headers: &HeaderMap) -> Self {
        let why = format!("the server answered {}", status.as_u16());
        let failed = |how| failed(how, why, retry_after(headers, SystemTime::now()));
        match (status.as_u16(), Retry::after(status)) {
            (200..=299, _) => Self::Stored,
            (401, _) => Self::SignedOut,
            (404 | 409 | 412, _) => Self::Unmet(status),
            // Nobody else at this path waits until there is room.
            (507, _) => Self::Refused(failed(Failure::Passing)),
            (_, Retry::Refused) => Self::Refused(failed(Failure::Refused)),
            _ => Self::Away(failed(Failure::Unknown)),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "so map_err wants it")]
    fn away(error: impl ToString) -> Self {
        Self::Away(failed(Failure::Unknown, error.to_string(), None))
    }

    fn refused(why: &str) -> Self {
        Self::Refused(failed(Failure::Refused, why, None))
    }
}

/// What the server has at a path, by its answer to a look. An error if it does not tell.
pub(super) async fn shown(answer: Response<Incoming>, path: &RemotePath) -> Result<Shown, StatusCode> {
    match answer.status() {
        StatusCode::NOT_FOUND => Ok(Shown::NOTHING),
        StatusCode::MULTI_STATUS => {
            let body = answers::read(answer.into_body(), listings::LARGEST).await.unwrap_or_default();
            Ok(Shown::of(&body, path))
        }
        status => Err(status),
    }
}

impl Account {
    pub(super) fn upload(self: Arc<Self>, saved: Arc<Saved>, client: Caller) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(WriteBack { journal, .. }) = &self.write_back else { return };
            let _change = Change::new(&self, [client.path.clone()]);
            let mut is_again = false;
            loop {
                let Some(saved) = journal.begins(&saved) else { return };
                let turn = journal.turn().await;
                if is_again {
                    self.refresh(&client, &saved.entry.details.token).await;
                }
                let outcome = if saved.entry.details.is_aside {
                    self.send_beside(&saved, &client).await
                } else {
                    self.send(&saved, &client).await
                };
                drop(turn);
                match outcome {
                    Outcome::Stored => return journal.sent(&saved).await,
                    Outcome::SignedOut => {
                        let why = "the server does not accept the user's password";
                        journal.failed(&saved, failed(Failure::Refused, why, None)).await;
                        return journal.give_back(&saved);
                    }
                    Outcome::Away(failed) => {
                        let (path, why) = (client.url.path(), &failed.why);
                        tracing::warn!("PUT {path}: {why}; it is safe here, and will be sent again");
                        let pause = journal.failed(&saved, failed).await;
                        if !journal.pause(pause).await {
                            return;
                        }
                        is_again = true;
                    }
                    Outcome::Refused(_) | Outcome::Unmet(_) => {
                        let failed = match outcome {
                            Outcome::Refused(failed) => failed,
                            _ => failed(Failure::Refused, "its folder is gone", None),
                        };
                        self.metrics.broken.add();
                        let (path, why) = (client.url.path(), &failed.why);
                        tracing::error!("PUT {path}: acknowledged, but {why}; it is kept here");
                        let pause = journal.refused(&saved, failed).await;
                        return self.clone().try_again(saved.clone(), client, pause);
                    }
                }
            }
        })
    }

    /// Tries a refused upload again after a while, and keeps nobody waiting until then.
    fn try_again(self: Arc<Self>, saved: Arc<Saved>, client: Caller, pause: Duration) {
        tokio::spawn(async move {
            if let Some(back) = &self.write_back
                && back.journal.pause(pause).await
            {
                self.begin_upload(saved, client);
            }
        });
    }

    /// Keeps the lock, if it is still there: its client, whose UNLOCK was acknowledged, does not refresh it.
    async fn refresh(&self, client: &Caller, token: &str) {
        let mut refresh = client.request("LOCK", Bytes::new());
        if let Ok(condition) = HeaderValue::from_str(&format!("({token})")) {
            refresh.headers.insert(IF, condition);
            refresh.headers.insert(TIMEOUT, LOCK_TIME);
            drop(self.exchange(refresh).await);
        }
    }

    async fn send(self: &Arc<Self>, saved: &Saved, client: &Caller) -> Outcome {
        let known = saved.entry.base.tag().cloned().map(Precondition::Unchanged);
        match self.put_under(saved, client, &saved.entry.details.token, known).await {
            Outcome::Unmet(_) => self.send_unlocked(saved, client).await,
            outcome => outcome,
        }
    }

    /// Sends a file under its lock, in place of what is known to be there. What is there instead is our own, because the lock
    /// keeps all others out: an earlier save of the client's that the server has carried out late, one with other times, or this
    /// one. If the lock is gone, its token makes the request fail.
    async fn put_under(&self, saved: &Saved, client: &Caller, token: &str, known: Option<Precondition>) -> Outcome {
        let mut known = match known {
            Some(known) => known,
            None => match self.look(client).await {
                Ok(shown) => shown.precondition(),
                Err(outcome) => return outcome,
            },
        };
        for _ in 0..LOOKS {
            let outcome = self.put_over(saved, client, token, &known).await;
            if known == Precondition::None || !matches!(outcome, Outcome::Unmet(StatusCode::PRECONDITION_FAILED)) {
                return outcome;
            }
            let found = match self.look(client).await {
                Ok(shown) => shown.precondition(),
                Err(outcome) => return outcome,
            };
            if self.is_at(saved, client.request("GET", Bytes::new())).await.is_ok_and(|is| is) {
                return Outcome::Stored;
            }
            // The same again: the lock is gone, or the server does not compare tags in `If`, or not weak ones.
            let is_same = match (&known, &found) {
                (Precondition::Unchanged(tried), Precondition::Unchanged(found)) => tried.resembles(found),
                (tried, found) => tried == found,
            };
            known = if is_same { Precondition::None } else { found };
        }
        Outcome::away("somebody changes the file under its lock")
    }

    async fn put_over(&self, saved: &Saved, client: &Caller, token: &str, known: &Precondition) -> Outcome {
        let mut put = client.request("PUT", Bytes::new());
        let version = match known {
            Precondition::Unchanged(tag) => format!(" [{tag}]"),
            _ => String::new(),
        };
        let Ok(condition) = HeaderValue::from_str(&format!("({token}{version})")) else {
            return Outcome::refused("the lock's token cannot be sent");
        };
        put.headers.insert(IF, condition);
        if *known == Precondition::Absent {
            put.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        self.put(saved, put).await
    }

    async fn look(&self, client: &Caller) -> Result<Shown, Outcome> {
        let answer = self.exchange(client.look()).await.map_err(Outcome::away)?;
        let unknown = |status| match status {
            StatusCode::UNAUTHORIZED => Outcome::SignedOut,
            _ => Outcome::away("the server does not show the file"),
        };
        shown(answer, &client.path).await.map_err(unknown)
    }

    async fn put(&self, saved: &Saved, mut put: Passing) -> Outcome {
        let kind = saved.entry.details.kind.as_deref().and_then(|kind| HeaderValue::from_str(kind).ok());
        kind.map(|kind| put.headers.insert(CONTENT_TYPE, kind));
        put.method = Method::PUT;
        put.body = Received::Streamed(saved.content());
        match self.exchange(put).await {
            Ok(answer) => Outcome::of(answer.status(), answer.headers()),
            Err(error) => Outcome::away(error),
        }
    }

    /// Sends a file whose lock is gone: what the server has by now decides where.
    async fn send_unlocked(self: &Arc<Self>, saved: &Saved, client: &Caller) -> Outcome {
        let mut own = OwnLock::new(&self.client, client);
        let answer = self.exchange(own.request(LOCK_TIME)).await;
        own.note(&answer);
        let (parts, body) = match answer {
            Ok(answer) => answer.into_parts(),
            Err(error) => return Outcome::away(error),
        };
        let body = answers::read(body, listings::LARGEST).await.unwrap_or_default();
        let Some(lock) = locked(&parts.headers, &body).filter(|_| parts.status.is_success()) else {
            return match Outcome::of(parts.status, &parts.headers) {
                Outcome::Stored | Outcome::Refused(_) => self.send_beside(saved, client).await,
                other => other,
            };
        };
        let outcome = self.send_relocked(saved, client, &lock.token).await;
        let mut unlock = client.request("UNLOCK", Bytes::new());
        if let Ok(token) = HeaderValue::from_str(&lock.token) {
            unlock.headers.insert(answers::LOCK_TOKEN, token);
            self.send_acknowledged(unlock, None).await;
            own.settle();
        }
        outcome
    }

    async fn send_relocked(&self, saved: &Saved, client: &Caller, token: &str) -> Outcome {
        let shown = match self.look(client).await {
            Ok(shown) => shown,
            Err(outcome) => return outcome,
        };
        let (found, Shown { content, version, .. }) = (shown.precondition(), shown);
        let is_base = version
            .is_some_and(|version| self.write_back.as_ref().is_some_and(|back| back.journal.replaces(saved, &version)));
        if content != ShownContent::Some || is_base {
            return match self.put_under(saved, client, token, Some(found)).await {
                Outcome::Unmet(_) => Outcome::away("the server has lost a lock that it has just granted"),
                outcome => outcome,
            };
        }
        match self.is_at(saved, client.request("GET", Bytes::new())).await {
            Ok(true) => Outcome::Stored,
            Ok(false) => self.send_beside(saved, client).await,
            Err(outcome) => outcome,
        }
    }

    /// Whether the server has the same content where this asks for it.
    async fn is_at(&self, saved: &Saved, mut get: Passing) -> Result<bool, Outcome> {
        get.headers.remove(ACCEPT_ENCODING);
        let answer = self.exchange(get).await.map_err(Outcome::away)?;
        match Outcome::of(answer.status(), answer.headers()) {
            Outcome::Stored if answer.status() == StatusCode::OK => {}
            outcome @ (Outcome::Away(_) | Outcome::SignedOut) => return Err(outcome),
            _ => return Ok(false),
        }
        if answer.body().size_hint().exact().is_some_and(|length| length != saved.entry.length) {
            return Ok(false);
        }
        let mut here = saved.content().open().map_err(Outcome::away)?;
        let mut there = BodyStream::new(answer.into_body().map_err(io::Error::other));
        let mut left = Bytes::new();
        while let Some(frame) = there.next().await {
            let mut chunk = frame.map_err(Outcome::away)?.into_data().unwrap_or_default();
            while !chunk.is_empty() {
                if left.is_empty() {
                    match here.next().await {
                        Some(read) => left = read.map_err(Outcome::away)?,
                        None => return Ok(false),
                    }
                }
                let length = left.len().min(chunk.len());
                if left.split_to(length) != chunk.split_to(length) {
                    return Ok(false);
                }
            }
        }
        Ok(left.is_empty() && here.next().await.is_none())
    }

    /// Sends a file under a name of its own, beside the version that is there. An attempt whose answer was lost is found again.
    async fn send_beside(&self, saved: &Saved, client: &Caller) -> Outcome {
        let Some(names) = names_beside(&client.path, saved.entry.closed) else {
            return Outcome::refused("its name is too long for a second version");
        };
        for path in names {
            let Some(url) = self.upstream.at(&path) else {
                return Outcome::refused("the path is not the gateway's");
            };
            let _change = Change::new(self, [path.clone()]);
            let at = |method| {
                let mut request = client.request(method, Bytes::new());
                (request.url, request.path) = (url.clone(), path.clone());
                request
            };
            let mut put = at("PUT");
            put.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
            match self.put(saved, put).await {
                Outcome::Unmet(StatusCode::PRECONDITION_FAILED) => match self.is_at(saved, at("GET")).await {
                    Ok(true) => return Outcome::Stored,
                    Ok(false) => {}
                    Err(outcome) => return outcome,
                },
                Outcome::Stored => {
                    self.metrics.conflicts.add();
                    tracing::error!("{} has another version; the one saved here is now {path}", client.path);
                    return Outcome::Stored;
                }
                other => return other,
            }
        }
        Outcome::refused("there are too many versions of it")
    }
}
