//! One credential: its connections, what is known of its folders, and the files that its clients are saving.

mod creating;
mod editing;
mod large_files;
mod own_lock;
mod reading;
mod renewal;
mod upload;
mod write_back;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

use bytes::Bytes;
use dav::{RemotePath, Retry};
use haul_http::{Client, FollowUp, FollowUpResponse, Incoming};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header::CONTENT_TYPE};
use serve::AnswerBody;

use crate::{
    answers::{self, LOCK_TOKEN},
    credential::Identity,
    document::Document,
    head::Upstream,
    large_contents::LargeContents,
    later::Later,
    listings::{self, Known, Listings, Room},
    metrics::Metrics,
    passing::{DEPTH, IF, Passing, TIMEOUT},
    prefetch::Prefetch,
    redirector::{Locked, Released, Saves, Step, Template},
    win32,
};

/// How long a client may take to claim a lock, and acknowledged properties may be kept while their file stays open.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pauses between the attempts to send what was acknowledged.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(9)];

/// A credential's part of the gateway.
pub(crate) struct Account {
    client: Client,
    upstream: Arc<Upstream>,
    metrics: Arc<Metrics>,
    /// Whether the server answers 201 to a LOCK that creates a file.
    says_created: AtomicBool,
    /// Whether it has been seen to reserve a name by LOCK, and to list neither length nor version of it.
    reserves_names: AtomicBool,
    listings: Mutex<Listings>,
    saves: Mutex<Saves<Passing>>,
    later: Later,
    write_back: Option<WriteBack>,
    /// When the server has last accepted the credential; none if it has refused it since.
    accepted: Mutex<Option<Instant>>,
    /// Whether the server has refused a request without a password.
    is_asking: AtomicBool,
    /// Of all credentials.
    lingering: Arc<Held>,
    fresh: Duration,
    prefetch: Mutex<Prefetch>,
    /// Of all credentials.
    contents: Arc<SharedContents>,
    /// Of all credentials; none if nothing is kept on disk.
    large_contents: Option<Arc<LargeContents>>,
    /// Of the credential, if it may use them.
    identity: Option<Identity>,
    /// How many files in a row were not as listed.
    is_unlike: AtomicU32,
    renewals: renewal::Renewals,
    /// No other account has it.
    number: u64,
}

/// What all accounts have together.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub(crate) lingering: Arc<Held>,
    pub(crate) contents: Arc<SharedContents>,
    pub(crate) large_contents: Option<Arc<LargeContents>>,
    /// The memory of listings.
    pub(crate) listings: Arc<Room>,
}

pub(crate) use editing::Held;
pub(crate) use reading::SharedContents;
pub(crate) use write_back::WriteBack;

/// Keeps listings from answering for what a request may change, from its begin to its end.
struct Change<'a> {
    account: &'a Account,
    paths: Vec<RemotePath>,
}

impl<'a> Change<'a> {
    fn new(account: &'a Account, paths: impl IntoIterator<Item = RemotePath>) -> Self {
        let change = Self { account, paths: paths.into_iter().collect() };
        change.note();
        change
    }

