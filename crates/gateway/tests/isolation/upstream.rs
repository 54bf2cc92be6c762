//! A WebDAV server that gives each user files of their own under the same names, and a gateway in front of it.

use std::{
    collections::HashMap,
    io::Write,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::{FutureExt, future::BoxFuture};
use gateway::{DiskCache, Gateway, Settings, WriteBack};
use http::{HeaderMap, Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::BodyExt;
use serve::{AccessLog, Answered, Config, RequestStream, Server, Service, whole};
use tokio::task::JoinHandle;

/// Larger files have an entity tag.
pub(crate) const SMALL: usize = 256 * 1024;

pub(crate) const USERS: [&str; 3] = ["ann", "bob", "cy"];

/// A request as the server got it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The other end of the connection.
    pub(crate) connection: SocketAddr,
    /// With the right password.
    pub(crate) user: Option<String>,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) status: StatusCode,
}

#[derive(Default)]
struct State {
    passwords: HashMap<String, String>,
    files: HashMap<(String, String), Vec<u8>>,
    /// The holder and the token of each path: locks are for all users.
    locks: HashMap<String, (String, String)>,
    seen: Vec<Seen>,
    tokens: u32,
    is_refusing: bool,
}

/// The server.
#[derive(Default)]
pub(crate) struct PerUser(Mutex<State>);

impl PerUser {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    pub(crate) fn change_password(&self, user: &str, password: &str) {
        self.state().passwords.insert(user.to_owned(), password.to_owned());
    }

    /// Whether files are refused.
    pub(crate) fn set_refusing(&self, is_refusing: bool) {
        self.state().is_refusing = is_refusing;
    }

    /// The paths of a user's files.
    pub(crate) fn paths(&self, user: &str) -> Vec<String> {
        let state = self.state();
        state.files.keys().filter(|(owner, _)| owner == user).map(|(_, path)| path.clone()).collect()
    }

    pub(crate) fn put(&self, user: &str, path: &str, content: Vec<u8>) {
        self.state().files.insert((user.to_owned(), path.to_owned()), content);
    }

    pub(crate) fn content(&self, user: &str, path: &str) -> Option<Vec<u8>> {
        self.state().files.get(&(user.to_owned(), path.to_owned())).cloned()
    }
}

