//! The systems of the ends of real captures, by their SYNs.

use std::path::Path;

use explain::{
    pair_captures,
    render::{PredictionRequest, ReadCapture, json},
};
use serde_json::{Value, json};

/// The field `system` of the only connection of a capture.
fn systems(name: &str) -> Value {
    let path = format!("{}/tests/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut source = capture::open(Path::new(&path), None).expect("it is a capture");
    let (explanation, broken) = explain::explain(&mut *source);
    assert!(broken.is_none(), "{broken:?}");
    let captures = [ReadCapture::default()];
    let connections = pair_captures([explanation]);
    let request = PredictionRequest::default();
    let document = json::document(&captures, &connections, &request);
    serde_json::to_value(document).expect("it is JSON")["connections"][0]["system"].take()
}

#[test]
fn linux_is_recognised_at_both_ends() {
    for end in ["client", "server"] {
        let found = systems(&format!("lossy-download-{end}.pcapng.gz"));
        assert_eq!([&found["client"], &found["server"]], ["Linux", "Linux"], "{end}");
        let why = "time to live 64, options in the order MSS, SACK, timestamps, padding, window scale, window 64240 with a \
                   scale of 10";
        assert_eq!(found["signs"]["client"], json!({ "packet": 1, "why": why }), "{end}");
    }
}

#[test]
fn solaris_is_recognised_in_a_printed_handshake_and_its_client_is_not() {
    let found = systems("ie-handshake.snoop.txt");
    // The client is Windows, whose options need its time to live, which snoop does not print.
    assert_eq!((&found["client"], &found["server"]), (&Value::Null, &"Solaris or illumos".into()));
    let why = found["signs"]["server"]["why"].as_str().expect("signs");
    assert!(why.starts_with("time to live not captured"), "{why}");
}

#[test]
fn systems_are_unknown_without_a_handshake() {
    let found = systems("ie.snoop.txt");
    let nothing = json!({ "client": null, "server": null });
    assert_eq!(found, json!({ "client": null, "server": null, "signs": nothing }));
}
