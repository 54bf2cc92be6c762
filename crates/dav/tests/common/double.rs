//! A small WebDAV server that goes wrong on demand.
//!
//! It keeps its files in memory, answers in the order of the requests, as many as come at once, and asks a script
//! before each of them what is to go wrong. Real servers do not answer in the wrong order, lose requests or send
//! wrong digests when a test would like them to.

pub(crate) mod cloud;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use bytes::{Buf, BytesMut};
use chrono::{DateTime, Utc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

/// What goes wrong with a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// It is not done, and answered with this status and headers.
    Refuse(u16, &'static str),
    /// The same, before its body is read; then the connection ends.
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
    deepest: usize,
    reports: Option<Reports>,
    script: Script,
    manner: Manner,
    /// Bytes of PUT requests that were done.
    stored: u64,
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
            deepest: 0,
            reports: None,
            changed: BTreeMap::new(),
            script: Box::new(|_, _, _| None),
            manner,
            stored: 0,
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
    }

    /// From now on it tells what has changed, or not any more.
    pub(crate) fn report(&self, reports: Option<Reports>) {
        self.state().reports = reports;
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    length: usize,
}

impl Request {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16) -> Self {
        Self { status, headers: String::new(), body: Vec::new() }
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.headers, "{name}: {value}\r\n");
        self
    }

    /// Its head up to the framing, which its sender adds.
    fn start(&self) -> String {
        format!("HTTP/1.1 {} Said\r\n{}", self.status, self.headers)
    }

    fn bytes(&self) -> Vec<u8> {
        let head = format!("{}content-length: {}\r\n\r\n", self.start(), self.body.len());
        [head.as_bytes(), &self.body].concat()
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    // As if killed: what is not answered yet is never answered.
    let _ = stream.set_zero_linger();
    let _ = converse(&mut stream, &state).await;
}

async fn converse(stream: &mut TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let mut swapped: Option<Vec<u8>> = None;
    loop {
        let Some(request) = read_head(stream, &mut buffer, swapped.is_some()).await? else {
            // No request came behind one whose answer was to be second.
            match swapped.take() {
                Some(answer) => stream.write_all(&answer).await?,
                None => return close(stream).await,
            }
            continue;
        };
        let fault = {
            let mut state = state.lock().unwrap();
            let number = state.requests;
            state.requests += 1;
            state.deepest = state.deepest.max(1 + waiting(&buffer, request.length));
            (state.script)(&request.method, &request.path, number)
        };
        if let Some(Fault::RefuseEarly(status)) = fault {
            stream.write_all(&Answer::new(status).with("connection", "close").bytes()).await?;
            // Without reading on, so that the kernel resets what still comes.
            sleep(Duration::from_millis(20)).await;
            return close(stream).await;
        }
        while buffer.len() < request.length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let body = buffer.split_to(request.length);
        let mut answer = match fault {
            Some(Fault::Refuse(status, headers)) => {
                let mut answer = Answer::new(status);
                answer.headers.push_str(headers);
                answer
            }
            Some(Fault::Reset) => return Ok(()),
            Some(Fault::Overtaken(path)) => {
                state.lock().unwrap().put(path, &[b'T'; 1000], Duration::ZERO);
                return Ok(());
            }
            Some(Fault::Silence) => {
                // Until the client has enough.
                while stream.read_buf(&mut buffer).await? > 0 {}
                return Ok(());
            }
            _ => state.lock().unwrap().answer(&request, &body),
        };
        match fault {
            Some(Fault::DoneAndReset | Fault::Reset | Fault::Silence | Fault::RefuseEarly(_) | Fault::Overtaken(_)) => {
                return Ok(());
            }
            Some(Fault::Forget) => continue,
            Some(Fault::Swap) if swapped.is_none() => {
                swapped = Some(answer.bytes());
                continue;
            }
            None | Some(Fault::Refuse(..) | Fault::Swap) => stream.write_all(&answer.bytes()).await?,
            Some(Fault::Cut) => {
                let bytes = answer.bytes();
                stream.write_all(&bytes[..bytes.len() - answer.body.len().div_ceil(2).max(1)]).await?;
                return close(stream).await;
            }
            Some(Fault::CutUntold) => {
                let head = format!("{}connection: close\r\n\r\n", answer.start());
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(&answer.body[..answer.body.len() / 2]).await?;
                return close(stream).await;
            }
            Some(Fault::WrongDigest) => {
                // Of a part, Content-MD5 would say nothing.
                answer = answer.with("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ==");
                answer = answer.with("content-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
                stream.write_all(&answer.bytes()).await?;
            }
            Some(Fault::EndlessHead) => {
                stream.write_all(answer.start().as_bytes()).await?;
                for line in 0_u64.. {
                    stream.write_all(format!("x-{line}: {}\r\n", "x".repeat(2000)).as_bytes()).await?;
                }
            }
            Some(Fault::EndlessBody) => {
                stream.write_all(format!("{}transfer-encoding: chunked\r\n\r\n", answer.start()).as_bytes()).await?;
                loop {
                    stream.write_all(format!("4000\r\n{}\r\n", " ".repeat(0x4000)).as_bytes()).await?;
                }
            }
            Some(Fault::TricklingHead) => {
                stream.write_all(answer.start().as_bytes()).await?;
                trickle(stream).await?;
            }
            Some(Fault::TricklingBody) => {
                stream.write_all(format!("{}content-length: 1000000\r\n\r\n", answer.start()).as_bytes()).await?;
                trickle(stream).await?;
            }
        }
        if let Some(first) = swapped.take() {
            stream.write_all(&first).await?;
        }
    }
}

async fn trickle(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        stream.write_all(b"x").await?;
        sleep(Duration::from_millis(20)).await;
    }
}

