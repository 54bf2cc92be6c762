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
    let fields = [AGENT, ("If", &format!("(<{token}>)"))];
    ask_with(world.gateway, &basic("ann"), &format!("PUT {NEW}"), &fields, content).await.status
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
        let held = format!("(<{token}>)");
        let put = ask(world, "ann", &format!("PUT {path}"), &[AGENT, ("If", &held)], "saved").await;
        assert!(matches!(put.status, 201 | 204));
        let unlocked =
            ask(world, "ann", &format!("UNLOCK {path}"), &[AGENT, ("Lock-Token", &format!("<{token}>"))], "").await;
        assert_eq!(unlocked.status, 204);
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
    let is_refused = |seen: &Seen| seen.method == "PUT" && seen.path == NEW && seen.status == 401;
    until(|| world.server.seen().iter().any(is_refused)).await;
    assert_eq!(write(&world, &token, "too late").await, 401, "the first refusal ends it");
    let is_kept = || pending(state.path()).unwrap().iter().map(|file| file.user.clone()).collect::<Vec<_>>() == ["ann"];
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
