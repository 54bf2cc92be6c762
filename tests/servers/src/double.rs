//! A small WebDAV server with faults on demand.
//!
//! It keeps its files in memory, pipelines, and calls a script before each request, which decides what goes wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant, SystemTime},
};

use tokio::{net::TcpListener, task::JoinSet};

use crate::{
    behaving_connection, behaviour::Behaviour, digest_auth::DigestAuth, digest_headers::UploadDigests,
    message::Request, scripted_connection,
};

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// The response is this status with these header lines; the request is not processed.
    Respond(u16, &'static str),
    /// The response is this status and body; the request is not processed.
    RespondWithBody(u16, &'static str),
    /// The response is this status, before the request body is read; then the connection ends.
    RespondEarly(u16),
    /// The connection is reset before the request is processed.
    Reset,
    /// The request is processed, but the connection is reset instead of a response.
    ResetAfterProcessing,
    /// The connection ends in the middle of the response body.
    TruncateResponse,
    /// The same, without `Content-Length`: the client cannot see that something is missing.
    TruncateWithoutLength,
    /// The request is processed but gets no response; those behind it do.
    OmitResponse,
    /// The response comes after the next one, if there is a next request.
    SwapResponses,
    /// The response has the digest of another body.
    WrongDigest,
    /// `Content-Length` is five bytes more than the body has.
    LengthTooLong,
    /// A response header that does not end.
    EndlessHeader,
    /// A response body that does not end.
    EndlessBody,
    /// A response header that does not end, a byte at a time.
    TricklingHeader,
    /// A response body, a byte at a time.
    TricklingBody,
    /// The request body is read, and the request processed, after this time.
    Delay(Duration),
    /// Nothing is sent on this connection any more.
    Silence,
    /// The connection is reset before the request is processed, and another client writes 1000 bytes to this path.
    OverwrittenByOther(&'static str),
}

/// Which server it imitates: they differ in what a partial PUT (`Content-Range`) does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerProfile {
    /// No particular server; it refuses a partial PUT.
    Plain,
    /// Apache, which writes the part where `Content-Range` says.
    Apache,
    /// Like Apache in its headers, but it refuses a partial PUT.
    RefusesPartialPut,
    /// Like Apache in its headers, but a partial PUT replaces the whole file.
    ReplacesOnPartialPut,
    /// Like Apache, but it stores one byte of each part wrongly.
    CorruptsPartialPut,
    /// Nextcloud.
    Nextcloud,
}

/// Decides the fault of a request: from its method, its path as sent, and the number of requests before it.
pub type Script = Box<dyn FnMut(&str, &str, u64) -> Option<Fault> + Send>;

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Folder,
    File { content: Vec<u8>, version: u64, modified: SystemTime },
}

/// All of the server that changes, behind one lock; flat, because every verb uses most of it.
pub(crate) struct State {
    /// By path as in requests, without a trailing slash.
    pub(crate) nodes: BTreeMap<String, Node>,
    /// Dead properties (PROPPATCH), by path.
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) digest_auth: Option<DigestAuth>,
    pub(crate) upload_digests: UploadDigests,
    /// Lock tokens and owners, by path.
    pub(crate) locks: BTreeMap<String, (String, String)>,
    pub(crate) versions: u64,
    /// The version at which something of each path was last changed.
    pub(crate) changed: BTreeMap<String, u64>,
    pub(crate) requests: u64,
    /// Each request, its time and its fault.
    pub(crate) log: Vec<String>,
    pub(crate) begin: Instant,
    pub(crate) max_pipeline_depth: usize,
    pub(crate) reports: Option<SyncReports>,
    pub(crate) script: Script,
    pub(crate) profile: ServerProfile,
    /// Bytes of processed PUT requests.
    pub(crate) stored: u64,
    pub(crate) behaviours: Vec<Box<dyn Behaviour>>,
    /// Whether the behaviours apply to requests.
    pub(crate) armed: bool,
    /// How often one did, or a response overtook another.
    pub(crate) effect_count: u64,
    /// The methods received while armed.
    pub(crate) methods: BTreeSet<String>,
    /// Whether it honours `X-OC-Mtime` without announcing it.
    pub(crate) keeps_times: bool,
    /// How far its clock is ahead of ours, in seconds.
    pub(crate) ahead: i64,
    /// Whether folders have entity tags, which change with their members.
    pub(crate) tags_folders: bool,
}

