//! A WebDAV server in memory (RFC 4918, classes 1 and 2), correct, with a record of every change.

mod listing;
mod locks;
mod properties;
mod verbs;

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

pub use self::locks::Lock;
use crate::{
    conditions::{self, Condition},
    request::{Request, Response},
};

/// How long an entity tag of Apache is weak after a change.
const YOUNG: Duration = Duration::from_secs(2);

/// Whose server it resembles, where servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// `haul serve`: strong entity tags at once, also in the answer to PUT; one of all lists of `If` must hold.
    Strong,
    /// Apache: tags are weak for two seconds, the answer to PUT has none; `If` is judged for each path, and compares weakly.
    Apache,
}

/// Who has asked for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Author {
    /// The program under test.
    Ours,
    /// Another client.
    Other,
}

/// A content that some file has had.
#[derive(Debug, Clone)]
pub struct Version {
    /// The content.
    pub content: Bytes,
    /// Who has stored it.
    pub by: Author,
    /// When the program under test was first told of it.
    pub shown: Option<Duration>,
}

/// A change of what a path has.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, since the server began.
    pub at: Duration,
    /// By whom.
    pub by: Author,
    /// By which request.
    pub method: String,
    /// Where.
    pub path: String,
    /// The version that was there, as an index of [`Server::versions`].
    pub before: Option<usize>,
    /// The version that is there now.
    pub after: Option<usize>,
}

#[derive(Debug, Clone)]
struct File {
    version: usize,
    changed: Duration,
}

/// The server.
#[derive(Debug)]
pub struct Server {
    profile: Profile,
    /// The time that has passed by `goes_since`, from when on its clock goes.
    passed: Duration,
    goes_since: Option<Instant>,
    files: BTreeMap<String, File>,
    /// Each with a number that changes with its members.
    folders: BTreeMap<String, u64>,
    locks: BTreeMap<String, Lock>,
    /// All that there ever were.
    pub versions: Vec<Version>,
    /// All that has happened.
    pub changes: Vec<Change>,
    /// Paths whose locks have expired, and when.
    pub expired: Vec<(Duration, String)>,
    /// Whether there is no room for another PUT.
    pub is_full: bool,
    /// The longest that a lock is granted.
    pub longest_lock: Duration,
    /// What `Authorization` says in the requests that are not refused with 401; none if all are welcome.
    pub credentials: Option<Vec<String>>,
    counter: u64,
}

impl Server {
    /// An empty server, whose clock stands still at zero.
    pub fn new(profile: Profile) -> Self {
        Self {
            profile,
            passed: Duration::ZERO,
            goes_since: None,
            files: BTreeMap::new(),
            folders: BTreeMap::from([(String::new(), 0)]),
            locks: BTreeMap::new(),
            versions: Vec::new(),
            changes: Vec::new(),
            expired: Vec::new(),
            is_full: false,
            longest_lock: Duration::from_mins(10),
            credentials: None,
            counter: 0,
        }
    }

    /// The time since it began.
    pub fn now(&self) -> Duration {
        self.passed + self.goes_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Its clock stops.
    pub(crate) fn suspend(&mut self) {
        self.passed = self.now();
        self.goes_since = None;
    }

    /// Its clock goes on, in another runtime, whose clock shows another time.
    pub(crate) fn resume(&mut self) {
        self.goes_since = Some(Instant::now());
    }

    /// What a path has, if it is a file.
    pub fn content(&self, path: &str) -> Option<&Bytes> {
        Some(&self.versions[self.files.get(path)?.version].content)
    }

    /// All files: their paths and contents.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.files.iter().map(|(path, file)| (&**path, &self.versions[file.version].content))
    }

    /// All folders but the root.
    pub fn folders(&self) -> impl Iterator<Item = &str> {
        self.folders.keys().map(|path| &**path).filter(|path| !path.is_empty())
    }

    /// Whether the program under test knows which version a path has, or has not made it. Of its own upload, it does not know
    /// that before it has looked, where the answer to PUT has no entity tag.
    pub fn is_known(&self, path: &str) -> bool {
        let version = self.files.get(path).map(|file| &self.versions[file.version]);
        version.is_none_or(|version| version.by == Author::Other || version.shown.is_some())
    }

    /// Another client stores a file, whatever is there. False if a lock or a folder is in its way, or none above it.
    pub fn store_by_other(&mut self, path: &str, content: impl Into<Bytes>) -> bool {
        self.expire_locks();
        let may = !self.locks.contains_key(path) && !self.folders.contains_key(path) && self.has_parent(path);
        if may {
            self.store(Author::Other, "PUT", path, content.into());
        }
        may
    }

    /// Another client deletes a file. False if there is none, or it is locked.
    pub fn remove_by_other(&mut self, path: &str) -> bool {
        self.expire_locks();
        let may = !self.locks.contains_key(path) && self.files.contains_key(path);
        if may {
            self.remove_file(Author::Other, "DELETE", path);
        }
        may
    }

