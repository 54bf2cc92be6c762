//! A small WebDAV server that goes wrong on demand.
//!
//! It keeps its files in memory, answers in the order of the requests, as many as come at once, and asks a script
//! before each of them what is to go wrong. Real servers do not answer in the wrong order, lose requests or send
//! wrong digests when a test would like them to.

pub(crate) mod cloud;
mod verbs;
mod wire;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use tokio::{net::TcpListener, task::JoinSet};

use self::wire::{Answer, Request, serve};

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// It is not done, and answered with this status and headers.
    Refuse(u16, &'static str),
    /// It is not done, and answered with this status and document.
    Say(u16, &'static str),
    /// It is refused before its body is read; then the connection ends.
    RefuseEarly(u16),
    /// The connection is reset, and nothing was done.
    Reset,
    /// It is done, but the connection is reset instead of an answer.
    DoneAndReset,
    /// Half of the answer comes, then the connection ends.
    Cut,
    /// The same in an answer whose length only its end tells.
    CutUntold,
    /// Done and never answered; what is behind it is.
    Forget,
    /// Answered after the request behind it, if one comes.
    Swap,
    /// Its answer names a digest that is not its body's.
    WrongDigest,
    /// A head that does not end.
    EndlessHead,
    /// A body that does not end.
    EndlessBody,
    /// A head that does not end, a byte at a time.
    TricklingHead,
    /// A body, a byte at a time.
    TricklingBody,
    /// Nothing comes on this connection any more.
    Silence,
    /// Not done, and the connection reset; meanwhile somebody else has put a thousand bytes there.
    Overtaken(&'static str),
}

/// Whose manner it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Nobody's in particular.
    Plain,
    /// Apache's, which writes a part where `Content-Range` says.
    Apache,
    /// The same by its own account, but it refuses parts.
    Refusing,
    /// The same, but it takes a part for the whole.
    Replacing,
    /// The same, but one byte of each part gets lost on its way to the disk.
    Spoiling,
    /// A Nextcloud's.
    Cloud,
}

/// What asks for it: the method, the path as it stands in the request, and how many requests came before it.
pub(crate) type Script = Box<dyn FnMut(&str, &str, u64) -> Option<Fault> + Send>;

#[derive(Debug, Clone)]
enum Node {
    Folder,
    File { content: Vec<u8>, version: u64, modified: SystemTime },
}

struct State {
    /// By path as in requests, without a slash at the end.
    nodes: BTreeMap<String, Node>,
    /// Tokens of locks and their owners, by path.
    locks: BTreeMap<String, (String, String)>,
    versions: u64,
    /// The version at which something of each path was last changed.
    changed: BTreeMap<String, u64>,
    requests: u64,
    /// What was asked for, when, and what went wrong with it.
    log: Vec<String>,
    begin: Instant,
    deepest: usize,
    reports: Option<Reports>,
    script: Script,
    manner: Manner,
    /// Bytes of PUT requests that were done.
    stored: u64,
    /// Its clock, in seconds before or behind ours.
    ahead: i64,
}

impl State {
    /// What its clock shows.
    fn now(&self) -> SystemTime {
        let off = Duration::from_secs(self.ahead.unsigned_abs());
        if self.ahead < 0 { SystemTime::now() - off } else { SystemTime::now() + off }
    }

    /// A request is there, with so many on its connection: what is to go wrong with it.
    fn hears(&mut self, request: &Request, deep: usize) -> Option<Fault> {
        let number = self.requests;
        self.requests += 1;
        self.deepest = self.deepest.max(deep);
        let fault = (self.script)(&request.method, &request.path, number);
        let line = format!("{number} {:?} {} {} {fault:?}", self.begin.elapsed(), request.method, request.path);
        self.log.push(line);
        fault
    }
}

/// How it tells what has changed (RFC 6578).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reports {
    /// It tells of what is in the folders of a folder too.
    pub(crate) deep: bool,
    /// It refuses to be asked for that.
    pub(crate) refuses: bool,
    /// So many entries at a time.
    pub(crate) limit: usize,
    /// Tokens below this are refused.
    pub(crate) oldest: u64,
}

impl Default for Reports {
    fn default() -> Self {
        Self { deep: true, refuses: false, limit: usize::MAX, oldest: 0 }
    }
}

/// A running server.
pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: Mutex<JoinSet<()>>,
}

