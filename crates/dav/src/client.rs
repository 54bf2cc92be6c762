//! The verbs: one request each, its answer read and its refusal explained.
//!
//! What passes by itself (425, 429, 502, 503, 504) is waited for, as long as the server asks (`Retry-After`) or a
//! little longer each time, a few times; what changes nothing or may be repeated, only. Requests that were refused
//! together do not come back together: each waits up to half as long again, and a server that says that it is busy
//! (429, 503) says so to all that is asked of it (see `throttle`).
//!
//! A request that was sent more than once may meet its own echo: a MOVE that there is nothing to move any more, a PUT
//! that the file is there already (see `put`). Then it is looked what is there before anybody is told of a failure.

pub(crate) mod clock_offset;
pub(crate) mod compare;
pub(crate) mod confirmation;
pub(crate) mod listing;
mod locking;
mod put;
mod throttle;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use futures_util::FutureExt;
use haul_http::{Answer, Body, Class, Client, Options, Origin, ResponseInfo, Timeouts, is_idempotent};
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::OnceCell;

use self::{
    clock_offset::{ClockOffset, Offset},
    confirmation::Intent,
    listing::entry_of,
    throttle::Throttle,
};
pub use self::{confirmation::Confirmed, locking::Locked, put::Stored};
use crate::{
    Capabilities, ETag, Entry, Error, Failure, If, Item, Multistatus, Precondition, RemotePath, Requests, Setting,
    Wanted,
    content_encoding::beginning,
    nextcloud,
    requests::{Depth, Made},
};

/// A WebDAV server, for one user.
#[derive(Clone)]
pub struct Dav {
    client: Client,
    requests: Requests,
    throttle: Arc<Throttle>,
    capabilities: Arc<OnceCell<Capabilities>>,
    clock: Arc<Mutex<ClockOffset>>,
}

/// So many tries, the first included.
pub(crate) const TRIES: u32 = 5;
/// The first wait where the server names none; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// A server that wants a longer wait than this is not waited for.
const LONGEST_WAIT: Duration = Duration::from_mins(1);
/// How long a server may work on something before its answer begins: copying or deleting a tree.
pub(crate) const LONGEST_WORK: Duration = Duration::from_mins(10);
/// How much of a refusal is read.
const REFUSAL: usize = 64 * 1024;
/// How much of an answer that is short is read.
const SHORT: usize = 4 * 1024 * 1024;

impl Dav {
    /// The server at an origin, through a client that has the user's credentials.
    pub fn new(client: Client, origin: Origin) -> Self {
        Self {
            client,
            requests: Requests::to(origin),
            throttle: Arc::default(),
            capabilities: Arc::default(),
            clock: Arc::default(),
        }
    }

    /// The HTTP client beneath.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// What makes its requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Opens connections before they are needed, and tries on the way whether the server pipelines: the first request
    /// goes behind an `OPTIONS` that nobody waits for, and what would else cost a round trip of its own is known when
    /// the first answer begins, which may be a long listing.
    pub fn warm(&self, path: &RemotePath, connections: usize) {
        self.client.warm(self.requests.origin(), connections);
        let (dav, path) = (self.clone(), path.clone());
        let mut learning = async move { dav.learn(&path).await.map(drop) }.boxed();
        // Begun now: whoever warms asks for something next, and a task would come after that.
        if (&mut learning).now_or_never().is_none() {
            tokio::spawn(learning);
        }
    }

