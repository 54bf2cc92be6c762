//! The server, from outside.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::json;

use super::*;

/// Sends a request of a browser that is shown the page, and returns the answer.
fn ask(url: &str, method: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let own = url.strip_prefix(&format!("http://{address}")).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "{method} {own}{path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_page_hears_what_happens_and_can_end_it() {
    static CANCELLED: AtomicUsize = AtomicUsize::new(0);
    let listener = Listener::bind().unwrap();
    let url = listener.url();
    let start = json!({ "schema": "longhaul.live/1", "name": "</script>" });
    let server = listener
        .serve(&start, || {
            CANCELLED.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let page = ask(&url, "GET", "");
    assert!(page.contains("connect-src 'self'") && page.contains("\\u003c/script>"), "{page}");
    assert!(ask(&url, "GET", "state?after=0").contains(r#"{"version":1,"live":{"#));
    assert!(ask(&url, "GET", "report").starts_with("HTTP/1.1 404"));
    assert!(ask(&url, "GET", "state?after=bad").starts_with("HTTP/1.1 400"));
    let waiting = thread::spawn({
        let url = url.clone();
        move || ask(&url, "GET", "state?after=1")
    });
    server.publish(&json!({ "schema": "longhaul.live/1", "done": 1 }));
    assert!(waiting.join().unwrap().contains(r#""done":1"#));
    assert!(ask(&url, "POST", "cancel").starts_with("HTTP/1.1 202"));
    assert_eq!(CANCELLED.load(Ordering::SeqCst), 1);

    let reader = thread::spawn({
        let url = url.clone();
        move || (ask(&url, "GET", "state?after=2"), ask(&url, "GET", "report"))
    });
    server.finish(&json!({ "stage": "ended" }), b"<p>the report</p>".to_vec());
    let (last, report) = reader.join().unwrap();
    assert!(last.contains("ended") && report.contains("<p>the report</p>"), "{last} {report}");
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn an_end_without_anybody_looking_waits_for_nobody() {
    let listener = Listener::bind().unwrap();
    let server = listener.serve(&json!({}), || ()).unwrap();
    let before = std::time::Instant::now();
    server.finish(&json!({}), Vec::new());
    assert!(before.elapsed() < LAST_FETCH);
}
