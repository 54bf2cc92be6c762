//! Requests whose end two readers may find at different places (RFC 9112 §11.2).

use std::time::Duration;

use crate::{
    raw::{Raw, ask},
    upstream::{World, basic},
};

/// A request that hides in a body, with the credentials of somebody else.
fn hidden() -> String {
    format!("GET /files/hidden HTTP/1.1\r\nHost: gw\r\n{}\r\n", basic("ann"))
}

/// Heads of a PUT of bob whose body is, or may be, `body`.
fn attacks() -> Vec<(&'static str, String)> {
    let hidden = hidden();
    let chunked = format!("0\r\n\r\n{hidden}");
    let (long, short, all) = (hidden.len() + 5, 4, hidden.len());
    let size = format!("{:x}", hidden.len());
    let head =
        |fields: &str, body: &str| format!("PUT /files/put HTTP/1.1\r\nHost: gw\r\n{}{fields}\r\n{body}", basic("bob"));
    let te = |line: &str| head(&format!("Content-Length: {long}\r\n{line}\r\n"), &chunked);
    vec![
        ("CL.TE", te("Transfer-Encoding: chunked")),
        (
            "TE.CL",
            head(
                &format!("Transfer-Encoding: chunked\r\nContent-Length: {short}\r\n"),
                &format!("{size}\r\n{hidden}\r\n0\r\n\r\n"),
            ),
        ),
        ("two lengths", head(&format!("Content-Length: 0\r\nContent-Length: {all}\r\n"), &hidden)),
        ("two lengths in one", head(&format!("Content-Length: 0, {all}\r\n"), &hidden)),
        ("signed length", head(&format!("Content-Length: +{all}\r\n"), &hidden)),
        ("hex length", head("Content-Length: 0x0\r\n", &hidden)),
        ("negative length", head("Content-Length: -1\r\n", &hidden)),
        ("empty length", head("Content-Length: \r\n", &hidden)),
        ("huge length", head("Content-Length: 18446744073709551616\r\n", &hidden)),
        ("space in length", head("Content-Length: 0 0\r\n", &hidden)),
        ("space before colon", te("Transfer-Encoding : chunked")),
        ("length space before colon", head(&format!("Content-Length : {all}\r\n"), &hidden)),
        ("xchunked", te("Transfer-Encoding: xchunked")),
        ("chunked twice", te("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity")),
        ("chunked twice in one", te("Transfer-Encoding: chunked, chunked")),
        ("chunked in two fields", te("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked")),
        ("gzip, chunked", te("Transfer-Encoding: gzip, chunked")),
        ("unknown, chunked", te("Transfer-Encoding: unknown\r\nTransfer-Encoding: chunked")),
        ("identity, chunked", te("Transfer-Encoding: identity, chunked")),
        ("chunked, identity", te("Transfer-Encoding: chunked, identity")),
        ("quoted", te("Transfer-Encoding: \"chunked\"")),
        ("tab", te("Transfer-Encoding:\tchunked")),
        ("vertical tab", te("Transfer-Encoding: \x0bchunked")),
        ("NUL in name", te("Transfer-Encoding\0: chunked")),
        ("NUL in value", te("Transfer-Encoding: chunked\0")),
        ("space in name", te("Transfer Encoding: chunked")),
        ("underscore", te("Transfer_Encoding: chunked")),
        ("leading space", te(" Transfer-Encoding: chunked")),
        ("obs-fold", te("Transfer-Encoding:\r\n chunked")),
        ("fold of another", te("X: y\r\n Transfer-Encoding: chunked")),
        ("bare CR", te("X: y\rTransfer-Encoding: chunked")),
        ("bare LF", te("X: y\nTransfer-Encoding: chunked")),
        (
            "HTTP/1.0 chunked",
            te("Transfer-Encoding: chunked").replace("HTTP/1.1\r\nHost: gw\r\nAuth", "HTTP/1.0\r\nHost: gw\r\nAuth"),
        ),
        ("HTTP/1.2", te("X: y").replacen("HTTP/1.1", "HTTP/1.2", 1)),
        ("HTTP/0.9", format!("GET /files/a\r\n{hidden}")),
        ("no length", head("", &hidden)),
        ("LF ends lines", head(&format!("Content-Length: {all}\r\n"), &hidden).replacen("\r\n", "\n", 4)),
        ("chunk extension", head("Transfer-Encoding: chunked\r\n", &format!("0;a=\n{size}\r\n\r\n{hidden}"))),
        (
            "chunk extension with LF",
            head("Transfer-Encoding: chunked\r\n", &format!("1;\n{size}\r\nx\r\n0\r\n\r\n{hidden}")),
        ),
        ("chunk size overflow", head("Transfer-Encoding: chunked\r\n", &format!("10000000000000000\r\n{hidden}"))),
        ("chunk size with 0x", head("Transfer-Encoding: chunked\r\n", &format!("0x{size}\r\n{hidden}"))),
        ("chunk ends with LF", head("Transfer-Encoding: chunked\r\n", &format!("1\nx\n0\n\n{hidden}"))),
        ("chunk too long", head("Transfer-Encoding: chunked\r\n", &format!("1\r\nxyz\r\n0\r\n\r\n{hidden}"))),
        (
            "trailer",
            head(
                "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n",
                &format!("0\r\nContent-Length: {all}\r\n\r\n{hidden}"),
            ),
        ),
        ("length in Connection", head(&format!("Connection: Content-Length\r\nContent-Length: {all}\r\n"), &hidden)),
        ("TE in Connection", te("Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked")),
        ("expect", head(&format!("Expect: 100-continue\r\nContent-Length: {all}\r\n"), &hidden)),
        ("GET with a body", head(&format!("Content-Length: {all}\r\n"), &hidden).replacen("PUT", "GET", 1)),
        ("HEAD with a body", head(&format!("Content-Length: {all}\r\n"), &hidden).replacen("PUT", "DELETE", 1)),
        ("request line", head("", "").replacen("/files/put", "/files/put HTTP/1.1\r\nX: y", 1)),
        ("two hosts", head("Host: other\r\nContent-Length: 0\r\n", &hidden)),
    ]
}

