//! Locks under which a change has had no answer.
//!
//! A client's change names the token of its lock, and rarely a version. If its answer is missing, a copy of it may be carried
//! out as long as the token is good, when the client has saved the file again. A token is unique for ever (RFC 4918 §6.5). So
//! before anything newer about that file is sent, the lock is released and taken anew: from then on, the copy fails. The client
//! goes on with its token, and the server gets the new one in its place.
//!
//! If the file is not the same before and after that, somebody else has written it in between. Then the new lock is released
//! too, and the server refuses the client's next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dav::{AfterSilence, Fence, RemotePath};
use haul_http::{Error, Incoming};
use http::{HeaderValue, Response, StatusCode};

use super::{
    Account, locked,
    own_lock::{OwnLock, is_pending, unlock},
    upload::shown,
};
use crate::{
    answers::{self, LOCK_TOKEN, Shown},
    listings,
    passing::{Caller, IF, Passing},
    redirector::are_related,
};

/// Not long: the gateway may be killed before its answer.
const LOCK_TIME: HeaderValue = HeaderValue::from_static("Second-600");
/// The largest number of locks that are remembered.
const MOST: usize = 256;

/// The locks of a credential under which a change has had no answer.
#[derive(Default)]
pub(super) struct Renewals(Mutex<Vec<Doubtful>>);

#[derive(Clone)]
struct Doubtful {
    /// As the client knows it, in its angle brackets.
    token: String,
    /// What the changes are about.
    paths: Vec<RemotePath>,
    lock: Arc<tokio::sync::Mutex<Renewal>>,
}

struct Renewal {
    client: Caller,
    /// The token by which the server knows the lock.
    token: String,
    /// Whether a change under it may be carried out yet.
    is_pending: bool,
}

/// A change under a lock that names no version.
pub(super) struct UnderLock {
    token: String,
    client: Caller,
    paths: Vec<RemotePath>,
}

/// What has become of a lock.
enum Renewed {
    As(String),
    /// It has ended.
    Ended,
    /// The server has not ended it, and this is why.
    Kept(Response<Incoming>),
}

impl Renewals {
    fn all(&self) -> MutexGuard<'_, Vec<Doubtful>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those whose token a request has, or whose files it changes.
    fn of(&self, request: &Passing) -> Vec<Doubtful> {
        let changes = is_change(request);
        let paths = || [Some(&request.path), request.destination.as_ref()].into_iter().flatten();
        let is_about = |doubtful: &&Doubtful| {
            request.tokens().any(|(_, tokens)| tokens.contains(&doubtful.token))
                || changes && paths().any(|path| doubtful.paths.iter().any(|at| are_related(at, path)))
        };
        self.all().iter().filter(is_about).cloned().collect()
    }

    fn forget(&self, token: &str) {
        self.all().retain(|doubtful| doubtful.token != token);
    }

    /// Notes whether a change may be carried out yet, by its answer.
    pub(super) async fn note(&self, change: Option<UnderLock>, answer: &Result<Response<Incoming>, Error>) {
        let Some(UnderLock { token, client, paths }) = change.filter(|_| is_pending(answer)) else { return };
        let lock = {
            let mut all = self.all();
            if let Some(doubtful) = all.iter_mut().find(|doubtful| doubtful.token == token) {
                doubtful.paths.extend(paths);
                doubtful.lock.clone()
            } else {
                if all.len() >= MOST {
                    all.remove(0);
                }
                let renewal = Renewal { client, token: token.clone(), is_pending: true };
                let lock = Arc::new(tokio::sync::Mutex::new(renewal));
                all.push(Doubtful { token, paths, lock: lock.clone() });
                lock
            }
        };
        lock.lock().await.is_pending = true;
    }

    /// The server has been asked to end a lock.
    pub(super) fn unlocked(&self, token: &str, answer: &Result<Response<Incoming>, Error>) {
        let is_known = |answer: &Response<Incoming>| !answer.status().is_server_error();
        if answer.as_ref().is_ok_and(is_known) {
            self.forget(token);
        }
    }
}

impl Passing {
    /// Fields with lock tokens.
    fn tokens(&self) -> impl Iterator<Item = (http::HeaderName, &str)> {
        [IF, LOCK_TOKEN].into_iter().filter_map(|name| Some((name.clone(), self.text(&name)?)))
    }