    /// Sends a request about `path` and gives the answer, if it is a success.
    pub async fn send(&self, request: Request<Body>, path: &RemotePath) -> Result<Answer, Error> {
        let (mut parts, mut body) = request.into_parts();
        let method = parts.method.clone();
        let is_large = parts.extensions.get::<Options>().is_some_and(|options| options.class != Class::Small);
        let mut sendings = 0;
        for attempt in 1.. {
            // What takes long does not keep others waiting for its answer.
            let turn = self.throttle.wait().await.filter(|_| !is_large);
            let again = body.again().map(|body| (parts.clone(), body));
            let sent = SystemTime::now();
            let answer = self.client.send(Request::from_parts(parts, body)).await?;
            self.clock().hear(answer.headers(), sent, SystemTime::now());
            let unchanged =
                answer.status() == StatusCode::NOT_MODIFIED && (method == Method::GET || method == Method::HEAD);
            if answer.status().is_success() || unchanged {
                self.throttle.clear();
                return Ok(answer);
            }
            let mut failure = refusal(&method, path, answer).await;
            // A gateway's 502 or 504 says nothing about what became of the request.
            sendings += failure.sendings;
            failure.sendings = sendings;
            let wait = failure.retry_after.unwrap_or(FIRST_WAIT * 2_u32.pow(attempt - 1));
            let busy = is_busy(failure.status) && wait <= LONGEST_WAIT;
            if busy {
                self.throttle.back_off(failure.retry_after);
            } else {
                self.throttle.clear();
            }
            drop(turn);
            match again
                .filter(|_| passes(failure.status) && is_idempotent(&method) && attempt < TRIES && wait <= LONGEST_WAIT)
            {
                Some(again) => (parts, body) = again,
                None => return Err(Box::new(failure).into()),
            }
            // For a busy server one waits with the others.
            if !busy {
                tokio::time::sleep(spread(wait)).await;
            }
        }
        unreachable!("the last attempt returns")
    }

    pub(crate) async fn ask(&self, made: Made, path: &RemotePath, options: Options) -> Result<Answer, Error> {
        let mut request = made?.map(Body::from);
        request.extensions_mut().insert(options);
        self.send(request, path).await
    }

    /// Asks what the server can do at a path. What a Nextcloud says of itself is asked for together with what its
    /// WebDAV says.
    pub async fn options(&self, path: &RemotePath) -> Result<Capabilities, Error> {
        let (answer, told) = futures_util::join!(
            self.ask(self.requests.plain(Method::OPTIONS, path), path, Options::default()),
            self.ocs_capabilities(path)
        );
        let answer = answer?;
        let mut capabilities = Capabilities::from_options(answer.headers());
        drain(answer).await;
        if let Some(told) = told {
            capabilities.add_ocs_capabilities(&told);
        }
        let _ = self.capabilities.set(capabilities.clone());
        Ok(capabilities)
    }

    /// What a Nextcloud or ownCloud says of itself, as JSON; none if the path is on no such server, or it does not say.
    pub async fn ocs_capabilities(&self, path: &RemotePath) -> Option<Bytes> {
        let url = nextcloud::capabilities_url(self.requests.origin(), path)?;
        let request = Request::get(url).header("ocs-apirequest", "true").body(Body::empty()).ok()?;
        let answer = self.client.send(request).await.ok().filter(|answer| answer.status().is_success())?;
        whole(answer).await.ok()
    }

    /// What the server can do, asked for now if it was not yet; who asks while somebody else does waits for that
    /// answer.
    pub async fn learn(&self, path: &RemotePath) -> Result<&Capabilities, Error> {
        self.capabilities.get_or_try_init(|| self.options(path).boxed()).await
    }

    /// What the server can do, if it was asked ([`Dav::options`], [`Dav::learn`], [`Dav::warm`]) and has answered.
    pub fn capabilities(&self) -> Option<&Capabilities> {
        self.capabilities.get()
    }

    /// What is at a path; none if nothing is.
    pub async fn stat(&self, path: &RemotePath, wanted: Wanted) -> Result<Option<Entry>, Error> {
        self.look(path, wanted, Options::default()).await
    }

    /// The same as a hint: that nothing is there may be so of another path that was asked about at the same time.
    pub(crate) async fn glance(&self, path: &RemotePath, wanted: Wanted) -> Result<Option<Entry>, Error> {
        self.look(path, wanted, Options { tentative: true, ..Options::default() }).await
    }

    async fn look(&self, path: &RemotePath, wanted: Wanted, options: Options) -> Result<Option<Entry>, Error> {
        let found = async |options| {
            let asked = self.ask(self.requests.propfind(path, Depth::Zero, wanted), path, options).await?;
            entry_of(asked, path).await
        };
        let first = found(options).await;
        let found = match first {
            // The answer tells of something else, perhaps of what another request was about.
            Ok(None) => found(Options { alone: true, ..Options::default() }).await,
            found => found,
        };
        match found {
            Err(error) if error.is(404) => Ok(None),
            found => found,
        }
    }

    /// Whether a file is there, in this state. After a 412 this tells a server that knows no states from a change.
    pub async fn is_still(&self, path: &RemotePath, tag: &ETag) -> bool {
        let found = self.stat(path, Wanted::LISTING).await.ok().flatten();
        found.is_some_and(|found| !found.path.is_folder() && found.properties.etag.as_ref() == Some(tag))
    }

