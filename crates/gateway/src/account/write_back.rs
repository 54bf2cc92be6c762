//! Files that are acknowledged when they are safe on the disk, and uploaded after that (`--write back`).
//!
//! Only files under a lock that their client holds: nobody else can write them meanwhile, and the server's answer to the LOCK
//! has shown that this credential may. And only where the server asks for passwords: what waits for its user after a restart
//! goes to whoever signs in under the same name, which must mean something.
//!
//! Requests of a user, with whatever password, wait for the uploads at their paths ([`WriteBack::later`]). A version that
//! nobody waits for any more, because the server has refused it or its password, replaces nothing that its user has written
//! or moved since: it is set aside, and then uploaded under a name of its own. How an upload goes: `upload`.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::time::Instant;

use bytes::Bytes;
use dav::{ETag, RemotePath};
use futures_util::{
    FutureExt,
    future::{BoxFuture, OptionFuture},
};
use haul_http::FollowUpResponse;
use http::{
    HeaderName, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE},
};
use serve::AnswerBody;
use tokio::sync::oneshot;
use writeback::Failure;

use super::Account;
use crate::{
    answers::{self, Shown},
    journal::{self, Details, Journal, Saved, failed},
    later::Later,
    passing::{Caller, IF, Passing, Received},
    redirector::Claim,
};

/// The largest number of files of a user that wait for their upload; at it, the next ones are passed on.
const MOST: usize = 4096;
/// How long a look at a folder waits for files in it that are on their way, and a save for the version that it replaces.
const GLANCE: Duration = Duration::from_secs(2);

/// The journal, and an account's part of it.
pub(crate) struct WriteBack {
    pub(super) journal: Arc<Journal>,
    /// The name under which the account's files are in it.
    pub(super) user: String,
    /// The uploads of all accounts of this name.
    pub(super) later: Arc<Later>,
    /// The file that was locked last: the token, and its version then.
    base: Mutex<Option<(String, oneshot::Receiver<Option<ETag>>)>>,
}

impl WriteBack {
    pub(crate) fn new(journal: Arc<Journal>, user: String) -> Self {
        let later = journal.later(&user);
        Self { journal, user, later, base: Mutex::default() }
    }

    /// A request may change the version that was asked ahead: PROPPATCH of times does, at `haul serve`.
    pub(super) fn forget_base(&self) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Before a request changes what is at these paths, or below them: versions that wait would replace that later.
    pub(super) fn set_aside(&self, request: &Passing) -> impl Future<Output = io::Result<()>> + Send + use<'_> {
        let changes = !request.is_safe() && !matches!(request.method.as_str(), "LOCK" | "UNLOCK" | "PROPPATCH");
        let paths = [Some(&request.path), request.destination.as_ref()].into_iter().flatten().filter(|_| changes);
        let (paths, condition) = (paths.cloned().collect::<Vec<_>>(), request.text(&IF).map(str::to_owned));
        async move {
            for path in paths {
                self.journal.set_aside(&self.user, &path, condition.as_deref()).await?;
            }
            Ok(())
        }
    }
}

/// Whether an answer shows that the server accepts the credential: it has looked at the request itself.
fn shows_acceptance(status: StatusCode) -> bool {
    status.is_success() || matches!(status.as_u16(), 404 | 405 | 409 | 412 | 415 | 423 | 424)
}

