//! The server, through its socket.

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::json;

use super::*;

/// Sends a request as the page does; returns the response.
fn request(url: &str, method: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let base = url.strip_prefix(&format!("http://{address}")).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "{method} {base}{path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn page_gets_updates_and_can_cancel_the_run() {
    static CANCELLED: AtomicUsize = AtomicUsize::new(0);
    let listener = Listener::bind().unwrap();
    let url = listener.url();
    let start = json!({ "schema": "longhaul.live/1", "name": "</script>" });
    let server = listener
        .serve(&start, || {
            CANCELLED.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    let page = request(&url, "GET", "");
    assert!(page.contains("connect-src 'self'") && page.contains("\\u003c/script>"), "{page}");
    assert!(request(&url, "GET", "state?after=0").contains(r#"{"version":1,"live":{"#));
    assert!(request(&url, "GET", "report").starts_with("HTTP/1.1 404"));
    assert!(request(&url, "GET", "state?after=bad").starts_with("HTTP/1.1 400"));
    let waiting = thread::spawn({
        let url = url.clone();
        move || request(&url, "GET", "state?after=1")
    });
    server.publish(&json!({ "schema": "longhaul.live/1", "done": 1 }));
    assert!(waiting.join().unwrap().contains(r#""done":1"#));
    assert!(request(&url, "POST", "cancel").starts_with("HTTP/1.1 202"));
    assert_eq!(CANCELLED.load(Ordering::SeqCst), 1);

    let reader = thread::spawn({
        let url = url.clone();
        move || (request(&url, "GET", "state?after=2"), request(&url, "GET", "report"))
    });
    server.finish(&json!({ "stage": "ended" }), b"<p>the report</p>".to_vec());
    let (last, report) = reader.join().unwrap();
    assert!(last.contains("ended") && report.contains("<p>the report</p>"), "{last} {report}");
    let address = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    assert!(TcpStream::connect(address).is_err(), "the server still listens");
}

#[test]
fn finish_does_not_wait_without_a_page() {
    let listener = Listener::bind().unwrap();
    let server = listener.serve(&json!({}), || ()).unwrap();
    let before = std::time::Instant::now();
    server.finish(&json!({}), Vec::new());
    assert!(before.elapsed() < LAST_FETCH);
}
