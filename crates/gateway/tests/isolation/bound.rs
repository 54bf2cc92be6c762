//! Credentials of a connection (Negotiate, NTLM) and of a request (Digest).

use std::{
    fs,
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use servers::Apache;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    raw::{Answer, Raw, ask_with},
    upstream::{basic, gateway_to},
};

const LONG: Duration = Duration::from_mins(10);
/// MD5 of user, realm and password (RFC 7616 §3.4.2).
const ANN: &str = "268353f5c5d35067ec7126863e9ea013";
const BOB: &str = "d4868c93d66e5eee69436e7979e036b6";

/// What happens at a server that authenticates connections.
#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    ended: Vec<usize>,
    /// Connection, user and path of each request.
    requests: Vec<(usize, Option<String>, String)>,
}

/// A server like IIS: a challenge is for one connection, and an answer to it authenticates the connection.
async fn authenticates_connections() -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<Seen>>::default());
    let shared = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = shared.clone();
            tokio::spawn(async move {
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.connections += 1;
                    seen.connections
                };
                connection(stream, number, &seen).await;
                seen.lock().unwrap().ended.push(number);
            });
        }
    });
    (at, seen)
}

async fn connection(mut stream: TcpStream, number: usize, seen: &Mutex<Seen>) {
    let (mut user, mut read, mut chunk) = (None::<String>, Vec::new(), [0; 4096]);
    loop {
        let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
            match stream.read(&mut chunk).await {
                Ok(got) if got > 0 => read.extend_from_slice(&chunk[..got]),
                _ => return,
            }
            continue;
        };
        let head = String::from_utf8(read.drain(..end + 4).collect()).unwrap();
        let shown =
            head.lines().find_map(|line| line.strip_prefix("authorization: ").or(line.strip_prefix("Authorization: ")));
        let challenge = format!("{number:08}");
        let mut demand = "NTLM".to_owned();
        if shown == Some("NTLM begin") {
            (user, demand) = (None, format!("NTLM {challenge}"));
        } else if let Some(answer) = shown.and_then(|shown| shown.strip_prefix("NTLM answer-")) {
            user = answer.strip_prefix(&*challenge).map(|user| user.trim_start_matches('-').to_owned());
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        seen.lock().unwrap().requests.push((number, user.clone(), path.clone()));
        let close = if path.ends_with("last") { "Connection: close\r\n" } else { "" };
        let answer = if let Some(user) = &user {
            let body = format!("data of {user}");
            format!("HTTP/1.1 200 OK\r\n{close}Content-Length: {}\r\n\r\n{body}", body.len())
        } else {
            format!(
                "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: {demand}\r\nContent-Length: 0\r\n\r\n"
            )
        };
        if stream.write_all(answer.as_bytes()).await.is_err() || path.ends_with("last") {
            return;
        }
    }
}

async fn get(raw: &mut Raw, path: &str, authorization: &str) -> Option<Answer> {
    let authorization =
        if authorization.is_empty() { String::new() } else { format!("Authorization: {authorization}\r\n") };
    raw.send(format!("GET {path} HTTP/1.1\r\nHost: gw\r\n{authorization}\r\n")).await;
    raw.answer(false).await
}

fn challenge(answer: &Answer) -> String {
    assert_eq!(answer.status, 401);
    let lines = answer.head.lines().filter_map(|line| line.split_once(": NTLM "));
    lines.map(|(_, challenge)| challenge.to_owned()).next().expect("a challenge")
}

