//! `haul probe`.

use crate::{
    common::printed,
    fixture::{Fixture, answering, json, tree, write},
};

#[test]
fn probe_describes_the_server_without_changing_it() {
    let fixture = Fixture::secured(&[]);
    write(&fixture.path("served"), &[("a", "1"), ("empty", "")]);
    let before = tree(&fixture.path("served"));
    let found =
        json(printed(&fixture.haul(&["probe", "--ca", "cert.pem", "--json", "-", &fixture.url])).as_bytes(), "probe");
    assert!(before == tree(&fixture.path("served")));
    for (pointer, value) in [
        ("/http/versions", serde_json::json!(["1.1", "2", "3"])),
        ("/http/http3", "works".into()),
        ("/http/pipelining", "works".into()),
        ("/connection/tls/version", "1.3".into()),
        ("/connection/tls/resumes", true.into()),
        ("/dav/locks", true.into()),
        ("/dav/guards", serde_json::Value::Null),
        ("/files/etags", "strong".into()),
        ("/files/ranges", true.into()),
        ("/files/tried", "/a".into()),
    ] {
        assert_eq!(found.pointer(pointer), Some(&value), "{pointer}: {found:#}");
    }
    assert!(found["http"]["http2_stream_window"].as_u64().unwrap() >= 65_535);
    assert!(found["connection"]["rtt_ms"].as_f64().unwrap() > 0.0);
    assert!(found["settings"].as_array().unwrap().len() > 4);
}

#[test]
fn probe_prints_rows_and_sentences() {
    let fixture = Fixture::new();
    let told = printed(&fixture.haul(&["probe", &fixture.url, "--pipeline", "off", "--connections", "1"]));
    for part in [
        "TLS            none",
        "pipelining     not tried",
        "ranges         no file to test with",
        "one request at a time",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn endless_response_is_abandoned() {
    let fixture = Fixture::new();
    let server = answering(|request, client| {
        if !request.starts_with("OPTIONS") {
            return client.write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
        }
        client.write_all(b"HTTP/1.1 200 OK\r\nDAV: 1\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        loop {
            client.write_all(b"8\r\nfor ever\r\n")?;
        }
    });
    let told = printed(&fixture.haul(&["probe", &format!("http://{server}/"), "--pipeline", "off"]));
    assert!(told.contains("DAV classes    1"), "{told}");
}