impl State {
    /// Logs a request, and returns its fault. `pipelined` is the number of requests on its connection, with itself.
    pub(crate) fn receive(&mut self, request: &Request, pipelined: usize) -> Option<Fault> {
        let number = self.requests;
        self.requests += 1;
        self.max_pipeline_depth = self.max_pipeline_depth.max(pipelined);
        let fault = (self.script)(&request.method, &request.path, number);
        let line = format!("{number} {:?} {} {} {fault:?}", self.begin.elapsed(), request.method, request.path);
        self.log.push(line);
        fault
    }
}

/// How it reports changes (`sync-collection`, RFC 6578).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncReports {
    /// Reports include subfolders.
    pub is_infinite: bool,
    /// Requests for subfolders (`sync-level: infinite`) are refused.
    pub refuses_infinite: bool,
    /// The maximum number of entries of a report.
    pub limit: usize,
    /// Sync tokens below this are refused.
    pub oldest_token: u64,
}

impl Default for SyncReports {
    fn default() -> Self {
        Self { is_infinite: true, refuses_infinite: false, limit: usize::MAX, oldest_token: 0 }
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
    /// Starts one that imitates no particular server.
    pub async fn start() -> Self {
        Self::start_as(ServerProfile::Plain).await
    }

    /// Starts one with this profile.
    pub async fn start_as(profile: ServerProfile) -> Self {
        Self::with(profile, Vec::new()).await
    }

    /// Starts one with these behaviours. They do not apply to requests until it is armed.
    pub async fn with_behaviours(behaviours: Vec<Box<dyn Behaviour>>) -> Self {
        Self::with(ServerProfile::Plain, behaviours).await
    }

    async fn with(profile: ServerProfile, behaviours: Vec<Box<dyn Behaviour>>) -> Self {
        let mut state = State {
            nodes: BTreeMap::from([(String::new(), Node::Folder)]),
            properties: BTreeMap::new(),
            digest_auth: None,
            upload_digests: UploadDigests::default(),
            locks: BTreeMap::new(),
            versions: 0,
            requests: 0,
            log: Vec::new(),
            begin: Instant::now(),
            max_pipeline_depth: 0,
            reports: None,
            changed: BTreeMap::new(),
            script: Box::new(|_, _, _| None),
            profile,
            stored: 0,
            behaviours,
            armed: false,
            effect_count: 0,
            methods: BTreeSet::new(),
            keeps_times: false,
            ahead: 0,
            tags_folders: false,
        };
        if profile == ServerProfile::Nextcloud {
            state.add_nextcloud_folders();
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
            // Dropping this task ends the connections.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                if behaves {
                    connections.spawn(behaving_connection::serve(stream, state.clone()));
                } else {
                    connections.spawn(scripted_connection::serve(stream, state.clone()));
                }
                while connections.try_join_next().is_some() {}
            }
        });
    }

    /// Sets its clock so many seconds ahead of ours, or behind.
    pub fn set_clock(&self, ahead: i64) {
        self.state().ahead = ahead;
    }

    /// Honours `X-OC-Mtime` from now on, without announcing it.
    pub fn keep_times(&self) {
        self.state().keeps_times = true;
    }

    /// Gives folders entity tags from now on, new ones with each change of their members' names.
    pub fn tag_folders(&self) {
        self.state().tags_folders = true;
    }

    /// Stops at once, as if killed.
    pub async fn kill(&self) {
        let mut serving = std::mem::take(&mut *self.serving.lock().unwrap());
        serving.shutdown().await;
    }

    /// Starts again at the same address, with the same files.
    pub async fn restart(&self) {
        let listener = TcpListener::bind(self.address).await.unwrap();
        self.serve(listener);
    }

    /// Sets the script, and counts requests from 0 again.
    pub fn script(&self, script: impl FnMut(&str, &str, u64) -> Option<Fault> + Send + 'static) {
        let mut state = self.state();
        state.script = Box::new(script);
        state.requests = 0;
        state.log.push("new script:".into());
    }

    /// Applies the behaviours to requests from now on.
    pub fn arm(&self) {
        let mut state = self.state();
        state.armed = true;
        state.log.push("armed:".into());
    }

    /// How often a behaviour applied to a request, or a response overtook another.
    pub fn effect_count(&self) -> u64 {
        self.state().effect_count
    }

    /// Whether it has received a request with this method since it was armed.
    pub fn has_received(&self, method: &str) -> bool {
        self.state().methods.contains(method)
    }

    /// Sets how it reports changes; with `None`, it does not.
    pub fn set_sync_reports(&self, reports: Option<SyncReports>) {
        self.state().reports = reports;
    }

    /// The requests so far and the locks, for failure messages.
    pub fn log(&self) -> String {
        let state = self.state();
        format!("{}\nlocked: {:?}", state.log.join("\n"), state.locks)
    }

    /// Requires `Digest` authentication from now on.
    pub fn require_digest_auth(&self, digest_auth: DigestAuth) {
        self.state().digest_auth = Some(digest_auth);
    }

    /// Takes the digests that uploads have sent. From now on such uploads are refused with this status, if any.
    pub fn take_digests(&self, refused_with: Option<u16>) -> UploadDigests {
        std::mem::replace(&mut self.state().upload_digests, UploadDigests { refused_with, ..UploadDigests::default() })
    }

    /// The nonce counts (`nc`) that were used twice.
    pub fn reused_nonce_counts(&self) -> Vec<String> {
        self.state().digest_auth.as_ref().map(|digest_auth| digest_auth.reused.clone()).unwrap_or_default()
    }

    /// Removes the script: no more faults.
    pub fn clear_faults(&self) {
        self.script(|_, _, _| None);
    }

    /// The maximum number of requests that were in flight on a connection.
    pub fn max_pipeline_depth(&self) -> usize {
        self.state().max_pipeline_depth
    }

    /// The bytes of processed PUT requests since the last call.
    pub fn take_stored_bytes(&self) -> u64 {
        std::mem::take(&mut self.state().stored)
    }

    /// The number of locks.
    pub fn locks(&self) -> usize {
        self.state().locks.len()
    }

    /// Locks a path for another user.
    pub fn lock(&self, path: &str) {
        self.state().locks.insert(path.into(), ("urn:theirs".into(), "Jane Doe".into()));
    }

    /// Who has locked a path.
    pub fn lock_owner(&self, path: &str) -> Option<String> {
        self.state().locks.get(path).map(|(_, owner)| owner.clone())
    }

    /// Locks a path for this owner, as if a late copy of a LOCK were carried out.
    pub fn lock_late(&self, path: &str, owner: &str) {
        self.state().locks.insert(path.into(), ("urn:late".into(), owner.into()));
    }

    /// Removes the lock of a path.
    pub fn unlock(&self, path: &str) {
        self.state().locks.remove(path);
    }

    /// Writes a file, last modified so long ago.
    pub fn put(&self, path: &str, content: &[u8], age: Duration) {
        self.state().put(path, content, age);
    }

    /// Writes a file, last modified so many seconds in the future of the server's clock.
    pub fn put_at(&self, path: &str, content: &[u8], seconds: u64) {
        let mut state = self.state();
        state.put(path, content, Duration::ZERO);
        if let Some(Node::File { modified, .. }) = state.nodes.get_mut(path) {
            *modified += Duration::from_secs(seconds);
        }
    }

    /// The path under which the server stores this one, or would.
    pub fn stored_path(&self, path: &str) -> String {
        self.state().stored_path(path)
    }

    /// Deletes a file, or a folder with its content.
    pub fn remove(&self, path: &str) {
        let mut state = self.state();
        state.remove(path);
        state.versions += 1;
        state.record_change(path);
    }

    /// The files below a folder, with their content; names are encoded as in requests.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let state = self.state();
        let below = format!("{}/", folder.trim_end_matches('/'));
        let files = state.nodes.iter().filter_map(|(path, node)| match node {
            Node::File { content, .. } => Some((path.strip_prefix(&below)?.to_owned(), content.clone())),
            Node::Folder => None,
        });
        files.collect()
    }

    /// The folders below a path, by their whole paths.
    pub fn folders(&self, below: &str) -> Vec<String> {
        let state = self.state();
        let folders = state.nodes.iter().filter(|(_, node)| matches!(node, Node::Folder)).map(|(path, _)| path.clone());
        folders.filter(|path| path.starts_with(below)).collect()
    }

    /// The time of a file's last change.
    pub fn modified(&self, path: &str) -> SystemTime {
        match &self.state().nodes[path] {
            Node::File { modified, .. } => *modified,
            Node::Folder => panic!("{path} is a folder"),
        }
    }

    /// Sets the time of a file's last change.
    pub fn set_modified(&self, path: &str, time: SystemTime) {
        if let Some(Node::File { modified, .. }) = self.state().nodes.get_mut(path) {
            *modified = time;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}
