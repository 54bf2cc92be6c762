//! A small WebDAV server that goes wrong on demand.
//!
//! It keeps its files in memory, answers in the order of the requests, as many as come at once, and asks a script
//! before each of them what is to go wrong. Real servers do not answer in the wrong order, lose requests or send
//! wrong digests when a test would like them to.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    behaviour::Behaviour,
    connection,
    digest_auth::DigestAuth,
    digest_headers::StatedDigests,
    wire::{self, Request},
};

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
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
    /// Its answer announces five bytes more than it has.
    Surplus,
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
pub enum Manner {
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
pub type Script = Box<dyn FnMut(&str, &str, u64) -> Option<Fault> + Send>;

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Folder,
    File { content: Vec<u8>, version: u64, modified: SystemTime },
}

pub(crate) struct State {
    /// By path as in requests, without a slash at the end.
    pub(crate) nodes: BTreeMap<String, Node>,
    /// What was set by PROPPATCH, by path.
    pub(crate) properties: BTreeMap<String, String>,
    /// Who must prove who they are.
    pub(crate) door: Option<DigestAuth>,
    pub(crate) stated: StatedDigests,
    /// Tokens of locks and their owners, by path.
    pub(crate) locks: BTreeMap<String, (String, String)>,
    pub(crate) versions: u64,
    /// The version at which something of each path was last changed.
    pub(crate) changed: BTreeMap<String, u64>,
    pub(crate) requests: u64,
    /// What was asked for, when, and what went wrong with it.
    pub(crate) log: Vec<String>,
    pub(crate) begin: Instant,
    pub(crate) deepest: usize,
    pub(crate) reports: Option<Reports>,
    pub(crate) script: Script,
    pub(crate) manner: Manner,
    /// Bytes of PUT requests that were done.
    pub(crate) stored: u64,
    pub(crate) behaviours: Vec<Box<dyn Behaviour>>,
    /// Whether they do anything to requests.
    pub(crate) armed: bool,
    /// How often one did.
    pub(crate) struck: u64,
    /// The methods of requests that came while it was armed.
    pub(crate) methods: BTreeSet<String>,
    /// Whether it keeps the times that uploads name (`X-OC-Mtime`), in nobody's manner.
    pub(crate) keeps_times: bool,
    /// Its clock, in seconds before or behind ours.
    pub(crate) ahead: i64,
}

