//! Files that the gateway has acknowledged and the server does not have yet, and who gets to send them.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use gateway::pending;
use tokio::time::{sleep, timeout};

use crate::{
    locks::{AGENT, LONG, begin},
    raw::{ask, ask_with},
    upstream::{Seen, World, basic},
};

const NEW: &str = "/files/new";

/// What ann's old password writes under a lock that it holds.
async fn write(world: &World, token: &str, content: &str) -> u16 {
    write_at(world, NEW, token, content).await
}

async fn write_at(world: &World, path: &str, token: &str, content: &str) -> u16 {
    let fields = [AGENT, ("If", &format!("(<{token}>)"))];
    ask_with(world.gateway, &basic("ann"), &format!("PUT {path}"), &fields, content).await.status
}

async fn unlock(world: &World, path: &str, token: &str) {
    let fields = [AGENT, ("Lock-Token", &*format!("<{token}>"))];
    assert_eq!(ask(world, "ann", &format!("UNLOCK {path}"), &fields, "").await.status, 204);
}

/// Waits until something is so.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_mins(2), waiting).await.expect("it comes about");
}

async fn teach(world: &World) {
    ask(world, "ann", "PROPFIND /files/", &[("Depth", "1")], "").await;
    for path in ["/files/1", "/files/2"] {
        let token = begin(world, "ann", path).await;
        assert!(matches!(write_at(world, path, &token, "saved").await, 201 | 204));
        unlock(world, path, &token).await;
        until(|| world.server.content("ann", path).is_some_and(|content| content == b"saved")).await;
    }
    ask(world, "ann", "PROPFIND /files/", &[("Depth", "1")], "").await;
}

#[tokio::test]
async fn what_an_old_password_has_saved_waits_for_the_new_one() {
    let state = tempfile::tempdir().unwrap();
    let world = World::writing_back(LONG, state.path());
    teach(&world).await;
    let token = begin(&world, "ann", NEW).await;
    world.server.change_password("ann", "changed");
    assert!(matches!(write(&world, &token, "acknowledged").await, 201 | 204));
    let is_refused = |seen: &Seen| seen.path == NEW && seen.status == 401;
    until(|| world.server.seen().iter().any(is_refused)).await;
    assert_eq!(write(&world, &token, "too late").await, 401, "the first refusal ends it");
    let is_kept = || {
        pending(state.path()).unwrap().iter().map(|file| file.details.user.clone()).collect::<Vec<_>>()
            == [Some("ann".to_owned())]
    };
    assert!(is_kept(), "{:?} {:#?}", pending(state.path()), world.server.seen());
    for who in ["bob", "cy"] {
        assert_eq!(ask(&world, who, "PROPFIND /files/", &[("Depth", "1")], "").await.status, 207);
        assert_ne!(ask(&world, who, &format!("GET {NEW}"), &[], "").await.body, "acknowledged");
        assert!(is_kept() && world.server.content(who, NEW).is_none());
    }
    // Neither does anybody who only says to be ann.
    assert_eq!(ask(&world, "ann", "PROPFIND /files/", &[("Depth", "1")], "").await.status, 401);
    assert!(is_kept());
    let changed = format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode("ann:changed"));
    assert_eq!(ask_with(world.gateway, &changed, &format!("GET {NEW}"), &[], "").await.body, "acknowledged");
    assert!(pending(state.path()).unwrap().is_empty());
    let puts: Vec<_> =
        world.server.seen().into_iter().filter(|seen| seen.method == "PUT" && seen.status.is_success()).collect();
    assert!(puts.iter().all(|seen| seen.user.as_deref() == Some("ann")), "{puts:?}");
}

#[tokio::test]
async fn an_old_password_saves_nothing_after_the_promised_time() {
    let (state, fresh) = (tempfile::tempdir().unwrap(), Duration::from_secs(1));
    let world = World::writing_back(fresh, state.path());
    teach(&world).await;
    let token = begin(&world, "ann", NEW).await;
    world.server.change_password("ann", "changed");
    sleep(fresh).await;
    assert_eq!(write(&world, &token, "too late").await, 401);
    assert!(pending(state.path()).unwrap().is_empty());
}

#[tokio::test]
async fn a_version_that_the_server_has_refused_replaces_nothing_newer() {
    let state = tempfile::tempdir().unwrap();
    let mut world = World::writing_back(LONG, state.path());
    teach(&world).await;
    let failed = || pending(state.path()).unwrap().iter().filter(|file| file.failure.is_some()).count();
    let saved_at = |path: &'static str, content: &'static str| {
        let server = world.server.clone();
        move || server.content("ann", path).is_some_and(|there| there == content.as_bytes())
    };
    let (again, deleted) = ("/files/again", "/files/deleted.txt");
    let (token, other) = (begin(&world, "ann", again).await, begin(&world, "ann", deleted).await);
    world.server.set_refusing(true);
    for (path, token) in [(again, &token), (deleted, &other)] {
        assert!(matches!(write_at(&world, path, token, "first").await, 201 | 204));
    }
    until(|| failed() == 2).await;
    world.server.set_refusing(false);
    // The same client saves one of them again, under the same lock, and deletes the other one.
    assert!(matches!(write_at(&world, again, &token, "second").await, 201 | 204));
    until(saved_at(again, "second")).await;
    until(|| pending(state.path()).unwrap().len() == 1).await;
    unlock(&world, deleted, &other).await;
    until(|| world.server.seen().iter().any(|seen| seen.method == "UNLOCK" && seen.path == deleted)).await;
    assert_eq!(ask(&world, "ann", &format!("DELETE {deleted}"), &[], "").await.status, 204);
    world.restart(LONG, state.path()).await;
    assert_eq!(ask(&world, "ann", "PROPFIND /files/", &[("Depth", "1")], "").await.status, 207);
    until(|| pending(state.path()).unwrap().is_empty()).await;
    assert_eq!(world.server.content("ann", again).unwrap(), b"second");
    assert_eq!(world.server.content("ann", deleted), None);
    let beside: Vec<_> =
        world.server.paths("ann").into_iter().filter(|path| path.contains("deleted%20(conflict")).collect();
    assert_eq!(beside.len(), 1, "{:?}", world.server.paths("ann"));
    assert_eq!(world.server.content("ann", &beside[0]).unwrap(), b"first");
}
