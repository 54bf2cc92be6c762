//! Eviction: with more slow clients than connections, new clients are still served.

mod common;

use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::time::Duration;

use common::{LIMIT, Running, finish, start};
use serve::{Config, Tls};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const PLACES: usize = 24;
const ATTACKERS: usize = 40;

const SAME: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn small(change: impl FnOnce(&mut Config)) -> Running {
    let server = start(|config| {
        config.connections = NonZeroUsize::new(PLACES);
        change(config);
    });
    server.write("file", "x");
    server
}

async fn connect_from(server: &Running, source: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((source, 0).into()).unwrap();
    timeout(LIMIT, socket.connect(server.address)).await.expect("connected in time").unwrap()
}

/// The status of a GET, which must arrive long before a slow client times out.
async fn get_from(server: &Running, source: Ipv4Addr) -> u16 {
    let mut stream = connect_from(server, source).await;
    stream.write_all(b"GET /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    finish(stream).await.status()
}

async fn assert_others_are_served(server: &Running) {
    for _ in 0..3 {
        for source in [SAME, OTHER] {
            assert_eq!(get_from(server, source).await, 200, "{source}");
        }
    }
}

/// Connects, sends the head, and then a byte now and then, if any.
async fn attack(server: &Running, head: &'static str, trickle: bool) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    for _ in 0..ATTACKERS {
        let mut stream = connect_from(server, SAME).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        attackers.spawn(async move {
            while !trickle || stream.write_all(b"x").await.is_ok() {
                sleep(Duration::from_millis(200)).await;
            }
        });
    }
    attackers
}

#[tokio::test]
async fn silent_connections_lock_nobody_out() {
    let server = small(|_| {});
    let _attackers = attack(&server, "", false).await;
    assert_others_are_served(&server).await;
}

#[tokio::test]
async fn silent_connections_before_tls_lock_nobody_out() {
    let server = small(|config| config.tls = Some(Tls::SelfSigned));
    let _attackers = attack(&server, "\x16\x03\x01", false).await;
    let mut stream = connect_from(&server, OTHER).await;
    stream.write_all(b"no TLS at all\r\n\r\n").await.unwrap();
    // The connection is accepted and closed.
    finish(stream).await;
}

#[tokio::test]
async fn endless_heads_lock_nobody_out() {
    let server = small(|_| {});
    let _attackers = attack(&server, "GET / HTTP/1.1\r\nHost: localhost\r\nX: ", true).await;
    assert_others_are_served(&server).await;
}

#[tokio::test]
async fn slow_uploads_lock_nobody_out() {
    let server = small(|_| {});
    let head = "PUT /slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n";
    let _attackers = attack(&server, head, true).await;
    assert_others_are_served(&server).await;
    assert_eq!(server.read("slow"), None);
}

#[tokio::test]
async fn slow_http2_uploads_lock_nobody_out() {
    let server = small(|_| {});
    // The preface, no settings, and HEADERS of a PUT to / (RFC 7541, Appendix A) without END_STREAM.
    let head = concat!(
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\0\0\0\x04\0\0\0\0\0",
        "\0\0\x1a\x01\x04\0\0\0\x01",
        "\x02\x03PUT\x06\x04http\x04\x02/f\x01\x09localhost",
    );
    let _attackers = attack(&server, head, false).await;
    assert_others_are_served(&server).await;
}

#[tokio::test]
async fn unread_responses_lock_nobody_out() {
    let server = small(|_| {});
    std::fs::File::create(server.root.path().join("large")).unwrap().set_len(1 << 30).unwrap();
    let _attackers = attack(&server, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n", false).await;
    assert_others_are_served(&server).await;
}

#[tokio::test]
async fn active_upload_outlasts_silent_connections() {
    let server = small(|_| {});
    let mut upload = connect_from(&server, SAME).await;
    upload.write_all(b"PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n").await.unwrap();
    let mut attackers = Vec::new();
    for _ in 0..10 {
        upload.write_all(&vec![b'y'; 100_000]).await.unwrap();
        // Time for the server to read it, on a busy machine too.
        sleep(Duration::from_millis(200)).await;
        attackers.push(attack(&server, "", false).await);
    }
    upload.shutdown().await.unwrap();
    assert_eq!(finish(upload).await.status(), 204);
}