    /// Begins to fetch a file; `headers` may ask for a range or name a condition.
    pub async fn get(&self, path: &RemotePath, headers: HeaderMap, options: Options) -> Result<Answer, Error> {
        let mut request = self.requests.plain(Method::GET, path)?;
        request.headers_mut().extend(headers);
        self.ask(Ok(request), path, options).await
    }

    /// What the server says of a file without sending it; `headers` may ask for digests.
    pub async fn head(&self, path: &RemotePath, headers: HeaderMap) -> Result<HeaderMap, Error> {
        let mut request = self.requests.plain(Method::HEAD, path)?;
        request.headers_mut().extend(headers);
        let answer = self.ask(Ok(request), path, Options::default()).await?;
        let headers = answer.headers().clone();
        drain(answer).await;
        Ok(headers)
    }

    /// How far the server's clock is from ours, if it has told.
    pub(crate) fn clock_offset(&self) -> Option<Offset> {
        self.clock().offset()
    }

    fn clock(&self) -> MutexGuard<'_, ClockOffset> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether requests may stand behind others on a connection, as far as the server is known.
    pub(crate) fn pipelines(&self) -> bool {
        self.client.pipelines(self.requests.origin())
    }

    /// Makes a folder; none if it was there before.
    pub async fn mkcol(&self, path: &RemotePath) -> Result<Option<Confirmed>, Error> {
        self.mkcol_among(path, false).await
    }

    /// The same, and the request may share its connection with others: the caller looks at the outcome.
    pub(crate) async fn mkcol_among(&self, path: &RemotePath, pipeline: bool) -> Result<Option<Confirmed>, Error> {
        let options = Options { pipeline, ..Options::default() };
        match self.mkcol_with(path, HeaderMap::new(), options).await {
            Ok(done) => Ok(Some(done)),
            // Something is there. A folder, as a rule: the way to know is to look, and to be sure it is left to who
            // cares. That is a 405 (RFC 4918 §9.3.1), and with some servers another refusal.
            Err(error) if error.refusal().is_some() => match self.stat(path, Wanted::LISTING).await? {
                Some(entry) if entry.path.is_folder() => Ok(None),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// The same, without a look at what is there if it is refused.
    pub(crate) async fn try_mkcol(&self, path: &RemotePath) -> Result<Confirmed, Error> {
        self.mkcol_with(path, HeaderMap::new(), Options::default()).await
    }

    /// The same, with headers that mean something to this server.
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

    /// A request whose answer says nothing but that it was done.
    async fn done(&self, made: Made, path: &RemotePath, options: Options) -> Result<(), Error> {
        drain(self.ask(made, path, options).await?).await;
        Ok(())
    }

    /// A request whose answer may tell of parts that failed.
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
        self.parts(answer, path, &method, other).await
    }

    /// Deletes a file, or a folder with all that is in it.
    pub async fn delete(&self, path: &RemotePath, precondition: &Precondition, locks: &If) -> Result<Confirmed, Error> {
        self.delete_among(path, precondition, locks, false).await
    }

    /// The same, and a file's deletion may share its connection with others: the caller looks at the outcome.
    pub(crate) async fn delete_among(
        &self,
        path: &RemotePath,
        precondition: &Precondition,
        locks: &If,
        pipeline: bool,
    ) -> Result<Confirmed, Error> {
        let options = if path.is_folder() { slow() } else { Options { pipeline, ..Options::default() } };
        let deleted = self.done_in_parts(self.requests.delete(path, precondition, locks), path, options, None).await;
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
        let copied = self.done_in_parts(request, from, slow(), Some(to)).await;
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
        // A file keeps its bytes where they are.
        let options = if from.is_folder() { slow() } else { Options { class: Class::Large, ..Options::default() } };
        let request = self.requests.rename(from, to, overwrite, locks);
        let moved = self.done_in_parts(request, from, options, Some(to)).await;
        self.confirmed(moved, Intent::Move { left: from, to }).await
    }

    /// Makes one file of the chunks in a folder of a Nextcloud, which goes with that (MOVE of its `.file`).
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
            let answer = self.ask(Ok(request), to, slow()).await?;
            self.parts(answer, &from, &method, Some(to)).await
        };
        self.confirmed(assembled.await, Intent::Move { left: chunks, to }).await
    }

