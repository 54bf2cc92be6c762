//! Servers that end in the middle of an exchange, and links that are cut.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::world::{PATIENCE, apache, begin_put, gateway, put, rest, scripted, status};

const SHORT: Duration = Duration::from_secs(1);

/// How a server fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Reset,
    Close,
    HalfClose,
    Silence,
    HalfHead,
    HalfBody,
    HalfChunk,
    Garbage,
}

const FAULTS: [Fault; 8] = [
    Fault::Reset,
    Fault::Close,
    Fault::HalfClose,
    Fault::Silence,
    Fault::HalfHead,
    Fault::HalfBody,
    Fault::HalfChunk,
    Fault::Garbage,
];

async fn fail(mut stream: TcpStream, fault: Fault, after: usize, requests: Arc<AtomicUsize>) {
    let (mut read, mut chunk) = (0, vec![0; 64 * 1024]);
    while read < after {
        match stream.read(&mut chunk).await {
            Ok(more) if more > 0 => read += more,
            _ => return,
        }
    }
    requests.fetch_add(1, Ordering::Relaxed);
    let _ = match fault {
        Fault::Reset => return stream.set_zero_linger().unwrap(),
        Fault::Close => return,
        Fault::HalfClose => stream.shutdown().await,
        Fault::Silence => Ok(()),
        Fault::HalfHead => stream.write_all(b"HTTP/1.1 201 Crea").await,
        Fault::HalfBody => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await,
        Fault::HalfChunk => stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf").await,
        Fault::Garbage => stream.write_all(b"\x16\x03\x01 what is this\r\n\r\n").await,
    };
    // Silent from now on, but for half answers, which end.
    if matches!(fault, Fault::HalfHead | Fault::HalfBody | Fault::HalfChunk | Fault::Garbage) {
        return;
    }
    while stream.read(&mut chunk).await.is_ok_and(|read| read > 0) {}
}

#[tokio::test]
async fn a_failing_server_is_answered_for() {
    let large = vec![b'x'; 3_000_000];
    for fault in FAULTS {
        for (after, content) in [(1, &b"small"[..]), (1, &large), (100_000, &large)] {
            let requests = Arc::new(AtomicUsize::new(0));
            let counted = requests.clone();
            let server = scripted(move |stream| fail(stream, fault, after, counted.clone())).await;
            let gateway = gateway(server.at, SHORT);
            let framing = format!("Content-Length: {}", content.len());
            let mut stream = begin_put(gateway.at, "a", &framing, content).await;
            let answer = rest(&mut stream).await;
            if matches!(fault, Fault::HalfBody | Fault::HalfChunk) {
                // The status is the server's; that the rest is missing must show.
                assert!(!answer.contains("half\r\n0\r\n") && !answer.ends_with("0\r\n\r\n"), "{answer}");
            } else {
                // Without a read of all it may be reset before it has the answer.
                let is_known = answer.is_empty() && content.len() > 1000;
                assert!(is_known || matches!(status(&answer), 502 | 504), "{fault:?} after {after}: {answer}");
                assert!(!is_known || after == 1, "{fault:?} after {after}: no answer");
            }
            let sent = requests.load(Ordering::Relaxed);
            assert!(sent >= 1, "control: {fault:?} has happened");
            assert!(content.len() < 1000 || sent == 1, "{fault:?}: a body that has gone is not sent twice: {sent}");
        }
    }
}

/// A silent server may carry it out late, and so undo what its client has stored since. Only a change that names a version
/// fails then, so that it may be sent again (RFC 9110 §9.2.2, RFC 4918 §9).
#[tokio::test]
async fn a_change_is_not_repeated_for_a_silent_server() {
    let ask = async |method: &str, condition: &str| {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = requests.clone();
        let server = scripted(move |stream| fail(stream, Fault::Silence, 1, counted.clone())).await;
        let gateway = gateway(server.at, SHORT);
        let mut stream = TcpStream::connect(gateway.at).await.unwrap();
        let head = format!(
            "{method} /files/a HTTP/1.1\r\nHost: gw\r\nDestination: /files/b\r\n{condition}Content-Length: 1\r\n\r\nx"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(status(&rest(&mut stream).await), 504, "{method}");
        requests.load(Ordering::Relaxed)
    };
    for method in ["PUT", "DELETE", "MOVE", "MKCOL", "LOCK", "POST", "PROPPATCH", "COPY"] {
        assert_eq!(ask(method, "").await, 1, "{method}");
    }
    assert_eq!(ask("PUT", "If: (<urn:a-lock>)\r\n").await, 1, "a token names no version");
    for condition in ["If-Match: \"1\"\r\n", "If-None-Match: *\r\n", "If: (<urn:a-lock> [\"1\"])\r\n"] {
        assert!(ask("PUT", condition).await > 1, "control: {condition}");
    }
}

#[tokio::test]
async fn a_server_that_is_killed_keeps_what_was_acknowledged() {
    let Some(mut apache) = apache() else { return };
    let gateway = gateway(apache.address, Duration::from_secs(10));
    let content = vec![b'c'; 1_000_000];
    for number in 0..5 {
        assert_eq!(put(gateway.at, &number.to_string(), &content).await, 201);
    }
    let framing = format!("Content-Length: {}", content.len());
    let mut uploads = Vec::new();
    for name in ["0", "new"] {
        uploads.push(begin_put(gateway.at, name, &framing, &vec![b'n'; 600_000]).await);
    }
    // Until Apache has some of them.
    let begin = std::time::Instant::now();
    let files = apache.path("root/files");
    let count = || fs::read_dir(&files).unwrap().count();
    while count() < 7 && begin.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    apache.kill();
    for mut upload in uploads {
        let _ = upload.write_all(&vec![b'n'; 400_000]).await;
        let answer = rest(&mut upload).await;
        assert!(answer.is_empty() || matches!(status(&answer), 502 | 504), "{answer}");
    }
    for number in 0..5 {
        assert_eq!(fs::read(files.join(number.to_string())).unwrap(), content, "acknowledged");
    }
    assert!(!files.join("new").exists(), "half a file under its name");
    assert_eq!(put(gateway.at, "later", b"x").await, 502, "and then there is no server");
}
