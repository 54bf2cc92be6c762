//! HTTP/2 requests that would become something else in HTTP/1.1 (RFC 9113 §8.2, §8.3), as raw frames.

use std::{net::SocketAddr, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{raw::ask, upstream::World};

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&length.to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal without indexing and without Huffman coding (RFC 7541 §6.2.2).
fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
    let text = |text: &[u8]| {
        let mut out = if text.len() < 127 { vec![text.len() as u8] } else { vec![127, (text.len() - 127) as u8] };
        assert!(text.len() < 127 + 128);
        out.extend_from_slice(text);
        out
    };
    [vec![0], text(name), text(value)].concat()
}

/// Sends a request as frames, and returns whether the server has answered it with a header block that ends well.
async fn is_answered(to: SocketAddr, fields: &[(&[u8], &[u8])], body: Option<&[u8]>) -> bool {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let block: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
    let ends = if body.is_none() { 5 } else { 4 };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    bytes.extend(frame(1, ends, 1, &block));
    if let Some(body) = body {
        bytes.extend(frame(0, 1, 1, body));
    }
    stream.write_all(&bytes).await.unwrap();
    loop {
        let mut head = [0; 9];
        let read = timeout(Duration::from_mins(1), stream.read_exact(&mut head)).await.expect("an answer in time");
        if read.is_err() {
            return false;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        if stream.read_exact(&mut payload).await.is_err() {
            return false;
        }
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match (head[3], id) {
            // :status 400 of the static table is 12.
            (1, 1) => return payload[0] != 0x80 | 0x0c,
            (3, 1) | (7, _) => return false,
            _ => {}
        }
    }
}

/// Names and values.
type Fields<'a> = Vec<(&'a [u8], &'a [u8])>;

#[tokio::test]
async fn a_downgrade_adds_no_request() {
    let world = World::new(Duration::from_mins(10));
    let bob = format!("Basic {}", BASE64_STANDARD.encode("bob:bob's"));
    let ann = format!("Basic {}", BASE64_STANDARD.encode("ann:ann's"));
    let host = world.gateway.to_string();
    let base = |method: &'static [u8], path: &'static [u8]| -> Vec<(&[u8], &[u8])> {
        vec![
            (b":method", method),
            (b":scheme", b"http"),
            (b":path", path),
            (b":authority", host.as_bytes()),
            (b"authorization", bob.as_bytes()),
        ]
    };
    let hidden = format!("x\r\n\r\nGET /files/hidden HTTP/1.1\r\nHost: gw\r\nAuthorization: {ann}\r\n\r\n");
    assert!(is_answered(world.gateway, &base(b"GET", b"/files/a"), None).await, "control");
    assert!(
        is_answered(
            world.gateway,
            &[base(b"PUT", b"/files/a"), vec![(b"content-length", b"3")]].concat(),
            Some(b"abc")
        )
        .await
    );
    assert_eq!(world.server.content("bob", "/files/a").unwrap(), b"abc", "control");
    let before = world.count();
    let with = |name: &'static [u8], value: &'static [u8]| [base(b"PUT", b"/files/a"), vec![(name, value)]].concat();
    let attacks: Vec<(&str, Fields)> = vec![
        ("CRLF in the path", base(b"GET", b"/files/a HTTP/1.1\r\nX: y")),
        ("LF in the path", base(b"GET", b"/files/a\nX: y")),
        ("space in the path", base(b"GET", b"/files/a HTTP/1.1")),
        ("NUL in the path", base(b"GET", b"/files/a\0")),
        ("CRLF in the method", base(b"GET /files/hidden HTTP/1.1\r\nX: y\r\n\r\nGET", b"/files/a")),
        ("space in the method", base(b"GET /files/hidden", b"/files/a")),
        ("CRLF in a value", [base(b"GET", b"/files/a"), vec![(b"x", hidden.as_bytes())]].concat()),
        ("CRLF in a name", with(b"x: y\r\nz", b"1")),
        ("colon in a name", with(b"transfer-encoding: chunked", b"1")),
        ("upper case", with(b"Transfer-Encoding", b"chunked")),
        ("transfer-encoding", with(b"transfer-encoding", b"chunked")),
        ("connection", with(b"connection", b"authorization")),
        ("upgrade", with(b"upgrade", b"h2c")),
        ("te", with(b"te", b"chunked")),
        ("longer length", with(b"content-length", b"9")),
        ("shorter length", with(b"content-length", b"1")),
        ("no length", with(b"content-length", b"x")),
        (
            "two lengths",
            [base(b"PUT", b"/files/a"), vec![(b"content-length", b"4"), (b"content-length", b"0")]].concat(),
        ),
        ("pseudo-header late", [base(b"GET", b"/files/a"), vec![(b":path", b"/files/hidden")]].concat()),
        ("no path", vec![(b":method", b"GET"), (b":scheme", b"http"), (b"authorization", bob.as_bytes())]),
        ("empty path", base(b"GET", b"")),
        (
            "CRLF in the authority",
            vec![(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/files/a"), (b":authority", b"gw\r\nX: y")],
        ),
    ];
    for (name, fields) in &attacks {
        let before = world.count();
        let answered = is_answered(world.gateway, fields, Some(b"evil")).await;
        tokio::task::yield_now().await;
        let seen = world.since(before);
        assert!(seen.len() <= usize::from(answered), "{name}: {seen:?}");
        for seen in seen {
            assert!(seen.path == "/files/a" && seen.user.as_deref() == Some("bob"), "{name}: {seen:?}");
            assert!(!seen.headers.contains_key("x") && !seen.headers.contains_key("z"), "{name}: {seen:?}");
        }
    }
    for user in ["bob", "ann"] {
        assert_eq!(ask(&world, user, "GET /files/a", &[], "").await.status, 200);
    }
    let seen = world.since(before);
    assert!(seen.iter().all(|seen| !seen.path.contains("hidden")), "{seen:?}");
    let puts: Vec<_> =
        seen.iter().filter(|seen| seen.method == "PUT").map(|seen| (&seen.headers, &seen.body)).collect();
    assert!(puts.iter().all(|(_, body)| body.as_slice() == b"evil"), "no half body, no other framing: {puts:?}");
}
