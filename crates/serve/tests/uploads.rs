//! Uploads are atomic, over real sockets.

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use bytes::Bytes;
use common::{ResponseBody, Running, finish, skip, start, until};
use futures_util::stream;
use http::Request;
use http_body::Frame;
use http_body_util::StreamBody;
use hyper_util::rt::{TokioExecutor, TokioIo};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

const OLD: &[u8] = b"old content";

/// More than is buffered in memory, so that there is a temporary file during the upload.
const LARGE: usize = 600_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Framing {
    Length,
    Chunked,
}

/// Sends a `PUT` of `size` bytes up to `cut` and closes the connection, with FIN or RST.
async fn cut_off(server: &Running, framing: Framing, size: usize, cut: usize, reset: bool) {
    let mut stream = server.connect().await;
    let (head, body) = match framing {
        Framing::Length => (format!("Content-Length: {size}"), vec![b'n'; size]),
        Framing::Chunked => {
            let mut body = format!("{size:x}\r\n").into_bytes();
            body.resize(body.len() + size, b'n');
            body.extend_from_slice(b"\r\n0\r\n\r\n");
            ("Transfer-Encoding: chunked".into(), body)
        }
    };
    let head = format!("PUT /file HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body[..cut.min(body.len() - 1)]).await.unwrap();
    if reset {
        // A reset discards what the server has not read yet.
        let begun = until(|| (server.unfinished() == 1).then_some(()));
        let _ = tokio::time::timeout(Duration::from_millis(200), begun).await;
        stream.set_zero_linger().unwrap();
    }
}

/// Waits until the server has noticed, then checks the content.
async fn expect_untouched(server: &Running, old: Option<&[u8]>) {
    let line = server.logged("PUT /file").await;
    assert!(!line.contains("\" 20"), "a cut upload was taken for whole: {line}");
    until(|| (server.unfinished() == 0).then_some(())).await;
    assert_eq!(server.read("file").as_deref(), old);
}

#[tokio::test]
async fn disconnect_during_upload_keeps_old_content() {
    for framing in [Framing::Length, Framing::Chunked] {
        for reset in [false, true] {
            for old in [None, Some(OLD)] {
                let server = start(|_| ());
                if let Some(old) = old {
                    server.write("file", old);
                }
                cut_off(&server, framing, LARGE, LARGE - 1000, reset).await;
                expect_untouched(&server, old).await;
            }
        }
    }
}

#[tokio::test]
async fn upload_in_flight_is_invisible() {
    let server = start(|_| ());
    server.write("file", OLD);
    let mut stream = server.connect().await;
    let head = format!("PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {LARGE}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b'n'; LARGE - 1]).await.unwrap();
    until(|| (server.unfinished() == 1).then_some(())).await;
    assert!(server.ask("GET /file", b"").await.text().ends_with("old content"));
    let listing = server.ask("PROPFIND /\nDepth: 1", b"").await.text() + &server.ask("GET /", b"").await.text();
    assert!(listing.contains("/file") && !listing.contains("haul-upload"), "{listing}");
    stream.write_all(b"n").await.unwrap();
    let answer = finish(stream).await;
    assert_eq!(answer.status(), 204);
    assert_eq!(server.read("file").unwrap(), vec![b'n'; LARGE]);
    assert_eq!(server.unfinished(), 0);
}

type Pieces = mpsc::Sender<Result<Frame<Bytes>, std::io::Error>>;

/// Begins a `PUT` over HTTP/2 whose body comes from the channel.
async fn put_h2(server: &Running) -> (Pieces, tokio::task::JoinHandle<Option<u16>>) {
    let (sender, receiver) = mpsc::channel(8);
    let body = StreamBody::new(stream::unfold(receiver, |mut r| async { r.recv().await.map(|piece| (piece, r)) }));
    let body = Box::pin(body);
    let io = TokioIo::new(server.connect().await);
    let (mut client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::put(format!("http://{}/file", server.address)).body(body).unwrap();
    let answer = tokio::spawn(async move { client.send_request(request).await.ok().map(|a| a.status().as_u16()) });
    (sender, answer)
}

#[tokio::test]
async fn reset_http2_stream_keeps_old_content() {
    let server = start(|_| ());
    server.write("file", OLD);
    let (pieces, answer) = put_h2(&server).await;
    pieces.send(Ok(Frame::data(vec![b'n'; LARGE].into()))).await.unwrap();
    until(|| (server.unfinished() == 1).then_some(())).await;
    pieces.send(Err(std::io::Error::other("gone"))).await.unwrap();
    assert_eq!(answer.await.unwrap(), None);
    expect_untouched(&server, Some(OLD)).await;
}

#[tokio::test]
async fn complete_http2_upload_replaces_content() {
    let server = start(|_| ());
    server.write("file", OLD);
    let (pieces, answer) = put_h2(&server).await;
    pieces.send(Ok(Frame::data(vec![b'n'; LARGE].into()))).await.unwrap();
    drop(pieces);
    assert_eq!(answer.await.unwrap(), Some(204));
    assert_eq!(server.read("file").unwrap(), vec![b'n'; LARGE]);
    assert!(server.logged("PUT /file").await.contains(&format!("HTTP/2.0\" 204 0 {LARGE} ")));
}

#[tokio::test]
async fn upload_with_wrong_length_is_refused() {
    let server = start(|_| ());
    server.write("file", OLD);
    let mut stream = server.connect().await;
    let request = "PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Expected-Entity-Length: 9\r\n\
                   Transfer-Encoding: chunked\r\n\r\n3\r\nnew\r\n0\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(finish(stream).await.status(), 400);
    assert_eq!(server.read("file").unwrap(), OLD);
    assert_eq!(server.unfinished(), 0);
}

#[tokio::test]
async fn one_of_concurrent_uploads_wins_whole() {
    let server = std::sync::Arc::new(start(|_| ()));
    let mut tags = std::collections::HashSet::new();
    for _ in 0..5 {
        let uploads = (b'a'..b'i').map(|letter| {
            let server = server.clone();
            tokio::spawn(async move { server.ask("PUT /file", &vec![letter; 300_000]).await })
        });
        for upload in uploads.collect::<Vec<_>>() {
            let answer = upload.await.unwrap();
            assert!(matches!(answer.status(), 201 | 204), "{}", answer.text());
            assert!(tags.insert(answer.header("etag").unwrap()), "an entity tag came a second time");
        }
        let content = server.read("file").unwrap();
        assert_eq!(content, vec![content[0]; 300_000]);
    }
    assert!(tags.iter().all(|tag| tag.starts_with('"')), "strong tags: {tags:?}");
}

/// Sends all but the last byte of a small `PUT`; `finish_put` sends the last.
async fn begin_put(server: &Running, condition: &str) -> tokio::net::TcpStream {
    let mut stream = server.connect().await;
    let head = format!(
        "PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{condition}\r\nContent-Length: 4\r\n\r\nslo"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // So that the precondition is evaluated first. If the machine is slower, the first evaluation already fails: 412, too.
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream
}

async fn finish_put(mut stream: tokio::net::TcpStream) -> ResponseBody {
    stream.write_all(b"w").await.unwrap();
    finish(stream).await
}

#[tokio::test]
async fn overtaken_conditional_upload_is_refused() {
    let server = start(|_| ());
    let tag = server.ask("PUT /file", b"base").await.header("etag").unwrap();
    let slow = begin_put(&server, &format!("If-Match: {tag}")).await;
    assert_eq!(server.ask(&format!("PUT /file\nIf-Match: {tag}"), b"fast").await.status(), 204);
    assert_eq!(finish_put(slow).await.status(), 412);
    assert_eq!(server.read("file").unwrap(), b"fast");

    std::fs::remove_file(server.root.path().join("file")).unwrap();
    let slow = begin_put(&server, "If-None-Match: *").await;
    assert_eq!(server.ask("PUT /file\nIf-None-Match: *", b"fast").await.status(), 201);
    assert_eq!(finish_put(slow).await.status(), 412);
    assert_eq!(server.read("file").unwrap(), b"fast");

    let slow = begin_put(&server, "X-None: 1").await;
    assert_eq!(server.ask("PUT /file", b"fast").await.status(), 204);
    assert_eq!(finish_put(slow).await.status(), 204, "without a condition the last one wins");
    assert_eq!(server.read("file").unwrap(), b"slow");
    assert_eq!(server.unfinished(), 0);
}

#[tokio::test]
async fn upload_keeps_permissions_and_properties() {
    let server = start(|_| ());
    server.write("file", OLD);
    let path = server.root.path().join("file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let change = "<propertyupdate xmlns='DAV:'><set><prop><k xmlns='urn:x'>kept</k></prop></set></propertyupdate>";
    let patched = server.ask("PROPPATCH /file", change.as_bytes()).await;
    assert!(patched.text().contains("200 OK"), "{}", patched.text());
    assert_eq!(server.ask("PUT /file", b"new").await.status(), 204);
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
    let wanted = "<propfind xmlns='DAV:'><prop><k xmlns='urn:x'/></prop></propfind>";
    let listing = server.ask("PROPFIND /file\nDepth: 0", wanted.as_bytes()).await.text();
    assert!(listing.contains(">kept<"), "{listing}");
}

#[tokio::test]
async fn partial_uploads_are_refused() {
    let server = start(|_| ());
    server.write("file", OLD);
    let answer = server.ask("PUT /file\nContent-Range: bytes 0-2/11", b"new").await;
    assert_eq!(answer.status(), 400);
    let part = "PATCH /file\nContent-Type: application/x-sabredav-partialupdate\nX-Update-Range: append";
    assert_eq!(server.ask(part, b"new").await.status(), 405);
    assert_eq!(server.read("file").unwrap(), OLD);
}

#[tokio::test]
async fn leftovers_of_killed_server_are_swept_and_running_uploads_kept() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("a/b")).unwrap();
    let (left, alive) = (root.path().join("a/b/.haul-upload-1"), root.path().join("a/.haul-upload-2"));
    std::fs::write(&left, "x").unwrap();
    let held = std::fs::File::create(&alive).unwrap();
    held.lock().unwrap();
    let mut server = start(|config| config.root = root.path().to_owned());
    until(|| (!left.exists()).then_some(())).await;
    server.stop().await;
    assert!(alive.exists());
}

#[tokio::test]
async fn shutdown_aborts_hanging_uploads_and_cleans_up() {
    let mut server = start(|_| ());
    server.write("file", OLD);
    let mut hanging = server.connect().await;
    let head = format!("PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LARGE}\r\n\r\n");
    hanging.write_all(head.as_bytes()).await.unwrap();
    hanging.write_all(&vec![b'n'; LARGE - 1]).await.unwrap();
    until(|| (server.unfinished() == 1).then_some(())).await;
    server.stop().await;
    until(|| (server.unfinished() == 0).then_some(())).await;
    assert_eq!(server.read("file").unwrap(), OLD);
}

/// A thread with a mount table of its own and a file system of one mebibyte in it.
fn with_small_disk(test: impl FnOnce(std::path::PathBuf) + Send + 'static) {
    std::thread::spawn(|| {
        let nothing = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        mount(nothing, "/", nothing, MsFlags::MS_REC | MsFlags::MS_PRIVATE, nothing).unwrap();
        let place = tempfile::tempdir().unwrap();
        mount(Some("tmpfs"), place.path(), Some("tmpfs"), MsFlags::empty(), Some("size=1m")).unwrap();
        test(place.path().to_owned());
        nix::mount::umount(place.path()).unwrap();
    })
    .join()
    .unwrap();
}

#[test]
fn full_disk_gets_507_and_keeps_old_content() {
    if !nix::unistd::geteuid().is_root() {
        return skip("a full disk needs a small file system, and mounting one needs root");
    }
    with_small_disk(|place| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut server = start(|config| config.root.clone_from(&place));
            let file = place.join("file");
            std::fs::write(&file, OLD).unwrap();
            // Refused before the body, by its length.
            let answer = server.ask("PUT /file", &vec![b'n'; 2 * 1024 * 1024]).await;
            assert_eq!(answer.status(), 507, "{}", answer.text());
            // Without a length, refused during the body.
            let mut stream = server.connect().await;
            let head =
                "PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            let _ = stream.write_all(&vec![b'n'; 2 * 1024 * 1024]).await;
            let _ = stream.write_all(b"\r\n0\r\n\r\n").await;
            let answer = finish(stream).await;
            assert_eq!(answer.status(), 507, "{}", answer.text());
            assert_eq!(common::unfinished(&place), 0);
            assert_eq!(std::fs::read(&file).unwrap(), OLD);
            // With free space it works again.
            assert_eq!(server.ask("PUT /file", &vec![b'n'; 500_000]).await.status(), 204);
            server.stop().await;
        });
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wherever a body is truncated, the old content stays.
    #[test]
    fn upload_cut_anywhere_is_atomic(size in 1_usize..700_000, part in 0.0..1.0_f64, chunked: bool, reset: bool, old: bool) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut server = start(|_| ());
            if old {
                server.write("file", OLD);
            }
            let framing = if chunked { Framing::Chunked } else { Framing::Length };
            cut_off(&server, framing, size, (size as f64 * part) as usize, reset).await;
            expect_untouched(&server, old.then_some(OLD)).await;
            server.stop().await;
        });
    }
}
