//! Valid and invalid requests of all kinds.

mod common;

use std::os::unix::fs::symlink;

use common::{Running, finish, start};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;

async fn named(server: &Running, path: &str, depth: &str, names: &str) -> String {
    let body = format!("<propfind xmlns='DAV:'><prop>{names}</prop></propfind>");
    server.ask(&format!("PROPFIND {path}\nDepth: {depth}"), body.as_bytes()).await.text()
}

#[tokio::test]
async fn http2_reads_and_lists() {
    let server = start(|_| ());
    server.write("file", vec![b'x'; 1_000_000]);
    let io = TokioIo::new(server.connect().await);
    let (mut client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let request = |method: &str, path| {
        let uri = format!("http://{}{path}", server.address);
        http::Request::builder()
            .method(method)
            .uri(uri)
            .header("depth", "1")
            .body(Empty::<bytes::Bytes>::new())
            .unwrap()
    };
    let answer = client.send_request(request("GET", "/file")).await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), vec![b'x'; 1_000_000]);
    let answer = client.send_request(request("PROPFIND", "/")).await.unwrap();
    assert_eq!(answer.status(), 207);
    let text = String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(text.contains("<D:href>/file</D:href>"), "{text}");
    // An error does not close the connection, which other requests may use.
    assert_eq!(client.send_request(request("GET", "/missing")).await.unwrap().status(), 404);
    assert_eq!(client.send_request(request("GET", "/file")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn quirks_of_other_servers_are_imitated() {
    let think_time = std::time::Duration::from_millis(150);
    let server =
        start(|config| config.quirks = serve::Quirks { think_time, closes_connections: true, is_like_apache: true });
    server.write("file", "content");
    let began = std::time::Instant::now();
    let mut stream = server.connect().await;
    stream.write_all(b"GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    // It reads until the server closes the connection.
    let answer = finish(stream).await;
    assert!(began.elapsed() >= think_time);
    assert_eq!((answer.status(), answer.header("connection").as_deref()), (200, Some("close")));
    let put = server.ask("PUT /new", b"x").await;
    assert_eq!((put.status(), put.header("etag"), put.header("last-modified")), (201, None, None));
    let lock = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    assert_eq!(server.ask("LOCK /locked", lock.as_bytes()).await.status(), 200);
    assert!(answer.header("etag").is_some() && start(|_| ()).ask("PUT /new", b"x").await.header("etag").is_some());
    let io = TokioIo::new(server.connect().await);
    let (mut client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let request = http::Request::get(format!("http://{}/file", server.address)).body(Empty::<bytes::Bytes>::new());
        assert_eq!(client.send_request(request.unwrap()).await.unwrap().status(), 200, "HTTP/2 keeps its connection");
    }
}

#[tokio::test]
async fn single_range_is_served_and_multiple_ranges_are_not() {
    let server = start(|_| ());
    server.write("file", "0123456789");
    let part = server.ask("GET /file\nRange: bytes=2-4", b"").await;
    assert_eq!((part.status(), part.header("content-range").as_deref()), (206, Some("bytes 2-4/10")));
    assert!(part.text().ends_with("\r\n\r\n234"));
    assert_eq!(server.ask("GET /file\nRange: bytes=20-", b"").await.status(), 416);
    let whole = server.ask("GET /file\nRange: bytes=0-,0-,0-,0-", b"").await;
    assert!(whole.status() == 200 && whole.text().ends_with("\r\n\r\n0123456789"));
}

#[tokio::test]
async fn thousand_entries_are_listed_once_each() {
    let server = start(|_| ());
    for n in 0..1000 {
        server.write(&format!("file {n} ü"), "");
    }
    let text = named(&server, "/", "1", "<getetag/><resourcetype/>").await;
    let hrefs: std::collections::HashSet<_> =
        text.match_indices("<D:href>").map(|(at, _)| &text[at..at + 40]).collect();
    assert_eq!(text.matches("<D:response>").count(), 1001);
    assert_eq!(hrefs.len(), 1001);
    assert!(text.contains("<D:href>/file%20999%20%C3%BC</D:href>"));
}

#[tokio::test]
async fn entity_tags_agree_between_header_and_property() {
    let server = start(|_| ());
    let tag = server.ask("PUT /file", b"1").await.header("etag").unwrap();
    assert_eq!(server.ask("HEAD /file", b"").await.header("etag").unwrap(), tag);
    let text = named(&server, "/file", "0", "<getetag/>").await;
    assert!(text.contains(&format!("<D:getetag>{tag}</D:getetag>")), "{tag} in {text}");
    let text = named(&server, "/", "1", "<getetag/>").await;
    assert!(text.contains(&format!("<D:getetag>{tag}</D:getetag>")), "{tag} in {text}");
    assert_eq!(server.ask(&format!("GET /file\nIf-None-Match: {tag}"), b"").await.status(), 304);
    assert_ne!(server.ask("PUT /file", b"2").await.header("etag").unwrap(), tag);
}

#[tokio::test]
async fn missing_properties_get_404() {
    let server = start(|_| ());
    server.write("file", "");
    let text = named(&server, "/", "1", "<getcontentlength/><k xmlns='urn:x'/>").await;
    let of = |href: &str| text.split("<D:response>").find(|part| part.contains(href)).unwrap().to_owned();
    let (root, file) = (of("<D:href>/</D:href>"), of("<D:href>/file</D:href>"));
    assert!(file.contains("<D:getcontentlength>0<") && file.matches("404 Not Found").count() == 1, "{file}");
    assert!(!root.contains("200 OK") && root.contains(":getcontentlength ") && root.contains(":k "), "{root}");
}

#[tokio::test]
async fn properties_move_with_their_file() {
    let server = start(|_| ());
    let patch = "<propertyupdate xmlns='DAV:'><set><prop><k xmlns='urn:x'>&lt;kept</k></prop></set></propertyupdate>";
    assert_eq!(server.ask("MKCOL /a", b"").await.status(), 201);
    assert_eq!(server.ask("PUT /a/file", b"1").await.status(), 201);
    for path in ["/a", "/a/file"] {
        let patched = server.ask(&format!("PROPPATCH {path}"), patch.as_bytes()).await.text();
        assert!(patched.contains("200 OK"), "{patched}");
    }
    assert_eq!(server.ask("COPY /a\nDestination: /b", b"").await.status(), 201);
    assert_eq!(server.ask("MOVE /a\nDestination: /c", b"").await.status(), 201);
    for path in ["/b", "/b/file", "/c", "/c/file"] {
        let text = named(&server, path, "0", "<k xmlns='urn:x'/>").await;
        assert_eq!(text.matches("&lt;kept").count(), 1, "{path}: {text}");
    }
    let all = server.ask("PROPFIND /b\nDepth: 1", b"").await.text();
    assert_eq!(all.matches("&lt;kept").count(), 2, "{all}");
}

#[tokio::test]
async fn move_and_copy_over_a_file_replace_it() {
    let server = start(|_| ());
    for method in ["COPY", "MOVE"] {
        server.write("from", method);
        server.write("to", "old");
        assert_eq!(server.ask(&format!("{method} /from\nDestination: /to\nOverwrite: F"), b"").await.status(), 412);
        assert_eq!(server.ask(&format!("{method} /from\nDestination: /to"), b"").await.status(), 204);
        assert_eq!(server.read("to").unwrap(), method.as_bytes());
        // A collection over a file, and a file over a collection.
        assert_eq!(server.ask("MKCOL /dir", b"").await.status(), 201);
        server.write("dir/in", method);
        assert_eq!(server.ask(&format!("{method} /dir\nDestination: /to"), b"").await.status(), 204);
        assert_eq!(server.read("to/in").unwrap(), method.as_bytes());
        server.write("from", method);
        assert_eq!(server.ask(&format!("{method} /from\nDestination: /to"), b"").await.status(), 204);
        assert_eq!(server.read("to").unwrap(), method.as_bytes());
        let _ = std::fs::remove_dir_all(server.root.path().join("dir"));
    }
}

#[tokio::test]
async fn requests_that_would_lose_files_are_refused() {
    let server = start(|_| ());
    std::fs::create_dir_all(server.root.path().join("a/b")).unwrap();
    server.write("a/b/file", "precious");
    for request in [
        "DELETE /",
        "DELETE /a/..",
        "MOVE /\nDestination: /c",
        "MOVE /a/b\nDestination: /a",
        "COPY /a/b\nDestination: /a/",
        "COPY /a/b/file\nDestination: /a",
        "MOVE /a\nDestination: /",
        "MOVE /a\nDestination: /a/b/c",
        "MOVE /a\nDestination: /a/",
        "COPY /a\nDestination: http://localhost/%61",
    ] {
        assert_eq!(server.ask(request, b"").await.status(), 403, "{request}");
        assert_eq!(server.read("a/b/file").unwrap(), b"precious", "{request}");
    }
    assert_eq!(server.ask("COPY /a\nDestination: /a/c", b"").await.status(), 201);
    assert_eq!(server.read("a/c/b/file").unwrap(), b"precious");
    assert!(!server.root.path().join("a/c/c").exists());
}

#[tokio::test]
async fn no_request_leaves_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let server = start(|_| ());
    server.write("inside", "visible");
    symlink(outside.path(), server.root.path().join("out")).unwrap();
    symlink(outside.path().join("secret"), server.root.path().join("link")).unwrap();
    symlink("inside", server.root.path().join("alias")).unwrap();
    for path in [
        "/link",
        "/out/secret",
        "/alias",
        "/../secret",
        "/%2e%2e/secret",
        "/out/..%2fsecret",
        "/inside%00",
        "/..%2f..%2fetc%2fpasswd",
    ] {
        for method in ["GET", "DELETE", "PROPFIND"] {
            if method == "DELETE" && (path == "/link" || path == "/alias") {
                continue;
            }
            let answer = server.ask(&format!("{method} {path}\nDepth: 0"), b"").await;
            assert!(matches!(answer.status(), 400 | 403 | 404), "{method} {path}: {}", answer.text());
        }
        let answer = server.ask(&format!("PUT {path}"), b"overwritten").await;
        assert!(matches!(answer.status(), 400 | 403 | 409), "PUT {path}: {}", answer.text());
        let answer = server.ask(&format!("COPY /inside\nDestination: {path}\nOverwrite: T"), b"").await;
        assert!(matches!(answer.status(), 400 | 403 | 404 | 409), "COPY to {path}: {}", answer.text());
    }
    let listing = named(&server, "/", "1", "<getetag/>").await + &server.ask("GET /", b"").await.text();
    assert!(listing.contains("inside") && !listing.contains("link") && !listing.contains("alias"), "{listing}");
    assert_eq!(server.ask("DELETE /link", b"").await.status(), 204);
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(server.read("inside").unwrap(), b"visible");
}

#[tokio::test]
async fn collection_is_removed_with_links_and_leftovers() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("kept"), "").unwrap();
    let server = start(|_| ());
    std::fs::create_dir(server.root.path().join("a")).unwrap();
    symlink(outside.path(), server.root.path().join("a/out")).unwrap();
    server.write("a/.haul-upload-x", "");
    assert_eq!(server.ask("DELETE /a", b"").await.status(), 204);
    assert!(!server.root.path().join("a").exists() && outside.path().join("kept").exists());
}

