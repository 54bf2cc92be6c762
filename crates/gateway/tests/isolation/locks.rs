//! Lock tokens of others, stolen and guessed, and saves in progress.

use std::time::Duration;

use crate::{
    raw::{Answer, ask},
    upstream::World,
};

pub(crate) const LONG: Duration = Duration::from_mins(10);
pub(crate) const AGENT: (&str, &str) = ("User-Agent", "Microsoft-WebDAV-MiniRedir/10.0.19045");
const LOCK: &str = r#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"#;
const TIMES: &str = r#"<D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"#;

async fn windows(world: &World, user: &str, line: &str, fields: &[(&str, &str)], body: &str) -> Answer {
    ask(world, user, line, &[&[AGENT][..], fields].concat(), body).await
}

/// Begins a save up to its lock, and returns the token.
pub(crate) async fn begin(world: &World, user: &str, path: &str) -> String {
    windows(world, user, &format!("PROPFIND {path}"), &[("Depth", "0")], "").await;
    assert_eq!(windows(world, user, &format!("PUT {path}"), &[], "").await.status, 201);
    let locked = windows(world, user, &format!("LOCK {path}"), &[], LOCK).await;
    assert!(matches!(locked.status, 200 | 201), "{}", locked.body);
    let from = locked.body.find("urn:uuid:").unwrap();
    locked.body[from..].split('<').next().unwrap().to_owned()
}

async fn end(world: &World, user: &str, path: &str, token: &str) {
    let held = format!("(<{token}>)");
    assert_eq!(windows(world, user, &format!("PROPPATCH {path}"), &[("If", &held)], TIMES).await.status, 207);
    assert_eq!(windows(world, user, &format!("PUT {path}"), &[("If", &held)], "saved").await.status, 204);
    let named = format!("<{token}>");
    assert_eq!(windows(world, user, &format!("UNLOCK {path}"), &[("Lock-Token", &named)], "").await.status, 204);
    world.settle().await;
}

#[tokio::test]
async fn anothers_token_opens_nothing() {
    let world = World::new(LONG);
    let list = || async { ask(&world, "ann", "PROPFIND /files/", &[("Depth", "1")], "").await };
    list().await;
    // The first saves teach the gateway the client's LOCK and that the server takes its properties.
    for path in ["/files/1", "/files/2"] {
        let token = begin(&world, "ann", path).await;
        end(&world, "ann", path, &token).await;
    }
    list().await;
    let path = "/files/new";
    let before = world.count();
    let token = begin(&world, "ann", path).await;
    let sent: Vec<_> =
        world.since(before).into_iter().map(|seen| seen.method).filter(|method| method != "PROPFIND").collect();
    assert_eq!(sent, ["LOCK"], "control: the gateway answers for the save");

    let before = world.count();
    let (held, named) = (format!("(<{token}>)"), format!("<{token}>"));
    let guess = token.replace("0000-4000", "0000-4001");
    for (shown, named) in [(held.clone(), named.clone()), (format!("(<{guess}>)"), format!("<{guess}>"))] {
        for user in ["bob", "cy"] {
            for (line, body) in [("PUT", "stolen"), ("PROPPATCH", TIMES), ("DELETE", "")] {
                let answer = windows(&world, user, &format!("{line} {path}"), &[("If", &shown)], body).await;
                assert_eq!(answer.status, 423, "{user} {line}: {}", answer.body);
            }
            let unlocked = windows(&world, user, &format!("UNLOCK {path}"), &[("Lock-Token", &named)], "").await;
            assert!(matches!(unlocked.status, 403 | 409), "{}", unlocked.status);
            assert_eq!(windows(&world, user, &format!("LOCK {path}"), &[], LOCK).await.status, 423);
            // To the holder, the gateway answers this itself.
            assert_eq!(windows(&world, user, &format!("HEAD {path}"), &[], "").await.status, 404);
        }
    }
    world.settle().await;
    let seen = world.since(before);
    assert_eq!(seen.len(), 24, "each of them asked the server");
    assert!(seen.iter().all(|seen| seen.status.as_u16() >= 400 && seen.user.as_deref() != Some("ann")), "{seen:?}");

    let before = world.count();
    assert_eq!(windows(&world, "ann", &format!("HEAD {path}"), &[], "").await.status, 200);
    assert_eq!(world.count(), before, "control: the holder is answered");
    end(&world, "ann", path, &token).await;
    assert_eq!(world.server.content("ann", path).unwrap(), b"saved");
    assert_eq!(world.server.content("bob", path), None);
    let seen = world.since(before);
    assert!(seen.iter().all(|seen| seen.status.is_success() && seen.user.as_deref() == Some("ann")), "{seen:?}");
}

#[tokio::test]
async fn what_was_acknowledged_goes_with_the_credential_that_it_came_with() {
    let world = World::new(LONG);
    let users = ["ann", "bob"];
    for user in users {
        ask(&world, user, "PROPFIND /files/", &[("Depth", "1")], "").await;
        for name in ["1", "2"] {
            let path = format!("/files/{user}{name}");
            let token = begin(&world, user, &path).await;
            end(&world, user, &path, &token).await;
        }
    }
    let before = world.count();
    let mut tokens = Vec::new();
    for user in users {
        tokens.push(begin(&world, user, &format!("/files/{user}3")).await);
    }
    for (user, token) in users.iter().zip(&tokens) {
        let path = format!("/files/{user}3");
        let held = format!("(<{token}>)");
        assert_eq!(windows(&world, user, &format!("PROPPATCH {path}"), &[("If", &held)], TIMES).await.status, 207);
    }
    let is_kept = world.since(before).iter().all(|seen| seen.method != "PROPPATCH");
    assert!(is_kept, "control: they wait");
    // The password changes while they do: they fail, and nobody else's do.
    world.server.change_password("ann", "new");
    for user in ["bob", "cy", ""] {
        ask(&world, user, "PROPFIND /files/", &[("Depth", "0")], "").await;
    }
    world.settle().await;
    let sent: Vec<_> = world.since(before).into_iter().filter(|seen| seen.method == "PROPPATCH").collect();
    for seen in &sent {
        let user = if seen.path.contains("ann") { None } else { Some("bob") };
        assert_eq!(seen.user.as_deref(), user, "{seen:?}");
        assert_eq!(seen.status.is_success(), user.is_some(), "{seen:?}");
    }
    assert!(sent.iter().any(|seen| seen.path == "/files/bob3") && sent.iter().any(|seen| seen.path == "/files/ann3"));
}