    fn note(&self) {
        let mut listings = self.account.listings();
        self.paths.iter().for_each(|path| listings.changes(path));
        drop(listings);
        if let Some((contents, owner)) = self.account.large_contents() {
            self.paths.iter().for_each(|path| contents.forget(owner, Some(path)));
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.note();
    }
}

impl Account {
    pub(crate) fn new(
        client: Client,
        upstream: Arc<Upstream>,
        metrics: Arc<Metrics>,
        Shared { lingering, contents, large_contents, listings: room }: Shared,
        fresh: Duration,
        (identity, write_back): (Option<Identity>, Option<WriteBack>),
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let listings = Listings::new(fresh, room).into();
        Self {
            client,
            upstream,
            metrics,
            says_created: AtomicBool::new(true),
            reserves_names: AtomicBool::new(false),
            listings,
            saves: Mutex::default(),
            later: Later::default(),
            write_back,
            accepted: Mutex::default(),
            is_asking: AtomicBool::new(false),
            lingering,
            fresh,
            prefetch: Mutex::default(),
            contents,
            large_contents,
            identity,
            is_unlike: AtomicU32::new(0),
            renewals: renewal::Renewals::default(),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn listings(&self) -> MutexGuard<'_, Listings> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saves(&self) -> MutexGuard<'_, Saves<Passing>> {
        self.saves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files with acknowledged requests that the server has not answered yet.
    pub(crate) fn pending(self: &Arc<Self>) -> usize {
        self.later.paths() + self.saves().kept() + self.lingering_locks()
    }

    /// Whether something would be lost with this account.
    pub(crate) fn is_busy(self: &Arc<Self>) -> bool {
        self.pending() > 0
    }

    async fn exchange(&self, request: Passing) -> Result<Response<Incoming>, haul_http::Error> {
        self.exchange_followed(request, None).await
    }

    /// Sends a request, if possible with another one right behind it, and notes whether there is a server.
    async fn exchange_followed(
        &self,
        request: Passing,
        follow_up: Option<FollowUp>,
    ) -> Result<Response<Incoming>, haul_http::Error> {
        let unlocks =
            (request.method.as_str() == "UNLOCK").then(|| request.text(&LOCK_TOKEN).map(str::to_owned)).flatten();
        let left = match &unlocks {
            Some(token) => self.left_under(token, &request).await,
            None => None,
        };
        let (change, path) = (request.under_lock(), request.path.clone());
        let mut request = match self.renewed(request).await {
            Ok(request) => request.into_request(),
            Err(instead) => return instead,
        };
        if let Some(follow_up) = follow_up {
            request.extensions_mut().insert(follow_up);
        }
        let asked = Instant::now();
        let answer = self.client.exchange(request).await;
        self.renewals.note(change, &answer).await;
        if let Some(token) = unlocks {
            self.renewals.unlocked(&token, &answer);
            if answer.as_ref().is_ok_and(|answer| answer.status().is_success()) {
                self.note_left(&token, &path, left.as_ref()).await;
            }
        }
        if let Ok(answer) = &answer {
            self.learn(asked, answer.status());
        }
        let is_away = |error: &haul_http::Error| error.is_silence() || matches!(error, haul_http::Error::Connect(_));
        self.metrics.is_away.store(answer.as_ref().is_err_and(is_away), Ordering::Relaxed);
        answer
    }

    /// Sends everything that was acknowledged.
    pub(crate) async fn end(self: &Arc<Self>) {
        self.send_kept(&RemotePath::root());
        self.release_lingering();
        self.later.end().await;
    }

    /// Passes a request on, and keeps nothing of it.
    pub(crate) async fn only_pass(&self, request: Passing) -> Result<Response<AnswerBody>, haul_http::Error> {
        self.lingering.give_way(&request, None).await;
        Ok(self.exchange(request).await?.map(answers::streamed))
    }

    /// Answers a request.
    pub(crate) async fn answer(self: &Arc<Self>, request: Passing) -> Result<Response<AnswerBody>, haul_http::Error> {
        self.lingering.give_way(&request, Some(self)).await;
        let saver = request.saver();
        let is_acknowledged = saver.is_some() && self.saves().is_acknowledged(request.ask());
        if !is_acknowledged && !self.settles(&request, &request.path).await {
            return Ok(answers::not_yet());
        }
        let claim = saver.and_then(|_| self.saves().claim(request.ask()));
        if let Some(saver) = saver {
            if let Some(answer) = self.resume(&request) {
                self.metrics.redirector.add();
                return Ok(answer);
            }
            let is_absent = || self.listings().member(&request.path, None, Instant::now()) == Known::Absent;
            let is_absent = request.method == Method::PUT && is_absent();
            let step = self.saves().step(saver, request.ask(), is_absent, Instant::now());
            if !matches!(step, Step::Pass) {
                self.metrics.redirector.add();
            }
            match step {
                Step::Shows(file) if request.is_plain() => return Ok(file.head()),
                Step::Pass | Step::Shows(_) => {}
                Step::Create(template) => return self.clone().create(request, template).await,
                Step::IsLocked(locked) => return Ok(answers::granted(locked)),
                Step::IsEmpty => return Ok(answers::empty_file()),
                Step::Keep => return Ok(self.keep(request)),
                Step::Release => return Ok(self.release(request).await),
            }
        }
        let is_of_a_save = saver.is_some() && request.method == Method::PUT && request.headers.contains_key(IF);
        for path in [Some(&request.path), request.destination.as_ref()].into_iter().flatten() {
            if !is_of_a_save {
                self.send_kept(path);
            }
            if !self.settles(&request, path).await {
                return Ok(answers::not_yet());
            }
        }
        let request = match claim {
            Some(claim) => match Box::pin(self.save(request, claim)).await {
                Ok(answer) => return Ok(answer),
                Err(request) => request,
            },
            None => request,
        };
        if let Some(reading) = self.reading(&request)
            && let Some(answer) = reading.answer().await
        {
            self.metrics.contents.add();
            return Ok(answer);
        }
        if request.is_plain()
            && let Some(known) = self.known(&request)
        {
            self.metrics.listings.add();
            return Ok(known);
        }
        if let Some(part) = self.reads_large(&request) {
            return self.read_large(request, part).await;
        }
        self.pass(request).await
    }

    /// The answer from a listing, if there is one; otherwise there may be one for the next request.
    fn known(self: &Arc<Self>, request: &Passing) -> Option<Response<AnswerBody>> {
        let (query, now) = (request.query(), Instant::now());
        let is_about_one = match request.method.as_str() {
            "PROPFIND" => request.text(&DEPTH) == Some("0"),
            method => matches!(method, "GET" | "HEAD"),
        };
        if is_about_one {
            let known = self.listings().member(&request.path, query.as_ref(), now);
            if let Some(query) = query {
                self.list_ahead(request, &query, now);
            }
            return match known {
                Known::Absent => Some(answers::text(StatusCode::NOT_FOUND, "404: there is no such file or folder\n")),
                Known::Here(answer) => Some(answers::multistatus(answer)),
                Known::Unknown => None,
            };
        }
        let query = query.filter(|_| request.text(&DEPTH) == Some("1"))?;
        self.listings().folder(&request.path, &query, now).map(answers::multistatus)
    }

    /// Lists the folder of the resource that is asked for, if that is worth it.
    fn list_ahead(self: &Arc<Self>, request: &Passing, query: &Bytes, now: Instant) {
        let Some(folder) = request.path.parent().map(|parent| parent.as_folder(true)) else { return };
        let url = self.upstream.at(&folder);
        let Some((url, body)) = url.zip(request.whole().cloned()) else { return };
        if !self.listings().wants_listing(&request.path, query, now) {
            return;
        }
        let mut listing = request.sibling("PROPFIND", url, folder, body);
        if let Some(kind) = request.headers.get(CONTENT_TYPE) {
            listing.headers.insert(CONTENT_TYPE, kind.clone());
        }
        listing.headers.insert(DEPTH, HeaderValue::from_static("1"));
        let account = self.clone();
        tokio::spawn(async move { drop(account.pass(listing).await) });
    }

    /// Sends a request to the server, and notes what its answer tells.
    async fn pass(self: &Arc<Self>, request: Passing) -> Result<Response<AnswerBody>, haul_http::Error> {
        let paths = [Some(request.path.clone()), request.destination.clone()].into_iter().flatten();
        let change = (!request.is_safe()).then(|| Change::new(self, paths));
        let mark = self.listings().mark(Instant::now());
        let path = request.path.clone();
        let listing = request.query().filter(|_| request.text(&DEPTH) == Some("1") && request.is_plain());
        let saver = request.saver();
        let sets_times = saver.is_some() && request.ask().sets_times;
        let saver = saver.filter(|_| request.method.as_str() == "LOCK" && !request.headers.contains_key(IF));
        let timeout = request.headers.get(TIMEOUT).cloned();
        if saver.is_some() {
            self.prepare_to_save(&request);
        }
        let template = saver.zip(request.whole()).map(|(saver, body)| Template { saver, body: body.clone(), timeout });
        if let Some(back) = &self.write_back
            && let Err(error) = back.set_aside(&request).await
        {
            tracing::error!("cannot write the journal: {error}");
            return Ok(answers::not_yet());
        }
        if let Some(back) = self.write_back.as_ref().filter(|_| !request.is_safe()) {
            back.forget_base();
        }
        let look = template.as_ref().filter(|_| self.write_back.is_some()).map(|_| request.look());
        let replaces = matches!(request.method.as_str(), "PUT" | "DELETE");
        let condition = request.text(&IF).filter(|_| replaces).map(str::to_owned);
        let (parts, body) = self.exchange(request).await?.into_parts();
        drop(change);
        let is_good = parts.status.is_success();
        if let Some((back, condition)) = self.write_back.as_ref().zip(condition).filter(|_| is_good) {
            back.journal.overtaken(&back.user, &path, &condition).await;
        }
        if !(is_good && (listing.is_some() || sets_times || template.is_some())) {
            return Ok(Response::from_parts(parts, answers::streamed(body)));
        }
        let body = match answers::read(body, listings::LARGEST).await {
            Ok(body) => body,
            Err(stream) => return Ok(Response::from_parts(parts, stream)),
        };
        if let Some(query) = listing
            && parts.status == StatusCode::MULTI_STATUS
            && let Some(document) = Document::parse(body.clone(), &path.clone().as_folder(true))
        {
            self.listings().listed(&path, query, mark, Arc::new(document));
            // It would otherwise stay until the credential is used again.
            let (account, fresh) = (Arc::downgrade(self), self.fresh);
            tokio::spawn(async move {
                tokio::time::sleep(fresh).await;
                if let Some(account) = account.upgrade() {
                    account.listings().forget_old(Instant::now());
                }
            });
        }
        if sets_times {
            self.saves().times_kept(parts.status == StatusCode::MULTI_STATUS && win32::are_all_set(&body));
        }
        if let Some((template, locked)) = template.zip(locked(&parts.headers, &body)) {
            if let Some(look) = look {
                self.note_base(&locked.token, look, None);
            }
            self.saves().locked(path, template, locked, Instant::now());
        }
        Ok(Response::from_parts(parts, serve::whole(body)))
    }

    /// Acknowledges properties, which are sent when the file is unlocked, or after a while.
    fn keep(self: &Arc<Self>, request: Passing) -> Response<AnswerBody> {
        let names = request.whole().and_then(|body| win32::only_sets(body)).unwrap_or_default();
        let answer = answers::multistatus(win32::all_set(request.url.path(), &names));
        let (account, path) = (self.clone(), request.path.clone());
        self.saves().keep(&path, request);
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            account.send_kept(&path);
        });
        answer
    }

    /// Acknowledges an UNLOCK, which is sent behind what was kept.
    async fn release(self: &Arc<Self>, unlock: Passing) -> Response<AnswerBody> {
        if self.write_back.is_none() {
            self.later.room().await;
        }
        let path = unlock.path.clone();
        let Released { mut kept, is_created, edited } = self.saves().release(&path);
        let unlock = match edited.filter(|_| !is_created) {
            Some(edited) => self.linger(unlock, edited, &mut kept),
            None => Some(unlock),
        };
        if let Some(unlock) = unlock {
            kept.push(unlock);
            self.send_later(path.clone(), kept);
        }
        if is_created {
            self.later.settle(&path).await;
        }
        answers::without_body(StatusCode::NO_CONTENT)
    }

    /// Begins to send what was kept of files at, below or above a path.
    fn send_kept(self: &Arc<Self>, path: &RemotePath) {
        let kept = self.saves().kept_around(path);
        for (path, requests) in kept {
            self.send_later(path, requests);
        }
    }

    /// Begins work at a path, behind what goes on there already.
    fn begin_later(self: &Arc<Self>, path: RemotePath, work: impl Future<Output = ()> + Send + 'static) {
        let (account, at) = (self.clone(), path.clone());
        self.later.begin(path, async move {
            if let Some(back) = &account.write_back {
                back.later.settle(&at).await;
            }
            work.await;
        });
    }

    fn send_later(self: &Arc<Self>, path: RemotePath, requests: Vec<Passing>) {
        let account = self.clone();
        self.begin_later(path, async move {
            for request in requests {
                account.send_acknowledged(request, None).await;
            }
        });
    }

    /// Sends a request whose client has its answer already, a few times if it must; if possible with a look right behind
    /// it. Returns the answer to that.
    async fn send_acknowledged(self: &Arc<Self>, request: Passing, look: Option<FollowUp>) -> Option<FollowUpResponse> {
        let _change = Change::new(self, [request.path.clone()]);
        let mut pauses = PAUSES.into_iter();
        loop {
            let (why, may_pass) = match self.is_done(request.again()?, look.clone()).await {
                Ok(seen) => return seen,
                Err(failed) => failed,
            };
            if let Some(pause) = pauses.next().filter(|_| may_pass) {
                tokio::time::sleep(pause).await;
                continue;
            }
            let (method, path) = (&request.method, request.url.path());
            self.metrics.broken.add();
            tracing::error!("{method} {path}: acknowledged to the client, but it has failed: {why}");
            if request.method.as_str() == "PROPPATCH" {
                self.saves().times_kept(false);
            }
            return None;
        }
    }

    /// Sends a request. An error says why it failed, and whether it may succeed later.
    async fn is_done(
        &self,
        request: Passing,
        follow_up: Option<FollowUp>,
    ) -> Result<Option<FollowUpResponse>, (String, bool)> {
        let sets_properties = request.method.as_str() == "PROPPATCH";
        if let Some(back) = self.write_back.as_ref().filter(|_| sets_properties) {
            back.forget_base();
        }
        let answer = self.exchange_followed(request, follow_up).await.map_err(|error| (error.to_string(), true))?;
        let (status, seen) = (answer.status(), answer.extensions().get::<FollowUpResponse>().cloned());
        if !status.is_success() {
            let may_pass = Retry::after(status) != Retry::Refused;
            return Err((format!("the server answered {}", status.as_u16()), may_pass));
        }
        if sets_properties {
            let body = answers::read(answer.into_body(), listings::LARGEST).await;
            if !body.is_ok_and(|body| win32::are_all_set(&body)) {
                return Err(("the server has not stored all properties".to_owned(), false));
            }
        }
        Ok(seen)
    }
}

fn locked(headers: &HeaderMap, body: &Bytes) -> Option<Locked> {
    let token = headers.get(LOCK_TOKEN)?.to_str().ok()?.trim().to_owned();
    let is_token = token.starts_with('<') && token.ends_with('>') && token.len() > 2;
    is_token.then(|| Locked { token, headers: answers::kept_fields(headers), body: body.clone() })
}