/// Ends a connection in good order.
async fn close(stream: &mut TcpStream) -> io::Result<()> {
    socket2::SockRef::from(&*stream).set_linger(None)?;
    stream.shutdown().await
}

/// The requests behind the one in hand that are here already, without looking too closely.
fn waiting(buffer: &BytesMut, length: usize) -> usize {
    let behind = buffer.get(length..).unwrap_or_default();
    behind.windows(11).filter(|window| window == b" HTTP/1.1\r\n").count()
}

/// The next request's head; none at the end, or soon, if nothing comes, for those in a hurry.
async fn read_head(stream: &mut TcpStream, buffer: &mut BytesMut, hurry: bool) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        tokio::select! {
            read = stream.read_buf(buffer) => if read? == 0 { return Ok(None) },
            () = sleep(Duration::from_millis(100)), if hurry => return Ok(None),
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.advance(end + 4);
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default().to_owned(), words.next().unwrap_or_default());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let mut request = Request { method, path: path.trim_end_matches('/').to_owned(), headers, length: 0 };
    request.length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    Ok(Some(request))
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn etag(version: u64) -> String {
    format!("\"v{version}\"")
}

impl State {
    fn is_folder(&self, path: &str) -> bool {
        matches!(self.nodes.get(path), Some(Node::Folder))
    }

    fn put(&mut self, path: &str, content: &[u8], age: Duration) {
        self.versions += 1;
        for (at, _) in path.match_indices('/').skip(1) {
            if self.nodes.insert(path[..at].into(), Node::Folder).is_none() {
                self.note(&path[..at]);
            }
        }
        let (version, modified) = (self.versions, SystemTime::now() - age);
        self.nodes.insert(path.into(), Node::File { content: content.into(), version, modified });
        self.note(path);
    }

    fn remove(&mut self, path: &str) -> Vec<(String, Node)> {
        let below = format!("{path}/");
        let gone: Vec<String> =
            self.nodes.keys().filter(|known| *known == path || known.starts_with(&below)).cloned().collect();
        gone.into_iter().filter_map(|path| self.nodes.remove(&path).map(|node| (path, node))).collect()
    }

    /// Whether a lock, or a condition on the state, forbids to write.
    fn forbids(&self, path: &str, request: &Request) -> Option<u16> {
        if let Some((token, _)) = self.locks.get(path)
            && !request.header("if").is_some_and(|claims| claims.contains(token.as_str()))
        {
            return Some(423);
        }
        let tag = match self.nodes.get(path) {
            Some(Node::File { version, .. }) => Some(etag(*version)),
            Some(Node::Folder) | None => None,
        };
        let absent = request.header("if-none-match").is_some() && self.nodes.contains_key(path);
        let fits = |wanted: &str| tag.as_deref().is_some_and(|tag| wanted == "*" || wanted == tag);
        let changed = request.header("if-match").is_some_and(|wanted| !fits(wanted));
        (absent || changed).then_some(412)
    }

