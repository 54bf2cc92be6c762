//! Files that are acknowledged when they are safe at the gateway, over a link that can be cut.

use std::{
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use gateway::{Pending, WriteBack, pending};
use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::{
    redirector::{ANN, BOB},
    world::World,
};

/// A test fails if anything takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A link to a server.
struct Link {
    is_cut: watch::Sender<bool>,
    hold: Arc<Mutex<Hold>>,
    task: JoinHandle<()>,
}

/// A request that a box on the link keeps from the server, and whose connection it ends.
#[derive(Default)]
struct Hold {
    /// What the next one to be held has in its body.
    wanted: Option<&'static str>,
    held: Vec<u8>,
}

/// Carries bytes to the server until there is a request to be held.
async fn carry_up(mut near: ReadHalf<'_>, mut far: WriteHalf<'_>, hold: &Mutex<Hold>) -> io::Result<()> {
    let (mut chunk, mut request) = (vec![0; 64 * 1024], Vec::new());
    loop {
        let read = near.read(&mut chunk).await?;
        if read == 0 {
            return Ok(());
        }
        let wanted = hold.lock().unwrap().wanted;
        if let Some(wanted) = wanted
            && (!request.is_empty() || chunk.starts_with(b"PUT "))
        {
            request.extend_from_slice(&chunk[..read]);
            if String::from_utf8_lossy(&request).ends_with(wanted) {
                *hold.lock().unwrap() = Hold { wanted: None, held: request };
                return Ok(());
            }
        } else {
            far.write_all(&chunk[..read]).await?;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    fn to(server: SocketAddr) -> (SocketAddr, Self) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let (is_cut, hold) = (watch::Sender::new(false), Arc::<Mutex<Hold>>::default());
        let (state, holding) = (is_cut.subscribe(), hold.clone());
        let listener = TcpListener::from_std(listener).unwrap();
        let task = tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (mut state, holding) = (state.clone(), holding.clone());
                tokio::spawn(async move {
                    let carry = async {
                        let mut far = TcpStream::connect(server).await?;
                        let ((near_read, mut near_write), (mut far_read, far_write)) = (near.split(), far.split());
                        tokio::select! {
                            carried = carry_up(near_read, far_write, &holding) => carried,
                            carried = copy(&mut far_read, &mut near_write) => carried.map(drop),
                        }
                    };
                    tokio::select! {
                        _ = carry => {}
                        _ = state.wait_for(|is_cut| *is_cut) => {}
                    }
                });
            }
        });
        (at, Self { is_cut, hold, task })
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}

fn back(state: &Path) -> WriteBack {
    WriteBack { state: state.to_owned(), size: 1 << 20 }
}

/// A gateway with a journal behind a link, which has seen how ann's Windows saves.
async fn begin(state: &Path) -> (World, Link) {
    begin_with(state, true).await
}

async fn begin_with(state: &Path, has_journal: bool) -> (World, Link) {
    let mut link = None;
    let through = |server| {
        let (at, made) = Link::to(server);
        link = Some(made);
        at
    };
    let world = World::with(through, has_journal.then(|| back(state)));
    for name in ["/files/one", "/files/two"] {
        world.create(name, b"first").await;
    }
    settled(state).await;
    (world, link.unwrap())
}

/// Waits until the server has everything.
async fn settled(state: &Path) {
    let all = async {
        while !pending(state).unwrap_or_default().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, all).await.expect("everything is uploaded");
}

/// Saves a new file whose lock the server grants, and whose content it does not get yet.
async fn save_on_a_cut_link(world: &World, link: &Link, path: &str, content: &[u8]) -> String {
    assert_eq!(world.windows("PROPFIND", path, &[("depth", "0")], b"").await.0, StatusCode::NOT_FOUND);
    assert_eq!(world.windows("PUT", path, &[], b"").await.0, StatusCode::CREATED);
    let token = world.lock(path).await;
    link.cut(true);
    let held = format!("({token})");
    let put = timeout(PATIENCE, world.windows("PUT", path, &[("if", &held)], content)).await.unwrap();
    assert!(matches!(put.0.as_u16(), 201 | 204), "{put:?}");
    token
}

