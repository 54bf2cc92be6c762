//! A client that saves as macOS' Finder does, and what the server gets to see of it.

use http::StatusCode;

use crate::world::World;

const AGENT: (&str, &str) = ("user-agent", "WebDAVFS/3.0.0 (03008000) Darwin/19.6.0 (x86_64)");
const LOCK: &[u8] = b"<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:lockinfo xmlns:D=\"DAV:\">\n<D:lockscope><D:exclusive/></D:lockscope>\n<D:locktype><D:write/></D:locktype>\n<D:owner>\n<D:href>http://www.apple.com/webdav_fs/</D:href>\n</D:owner>\n</D:lockinfo>\n";
const LOOK: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:getlastmodified/><D:getcontentlength/></D:prop></D:propfind>"#;
const ANN: &str = "ann:ann's";

impl World {
    async fn finder(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> (StatusCode, String) {
        self.ask(ANN, method, path, &[&[AGENT], fields].concat(), body).await
    }

    async fn finder_looks(&self, path: &str) -> StatusCode {
        self.finder("PROPFIND", path, &[("depth", "0")], LOOK).await.0
    }

    async fn finder_creates(&self, folder: &str, name: &str, content: &[u8]) {
        let (path, attributes) = (format!("{folder}{name}"), format!("{folder}._{name}"));
        assert_eq!(self.finder_looks(&path).await, StatusCode::NOT_FOUND);
        for (path, content) in [(&path, content), (&attributes, b"attributes")] {
            let put = self.finder("PUT", path, &[], b"").await;
            assert_eq!(put.0, StatusCode::CREATED, "{}", put.1);
            assert_eq!(self.finder_looks(&format!("{folder}._.")).await, StatusCode::NOT_FOUND);
            let (status, body) = self.finder("LOCK", path, &[("depth", "0"), ("timeout", "Second-600")], LOCK).await;
            assert!(status.is_success(), "{body}");
            let from = body.find("urn:uuid:").or_else(|| body.find("opaquelocktoken:")).expect("a token");
            let token = format!("<{}>", body[from..].split('<').next().unwrap());
            let put = self.finder("PUT", path, &[("if", &format!("({token})"))], content).await;
            assert!(put.0.is_success(), "{put:?}");
            assert_eq!(self.finder_looks(path).await, StatusCode::MULTI_STATUS);
            let unlocked = self.finder("UNLOCK", path, &[("lock-token", &token)], b"").await;
            assert_eq!(unlocked.0, StatusCode::NO_CONTENT, "{}", unlocked.1);
        }
    }
}

#[tokio::test]
async fn a_new_file_of_finder_is_locked_written_and_released() {
    let world = World::new();
    world.finder_creates("/files/", "first", b"first").await;
    let since = world.lines().len();
    for number in 0..8 {
        world.finder_creates("/files/", &number.to_string(), format!("content {number}").as_bytes()).await;
    }
    world.settle().await;
    for number in 0..8 {
        for (path, content) in [
            (format!("/files/{number}"), format!("content {number}")),
            (format!("/files/._{number}"), "attributes".into()),
        ] {
            let sent = world.upstream(&path, since);
            let sent: Vec<&str> = sent.iter().map(String::as_str).filter(|method| *method != "PROPFIND").collect();
            assert_eq!(sent, ["LOCK", "PUT", "UNLOCK"], "{path}");
            assert_eq!(world.on_disk(&path[1..]), Some(content.into_bytes()));
        }
    }
    let free = world.ask(ANN, "PUT", "/files/7", &[], b"without the lock").await;
    assert!(free.0.is_success(), "{free:?}");
}

#[tokio::test]
async fn locks_of_finder_and_windows_do_not_mix() {
    let world = World::new();
    world.create("/files/windows", b"windows").await;
    world.finder_creates("/files/", "finder", b"finder").await;
    for number in 0..3 {
        world.create(&format!("/files/w{number}"), b"windows").await;
        world.finder_creates("/files/", &format!("f{number}"), b"finder").await;
    }
    world.settle().await;
    for number in 0..3 {
        assert_eq!(world.on_disk(&format!("files/w{number}")), Some(b"windows".to_vec()));
        assert_eq!(world.on_disk(&format!("files/f{number}")), Some(b"finder".to_vec()));
    }
}

#[tokio::test]
async fn attribute_probes_of_finder_are_answered_from_the_listing() {
    let world = World::new();
    for number in 0..40 {
        let put = world.ask(ANN, "PUT", &format!("/files/{number}"), &[], b"content").await;
        assert!(put.0.is_success(), "{put:?}");
    }
    assert_eq!(world.finder("PROPFIND", "/files/", &[("depth", "1")], LOOK).await.0, StatusCode::MULTI_STATUS);
    let since = world.lines().len();
    for name in ["._.", ".DS_Store"].map(str::to_owned).into_iter().chain((0..40).map(|number| format!("._{number}"))) {
        assert_eq!(world.finder_looks(&format!("/files/{name}")).await, StatusCode::NOT_FOUND, "{name}");
    }
    assert_eq!(world.lines().len(), since, "{:?}", &world.lines()[since..]);
}
