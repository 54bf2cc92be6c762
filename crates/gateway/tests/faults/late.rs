//! Apache, which carries a change out when its client has saved the file again.

use std::{fs, net::SocketAddr, time::Duration};

use gateway::{WriteBack, pending};
use servers::{Apache, HoldingLink};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    passwords::password_line,
    world::{PATIENCE, Running, gateway_with, rest, status},
};

/// How long the gateway waits for an answer.
const SHORT: Duration = Duration::from_secs(3);
const LOCK: &str = r#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>ann</D:owner></D:lockinfo>"#;

/// An Apache whose user ann has a file, and a gateway in front of it that has seen how she saves.
struct World {
    apache: Apache,
    link: HoldingLink,
    gateway: Running,
    /// Of the gateway.
    state: tempfile::TempDir,
}

impl World {
    async fn new(has_journal: bool) -> Option<Self> {
        let directives = "<Directory \"ROOT/files\">\nDav On\nAuthType Basic\nAuthName x\nAuthUserFile \"FOLDER/users\"\nRequire valid-user\n</Directory>\n";
        let modules = ["auth_basic", "authn_core", "authn_file", "authz_user"];
        let apache = Apache::start(&modules, directives, |folder| {
            fs::write(folder.join("users"), password_line("ann")).unwrap();
            fs::write(folder.join("root/files/old"), "old").unwrap();
        })?;
        let state = tempfile::tempdir().unwrap();
        let back = has_journal.then(|| WriteBack { state: state.path().to_owned(), size: 1 << 20 });
        let link = HoldingLink::to(apache.address).unwrap();
        let gateway = gateway_with(link.at, SHORT, back);
        let world = Self { apache, link, gateway, state };
        world.save("warm", &["warm"]).await;
        Some(world)
    }

    async fn ask(&self, method: &str, name: &str, fields: &str, body: &str) -> (u16, String) {
        ask(self.gateway.at, method, name, fields, body).await
    }

    /// Locks a file, which is created first if it is new. Returns the token in its angle brackets.
    async fn lock(&self, name: &str) -> String {
        if self.ask("PROPFIND", name, "Depth: 0\r\n", "").await.0 == 404 {
            assert_eq!(self.ask("PUT", name, "", "").await.0, 201);
        }
        let (status, answer) = self.ask("LOCK", name, "Timeout: Second-3600\r\n", LOCK).await;
        assert!(matches!(status, 200 | 201), "{answer}");
        let from = answer.find("opaquelocktoken:").unwrap();
        format!("<{}>", answer[from..].split(['<', '>']).next().unwrap())
    }

    async fn unlock(&self, name: &str, token: &str) {
        assert_eq!(self.ask("UNLOCK", name, &format!("Lock-Token: {token}\r\n"), "").await.0, 204);
    }

    async fn save(&self, name: &str, contents: &[&str]) {
        let token = self.lock(name).await;
        for content in contents {
            let (status, answer) = self.ask("PUT", name, &format!("If: ({token})\r\n"), content).await;
            assert!(matches!(status, 201 | 204), "{answer}");
        }
        self.unlock(name, &token).await;
        self.settle().await;
    }

    /// What the server answers to a client of its own that has no lock.
    async fn put_unlocked(&self, name: &str) -> u16 {
        ask(self.apache.address, "PUT", name, "", "without a lock").await.0
    }

    /// Waits until the server has what the journal had.
    async fn settle(&self) {
        let all = async {
            while !pending(self.state.path()).unwrap_or_default().is_empty() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, all).await.expect("everything is uploaded");
    }

    fn on_disk(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.apache.path("root/files").join(name)).ok()
    }
}

async fn ask(to: SocketAddr, method: &str, name: &str, fields: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let agent = "User-Agent: Microsoft-WebDAV-MiniRedir/10.0\r\nTranslate: f";
    let user = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, "ann:ann's");
    let head = format!(
        "{method} /files/{name} HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n{agent}\r\nAuthorization: Basic {user}\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest(&mut stream).await;
    (status(&answer), answer)
}

/// With a journal, the upload is sent again; without one, its client saves again.
#[tokio::test]
async fn a_late_upload_under_a_lock_does_not_undo_a_newer_save() {
    for (name, has_journal) in [("old", false), ("new", false), ("old", true), ("new", true)] {
        let Some(world) = World::new(has_journal).await else { return };
        let token = world.lock(name).await;
        let held = format!("If: ({token})\r\n");
        world.link.hold("PUT", &format!("/files/{name}"));
        let first = world.ask("PUT", name, &held, "older").await.0;
        assert!(if has_journal { first < 300 } else { first == 504 }, "{first}");
        world.settle().await;
        let second = world.ask("PUT", name, &held, "newer").await;
        assert!(matches!(second.0, 201 | 204), "{name}: {}", second.1);
        world.settle().await;
        assert_eq!(world.on_disk(name).as_deref(), Some("newer"));
        let late = world.link.let_go();
        assert_eq!(world.on_disk(name).as_deref(), Some("newer"), "{name}, journal: {has_journal}, late: {late}");
        world.unlock(name, &token).await;
        world.save(name, &["newest"]).await;
        let mut names: Vec<_> =
            fs::read_dir(world.apache.path("root/files")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| !["old", "new", "warm", ".DAV"].contains(&name.to_str().unwrap()));
        assert!(names.is_empty(), "{names:?}");
    }
}

#[tokio::test]
async fn a_late_deletion_or_renaming_under_a_lock_does_not_undo_a_newer_save() {
    for method in ["DELETE", "MOVE"] {
        let Some(world) = World::new(false).await else { return };
        let token = world.lock("old").await;
        world.link.hold(method, "/files/old");
        let fields = format!("If: <http://gw/files/old> ({token})\r\nDestination: http://gw/files/other\r\n");
        assert_eq!(world.ask(method, "old", &fields, "").await.0, 504);
        let saved = world.ask("PUT", "old", &format!("If: ({token})\r\n"), "newer").await;
        assert_eq!(saved.0, 204, "{}", saved.1);
        world.save("other", &["newer"]).await;
        let late = world.link.let_go();
        for name in ["old", "other"] {
            assert_eq!(world.on_disk(name).as_deref(), Some("newer"), "{name} after {method}: {late}");
        }
        world.unlock("old", &token).await;
    }
}

/// The gateway takes the lock of a change without an answer anew, and this LOCK has no answer either.
#[tokio::test]
async fn a_late_lock_of_the_gateways_own_is_released() {
    let Some(world) = World::new(false).await else { return };
    let token = world.lock("old").await;
    let held = format!("If: ({token})\r\n");
    world.link.hold("PUT", "/files/old");
    assert_eq!(world.ask("PUT", "old", &held, "older").await.0, 504);
    world.link.hold("LOCK", "/files/old");
    assert_eq!(world.ask("PUT", "old", &held, "newer").await.0, 504);
    assert_eq!(world.link.let_go(), "200", "control: nobody has it locked");
    let saving = async {
        while world.put_unlocked("old").await == 423 {
            sleep(Duration::from_millis(500)).await;
        }
    };
    timeout(PATIENCE, saving).await.expect("the lock is released");
    assert_eq!(world.on_disk("old").as_deref(), Some("without a lock"));
}