impl State {
    /// A request is there, with so many on its connection: what is to go wrong with it.
    pub(crate) fn hears(&mut self, request: &Request, deep: usize) -> Option<Fault> {
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
pub struct Reports {
    /// It tells of what is in the folders of a folder too.
    pub deep: bool,
    /// It refuses to be asked for that.
    pub refuses: bool,
    /// So many entries at a time.
    pub limit: usize,
    /// Tokens below this are refused.
    pub oldest: u64,
}

impl Default for Reports {
    fn default() -> Self {
        Self { deep: true, refuses: false, limit: usize::MAX, oldest: 0 }
    }
}

/// A running server.
pub struct Double {
    /// Where it listens, on loopback.
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    serving: Mutex<JoinSet<()>>,
}

impl Double {
    /// Starts one in nobody's manner.
    pub async fn start() -> Self {
        Self::start_as(Manner::Plain).await
    }

    /// Starts one in this manner, at a port of its own.
    pub async fn start_as(manner: Manner) -> Self {
        Self::with(manner, Vec::new()).await
    }

    /// Starts one with these behaviours, which do nothing to requests until it is armed.
    pub async fn behaving(behaviours: Vec<Box<dyn Behaviour>>) -> Self {
        Self::with(Manner::Plain, behaviours).await
    }

    async fn with(manner: Manner, behaviours: Vec<Box<dyn Behaviour>>) -> Self {
        let mut state = State {
            nodes: BTreeMap::from([(String::new(), Node::Folder)]),
            properties: BTreeMap::new(),
            door: None,
            stated: StatedDigests::default(),
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
            behaviours,
            armed: false,
            struck: 0,
            methods: BTreeSet::new(),
            keeps_times: false,
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
        let behaves = !self.state().behaviours.is_empty();
        self.serving.lock().unwrap().spawn(async move {
            // The connections end with what accepts them.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                if behaves {
                    connections.spawn(connection::serve(stream, state.clone()));
                } else {
                    connections.spawn(wire::serve(stream, state.clone()));
                }
                while connections.try_join_next().is_some() {}
            }
        });
    }

    /// Its clock is so many seconds ahead of ours, or behind.
    pub fn set_clock(&self, ahead: i64) {
        self.state().ahead = ahead;
    }

    /// From now on it keeps the times that uploads name, and does not say so.
    pub fn keep_times(&self) {
        self.state().keeps_times = true;
    }

    /// Ends at once, as if killed.
    pub async fn kill(&self) {
        let mut serving = std::mem::take(&mut *self.serving.lock().unwrap());
        serving.shutdown().await;
    }

    /// Starts again at the same address, with what it has on its disk.
    pub async fn restart(&self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serve(listener);
    }

    /// From now on this is asked before each request; requests are counted from 0.
    pub fn script(&self, script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static) {
        let mut state = self.state();
        state.script = Box::new(script);
        state.requests = 0;
        state.log.push("by a new script:".into());
    }

    /// From now on its behaviours do something to requests.
    pub fn arm(&self) {
        let mut state = self.state();
        state.armed = true;
        state.log.push("armed:".into());
    }

    /// How often a behaviour did something to a request, or an answer overtook another.
    pub fn struck(&self) -> u64 {
        self.state().struck
    }

    /// Whether it was asked with this method since it was armed.
    pub fn was_asked(&self, method: &str) -> bool {
        self.state().methods.contains(method)
    }

    /// From now on it tells what has changed, or not any more.
    pub fn report(&self, reports: Option<Reports>) {
        self.state().reports = reports;
    }

    /// What was asked for and is locked, for whoever looks for a fault.
    pub fn log(&self) -> String {
        let state = self.state();
        format!("{}\nlocked: {:?}", state.log.join("\n"), state.locks)
    }

    /// From now on only Digest opens.
    pub fn guard(&self, door: DigestAuth) {
        self.state().door = Some(door);
    }

    /// What uploads have stated of their digests; from now on that is refused with a status, or not.
    pub fn stated(&self, refused_with: Option<u16>) -> StatedDigests {
        std::mem::replace(&mut self.state().stated, StatedDigests { refused_with, ..StatedDigests::default() })
    }

    /// Counts of nonces that were used twice.
    pub fn repeated(&self) -> Vec<String> {
        self.state().door.as_ref().map(|door| door.repeated.clone()).unwrap_or_default()
    }

    /// From now on nothing goes wrong.
    pub fn heal(&self) {
        self.script(|_, _, _| None);
    }

    /// How many requests were there at most on a connection, the one in hand included.
    pub fn deepest(&self) -> usize {
        self.state().deepest
    }

    /// The bytes of PUT requests that were done, since this was asked the last time.
    pub fn stored(&self) -> u64 {
        std::mem::take(&mut self.state().stored)
    }

    /// How many locks there are.
    pub fn locks(&self) -> usize {
        self.state().locks.len()
    }

    /// Somebody else's lock.
    pub fn lock(&self, path: &str) {
        self.state().locks.insert(path.into(), ("urn:theirs".into(), "Jane Doe".into()));
    }

    /// Takes any lock from a path.
    pub fn unlock(&self, path: &str) {
        self.state().locks.remove(path);
    }

    /// Puts a file there, of some age.
    pub fn put(&self, path: &str, content: &[u8], age: Duration) {
        self.state().put(path, content, age);
    }

    /// The same, changed in so many seconds from now, by the server's clock.
    pub fn put_at(&self, path: &str, content: &[u8], seconds: u64) {
        let mut state = self.state();
        state.put(path, content, Duration::ZERO);
        if let Some(Node::File { modified, .. }) = state.nodes.get_mut(path) {
            *modified += Duration::from_secs(seconds);
        }
    }

    /// The path by which the server keeps something, or would.
    pub fn kept(&self, path: &str) -> String {
        self.state().kept(path)
    }

    /// Deletes a file or a folder with all that is in it.
    pub fn remove(&self, path: &str) {
        let mut state = self.state();
        state.remove(path);
        state.versions += 1;
        state.note(path);
    }

    /// Every file below a folder with its content, by name as it stands in requests.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let below = format!("{}/", folder.trim_end_matches('/'));
        let files = state.nodes.iter().filter_map(|(path, node)| match node {
            Node::File { content, .. } => Some((path.strip_prefix(&below)?.to_owned(), content.clone())),
            Node::Folder => None,
        });
        files.collect()
    }

    /// Every folder below one, by its whole name.
    pub fn folders(&self, below: &str) -> Vec<String> {
        let state = self.state();
        let folders = state.nodes.iter().filter(|(_, node)| matches!(node, Node::Folder)).map(|(path, _)| path.clone());
        folders.filter(|path| path.starts_with(below)).collect()
    }

    /// When a file was changed.
    pub fn modified(&self, path: &str) -> SystemTime {
        match &self.state().nodes[path] {
            Node::File { modified, .. } => *modified,
            Node::Folder => panic!("{path} is a folder"),
        }
    }

    /// Sets when a file was changed.
    pub fn set_modified(&self, path: &str, time: SystemTime) {
        if let Some(Node::File { modified, .. }) = self.state().nodes.get_mut(path) {
            *modified = time;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}