#[tokio::test]
async fn a_save_goes_on_without_the_server() {
    let state = tempfile::tempdir().unwrap();
    let (world, link) = begin(state.path()).await;
    let token = save_on_a_cut_link(&world, &link, "/files/new", b"content").await;
    world.set_times("/files/new", &format!("({token})")).await;
    let unlocked = world.windows("UNLOCK", "/files/new", &[("lock-token", &token)], b"").await;
    assert_eq!(unlocked.0, StatusCode::NO_CONTENT);
    assert_eq!(world.on_disk("files/new"), Some(Vec::new()), "the lock has created it");
    let waiting = pending(state.path()).unwrap();
    let of = |file: &Pending| (file.details.user.clone().unwrap(), file.path.target());
    assert_eq!(waiting.iter().map(of).collect::<Vec<_>>(), [("ann".to_owned(), "/files/new".to_owned())]);
    link.cut(false);
    settled(state.path()).await;
    assert_eq!(world.on_disk("files/new"), Some(b"content".to_vec()));
    let seen = world.windows("PROPFIND", "/files/new", &[("depth", "0")], b"").await.1;
    assert!(seen.contains("getcontentlength>7<") && !seen.contains("PC\\ann"), "{seen}");
    assert_eq!(world.upstream("/files/new", 0).last().map(String::as_str), Some("PROPFIND"));
}

#[tokio::test]
async fn a_saved_file_is_seen_only_when_the_server_has_it() {
    let state = tempfile::tempdir().unwrap();
    let (world, _link) = begin(state.path()).await;
    for number in 0..20 {
        let path = format!("/files/{number}");
        world.create(&path, path.as_bytes()).await;
        if number % 2 == 0 {
            assert_eq!(world.windows("GET", &path, &[], b"").await, (StatusCode::OK, path.clone()));
        }
    }
    let all = world.windows("PROPFIND", "/files/", &[("depth", "1")], b"").await.1;
    assert_eq!(all.matches("</D:getcontentlength>").count(), 22, "{all}");
    assert!(pending(state.path()).unwrap().is_empty());
    for number in 0..20 {
        assert_eq!(world.on_disk(&format!("files/{number}")), Some(format!("/files/{number}").into_bytes()));
    }
}

#[tokio::test]
async fn what_a_gateway_had_acknowledged_goes_on_with_its_user() {
    let state = tempfile::tempdir().unwrap();
    let (world, link) = begin(state.path()).await;
    save_on_a_cut_link(&world, &link, "/files/new", b"content").await;
    let world = world.restart(Some(back(state.path()))).await;
    link.cut(false);
    for (who, status) in [("", 401), (BOB, 207), ("ann:guessed", 401), (BOB, 207)] {
        let seen = world.ask(who, "PROPFIND", "/files/", &[("depth", "1")], b"").await;
        assert_eq!(seen.0.as_u16(), status, "{who}");
        assert_eq!(world.on_disk("files/new"), Some(Vec::new()));
        assert_eq!(pending(state.path()).unwrap().len(), 1);
    }
    assert_eq!(world.ask(ANN, "GET", "/files/new", &[], b"").await, (StatusCode::OK, "content".into()));
    assert!(pending(state.path()).unwrap().is_empty());
}

#[tokio::test]
async fn somebody_elses_version_is_kept() {
    let state = tempfile::tempdir().unwrap();
    let (mut world, link) = begin(state.path()).await;
    let token = save_on_a_cut_link(&world, &link, "/files/report.txt", b"mine").await;
    // The lock is released at the server, and somebody else writes the file.
    let gateway = std::mem::replace(&mut world.gateway, world.server);
    let unlocked = world.ask(ANN, "UNLOCK", "/files/report.txt", &[("lock-token", &token)], b"").await;
    assert_eq!(unlocked.0, StatusCode::NO_CONTENT, "{}", unlocked.1);
    assert!(world.ask(BOB, "PUT", "/files/report.txt", &[], b"theirs").await.0.is_success());
    world.gateway = gateway;
    link.cut(false);
    settled(state.path()).await;
    assert_eq!(world.on_disk("files/report.txt"), Some(b"theirs".to_vec()));
    let names = std::fs::read_dir(world.folder.path().join("root/files")).unwrap();
    let beside: Vec<_> = names
        .map(|name| name.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("report (conflict "))
        .collect();
    assert_eq!(beside.len(), 1);
    assert_eq!(std::fs::read(&beside[0]).unwrap(), b"mine");
    assert!(world.ask(BOB, "PUT", "/files/report.txt", &[], b"free").await.0.is_success(), "no lock is left");
}