    /// Sets properties.
    pub async fn proppatch(&self, path: &RemotePath, settings: &[Setting], locks: &If) -> Result<Confirmed, Error> {
        let request = self.requests.proppatch(path, settings, locks);
        let set = self.done_in_parts(request, path, Options::default(), None).await;
        self.confirmed(set, Intent::Set(path, settings)).await
    }

    /// A success that may name parts that failed (RFC 4918 §13).
    async fn parts(
        &self,
        answer: Answer,
        path: &RemotePath,
        method: &Method,
        other: Option<&RemotePath>,
    ) -> Result<(), Error> {
        if answer.status() != StatusCode::MULTI_STATUS {
            drain(answer).await;
            return Ok(());
        }
        let body = whole(answer).await?;
        let mut reader = Multistatus::new(path.clone());
        if let Some(other) = other {
            reader = reader.or_below(other.clone());
        }
        let listing = |why| Error::Listing { path: path.clone(), why };
        let items: Vec<Item> = reader.feed(&body).collect::<Result<_, _>>().map_err(listing)?;
        reader.finish().map_err(listing)?;
        for item in items {
            match item {
                Item::Entry(entry) => {
                    let refused = entry.status.into_iter().chain(entry.refused.iter().map(|(_, status)| *status));
                    if let Some(status) = refused.into_iter().find(|status| !status.is_success()) {
                        return Err(Box::new(Failure::of_part(method, &entry.path, status, entry.conditions)).into());
                    }
                }
                // It may be this one's failure, under a name that a proxy has made of it.
                Item::Misplaced(other) => {
                    let why = format!("it is not known what was done, as the server tells of something else: {other}");
                    return Err(Error::Differs { path: path.clone(), why });
                }
            }
        }
        Ok(())
    }
}

/// The way of what the server takes its time for.
fn slow() -> Options {
    let timeouts = Timeouts { first_byte: LONGEST_WORK, ..Timeouts::default() };
    Options { class: Class::Large, timeouts: Some(timeouts), ..Options::default() }
}

/// Whether the same request may be taken later.
fn passes(status: StatusCode) -> bool {
    is_busy(status) || matches!(status.as_u16(), 425 | 502 | 504)
}

/// Whether the server wants less of everything.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 503)
}

/// Reads a refusal as far as it is of use.
async fn refusal(method: &Method, path: &RemotePath, answer: Answer) -> Failure {
    let sendings = answer.extensions().get::<ResponseInfo>().map_or(1, |info| info.sendings);
    let (parts, mut body) = answer.into_parts();
    let mut text = Vec::new();
    while text.len() < REFUSAL
        && let Some(Ok(frame)) = body.frame().await
    {
        text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    let text = beginning(&parts.headers, text.into(), REFUSAL);
    let mut failure = Failure::new(method, path, parts.status, &parts.headers, &text, SystemTime::now());
    failure.sendings = sendings;
    failure
}

/// Reads an answer's body, which is short; one that is not is cut.
pub(crate) async fn whole(answer: Answer) -> Result<Bytes, Error> {
    let mut body = answer.into_body();
    let mut text = Vec::new();
    while text.len() < SHORT
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame?.into_data() {
            text.extend_from_slice(&data);
        }
    }
    Ok(text.into())
}

/// Reads an answer's body and forgets it: what matters has been said in its head. The connection is worth so much
/// waiting, and no more.
pub(crate) async fn drain(answer: Answer) {
    let mut body = answer.into_body();
    let mut length = 0;
    while length < SHORT
        && let Some(Ok(frame)) = body.frame().await
    {
        length += frame.data_ref().map_or(0, Bytes::len);
    }
}

/// The wait, and up to half as much again.
fn spread(wait: Duration) -> Duration {
    let random = RandomState::new().hash_one(wait) >> 32;
    wait + wait.mul_f64(random as f64 / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_refused_together_does_not_come_back_together() {
        let wait = Duration::from_secs(2);
        let waits: std::collections::BTreeSet<_> = (0..20).map(|_| spread(wait)).collect();
        assert!(waits.len() > 1 && waits.iter().all(|spread| (wait..=wait * 3 / 2).contains(spread)));
        assert_eq!(spread(Duration::ZERO), Duration::ZERO);
    }
}
