//! What the store must know of the request behind a call.
//!
//! `dav-server` asks its file system for small steps ("open", "remove", "read properties") and hands
//! along a value of our choice with each; this is that value. With it the store can promise more than
//! the steps alone allow: a conditional upload is checked again at the moment it takes effect, and a
//! `MOVE` or `COPY` over a file replaces it in one step instead of deleting it first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use dav_server::davpath::DavPath;
use dav_server::fs::DavProp;
use http::Method;
use http::header::{HeaderMap, IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};

use super::meta::Identity;
use crate::conditions::IF;
use crate::xml::Name;

/// What the target was when the request's conditions were judged.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Seen {
    #[default]
    NotYet,
    Nothing,
    File(Identity),
}

impl From<Option<Identity>> for Seen {
    fn from(found: Option<Identity>) -> Self {
        found.map_or(Seen::Nothing, Seen::File)
    }
}

/// One request, as the store sees it.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) method: Method,
    pub(crate) path: DavPath,
    /// Where a `COPY` or `MOVE` goes.
    pub(crate) destination: Option<DavPath>,
    /// The properties that a `PROPFIND` names, if it does.
    pub(crate) named: Option<Vec<Name>>,
    missing: Mutex<Vec<Name>>,
    conditional: bool,
    seen: Mutex<Seen>,
    overtaken: AtomicBool,
    properties: Mutex<HashMap<Vec<u8>, Vec<DavProp>>>,
}

impl Visit {
    pub(crate) fn new(method: Method, path: DavPath, destination: Option<DavPath>, headers: &HeaderMap) -> Self {
        // An `If` list with an entity tag has it in brackets; lock tokens alone ask nothing of the content.
        let tagged = headers.get(IF).is_some_and(|v| v.as_bytes().contains(&b'['));
        let conditional =
            tagged || [IF_MATCH, IF_NONE_MATCH, IF_UNMODIFIED_SINCE].iter().any(|h| headers.contains_key(h));
        Visit {
            method,
            path,
            destination,
            named: None,
            missing: Mutex::default(),
            conditional,
            seen: Mutex::default(),
            overtaken: AtomicBool::new(false),
            properties: Mutex::default(),
        }
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        self.method.as_str() == method
    }

    /// Remembers what the target was when the request's conditions were judged: the first look counts.
    pub(crate) fn saw(&self, path: &DavPath, found: Option<Identity>) {
        if self.conditional && *path == self.path {
            let mut seen = lock(&self.seen);
            if *seen == Seen::NotYet {
                *seen = found.into();
            }
        }
    }

    /// Whether an upload may still take effect, given what the target is now.
    pub(crate) fn still_holds(&self, now: Option<Identity>) -> bool {
        let then = *lock(&self.seen);
        let holds = !self.conditional || then == Seen::NotYet || then == now.into();
        if !holds {
            self.overtaken.store(true, Ordering::Relaxed);
        }
        holds
    }

    /// Whether another upload came first and this one, being conditional, was given up: 412.
    pub(crate) fn was_overtaken(&self) -> bool {
        self.overtaken.load(Ordering::Relaxed)
    }

    /// Notes a named property that the file being listed does not have.
    pub(crate) fn lacks(&self, name: Name) {
        lock(&self.missing).push(name);
    }

    /// What the file just listed does not have.
    pub(crate) fn take_missing(&self) -> Vec<Name> {
        std::mem::take(&mut lock(&self.missing))
    }

    /// Keeps properties that a listing has read on its way, for the moment they are asked for.
    pub(crate) fn keep_properties(&self, path: Vec<u8>, properties: Vec<DavProp>) {
        lock(&self.properties).insert(path, properties);
    }

    /// The properties kept for a path.
    pub(crate) fn kept_properties(&self, path: &DavPath) -> Option<Vec<DavProp>> {
        lock(&self.properties).get(without_slash(path)).cloned()
    }

    /// Lets go of what was kept for a path, and returns it.
    pub(crate) fn take_properties(&self, path: &DavPath) -> Option<Vec<DavProp>> {
        lock(&self.properties).remove(without_slash(path))
    }
}

/// The path's bytes without the slash that marks a collection.
pub(crate) fn without_slash(path: &DavPath) -> &[u8] {
    let bytes = path.as_bytes();
    bytes.strip_suffix(b"/").unwrap_or(bytes)
}

/// Whether a path is `collection` or lies in it.
pub(crate) fn is_within(path: &DavPath, collection: &DavPath) -> bool {
    without_slash(path).strip_prefix(without_slash(collection)).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
