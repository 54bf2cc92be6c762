//! A client that saves the same file again and again, as the Windows redirector does it.

use std::time::{Duration, Instant};

use http::StatusCode;

use crate::{
    redirector::{BOB, LOCK},
    world::World,
};

/// Well below the time that a lock is kept.
const SOON: Duration = Duration::from_millis(500);

impl World {
    /// The six requests of a file that is saved in place. Returns the lock's token, and what PROPFIND and HEAD have said.
    async fn save(&self, path: &str, content: &[u8]) -> (String, String, StatusCode) {
        let found = self.windows("PROPFIND", path, &[("depth", "0")], b"").await;
        assert_eq!(found.0, StatusCode::MULTI_STATUS, "{}", found.1);
        let token = self.lock(path).await;
        let held = format!("({token})");
        let looked = self.windows("HEAD", path, &[], b"").await.0;
        let put = self.windows("PUT", path, &[("if", &held)], content).await;
        assert_eq!(put.0, StatusCode::NO_CONTENT, "{}", put.1);
        self.set_times(path, &held).await;
        self.unlock(path, &token).await;
        (token, found.1, looked)
    }

    async fn unlock(&self, path: &str, token: &str) {
        let unlocked = self.windows("UNLOCK", path, &[("lock-token", token)], b"").await;
        assert_eq!(unlocked.0, StatusCode::NO_CONTENT, "{}", unlocked.1);
    }

    async fn waits_for(&self, path: &str, method: &str, since: usize) {
        let begin = Instant::now();
        while !self.upstream(path, since).iter().any(|sent| sent == method) {
            assert!(begin.elapsed() < Duration::from_mins(1), "{:?}", self.upstream(path, since));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A world with the file `/files/a`, and a client whose times the server has accepted.
async fn world() -> World {
    let world = World::new();
    for path in ["/files/first", "/files/a"] {
        world.create(path, b"content").await;
    }
    world.settle().await;
    world
}

#[tokio::test]
async fn saving_again_takes_two_round_trips() {
    const TIMES: usize = 12;
    let (world, path) = (world().await, "/files/a");
    let since = world.lines().len();
    let token = world.save(path, b"0").await.0;
    let (mut ended, mut is_soon, mut is_same) = (Instant::now(), true, true);
    for number in 1..=TIMES {
        let content = "x".repeat(number);
        let (again, listed, head) = world.save(path, content.as_bytes()).await;
        // A machine that takes longer proves nothing, and does nothing wrong.
        is_soon &= ended.elapsed() < SOON;
        is_same &= again == token;
        ended = Instant::now();
        assert_eq!(head, StatusCode::OK);
        let length = format!(">{}</D:getcontentlength>", (number - 1).max(1));
        assert!(listed.contains(&length), "{length}: {listed}");
        assert!(listed.contains("Win32LastModifiedTime"), "what was acknowledged is seen: {listed}");
        assert_eq!(world.on_disk(&path[1..]), Some(content.into_bytes()));
    }
    world.waits_for(path, "UNLOCK", since).await;
    let sent = world.upstream(path, since);
    if is_soon {
        assert!(is_same, "the lock was handed out again");
        let after = sent.iter().position(|method| method == "HEAD").unwrap() + 1;
        let expected = [&["PUT", "PROPPATCH", "PROPFIND"].repeat(TIMES + 1)[..], &["UNLOCK"]].concat();
        assert_eq!(sent[after..], expected);
    }
    assert_eq!(world.ask(BOB, "PUT", path, &[], b"bob").await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn nobody_sees_a_lock_that_its_client_has_released() {
    let (world, path) = (world().await, "/files/a");
    let (token, ..) = world.save(path, b"1").await;
    assert_eq!(world.ask(BOB, "PUT", path, &[], b"by bob").await.0, StatusCode::NO_CONTENT);
    let (again, listed, _) = world.save(path, b"2").await;
    assert!(token != again && listed.contains(">6</D:getcontentlength>"), "{listed}");
    let listed = world.ask(BOB, "PROPFIND", "/files/", &[("depth", "1")], b"").await.1;
    assert!(listed.contains("/files/a</") && !listed.contains("PC\\ann"), "{listed}");
    // Its own token is of no use to the client, either: the server has released the lock before it gets the token.
    let (token, ..) = world.save(path, b"3").await;
    world.windows("PUT", path, &[("if", &format!("({token})"))], b"4").await;
    let sent = world.upstream(path, 0);
    assert!(sent.ends_with(&["UNLOCK", "PUT"].map(str::to_owned)), "{sent:?}");
    let (token, ..) = world.save(path, b"5").await;
    let unlocked = world.windows("UNLOCK", path, &[("lock-token", &token)], b"").await;
    assert!(unlocked.0.is_client_error(), "a second time: {unlocked:?}");
    // Nor to whoever asks for another lock.
    let (token, ..) = world.save(path, b"6").await;
    let shared = String::from_utf8_lossy(LOCK).replace("exclusive", "shared");
    let (status, body) = world.windows("LOCK", path, &[("timeout", "Second-3600")], shared.as_bytes()).await;
    assert!(status.is_success() && !body.contains(&token[1..token.len() - 1]), "{body}");
    assert_eq!(world.on_disk(&path[1..]), Some(b"6".to_vec()));
}

#[tokio::test]
async fn folder_with_a_lingering_lock_can_be_moved_and_deleted() {
    let world = world().await;
    assert_eq!(world.windows("MKCOL", "/files/sub/", &[], b"").await.0, StatusCode::CREATED);
    world.ask(BOB, "PUT", "/files/sub/a", &[], b"bob").await;
    world.save("/files/sub/a", b"1").await;
    let moved = world.ask(BOB, "MOVE", "/files/sub/", &[("destination", "/files/other/")], b"").await;
    assert_eq!(moved.0, StatusCode::CREATED, "{}", moved.1);
    world.save("/files/other/a", b"2").await;
    let moved = world.ask(BOB, "MOVE", "/files/first", &[("destination", "/files/other/a")], b"").await;
    assert_eq!(moved.0, StatusCode::NO_CONTENT, "{}", moved.1);
    assert_eq!(world.on_disk("files/other/a"), Some(b"content".to_vec()));
}

#[tokio::test]
async fn end_releases_the_locks() {
    let (world, path) = (world().await, "/files/a");
    let since = world.lines().len();
    world.save(path, b"1").await;
    world.settle().await;
    assert!(world.upstream(path, since).ends_with(&["UNLOCK".to_owned()]), "{:?}", world.upstream(path, since));
}
