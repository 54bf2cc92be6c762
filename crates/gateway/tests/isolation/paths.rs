//! Paths, hosts and destinations that lead elsewhere, before a real server whose folder has a secret beside the gateway's.

use std::time::Duration;

use serve::{Config, Server};

use crate::{
    raw::{Raw, ask_with},
    upstream::{World, basic, gateway_to},
};

const SECRET: &str = "SECRET";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "most of them are the spellings")]
async fn no_spelling_leaves_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in [("files/a", "mine"), ("files/a%2fb", "mine"), ("secret/s", SECRET), ("s", SECRET)] {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let listen = vec![([127, 0, 0, 1], 0).into()];
    let server = Server::bind(Config { root: folder.path().to_owned(), listen, ..Config::default() }).unwrap();
    let at = server.local_addr();
    let serving = tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() });
    let (_service, gateway, _log, running) = gateway_to(at, Duration::from_mins(10));
    let direct = ask_with(at, "", "GET /secret/s", &[], "").await;
    assert_eq!(direct.body, SECRET, "control: it is there");
    assert_eq!(ask_with(gateway, "", "GET /files/a", &[], "").await.body, "mine", "control: the gateway passes on");
    assert_eq!(ask_with(gateway, "", "GET /files/a%252fb", &[], "").await.body, "mine", "a name with %2f is a name");
    let up = [
        "..",
        "%2e%2e",
        ".%2e",
        "%2E.",
        "..%2f..",
        "..%5c..",
        "..\\..",
        "%252e%252e",
        "%252e%252e%252f",
        "..;",
        "..;a=b",
        "%2e%2e%3b",
        "%c0%ae%c0%ae",
        "%e0%80%ae%e0%80%ae",
        "%F0%80%80%AE%F0%80%80%AE",
        "%f8%80%80%80%ae%f8%80%80%80%ae",
        "%e0%80%af",
        "%uff0e%uff0e",
        "..%00",
        "a/../..",
        "a/%2e%2e/..",
        ".//..",
        "..%0d%0a",
        "..%20",
        "..\t",
        "..?",
        "..#",
    ];
    let mut targets: Vec<String> = up.iter().map(|up| format!("/files/{up}/secret/s")).collect();
    targets.extend(up.iter().map(|up| format!("/files{up}/secret/s")));
    targets.extend(
        [
            "/secret/s",
            "//secret/s",
            "/./secret/s",
            "/files//../secret/s",
            "/files%2f..%2fsecret/s",
            "/FILES/../secret/s",
            "secret/s",
            "*",
            "/files/a/../../secret/s",
            "\\secret\\s",
            "/secret/s?/files/",
            "/secret/s#/files/",
            "/secret/s;/files/",
        ]
        .map(str::to_owned),
    );
    for scheme in ["http", "https", "ftp", "file"] {
        for authority in
            [at.to_string(), gateway.to_string(), "elsewhere".into(), "u:p@elsewhere".into(), String::new()]
        {
            targets.push(format!("{scheme}://{authority}/secret/s"));
            targets.push(format!("{scheme}://{authority}/files/../secret/s"));
        }
    }
    // What a server gets is in the folder for all readers, since not all refuse the others themselves.
    let world = World::new(Duration::from_mins(10));
    for target in targets.iter().filter(|target| !target.contains("://")) {
        let mut raw = Raw::open(world.gateway).await;
        raw.send(format!("GET {target} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{}\r\n", basic("bob"))).await;
        raw.all().await;
    }
    let seen = world.server.seen();
    assert!(seen.iter().any(|seen| seen.path.contains("%252e")), "control: names are passed on");
    for seen in seen {
        let path = seen.path.split('?').next().unwrap().to_ascii_lowercase().replace("%2e", ".").replace("%3b", ";");
        assert!(
            path.starts_with("/files/")
                && !["%2f", "%5c", "\\", "%c0", "%e0%80", "%f0%80", "%f8%80"].iter().any(|sign| path.contains(sign)),
            "{path}"
        );
        assert!(!path.split('/').any(|name| [".", ".."].contains(&name.split(';').next().unwrap())), "{path}");
    }
    for target in &targets {
        let mut raw = Raw::open(gateway).await;
        raw.send(format!("GET {target} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n")).await;
        for answer in raw.all().await {
            assert!(!answer.body.contains(SECRET), "{target}: {answer:?}");
            assert!(matches!(answer.status, 400..=404) || target.contains("/s?"), "{target}: {answer:?}");
        }
        let host = gateway.to_string();
        for method in ["MOVE", "COPY"] {
            for destination in [target.clone(), format!("http://{host}{target}")] {
                let moved =
                    ask_with(gateway, "", &format!("{method} /files/a"), &[("Destination", &destination)], "").await;
                assert!(
                    matches!(moved.status, 400 | 403 | 404 | 409 | 502) || destination.contains("/files"),
                    "{method} {destination}: {moved:?}"
                );
                std::fs::write(folder.path().join("files/a"), "mine").unwrap();
            }
        }
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("secret/s")).unwrap(), SECRET);
    let names = |path: &str| std::fs::read_dir(folder.path().join(path)).unwrap().count();
    assert_eq!((names("."), names("secret")), (3, 1), "nothing was written beside the folder");
    running.abort();
    serving.abort();
}

