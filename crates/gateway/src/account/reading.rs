//! Reading small files: from memory, if a listing shows that it has the server's version; and fetched before they are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering};
use tokio::time::Instant;

use bytes::Bytes;
use dav::{ETag, RemotePath, siblings::LARGEST};
use haul_http::{Class, Expected, Options};
use http::{
    HeaderMap, Method, Response, StatusCode,
    header::{
        ACCEPT_ENCODING, AGE, CACHE_CONTROL, CONTENT_ENCODING, DATE, ETAG, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
        IF_RANGE, IF_UNMODIFIED_SINCE, PRAGMA, RANGE, SET_COOKIE, VARY,
    },
};
use serve::AnswerBody;
use tokio::sync::watch;

use super::Account;
use crate::{
    answers,
    contents::{Content, Contents, Found},
    files::File,
    passing::Passing,
    redirector::Saver,
};

/// After so many answers in a row that are not what the listing says, nothing is fetched ahead any more.
const UNLIKE: u32 = 3;

/// The contents of all credentials.
#[derive(Default)]
pub(crate) struct SharedContents(Mutex<Contents<watch::Receiver<()>>>);

impl SharedContents {
    fn all(&self) -> MutexGuard<'_, Contents<watch::Receiver<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.all().bytes()
    }
}

/// A request for a file that a fresh listing shows.
pub(super) struct Reading {
    account: Arc<Account>,
    file: File,
    is_head: bool,
}

/// The place for a content that is being fetched. Dropped without one, the content is given up, and nobody waits for it longer.
struct Reserved {
    account: Arc<Account>,
    path: RemotePath,
    number: u64,
    content: Option<Content>,
    _wakes: watch::Sender<()>,
}

impl Reserved {
    fn fill(mut self, content: Option<Content>) {
        self.content = content;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let content = self.content.take();
        self.account.contents.all().arrives(self.account.number, &self.path, self.number, content);
    }
}

impl Account {
    /// The file that a request reads, if a listing shows it; fetches it, and those that will probably be read next.
    pub(super) fn reading(self: &Arc<Self>, request: &Passing) -> Option<Reading> {
        let is_head = request.method == Method::HEAD;
        let may_answer = (is_head || request.method == Method::GET) && request.is_plain() && may_be_cached(request);
        if !may_answer || self.is_unlike.load(Ordering::Relaxed) >= UNLIKE {
            return None;
        }
        let document = self.listings().document(&request.path, Instant::now())?;
        let files = document.files();
        let name = request.path.name()?;
        let (_, file) = files.get(name).filter(|(_, file)| file.path.same_place(&request.path))?;
        if !is_head {
            let folder = request.path.parent()?.as_folder(false);
            if file.facts.length <= LARGEST {
                self.fetch(request, file);
            }
            let wanted = self.prefetch.lock().unwrap_or_else(PoisonError::into_inner).read(&folder, files, name);
            for number in wanted {
                self.fetch(request, &files[number]);
            }
        }
        Some(Reading { account: self.clone(), file: file.clone(), is_head })
    }

    /// Begins to fetch a file, unless it is here or being fetched.
    fn fetch(self: &Arc<Self>, request: &Passing, file: &File) {
        let (wakes, wait) = watch::channel(());
        let Some(url) = self.upstream.at(&file.path) else { return };
        let Some(number) = self.contents.all().expect(self.number, file, wait, Instant::now()) else { return };
        let reserved =
            Reserved { account: self.clone(), path: file.path.clone(), number, content: None, _wakes: wakes };
        let mut get = request.sibling("GET", url, file.path.clone(), Bytes::new());
        get.headers.remove(ACCEPT_ENCODING);
        let facts = &file.facts;
        let expected =
            Expected { etag: Some(facts.etag.to_string()), length: Some(facts.length), modified: facts.modified };
        let options = Options { class: Class::Small, expected, ..Options::default() };
        let (account, etag) = (self.clone(), facts.etag.clone());
        tokio::spawn(async move {
            // All of it, also where this returns early.
            let reserved = reserved;
            let mut get = get.into_request();
            get.extensions_mut().insert(options);
            let Ok(answer) = account.client.exchange(get).await else { return };
            let (parts, body) = answer.into_parts();
            match parts.status {
                StatusCode::OK if is_as_listed(&parts.headers, &etag) => {
                    account.is_unlike.store(0, Ordering::Relaxed);
                    let largest = usize::try_from(LARGEST).unwrap_or(usize::MAX);
                    let body = answers::read(body, largest).await.ok();
                    reserved.fill(body.map(|body| Content { headers: kept(parts.headers), body }));
                }
                StatusCode::OK => drop(account.is_unlike.fetch_add(1, Ordering::Relaxed)),
                // The credential is not valid any more.
                StatusCode::UNAUTHORIZED => {
                    account.is_unlike.store(UNLIKE, Ordering::Relaxed);
                    account.contents.all().forget(account.number);
                }
                _ => {}
            }
        });
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.contents.all().forget(self.number);
    }
}

impl Reading {
    /// The answer, if the content is here, or arrives.
    pub(super) async fn answer(self) -> Option<Response<AnswerBody>> {
        let Self { account, file, is_head } = self;
        let find = || account.contents.all().find(account.number, &file, Instant::now());
        let content = match find() {
            Found::Here(content) => content,
            Found::Coming(mut wait) if !is_head => {
                // The end of the fetch, which has the timeouts of its request.
                drop(wait.changed().await);
                match find() {
                    Found::Here(content) => content,
                    _ => return None,
                }
            }
            _ => return None,
        };
        let body = if is_head { AnswerBody::default() } else { serve::whole(content.body) };
        let mut response = Response::new(body);
        *response.headers_mut() = content.headers;
        Some(response)
    }
}

/// Whether the client lets a cache answer. The redirector always asks for none, also for what it has just listed.
fn may_be_cached(request: &Passing) -> bool {
    let asks_anew = [CACHE_CONTROL, PRAGMA].iter().any(|name| request.headers.contains_key(name));
    let is_body_empty = request.whole().is_some_and(Bytes::is_empty);
    let has_conditions = [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE, IF_RANGE, RANGE]
        .iter()
        .any(|name| request.headers.contains_key(name));
    is_body_empty
        && !has_conditions
        && request.url.query().is_none()
        && (request.saver() == Some(Saver::Redirector) || !asks_anew)
}

/// Whether an answer has the listed version, as it is, and may be kept.
fn is_as_listed(headers: &HeaderMap, etag: &ETag) -> bool {
    headers.get(ETAG).and_then(ETag::from_header).is_some_and(|sent| sent.is(etag)) && may_be_kept(headers)
}

/// Whether an answer has the file as it is, and may be kept.
pub(super) fn may_be_kept(headers: &HeaderMap) -> bool {
    let text = |name| headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let forbids = text(CACHE_CONTROL).any(|value| value.to_ascii_lowercase().contains("no-store"));
    let varies = text(VARY).flat_map(|value| value.split(',')).any(|field| {
        let field = field.trim();
        !["accept-encoding", "authorization", "origin", "user-agent", ""]
            .iter()
            .any(|known| field.eq_ignore_ascii_case(known))
    });
    !forbids && !varies && !headers.contains_key(CONTENT_ENCODING)
}

/// The fields that are true of the content later, too.
pub(super) fn kept(mut headers: HeaderMap) -> HeaderMap {
    for name in [AGE, DATE, SET_COOKIE] {
        headers.remove(name);
    }
    headers
}
