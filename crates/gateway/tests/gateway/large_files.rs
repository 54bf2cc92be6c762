//! Large files, which are read again from disk.

use std::{
    fs::File,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use futures_util::{FutureExt, future::BoxFuture};
use haul_http::{Body, Client};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serve::{Answered, Config, RequestStream, Server, Service};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

use crate::{
    redirector::{ANN, BOB},
    world::{CACHE, Running, World, gateway, loopback, run},
};

const PATH: &str = "/files/large";

impl World {
    fn with_large(length: usize) -> Self {
        let world = Self::new();
        world.write(PATH, &text(0, length));
        world
    }

    /// Writes a file that was not changed for a while.
    fn write(&self, path: &str, content: &str) {
        let path = self.folder.path().join("root").join(path.trim_start_matches('/'));
        std::fs::write(&path, content).unwrap();
        let then = SystemTime::now() - Duration::from_hours(1);
        File::options().write(true).open(path).unwrap().set_modified(then).unwrap();
    }

    /// The statuses of the server's answers to a request.
    fn statuses(&self, method: &str, path: &str) -> Vec<u16> {
        let request = format!("\"{method} {path} HTTP");
        let lines = self.lines();
        let of_request = lines.iter().filter(|line| line.contains(&request));
        of_request.map(|line| line.rsplit('"').find_map(|rest| rest.split(' ').nth(1)?.parse().ok()).unwrap()).collect()
    }

    /// Reads a file until the server only confirms it.
    async fn read_until_kept(&self, who: &str, path: &str, content: &str) {
        let begin = Instant::now();
        while self.statuses("GET", path).last() != Some(&304) {
            assert!(begin.elapsed() < Duration::from_mins(1), "{:?}", self.lines());
            let (status, body) = self.ask(who, "GET", path, &[], b"").await;
            assert!(status == StatusCode::OK && body == content);
        }
    }

    async fn bytes_on_disk(&mut self) -> u64 {
        let at = self.status();
        let metrics = self.look(at, "/metrics").await.1;
        let line = metrics.lines().find_map(|line| line.strip_prefix("longhaul_gateway_disk_cache_bytes "));
        line.unwrap().parse().unwrap()
    }
}

fn text(number: usize, length: usize) -> String {
    let lines = (number..number + 1000).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
    lines.repeat(length / lines.len() + 1)[..length].to_owned()
}

#[tokio::test]
async fn a_large_file_is_confirmed_and_read_from_disk() {
    const LENGTH: usize = 700_000;
    let (world, old) = (World::with_large(LENGTH), text(0, LENGTH));
    world.read_until_kept(ANN, PATH, &old).await;
    let ranges = [
        ("bytes=10-19", 206, &old[10..20]),
        ("bytes=300000-", 206, &old[300_000..]),
        ("bytes=-5", 206, &old[LENGTH - 5..]),
        ("bytes=700000-", 416, ""),
        ("bytes=0-1,4-5", 200, &old),
    ];
    for (range, status, content) in ranges {
        let answer = world.ask(ANN, "GET", PATH, &[("range", range)], b"").await;
        assert!(answer.0 == status && answer.1 == content, "{range}: {}", answer.0);
    }
    // For somebody else it is not there, however they ask.
    let known = world.statuses("GET", PATH).iter().filter(|status| **status == 304).count();
    for (who, status) in [("", 401), ("ann:wrong", 401), ("bob:ann's", 401), (BOB, 200)] {
        assert_eq!(world.ask(who, "GET", PATH, &[], b"").await.0, status, "{who}");
    }
    assert_eq!(world.statuses("GET", PATH).iter().filter(|status| **status == 304).count(), known);
    // A version of another length, and one of the same.
    for new in [text(7, LENGTH + 1), text(8, LENGTH + 1)] {
        world.write(PATH, &new);
        let answer = world.ask(ANN, "GET", PATH, &[("range", "bytes=1-5")], b"").await;
        assert_eq!((answer.0.as_u16(), &*answer.1), (206, &new[1..6]));
        world.read_until_kept(ANN, PATH, &new).await;
    }
    std::fs::remove_file(world.folder.path().join("root/files/large")).unwrap();
    assert_eq!(world.ask(ANN, "GET", PATH, &[], b"").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_client_that_knows_a_version_gets_the_servers_answer() {
    let (world, content) = (World::with_large(700_000), text(0, 700_000));
    world.read_until_kept(ANN, PATH, &content).await;
    let known = [("if-none-match", "*")];
    assert_eq!(world.ask(ANN, "GET", PATH, &known, b"").await.0, StatusCode::NOT_MODIFIED);
    let other = [("if-match", "\"x\"")];
    assert_eq!(world.ask(ANN, "GET", PATH, &other, b"").await.0, StatusCode::PRECONDITION_FAILED);
    let none = [("if-range", "\"x\""), ("range", "bytes=0-1")];
    let answer = world.ask(ANN, "GET", PATH, &none, b"").await;
    assert!(answer.0 == StatusCode::OK && answer.1 == content);
}

#[tokio::test]
async fn the_disk_is_bounded() {
    let mut world = World::with_large(usize::try_from(CACHE / 4).unwrap() + 1);
    for _ in 0..2 {
        assert_eq!(world.ask(ANN, "GET", PATH, &[], b"").await.0, StatusCode::OK);
    }
    assert_eq!(world.statuses("GET", PATH), [200, 200], "a quarter is the most for one");
    assert_eq!(world.bytes_on_disk().await, 0);
    for number in 0..12 {
        let (path, content) = (format!("/files/{number}"), text(number, 4 << 20));
        world.write(&path, &content);
        world.read_until_kept(ANN, &path, &content).await;
        assert!(world.bytes_on_disk().await <= CACHE);
    }
    assert_eq!(world.ask(ANN, "GET", "/files/0", &[], b"").await.1, text(0, 4 << 20));
    assert_eq!(world.statuses("GET", "/files/0").last(), Some(&200), "it was used longest ago");
    world.read_until_kept(ANN, "/files/11", &text(11, 4 << 20)).await;
    assert_eq!(world.statuses("GET", "/files/11").last(), Some(&304));
}

#[tokio::test]
async fn half_a_file_is_not_kept() {
    const LENGTH: usize = 8_000_000;
    let mut world = World::with_large(LENGTH);
    let socket = TcpSocket::new_v4().unwrap();
    // The rest is more than the buffers on the way hold.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = socket.connect(world.gateway).await.unwrap();
    let authorization = BASE64_STANDARD.encode(ANN);
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Basic {authorization}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    client.read_exact(&mut [0; 1000]).await.unwrap();
    assert!(world.bytes_on_disk().await > 0, "it has begun");
    drop(client);
    let begin = Instant::now();
    while world.bytes_on_disk().await > 0 {
        assert!(begin.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (status, whole) = world.ask(ANN, "GET", PATH, &[], b"").await;
    assert!(status == StatusCode::OK && whole == text(0, LENGTH));
    assert_eq!(world.statuses("GET", PATH).last(), Some(&200));
}

#[tokio::test]
async fn a_version_of_this_moment_is_not_kept() {
    let world = World::with_large(700_000);
    let file = File::options().write(true).open(world.folder.path().join("root").join(&PATH[1..])).unwrap();
    file.set_modified(SystemTime::now()).unwrap();
    for _ in 0..2 {
        assert_eq!(world.ask(ANN, "GET", PATH, &[], b"").await.0, StatusCode::OK);
    }
    assert_eq!(world.statuses("GET", PATH), [200, 200], "the next version may have the same tag");
}

#[tokio::test]
async fn what_is_saved_here_is_read_at_once() {
    let (world, old, new) = (World::with_large(700_000), text(0, 700_000), text(1, 700_000));
    world.read_until_kept(ANN, PATH, &old).await;
    assert_eq!(world.ask(ANN, "PUT", PATH, &[], new.as_bytes()).await.0, StatusCode::NO_CONTENT);
    let answer = world.ask(ANN, "GET", PATH, &[], b"").await;
    assert!(answer.0 == StatusCode::OK && answer.1 == new);
    assert_eq!(world.statuses("GET", PATH).last(), Some(&200));
}

/// A server that answers a condition with this status and this tag, and has a new version each time without one.
struct Odd {
    condition: (u16, &'static str),
    versions: Mutex<u32>,
}

impl Service for Odd {
    fn answer(&self, _client: SocketAddr, request: Request<RequestStream>) -> BoxFuture<'_, Answered> {
        let (status, tag) = self.condition;
        let builder = Response::builder().header("cache-control", "private");
        let response = if request.headers().contains_key("if-none-match") {
            builder.status(status).header("etag", tag).body(serve::whole("")).unwrap()
        } else {
            let mut versions = self.versions.lock().unwrap();
            *versions += 1;
            let content = text(*versions as usize, 300_000);
            builder.header("etag", format!("\"{versions}\"")).body(serve::whole(content)).unwrap()
        };
        async move { Answered { response, user: None } }.boxed()
    }
}

#[tokio::test]
async fn odd_answers_to_a_condition_reach_no_client() {
    for condition in [(304, "\"other\""), (412, "\"1\""), (304, "\"1\"")] {
        let odd = Arc::new(Odd { condition, versions: Mutex::default() });
        let config = Config { listen: loopback(), ..Config::default() };
        let server = Server::with_service(odd.clone(), &config).unwrap();
        let upstream = format!("http://{}/files/", server.local_addr()).parse().unwrap();
        let (_service, front) = gateway(&upstream, None, &Arc::default());
        let at = front.local_addr();
        let running = Running(vec![run(server), run(front)]);
        let client = Client::new(haul_http::Settings::default(), haul_http::auth::Authenticator::default()).unwrap();
        let read = async || {
            let authorization = format!("Basic {}", BASE64_STANDARD.encode(ANN));
            let request = Request::get(format!("http://{at}/files/a")).header("authorization", authorization);
            let answer = client.exchange(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK);
            answer.into_body().collect().await.unwrap().to_bytes()
        };
        for _ in 0..5 {
            let content = read().await;
            let version = *odd.versions.lock().unwrap();
            assert!(content == text(version as usize, 300_000), "{condition:?}: the newest");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Confirmed only by the tag that it was given.
        assert_eq!(*odd.versions.lock().unwrap() == 5, condition.1 != "\"1\"" || condition.0 != 304, "{condition:?}");
        drop(running);
    }
}
