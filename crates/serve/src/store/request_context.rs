//! The request behind a file system operation.
//!
//! `dav-server` splits a request into small file system operations ("open", "remove", "read properties") and passes a
//! value of our choice to each: this one. It lets the store guarantee more than single operations could: a conditional
//! upload checks its precondition again when it takes effect, and `MOVE` or `COPY` over a file replaces it atomically
//! instead of deleting it first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dav_server::davpath::DavPath;
use dav_server::fs::{DavProp, FsError, FsResult};
use http::Method;
use http::header::{HeaderMap, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use tokio::sync::OwnedSemaphorePermit;

use super::metadata::Identity;
use crate::activity::Activity;
use crate::modified;
use crate::preconditions::IF;
use crate::xml::Name;

/// How long a web page waits for others that nobody reads.
const PAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The target's state when the preconditions were evaluated.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TargetState {
    #[default]
    NotYet,
    Nothing,
    File(Identity),
}

impl From<Option<Identity>> for TargetState {
    fn from(found: Option<Identity>) -> Self {
        found.map_or(TargetState::Nothing, TargetState::File)
    }
}

/// One request, as the store sees it.
#[derive(Debug)]
pub(crate) struct RequestContext {
    pub(crate) method: Method,
    pub(crate) path: DavPath,
    /// The destination of a `COPY` or `MOVE`.
    pub(crate) destination: Option<DavPath>,
    /// The properties that a `PROPFIND` names.
    pub(crate) named: Option<Vec<Name>>,
    missing: Mutex<Vec<Name>>,
    /// Whether a `PROPFIND` lists the members of its target.
    lists: bool,
    conditional: bool,
    /// The connection that it came on.
    pub(crate) activity: Arc<Activity>,
    is_crowded: AtomicBool,
    target_state: Mutex<TargetState>,
    overtaken: AtomicBool,
    /// The modification time that the request sets, in seconds since 1970.
    pub(crate) modified: Option<i64>,
    has_kept_time: AtomicBool,
    properties: Mutex<HashMap<Vec<u8>, Vec<DavProp>>>,
}

impl RequestContext {
    pub(crate) fn new(
        method: Method,
        path: DavPath,
        destination: Option<DavPath>,
        headers: &HeaderMap,
        activity: Arc<Activity>,
    ) -> Self {
        // An `If` list has entity tags in brackets; lock tokens alone do not depend on the content.
        let tagged = headers.get(IF).is_some_and(|v| v.as_bytes().contains(&b'['));
        let conditional =
            tagged || [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE].iter().any(|h| headers.contains_key(h));
        let lists = method.as_str() == "PROPFIND" && headers.get("depth").is_none_or(|depth| depth != "0");
        let modified = headers.get(modified::HEADER).filter(|_| method == Method::PUT);
        RequestContext {
            modified: modified.and_then(|time| modified::parse(time.to_str().ok()?)),
            has_kept_time: AtomicBool::new(false),
            lists,
            method,
            path,
            destination,
            named: None,
            missing: Mutex::default(),
            conditional,
            activity,
            is_crowded: AtomicBool::new(false),
            target_state: Mutex::default(),
            overtaken: AtomicBool::new(false),
            properties: Mutex::default(),
        }
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        self.method.as_str() == method
    }

    /// Whether the request lists the members of this path.
    pub(crate) fn lists(&self, path: &DavPath) -> bool {
        self.lists && *path == self.path
    }

    /// Records the target's state when the preconditions are evaluated; only the first call counts.
    pub(crate) fn note_target(&self, path: &DavPath, found: Option<Identity>) {
        if self.conditional && *path == self.path {
            let mut target_state = lock(&self.target_state);
            if *target_state == TargetState::NotYet {
                *target_state = found.into();
            }
        }
    }

    /// Whether an upload may take effect, given the target's current state.
    pub(crate) fn preconditions_hold(&self, now: Option<Identity>) -> bool {
        let then = *lock(&self.target_state);
        let holds = !self.conditional || then == TargetState::NotYet || then == now.into();
        if !holds {
            self.overtaken.store(true, Ordering::Relaxed);
        }
        holds
    }

    /// Whether this conditional upload was dropped because another came first: 412.
    pub(crate) fn was_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    /// Waits for the permission to hold a web page that lists a folder, if this is one; otherwise there are too many from
    /// the same address.
    pub(crate) async fn page(&self) -> FsResult<Option<OwnedSemaphorePermit>> {
        if self.method != Method::GET {
            return Ok(None);
        }
        let page = tokio::time::timeout(PAGE_TIMEOUT, self.activity.budget.page()).await;
        self.is_crowded.store(page.is_err(), Ordering::Relaxed);
        page.map_err(|_| FsError::GeneralFailure)
    }

    /// Whether the response is 503.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Records whether an upload has the modification time that the request names.
    pub(crate) fn note_time(&self, seconds: i64) {
        self.has_kept_time.store(self.modified == Some(seconds), Ordering::Relaxed);
    }

    /// Whether the upload has the modification time that the request names.
    pub(crate) fn has_kept_time(&self) -> bool {
        self.has_kept_time.load(Ordering::Relaxed)
    }

    /// Records a named property that the current file does not have.
    pub(crate) fn lacks(&self, name: Name) {
        lock(&self.missing).push(name);
    }

    /// Takes the properties that the current file does not have.
    pub(crate) fn take_missing(&self) -> Vec<Name> {
        std::mem::take(&mut lock(&self.missing))
    }

    /// Caches properties that a listing has read already.
    pub(crate) fn keep_properties(&self, path: Vec<u8>, properties: Vec<DavProp>) {
        lock(&self.properties).insert(path, properties);
    }

    /// The cached properties of a path.
    pub(crate) fn kept_properties(&self, path: &DavPath) -> Option<Vec<DavProp>> {
        lock(&self.properties).get(without_slash(path)).cloned()
    }

    /// Removes and returns the cached properties of a path.
    pub(crate) fn take_properties(&self, path: &DavPath) -> Option<Vec<DavProp>> {
        lock(&self.properties).remove(without_slash(path))
    }
}

/// The path's bytes without a collection's trailing slash.
pub(crate) fn without_slash(path: &DavPath) -> &[u8] {
    let bytes = path.as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes)
}

/// Whether a path is `collection` or below it.
pub(crate) fn is_within(path: &DavPath, collection: &DavPath) -> bool {
    without_slash(path).strip_prefix(without_slash(collection)).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
