//! Requests through a gateway to a real server with two users, over loopback.

use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use gateway::{Gateway, Settings};
use haul_http::{Body, Client};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serve::{AccessLog, Config, Server};
use tokio::task::JoinHandle;

/// A server with the users ann and bob, and a gateway in front of it.
struct World {
    folder: tempfile::TempDir,
    log: Arc<Mutex<Vec<u8>>>,
    gateway: SocketAddr,
    server: SocketAddr,
    client: Client,
    running: Vec<JoinHandle<()>>,
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
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("root/files/ann")).unwrap();
        std::fs::create_dir_all(folder.path().join("root/secret")).unwrap();
        let passwords = folder.path().join("passwords");
        let line = |user: &str| format!("{user}:{}\n", bcrypt::hash(format!("{user}'s"), 4).unwrap());
        std::fs::write(&passwords, line("ann") + &line("bob")).unwrap();
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let server = Server::bind(Config {
            root: folder.path().join("root"),
            listen: loopback(),
            auth: Some(passwords),
            access_log: Some(AccessLog::new(Shared(log.clone()))),
            ..Config::default()
        });
        let server = server.unwrap();
        let address = server.local_addr();
        let upstream = format!("http://{address}/files/").parse().unwrap();
        let gateway = Gateway::new(Settings { upstream, client: haul_http::Settings::default() }).unwrap();
        let config =
            Config { listen: loopback(), access_log: Some(AccessLog::new(Shared(log.clone()))), ..Config::default() };
        let front = Server::with_service(Arc::new(gateway), &config).unwrap();
        let at = front.local_addr();
        let run = |server: Server| tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() });
        let client = Client::new(haul_http::Settings::default(), haul_http::auth::Authenticator::default()).unwrap();
        Self { folder, log, gateway: at, server: address, client, running: vec![run(server), run(front)] }
    }

    async fn ask(
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

    fn on_disk(&self, path: &str) -> Option<Vec<u8>> {
        std::fs::read(self.folder.path().join("root").join(path)).ok()
    }
}

#[tokio::test]
async fn each_request_has_its_clients_credentials() {
    let world = World::new();
    assert_eq!(world.ask("", "GET", "/files/a", &[], b"").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(world.ask("ann:wrong", "PUT", "/files/a", &[], b"x").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(world.ask("ann:ann's", "PUT", "/files/a", &[], b"by ann").await.0, StatusCode::CREATED);
    assert_eq!(world.ask("bob:bob's", "GET", "/files/a", &[], b"").await, (StatusCode::OK, "by ann".into()));
    assert_eq!(world.ask("bob:ann's", "GET", "/files/a", &[], b"").await.0, StatusCode::UNAUTHORIZED);
    let large = vec![7; 3_000_000];
    assert_eq!(world.ask("bob:bob's", "PUT", "/files/large", &[], &large).await.0, StatusCode::CREATED);
    assert_eq!(world.on_disk("files/large"), Some(large));
    let log = String::from_utf8(world.log.lock().unwrap().clone()).unwrap();
    for line in ["- ann [", "- bob ["] {
        let lines: Vec<_> = log.lines().filter(|at| at.contains(line)).collect();
        assert!(lines.len() >= 2, "the server's log and the gateway's: {log}");
    }
    assert!(!log.contains("ann's") && !log.contains("YW5u"), "{log}");
}

#[tokio::test]
async fn a_destination_is_translated_and_stays_in_the_folder() {
    let world = World::new();
    world.ask("ann:ann's", "PUT", "/files/a", &[], b"1").await;
    let to = format!("http://{}/files/b", world.gateway);
    assert_eq!(world.ask("ann:ann's", "MOVE", "/files/a", &[("destination", &to)], b"").await.0, StatusCode::CREATED);
    assert_eq!((world.on_disk("files/a"), world.on_disk("files/b")), (None, Some(b"1".to_vec())));
    for elsewhere in
        [format!("http://{}/secret/b", world.gateway), "/files/../secret/b".into(), "/files/%2e%2e/secret/b".into()]
    {
        let moved = world.ask("ann:ann's", "MOVE", "/files/b", &[("destination", &elsewhere)], b"").await;
        assert_eq!(moved.0, StatusCode::FORBIDDEN, "{elsewhere}");
    }
    let there = format!("http://{}/files/c", world.server);
    let moved = world.ask("ann:ann's", "MOVE", "/files/b", &[("destination", &there)], b"").await;
    assert_eq!(moved.0, StatusCode::BAD_GATEWAY, "the server's own name is not the gateway's");
    assert_eq!(world.ask("ann:ann's", "GET", "/secret/", &[], b"").await.0, StatusCode::FORBIDDEN);
    assert_eq!(world.on_disk("files/b"), Some(b"1".to_vec()));
}

#[tokio::test]
async fn locks_hold_under_the_gateways_names() {
    let world = World::new();
    let lock = br#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"#;
    let (status, body) = world.ask("ann:ann's", "LOCK", "/files/a", &[], lock).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let token = &body[body.find("urn:uuid:").or_else(|| body.find("opaquelocktoken:")).unwrap()..];
    let token = &token[..token.find('<').unwrap()];
    assert_eq!(world.ask("bob:bob's", "PUT", "/files/a", &[], b"bob").await.0, StatusCode::LOCKED);
    let tagged = format!("<http://{}/files/a> (<{token}>)", world.gateway);
    assert_eq!(world.ask("ann:ann's", "PUT", "/files/a", &[("if", &tagged)], b"ann").await.0, StatusCode::NO_CONTENT);
    assert_eq!(world.on_disk("files/a"), Some(b"ann".to_vec()));
}

#[test]
fn a_url_that_cannot_be_used_is_not_repeated() {
    for url in
        ["https://ann:secret@dav.example/files/", "https://dav.example/files", "/files/", "https://dav.example/?a"]
    {
        let settings = Settings { upstream: url.parse().unwrap(), client: haul_http::Settings::default() };
        let said = Gateway::new(settings).err().unwrap().to_string();
        assert!(!said.contains("secret") && said.contains("https://dav.example.org/files/"), "{url}: {said}");
    }
    let settings =
        Settings { upstream: "http://dav.example/".parse().unwrap(), client: haul_http::Settings::default() };
    assert!(Gateway::new(settings).err().unwrap().to_string().contains("cleartext"));
}

#[tokio::test]
async fn a_server_that_is_away_is_a_gateways_error() {
    let mut world = World::new();
    world.running.remove(0).abort();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let (status, why) = world.ask("ann:ann's", "GET", "/files/a", &[], b"").await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(why.contains("127.0.0.1") && !why.contains("ann's"), "{why}");
}