#[tokio::test]
async fn a_forged_identity_or_host_is_not_passed_on() {
    let world = World::new(Duration::from_mins(10));
    let before = world.count();
    let forged = [
        ("X-Forwarded-For", "6.6.6.6"),
        ("X-Forwarded-Host", "evil"),
        ("X-Forwarded-User", "ann"),
        ("X-Forwarded-Proto", "evil"),
        ("Forwarded", "for=6.6.6.6;by=evil"),
        ("X-Real-IP", "6.6.6.6"),
        ("X_Forwarded_For", "6.6.6.6"),
        ("Remote-User", "ann"),
        ("REMOTE_USER", "ann"),
        ("X-Original-URL", "/evil/"),
        ("X-Rewrite-URL", "/evil/"),
        ("X-HTTP-Method-Override", "evil"),
        ("Proxy", "http://evil/"),
        ("Proxy-Authorization", "Basic evil"),
        ("X-SSL-Client-Verify", "evil"),
        ("TE", "evil"),
        ("Connection", "x-mine"),
        ("X-Mine", "evil"),
        ("Upgrade", "evil"),
        ("Keep-Alive", "evil"),
        ("X-Kept", "kept"),
    ];
    let answer = ask_with(world.gateway, &basic("bob"), "GET /files/a", &forged, "").await;
    assert_eq!(answer.body, "data of bob in a");
    let seen = &world.since(before)[0];
    assert_eq!(seen.headers["x-kept"], "kept", "control: others are passed on");
    assert_eq!(seen.headers["x-forwarded-for"], "127.0.0.1");
    assert_eq!(seen.headers.get_all("x-forwarded-for").iter().count(), 1);
    for (name, value) in &seen.headers {
        let value = value.to_str().unwrap();
        assert!(!value.contains("evil") && !value.contains("6.6.6.6") && value != "ann", "{name}: {value}");
    }
    // The gateway speaks to one server, whatever host is named.
    for host in ["evil", "127.0.0.1:1", "a@b", ""] {
        let mut raw = Raw::open(world.gateway).await;
        raw.send(format!("GET /files/a HTTP/1.1\r\nHost: {host}\r\n{}\r\n", basic("bob"))).await;
        let answer = raw.answer(false).await.unwrap();
        assert!(answer.body == "data of bob in a" || answer.status == 400, "{host}: {answer:?}");
    }
    let mut raw = Raw::open(world.gateway).await;
    raw.send(format!("GET http://evil/files/a HTTP/1.1\r\nHost: evil\r\n{}\r\n", basic("bob"))).await;
    assert_eq!(raw.answer(false).await.unwrap().body, "data of bob in a");
    let mut raw = Raw::open(world.gateway).await;
    raw.send("CONNECT evil:80 HTTP/1.1\r\nHost: evil:80\r\n\r\n").await;
    assert!(raw.answer(false).await.is_none_or(|answer| answer.status >= 400));
    let hosts: Vec<_> = world.since(before).iter().map(|seen| seen.headers["host"].clone()).collect();
    assert!(hosts.iter().all(|host| *host == hosts[0] && !host.to_str().unwrap().contains("evil")), "{hosts:?}");
}

#[tokio::test]
async fn a_destination_is_in_the_movers_own_files() {
    let world = World::new(Duration::from_mins(10));
    let here = world.gateway;
    for to in [format!("http://{here}/files/m"), "/files/n".to_owned()] {
        assert_eq!(ask_with(here, &basic("bob"), "PUT /files/x", &[], "bob's").await.status, 201);
        let moved = ask_with(here, &basic("bob"), "MOVE /files/x", &[("Destination", &to)], "").await;
        assert_eq!(moved.status, 201, "control: {moved:?}");
    }
    assert_eq!(world.server.content("bob", "/files/n").unwrap(), b"bob's");
    for user in ["ann", "cy"] {
        assert_eq!(world.server.content(user, "/files/m"), None);
    }
    let before = world.count();
    for (to, status) in [
        ("http://elsewhere/files/x", 502),
        ("https://elsewhere/files/x", 502),
        ("http://127.0.0.1:1/files/x", 502),
        ("//elsewhere/files/x", 400),
        ("/../ann/x", 403),
        ("/files/../ann/x", 403),
        ("/ann/x", 403),
        ("http:/files/x", 400),
    ] {
        let moved = ask_with(here, &basic("bob"), "MOVE /files/n", &[("Destination", to)], "").await;
        assert_eq!(moved.status, status, "{to}: {moved:?}");
    }
    assert_eq!(world.count(), before, "none of them reached the server");
}
