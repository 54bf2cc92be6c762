//! A real server with the users ann and bob, and a gateway in front of it, over loopback.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use gateway::{Gateway, Settings, Status};
use haul_http::{Body, Client};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serve::{AccessLog, Config, Server, Service};
use tokio::task::JoinHandle;

/// How long listings are believed: longer than a test takes.
pub(crate) const FRESH: Duration = Duration::from_mins(10);

/// A server with the users ann and bob, and a gateway in front of it.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    /// The server's access log, and the gateway's.
    pub(crate) logs: [Arc<Mutex<Vec<u8>>>; 2],
    service: Arc<Gateway>,
    pub(crate) gateway: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) client: Client,
    pub(crate) running: Vec<JoinHandle<()>>,
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

impl Drop for World {
    fn drop(&mut self) {
        self.running.iter().for_each(JoinHandle::abort);
    }
}

fn loopback() -> Vec<SocketAddr> {
    vec![([127, 0, 0, 1], 0).into()]
}

impl World {
    pub(crate) fn new() -> Self {
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
        let upstream = format!("http://{address}/files/").parse().unwrap();
        let service = Arc::new(
            Gateway::new(Settings { upstream, client: haul_http::Settings::default(), fresh: FRESH }).unwrap(),
        );
        let config = Config {
            listen: loopback(),
            access_log: Some(AccessLog::new(Shared(logs[1].clone()))),
            ..Config::default()
        };
        let front = Server::with_service(service.clone(), &config).unwrap();
        let at = front.local_addr();
        let run = |server: Server| tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() });
        let client = Client::new(haul_http::Settings::default(), haul_http::auth::Authenticator::default()).unwrap();
        Self { folder, logs, service, gateway: at, server: address, client, running: vec![run(server), run(front)] }
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
        let server = Server::with_service(Arc::new(Status::new(self.service.clone())), &config).unwrap();
        let at = server.local_addr();
        self.running.push(tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() }));
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
