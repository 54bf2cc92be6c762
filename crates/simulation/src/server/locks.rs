//! Exclusive write locks (RFC 4918 §6, §7).

use std::time::Duration;

use super::{Author, Server};
use crate::{
    conditions::{self, Condition},
    request::{Request, Response},
};

/// A lock.
#[derive(Debug, Clone)]
pub struct Lock {
    /// Its token.
    pub token: String,
    /// What its client says of its owner.
    pub owner: String,
    /// When it ends, since the server began.
    pub until: Duration,
    /// Who holds it.
    pub by: Author,
}

impl Server {
    /// All locks, with their paths.
    pub fn locks(&mut self) -> Vec<(String, Lock)> {
        self.expire_locks();
        self.locks.iter().map(|(path, lock)| (path.clone(), lock.clone())).collect()
    }

    /// Another client locks a file for a time. False if it is locked, or there is none.
    pub fn lock_by_other(&mut self, path: &str, lasts: Duration) -> bool {
        self.expire_locks();
        let may = self.files.contains_key(path) && !self.locks.contains_key(path);
        if may {
            self.grant(Author::Other, path, "somebody else".into(), lasts);
        }
        may
    }

    /// Another client gives its lock back.
    pub fn unlock_by_other(&mut self, path: &str) {
        if self.locks.get(path).is_some_and(|lock| lock.by == Author::Other) {
            self.locks.remove(path);
        }
    }

    pub(super) fn expire_locks(&mut self) {
        let now = self.now();
        let expired: Vec<_> =
            self.locks.iter().filter(|(_, lock)| lock.until <= now).map(|(path, _)| path.clone()).collect();
        for path in expired {
            self.locks.remove(&path);
            self.expired.push((now, path));
        }
    }

    /// The locks on a path and below it.
    pub(super) fn locks_at(&self, path: &str) -> impl Iterator<Item = &Lock> {
        let is_there =
            move |held: &str| held.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.locks.iter().filter(move |(held, _)| is_there(held)).map(|(_, lock)| lock)
    }

    fn grant(&mut self, by: Author, path: &str, owner: String, lasts: Duration) -> &Lock {
        self.counter += 1;
        let token = format!("urn:simulated:{}", self.counter);
        let lock = Lock { token, owner, until: self.now() + lasts, by };
        self.locks.insert(path.to_owned(), lock);
        &self.locks[path]
    }

    pub(super) fn lock(&mut self, by: Author, request: &Request) -> Response {
        let lasts = request.header("timeout").and_then(|timeout| timeout.strip_prefix("Second-")?.parse().ok());
        let lasts = lasts.map_or(self.longest_lock, Duration::from_secs).min(self.longest_lock);
        let path = &*request.path;
        if request.body.is_empty() {
            return self.refresh(request, lasts);
        }
        if !self.has_parent(path) {
            return Response::of(409);
        }
        if let Some(refusal) = self.refusal(request, &[path]) {
            return refusal;
        }
        if self.locks.contains_key(path) {
            return Response::of(423);
        }
        let is_new = !self.exists(path);
        if is_new {
            // RFC 4918 §7.3.
            self.store(by, "LOCK", path, bytes::Bytes::new());
        }
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let inner = body.split_once("owner>").and_then(|(_, rest)| rest.split_once("</"));
        let owner = inner.map(|(owner, _)| owner.to_owned()).unwrap_or_default();
        let lock = self.grant(by, path, owner, lasts).clone();
        let granted = self.granted(path, &lock);
        Response { status: if is_new { 201 } else { 200 }, ..granted }.with("lock-token", format!("<{}>", lock.token))
    }

    fn granted(&self, path: &str, lock: &Lock) -> Response {
        let discovery = self.discovery(path, lock);
        Response::of(200)
            .with("content-type", "application/xml; charset=utf-8")
            .body(format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><D:prop xmlns:D=\"DAV:\">{discovery}</D:prop>"))
    }

    /// Its `lockdiscovery` (RFC 4918 §15.8).
    pub(super) fn discovery(&self, path: &str, lock: &Lock) -> String {
        let left = lock.until.saturating_sub(self.now()).as_secs();
        format!(
            "<D:lockdiscovery><D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:exclusive/></D:lockscope>\
             <D:depth>0</D:depth><D:owner>{}</D:owner><D:timeout>Second-{left}</D:timeout>\
             <D:locktoken><D:href>{}</D:href></D:locktoken><D:lockroot><D:href>{path}</D:href></D:lockroot>\
             </D:activelock></D:lockdiscovery>",
            lock.owner, lock.token
        )
    }

    /// RFC 4918 §9.10.2.
    fn refresh(&mut self, request: &Request, term: Duration) -> Response {
        let (now, path) = (self.now(), &*request.path);
        let lists = conditions::lists(request);
        let mut conditions = lists.iter().flat_map(|list| &list.conditions);
        let lock = self
            .locks
            .get_mut(path)
            .filter(|lock| conditions.any(|(_, condition)| *condition == Condition::Token(&lock.token)));
        let Some(lock) = lock else { return Response::of(412) };
        lock.until = now + term;
        let lock = lock.clone();
        self.granted(path, &lock)
    }

    pub(super) fn unlock(&mut self, request: &Request) -> Response {
        let token = request.header("lock-token").map(|token| token.trim_matches(['<', '>']));
        let is_it = |lock: &Lock| Some(&*lock.token) == token;
        if self.locks.get(&request.path).is_some_and(is_it) {
            self.locks.remove(&request.path);
            return Response::of(204);
        }
        // RFC 4918 §9.11.1.
        Response::of(if self.exists(&request.path) { 409 } else { 404 })
    }
}
