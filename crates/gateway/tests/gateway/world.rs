//! A real server with the users ann and bob, and a gateway in front of it, over loopback.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use gateway::{DiskCache, Gateway, Settings, WriteBack};
use haul_http::{Body, Client};
use http::{Request, StatusCode, Uri};
use http_body_util::BodyExt;
use serve::{AccessLog, Config, Server, Service, Status};
use tokio::{sync::oneshot, task::JoinHandle};

/// How long listings are believed: longer than a test takes.
pub(crate) const FRESH: Duration = Duration::from_mins(10);

/// The largest size of large files on disk.
pub(crate) const CACHE: u64 = 32 << 20;

/// A server with the users ann and bob, and a gateway in front of it.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    /// The server's access log, and the gateway's.
    pub(crate) logs: [Arc<Mutex<Vec<u8>>>; 2],
    service: Arc<Gateway>,
    upstream: Uri,
    pub(crate) gateway: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) client: Client,
    /// The gateway ends when this is dropped.
    stop: oneshot::Sender<()>,
    front: JoinHandle<()>,
    pub(crate) running: Running,
}

/// Tasks that end with the test.
pub(crate) struct Running(pub(crate) Vec<JoinHandle<()>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

#[derive(Clone)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn loopback() -> Vec<SocketAddr> {
    vec![([127, 0, 0, 1], 0).into()]
}

pub(crate) fn run(server: Server) -> JoinHandle<()> {
    tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() })
}

fn run_front(server: Server) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel();
    (stop, tokio::spawn(async move { server.run(async { drop(stopped.await) }).await.unwrap() }))
}

pub(crate) fn gateway(
    upstream: &Uri,
    write_back: Option<WriteBack>,
    log: &Arc<Mutex<Vec<u8>>>,
) -> (Arc<Gateway>, Server) {
    let (upstream, client) = (upstream.clone(), haul_http::Settings::default());
    let cache = Some(DiskCache { folder: std::env::temp_dir(), size: CACHE });
    let service = Arc::new(Gateway::new(Settings { upstream, client, fresh: FRESH, write_back, cache }).unwrap());
    let config =
        Config { listen: loopback(), access_log: Some(AccessLog::new(Shared(log.clone()))), ..Config::default() };
    let front = Server::with_service(service.clone(), &config).unwrap();
    (service, front)
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|server| server, None)
    }

    /// A gateway that reaches the server at another address, and perhaps acknowledges files before the server has them.
    pub(crate) fn with(seen_at: impl FnOnce(SocketAddr) -> SocketAddr, write_back: Option<WriteBack>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("root/files/ann")).unwrap();
        std::fs::create_dir_all(folder.path().join("root/secret")).unwrap();
        let passwords = folder.path().join("passwords");
        let line = |user: &str| format!("{user}:{}\n", bcrypt::hash(format!("{user}'s"), 4).unwrap());
        std::fs::write(&passwords, line("ann") + &line("bob")).unwrap();
        let logs = [Arc::<Mutex<Vec<u8>>>::default(), Arc::default()];
        let server = Server::bind(Config {
            root: folder.path().join("root"),
            listen: loopback(),
            auth: Some(passwords),
            access_log: Some(AccessLog::new(Shared(logs[0].clone()))),
            ..Config::default()
        });
        let server = server.unwrap();
        let address = server.local_addr();
        let upstream: Uri = format!("http://{}/files/", seen_at(address)).parse().unwrap();
        let (service, front) = gateway(&upstream, write_back, &logs[1]);
        let at = front.local_addr();
        let client = Client::new(haul_http::Settings::default(), haul_http::auth::Authenticator::default()).unwrap();
        let (stop, front) = run_front(front);
        let running = Running(vec![run(server)]);
        Self { folder, logs, service, upstream, gateway: at, server: address, client, stop, front, running }
    }

    /// Ends the gateway, and starts another one.
    pub(crate) async fn restart(self, write_back: Option<WriteBack>) -> Self {
        let Self { stop, front, service, folder, logs, upstream, server, client, running, .. } = self;
        drop((stop, service));
        front.await.unwrap();
        let (service, front) = gateway(&upstream, write_back, &logs[1]);
        let gateway = front.local_addr();
        let (stop, front) = run_front(front);
        Self { folder, logs, service, upstream, gateway, server, client, stop, front, running }
    }

    pub(crate) async fn ask(
        &self,
        who: &str,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> (StatusCode, String) {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.gateway));
        if !who.is_empty() {
            let encoded = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, who);
            request = request.header("authorization", format!("Basic {encoded}"));
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_vec())).unwrap();
        let answer = self.client.exchange(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Begins to answer `/healthz` and `/metrics`, and returns where.
    pub(crate) fn status(&mut self) -> SocketAddr {
        let config = Config { listen: loopback(), ..Config::default() };
        let server = Server::with_service(Arc::new(Status::new(vec![self.service.clone()])), &config).unwrap();
        let at = server.local_addr();
        self.running.0.push(tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() }));
        at
    }

    /// What is at that address.
    pub(crate) async fn look(&self, at: SocketAddr, path: &str) -> (StatusCode, String) {
        let request = Request::get(format!("http://{at}{path}")).body(Body::from(Vec::new())).unwrap();
        let answer = self.client.exchange(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// Waits until the gateway has sent what it has acknowledged.
    pub(crate) async fn settle(&self) {
        self.service.finish().await;
    }

    /// The lines of the server's log.
    pub(crate) fn lines(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.logs[0].lock().unwrap()).lines().map(str::to_owned).collect()
    }

    pub(crate) fn on_disk(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder.path().join("root").join(path)).ok()
    }
}