#[tokio::test]
async fn unfinished_uploads_are_hidden() {
    let server = start(|_| ());
    server.write(".haul-upload-x", "half");
    for method in ["GET", "DELETE", "PROPFIND", "PROPPATCH"] {
        let status = server.ask(&format!("{method} /.haul-upload-x\nDepth: 0"), b"").await.status();
        assert_eq!(status, 404, "{method}");
    }
    assert_eq!(server.ask("PUT /.haul-upload-y", b"x").await.status(), 409);
    assert_eq!(server.ask("MKCOL /%2ehaul-upload-y", b"").await.status(), 409);
    assert!(server.read(".haul-upload-y").is_none());
}

#[tokio::test]
async fn listing_of_an_unreadable_folder_is_refused_and_not_empty() {
    use std::os::unix::fs::PermissionsExt;
    let server = start(|_| {});
    server.write("file", "");
    assert_eq!(server.ask("MKCOL /locked", b"").await.status(), 201);
    let folder = server.root.path().join("locked");
    let set = |mode| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
    set(0o000);
    let is_locked = std::fs::read_dir(&folder).is_err();
    let listed = server.ask("PROPFIND /locked/\nDepth: 1", b"").await.status();
    let itself = server.ask("PROPFIND /locked/\nDepth: 0", b"").await.status();
    set(0o755);
    if !is_locked {
        return common::skip("a folder that cannot be read: root can read all");
    }
    assert_eq!((listed, itself), (403, 207));
    assert_eq!(server.ask("PROPFIND /\nDepth: 1", b"").await.status(), 207);
}