    fn answer(&mut self, request: &Request, body: &[u8]) -> Answer {
        let path = request.path.as_str();
        let writes = matches!(request.method.as_str(), "PUT" | "DELETE" | "MKCOL" | "MOVE");
        if writes && let Some(status) = self.forbids(path, request) {
            return Answer::new(status);
        }
        if self.manner == Manner::Cloud
            && let Some(answer) = self.cloud(request, body)
        {
            return answer;
        }
        match request.method.as_str() {
            "OPTIONS" if self.manner == Manner::Plain => Answer::new(200).with("dav", "1, 2"),
            "OPTIONS" => Answer::new(200).with("dav", "1,2, <http://apache.org/dav/propset/fs/1>"),
            "PROPFIND" => self.list(path, request.header("depth") == Some("1")),
            "REPORT" => self.changes(path, &String::from_utf8_lossy(body)),
            "GET" => self.get(path, request),
            "PUT" if !self.is_folder(parent(path)) => Answer::new(409),
            "PUT" if self.is_folder(path) => Answer::new(405),
            "PUT" => match self.content(path, request, body) {
                None => Answer::new(400),
                Some(content) => {
                    self.stored += body.len() as u64;
                    let mtime = request.header("x-oc-mtime").filter(|_| self.manner == Manner::Cloud);
                    let existed = self.store(path, content, mtime);
                    Answer::new(if existed { 204 } else { 201 }).with("etag", &etag(self.versions))
                }
            },
            "MKCOL" if self.nodes.contains_key(path) => Answer::new(405),
            "MKCOL" if !self.is_folder(parent(path)) => Answer::new(409),
            "MKCOL" => {
                self.nodes.insert(path.into(), Node::Folder);
                Answer::new(201)
            }
            "DELETE" => {
                let gone = self.remove(path);
                self.locks.remove(path);
                Answer::new(if gone.is_empty() { 404 } else { 204 })
            }
            "MOVE" => self.rename(path, request),
            "LOCK" => self.take_lock(path, request, &String::from_utf8_lossy(body)),
            "UNLOCK" => Answer::new(if self.locks.remove(path).is_some() { 204 } else { 409 }),
            _ => Answer::new(405),
        }
    }

