//! Bandwidth limits, headers and retries.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    common::{printed, text},
    fixture::Fixture,
};

#[test]
fn bandwidth_limit_holds_in_both_directions() {
    let fixture = Fixture::new();
    let content = vec![7; 300_000];
    fs::write(fixture.path("source"), &content).unwrap();
    let begin = Instant::now();
    printed(&fixture.haul(&["cp", "source", &fixture.at("there"), "--bwlimit", "100k"]));
    let (up, begin) = (begin.elapsed(), Instant::now());
    printed(&fixture.haul(&["cp", &fixture.at("there"), "back", "--bwlimit", "off:100k"]));
    let down = begin.elapsed();
    // 300 kB take 2.9 s, less a burst of 0.1 s and the last piece of at most 64 KiB.
    let least = Duration::from_secs(2);
    assert!(up > least && down > least, "{up:?} {down:?}");
    assert!(
        fs::read(fixture.served("there")).unwrap() == content && fs::read(fixture.path("back")).unwrap() == content
    );
    let ended = fixture.haul(&["cp", "source", &fixture.at("x"), "--bwlimit", "quick"]);
    assert!(ended.status.code() == Some(2) && text(&ended.stderr).contains("invalid rate"), "{}", text(&ended.stderr));
}

/// A server that answers each request according to its head, in lower case, and reads its body.
fn server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut reader = BufReader::new(&stream);
                loop {
                    let (mut head, mut length) = (String::new(), 0);
                    let lines = reader.by_ref().lines().map_while(Result::ok);
                    for line in lines.take_while(|line| !line.is_empty()) {
                        let line = line.to_lowercase();
                        if let Some(bytes) = line.strip_prefix("content-length: ") {
                            length = bytes.parse().unwrap_or(0);
                        }
                        head.push_str(&(line + "\n"));
                    }
                    let read = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink());
                    if head.is_empty() || read.is_err() || (&stream).write_all(answer(&head).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

/// A server that records the heads of all requests, and redirects them or answers.
fn recorder(to: Option<String>) -> (String, Arc<Mutex<Vec<String>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = heads.clone();
    let url = server(move |head| {
        kept.lock().unwrap().push(head.to_owned());
        match &to {
            Some(to) => format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"),
            None => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
        }
    });
    (url, heads)
}

#[test]
fn header_is_sent_only_to_the_named_server() {
    let fixture = Fixture::new();
    let (second, there) = recorder(None);
    let (first, here) = recorder(Some(format!("{second}/b")));
    let url = format!("{first}/a");
    fs::create_dir_all(fixture.path("home/.config/longhaul")).unwrap();
    let table = format!("[host.\"{}\"]\nheaders = {{ X-File = \"hunter3\" }}\n", &first["http://".len()..]);
    fs::write(fixture.path("home/.config/longhaul/config.toml"), table).unwrap();
    assert_eq!(printed(&fixture.haul(&["cat", &url, "--header", "X-Key: hunter2", "--pipeline", "off"])), "ok");
    let (here, there) = (here.lock().unwrap().concat(), there.lock().unwrap().concat());
    assert!(here.contains("x-key: hunter2") && here.contains("x-file: hunter3"), "{here}");
    assert!(!there.is_empty() && !there.contains("hunter"), "{there}");
    let agent = format!("user-agent: longhaul/{}", env!("CARGO_PKG_VERSION"));
    assert!(here.contains(&agent) && there.contains(&agent), "{here}{there}");

    for header in ["hunter2", "Range: hunter2", "X-Key: hunter2\u{1}"] {
        let told = fixture.haul(&["cat", &url, "--header", header]);
        assert!(told.status.code() == Some(2) && !text(&told.stderr).contains("hunter2"), "{}", text(&told.stderr));
    }
    assert_eq!(printed(&fixture.haul(&["cat", &url, "--header", "User-Agent: mine/1"])), "ok");
}

#[test]
fn failures_are_retried_as_often_as_requested() {
    for (retries, works) in [("1", false), ("4", true)] {
        let fixture = Fixture::new();
        let gets = AtomicU32::new(0);
        let url = server(move |head| {
            let found = |path: &str| {
                let list = format!(
                    "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{path}</D:href><D:propstat><D:prop>\
                     <D:resourcetype/><D:getcontentlength>2</D:getcontentlength></D:prop>\
                     <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
                );
                format!("HTTP/1.1 207 Multi-Status\r\nContent-Length: {}\r\n\r\n{list}", list.len())
            };
            match head.lines().next().unwrap_or_default().split(' ').collect::<Vec<_>>()[..] {
                ["propfind", path, _] => found(path),
                ["get", "/a", _] if gets.fetch_add(1, Ordering::Relaxed) < 3 => {
                    "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned()
                }
                ["get", ..] => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_owned(),
                _ => "HTTP/1.1 200 OK\r\nDAV: 1\r\nContent-Length: 0\r\n\r\n".to_owned(),
            }
        });
        fs::create_dir(fixture.path("to")).unwrap();
        let urls = ["a", "b"].map(|name| format!("{url}/{name}"));
        let ended = fixture.haul(&["cp", &urls[0], &urls[1], "to", "--retries", retries, "-v"]);
        let told = text(&ended.stderr);
        assert_eq!((ended.status.success(), fixture.path("to/a").exists()), (works, works), "{told}");
        assert_eq!(told.contains("1 failed, so it is tried again"), works, "{told}");
        assert_eq!(told.matches("copied /b").count(), 1, "{told}");
    }
}
