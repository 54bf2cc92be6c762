//! HTTP/2 inside TLS: responses and control frames are distinguished, and the flow-control window is inferred.

use explain::{Cause, Connection};

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    ScriptedConnection,
};

/// A TLS record of this length, with its header.
fn record(kind: u8, bytes: u16) -> Vec<u8> {
    let [high, low] = (bytes - 5).to_be_bytes();
    [vec![kind, 3, 3, high, low], vec![7; usize::from(bytes) - 5]].concat()
}

/// An upload in parts, each of which waits for a record of `record_len` bytes from the server.
fn upload(parts: &[u64], record_len: u16, end: crate::connection_script::End) -> Connection {
    let mut script = ScriptedConnection::new(40_000, 60.0);
    script.window = 4000;
    let opened = script.open(0.0);
    let arrived = script.data(Client, opened, &record(22, 200));
    let arrived = script.data(Server, arrived, &record(22, 700));
    let request_arrived = script.data(Client, arrived, &record(23, 120));
    let mut now = script.data(Server, request_arrived, &record(23, 300));
    for part in parts {
        let arrived = script.bulk(Client, now + 0.2, *part);
        script.ack(Server, arrived);
        now = script.data(Server, arrived + 0.5, &record(23, record_len));
    }
    Captured::at(&[script], end, 0.0).explained().connections.remove(0)
}

fn share(connection: &Connection, cause: Cause) -> f64 {
    let sum = |time: fn(&explain::Transfer) -> u64| connection.transfers.iter().map(time).sum::<u64>() as f64;
    connection.transfers.iter().map(|one| one.times[cause]).sum::<u64>() as f64 / sum(|one| one.times.sum())
}

#[test]
fn http2_window_is_found_when_sender_stops_repeatedly() {
    for end in [Client, Server] {
        let stopped = upload(&[65_690; 8], 42, end);
        assert!(share(&stopped, Cause::HttpFlowControl) > 0.5, "{end:?}: {:?}", stopped.transfers);
        // The same exchange with varying lengths.
        let other = upload(&[30_000, 52_000, 41_000, 77_000, 20_000, 61_000, 35_000, 48_000], 42, end);
        assert!(share(&other, Cause::HttpFlowControl) == 0.0, "{end:?}: {:?}", other.transfers);
    }
}

#[test]
fn small_response_is_a_message_when_its_length_is_no_control_frame() {
    for end in [Client, Server] {
        let turns = upload(&[10_000; 8], 41, end);
        assert_eq!(turns.transfers.len(), 9, "{end:?}");
        assert!(share(&turns, Cause::HttpFlowControl) == 0.0 && share(&turns, Cause::Propagation) > 0.5, "{end:?}");
    }
}