impl Account {
    /// Waits until what was acknowledged at, below or above a path is done. Returns whether the request may go on: a saved file
    /// whose upload does not succeed is waited for as long as for the server.
    pub(super) fn settles(&self, request: &Passing, path: &RemotePath) -> impl Future<Output = bool> + Send + use<'_> {
        let (path, is_safe) = (path.clone(), request.is_safe());
        let keeps_lock = request.method.as_str() == "LOCK" && request.headers.contains_key(IF);
        async move {
            let Some(back) = &self.write_back else {
                self.later.settle(&path).await;
                return true;
            };
            if keeps_lock {
                return true;
            }
            let looks_around = is_safe && !(self.later.covers(&path) || back.later.covers(&path));
            let patience = if looks_around { GLANCE } else { self.client.timeouts().first_byte };
            let settled = async {
                self.later.settle(&path).await;
                back.later.settle(&path).await;
            };
            tokio::time::timeout(patience, settled).await.is_ok() || looks_around
        }
    }

    /// Acknowledges a file once it is in the journal. An error has the request, to be passed on.
    pub(super) async fn save(
        self: &Arc<Self>,
        mut put: Passing,
        claim: Claim,
    ) -> Result<Response<AnswerBody>, Passing> {
        let Some(back) = &self.write_back else { return Err(put) };
        let length = match &put.body {
            Received::Whole(content) => Some(content.len() as u64),
            Received::Streamed(body) => body.length(),
        };
        let Some(length) = length.filter(|_| put.is_only_content() && back.later.paths() < MOST) else {
            return Err(put);
        };
        if !(self.is_accepted(put.look()).await && self.asks_for_passwords(put.look()).await) {
            return Err(put);
        }
        let Some(room) = back.journal.room(length) else { return Err(put) };
        let Claim { token, is_new } = claim;
        let base = self.base(&token, (!is_new).then(|| put.look())).await;
        let details = Details::new(back.user.clone(), token, put.text(&CONTENT_TYPE).map(str::to_owned));
        let entry = journal::entry(put.path.clone(), base, length, details);
        let content = std::mem::replace(&mut put.body, Received::Whole(Bytes::new()));
        let (account, client) = (self.clone(), put.caller(put.url.clone(), put.path.clone()));
        let (acknowledge, acknowledged) = oneshot::channel();
        // Goes on if the client disconnects: what is in the journal has to be known, and waited for.
        back.later.begin(put.path.clone(), async move {
            let Some(WriteBack { journal, user, .. }) = &account.write_back else { return };
            let stored = async {
                journal.set_aside(user, &client.path, Some(&format!("({})", entry.details.token))).await?;
                journal.store(room, entry, content).await
            };
            match stored.await {
                Ok(saved) => {
                    let _ = acknowledge.send(Ok(()));
                    account.clone().upload(saved, client).await;
                }
                Err(error) => drop(acknowledge.send(Err(error))),
            }
        });
        Ok(match acknowledged.await {
            Ok(Ok(())) if is_new => answers::without_body(StatusCode::CREATED),
            Ok(Ok(())) => answers::without_body(StatusCode::NO_CONTENT),
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                answers::without_body(StatusCode::BAD_REQUEST)
            }
            Ok(Err(why)) => {
                tracing::error!("cannot store a file in the journal: {why}");
                answers::text(StatusCode::INSUFFICIENT_STORAGE, "507: the gateway cannot store the file\n")
            }
            Err(_) => answers::without_body(StatusCode::INTERNAL_SERVER_ERROR),
        })
    }

    /// Has uploaded what an earlier gateway, or an earlier password, has left of this user, if the server accepts the
    /// credential.
    pub(crate) fn adopt(self: &Arc<Self>, request: &Passing) -> OptionFuture<BoxFuture<'_, ()>> {
        let waits = |back: &&WriteBack| request.is_ordinary() && back.journal.waits_for(&back.user);
        let waiting = self.write_back.as_ref().filter(waits);
        let adopted = waiting.map(|back| {
            let (look, unnamed, client) = (request.look(), request.look(), request.identity());
            let adopt = async move {
                if !(self.is_accepted(look).await && self.asks_for_passwords(unnamed).await) {
                    return;
                }
                for saved in back.journal.take(&back.user) {
                    let path = saved.entry.path.clone();
                    if let Some(client) = self.upstream.at(&path).map(|url| client.at(url, path)) {
                        self.begin_upload(saved, client);
                    } else {
                        let failed = failed(Failure::Refused, "the path is not the gateway's", None);
                        back.journal.refused(&saved, failed).await;
                    }
                }
            };
            adopt.boxed()
        });
        adopted.into()
    }

    /// The version at the server that a lock leaves which is about to be released, if a file waits that was saved under it.
    pub(super) fn left_under(
        &self,
        token: &str,
        unlock: &Passing,
    ) -> impl Future<Output = Option<ETag>> + Send + use<'_> {
        let waits = self.write_back.as_ref().is_some_and(|back| back.journal.waits_under(token));
        let client = waits.then(|| unlock.caller(unlock.url.clone(), unlock.path.clone()));
        async move { self.seen(&client?).await.ok()??.version }
    }

    /// A lock was released, and has left this version. It has kept all others out: the upload of a file that was saved under
    /// it replaces that, even if it is not the version which was locked. A PROPPATCH of times makes another one at `haul
    /// serve`.
    pub(super) async fn note_left(&self, token: &str, path: &RemotePath, left: Option<&ETag>) {
        if let Some((back, left)) = self.write_back.as_ref().zip(left) {
            back.journal.unlocked(token, path, left).await;
        }
    }

    /// Has a file uploaded, behind what goes on at its path.
    pub(super) fn begin_upload(self: &Arc<Self>, saved: Arc<Saved>, client: Caller) {
        let Some(back) = &self.write_back else { return };
        let (account, path) = (self.clone(), client.path.clone());
        back.later.begin(path, async move { account.upload(saved, client).await });
    }

    /// An answer of the server to this credential.
    pub(super) fn learn(&self, asked: Instant, status: StatusCode) {
        let accepted = match status {
            StatusCode::UNAUTHORIZED => None,
            status if shows_acceptance(status) => Some(asked),
            _ => return,
        };
        *self.accepted.lock().unwrap_or_else(PoisonError::into_inner) = accepted;
    }

    /// Whether the server has accepted the credential not longer ago than a listing is believed; otherwise it is asked.
    async fn is_accepted(&self, look: Passing) -> bool {
        let accepted = *self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.is_some_and(|accepted| accepted.elapsed() < self.fresh) {
            return true;
        }
        self.exchange(look).await.is_ok_and(|answer| shows_acceptance(answer.status()))
    }

    /// Asks ahead what [`Account::save`] will want to know. `locking` is a client's LOCK, or what stands for it.
    pub(super) fn prepare_to_save(self: &Arc<Self>, locking: &Passing) {
        if self.write_back.is_some() && !self.is_asking.load(Ordering::Relaxed) {
            let (account, look) = (self.clone(), locking.look());
            tokio::spawn(async move { account.asks_for_passwords(look).await });
        }
    }

    /// Asks ahead for the version of a file that its client has locked, unless it was asked right behind the lock.
    pub(super) fn note_base(self: &Arc<Self>, token: &str, look: Passing, seen: Option<FollowUpResponse>) {
        let Some(back) = &self.write_back else { return };
        let (tell, told) = oneshot::channel();
        *back.base.lock().unwrap_or_else(PoisonError::into_inner) = Some((token.to_owned(), told));
        let account = self.clone();
        tokio::spawn(async move { tell.send(account.version(look, seen).await) });
    }

    /// The version of a locked file before it is written; if it was not asked ahead, by a look.
    async fn base(&self, token: &str, look: Option<Passing>) -> Option<ETag> {
        let noted = self.write_back.as_ref().and_then(|back| {
            let mut base = back.base.lock().unwrap_or_else(PoisonError::into_inner);
            base.take_if(|(noted, _)| noted == token)
        });
        let base = async {
            match noted {
                Some((_, told)) => told.await.ok().flatten(),
                None => self.version(look?, None).await,
            }
        };
        // A server that is away is not waited for: without it, a lost lock costs a second version.
        tokio::time::timeout(GLANCE, base).await.ok().flatten()
    }

    async fn version(&self, look: Passing, seen: Option<FollowUpResponse>) -> Option<ETag> {
        let path = look.path.clone();
        let (status, body) = self.seen_behind(look, seen).await.ok()?;
        let body = body.filter(|_| status == StatusCode::MULTI_STATUS)?;
        Shown::of(&body, &path).version
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
