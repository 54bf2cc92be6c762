//! Host names: of the server, of a request, and of a `Destination`.

mod common;

use common::{ResponseBody, Running, finish, start};
use tokio::io::AsyncWriteExt;

/// The response to this head, sent unchanged.
async fn raw(server: &Running, head: &str) -> ResponseBody {
    let mut stream = server.connect().await;
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
    finish(stream).await
}

#[tokio::test]
async fn unknown_host_gets_421_with_reason_and_option() {
    let server = start(|_| {});
    server.write("file", "x");
    let answer = raw(&server, "GET /file HTTP/1.1\r\nHost: dav.example\r\n").await;
    assert_eq!(answer.status(), 421);
    assert_eq!(answer.header("content-type").as_deref(), Some("text/plain; charset=utf-8"));
    assert!(
        answer.text().contains("DNS rebinding") && answer.text().contains("--host dav.example"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn only_the_given_host_is_accepted() {
    let server = start(|config| config.hosts = vec!["dav.example".into()]);
    server.write("file", "x");
    for (host, status) in [("dav.example", 200), ("DAV.example:8080", 200), ("evil.example", 421), ("localhost", 200)] {
        let answer = raw(&server, &format!("GET /file HTTP/1.1\r\nHost: {host}\r\n")).await;
        assert_eq!(answer.status(), status, "{host}");
    }
}

#[tokio::test]
async fn request_without_host_or_with_two_is_refused() {
    let server = start(|_| {});
    server.write("file", "x");
    assert_eq!(raw(&server, "GET /file HTTP/1.1\r\n").await.status(), 400);
    assert_eq!(raw(&server, "GET /file HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n").await.status(), 400);
    assert_eq!(raw(&server, "GET /file HTTP/1.0\r\n").await.status(), 200);
}

#[tokio::test]
async fn destination_on_another_server_is_refused_without_effect() {
    let server = start(|config| config.hosts = vec!["dav.example".into()]);
    server.write("file", "x");
    for method in ["COPY", "MOVE"] {
        for there in ["http://other.example/there", "http://localhost:1/there"] {
            let answer = server.ask(&format!("{method} /file\nDestination: {there}"), b"").await;
            assert_eq!(answer.status(), 502, "{method} {there}");
            assert!(answer.text().contains("COPY and MOVE work only within this server"), "{}", answer.text());
        }
        assert_eq!((server.read("there"), server.read("file")), (None, Some(b"x".to_vec())));
        let answer = server.ask(&format!("{method} /file\nDestination: https://dav.example/{method}"), b"").await;
        assert_eq!(answer.status(), 201);
        server.write("file", "x");
    }
}
