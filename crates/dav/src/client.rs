//! The verbs: each method sends one request, reads the answer and explains an error.
//!
//! Idempotent requests that fail for a reason that passes by itself (408, 425, 429, 502, 503, 504) are repeated a few times,
//! after the time that the server names (`Retry-After`) or with exponential backoff. The pause has a random part, so that
//! requests that were refused together do not come back together. If the server is busy (429, 503), all requests to it
//! wait (`throttle`). A [`RetryLimit`] bounds the retries of a whole command.
//!
//! A request that was sent more than once may be refused because its first sending took effect: a MOVE of something that
//! has already moved, a PUT of a file that already exists. So before such an error is reported, a PROPFIND checks whether
//! the request was in fact done (`confirmation`, `put`).

pub(crate) mod clock_offset;
pub(crate) mod compare;
mod conditions;
pub(crate) mod confirmation;
pub(crate) mod listing;
mod locking;
mod put;
mod response;
mod retry_limit;
mod throttle;

use std::{
    hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::FutureExt;
use haul_http::{Answer, Body, Class, Client, Options, Origin, ResponseInfo, Timeouts, is_idempotent};
use http::{HeaderMap, Method, Request, StatusCode};
use tokio::sync::OnceCell;

use self::response::{check_parts, refusal};
pub(crate) use self::response::{drain, whole};
use self::{
    clock_offset::{ClockOffset, Offset},
    confirmation::Intent,
    listing::entry_of,
    throttle::Throttle,
};
pub use self::{confirmation::Confirmed, locking::Locked, put::Stored, retry_limit::RetryLimit};
use crate::{
    Capabilities, ETag, Entry, Error, If, Precondition, PropertySet, QName, RemotePath, Requests, Setting, nextcloud,
    requests::{Depth, Made},
    retry::Retry,
};

/// A client for one WebDAV server and one user. Clones share its connections and what it has learned.
#[derive(Clone)]
pub struct Dav {
    client: Client,
    requests: Requests,
    throttle: Arc<Throttle>,
    retry_limit: Option<Arc<RetryLimit>>,
    capabilities: Arc<OnceCell<Capabilities>>,
    clock: Arc<Mutex<ClockOffset>>,
    /// What the random part of pauses is drawn from.
    pauses: Arc<AtomicU64>,
}

/// Maximum number of attempts.
pub(crate) const TRIES: u32 = 5;
/// The first pause if the server names none; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// If the server asks for a longer pause than this, the request fails.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How long a server may work on something before its answer begins: copying or deleting a tree.
pub(crate) const LONGEST_WORK: Duration = Duration::from_mins(10);
impl Dav {
    /// A client for the server at `origin`; `client` holds the credentials.
    pub fn new(client: Client, origin: Origin) -> Self {
        Self {
            client,
            requests: Requests::to(origin),
            throttle: Arc::default(),
            retry_limit: None,
            capabilities: Arc::default(),
            clock: Arc::default(),
            pauses: Arc::new(RandomState::new().hash_one(()).into()),
        }
    }

    /// With pauses before retries that are the same in each run, for simulations.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { pauses: Arc::new(seed.into()), ..self }
    }

    /// With a limit on all retries together.
    #[must_use]
    pub fn with_retry_limit(self, limit: Arc<RetryLimit>) -> Self {
        Self { retry_limit: Some(limit), ..self }
    }

    /// The HTTP client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Builds the requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Opens connections before they are needed, and tests pipelining at no cost: the first request follows an
    /// `OPTIONS` on the same connection without waiting for it. Its answer shows whether the server pipelines before
    /// the first real answer, which may be a long listing, has arrived.
    pub fn warm(&self, path: &RemotePath, connections: usize) {
        self.client.preconnect(self.requests.origin(), connections);
        let (dav, path) = (self.clone(), path.clone());
        let mut learning = async move { dav.learn(&path).await.map(drop) }.boxed();
        // Polled now: the caller sends its next request right away, and a spawned task would run after that.
        if (&mut learning).now_or_never().is_none() {
            tokio::spawn(learning);
        }
    }

    /// Sends a request about `path`, and returns the response if it is a success. Repeats it as the module describes.
    pub async fn send(&self, request: Request<Body>, path: &RemotePath) -> Result<Answer, Error> {
        let (mut parts, mut body) = request.into_parts();
        let method = parts.method.clone();
        let is_large = parts.extensions.get::<Options>().is_some_and(|options| options.class != Class::Small);
        let (mut times_sent, mut unanswered, mut pauses) = (0, 0, Duration::ZERO);
        let patience = self.client.patience();
        let mut earlier = None;
        for attempt in 1.. {
            // A large transfer does not hold the others back until its answer arrives.
            let turn = within(patience, self.throttle.wait()).await.flatten().filter(|_| !is_large);
            let again = body.try_clone().map(|body| (parts.clone(), body));
            let sent = SystemTime::now();
            let mut answer = match (self.client.send(Request::from_parts(parts, body)).await, earlier.take()) {
                // The refused one may have taken effect; this one has not.
                (Err(haul_http::Error::Connect(_)), Some(failure)) => return Err(Error::Refused(failure)),
                (answer, _) => answer?,
            };
            self.clock().hear(answer.headers(), sent, SystemTime::now());
            let unchanged =
                answer.status() == StatusCode::NOT_MODIFIED && (method == Method::GET || method == Method::HEAD);
            if answer.status().is_success() || unchanged {
                self.throttle.clear();
                self.end_outage();
                if let Some(info) = answer.extensions_mut().get_mut::<ResponseInfo>() {
                    info.sendings += unanswered;
                }
                return Ok(answer);
            }
            let mut failure = refusal(&method, path, answer).await;
            // After a gateway's 502 or 504 the request may have taken effect.
            times_sent += failure.times_sent;
            unanswered += failure.times_sent - u32::from(!is_of_gateway(failure.status));
            failure.times_sent = times_sent;
            let wait = failure.retry_after.unwrap_or(FIRST_WAIT * 2_u32.pow(attempt - 1));
            let busy = is_busy(failure.status) && wait <= LONGEST_WAIT;
            if busy {
                self.throttle.back_off(failure.retry_after);
            } else {
                self.throttle.clear();
            }
            drop(turn);
            if !passes(failure.status) {
                self.end_outage();
                return Err(Box::new(failure).into());
            }
            pauses += wait;
            let may_wait = wait <= LONGEST_WAIT && patience.is_none_or(|patience| pauses <= patience);
            let pause = if busy { wait } else { spread(wait, &self.pauses) };
            let is_allowed = || self.retry_limit.as_ref().is_none_or(|limit| limit.allows(&failure, pause));
            match again.filter(|_| is_idempotent(&method) && attempt < TRIES && may_wait && is_allowed()) {
                Some(again) => (parts, body) = again,
                None => return Err(Box::new(failure).into()),
            }
            earlier = Some(Box::new(failure));
            // For a busy server, `throttle` waits.
            if !busy {
                tokio::time::sleep(pause).await;
            }
        }
        unreachable!("the last attempt returns")
    }

    /// The server works.
    fn end_outage(&self) {
        if let Some(limit) = &self.retry_limit {
            limit.clear();
        }
    }

    pub(crate) async fn ask(&self, made: Made, path: &RemotePath, options: Options) -> Result<Answer, Error> {
        let mut request = made?.map(Body::from);
        request.extensions_mut().insert(options);
        self.send(request, path).await
    }

    /// Requests the capabilities of a path: OPTIONS, and at the same time a Nextcloud's capabilities document.
    pub async fn options(&self, path: &RemotePath) -> Result<Capabilities, Error> {
        let (answer, document) = futures_util::join!(
            self.ask(self.requests.plain(Method::OPTIONS, path), path, Options::default()),
            self.ocs_capabilities(path)
        );
        let answer = answer?;
        let mut capabilities = Capabilities::from_options(answer.headers());
        drain(answer).await;
        if let Some(document) = document {
            capabilities.add_ocs_capabilities(&document);
        }
        let _ = self.capabilities.set(capabilities.clone());
        Ok(capabilities)
    }

    /// The capabilities document of a Nextcloud or ownCloud, as JSON; none if the path is not on such a server, or it
    /// sends none.
    pub async fn ocs_capabilities(&self, path: &RemotePath) -> Option<Bytes> {
        let url = nextcloud::capabilities_url(self.requests.origin(), path)?;
        let request = Request::get(url).header("ocs-apirequest", "true").body(Body::empty()).ok()?;
        let answer = self.client.send(request).await.ok().filter(|answer| answer.status().is_success())?;
        whole(answer).await.ok()
    }

    /// The server's capabilities, requested now unless they are known. Concurrent callers share one request.
    pub async fn learn(&self, path: &RemotePath) -> Result<&Capabilities, Error> {
        self.capabilities.get_or_try_init(|| self.options(path).boxed()).await
    }

    /// The server's capabilities, if [`Dav::options`], [`Dav::learn`] or [`Dav::warm`] has received them.
    pub fn capabilities(&self) -> Option<&Capabilities> {
        self.capabilities.get()
    }

    /// The resource at a path; none if there is none.
    pub async fn stat(&self, path: &RemotePath, properties: PropertySet) -> Result<Option<Entry>, Error> {
        self.look(path, properties, Options::default()).await
    }

    /// The same as a hint: "none" may be the answer about another path that was requested at the same time.
    pub(crate) async fn glance(&self, path: &RemotePath, properties: PropertySet) -> Result<Option<Entry>, Error> {
        self.look(path, properties, Options { accept_unverified_refusal: true, ..Options::default() }).await
    }

    async fn look(&self, path: &RemotePath, properties: PropertySet, options: Options) -> Result<Option<Entry>, Error> {
        let found = async |options| {
            let answer = self.ask(self.requests.propfind(path, Depth::Zero, properties), path, options).await?;
            entry_of(answer, path).await
        };
        let first = found(options).await;
        let found = match first {
            // The answer is about another path, perhaps that of another request.
            Ok(None) => found(Options { no_pipelining: true, ..Options::default() }).await,
            found => found,
        };
        match found {
            Err(error) if error.is(404) => Ok(None),
            found => found,
        }
    }

    /// Whether a file still has this entity tag. After a 412, this tells a server without ETags in `If` from an edit
    /// conflict.
    pub async fn is_still(&self, path: &RemotePath, tag: &ETag) -> bool {
        let found = self.stat(path, PropertySet::LISTING).await.ok().flatten();
        let is = |etag: ETag| etag.resembles(tag);
        found.is_some_and(|found| !found.path.is_folder() && found.properties.etag.is_some_and(is))
    }

    /// Starts a GET; `headers` may hold a range or a precondition.
    pub async fn get(&self, path: &RemotePath, headers: HeaderMap, options: Options) -> Result<Answer, Error> {
        let mut request = self.requests.plain(Method::GET, path)?;
        request.headers_mut().extend(headers);
        self.ask(Ok(request), path, options).await
    }

    /// The headers of a file (HEAD); `headers` may ask for digests.
    pub async fn head(&self, path: &RemotePath, headers: HeaderMap) -> Result<HeaderMap, Error> {
        let mut request = self.requests.plain(Method::HEAD, path)?;
        request.headers_mut().extend(headers);
        let answer = self.ask(Ok(request), path, Options::default()).await?;
        let headers = answer.headers().clone();
        drain(answer).await;
        Ok(headers)
    }

    /// The offset of the server's clock from ours, if a response has shown it.
    pub(crate) fn clock_offset(&self) -> Option<Offset> {
        self.clock().offset()
    }

    fn clock(&self) -> MutexGuard<'_, ClockOffset> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests to this server may be pipelined, as far as is known.
    pub(crate) fn pipelines(&self) -> bool {
        self.client.pipelines(self.requests.origin())
    }

    /// Creates a folder; none if it existed already.
    pub async fn mkcol(&self, path: &RemotePath) -> Result<Option<Confirmed>, Error> {
        self.mkcol_among(path, false).await
    }

    /// The same, and with `pipeline` the request may share its connection with others: then the caller verifies the
    /// outcome.
    pub(crate) async fn mkcol_among(&self, path: &RemotePath, pipeline: bool) -> Result<Option<Confirmed>, Error> {
        let options = Options { pipeline, ..Options::default() };
        match self.mkcol_with(path, HeaderMap::new(), options).await {
            Ok(done) => Ok(Some(done)),
            // Something exists, as a rule a folder: a PROPFIND shows it. The status is 405 (RFC 4918 §9.3.1), with some
            // servers another one.
            Err(error) if error.refusal().is_some() => match self.stat(path, PropertySet::LISTING).await? {
                Some(entry) if entry.path.is_folder() => Ok(None),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// The same, without a PROPFIND if it is refused.
    pub(crate) async fn try_mkcol(&self, path: &RemotePath) -> Result<Confirmed, Error> {
        self.mkcol_with(path, HeaderMap::new(), Options::default()).await
    }

    /// The same, with headers for this server.
    pub(crate) async fn mkcol_with(
        &self,
        path: &RemotePath,
        headers: HeaderMap,
        options: Options,
    ) -> Result<Confirmed, Error> {
        let mut request = self.requests.mkcol(path, &If::default())?;
        request.headers_mut().extend(headers);
        let made = self.done(Ok(request), path, options).await;
        self.confirmed(made, Intent::Make(path)).await
    }

    /// A request whose answer has no content of interest.
    async fn done(&self, made: Made, path: &RemotePath, options: Options) -> Result<(), Error> {
        drain(self.ask(made, path, options).await?).await;
        Ok(())
    }

    /// A request whose answer may list parts that failed.
    async fn done_in_parts(
        &self,
        made: Made,
        path: &RemotePath,
        options: Options,
        other: Option<&RemotePath>,
    ) -> Result<(), Error> {
        let made = made?;
        let method = made.method().clone();
        let answer = self.ask(Ok(made), path, options).await?;
        check_parts(answer, path, &method, other).await
    }

    /// Deletes a file, or a folder with its contents.
    pub async fn delete(&self, path: &RemotePath, precondition: &Precondition, locks: &If) -> Result<Confirmed, Error> {
        self.delete_among(path, precondition, locks, false).await
    }

    /// The same, and with `pipeline` a file's deletion may share its connection with others: then the caller verifies
    /// the outcome.
    pub(crate) async fn delete_among(
        &self,
        path: &RemotePath,
        precondition: &Precondition,
        locks: &If,
        pipeline: bool,
    ) -> Result<Confirmed, Error> {
        let no_repeat_after_silence = self.fence(path, precondition, locks).gives_up(pipeline);
        let options = Options { pipeline, no_repeat_after_silence, ..Options::default() };
        let options = if path.is_folder() { self.slow() } else { options };
        let request = self.requests.delete(path, precondition, &self.claims(path, precondition, locks));
        let deleted = self.done_in_parts(request, path, options, None).await;
        self.confirmed(deleted, Intent::Delete(path)).await
    }

    /// Copies on the server.
    pub async fn copy(
        &self,
        from: &RemotePath,
        to: &RemotePath,
        overwrite: bool,
        claims: &If,
    ) -> Result<Confirmed, Error> {
        let request = self.requests.copy(from, to, overwrite, Depth::Infinity, claims);
        let copied = self.done_in_parts(request, from, self.slow(), Some(to)).await;
        self.confirmed(copied, Intent::Copy { from, to }).await
    }

    /// Renames on the server.
    pub async fn rename(
        &self,
        from: &RemotePath,
        to: &RemotePath,
        overwrite: bool,
        locks: &If,
    ) -> Result<Confirmed, Error> {
        self.rename_version(from, &Precondition::None, to, overwrite, locks).await
    }

    /// The same, with a precondition on what is renamed.
    pub async fn rename_version(
        &self,
        from: &RemotePath,
        precondition: &Precondition,
        to: &RemotePath,
        overwrite: bool,
        locks: &If,
    ) -> Result<Confirmed, Error> {
        // A file keeps its bytes where they are.
        let options =
            if from.is_folder() { self.slow() } else { Options { class: Class::Large, ..Options::default() } };
        let mut request = self.requests.rename(from, to, overwrite, &self.claims(from, precondition, locks))?;
        precondition.apply(request.headers_mut());
        let moved = self.done_in_parts(Ok(request), from, options, Some(to)).await;
        self.confirmed(moved, Intent::Move { left: from, to }).await
    }

    /// Joins the chunks in a Nextcloud's upload folder to one file (MOVE of its `.file`). The folder disappears.
    pub(crate) async fn assemble(
        &self,
        chunks: &RemotePath,
        to: &RemotePath,
        overwrite: bool,
        locks: &If,
        headers: HeaderMap,
    ) -> Result<Confirmed, Error> {
        let from = chunks.join(b".file", false)?;
        let mut request = self.requests.rename(&from, to, overwrite, locks)?;
        request.headers_mut().extend(headers);
        let method = request.method().clone();
        let assembled = async {
            let answer = self.ask(Ok(request), to, self.slow()).await?;
            check_parts(answer, &from, &method, Some(to)).await
        };
        self.confirmed(assembled.await, Intent::Move { left: chunks, to }).await
    }

    /// All properties of a resource that are not the server's own, with their texts; none if there is no such resource.
    pub async fn dead_properties(&self, path: &RemotePath) -> Result<Option<Vec<(QName, String)>>, Error> {
        let answer = self.ask(self.requests.propfind_all(path), path, Options::default()).await;
        let found = match answer {
            Ok(answer) => entry_of(answer, path).await?,
            Err(error) if error.is(404) => None,
            Err(error) => return Err(error),
        };
        let is_dead = |(name, _): &(QName, String)| !name.is_of_server();
        Ok(found.map(|found| found.properties.others.into_iter().filter(is_dead).collect()))
    }

    /// Sets a dead property to a text, or removes it.
    pub async fn set_property(
        &self,
        path: &RemotePath,
        name: &QName,
        text: Option<&str>,
        locks: &If,
    ) -> Result<(), Error> {
        self.done_in_parts(self.requests.set_property(path, name, text, locks), path, Options::default(), None).await
    }

    /// The options of a request that the server may work on for long, as far as the caller has patience.
    fn slow(&self) -> Options {
        let first_byte = self.client.patience().map_or(LONGEST_WORK, |patience| patience.min(LONGEST_WORK));
        let timeouts = Timeouts { first_byte, ..self.client.timeouts() };
        Options { class: Class::Large, timeouts: Some(timeouts), ..Options::default() }
    }

    /// How long to look whether a request without an answer took effect, at most `usual`.
    pub(crate) fn look_limit(&self, usual: Duration) -> Duration {
        self.client.patience().map_or(usual, |patience| patience.min(usual))
    }

    /// Sets properties.
    pub async fn proppatch(&self, path: &RemotePath, settings: &[Setting], locks: &If) -> Result<Confirmed, Error> {
        let request = self.requests.proppatch(path, settings, locks);
        let set = self.done_in_parts(request, path, Options::default(), None).await;
        self.confirmed(set, Intent::Set(path, settings)).await
    }
}

/// Waits for something, with a bound if the caller has one.
async fn within<T>(bound: Option<Duration>, what: impl Future<Output = T>) -> Option<T> {
    match bound {
        Some(bound) => tokio::time::timeout(bound, what).await.ok(),
        None => Some(what.await),
    }
}

/// Whether the server may accept the same request later.
fn passes(status: StatusCode) -> bool {
    Retry::after(status) == Retry::Soon
}

/// Whether a gateway has had no answer from the server.
fn is_of_gateway(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502 | 504)
}

/// Whether the server asks for fewer requests.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 503)
}

/// The pause, plus a random share of up to half of it.
fn spread(wait: Duration, random: &AtomicU64) -> Duration {
    let mut hasher = DefaultHasher::new();
    (wait, random.fetch_add(1, Ordering::Relaxed)).hash(&mut hasher);
    let random = hasher.finish() >> 32;
    wait + wait.mul_f64(random as f64 / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_refused_together_are_retried_at_different_times() {
        let wait = Duration::from_secs(2);
        let random = AtomicU64::default();
        let waits: std::collections::BTreeSet<_> = (0..20).map(|_| spread(wait, &random)).collect();
        assert!(waits.len() > 1 && waits.iter().all(|spread| (wait..=wait * 3 / 2).contains(spread)));
        assert_eq!(spread(Duration::ZERO, &random), Duration::ZERO);
    }
}
