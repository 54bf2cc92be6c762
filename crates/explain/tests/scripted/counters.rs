//! Counters of each direction, of packets that are known exactly.

use explain::{
    pair_captures,
    render::{PredictionRequest, ReadCapture, json},
};
use serde_json::Value;

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

fn counters(connection: ScriptedConnection, end: crate::connection_script::End) -> Value {
    let paired = pair_captures([Captured::at(&[connection], end, 0.0).explained()]);
    let mut document =
        serde_json::to_value(json::document(&[ReadCapture::default()], &paired, &PredictionRequest::default()))
            .expect("it is JSON");
    document["connections"][0]["counters"].take()
}

/// Asserts fields of a direction.
fn assert_counters(counters: &Value, expected: &[(&str, u64)]) {
    for (field, value) in expected {
        assert_eq!(counters[field], *value, "{field} of {counters}");
    }
}

/// An upload of four segments, of which the second is lost and retransmitted.
fn lossy() -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    let opened = connection.open(0.0);
    let segment = vec![b'.'; MSS as usize];
    let first = connection.data(Client, opened, &segment);
    connection.lose(Client, opened + 0.1, &segment);
    connection.ack(Server, first);
    connection
}

#[test]
fn retransmission_is_counted_at_both_ends_and_gives_no_rtt() {
    let mut connection = lossy();
    let arrived = connection.retransmit(Client, 260.0);
    connection.ack(Server, arrived);
    let at_sender = counters(connection.clone(), Client);
    assert_counters(
        &at_sender["up"],
        &[
            ("packets", 5),
            ("data_packets", 3),
            ("data_bytes", 3 * MSS),
            ("unique_bytes", 2 * MSS),
            ("retransmitted_packets", 1),
            ("retransmitted_bytes", MSS),
            ("out_of_order_packets", 0),
            ("mss", MSS),
            ("max_segment", MSS),
            ("max_in_flight", 2 * MSS),
        ],
    );
    // SYN and first segment; the second was retransmitted.
    let rtt = &at_sender["up"]["rtt_ms"];
    assert_eq!(rtt["samples"], 2);
    assert!((rtt["max"].as_f64().unwrap() - 20.0).abs() < 0.01, "{rtt}");
    // The receiver's capture has it only once, and nothing later that shows a gap before it.
    let at_receiver = counters(connection, Server);
    assert_counters(&at_receiver["up"], &[("data_bytes", 2 * MSS), ("unique_bytes", 2 * MSS)]);
}

#[test]
fn overtaken_segment_is_out_of_order_and_not_retransmitted() {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    let opened = connection.open(0.0);
    connection.extra_delay = 2.0;
    connection.data(Client, opened, &[b'.'; 100]);
    let arrived = connection.data(Client, opened + 0.1, &[b'.'; 100]);
    connection.ack(Server, arrived + 2.0);
    assert_counters(
        &counters(connection.clone(), Server)["up"],
        &[("out_of_order_packets", 1), ("retransmitted_packets", 0), ("unique_bytes", 200), ("data_bytes", 200)],
    );
    assert_counters(&counters(connection, Client)["up"], &[("out_of_order_packets", 0), ("retransmitted_packets", 0)]);
}

#[test]
fn duplicate_acks_and_zero_windows_are_counted_for_their_sender() {
    let mut connection = lossy();
    let segment = [b'.'; 500];
    for number in 1..=3 {
        let arrived = connection.data(Client, 10.0 + 20.0 + f64::from(number), &segment);
        connection.ack(Server, arrived);
    }
    let arrived = connection.data(Client, 60.0, &segment);
    connection.window = 0;
    connection.ack(Server, arrived);
    let counters = counters(connection, Client);
    // The last acknowledgement closes the window, and so is no duplicate.
    assert_counters(&counters["down"], &[("duplicate_acks", 3), ("zero_windows", 1), ("max_window", 64_000)]);
    assert_counters(&counters["up"], &[("duplicate_acks", 0), ("zero_windows", 0)]);
}