impl State {
    fn user(&self, headers: &HeaderMap) -> Option<String> {
        // Like a web application, it takes a cookie, too.
        if let Some(user) = headers.get("cookie").and_then(|cookie| cookie.to_str().ok()?.strip_prefix("user=")) {
            return Some(user.to_owned());
        }
        let value = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
        let text = String::from_utf8(BASE64_STANDARD.decode(value).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        (self.passwords.get(user)? == password).then(|| user.to_owned())
    }

    /// Whether a lock forbids a change. Its token helps nobody but its holder (RFC 4918 §6.4).
    fn is_locked(&self, user: &str, path: &str, headers: &HeaderMap) -> bool {
        let shown = headers.get("if").and_then(|value| value.to_str().ok()).unwrap_or_default();
        self.locks.get(path).is_some_and(|(holder, token)| holder != user || !shown.contains(token.as_str()))
    }

    fn answer(&mut self, user: &str, seen: &Seen) -> Response<Vec<u8>> {
        let (path, headers) = (seen.path.split('?').next().unwrap().to_owned(), &seen.headers);
        let file = (user.to_owned(), path.clone());
        let status = |status: u16| Response::builder().status(status).body(Vec::new()).unwrap();
        match &*seen.method {
            "GET" | "HEAD" => match self.files.get(&file) {
                None => status(404),
                // The tag is the same for all users.
                Some(content) if content.len() > SMALL => {
                    let (tag, is_known) = (format!("\"{path}\""), headers.contains_key("if-none-match"));
                    let answer = Response::builder().status(if is_known { 304 } else { 200 }).header("etag", tag);
                    answer.body(if is_known { Vec::new() } else { content.clone() }).unwrap()
                }
                Some(content) => Response::new(content.clone()),
            },
            "PUT" | "PROPPATCH" | "MOVE" | "DELETE" if self.is_locked(user, &path, headers) => status(423),
            "PUT" if self.is_refusing && !seen.body.is_empty() => status(403),
            "DELETE" if self.files.remove(&file).is_some() => status(204),
            "PUT" => match self.files.insert(file, seen.body.clone()) {
                None => status(201),
                Some(_) => status(204),
            },
            "MOVE" => {
                let to = headers["destination"].to_str().unwrap().parse::<http::Uri>().unwrap().path().to_owned();
                let Some(content) = self.files.remove(&file) else { return status(404) };
                self.files.insert((user.to_owned(), to), content);
                status(201)
            }
            "PROPPATCH" => multistatus(&format!(
                "<D:response><D:href>{path}</D:href><D:propstat><D:prop/><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
            )),
            "PROPFIND" => {
                let depth = headers.get("depth").map_or("infinity", |depth| depth.to_str().unwrap());
                let is_shown = |at: &str| {
                    at == path || (depth == "1" && at.strip_prefix(&path).is_some_and(|rest| !rest.contains('/')))
                };
                let mine =
                    self.files.keys().filter(|(owner, at)| owner == user && is_shown(at)).map(|(_, at)| at.clone());
                let folder = path.ends_with('/').then(|| path.clone());
                let members: Vec<String> =
                    folder.into_iter().chain(mine.filter(|at| *at != path || !path.ends_with('/'))).collect();
                if members.is_empty() {
                    return status(404);
                }
                multistatus(&members.iter().map(|at| format!(
                    "<D:response><D:href>{at}</D:href><D:propstat><D:prop><D:displayname>of {user}</D:displayname></D:prop>\
                     <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
                )).collect::<Vec<_>>().concat())
            }
            "LOCK" if self.locks.contains_key(&path) => status(423),
            "LOCK" => {
                self.tokens += 1;
                let token = format!("urn:uuid:00000000-0000-4000-8000-{:012}", self.tokens);
                self.locks.insert(path, (user.to_owned(), token.clone()));
                let is_new = !self.files.contains_key(&file);
                self.files.entry(file).or_default();
                let body = format!(
                    "<?xml version=\"1.0\"?><D:prop xmlns:D=\"DAV:\"><D:lockdiscovery><D:activelock><D:locktoken><D:href>{token}\
                     </D:href></D:locktoken></D:activelock></D:lockdiscovery></D:prop>"
                );
                let builder = Response::builder().status(if is_new { 201 } else { 200 });
                builder.header("lock-token", format!("<{token}>")).body(body.into_bytes()).unwrap()
            }
            "UNLOCK" => {
                let shown = headers["lock-token"].to_str().unwrap().trim_matches(['<', '>']);
                match self.locks.get(&path) {
                    Some((holder, token)) if token == shown && holder == user => {
                        self.locks.remove(&path);
                        status(204)
                    }
                    Some((_, token)) if token == shown => status(403),
                    _ => status(409),
                }
            }
            "OPTIONS" => Response::builder().header("dav", "1,2").body(Vec::new()).unwrap(),
            _ => status(405),
        }
    }
}

fn multistatus(responses: &str) -> Response<Vec<u8>> {
    let body = format!("<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\">{responses}</D:multistatus>");
    Response::builder().status(207).header("content-type", "application/xml").body(body.into_bytes()).unwrap()
}

impl Service for PerUser {
    fn answer(&self, client: SocketAddr, request: Request<RequestStream>) -> BoxFuture<'_, Answered> {
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
            let mut state = self.state();
            let user = state.user(&parts.headers);
            let path = parts.uri.path_and_query().map_or("*", |path| path.as_str()).to_owned();
            let (method, headers) = (parts.method.to_string(), parts.headers);
            let mut seen =
                Seen { connection: client, user: user.clone(), method, path, headers, body, status: StatusCode::OK };
            let answer = match &user {
                Some(user) => state.answer(user, &seen),
                None => Response::builder()
                    .status(401)
                    .header("www-authenticate", "Basic realm=\"x\"")
                    .body(Vec::new())
                    .unwrap(),
            };
            seen.status = answer.status();
            let is_head = seen.method == "HEAD";
            state.seen.push(seen);
            let response = answer.map(|body| if is_head { whole(Vec::new()) } else { whole(body) });
            Answered { response, user }
        }
        .boxed()
    }
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.0.lock().unwrap()).lines().map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The server, and a gateway for `/files/` in front of it.
pub(crate) struct World {
    pub(crate) server: Arc<PerUser>,
    upstream: SocketAddr,
    pub(crate) gateway: SocketAddr,
    /// The gateway's access log.
    pub(crate) log: Log,
    pub(crate) service: Arc<Gateway>,
    running: Vec<JoinHandle<()>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

fn config() -> Config {
    Config { listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() }
}

fn run(server: Server) -> JoinHandle<()> {
    tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() })
}