    fn get(&self, path: &str, request: &Request) -> Answer {
        let Some(Node::File { content, version, .. }) = self.nodes.get(path) else { return Answer::new(404) };
        let tag = etag(*version);
        if request.header("if-match").is_some_and(|wanted| wanted != tag) {
            return Answer::new(412);
        }
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let range = range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse::<usize>().ok()?)));
        let (mut answer, content) = match range {
            Some((first, last)) => {
                let told = format!("bytes {first}-{last}/{}", content.len());
                (Answer::new(206).with("content-range", &told), &content[first..=last])
            }
            None => (Answer::new(200), &content[..]),
        };
        answer.body = content.into();
        answer.with("etag", &tag)
    }

    /// What a file is after a PUT, which may be of a part; none if it may not.
    fn content(&self, path: &str, request: &Request, body: &[u8]) -> Option<Vec<u8>> {
        let range = request.header("content-range").and_then(|range| range.strip_prefix("bytes ")?.split_once('-'));
        let start = range.and_then(|(first, _)| first.parse::<usize>().ok());
        match (self.manner, start) {
            (Manner::Apache | Manner::Spoiling, Some(start)) => {
                let Some(Node::File { content, .. }) = self.nodes.get(path) else { return None };
                let mut content = content.clone();
                content.resize(content.len().max(start + body.len()), 0);
                content[start..start + body.len()].copy_from_slice(body);
                content[start] ^= u8::from(self.manner == Manner::Spoiling);
                Some(content)
            }
            (Manner::Plain | Manner::Refusing | Manner::Cloud, Some(_)) => None,
            (_, None) | (Manner::Replacing, Some(_)) => Some(body.into()),
        }
    }

    fn rename(&mut self, path: &str, request: &Request) -> Answer {
        let to = cloud::destination(request);
        let exists = self.nodes.contains_key(&to);
        if !self.nodes.contains_key(path) {
            return Answer::new(404);
        }
        if let Some(status) = self.forbids_move(&to, request) {
            return Answer::new(status);
        }
        self.remove(&to);
        for (from, node) in self.remove(path) {
            self.nodes.insert(from.replacen(path, &to, 1), node);
        }
        Answer::new(if exists { 204 } else { 201 })
    }

    fn take_lock(&mut self, path: &str, request: &Request, body: &str) -> Answer {
        let refresh = request.header("if").is_some();
        let status = match self.locks.get(path) {
            Some(_) if !refresh => return Answer::new(423),
            Some(_) => 200,
            None if refresh => return Answer::new(412),
            None if self.nodes.contains_key(path) => 200,
            None => 201,
        };
        self.versions += 1;
        let version = self.versions;
        let empty = Node::File { content: Vec::new(), version, modified: SystemTime::now() };
        self.nodes.entry(path.into()).or_insert(empty);
        let owner = body.split_once("owner>").and_then(|(_, rest)| rest.split_once('<')).map_or("", |(owner, _)| owner);
        let lock = || (format!("urn:lock:{version}"), owner.to_owned());
        let (token, _) = self.locks.entry(path.into()).or_insert_with(lock).clone();
        let mut answer = Answer::new(status).with("lock-token", &format!("<{token}>"));
        answer.body = format!("<d:prop xmlns:d='DAV:'>{}</d:prop>", self.discover(path)).into();
        answer
    }

    /// The property `lockdiscovery`.
    fn discover(&self, path: &str) -> String {
        let Some((token, owner)) = self.locks.get(path) else { return String::new() };
        format!(
            "<d:lockdiscovery><d:activelock><d:locktype><d:write/></d:locktype><d:lockscope><d:exclusive/></d:lockscope>\
             <d:depth>0</d:depth><d:owner>{owner}</d:owner><d:timeout>Second-600</d:timeout><d:locktoken><d:href>{token}\
             </d:href></d:locktoken></d:activelock></d:lockdiscovery>"
        )
    }

    fn list(&self, path: &str, children: bool) -> Answer {
        if !self.nodes.contains_key(path) {
            return Answer::new(404);
        }
        let mut text = String::from("<?xml version='1.0'?><d:multistatus xmlns:d='DAV:'>");
        for (known, node) in &self.nodes {
            if known != path && !(children && !known.is_empty() && parent(known) == path) {
                continue;
            }
            self.describe(&mut text, known, node);
        }
        text.push_str("</d:multistatus>");
        let mut answer = Answer::new(207).with("content-type", "application/xml");
        answer.body = text.into();
        answer
    }

    fn describe(&self, text: &mut String, path: &str, node: &Node) {
        let (slash, properties) = match node {
            Node::Folder => {
                let state = self.reports.map_or(String::new(), |_| {
                    let token = self.versions;
                    format!(
                        "<d:sync-token>urn:state:{token}</d:sync-token><d:supported-report-set><d:supported-report>\
                         <d:report><d:sync-collection/></d:report></d:supported-report></d:supported-report-set>"
                    )
                });
                ("/", format!("<d:resourcetype><d:collection/></d:resourcetype>{state}"))
            }
            Node::File { content, version, modified } => {
                let date = DateTime::<Utc>::from(*modified).format("%a, %d %b %Y %H:%M:%S GMT");
                let (length, tag, locks) = (content.len(), etag(*version), self.discover(path));
                (
                    "",
                    format!(
                        "<d:resourcetype/><d:getcontentlength>{length}</d:getcontentlength><d:getlastmodified>{date}\
                         </d:getlastmodified><d:getetag>{tag}</d:getetag>{locks}"
                    ),
                )
            }
        };
        let _ = write!(
            text,
            "<d:response><d:href>{path}{slash}</d:href><d:propstat><d:prop>{properties}</d:prop><d:status>HTTP/1.1 200 \
             OK</d:status></d:propstat></d:response>"
        );
    }

    /// Something of this name is not what it was, and so is nothing below it.
    fn note(&mut self, path: &str) {
        self.changed.insert(path.into(), self.versions);
    }

    /// What has changed in a folder, the oldest first (RFC 6578 §3).
    fn changes(&self, path: &str, body: &str) -> Answer {
        let Some(reports) = self.reports else { return Answer::new(403) };
        if reports.refuses && body.contains("infinite") {
            return Answer::new(400);
        }
        let token = body.split_once("urn:state:").and_then(|(_, rest)| rest.split_once('<')?.0.parse::<u64>().ok());
        if token.is_some_and(|token| token < reports.oldest) {
            let mut refused = Answer::new(403).with("content-type", "application/xml");
            refused.body = "<d:error xmlns:d='DAV:'><d:valid-sync-token/></d:error>".into();
            return refused;
        }
        let below = format!("{path}/");
        let reached = |known: &str| {
            known
                .strip_prefix(&below)
                .is_some_and(|rest| (reports.deep && body.contains("infinite")) || !rest.contains('/'))
        };
        let since = token.unwrap_or(0);
        let mut changed: Vec<(u64, &String)> = self
            .changed
            .iter()
            .filter(|(known, at)| **at > since && reached(known))
            .map(|(known, at)| (*at, known))
            .collect();
        changed.sort_unstable();
        let left = changed.len().saturating_sub(reports.limit);
        changed.truncate(reports.limit);
        let mut text = String::from("<?xml version='1.0'?><d:multistatus xmlns:d='DAV:'>");
        for (_, known) in &changed {
            match self.nodes.get(*known) {
                Some(node) => self.describe(&mut text, known, node),
                None if token.is_none() => {}
                None => {
                    let _ = write!(
                        text,
                        "<d:response><d:href>{known}</d:href><d:status>HTTP/1.1 404 Not Found</d:status></d:response>"
                    );
                }
            }
        }
        let mut now = self.versions;
        if left > 0 {
            now = changed.last().map_or(since, |(at, _)| *at);
            let _ = write!(
                text,
                "<d:response><d:href>{path}/</d:href><d:status>HTTP/1.1 507 Insufficient Storage</d:status><d:error>\
                 <d:number-of-matches-within-limits/></d:error></d:response>"
            );
        }
        let _ = write!(text, "<d:sync-token>urn:state:{now}</d:sync-token></d:multistatus>");
        let mut answer = Answer::new(207).with("content-type", "application/xml");
        answer.body = text.into();
        answer
    }
}
