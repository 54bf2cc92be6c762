//! `haul probe`.

use crate::{
    common::printed,
    place::{Place, answering, json, tree, write},
};

#[test]
fn a_server_is_described_and_not_changed() {
    let place = Place::secured(&[]);
    write(&place.path("served"), &[("a", "1"), ("empty", "")]);
    let before = tree(&place.path("served"));
    let found =
        json(printed(&place.haul(&["probe", "--ca", "cert.pem", "--json", "-", &place.url])).as_bytes(), "probe");
    assert!(before == tree(&place.path("served")));
    for (pointer, value) in [
        ("/http/versions", serde_json::json!(["1.1", "2"])),
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
fn a_person_reads_rows_and_sentences() {
    let place = Place::new();
    let told = printed(&place.haul(&["probe", &place.url, "--pipeline", "off", "--connections", "1"]));
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
fn an_answer_without_an_end_is_left() {
    let place = Place::new();
    let server = answering(|request, client| {
        if !request.starts_with("OPTIONS") {
            return client.write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
        }
        client.write_all(b"HTTP/1.1 200 OK\r\nDAV: 1\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        loop {
            client.write_all(b"8\r\nfor ever\r\n")?;
        }
    });
    let told = printed(&place.haul(&["probe", &format!("http://{server}/"), "--pipeline", "off"]));
    assert!(told.contains("DAV classes    1"), "{told}");
}
