//! Modification times that clients set, and digests that they ask for.

mod common;

use std::time::{Duration, SystemTime};

use common::{Running, start};

const DATE: &str = "Tue, 19 Mar 2019 09:30:00 GMT";
const SECONDS: u64 = 1_552_987_800;

fn seconds(server: &Running, name: &str) -> u64 {
    let modified = std::fs::metadata(server.root.path().join(name)).unwrap().modified().unwrap();
    modified.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

async fn set(server: &Running, path: &str, property: &str) -> String {
    let body = format!(
        "<?xml version='1.0'?><D:propertyupdate xmlns:D='DAV:' xmlns:Z='urn:schemas-microsoft-com:'><D:set><D:prop>\
         {property}</D:prop></D:set></D:propertyupdate>"
    );
    server.ask(&format!("PROPPATCH {path}"), body.as_bytes()).await.text()
}

#[tokio::test]
async fn upload_gets_the_time_that_it_names() {
    let server = start(|_| {});
    for (name, time) in [("whole", SECONDS.to_string()), ("part", format!("{SECONDS}.75"))] {
        let put = server.ask(&format!("PUT /{name}\nX-OC-Mtime: {time}"), b"x").await;
        assert_eq!((put.status(), put.header("X-OC-Mtime").as_deref()), (201, Some("accepted")));
        assert_eq!(put.header("Last-Modified").as_deref(), Some(DATE));
        assert_eq!(seconds(&server, name), SECONDS);
        let get = server.ask(&format!("GET /{name}"), b"").await;
        assert_eq!(get.header("Last-Modified").as_deref(), Some(DATE));
        assert_eq!(get.header("ETag"), put.header("ETag"));
    }
    assert!(server.ask("OPTIONS /", b"").await.header("DAV").unwrap().contains("<urn:longhaul:x-oc-mtime>"));
}

#[tokio::test]
async fn upload_without_a_usable_time_gets_the_present() {
    let server = start(|_| {});
    let before = SystemTime::now() - Duration::from_secs(2);
    for header in ["X-Other: 1", "X-OC-Mtime: soon", "X-OC-Mtime: -5", "X-OC-Mtime: 99999999999999999999"] {
        let put = server.ask(&format!("PUT /file\n{header}"), b"x").await;
        assert!(put.status() < 300 && put.header("X-OC-Mtime").is_none(), "{header}");
        let modified = std::fs::metadata(server.root.path().join("file")).unwrap().modified().unwrap();
        assert!(modified > before, "{header}");
    }
}

#[tokio::test]
async fn equal_times_do_not_repeat_an_entity_tag() {
    let server = start(|_| {});
    let mut tags = Vec::new();
    for number in 0..50 {
        let put = server.ask(&format!("PUT /file\nX-OC-Mtime: {SECONDS}"), &[b'a' + number % 7]).await;
        tags.push(put.header("ETag").unwrap());
    }
    let count = tags.len();
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), count, "an inode is used again, so the tag has to differ otherwise");
}

#[tokio::test]
async fn properties_set_the_time_of_files_and_folders() {
    let server = start(|_| {});
    for (property, name) in [
        (format!("<Z:Win32LastModifiedTime>{DATE}</Z:Win32LastModifiedTime>"), "Win32LastModifiedTime"),
        (format!("<lastmodified xmlns='DAV:'>{SECONDS}</lastmodified>"), "lastmodified"),
        (format!("<D:getlastmodified>{DATE}</D:getlastmodified>"), "getlastmodified"),
    ] {
        server.write("file", "x");
        std::fs::create_dir_all(server.root.path().join("folder")).unwrap();
        for path in ["/file", "/folder/"] {
            let other = "<Z:Win32FileAttributes>00000020</Z:Win32FileAttributes>";
            let answer = set(&server, path, &format!("{other}{property}")).await;
            assert!(answer.contains("200 OK") && answer.contains(name), "{answer}");
            assert!(!answer.contains("longhaul"), "{answer}");
            assert_eq!(seconds(&server, path.trim_matches('/')), SECONDS);
        }
        let listed = server.ask("PROPFIND /file\nDepth: 0", b"").await.text();
        assert!(listed.contains(&format!("<D:getlastmodified>{DATE}</D:getlastmodified>")), "{listed}");
        std::fs::remove_dir(server.root.path().join("folder")).unwrap();
    }
    assert_eq!(server.read("file").unwrap(), b"x");
}

#[tokio::test]
async fn malformed_time_changes_nothing() {
    let server = start(|_| {});
    server.write("file", "x");
    let before = seconds(&server, "file");
    let note = "<n:note xmlns:n='urn:test'>1</n:note>";
    let answer = set(&server, "/file", &format!("{note}<D:lastmodified>soon</D:lastmodified>")).await;
    assert!(answer.contains("409 Conflict") && answer.contains("424 Failed Dependency"), "{answer}");
    assert_eq!(seconds(&server, "file"), before);
    assert!(!server.ask("PROPFIND /file\nDepth: 0", b"").await.text().contains("note"));
    let missing = set(&server, "/none", "<D:lastmodified>5</D:lastmodified>").await;
    assert!(missing.contains("404"), "{missing}");
}

#[tokio::test]
async fn digest_is_sent_to_who_asks_for_it() {
    let server = start(|_| {});
    server.write("file", "{\"hello\": \"world\"}\n");
    // RFC 9530 appendix D.
    let sha256 = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    for request in [
        "GET /file\nWant-Repr-Digest: sha-256=10, md5=1",
        "HEAD /file\nWant-Repr-Digest: sha-256=10",
        "GET /file\nWant-Repr-Digest: sha-256=10\nRange: bytes=0-3",
    ] {
        let answer = server.ask(request, b"").await;
        assert_eq!(answer.header("Repr-Digest").as_deref(), Some(sha256), "{request}");
    }
    let long = server.ask("HEAD /file\nWant-Repr-Digest: sha-256=1, sha-512=2", b"").await;
    assert!(long.header("Repr-Digest").unwrap().starts_with("sha-512=:"));
    for request in [
        "GET /file",
        "GET /file\nWant-Repr-Digest: md5=1",
        "GET /\nWant-Repr-Digest: sha-256=1",
        "GET /none\nWant-Repr-Digest: sha-256=1",
    ] {
        assert_eq!(server.ask(request, b"").await.header("Repr-Digest"), None, "{request}");
    }
}

#[tokio::test]
async fn digest_of_a_large_file_is_of_all_of_it() {
    let server = start(|_| {});
    let large = vec![7; 3_500_000];
    server.write("large", &large);
    let expected = haul_http::digest::Digests::of(&large, &[haul_http::digest::Algorithm::Sha256]);
    let expected = expected.value(haul_http::digest::Field::ReprDigest).unwrap();
    let head = server.ask("HEAD /large\nWant-Repr-Digest: sha-256=10", b"").await;
    assert_eq!(head.header("Repr-Digest").unwrap(), expected.to_str().unwrap());
}
