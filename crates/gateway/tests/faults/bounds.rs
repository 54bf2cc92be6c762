//! How much a slow or malicious side makes the gateway keep.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::world::{PATIENCE, begin_put, embedded, gateway, rest, scripted, status};

/// What the kernel's socket buffers on the way may take, generously.
const BUFFERS: usize = 96 << 20;
const GIB: usize = 1 << 30;

/// The largest amount of memory that this process has had.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[tokio::test]
async fn an_upload_waits_for_a_server_that_does_not_read() {
    let server = scripted(|mut stream: TcpStream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        std::future::pending::<()>().await;
    })
    .await;
    let gateway = gateway(server.at, PATIENCE);
    let before = peak();
    let mut stream = begin_put(gateway.at, "a", &format!("Content-Length: {GIB}"), b"x").await;
    let (chunk, mut sent) = (vec![0; 1 << 20], 0);
    // Until nothing moves any more.
    while let Ok(written) = timeout(Duration::from_secs(2), stream.write(&chunk)).await {
        sent += written.expect("the gateway waits, too");
        assert!(sent < BUFFERS, "{sent} bytes were accepted");
    }
    assert!(sent > 0, "control");
    assert!(peak() - before < BUFFERS, "{} bytes of memory", peak() - before);
}

#[tokio::test]
async fn a_download_waits_for_a_client_that_does_not_read() {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let server = scripted(move |mut stream: TcpStream| {
        let counted = counted.clone();
        async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {GIB}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).await;
            let chunk = vec![0; 1 << 20];
            while let Ok(written) = stream.write(&chunk).await {
                counted.fetch_add(written, Ordering::Relaxed);
            }
        }
    })
    .await;
    let gateway = gateway(server.at, PATIENCE);
    let before = peak();
    let mut stream = TcpStream::connect(gateway.at).await.unwrap();
    stream.write_all(b"GET /files/a HTTP/1.1\r\nHost: gw\r\n\r\n").await.unwrap();
    // Until nothing moves any more.
    let mut last = usize::MAX;
    while last != sent.load(Ordering::Relaxed) || last == 0 {
        last = sent.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(last < BUFFERS, "{last} bytes were taken from the server");
    assert!(peak() - before < BUFFERS, "{} bytes of memory", peak() - before);
    // Control: it goes on when the client reads.
    let mut read = vec![0; 4 << 20];
    for _ in 0..(last >> 22) + 4 {
        timeout(PATIENCE, stream.read_exact(&mut read)).await.expect("more").unwrap();
    }
    assert!(sent.load(Ordering::Relaxed) > last);
}

#[tokio::test]
async fn guessed_credentials_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let server = embedded(folder.path());
    let gateway = gateway(server.at, PATIENCE);
    let before = peak();
    let mut stream = TcpStream::connect(gateway.at).await.unwrap();
    // The server accepts them all, so that each is kept for a while.
    for number in 0..3000 {
        let authorization = BASE64_STANDARD.encode(format!("user{number}:guess"));
        let head = format!("HEAD /files/ HTTP/1.1\r\nHost: gw\r\nAuthorization: Basic {authorization}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let byte = timeout(PATIENCE, stream.read_u8()).await.expect("an answer").unwrap();
            answer.push(byte);
        }
        assert_eq!(status(&String::from_utf8_lossy(&answer)), 200, "{number}");
    }
    assert!(peak() - before < 256 << 20, "{} bytes of memory", peak() - before);
}

#[tokio::test]
async fn a_user_who_does_not_read_his_downloads_is_served_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let server = embedded(folder.path());
    std::fs::File::create(folder.path().join("files/large")).unwrap().set_len(64 << 20).unwrap();
    std::fs::write(folder.path().join("files/small"), "small").unwrap();
    let gateway = gateway(server.at, PATIENCE);
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(gateway.at).await.unwrap();
        stream.write_all(b"GET /files/large HTTP/1.1\r\nHost: gw\r\nAuthorization: Basic YTpi\r\n\r\n").await.unwrap();
        unread.push(stream);
    }
    // Below the two minutes after which they are ended.
    let answers = async {
        for method in ["GET", "HEAD", "GET"] {
            let mut stream = TcpStream::connect(gateway.at).await.unwrap();
            let fields = "Host: gw\r\nConnection: close\r\nAuthorization: Basic YTpi\r\n";
            stream.write_all(format!("{method} /files/small HTTP/1.1\r\n{fields}\r\n").as_bytes()).await.unwrap();
            assert_eq!(status(&rest(&mut stream).await), 200);
        }
    };
    timeout(PATIENCE / 2, answers).await.expect("other requests are answered meanwhile");
    // The downloads go on as soon as they are read.
    for mut stream in unread {
        let mut read = vec![0; 16 << 20];
        timeout(PATIENCE, stream.read_exact(&mut read)).await.expect("more").unwrap();
    }
}