    /// This change, if it names its lock and no version.
    pub(super) fn under_lock(&self) -> Option<UnderLock> {
        if !is_change(self) || Fence::in_headers(&self.headers).after_silence() != AfterSilence::Relock {
            return None;
        }
        let (place, list) = self.text(&IF)?.split_once("(<")?;
        let token = list.split_once('>')?.0;
        // It may be about another file's lock.
        let place = place.trim().trim_matches(['<', '>']);
        if !place.is_empty() && !place.ends_with(self.url.path()) {
            return None;
        }
        let paths = [Some(self.path.clone()), self.destination.clone()].into_iter().flatten().collect();
        Some(UnderLock { token: format!("<{token}>"), client: self.caller(self.url.clone(), self.path.clone()), paths })
    }
}

/// Whether a request changes more than locks.
fn is_change(request: &Passing) -> bool {
    !request.is_safe() && !matches!(request.method.as_str(), "LOCK" | "UNLOCK")
}

impl Account {
    /// A request as the server may get it: under its present locks, and with no copy of an older one behind it. An error has
    /// what its client gets instead.
    pub(super) async fn renewed(&self, mut request: Passing) -> Result<Passing, Result<Response<Incoming>, Error>> {
        let all = self.renewals.of(&request);
        for Doubtful { token, lock, .. } in all {
            let mut renewal = lock.lock().await;
            if renewal.is_pending && is_change(&request) {
                match self.renew(&token, &renewal).await.map_err(Err)? {
                    Renewed::As(token) => (renewal.token, renewal.is_pending) = (token, false),
                    Renewed::Ended => self.renewals.forget(&token),
                    Renewed::Kept(answer) => return Err(Ok(answer)),
                }
            }
            let named: Vec<_> =
                request.tokens().map(|(name, text)| (name, text.replace(&token, &renewal.token))).collect();
            for (name, text) in named {
                if let Ok(text) = HeaderValue::from_str(&text) {
                    request.headers.insert(name, text);
                }
            }
        }
        Ok(request)
    }

    async fn renew(&self, known_as: &str, Renewal { client, token, .. }: &Renewal) -> Result<Renewed, Error> {
        let looked = self.client.exchange(client.look().into_request()).await?;
        if !matches!(looked.status(), StatusCode::MULTI_STATUS | StatusCode::NOT_FOUND) {
            // Nothing is known: the lock is still there, and so is what may come late.
            return Ok(Renewed::Kept(looked));
        }
        let Ok(before) = shown(looked, &client.path).await else { return Ok(Renewed::Ended) };
        let Ok(token) = HeaderValue::from_str(token) else { return Ok(Renewed::Ended) };
        let unlocked = unlock(&self.client, client, token).await?;
        match unlocked.status() {
            status if status.is_success() => self.note_left(known_as, &client.path, before.version.as_ref()).await,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Ok(Renewed::Kept(unlocked)),
            // It has ended by itself.
            status if status.is_client_error() => return Ok(Renewed::Ended),
            _ => return Ok(Renewed::Kept(unlocked)),
        }
        let mut own = OwnLock::new(&self.client, client);
        let answer = self.client.exchange(own.request(LOCK_TIME).into_request()).await;
        own.note(&answer);
        let (parts, body) = answer?.into_parts();
        let body = answers::read(body, listings::LARGEST).await.unwrap_or_default();
        let Some(lock) = locked(&parts.headers, &body).filter(|_| parts.status.is_success()) else {
            return Ok(Renewed::Ended);
        };
        let now = self.seen(client).await;
        if let Ok(Some(now)) = &now
            && now.is_like(&before)
        {
            own.settle();
            return Ok(Renewed::As(lock.token));
        }
        if let Ok(token) = HeaderValue::from_str(&lock.token)
            && unlock(&self.client, client, token).await.is_ok_and(|answer| answer.status().is_success())
        {
            own.settle();
        }
        now.map(|_| Renewed::Ended)
    }

    /// What the server shows of a file; none if it does not tell.
    pub(super) async fn seen(&self, client: &Caller) -> Result<Option<Shown>, Error> {
        let answer = self.client.exchange(client.look().into_request()).await?;
        Ok(shown(answer, &client.path).await.ok())
    }
}
