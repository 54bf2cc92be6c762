//! Clients that go away in the middle of an upload.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use crate::world::{PATIENCE, apache, begin_put, embedded, gateway, put};

const LARGE: usize = 2_000_000;

/// How a client announces a body and how it ends it too early.
const FRAMINGS: [(&str, &str); 4] = [
    ("Content-Length: 2000000", "drop"),
    ("Content-Length: 2000000", "reset"),
    ("Transfer-Encoding: chunked", "drop"),
    ("Transfer-Encoding: chunked", "half"),
];

async fn leave(to: SocketAddr, name: &str, framing: &str, how: &str, part: usize) {
    let content = vec![b'n'; part];
    let bytes =
        if framing.starts_with('T') { [format!("{part:x}\r\n").as_bytes(), &content].concat() } else { content };
    let mut stream = begin_put(to, name, framing, &bytes).await;
    // Some of it reaches the server before the client goes.
    tokio::time::sleep(Duration::from_millis(100)).await;
    match how {
        "reset" => stream.set_zero_linger().unwrap(),
        "half" => tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap(),
        _ => {}
    }
    if how == "half" {
        tokio::time::timeout(PATIENCE, tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 512]))
            .await
            .expect("the end")
            .ok();
    }
}

/// Names below a folder, without mod_dav's own.
fn names(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = all.filter(|name| name != ".DAV" && name != ".longhaul").collect();
    names.sort();
    names
}

async fn no_half_file(server: SocketAddr, files: &Path) {
    let gateway = gateway(server, PATIENCE);
    let whole = vec![b'w'; LARGE];
    assert_eq!(put(gateway.at, "control", &whole).await, 201);
    assert_eq!(put(gateway.at, "old", b"old").await, 201);
    assert_eq!(fs::read(files.join("control")).unwrap(), whole, "control");
    for part in [10, 100_000, LARGE - 1] {
        for (framing, how) in FRAMINGS {
            for name in ["new", "old"] {
                leave(gateway.at, name, framing, how, part).await;
            }
        }
    }
    // The server takes a moment to see it.
    let begin = std::time::Instant::now();
    while names(files) != ["control", "old"] && begin.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(names(files), ["control", "old"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(names(files), ["control", "old"]);
    assert_eq!(fs::read(files.join("old")).unwrap(), b"old");
    assert_eq!(put(gateway.at, "new", &whole).await, 201, "and the next upload works");
    assert_eq!(fs::read(files.join("new")).unwrap(), whole);
}

#[tokio::test]
async fn no_half_file_appears_at_haul_serve() {
    let folder = tempfile::tempdir().unwrap();
    let server = embedded(folder.path());
    no_half_file(server.at, &folder.path().join("files")).await;
}

#[tokio::test]
async fn no_half_file_appears_at_apache() {
    let Some(apache) = apache() else { return };
    no_half_file(apache.address, &apache.path("root/files")).await;
}