    /// Carries out a request.
    pub fn answer(&mut self, by: Author, request: &Request) -> Response {
        self.expire_locks();
        let is_welcome = |credentials: &Vec<String>| {
            request.header("authorization").is_some_and(|given| credentials.iter().any(|known| known == given))
        };
        if !self.credentials.as_ref().is_none_or(is_welcome) {
            return Response::of(401).with("www-authenticate", "Basic realm=\"simulated\"");
        }
        match &*request.method {
            "OPTIONS" => self.options(),
            "GET" | "HEAD" => self.get(by, request),
            "PROPFIND" => self.propfind(by, request),
            "PUT" => self.put(by, request),
            "DELETE" => self.delete(by, request),
            "MKCOL" => self.mkcol(request),
            "MOVE" => self.transfer(by, request, true),
            "COPY" => self.transfer(by, request, false),
            "LOCK" => self.lock(by, request),
            "UNLOCK" => self.unlock(request),
            "PROPPATCH" => self.proppatch(request),
            _ => Response::of(501),
        }
    }

    fn has_parent(&self, path: &str) -> bool {
        path.rsplit_once('/').is_some_and(|(parent, _)| self.folders.contains_key(parent))
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.folders.contains_key(path)
    }

    /// The entity tag of what a path has.
    pub fn tag(&self, path: &str) -> Option<String> {
        if let Some(file) = self.files.get(path) {
            let is_young = self.profile == Profile::Apache && self.now() < file.changed + YOUNG;
            return Some(format!("{}\"{}\"", if is_young { "W/" } else { "" }, file.version));
        }
        self.folders.get(path).map(|number| format!("\"f{number}\""))
    }

    fn touch_parent(&mut self, path: &str) {
        self.counter += 1;
        let counter = self.counter;
        if let Some((parent, _)) = path.rsplit_once('/')
            && let Some(number) = self.folders.get_mut(parent)
        {
            *number = counter;
        }
    }

    fn store(&mut self, by: Author, method: &str, path: &str, content: Bytes) {
        self.versions.push(Version { content, by, shown: None });
        self.set_version(by, method, path, self.versions.len() - 1);
    }

    fn set_version(&mut self, by: Author, method: &str, path: &str, version: usize) {
        let changed = self.now();
        let before = self.files.insert(path.to_owned(), File { version, changed });
        self.record(by, method, path, before.map(|before| before.version), Some(version));
    }

    fn remove_file(&mut self, by: Author, method: &str, path: &str) {
        if let Some(file) = self.files.remove(path) {
            self.locks.remove(path);
            self.record(by, method, path, Some(file.version), None);
        }
    }

    fn record(&mut self, by: Author, method: &str, path: &str, before: Option<usize>, after: Option<usize>) {
        if before.is_none() || after.is_none() {
            self.touch_parent(path);
        }
        let (at, method, path) = (self.now(), method.to_owned(), path.to_owned());
        self.changes.push(Change { at, by, method, path, before, after });
    }

    /// The program under test is told of what a path has.
    fn show(&mut self, by: Author, path: &str) {
        let now = self.now();
        if by == Author::Ours
            && let Some(file) = self.files.get(path)
        {
            self.versions[file.version].shown.get_or_insert(now);
        }
    }

    /// Why a request must not change `paths`, if it must not.
    fn refusal(&self, request: &Request, paths: &[&str]) -> Option<Response> {
        if !conditions::holds(request, self.tag(&request.path).as_deref()) || !self.if_holds(request, paths) {
            return Some(Response::of(412));
        }
        let lists = conditions::lists(request);
        let is_submitted = |token: &str| {
            let mut conditions = lists.iter().flat_map(|list| &list.conditions);
            conditions.any(|(is_negated, condition)| !is_negated && *condition == Condition::Token(token))
        };
        let is_locked = |path: &&str| self.locks_at(path).any(|lock| !is_submitted(&lock.token));
        paths.iter().any(is_locked).then(|| Response::of(423))
    }

    /// Whether `If` holds for a request that changes `paths`.
    fn if_holds(&self, request: &Request, paths: &[&str]) -> bool {
        let lists = conditions::lists(request);
        let holds = |list: &conditions::List<'_>| {
            list.conditions.iter().all(|(is_negated, condition)| is_negated ^ self.is_so(&list.path, condition))
        };
        if self.profile == Profile::Strong || paths.is_empty() {
            return lists.is_empty() || lists.iter().any(holds);
        }
        paths.iter().all(|path| {
            let mut own = lists.iter().filter(|list| list.path == *path).peekable();
            own.peek().is_none() || own.any(holds)
        })
    }

    fn is_so(&self, path: &str, condition: &Condition<'_>) -> bool {
        match condition {
            Condition::Token(token) => self.locks.get(path).is_some_and(|lock| lock.token == *token),
            Condition::Tag(tag) => self.tag(path).is_some_and(|is| match self.profile {
                Profile::Strong => conditions::is_strongly(&is, tag),
                Profile::Apache => conditions::is_weakly(&is, tag),
            }),
        }
    }
}
