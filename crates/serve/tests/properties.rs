//! Properties of 64 KB, too large for an extended attribute of ext4.

mod common;

use std::path::PathBuf;

use common::{Running, skip, start};
use serve::{Config, Server};

/// A PROPPATCH that sets such a value.
async fn patch(server: &Running, path: &str, value: &str) -> String {
    let body = format!(
        "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><n:note xmlns:n='urn:test'>{value}</n:note></D:prop></D:set>\
         </D:propertyupdate>"
    );
    server.ask(&format!("PROPPATCH {path}"), body.as_bytes()).await.text()
}

/// The value, if the file has one.
async fn value(server: &Running, path: &str) -> Option<String> {
    let body = "<D:propfind xmlns:D='DAV:'><D:prop><n:note xmlns:n='urn:test'/></D:prop></D:propfind>";
    let text = server.ask(&format!("PROPFIND {path}\nDepth: 0"), body.as_bytes()).await.text();
    let (_, after) = text.split_once("urn:test\">")?;
    Some(after.split_once('<')?.0.to_owned())
}

fn large() -> String {
    "v".repeat(64 * 1000)
}

/// The property files.
fn kept(server: &Running) -> Vec<PathBuf> {
    let folder = std::fs::read_dir(server.root.path().join(".haul-properties"));
    folder.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

/// A server with a file that has such a property; none if the file system supports no properties.
async fn with_large() -> Option<Running> {
    let server = start(|_| {});
    server.write("file", "x");
    if patch(&server, "/file", "small").await.contains("507") {
        skip("the temporary directory keeps no user attributes");
        return None;
    }
    let patched = patch(&server, "/file", &large()).await;
    assert!(patched.contains("200 OK"), "{patched}");
    if kept(&server).is_empty() {
        skip("the temporary directory keeps 64 KB in an attribute, as tmpfs does");
        return None;
    }
    Some(server)
}

#[tokio::test]
async fn large_property_moves_and_is_copied_with_its_file() {
    let Some(server) = with_large().await else { return };
    assert_eq!(value(&server, "/file").await.as_deref(), Some(&*large()));
    assert_eq!(server.ask("MOVE /file\nDestination: /moved", b"").await.status(), 201);
    assert_eq!(value(&server, "/moved").await.as_deref(), Some(&*large()));
    assert_eq!(server.ask("COPY /moved\nDestination: /copy", b"").await.status(), 201);
    assert_eq!(server.ask("DELETE /moved", b"").await.status(), 204);
    assert_eq!(value(&server, "/copy").await.as_deref(), Some(&*large()));
    assert_eq!(server.ask("PUT /copy", b"new").await.status(), 204);
    assert_eq!(value(&server, "/copy").await.as_deref(), Some(&*large()));
    std::fs::rename(server.root.path().join("copy"), server.root.path().join("renamed")).unwrap();
    assert_eq!(value(&server, "/renamed").await.as_deref(), Some(&*large()));
}

#[tokio::test]
async fn large_property_of_a_collection_is_copied_and_removed_with_it() {
    let Some(server) = with_large().await else { return };
    server.ask("DELETE /file", b"").await;
    server.ask("MKCOL /folder", b"").await;
    assert!(patch(&server, "/folder", &large()).await.contains("200 OK"));
    assert_eq!(server.ask("COPY /folder\nDestination: /other", b"").await.status(), 201);
    assert_eq!(server.ask("DELETE /folder", b"").await.status(), 204);
    assert_eq!(value(&server, "/other").await.as_deref(), Some(&*large()));
    assert_eq!(server.ask("DELETE /other", b"").await.status(), 204);
    assert_eq!(kept(&server), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn properties_are_removed_with_their_file() {
    let Some(server) = with_large().await else { return };
    assert_eq!(kept(&server).len(), 1);
    assert!(patch(&server, "/file", &"w".repeat(64 * 1000)).await.contains("200 OK"));
    assert_eq!(kept(&server).len(), 1, "a new value replaces the old one");
    server.write("other", "y");
    for (request, left) in [
        ("COPY /file\nDestination: /other", 2),
        ("COPY /file\nDestination: /other", 2),
        ("MOVE /file\nDestination: /other", 1),
        ("PUT /other", 1),
        ("DELETE /other", 0),
    ] {
        assert!(server.ask(request, b"").await.status() < 300, "{request}");
        assert_eq!(kept(&server).len(), left, "{request}");
    }
    // Another hard link keeps the properties.
    server.write("one", "x");
    std::fs::hard_link(server.root.path().join("one"), server.root.path().join("two")).unwrap();
    patch(&server, "/one", &large()).await;
    assert_eq!(server.ask("DELETE /one", b"").await.status(), 204);
    assert_eq!(value(&server, "/two").await.as_deref(), Some(&*large()));
}

#[tokio::test]
async fn property_files_are_neither_listed_nor_reachable() {
    let Some(server) = with_large().await else { return };
    let listing = server.ask("PROPFIND /\nDepth: 1", b"").await.text();
    assert!(listing.contains("/file") && !listing.contains("haul-properties"), "{listing}");
    assert!(!server.ask("GET /", b"").await.text().contains("haul-properties"));
    let inside = format!("/.haul-properties/{}", kept(&server)[0].file_name().unwrap().to_str().unwrap());
    for request in ["GET", "DELETE", "PROPFIND"] {
        for path in ["/.haul-properties", &inside] {
            assert_eq!(server.ask(&format!("{request} {path}\nDepth: 0"), b"").await.status(), 404, "{request} {path}");
        }
    }
    assert!(server.ask(&format!("PUT {inside}"), b"x").await.status() >= 400);
    assert_eq!(kept(&server).len(), 1);
}

#[tokio::test]
async fn restarted_server_keeps_properties_and_sweeps_orphans() {
    let Some(mut server) = with_large().await else { return };
    server.write("gone", "x");
    assert!(patch(&server, "/gone", &large()).await.contains("200 OK"));
    server.stop().await;
    std::fs::remove_file(server.root.path().join("gone")).unwrap();
    for left in [2, 1, 1] {
        let config = Config {
            root: server.root.path().to_owned(),
            listen: vec![([127, 0, 0, 1], 0).into()],
            ..Config::default()
        };
        let again = Server::bind(config).unwrap();
        server.address = again.local_addr();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(again.run(async { drop(stopped.await) }));
        // The first start renames, the second removes.
        common::until(|| (kept(&server).len() == left && (left < 2 || orphans(&server) == 1)).then_some(())).await;
        assert_eq!(value(&server, "/file").await.as_deref(), Some(&*large()));
        drop(stop);
        running.await.unwrap().unwrap();
    }
}

fn orphans(server: &Running) -> usize {
    kept(server).iter().filter(|path| path.extension().is_some()).count()
}
