//! A client that saves as the Windows redirector does, and what the server gets to see of it.

use std::time::Duration;

use http::StatusCode;

use crate::world::World;

const AGENT: (&str, &str) = ("user-agent", "Microsoft-WebDAV-MiniRedir/10.0.19045");
pub(crate) const LOCK: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>PC\ann</D:href></D:owner></D:lockinfo>"#;
const TIMES: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32LastModifiedTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32LastModifiedTime><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"#;
pub(crate) const ANN: &str = "ann:ann's";
pub(crate) const BOB: &str = "bob:bob's";

impl World {
    pub(crate) async fn windows(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> (StatusCode, String) {
        self.ask(ANN, method, path, &[&[AGENT, ("translate", "f")], fields].concat(), body).await
    }

    /// The eight requests of a new file.
    pub(crate) async fn create(&self, path: &str, content: &[u8]) {
        let found = self.windows("PROPFIND", path, &[("depth", "0")], b"").await;
        assert_eq!(found.0, StatusCode::NOT_FOUND, "{}", found.1);
        assert_eq!(self.windows("PUT", path, &[], b"").await.0, StatusCode::CREATED);
        let token = self.lock(path).await;
        let held = format!("({token})");
        self.set_times(path, &held).await;
        assert_eq!(self.windows("HEAD", path, &[], b"").await.0, StatusCode::OK);
        let put = self.windows("PUT", path, &[("if", &held)], content).await;
        assert!(put.0.is_success(), "{put:?}");
        self.set_times(path, &held).await;
        let unlocked = self.windows("UNLOCK", path, &[("lock-token", &token)], b"").await;
        assert_eq!(unlocked.0, StatusCode::NO_CONTENT, "{}", unlocked.1);
    }

    pub(crate) async fn lock(&self, path: &str) -> String {
        let (status, body) = self.windows("LOCK", path, &[("timeout", "Second-3600")], LOCK).await;
        assert!(status.is_success(), "{body}");
        let from = body.find("urn:uuid:").or_else(|| body.find("opaquelocktoken:")).expect("a token");
        format!("<{}>", body[from..].split('<').next().unwrap())
    }

    pub(crate) async fn set_times(&self, path: &str, held: &str) {
        let (status, body) = self.windows("PROPPATCH", path, &[("if", held)], TIMES).await;
        assert!(status == StatusCode::MULTI_STATUS && body.contains("200 OK"), "{body}");
    }

    /// The methods that the server has got for a path since the log had so many lines.
    pub(crate) fn upstream(&self, path: &str, since: usize) -> Vec<String> {
        let log = self.lines();
        let at = |line: &String| line.contains(&format!(" {path} HTTP"));
        log[since..]
            .iter()
            .filter(|line| at(line))
            .filter_map(|line| Some(line.split('"').nth(1)?.split(' ').next()?.to_owned()))
            .collect()
    }
}

#[tokio::test]
async fn a_new_file_takes_two_round_trips() {
    let world = World::new();
    for name in ["first", "second"] {
        world.create(&format!("/files/{name}"), name.as_bytes()).await;
    }
    let since = world.lines().len();
    for number in 0..20 {
        let path = format!("/files/{number}");
        world.create(&path, path.as_bytes()).await;
    }
    world.settle().await;
    for number in 0..20 {
        let path = format!("/files/{number}");
        let sent = world.upstream(&path, since);
        assert_eq!(sent, ["LOCK", "PUT", "PROPPATCH", "PROPPATCH", "UNLOCK"], "{path}");
        assert_eq!(world.on_disk(&path[1..]), Some(path.clone().into_bytes()));
        let all = world.ask(BOB, "PROPFIND", &path, &[("depth", "0")], b"").await.1;
        assert!(all.contains("getcontentlength") && !all.contains("PC\\ann"), "{all}");
    }
    let probes = world.upstream("/files/", since);
    assert!(probes.len() <= 2, "{probes:?}");
}

#[tokio::test]
async fn what_was_acknowledged_is_seen() {
    let world = World::new();
    for number in 0..6 {
        let path = format!("/files/{number}");
        world.create(&path, b"content").await;
        let all = world.windows("PROPFIND", &path, &[("depth", "0")], b"").await.1;
        assert!(all.contains("getcontentlength") && !all.contains("PC\\ann"), "{all}");
        let sent = world.upstream(&path, 0);
        let at = |method: &str| sent.iter().rposition(|sent| sent == method);
        assert!(at("PROPFIND") > at("PROPPATCH") && at("PROPPATCH") > at("PUT"), "{sent:?}");
        let all = world.windows("PROPFIND", "/files/", &[("depth", "1")], b"").await.1;
        assert_eq!(all.matches("</D:getcontentlength>").count(), number + 1, "{all}");
        assert_eq!(world.windows("DELETE", &format!("/files/{number}x"), &[], b"").await.0, StatusCode::NOT_FOUND);
    }
    assert_eq!(world.windows("DELETE", "/files/0", &[], b"").await.0, StatusCode::NO_CONTENT);
    assert_eq!(world.windows("PROPFIND", "/files/0", &[("depth", "0")], b"").await.0, StatusCode::NOT_FOUND);
    let moved = world.windows("MOVE", "/files/1", &[("destination", "/files/0")], b"").await;
    assert_eq!(moved.0, StatusCode::CREATED, "{}", moved.1);
    assert_eq!(world.windows("GET", "/files/0", &[], b"").await, (StatusCode::OK, "content".into()));
    assert_eq!(world.windows("GET", "/files/1", &[], b"").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn somebody_elses_new_file_is_not_truncated() {
    let world = World::new();
    for name in ["/files/a", "/files/b"] {
        world.create(name, b"ann").await;
    }
    assert_eq!(world.windows("PROPFIND", "/files/c", &[("depth", "0")], b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.ask(BOB, "PUT", "/files/c", &[], b"bob").await.0, StatusCode::CREATED);
    let put = world.windows("PUT", "/files/c", &[], b"").await;
    assert_eq!(put.0, StatusCode::CONFLICT, "{}", put.1);
    assert_eq!(world.on_disk("files/c"), Some(b"bob".to_vec()));
    // The lock that showed it is released.
    world.settle().await;
    assert_eq!(world.ask(BOB, "PUT", "/files/c", &[], b"bob again").await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn an_empty_put_without_a_lock_leaves_no_lock() {
    let world = World::new();
    for name in ["/files/a", "/files/b"] {
        world.create(name, b"ann").await;
    }
    assert_eq!(world.windows("PROPFIND", "/files/c", &[("depth", "0")], b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.windows("PUT", "/files/c", &[], b"").await.0, StatusCode::CREATED);
    assert_eq!(world.ask(BOB, "PUT", "/files/c", &[], b"bob").await.0, StatusCode::LOCKED);
    let begin = std::time::Instant::now();
    while world.ask(BOB, "PUT", "/files/c", &[], b"bob").await.0 == StatusCode::LOCKED {
        assert!(begin.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(world.on_disk("files/c"), Some(b"bob".to_vec()));
}

#[tokio::test]
async fn an_edited_file_is_locked_and_read_anew() {
    let world = World::new();
    for name in ["/files/a", "/files/b"] {
        world.create(name, b"first").await;
    }
    let token = world.lock("/files/a").await;
    assert_eq!(world.ask(BOB, "PUT", "/files/a", &[], b"bob").await.0, StatusCode::LOCKED);
    let held = format!("({token})");
    assert_eq!(world.windows("PUT", "/files/a", &[("if", &held)], b"second").await.0, StatusCode::NO_CONTENT);
    world.set_times("/files/a", &held).await;
    let wrong = world.windows("UNLOCK", "/files/a", &[("lock-token", "<urn:uuid:wrong>")], b"").await;
    assert!(wrong.0.is_client_error(), "{}", wrong.1);
    assert_eq!(world.windows("UNLOCK", "/files/a", &[("lock-token", &token)], b"").await.0, StatusCode::NO_CONTENT);
    assert_eq!(world.windows("GET", "/files/a", &[], b"").await.1, "second");
    assert_eq!(world.ask(BOB, "PUT", "/files/a", &[], b"bob").await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn listings_answer_only_whose_they_are() {
    let world = World::new();
    for number in 0..3 {
        world.windows("PROPFIND", &format!("/files/{number}"), &[("depth", "0")], b"").await;
    }
    // The folder is listed behind the answers.
    for number in 0.. {
        assert!(number < 1000, "the gateway lists the folder");
        let (path, since) = (format!("/files/probe{number}"), world.lines().len());
        world.windows("PROPFIND", &path, &[("depth", "0")], b"").await;
        if world.upstream(&path, since).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let since = world.lines().len();
    assert_eq!(world.windows("PROPFIND", "/files/desktop.ini", &[("depth", "0")], b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.windows("GET", "/files/folder.jpg", &[], b"").await.0, StatusCode::NOT_FOUND);
    assert!(
        world.upstream("/files/desktop.ini", since).is_empty() && world.upstream("/files/folder.jpg", since).is_empty()
    );
    for stranger in ["", "ann:wrong", "mallory:x"] {
        let asked = world.ask(stranger, "PROPFIND", "/files/desktop.ini", &[("depth", "0")], b"").await;
        assert_eq!(asked.0, StatusCode::UNAUTHORIZED, "{stranger}");
    }
    assert_eq!(world.ask(BOB, "PROPFIND", "/files/desktop.ini", &[("depth", "0")], b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.upstream("/files/desktop.ini", since).len(), 4, "all of them asked the server");
}
