//! A client that saves the same file again and again: its lock stays for a moment, and what the server says about the file is
//! asked for before the client asks.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

use dav::RemotePath;
use futures_util::future::join_all;
use http::{Response, StatusCode, header::ACCEPT_ENCODING};
use http_body_util::{BodyExt, Collected};
use serve::AnswerBody;

use super::Account;
use crate::{
    answers,
    file_answer::FileAnswer,
    lingering::{self, LINGER, Lingering, may_linger},
    listings,
    passing::{DEPTH, Passing, TIMEOUT},
    redirector::{Edit, Locked},
};

/// How long a request waits for the release of somebody else's lock.
const PATIENCE: Duration = Duration::from_secs(5);

/// The account that holds a lock.
#[derive(Clone)]
struct Holder(Arc<Account>);

impl PartialEq for Holder {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// The locks of all credentials that outlive their UNLOCK by a moment.
#[derive(Default)]
pub(crate) struct Held(Mutex<Lingering<Holder, Passing>>);

impl Held {
    fn all(&self) -> MutexGuard<'_, Lingering<Holder, Passing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the locks that linger at, below or above what a request touches, but for its own account's, if it goes on
    /// with that.
    pub(crate) fn give_way(
        &self,
        request: &Passing,
        account: Option<&Arc<Account>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let goes_on = |held: &lingering::Held<Holder, Passing>| {
            account.is_some_and(|account| Arc::ptr_eq(&held.holder.0, account))
                && goes_on(request, &held.path, &held.edit)
        };
        let paths = [Some(&request.path), request.destination.as_ref()].into_iter().flatten();
        let due = self.all().touch(paths, goes_on);
        let released: Vec<_> = due
            .into_iter()
            .map(|held| {
                held.holder.0.send_later(held.path.clone(), vec![held.unlock]);
                (held.holder.0, held.path)
            })
            .collect();
        async move {
            if released.is_empty() {
                return;
            }
            let settled = released.iter().map(|(holder, path)| holder.later.settle(path));
            // A holder whose connection hangs holds up nobody else for long: the server then says that the file is locked.
            drop(tokio::time::timeout(PATIENCE, join_all(settled)).await);
        }
    }
}

impl Account {
    /// The answer to a request that goes on with a lock that lingers.
    pub(super) fn resume(self: &Arc<Self>, request: &Passing) -> Option<Response<AnswerBody>> {
        let (holder, now) = (Holder(self.clone()), Instant::now());
        match request.method.as_str() {
            "PROPFIND" if is_look(request) => {
                let shown = self.lingering.all().shown(&holder, &request.path, now);
                if shown.is_none()
                    && let Some(look) = request.again()
                {
                    self.saves().looks(&request.path, look);
                }
                shown.as_ref().map(FileAnswer::multistatus)
            }
            "LOCK" => {
                let taken = self.lingering.all().take(&holder, &request.path, now)?;
                match taken {
                    Ok(held) => {
                        let granted = answers::granted(held.locked.clone());
                        self.note_base(&held.locked.token, request.look(), None);
                        self.saves().edits(held.path, held.locked, held.granted, held.edit);
                        Some(granted)
                    }
                    Err(held) => {
                        self.send_later(held.path, vec![held.unlock]);
                        None
                    }
                }
            }
            _ => None,
        }
    }

    /// Keeps the lock of an edited file for a moment, and sends what was kept. Returns the UNLOCK if it is to be sent now.
    pub(super) fn linger(
        self: &Arc<Self>,
        unlock: Passing,
        (locked, granted, edit): (Locked, Instant, Edit<Passing>),
        kept: &mut Vec<Passing>,
    ) -> Option<Passing> {
        if !may_linger(&locked, granted, Instant::now()) {
            return Some(unlock);
        }
        let (path, look) = (unlock.path.clone(), edit.look.as_ref().and_then(Passing::again));
        let place = (Holder(self.clone()), path.clone());
        let edit = Edit { shown: None, ..edit };
        let number = match self.lingering.all().add(place, (locked, granted), edit, unlock) {
            Ok(number) => number,
            Err(unlock) => return Some(unlock),
        };
        let (account, kept) = (self.clone(), std::mem::take(kept));
        self.begin_later(path, async move {
            let shown = account.send_and_look(kept, look).await;
            account.lingering.all().shows(number, shown);
        });
        let account = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            let due = account.lingering.all().expire(number);
            if let Some(held) = due {
                account.send_later(held.path, vec![held.unlock]);
            }
        });
        None
    }

    /// Sends what was acknowledged, and asks for the file's properties after that.
    async fn send_and_look(self: &Arc<Self>, mut kept: Vec<Passing>, mut look: Option<Passing>) -> Option<FileAnswer> {
        if let Some(look) = &mut look {
            look.headers.remove(ACCEPT_ENCODING);
        }
        let follow_up = look.as_ref().and_then(Passing::again).and_then(Passing::into_follow_up);
        let (last, mut asked, mut seen) = (kept.pop(), Instant::now(), None);
        for request in kept {
            self.send_acknowledged(request, None).await;
        }
        if let Some(last) = last {
            asked = Instant::now();
            seen = self.send_acknowledged(last, follow_up).await;
        }
        let look = look?;
        let path = look.path.clone();
        let answer = match seen {
            Some(seen) => seen.answer().await,
            None => None,
        };
        let body = match answer {
            Some(answer) if answer.status() == StatusCode::MULTI_STATUS => {
                answer.into_body().collect().await.ok().map(Collected::to_bytes)?
            }
            Some(_) => return None,
            None => {
                asked = Instant::now();
                let answer = self.exchange(look).await.ok()?;
                if answer.status() != StatusCode::MULTI_STATUS {
                    return None;
                }
                answers::read(answer.into_body(), listings::LARGEST).await.ok()?
            }
        };
        FileAnswer::parse(&body, &path, asked, self.fresh)
    }

    /// Releases all locks that linger.
    pub(super) fn release_lingering(self: &Arc<Self>) {
        let due = self.lingering.all().of(&Holder(self.clone()));
        for held in due {
            self.send_later(held.path, vec![held.unlock]);
        }
    }

    /// The number of locks that linger.
    pub(super) fn lingering_locks(self: &Arc<Self>) -> usize {
        self.lingering.all().count(&Holder(self.clone()))
    }
}

fn is_look(request: &Passing) -> bool {
    request.method.as_str() == "PROPFIND" && request.text(&DEPTH) == Some("0") && request.is_plain()
}

/// Whether a request is what the client that has edited this file sends when it saves it again.
fn goes_on(request: &Passing, path: &RemotePath, edit: &Edit<Passing>) -> bool {
    if !(request.saver() == Some(edit.template.saver) && request.path.same_place(path)) {
        return false;
    }
    match request.method.as_str() {
        "PROPFIND" => is_look(request) && edit.look.as_ref().is_some_and(|look| look.query() == request.query()),
        "LOCK" => {
            let timeout = edit.template.timeout.as_ref();
            let is_same = request.whole() == Some(&edit.template.body) && request.headers.get(TIMEOUT) == timeout;
            is_same && request.is_plain()
        }
        _ => false,
    }
}
