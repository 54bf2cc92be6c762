//! Files that are acknowledged when they are safe on the disk, and uploaded after that (`--write back`).
//!
//! Only files under a lock that their client holds: nobody else can write them meanwhile, and the server's answer to the LOCK
//! has shown that this credential may. And only where the server asks for passwords: what waits for its user after a restart
//! goes to whoever signs in under the same name, which must mean something.
//!
//! An upload goes under the lock's token. If the lock is gone, the file is locked again and looked at: it is replaced if it
//! has no content, or this one; otherwise both versions are kept, this one under a name of its own beside it.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture};
use http::{
    HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, IF_NONE_MATCH},
};
use http_body::Body as _;
use http_body_util::{BodyExt, BodyStream};
use serve::AnswerBody;

use super::{Account, Change, Found, locked};
use crate::{
    answers,
    journal::{Journal, Record, Saved},
    listings,
    passing::{Caller, IF, Passing, Received, TIMEOUT},
    redirector::{Claim, Locked},
};

/// The pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The pause after a refusal that time alone will not change.
const REFUSED_PAUSE: Duration = Duration::from_mins(5);
/// The largest number of files of a credential that wait for their upload; at it, the next ones are passed on.
const MOST: usize = 4096;
/// How many names are tried for a version beside another.
const BESIDE: u64 = 16;
/// Of the lock under which a file is looked at.
const LOCK: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>haul gateway</D:owner></D:lockinfo>"#;
const LOCK_TIME: HeaderValue = HeaderValue::from_static("Second-600");

/// The journal, and the name under which this account's files are in it.
pub(crate) struct WriteBack {
    pub(crate) journal: Arc<Journal>,
    pub(crate) user: String,
}

/// How an upload has ended.
enum Outcome {
    /// The server has the content.
    Stored,
    /// The server does not take the credential.
    SignedOut,
    /// It may succeed soon.
    Away(String),
    /// The server has refused it, and would again.
    Refused(String),
    /// The lock is gone, or the folder; the status tells.
    IsUnlocked(StatusCode),
}

impl Outcome {
    fn of(status: StatusCode) -> Self {
        let why = format!("the server answered {}", status.as_u16());
        match status.as_u16() {
            200..=299 => Self::Stored,
            401 => Self::SignedOut,
            404 | 409 | 412 => Self::IsUnlocked(status),
            408 | 423 | 425 | 429 | 500..=506 | 508..=599 => Self::Away(why),
            _ => Self::Refused(why),
        }
    }
}

impl Outcome {
    #[expect(clippy::needless_pass_by_value, reason = "so map_err wants it")]
    fn away(error: impl ToString) -> Self {
        Self::Away(error.to_string())
    }

    /// In the words of the journal.
    fn why(self) -> String {
        match self {
            Self::Stored => String::new(),
            Self::SignedOut => "the server does not accept the user's password".to_owned(),
            Self::IsUnlocked(_) => "its folder is gone".to_owned(),
            Self::Away(why) | Self::Refused(why) => why,
        }
    }
}

