//! A saved file that the server has no room for, and what its client sends behind it.

use std::{sync::Arc, time::Duration};

use ::simulation::{Network, Profile, Rates, Weather};
use tokio::time;

use super::{
    FOLDER, Life, World,
    clients::{LOCK, TIMES, USERS},
    paused_runtime,
};

async fn save(life: &Life, path: &str, content: &str) {
    let [user, _] = USERS;
    life.ask(user, "PROPFIND", path, &[("depth", "0")], b"").await;
    let locked = life.ask(user, "LOCK", path, &[("timeout", "Second-3600")], LOCK).await.unwrap();
    let token = locked.headers["lock-token"].to_str().unwrap().to_owned();
    let held = format!("({token})");
    for (method, body) in [("PUT", content.as_bytes()), ("PROPPATCH", TIMES)] {
        let answer = life.ask(user, method, path, &[("if", &held)], body).await.unwrap();
        assert!(answer.status.is_success(), "{method}: {}", answer.status);
    }
    life.ask(user, "UNLOCK", path, &[("lock-token", &token)], b"").await;
    // Its lock lingers.
    time::sleep(Duration::from_secs(10)).await;
}

/// Times and attributes come behind the file, under the same lock. `haul serve` then gives a new entity tag to the version that
/// it has.
fn times_make_no_conflict(has_saved_before: bool, is_killed: bool) {
    let state = tempfile::tempdir().unwrap();
    let calm = Rates::none(Duration::from_millis(5));
    let network = Network::with(0, Profile::Strong, calm, Weather::default());
    network.keep_trace();
    let (world, path) = (World::new(network.clone(), false), format!("{FOLDER}/a"));
    network.server().store_by_other(&path, "theirs");
    let start = || {
        network.resume();
        Arc::new(Life::new(&world, Some(state.path())))
    };
    let (mut runtime, mut life) = (paused_runtime(), None);
    runtime.block_on(async {
        let life = life.insert(start());
        if has_saved_before {
            save(life, &path, "first").await;
        }
        network.server().is_full = true;
        save(life, &path, "second").await;
    });
    if is_killed {
        network.suspend();
        runtime = paused_runtime();
        life.take().and_then(|life| life.journal.clone()).unwrap().close();
        runtime.block_on(async { life = Some(start()) });
    }
    runtime.block_on(async {
        let server = || network.server();
        assert!(server().locks().is_empty(), "nobody is kept out until there is room");
        server().is_full = false;
        life.as_ref().unwrap().ask(USERS[0], "PROPFIND", FOLDER, &[("depth", "1")], b"").await;
        time::sleep(Duration::from_hours(1)).await;
        let files: Vec<_> = server().files().map(|(path, content)| (path.to_owned(), content.clone())).collect();
        assert_eq!(files, [(path, "second".into())], "{}", network.trace());
    });
}

#[test]
fn times_of_a_file_that_waits_for_room_make_no_conflict() {
    for has_saved_before in [false, true] {
        for is_killed in [false, true] {
            times_make_no_conflict(has_saved_before, is_killed);
        }
    }
}