#[tokio::test]
async fn read_only_server_changes_nothing() {
    let server = start(|config| config.read_only = true);
    server.write("file", "old");
    server.write(".haul-upload-x", "left");
    for request in [
        "PUT /file",
        "PUT /new",
        "DELETE /file",
        "MKCOL /dir",
        "MOVE /file\nDestination: /b",
        "LOCK /file",
        "PROPPATCH /file",
    ] {
        let answer = server.ask(request, b"").await;
        assert_eq!(answer.status(), 405, "{request}");
        assert_eq!(answer.header("allow").as_deref(), Some("OPTIONS, GET, HEAD, PROPFIND"));
    }
    assert_eq!(server.ask("GET /file", b"").await.status(), 200);
    assert_eq!(server.ask("PROPFIND /\nDepth: 1", b"").await.status(), 207);
    assert_eq!(server.ask("OPTIONS /", b"").await.header("dav").as_deref(), Some("1, 3"));
    let names: std::collections::HashSet<_> =
        std::fs::read_dir(server.root.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["file", ".haul-upload-x"].map(String::from).into());
    assert_eq!(server.read("file").unwrap(), b"old");
}

#[tokio::test]
async fn bodies_with_other_codings_than_chunked_are_refused() {
    let server = start(|_| ());
    let body = b"5\r\nhello\r\n0\r\n\r\n";
    for (codings, status) in [
        ("Transfer-Encoding: chunked, chunked", 400),
        ("Transfer-Encoding: chunked\nTransfer-Encoding: Chunked", 400),
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: unknown\nTransfer-Encoding: chunked", 501),
    ] {
        let mut stream = server.connect().await;
        let fields = codings.replace('\n', "\r\n");
        stream
            .write_all(format!("PUT /file HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        stream.write_all(body).await.unwrap();
        // To its end: the connection is closed.
        let answer = finish(stream).await;
        assert_eq!((answer.status(), server.read("file")), (status, None), "{codings}");
        assert_eq!(answer.header("connection").as_deref(), Some("close"), "{codings}");
    }
    let mut stream = server.connect().await;
    let head = "PUT /file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: Chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    assert_eq!((finish(stream).await.status(), server.read("file").as_deref()), (201, Some(&b"hello"[..])));
}

#[tokio::test]
async fn no_request_stops_the_server() {
    let server = start(|_| ());
    server.write("file", "fine");
    let bomb = "<a>".repeat(21_000);
    let entities =
        "<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;'>]><propfind xmlns='DAV:'>&b;</propfind>";
    for (request, body, status) in [
        ("BREW /pot", "", 501),
        ("REPORT /file", "", 405),
        ("POST /file", "", 501),
        ("TRACE /", "", 501),
        ("GET *", "", 400),
        ("PROPFIND /", "", 403),
        ("PROPFIND /\nDepth: infinity", "", 403),
        ("PROPFIND /\nDepth: infinity\nX-Litmus: 1", "", 403),
        ("PROPFIND /\nDepth: 1", &bomb, 400),
        ("PROPPATCH /file", &bomb, 400),
        ("LOCK /file", &bomb, 400),
        ("PROPFIND /\nDepth: 1", entities, 400),
        ("PROPFIND /\nDepth: 1", &"x".repeat(100_000), 413),
        ("MKCOL /x", &"x".repeat(100_000), 413),
        ("PROPFIND /\nDepth: 1", "<propfind", 400),
        ("LOCK /file", "", 400),
        ("UNLOCK /file", "", 400),
        ("COPY /file", "", 400),
        ("COPY /file\nDestination: \u{fc}", "", 400),
        ("COPY /file\nDestination: ://", "", 400),
        ("PUT /file/below", "x", 409),
        ("PUT /no/parent", "x", 409),
        ("PUT /dir/", "x", 409),
        ("PUT /", "x", 409),
        ("GET /file\nIf-None-Match: \"", "", 400),
        ("PUT /file\nIf-Match: W/\"", "x", 400),
        ("PUT /file\nIf-Unmodified-Since: soon", "x", 400),
        ("PUT /file\nIf: (", "x", 400),
        ("PUT /file\nIf: <", "x", 400),
        ("PUT /file\nIf: ([\"])", "x", 400),
        ("PUT /file\nIf: </file> ([\"other\"])", "x", 412),
        ("GET /file\nRange: bytes=0-1\nIf-Range: \"", "", 200),
        ("GET /file\nRange: bytes=-0", "", 0),
        ("GET /file\nRange: bytes=99999999999999999999-", "", 0),
        ("LOCK /file\nTimeout: Second-99999999999999999999", "<lockinfo xmlns='DAV:'/>", 0),
        ("PUT /file\nContent-Range: bytes 5-1/9", "x", 400),
    ] {
        let answer = server.ask(request, body.as_bytes()).await;
        let got = answer.status();
        assert!(got != 0 && (status == 0 || got == status), "{request}: {}", answer.text());
    }
    // Not HTTP at all, and an endless head.
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00"[..],
        b"\r\n\r\n\r\n",
        &vec![b'A'; 200_000][..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        let mut stream = server.connect().await;
        let _ = stream.write_all(garbage).await;
        let _ = stream.shutdown().await;
        finish(stream).await;
    }
    assert_eq!(server.read("file").unwrap(), b"fine");
    assert_eq!(server.ask("GET /file", b"").await.status(), 200);
}

#[tokio::test]
async fn pipes_and_devices_are_not_files() {
    let server = start(|_| ());
    nix::unistd::mkfifo(&server.root.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(server.ask("GET /pipe", b"").await.status(), 404);
    assert_eq!(server.ask("PUT /pipe", b"x").await.status(), 403);
    assert!(!named(&server, "/", "1", "<getetag/>").await.contains("pipe"));
}

#[tokio::test]
async fn lock_keeps_others_out() {
    let server = start(|_| ());
    let lock = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    let locked = server.ask("LOCK /file\nTimeout: Second-100", lock.as_bytes()).await;
    assert_eq!(locked.status(), 201);
    assert_eq!(server.read("file").unwrap(), b"", "a lock reserves the name");
    let token = locked.header("lock-token").unwrap();
    assert_eq!(server.ask("PUT /file", b"other").await.status(), 423);
    assert_eq!(server.ask(&format!("PUT /file\nIf: ({token})"), b"mine").await.status(), 204);
    assert_eq!(server.ask(&format!("UNLOCK /file\nLock-Token: {token}"), b"").await.status(), 204);
    assert_eq!(server.ask("PUT /file", b"other").await.status(), 204);
}

#[tokio::test]
async fn who_has_lost_a_lock_overwrites_nothing() {
    let server = start(|_| ());
    server.write("file", "old");
    let lock = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
    let locked = server.ask("LOCK /file", lock.as_bytes()).await;
    let token = locked.header("lock-token").unwrap();
    let put = format!("PUT /file\nIf: ({token})");
    assert_eq!(server.ask(&put, b"mine").await.status(), 204);
    assert_eq!(server.ask(&format!("UNLOCK /file\nLock-Token: {token}"), b"").await.status(), 204);
    assert_eq!(server.ask(&put, b"late").await.status(), 412);
    assert_eq!(server.ask(&format!("DELETE /file\nIf: ({token})"), b"").await.status(), 412);
    assert_eq!(server.read("file").unwrap(), b"mine");
    assert_eq!(server.ask(&format!("PUT /file\nIf: (Not {token})"), b"new").await.status(), 204);
}

#[tokio::test]
async fn refusal_leaves_the_connection_usable() {
    let server = start(|_| ());
    let mut stream = server.connect().await;
    let refused = "PUT /no/parent HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    let next = "PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
    stream.write_all(format!("{refused}{next}").as_bytes()).await.unwrap();
    let text = finish(stream).await.text();
    assert!(text.starts_with("HTTP/1.1 409 ") && text.contains("HTTP/1.1 201 "), "{text}");
}

#[tokio::test]
async fn every_request_is_logged_once_with_its_bytes() {
    let server = start(|_| ());
    server.ask("PUT /a%20b", b"12345").await;
    server.ask("GET /a%20b", b"").await;
    server.ask("GET /missing?q=%22", b"").await;
    server.logged("missing").await;
    let log = server.log();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    assert!(lines[0].starts_with("127.0.0.1 - - [") && lines[0].contains("\"PUT /a%20b HTTP/1.1\" 201 0 5 "), "{log}");
    assert!(lines[1].contains("\"GET /a%20b HTTP/1.1\" 200 5 0 "), "{log}");
    assert!(lines[2].contains("\"GET /missing?q=%22 HTTP/1.1\" 404 0 0 "), "{log}");
}