impl Double {
    pub(crate) async fn start() -> Self {
        Self::start_as(Manner::Plain).await
    }

    pub(crate) async fn start_as(manner: Manner) -> Self {
        let mut state = State {
            nodes: BTreeMap::from([(String::new(), Node::Folder)]),
            locks: BTreeMap::new(),
            versions: 0,
            requests: 0,
            log: Vec::new(),
            begin: Instant::now(),
            deepest: 0,
            reports: None,
            changed: BTreeMap::new(),
            script: Box::new(|_, _, _| None),
            manner,
            stored: 0,
            ahead: 0,
        };
        if manner == Manner::Cloud {
            state.furnish();
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let double = Self { address, state: Arc::new(Mutex::new(state)), serving: Mutex::default() };
        double.serve(listener);
        double
    }

    fn serve(&self, listener: TcpListener) {
        let state = self.state.clone();
        self.serving.lock().unwrap().spawn(async move {
            // The connections end with what accepts them.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, state.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
    }

    /// Its clock is so many seconds ahead of ours, or behind.
    pub(crate) fn set_clock(&self, ahead: i64) {
        self.state().ahead = ahead;
    }

    /// Ends at once, as if killed.
    pub(crate) async fn kill(&self) {
        let mut serving = std::mem::take(&mut *self.serving.lock().unwrap());
        serving.shutdown().await;
    }

    /// Starts again at the same address, with what it has on its disk.
    pub(crate) async fn restart(&self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serve(listener);
    }

    pub(crate) fn script(&self, script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static) {
        let mut state = self.state();
        state.script = Box::new(script);
        state.requests = 0;
        state.log.push("by a new script:".into());
    }

    /// From now on it tells what has changed, or not any more.
    pub(crate) fn report(&self, reports: Option<Reports>) {
        self.state().reports = reports;
    }

    /// What was asked for and is locked, for whoever looks for a fault.
    pub(crate) fn log(&self) -> String {
        let state = self.state();
        format!("{}\nlocked: {:?}", state.log.join("\n"), state.locks)
    }

    pub(crate) fn heal(&self) {
        self.script(|_, _, _| None);
    }

    /// How many requests were there at most on a connection, the one in hand included.
    pub(crate) fn deepest(&self) -> usize {
        self.state().deepest
    }

    /// The bytes of PUT requests that were done, since this was asked the last time.
    pub(crate) fn stored(&self) -> u64 {
        std::mem::take(&mut self.state().stored)
    }

    pub(crate) fn locks(&self) -> usize {
        self.state().locks.len()
    }

    /// Somebody else's lock.
    pub(crate) fn lock(&self, path: &str) {
        self.state().locks.insert(path.into(), ("urn:theirs".into(), "Jane Doe".into()));
    }

    pub(crate) fn unlock(&self, path: &str) {
        self.state().locks.remove(path);
    }

    /// Puts a file there, of some age.
    pub(crate) fn put(&self, path: &str, content: &[u8], age: Duration) {
        self.state().put(path, content, age);
    }

    pub(crate) fn remove(&self, path: &str) {
        let mut state = self.state();
        state.remove(path);
        state.versions += 1;
        state.note(path);
    }

    /// Every file below a folder with its content, by name as it stands in requests.
    pub(crate) fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let below = format!("{}/", folder.trim_end_matches('/'));
        let files = state.nodes.iter().filter_map(|(path, node)| match node {
            Node::File { content, .. } => Some((path.strip_prefix(&below)?.to_owned(), content.clone())),
            Node::Folder => None,
        });
        files.collect()
    }

    /// Every folder below one, by its whole name.
    pub(crate) fn folders(&self, below: &str) -> Vec<String> {
        let state = self.state();
        let folders = state.nodes.iter().filter(|(_, node)| matches!(node, Node::Folder)).map(|(path, _)| path.clone());
        folders.filter(|path| path.starts_with(below)).collect()
    }

    /// When a file was changed.
    pub(crate) fn modified(&self, path: &str) -> SystemTime {
        match &self.state().nodes[path] {
            Node::File { modified, .. } => *modified,
            Node::Folder => panic!("{path} is a folder"),
        }
    }

    pub(crate) fn set_modified(&self, path: &str, time: SystemTime) {
        if let Some(Node::File { modified, .. }) = self.state().nodes.get_mut(path) {
            *modified = time;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}
