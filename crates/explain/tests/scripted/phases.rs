//! The phases of transfers, of packets that are known exactly.

use explain::{
    pair_captures,
    render::{PredictionRequest, ReadCapture, json},
};
use serde_json::Value;

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    ScriptedConnection,
};

const REQUEST: &[u8] = b"GET /page?part=2&token=abc HTTP/1.1\r\nHost: here\r\n\r\n";

/// Two requests: the server thinks for 80 ms, then the client for 50 ms, then the server for 5 ms.
fn transfers(end: End) -> Vec<Value> {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    let respond = |connection: &mut ScriptedConnection, at: f64| {
        connection.data(Server, at, b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n");
        let arrived = connection.bulk(Server, at + 7.0, 9000);
        connection.ack(Client, arrived);
        arrived
    };
    let opened = connection.open(0.0);
    let asked = connection.data(Client, opened, REQUEST);
    let arrived = respond(&mut connection, asked + 80.0);
    let asked = connection.data(Client, arrived + 50.0, REQUEST);
    respond(&mut connection, asked + 5.0);
    let paired = pair_captures([Captured::at(&[connection], end, 0.0).explained()]);
    let mut document =
        serde_json::to_value(json::document(&[ReadCapture::default()], &paired, &PredictionRequest::default()))
            .expect("it is JSON");
    let Value::Array(transfers) = document["connections"][0]["transfers"].take() else { panic!("no transfers") };
    transfers
}

#[test]
fn phases_add_up_to_the_duration() {
    for end in [Client, Server] {
        for transfer in transfers(end) {
            assert_eq!(transfer["what"], "GET /page?part=2&token=…");
            let phases = transfer["phases_s"].as_object().expect("phases");
            assert_eq!(phases.len(), 7);
            let sum: f64 = phases.values().map(|seconds| seconds.as_f64().expect("a number")).sum();
            assert!((sum - transfer["duration_s"].as_f64().unwrap()).abs() < 1e-9, "{transfer}");
        }
    }
}

#[test]
fn phases_at_the_client_are_those_a_browser_shows() {
    let transfers = transfers(Client);
    let expected = [
        [("dns", 0.0), ("connect", 20.0), ("tls", 0.0), ("send", 0.0), ("wait", 100.0), ("blocked", 0.0)],
        [("dns", 0.0), ("connect", 0.0), ("tls", 0.0), ("send", 0.0), ("wait", 25.0), ("blocked", 50.0)],
    ];
    assert_eq!(transfers.len(), 2);
    for (transfer, expected) in transfers.iter().zip(expected) {
        for (phase, ms) in expected {
            let took = transfer["phases_s"][phase].as_f64().unwrap() * 1e3;
            assert!((took - ms).abs() < 0.5, "{phase}: {took} ms, not {ms}: {transfer}");
        }
        // Seven milliseconds between head and body, and the time of the bytes at the bottleneck.
        let receive = transfer["phases_s"]["receive"].as_f64().unwrap() * 1e3;
        assert!((7.0..9.5).contains(&receive), "{receive} ms");
    }
}