/// A gateway in front of a server that listens already.
pub(crate) fn gateway_to(upstream: SocketAddr, fresh: Duration) -> (Arc<Gateway>, SocketAddr, Log, JoinHandle<()>) {
    gateway_with(upstream, fresh, None)
}

fn gateway_with(
    upstream: SocketAddr,
    fresh: Duration,
    write_back: Option<WriteBack>,
) -> (Arc<Gateway>, SocketAddr, Log, JoinHandle<()>) {
    let upstream = format!("http://{upstream}/files/").parse().unwrap();
    let cache = Some(DiskCache { folder: std::env::temp_dir(), size: 1 << 24 });
    let settings = Settings { upstream, client: haul_http::Settings::default(), fresh, write_back, cache };
    let (service, log) = (Arc::new(Gateway::new(settings).unwrap()), Log::default());
    let config = Config { access_log: Some(AccessLog::new(log.clone())), ..config() };
    let front = Server::with_service(service.clone(), &config).unwrap();
    let at = front.local_addr();
    (service, at, log, run(front))
}

/// A user's right credentials, as a header line.
pub(crate) fn basic(user: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(format!("{user}:{user}'s")))
}

impl World {
    pub(crate) fn new(fresh: Duration) -> Self {
        Self::with(fresh, None)
    }

    /// The gateway acknowledges saved files before the server has them.
    pub(crate) fn writing_back(fresh: Duration, state: &Path) -> Self {
        Self::with(fresh, Some(WriteBack { state: state.to_owned(), size: 1 << 20 }))
    }

    fn with(fresh: Duration, write_back: Option<WriteBack>) -> Self {
        let server = Arc::new(PerUser::default());
        for user in USERS {
            server.change_password(user, &format!("{user}'s"));
            for name in ["a", "b"] {
                let content = format!("data of {user} in {name}").into_bytes();
                server.state().files.insert((user.to_owned(), format!("/files/{name}")), content);
            }
        }
        let back = Server::with_service(server.clone(), &config()).unwrap();
        let (service, gateway, log, front) = gateway_with(back.local_addr(), fresh, write_back);
        let upstream = back.local_addr();
        Self { server, upstream, gateway, log, service, running: vec![run(back), front] }
    }

    /// Ends a gateway that acknowledges saved files, and starts another one.
    pub(crate) async fn restart(&mut self, fresh: Duration, state: &Path) {
        self.service.finish().await;
        self.running.pop().unwrap().abort();
        let write_back = Some(WriteBack { state: state.to_owned(), size: 1 << 20 });
        let (service, gateway, log, front) = gateway_with(self.upstream, fresh, write_back);
        (self.service, self.gateway, self.log) = (service, gateway, log);
        self.running.push(front);
    }

    /// What the server has got since it had so many requests.
    pub(crate) fn since(&self, before: usize) -> Vec<Seen> {
        self.server.seen().split_off(before)
    }

    pub(crate) fn count(&self) -> usize {
        self.server.seen().len()
    }

    /// Waits until the gateway's log has so many lines: they are written behind the answers.
    pub(crate) async fn logged(&self, lines: usize) {
        let waiting = async {
            while self.log.lines().len() < lines {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), waiting).await.expect("the lines in time");
    }

    /// Waits until the gateway has sent what it has acknowledged.
    pub(crate) async fn settle(&self) {
        self.service.finish().await;
    }
}
