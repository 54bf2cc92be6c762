//! Listings, which answer for a while, and passwords that change meanwhile.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::time::Instant;

use crate::{
    raw::{ask, ask_with},
    upstream::{SMALL, USERS, World, basic},
};

/// Longer than a test takes.
const LONG: Duration = Duration::from_mins(10);
const ONE: &[(&str, &str)] = &[("Depth", "1")];
const ZERO: &[(&str, &str)] = &[("Depth", "0")];

#[tokio::test]
async fn a_listing_answers_only_whose_it_is() {
    let world = World::new(LONG);
    for user in USERS {
        for _ in 0..2 {
            let answer = ask(&world, user, "PROPFIND /files/", ONE, "").await;
            assert_eq!(answer.status, 207);
            for other in USERS {
                assert_eq!(answer.body.contains(&format!("of {other}")), other == user, "{}", answer.body);
            }
        }
    }
    assert_eq!(world.count(), 3, "control: the listings do answer, each for its user");
    // What one has is missing for the others, and the other way round.
    assert_eq!(ask(&world, "ann", "PUT /files/only", &[], "ann's").await.status, 201);
    assert_eq!(ask(&world, "bob", "GET /files/only", &[], "").await.status, 404);
    assert_eq!(ask(&world, "ann", "GET /files/only", &[], "").await.body, "ann's");
    let guesses =
        ["", "Authorization: Basic YW5uOg==\r\n", "Authorization: Bearer YW5uOmFubidz\r\n", "Authorization: basic\r\n"];
    for guess in guesses {
        for line in ["PROPFIND /files/", "GET /files/none", "HEAD /files/none", "PROPFIND /files/none"] {
            let answer = ask_with(world.gateway, guess, line, if line.ends_with('/') { ONE } else { ZERO }, "").await;
            assert_eq!(answer.status, 401, "{guess} {line}");
            assert!(!answer.body.contains("of "), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn who_is_known_by_other_means_is_told_apart_too() {
    let world = World::new(LONG);
    let by_cookie =
        |user: &str| [("Depth", "1"), ("Cookie", if user == "ann" { "user=ann" } else { "user=bob" })].to_vec();
    for user in ["ann", "bob", "ann"] {
        let answer = ask_with(world.gateway, "", "PROPFIND /files/", &by_cookie(user), "").await;
        assert!(answer.status == 207 && answer.body.contains(&format!("of {user}")), "{user}: {}", answer.body);
    }
    // Nor does the cookie's listing answer for the same without a cookie, nor one of another for the cookie.
    assert_eq!(ask_with(world.gateway, "", "PROPFIND /files/", ONE, "").await.status, 401);
    assert!(ask(&world, "cy", "PROPFIND /files/", ONE, "").await.body.contains("of cy"));
    let both = ask(&world, "cy", "PROPFIND /files/", &by_cookie("bob"), "").await;
    assert!(both.body.contains("of bob"), "the server goes by the cookie: {}", both.body);
    assert!(ask(&world, "cy", "PROPFIND /files/", ONE, "").await.body.contains("of cy"));
    // A query may have a token.
    let before = world.count();
    assert_eq!(ask(&world, "cy", "PROPFIND /files/?access_token=1", ONE, "").await.status, 207);
    assert_eq!(world.count(), before + 1, "a listing does not answer a query");
    let connections = |user: &str| -> Vec<_> {
        let seen = world.server.seen();
        seen.into_iter().filter(|seen| seen.user.as_deref() == Some(user)).map(|seen| seen.connection).collect()
    };
    assert!(connections("ann").iter().all(|of_ann| !connections("bob").contains(of_ann)), "{:?}", world.server.seen());
}

#[tokio::test]
async fn an_old_password_ends_access_in_time() {
    let fresh = Duration::from_secs(1);
    let world = World::new(fresh);
    let (old, new) = (basic("ann"), format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode("ann:new")));
    assert_eq!(ask_with(world.gateway, &old, "PROPFIND /files/", ONE, "").await.status, 207);
    world.server.change_password("ann", "new");
    let changed = Instant::now();
    // For as long as this, the listing may answer.
    while changed.elapsed() < fresh {
        let answer = ask_with(world.gateway, &old, "PROPFIND /files/", ONE, "").await;
        assert!(matches!(answer.status, 207 | 401));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for line in ["PROPFIND /files/", "GET /files/a", "GET /files/none", "PUT /files/a", "LOCK /files/a"] {
        assert_eq!(ask_with(world.gateway, &old, line, ONE, "").await.status, 401, "{line}");
    }
    assert_eq!(world.server.content("ann", "/files/a").unwrap(), b"data of ann in a");
    assert_eq!(ask_with(world.gateway, &new, "GET /files/a", &[], "").await.body, "data of ann in a");
}

#[tokio::test]
async fn the_first_refusal_ends_what_listings_answer() {
    let world = World::new(LONG);
    for _ in 0..2 {
        assert_eq!(ask(&world, "ann", "PROPFIND /files/", ONE, "").await.status, 207);
    }
    let before = world.count();
    world.server.change_password("ann", "new");
    assert_eq!(ask(&world, "ann", "PROPFIND /files/", ONE, "").await.status, 207, "control: the listing still answers");
    assert_eq!(world.count(), before);
    assert_eq!(ask(&world, "ann", "GET /files/a", &[], "").await.status, 401);
    assert_eq!(ask(&world, "ann", "PROPFIND /files/", ONE, "").await.status, 401);
    assert!(ask(&world, "bob", "PROPFIND /files/", ONE, "").await.body.contains("of bob"));
}

#[tokio::test]
async fn a_large_file_on_disk_is_read_by_whose_it_is() {
    let (world, path) = (World::new(LONG), "/files/large");
    let content = |user: &str| user.bytes().cycle().take(SMALL + 1).collect::<Vec<_>>();
    for user in USERS {
        world.server.put(user, path, content(user));
    }
    let conditions = || -> Vec<_> {
        let seen = world.server.seen();
        seen.into_iter().filter(|seen| seen.status == 304).map(|seen| seen.user.unwrap()).collect()
    };
    assert!(ask(&world, "ann", &format!("GET {path}"), &[], "").await.body.as_bytes() == content("ann"));
    until("ann's is on disk", async || {
        assert!(ask(&world, "ann", &format!("GET {path}"), &[], "").await.body.as_bytes() == content("ann"));
        !conditions().is_empty()
    })
    .await;
    for user in ["bob", "cy"] {
        let before = conditions().len();
        assert!(ask(&world, user, &format!("GET {path}"), &[], "").await.body.as_bytes() == content(user));
        assert_eq!(conditions().len(), before, "{user} has nothing there yet");
    }
    let ann = ["Depth", "Range"].map(|name| (name, if name == "Range" { "bytes=1-2" } else { "0" }));
    assert_eq!(ask(&world, "ann", &format!("GET {path}"), &ann, "").await.body, "nn");
    let guesses = ["", "Authorization: Basic YW5uOg==\r\n", "Authorization: Bearer YW5uOmFubidz\r\n"];
    for guess in guesses {
        assert_eq!(ask_with(world.gateway, guess, &format!("GET {path}"), &[], "").await.status, 401, "{guess}");
    }
    // Nor with a password of before, nor by a cookie beside the right one.
    let by_cookie = [("Cookie", "user=bob")];
    let answer = ask(&world, "ann", &format!("GET {path}"), &by_cookie, "").await;
    assert!(answer.body.as_bytes() == content("bob"), "the server goes by the cookie");
    world.server.change_password("ann", "new");
    assert_eq!(ask(&world, "ann", &format!("GET {path}"), &[], "").await.status, 401);
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is_so().await {
        assert!(begin.elapsed() < Duration::from_mins(1), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