#[tokio::test]
async fn the_server_sees_each_request_as_the_gateway_does() {
    let world = World::new(Duration::from_mins(10));
    // Control: the hidden request is one that works.
    let mut raw = Raw::open(world.gateway).await;
    raw.send(hidden()).await;
    assert_eq!(raw.answer(false).await.unwrap().status, 404);
    let (mut refused, mut passed) = (0, 0);
    for (name, bytes) in attacks() {
        let (before, lines) = (world.count(), world.log.lines().len());
        let mut raw = Raw::open(world.gateway).await;
        raw.send(&bytes).await;
        let answers = raw.all().await;
        world.logged(lines + world.count() - before).await;
        let seen = world.since(before);
        let log = world.log.lines().split_off(lines);
        // Each request that the server got is one that the gateway has logged, under the same name, and answered.
        let logged = |method: &str, path: &str, user: &str| {
            log.iter()
                .any(|line| line.contains(&format!("- {user} [")) && line.contains(&format!("\"{method} {path} HTTP")))
        };
        for seen in &seen {
            let user = seen.user.as_deref().unwrap_or("-");
            assert!(logged(&seen.method, &seen.path, user), "{name}: {seen:?} is not in {log:?}");
            assert!(seen.headers.get("transfer-encoding").is_none_or(|te| te == "chunked"), "{name}: {seen:?}");
            assert!(
                !(seen.headers.contains_key("transfer-encoding") && seen.headers.contains_key("content-length")),
                "{name}"
            );
        }
        let from_the_server = answers.iter().filter(|answer| !matches!(answer.status, 400 | 408 | 501 | 505)).count();
        assert!(seen.len() <= log.len() && from_the_server <= seen.len(), "{name}: {seen:?} {log:?} {answers:?}");
        // There is one coding here, and it is applied once (RFC 9112 §6.1, §7).
        let is_coded_otherwise = name.contains(", chunked") || name.starts_with("chunked ");
        assert!(!is_coded_otherwise || seen.is_empty(), "{name}: {seen:?}");
        // A body that was taken for a body has reached the server as one.
        for put in seen.iter().filter(|seen| seen.method == "PUT" && !seen.body.is_empty()) {
            let body = String::from_utf8_lossy(&put.body);
            assert!(body == "x" || body.ends_with(&hidden()), "{name}: {put:?}");
            assert_eq!(put.user.as_deref(), Some("bob"));
        }
        if seen.is_empty() {
            refused += 1;
        } else {
            passed += 1;
        }
        // Nothing of it is left for the next on the gateway's connections.
        for user in ["bob", "ann"] {
            let answer = ask(&world, user, "GET /files/a", &[], "").await;
            assert_eq!((answer.status, answer.body), (200, format!("data of {user} in a")), "after {name}");
        }
    }
    assert!(refused >= 20 && passed >= 5, "{refused} refused, {passed} passed on");
}
