//! Requests that are passed on.

use gateway::{Gateway, Settings};
use http::StatusCode;

use crate::world::{FRESH, World};

#[tokio::test]
async fn each_request_has_its_clients_credentials() {
    let world = World::new();
    assert_eq!(world.ask("", "GET", "/files/a", &[], b"").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(world.ask("ann:wrong", "PUT", "/files/a", &[], b"x").await.0, StatusCode::UNAUTHORIZED);
    assert_eq!(world.ask("ann:ann's", "PUT", "/files/a", &[], b"by ann").await.0, StatusCode::CREATED);
    assert_eq!(world.ask("bob:bob's", "GET", "/files/a", &[], b"").await, (StatusCode::OK, "by ann".into()));
    assert_eq!(world.ask("bob:ann's", "GET", "/files/a", &[], b"").await.0, StatusCode::UNAUTHORIZED);
    let large = vec![7; 3_000_000];
    assert_eq!(world.ask("bob:bob's", "PUT", "/files/large", &[], &large).await.0, StatusCode::CREATED);
    assert_eq!(world.on_disk("files/large"), Some(large));
    let log: String = world.logs.iter().map(|log| String::from_utf8(log.lock().unwrap().clone()).unwrap()).collect();
    for line in ["- ann [", "- bob ["] {
        let lines: Vec<_> = log.lines().filter(|at| at.contains(line)).collect();
        assert!(lines.len() >= 2, "the server's log and the gateway's: {log}");
    }
    assert!(!log.contains("ann's") && !log.contains("YW5u"), "{log}");
}

#[tokio::test]
async fn a_destination_is_translated_and_stays_in_the_folder() {
    let world = World::new();
    world.ask("ann:ann's", "PUT", "/files/a", &[], b"1").await;
    let to = format!("http://{}/files/b", world.gateway);
    assert_eq!(world.ask("ann:ann's", "MOVE", "/files/a", &[("destination", &to)], b"").await.0, StatusCode::CREATED);
    assert_eq!((world.on_disk("files/a"), world.on_disk("files/b")), (None, Some(b"1".to_vec())));
    for elsewhere in
        [format!("http://{}/secret/b", world.gateway), "/files/../secret/b".into(), "/files/%2e%2e/secret/b".into()]
    {
        let moved = world.ask("ann:ann's", "MOVE", "/files/b", &[("destination", &elsewhere)], b"").await;
        assert_eq!(moved.0, StatusCode::FORBIDDEN, "{elsewhere}");
    }
    let there = format!("http://{}/files/c", world.server);
    let moved = world.ask("ann:ann's", "MOVE", "/files/b", &[("destination", &there)], b"").await;
    assert_eq!(moved.0, StatusCode::BAD_GATEWAY, "the server's own name is not the gateway's");
    assert_eq!(world.ask("ann:ann's", "GET", "/secret/", &[], b"").await.0, StatusCode::FORBIDDEN);
    assert_eq!(world.on_disk("files/b"), Some(b"1".to_vec()));
}

#[tokio::test]
async fn locks_hold_under_the_gateways_names() {
    let world = World::new();
    let lock = br#"<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"#;
    let (status, body) = world.ask("ann:ann's", "LOCK", "/files/a", &[], lock).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let token = &body[body.find("urn:uuid:").or_else(|| body.find("opaquelocktoken:")).unwrap()..];
    let token = &token[..token.find('<').unwrap()];
    assert_eq!(world.ask("bob:bob's", "PUT", "/files/a", &[], b"bob").await.0, StatusCode::LOCKED);
    let tagged = format!("<http://{}/files/a> (<{token}>)", world.gateway);
    let stolen = world.ask("bob:bob's", "PUT", "/files/a", &[("if", &tagged)], b"bob").await;
    assert!(matches!(stolen.0, StatusCode::LOCKED | StatusCode::PRECONDITION_FAILED), "{stolen:?}");
    let unlocked = world.ask("bob:bob's", "UNLOCK", "/files/a", &[("lock-token", &format!("<{token}>"))], b"").await;
    assert!(unlocked.0.is_client_error(), "{unlocked:?}");
    assert_eq!(world.ask("ann:ann's", "PUT", "/files/a", &[("if", &tagged)], b"ann").await.0, StatusCode::NO_CONTENT);
    assert_eq!(world.on_disk("files/a"), Some(b"ann".to_vec()));
}

#[test]
fn a_url_that_cannot_be_used_is_not_repeated() {
    for url in
        ["https://ann:secret@dav.example/files/", "https://dav.example/files", "/files/", "https://dav.example/?a"]
    {
        let settings = Settings {
            upstream: url.parse().unwrap(),
            client: haul_http::Settings::default(),
            fresh: FRESH,
            write_back: None,
            cache: None,
        };
        let said = Gateway::new(settings).err().unwrap().to_string();
        assert!(!said.contains("secret") && said.contains("https://dav.example.org/files/"), "{url}: {said}");
    }
    let settings = Settings {
        upstream: "http://dav.example/".parse().unwrap(),
        client: haul_http::Settings::default(),
        fresh: FRESH,
        write_back: None,
        cache: None,
    };
    assert!(Gateway::new(settings).err().unwrap().to_string().contains("cleartext"));
}

#[tokio::test]
async fn a_server_that_is_away_is_a_gateways_error() {
    let mut world = World::new();
    world.running.0.remove(0).abort();
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let (status, why) = world.ask("ann:ann's", "GET", "/files/a", &[], b"").await;
    assert_eq!(status, StatusCode::BAD_GATEWAY);
    assert!(why.contains("127.0.0.1") && !why.contains("ann's"), "{why}");
    let status = world.status();
    assert_eq!(world.look(status, "/healthz").await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert!(world.look(status, "/metrics").await.1.contains("_failures_total 1\n"));
}

#[tokio::test]
async fn folders_above_show_only_the_way() {
    let world = World::new();
    let (status, body) = world.ask("", "PROPFIND", "/", &[("depth", "1")], b"").await;
    assert_eq!(status, StatusCode::MULTI_STATUS);
    assert!(body.contains("<D:href>/</D:href>") && body.contains("<D:href>/files/</D:href>"), "{body}");
    assert!(!body.contains("secret") && !body.contains("ann"), "{body}");
    let only = world.ask("", "PROPFIND", "/", &[("depth", "0")], b"").await.1;
    assert!(!only.contains("files"), "{only}");
    assert_eq!(world.ask("", "PROPFIND", "/", &[], b"").await.0, StatusCode::FORBIDDEN);
    assert_eq!(world.ask("ann:ann's", "PROPFIND", "/secret/", &[("depth", "0")], b"").await.0, StatusCode::FORBIDDEN);
    assert_eq!(world.ask("ann:ann's", "OPTIONS", "/", &[], b"").await.0, StatusCode::OK);
    assert!(world.lines().iter().any(|line| line.contains("\"OPTIONS /files/ HTTP")), "{:?}", world.lines());
}

#[tokio::test]
async fn metrics_count_and_name_nobody() {
    let mut world = World::new();
    let status = world.status();
    world.ask("ann:ann's", "PUT", "/files/a", &[], b"x").await;
    let (code, text) = world.look(status, "/metrics").await;
    assert_eq!(code, StatusCode::OK);
    assert!(text.contains("\nlonghaul_gateway_requests_total 1\n") && text.contains("_credentials 1\n"), "{text}");
    assert!(!text.contains("ann") && !text.contains("files/"), "{text}");
    assert_eq!(world.look(status, "/healthz").await, (StatusCode::OK, "ok\n".into()));
    assert_eq!(world.look(status, "/files/a").await.0, StatusCode::NOT_FOUND);
}