#[tokio::test]
async fn an_authenticated_connection_is_its_clients_alone() {
    let (server, seen) = authenticates_connections().await;
    let (_service, gateway, _log, running) = gateway_to(server, LONG);
    let (mut ann, mut bob, mut other) = (Raw::open(gateway).await, Raw::open(gateway).await, Raw::open(gateway).await);
    for raw in [&mut ann, &mut bob, &mut other] {
        let first = get(raw, "/files/a", "").await.unwrap();
        assert!(first.status == 401 && first.head.contains("NTLM") && first.head.contains("Negotiate"), "{first:?}");
    }
    // Both handshakes at the same time, step by step.
    let of_ann = challenge(&get(&mut ann, "/files/a", "NTLM begin").await.unwrap());
    let of_bob = challenge(&get(&mut bob, "/files/a", "NTLM begin").await.unwrap());
    assert_ne!(of_ann, of_bob, "each has a connection of its own");
    assert_eq!(get(&mut ann, "/files/a", &format!("NTLM answer-{of_ann}-ann")).await.unwrap().body, "data of ann");
    // An answer that ann has sent, from elsewhere.
    assert_eq!(get(&mut other, "/files/a", &format!("NTLM answer-{of_ann}-ann")).await.unwrap().status, 401);
    assert_eq!(get(&mut bob, "/files/a", &format!("NTLM answer-{of_bob}-bob")).await.unwrap().body, "data of bob");
    for round in 0..5 {
        // Control: the connection authenticates what has no credentials.
        assert_eq!(get(&mut ann, &format!("/files/{round}"), "").await.unwrap().body, "data of ann");
        assert_eq!(get(&mut other, &format!("/files/{round}"), "").await.unwrap().status, 401);
        assert_eq!(get(&mut bob, &format!("/files/{round}"), "").await.unwrap().body, "data of bob");
        for stranger in ["", &*basic("cy"), "Authorization: NTLM answer-x\r\n"] {
            let answer = ask_with(gateway, stranger, "GET /files/a", &[], "").await;
            assert_eq!((answer.status, &*answer.body), (401, ""), "{stranger}");
        }
    }
    // The server ends ann's: the next begins without an identity, on this or on another.
    let last = get(&mut ann, "/files/last", "").await.unwrap();
    assert!(last.body == "data of ann" && last.head.to_ascii_lowercase().contains("connection: close"), "{last:?}");
    assert_eq!(get(&mut ann, "/files/a", "").await, None);
    let number: usize = of_bob.parse().unwrap();
    drop(bob);
    let closed = async {
        while !seen.lock().unwrap().ended.contains(&number) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), closed).await.expect("the server's connection ends with the client's");
    let seen = seen.lock().unwrap();
    for (user, number) in [("ann", of_ann), ("bob", of_bob)] {
        let number: usize = number.parse().unwrap();
        let of_others =
            seen.requests.iter().filter(|(_, who, _)| who.as_deref() == Some(user)).filter(|(at, ..)| *at != number);
        assert_eq!(of_others.count(), 0, "{seen:?}");
    }
    running.abort();
}

/// Runs curl with a user's password, which does not stand on its command line. Returns what it prints.
fn curl(user: &str, password: &str, arguments: &[&str]) -> String {
    let mut child = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "60", "--config", "-", "--write-out", " %{http_code}"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(format!("user = \"{user}:{password}\"\n").as_bytes()).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_digest_reaches_apache_as_it_is() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("SKIPPED: curl is not installed; apt-get install curl");
        return;
    }
    let directives = "<Directory \"ROOT/files\">\nDav On\nAuthType Digest\nAuthName x\nAuthDigestDomain /files/\nAuthUserFile \"FOLDER/users\"\n\
                      Require valid-user\n</Directory>\n<Directory \"ROOT/files/ann\">\nRequire user ann\n</Directory>\n";
    let passwords = format!("ann:x:{ANN}\nbob:x:{BOB}\n");
    let modules = ["auth_digest", "authn_core", "authn_file", "authz_user"];
    let started = Apache::start(&modules, directives, |folder| {
        fs::write(folder.join("users"), passwords).unwrap();
        fs::create_dir(folder.join("root/files/ann")).unwrap();
        fs::write(folder.join("root/files/ann/a b"), "ann's").unwrap();
    });
    let Some(apache) = started else { return };
    let (_service, gateway, log, running) = gateway_to(apache.address, LONG);
    let url = |path: &str| format!("http://{gateway}/files/{path}");
    for _ in 0..2 {
        assert_eq!(curl("ann", "ann's", &["--digest", &url("ann/a%20b?x=1"), &url("ann/a%20b")]), "ann's 200ann's 200");
    }
    let content = tempfile::NamedTempFile::new().unwrap();
    fs::write(&content, vec![b'c'; 700_000]).unwrap();
    let file = content.path().to_str().unwrap();
    let put = curl("ann", "ann's", &["--digest", "--upload-file", file, &url("ann/new")]);
    assert!(put.ends_with(" 201"), "{put}");
    assert_eq!(fs::read(apache.path("root/files/ann/new")).unwrap().len(), 700_000);
    let listed = curl("ann", "ann's", &["--digest", "--request", "PROPFIND", "--header", "Depth: 1", &url("ann/")]);
    assert!(listed.contains("/files/ann/new") && listed.ends_with(" 207"), "{listed}");
    for (user, password, code) in [("ann", "wrong", "401"), ("bob", "bob's", "401"), ("ann", "", "401")] {
        for method in ["GET", "PROPFIND", "DELETE"] {
            let said =
                curl(user, password, &["--digest", "--request", method, "--header", "Depth: 0", &url("ann/new")]);
            assert!(said.ends_with(code) && !said.contains("ann's"), "{user} {method}: {said}");
        }
    }
    // What was captured of one request is good for no other, and the log has who it was.
    let lines = log.lines();
    assert!(lines.iter().any(|line| line.contains("- ann [") && line.contains("PUT /files/ann/new")), "{lines:?}");
    let http2 = curl("x", "x", &["--http2-prior-knowledge", "--header", "Authorization: NTLM begin", &url("ann/new")]);
    assert!(http2.ends_with(" 403") || http2.ends_with(" 000"), "no connection is one client's in HTTP/2: {http2}");
    running.abort();
}
