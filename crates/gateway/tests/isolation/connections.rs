//! Connections that several users share on this side, and answers that the server mixes up.

use std::{collections::HashSet, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::Mutex,
};

use crate::{
    raw::{Raw, ask, ask_with},
    upstream::{USERS, World, basic, gateway_to},
};

const LONG: Duration = Duration::from_mins(10);

#[tokio::test]
async fn users_on_one_connection_stay_apart() {
    let world = World::new(LONG);
    let mut raw = Raw::open(world.gateway).await;
    let order = ["ann", "bob", "", "ann", "cy", "bob", "", "cy"];
    let get = |user: &str, path: &str| {
        let authorization = if user.is_empty() { String::new() } else { basic(user) };
        format!("GET {path} HTTP/1.1\r\nHost: gw\r\n{authorization}\r\n")
    };
    let expected = |user: &str| if user.is_empty() { String::new() } else { format!("data of {user} in a") };
    for user in order {
        raw.send(get(user, "/files/a")).await;
        let answer = raw.answer(false).await.unwrap();
        assert_eq!((answer.status, answer.body), (if user.is_empty() { 401 } else { 200 }, expected(user)));
    }
    // All at once.
    raw.send(order.map(|user| get(user, "/files/a")).concat()).await;
    for user in order {
        let answer = raw.answer(false).await.unwrap();
        assert_eq!((answer.status, answer.body), (if user.is_empty() { 401 } else { 200 }, expected(user)));
    }
    assert_own_connections(&world);
}

fn assert_own_connections(world: &World) {
    let seen = world.server.seen();
    let of = |user: Option<&str>| -> HashSet<SocketAddr> {
        seen.iter().filter(|seen| seen.user.as_deref() == user).map(|seen| seen.connection).collect()
    };
    let all: HashSet<_> = seen.iter().map(|seen| seen.connection).collect();
    let apart: usize = USERS.iter().map(|user| of(Some(user)).len()).sum::<usize>() + of(None).len();
    assert_eq!(apart, all.len(), "no connection has requests of two");
}

#[tokio::test]
async fn equal_names_at_the_same_time_stay_apart() {
    let world = World::new(LONG);
    let one = |number: usize| {
        let world = &world;
        async move {
            let user = USERS[number % 3];
            let content = format!("{user} {}", "x".repeat(number * 40));
            let name = format!("/files/same{}", number / 3 % 4);
            let put = ask(world, user, &format!("PUT {name}"), &[], &content).await;
            assert!(matches!(put.status, 201 | 204), "{put:?}");
            let got = ask(world, user, &format!("GET {name}"), &[], "").await;
            assert!(got.status == 200 && got.body.starts_with(&format!("{user} ")), "{user}: {got:?}");
            let listed = ask(world, user, "PROPFIND /files/", &[("Depth", "1")], "").await;
            assert!(USERS.iter().all(|other| listed.body.contains(&format!("of {other}")) == (*other == user)));
        }
    };
    futures_util::future::join_all((0..60).map(one)).await;
    for user in USERS {
        let content = world.server.content(user, "/files/same0").unwrap();
        assert!(content.starts_with(user.as_bytes()));
    }
    assert_own_connections(&world);
}

/// A server that appends an answer that nobody asked for to each answer.
async fn splitting() -> (SocketAddr, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, requests) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(0)));
    let counted = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
                loop {
                    while let Some(end) = read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                        let head = String::from_utf8(read.drain(..end + 4).collect()).unwrap();
                        let user = USERS
                            .into_iter()
                            .find(|user| head.contains(basic(user).trim_end().rsplit(' ').next().unwrap()));
                        let body = user.unwrap_or("nobody");
                        *counted.lock().await += 1;
                        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                        let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nPOISON".repeat(2);
                        if stream.write_all((answer + &poison).as_bytes()).await.is_err() {
                            return;
                        }
                    }
                    match stream.read(&mut chunk).await {
                        Ok(got) if got > 0 => read.extend_from_slice(&chunk[..got]),
                        _ => return,
                    }
                }
            });
        }
    });
    (at, requests)
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_reaches_nobody() {
    let (server, requests) = splitting().await;
    let mut direct = Raw::open(server).await;
    direct.send(format!("GET /files/a HTTP/1.1\r\nHost: x\r\n{}\r\n", basic("ann"))).await;
    assert_eq!(direct.answer(false).await.unwrap().body, "ann");
    assert_eq!(direct.answer(false).await.unwrap().body, "POISON", "control");
    let (_service, gateway, _log, running) = gateway_to(server, LONG);
    for round in 0..4 {
        for user in USERS {
            for method in ["GET", "PUT", "DELETE"] {
                let answer = ask_with(gateway, &basic(user), &format!("{method} /files/{round}"), &[], "").await;
                assert_eq!((answer.status, &*answer.body), (200, user), "{method}");
            }
        }
    }
    assert_eq!(*requests.lock().await, 37, "each was asked for once, and the control");
    running.abort();
}
