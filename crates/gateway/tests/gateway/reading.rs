//! Files that are read one after another, and again.

use std::time::{Duration, Instant};

use http::StatusCode;

use crate::{
    redirector::{ANN, BOB},
    world::World,
};

impl World {
    /// A world with so many files of this length, `/files/d/00` and so on, that ann has listed.
    async fn with_files(count: usize, length: usize) -> Self {
        let world = Self::new();
        let folder = world.folder.path().join("root/files/d");
        std::fs::create_dir(&folder).unwrap();
        for number in 0..count {
            std::fs::write(folder.join(format!("{number:02}")), content(number, length)).unwrap();
        }
        let listed = world.windows("PROPFIND", "/files/d/", &[("depth", "1")], b"").await;
        assert_eq!(listed.0, StatusCode::MULTI_STATUS);
        world
    }

    /// Waits until the server has got so many of these.
    async fn gets(&self, path: &str, method: &str, count: usize) {
        let begin = Instant::now();
        while self.upstream(path, 0).iter().filter(|sent| *sent == method).count() < count {
            assert!(begin.elapsed() < Duration::from_mins(1), "{path}: {:?}", self.lines());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn reads(&self, number: usize, length: usize) {
        let path = format!("/files/d/{number:02}");
        let found = self.windows("PROPFIND", &path, &[("depth", "0")], b"").await;
        assert_eq!(found.0, StatusCode::MULTI_STATUS, "{}", found.1);
        let read = self.windows("GET", &path, &[], b"").await;
        assert_eq!((read.0, read.1.into_bytes()), (StatusCode::OK, content(number, length)), "{path}");
    }
}

fn content(number: usize, length: usize) -> Vec<u8> {
    number.to_string().into_bytes().into_iter().cycle().take(length).collect()
}

#[tokio::test]
async fn files_that_are_read_in_order_are_fetched_ahead_once_each() {
    const COUNT: usize = 60;
    let world = World::with_files(COUNT, 1000).await;
    for number in 0..COUNT {
        if number == 2 {
            // Nobody has asked for it.
            world.gets("/files/d/09", "GET", 1).await;
        }
        world.reads(number, 1000).await;
    }
    for number in 0..COUNT {
        let sent = world.upstream(&format!("/files/d/{number:02}"), 0);
        assert_eq!(sent, ["GET"], "{number}");
    }
}

#[tokio::test]
async fn large_files_and_what_is_read_again_fetch_nothing_ahead() {
    let world = World::with_files(60, 1000).await;
    for _ in 0..3 {
        world.reads(50, 1000).await;
    }
    let gets = world.lines().iter().filter(|line| line.contains("\"GET ")).count();
    assert_eq!(gets, 1);
    let large = 256 * 1024 + 1;
    let world = World::with_files(12, large).await;
    for number in 0..6 {
        world.reads(number, large).await;
    }
    let gets = world.lines().iter().filter(|line| line.contains("\"GET ")).count();
    assert_eq!(gets, 6);
}

#[tokio::test]
async fn content_from_memory_is_its_clients_and_the_listed_version() {
    let (world, path) = (World::with_files(3, 1000).await, "/files/d/00");
    let old = String::from_utf8(content(0, 1000)).unwrap();
    for _ in 0..3 {
        world.reads(0, 1000).await;
        assert_eq!(world.windows("HEAD", path, &[], b"").await.0, StatusCode::OK);
    }
    assert_eq!(world.upstream(path, 0), ["GET"]);
    for (who, status) in [("", 401), ("ann:wrong", 401), ("bob:ann's", 401), (BOB, 200)] {
        let since = world.lines().len();
        assert_eq!(world.ask(who, "GET", path, &[], b"").await.0.as_u16(), status, "{who}");
        assert_eq!(world.upstream(path, since), ["GET"], "{who} has asked the server");
    }
    // A client may insist on the server's answer.
    let since = world.lines().len();
    world.ask(ANN, "GET", path, &[("cache-control", "no-cache")], b"").await;
    world.ask(ANN, "GET", path, &[("if-match", "\"x\"")], b"").await;
    world.ask(ANN, "GET", path, &[("range", "bytes=1-2")], b"").await;
    assert_eq!(world.upstream(path, since).len(), 3);
    // What it has changed itself it sees at once.
    assert_eq!(world.ask(ANN, "PUT", path, &[], b"new").await.0, StatusCode::NO_CONTENT);
    assert_eq!(world.ask(ANN, "GET", path, &[], b"").await.1, "new");
    assert_eq!(world.windows("PROPFIND", "/files/d/", &[("depth", "1")], b"").await.0, StatusCode::MULTI_STATUS);
    for _ in 0..2 {
        assert_eq!(world.ask(ANN, "GET", path, &[], b"").await.1, "new");
    }
    assert_eq!(world.ask(ANN, "DELETE", path, &[], b"").await.0, StatusCode::NO_CONTENT);
    let gone = world.ask(ANN, "GET", path, &[], b"").await;
    assert!(gone.0 == StatusCode::NOT_FOUND && gone.1 != old, "{gone:?}");
}