impl Account {
    /// Acknowledges a file once it is in the journal. An error has the request, to be passed on.
    pub(super) async fn save(
        self: &Arc<Self>,
        mut put: Passing,
        claim: Claim,
    ) -> Result<Response<AnswerBody>, Passing> {
        let Some(WriteBack { journal, user }) = &self.write_back else { return Err(put) };
        let length = match &put.body {
            Received::Whole(content) => Some(content.len() as u64),
            Received::Streamed(body) => body.length(),
        };
        let Some(length) = length.filter(|_| put.is_only_content() && self.later.paths() < MOST) else {
            return Err(put);
        };
        if !(self.is_accepted(put.look()).await && self.asks_for_passwords(put.look()).await) {
            return Err(put);
        }
        let Some(room) = journal.room(length) else { return Err(put) };
        let kind = put.text(&CONTENT_TYPE).map(str::to_owned);
        let (user, path, at) = (user.clone(), put.path.target(), Record::now());
        let Claim { token, is_new } = claim;
        let record = Record { user, path, token, kind, length, at };
        let content = std::mem::replace(&mut put.body, Received::Whole(Bytes::new()));
        let client = put.caller(put.url.clone(), put.path.clone());
        let (account, journal) = (self.clone(), journal.clone());
        // Goes on if the client disconnects: what is in the journal has to be known here.
        let storing = tokio::spawn(async move {
            let stored = journal.store(room, record, content).await;
            stored.inspect(|saved| account.begin_upload(saved.clone(), client))
        });
        Ok(match storing.await {
            Ok(Ok(_)) if is_new => answers::without_body(StatusCode::CREATED),
            Ok(Ok(_)) => answers::without_body(StatusCode::NO_CONTENT),
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                answers::without_body(StatusCode::BAD_REQUEST)
            }
            Ok(Err(why)) => {
                tracing::error!("cannot store a file in the journal: {why}");
                answers::text(StatusCode::INSUFFICIENT_STORAGE, "507: the gateway cannot store the file\n")
            }
            Err(_) => answers::without_body(StatusCode::INTERNAL_SERVER_ERROR),
        })
    }

    /// Uploads what an earlier gateway, or an earlier password, has left of this user.
    pub(crate) fn adopt(self: &Arc<Self>, request: &Passing) {
        let Some(WriteBack { journal, user }) = &self.write_back else { return };
        if !request.is_ordinary() {
            return;
        }
        for saved in journal.take(user) {
            let place = dav::RemotePath::from_url_path(&saved.record.path).ok();
            let place = place.and_then(|path| self.upstream.at(&path).map(|url| (path, url)));
            match place {
                Some((path, url)) => self.begin_adopted(saved, request.caller(url, path)),
                None => journal.failed(&saved, "the path is not the gateway's", true),
            }
        }
    }

    /// Has a file uploaded by its client's credential, behind what goes on with it.
    fn begin_upload(self: &Arc<Self>, saved: Arc<Saved>, client: Caller) {
        let (account, path) = (self.clone(), client.path.clone());
        self.later.begin(path, async move { account.upload(saved, client).await });
    }

    /// The same with a credential that the server has perhaps not accepted.
    fn begin_adopted(self: &Arc<Self>, saved: Arc<Saved>, client: Caller) {
        let (account, path) = (self.clone(), client.path.clone());
        self.later.begin(path, async move {
            let Some(WriteBack { journal, .. }) = &account.write_back else { return };
            let status = account.exchange(client.look()).await.map(|answer| answer.status());
            let is_accepted = status.is_ok_and(|status| status != StatusCode::UNAUTHORIZED);
            if !(is_accepted && account.asks_for_passwords(client.look()).await) {
                return journal.give_back(&saved);
            }
            account.clone().upload(saved, client).await;
        });
    }

    fn upload(self: Arc<Self>, saved: Arc<Saved>, client: Caller) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(WriteBack { journal, .. }) = &self.write_back else { return };
            let _change = Change::new(&self, [client.path.clone()]);
            let mut pause = FIRST_PAUSE;
            loop {
                let turn = journal.turn().await;
                let outcome = match self.send_saved(&saved, &client).await {
                    Outcome::IsUnlocked(_) => self.send_unlocked(&saved, &client).await,
                    outcome => outcome,
                };
                drop(turn);
                match outcome {
                    Outcome::Stored => return journal.sent(&saved).await,
                    Outcome::SignedOut => {
                        journal.failed(&saved, &outcome.why(), false);
                        return journal.give_back(&saved);
                    }
                    Outcome::Away(why) => {
                        journal.failed(&saved, &why, false);
                        tracing::warn!("PUT {}: {why}; it is safe here, and will be sent again", client.url.path());
                        if !journal.pause(pause).await {
                            return;
                        }
                        pause = (pause * 2).min(LONGEST_PAUSE);
                    }
                    Outcome::Refused(_) | Outcome::IsUnlocked(_) => {
                        let why = outcome.why();
                        self.metrics.broken.add();
                        journal.failed(&saved, &why, true);
                        tracing::error!("PUT {}: acknowledged, but {why}; it is kept here", client.url.path());
                        return self.clone().try_again(saved.clone(), client);
                    }
                }
            }
        })
    }

    /// Tries a refused upload again after a while, and keeps nobody waiting until then.
    fn try_again(self: Arc<Self>, saved: Arc<Saved>, client: Caller) {
        tokio::spawn(async move {
            if let Some(back) = &self.write_back
                && back.journal.pause(REFUSED_PAUSE).await
            {
                self.begin_upload(saved, client);
            }
        });
    }

    /// Sends a file under the lock with which it was saved.
    async fn send_saved(&self, saved: &Saved, client: &Caller) -> Outcome {
        self.put_saved(saved, client.request("PUT", Bytes::new()), &saved.record.token).await
    }

    async fn put_saved(&self, saved: &Saved, mut put: Passing, token: &str) -> Outcome {
        let Ok(condition) = HeaderValue::from_str(&format!("({token})")) else {
            return Outcome::Refused("the lock's token cannot be sent".to_owned());
        };
        put.headers.insert(IF, condition);
        self.send_content(saved, put).await
    }

    async fn send_content(&self, saved: &Saved, mut put: Passing) -> Outcome {
        let kind = saved.record.kind.as_deref().and_then(|kind| HeaderValue::from_str(kind).ok());
        kind.map(|kind| put.headers.insert(CONTENT_TYPE, kind));
        put.method = Method::PUT;
        put.body = Received::Streamed(saved.content());
        match self.exchange(put).await {
            Ok(answer) => Outcome::of(answer.status()),
            Err(error) => Outcome::away(error),
        }
    }

    /// Sends a file whose lock is gone: what the server has by now decides where.
    async fn send_unlocked(self: &Arc<Self>, saved: &Saved, client: &Caller) -> Outcome {
        let mut lock = client.request("LOCK", Bytes::from_static(LOCK));
        lock.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml; charset=\"utf-8\""));
        lock.headers.insert(TIMEOUT, LOCK_TIME);
        let answer = match self.exchange(lock).await {
            Ok(answer) => answer,
            Err(error) => return Outcome::away(error),
        };
        let (parts, body) = answer.into_parts();
        let body = answers::read(body, listings::LARGEST).await.unwrap_or_default();
        let Some(lock) = locked(&parts.headers, &body).filter(|_| parts.status.is_success()) else {
            return match Outcome::of(parts.status) {
                Outcome::Stored | Outcome::Refused(_) => self.send_beside(saved, client).await,
                other => other,
            };
        };
        let outcome = self.send_relocked(saved, client, &lock, parts.status == StatusCode::CREATED).await;
        let mut unlock = client.request("UNLOCK", Bytes::new());
        if let Ok(token) = HeaderValue::from_str(&lock.token) {
            unlock.headers.insert(answers::LOCK_TOKEN, token);
            self.send_acknowledged(unlock, None).await;
        }
        outcome
    }

    async fn send_relocked(
        self: &Arc<Self>,
        saved: &Saved,
        client: &Caller,
        lock: &Locked,
        is_created: bool,
    ) -> Outcome {
        let found = if is_created { Found::Nothing } else { self.clone().find_content(client.look(), None).await };
        if found != Found::Content {
            let put = client.request("PUT", Bytes::new());
            return match self.put_saved(saved, put, &lock.token).await {
                Outcome::IsUnlocked(_) => {
                    Outcome::Away("the server has lost a lock that it has just granted".to_owned())
                }
                outcome => outcome,
            };
        }
        match self.is_there(saved, client).await {
            Ok(true) => Outcome::Stored,
            Ok(false) => self.send_beside(saved, client).await,
            Err(outcome) => outcome,
        }
    }

    /// Whether the server's file has the same content.
    async fn is_there(&self, saved: &Saved, client: &Caller) -> Result<bool, Outcome> {
        let mut get = client.request("GET", Bytes::new());
        get.headers.remove(ACCEPT_ENCODING);
        let answer = self.exchange(get).await.map_err(Outcome::away)?;
        if answer.status() != StatusCode::OK {
            return Ok(false);
        }
        if answer.body().size_hint().exact().is_some_and(|length| length != saved.record.length) {
            return Ok(false);
        }
        let mut here = saved.content().open().map_err(Outcome::away)?;
        let mut there = BodyStream::new(answer.into_body().map_err(std::io::Error::other));
        let mut left = Bytes::new();
        while let Some(frame) = there.next().await {
            let frame = frame.map_err(Outcome::away)?;
            let mut chunk = frame.into_data().unwrap_or_default();
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

    /// Sends a file under a name of its own, beside the version that somebody else has saved.
    async fn send_beside(&self, saved: &Saved, client: &Caller) -> Outcome {
        let now = Record::now();
        for seconds in now..now + BESIDE {
            let beside = client.path.conflicting(seconds);
            let Some((url, path)) = beside.and_then(|path| Some((self.upstream.at(&path)?, path))) else {
                return Outcome::Refused("its name is too long for a second version".to_owned());
            };
            let _change = Change::new(self, [path.clone()]);
            let mut put = client.request("PUT", Bytes::new());
            (put.url, put.path) = (url, path.clone());
            put.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
            match self.send_content(saved, put).await {
                Outcome::IsUnlocked(StatusCode::PRECONDITION_FAILED) => {}
                Outcome::Stored => {
                    self.metrics.conflicts.add();
                    tracing::error!(
                        "{} was changed by somebody else; the version saved here is now {}",
                        client.path,
                        path
                    );
                    return Outcome::Stored;
                }
                other => return other,
            }
        }
        Outcome::Refused("there are too many versions of it".to_owned())
    }

    /// Whether the server has accepted the credential not longer ago than a listing is believed; otherwise it is asked.
    async fn is_accepted(&self, look: Passing) -> bool {
        let accepted = *self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.is_some_and(|accepted| accepted.elapsed() < self.fresh) {
            return true;
        }
        self.exchange(look).await.is_ok_and(|answer| answer.status() != StatusCode::UNAUTHORIZED)
    }

    /// Asks ahead what [`Account::save`] will want to know. `locking` is a client's LOCK, or what stands for it.
    pub(super) fn prepare_to_save(self: &Arc<Self>, locking: &Passing) {
        if self.write_back.is_some() && !self.is_asking.load(Ordering::Relaxed) {
            let (account, look) = (self.clone(), locking.look());
            tokio::spawn(async move { account.asks_for_passwords(look).await });
        }
    }

    /// Whether the server refuses a request of nobody's for this file. It is asked once.
    async fn asks_for_passwords(&self, mut look: Passing) -> bool {
        if self.is_asking.load(Ordering::Relaxed) {
            return true;
        }
        look.headers.remove(AUTHORIZATION);
        let answer = self.client.exchange(look.into_request()).await;
        let is_asking = answer.is_ok_and(|answer| answer.status() == StatusCode::UNAUTHORIZED);
        self.is_asking.store(is_asking, Ordering::Relaxed);
        is_asking
    }
}

impl Passing {
    /// Whether a PUT has nothing but content, under a lock.
    fn is_only_content(&self) -> bool {
        let is_plain = |name: &HeaderName| {
            let is_other = name.as_str().starts_with("content-") && *name != CONTENT_TYPE && *name != CONTENT_LENGTH;
            !is_other && (*name == IF || !name.as_str().starts_with("if-"))
        };
        self.is_ordinary() && self.headers.keys().all(is_plain)
    }
}