#[tokio::test]
async fn a_lost_answer_makes_no_second_version() {
    let state = tempfile::tempdir().unwrap();
    let (mut world, link) = begin(state.path()).await;
    let token = save_on_a_cut_link(&world, &link, "/files/report.txt", b"mine").await;
    // As if the upload had arrived, and its answer had not.
    let gateway = std::mem::replace(&mut world.gateway, world.server);
    world.ask(ANN, "UNLOCK", "/files/report.txt", &[("lock-token", &token)], b"").await;
    assert!(world.ask(ANN, "PUT", "/files/report.txt", &[], b"mine").await.0.is_success());
    world.gateway = gateway;
    link.cut(false);
    settled(state.path()).await;
    let names = std::fs::read_dir(world.folder.path().join("root/files")).unwrap();
    let all: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    assert_eq!(all.iter().filter(|name| name.to_str().unwrap().starts_with("report")).count(), 1, "{all:?}");
}

#[tokio::test]
async fn what_has_no_room_is_acknowledged_by_the_server() {
    let state = tempfile::tempdir().unwrap();
    let (world, link) = begin(state.path()).await;
    let large = vec![7; (1 << 20) + 1];
    world.create("/files/large", &large).await;
    assert_eq!(world.on_disk("files/large"), Some(large.clone()), "the server had it before it was acknowledged");
    save_on_a_cut_link(&world, &link, "/files/half", &large[..1 << 19]).await;
    let totals = pending(state.path()).unwrap();
    assert_eq!((totals.len(), totals[0].length), (1, 1 << 19));
    link.cut(false);
    settled(state.path()).await;
    assert_eq!(world.on_disk("files/half").unwrap().len(), 1 << 19);
}

#[tokio::test]
async fn others_than_savers_and_files_without_a_lock_are_acknowledged_by_the_server() {
    let state = tempfile::tempdir().unwrap();
    let (world, link) = begin(state.path()).await;
    link.cut(true);
    for fields in [&[][..], &[("if", "(<urn:uuid:1>)")], &[("user-agent", "Microsoft-WebDAV-MiniRedir/10.0.19045")]] {
        let put = world.ask(ANN, "PUT", "/files/x", fields, b"content").await;
        assert!(put.0.is_server_error(), "{put:?}");
    }
    assert!(pending(state.path()).unwrap().is_empty());
}

/// A box on the way keeps the first copy of a change, and hands it over when its client has saved the file again.
#[tokio::test]
async fn a_late_copy_of_a_change_under_a_lock_does_not_undo_a_newer_save() {
    for (path, has_journal) in
        [("/files/one", true), ("/files/new", true), ("/files/one", false), ("/files/new", false)]
    {
        let state = tempfile::tempdir().unwrap();
        let (world, link) = begin_with(state.path(), has_journal).await;
        if path == "/files/new" {
            assert_eq!(world.windows("PROPFIND", path, &[("depth", "0")], b"").await.0, StatusCode::NOT_FOUND);
            assert_eq!(world.windows("PUT", path, &[], b"").await.0, StatusCode::CREATED);
        }
        let token = world.lock(path).await;
        let held = format!("({token})");
        link.hold.lock().unwrap().wanted = Some("older");
        for content in ["older", "newer"] {
            let put = world.windows("PUT", path, &[("if", &held)], content.as_bytes()).await;
            assert!(put.0.is_success(), "{put:?}");
            settled(state.path()).await;
            assert_eq!(world.on_disk(&path[1..]), Some(content.into()), "{path}");
        }
        let late = std::mem::take(&mut link.hold.lock().unwrap().held);
        assert!(late.ends_with(b"older"), "control: it was held");
        let mut server = TcpStream::connect(world.server).await.unwrap();
        server.write_all(&late).await.unwrap();
        let mut status = [0; 12];
        server.read_exact(&mut status).await.unwrap();
        assert_eq!(str::from_utf8(&status), Ok("HTTP/1.1 412"), "{path}: {}", String::from_utf8_lossy(&late));
        assert_eq!(world.on_disk(&path[1..]), Some("newer".into()), "{path}");
        // Its client goes on as if nothing had happened.
        world.set_times(path, &held).await;
        let unlocked = world.windows("UNLOCK", path, &[("lock-token", &token)], b"").await;
        assert_eq!(unlocked.0, StatusCode::NO_CONTENT, "{}", unlocked.1);
        // It was acknowledged, and reaches the server a moment later.
        let unlocked = async { while world.ask(BOB, "PUT", path, &[], b"free").await.0 == StatusCode::LOCKED {} };
        timeout(PATIENCE, unlocked).await.expect("no lock is left");
        let names = std::fs::read_dir(world.folder.path().join("root/files")).unwrap();
        let names: Vec<_> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!names.iter().any(|name| name.contains("(conflict")), "{names:?}");
    }
}
