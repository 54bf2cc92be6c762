//! Counters of a download over a lossy link, from the captures of both ends, and compared with Wireshark's analysis.
//!
//! The captures were made with `haul link --rtt 30ms --rate 20mbit --loss 1% --seed 11`, and cut to 90 bytes per packet.

use std::{path::PathBuf, process::Command};

use explain::{
    pair_captures,
    render::{PredictionRequest, ReadCapture, json},
};
use serde_json::Value;

const SERVER_PORT: u16 = 8080;

fn trace(end: &str) -> PathBuf {
    format!("{}/tests/traces/lossy-download-{end}.pcapng.gz", env!("CARGO_MANIFEST_DIR")).into()
}

/// The explanation of the capture at an end, as JSON.
fn explained(end: &str) -> Value {
    let mut source = capture::open(&trace(end), None).expect("it is a capture");
    let (explanation, broken) = explain::explain(&mut *source);
    assert!(broken.is_none(), "{broken:?}");
    let captures = [ReadCapture { name: end.to_owned(), ..ReadCapture::default() }];
    let connections = pair_captures([explanation]);
    let mut document = serde_json::to_value(json::document(&captures, &connections, &PredictionRequest::default()))
        .expect("it is JSON");
    document["connections"][0].take()
}

#[test]
fn both_ends_count_the_same_data_and_the_same_losses() {
    let [client, server] = ["client", "server"].map(|end| explained(end)["counters"]["down"].take());
    for field in ["unique_bytes", "retransmitted_packets", "retransmitted_bytes", "max_segment", "mss", "max_window"] {
        assert_eq!(client[field], server[field], "{field}");
    }
    assert_eq!(client["retransmitted_packets"], 3);
    // The client's capture lacks the lost packets, so that no byte passes it twice.
    assert_eq!(client["data_bytes"], client["unique_bytes"]);
    let sent = |field: &str| server[field].as_u64().expect("a number");
    assert_eq!(sent("data_bytes"), sent("unique_bytes") + sent("retransmitted_bytes"));
    // The data takes a round trip to be acknowledged at the sender, and none at the receiver.
    let min = |counters: &Value| counters["rtt_ms"]["min"].as_f64().expect("samples");
    assert!((30.0..31.0).contains(&min(&server)) && min(&client) < 1.0);
    assert!(sent("max_in_flight") >= sent("median_in_flight") && sent("median_in_flight") > 10 * 1448);
}

/// Values of Wireshark's fields for each packet that was sent from a port; none if tshark is not installed.
fn tshark(end: &str, port: &str, fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(trace(end)).args(["-Y", &format!("tcp.srcport=={port}"), "-T", "fields"]);
    let output = command.args(fields.iter().flat_map(|field| ["-e", field])).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    Some(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

#[test]
fn counters_agree_with_wireshark() {
    for end in ["client", "server"] {
        let connection = explained(end);
        let client = connection["client"].as_str().and_then(|end| end.rsplit(':').next()).expect("a port").to_owned();
        let ports = [("up", client), ("down", SERVER_PORT.to_string())];
        for (direction, port) in &ports {
            let counters = &connection["counters"][direction];
            let fields = [
                "tcp.len",
                "tcp.analysis.retransmission",
                "tcp.analysis.out_of_order",
                "tcp.analysis.duplicate_ack",
                "tcp.options.sack.count",
                "tcp.analysis.zero_window",
                "tcp.window_size",
            ];
            let Some(rows) = tshark(end, port, &fields) else {
                eprintln!("SKIPPED: counters are not compared with Wireshark's: tshark is not installed");
                return;
            };
            let column =
                |index: usize| rows.iter().filter_map(move |row| row.get(index).filter(|text| !text.is_empty()));
            let number = |text: &String| text.parse::<u64>().expect("a number");
            let count = |index: usize| column(index).count() as u64;
            let expected = [
                ("packets", rows.len() as u64),
                ("data_packets", column(0).filter(|len| *len != "0").count() as u64),
                ("data_bytes", column(0).map(number).sum()),
                // Wireshark calls retransmissions within a round trip out of order.
                ("retransmitted_packets", count(1) + count(2)),
                ("duplicate_acks", count(3)),
                ("sack_packets", count(4)),
                ("zero_windows", count(5)),
                ("max_window", column(6).map(number).max().unwrap_or(0)),
            ];
            for (field, value) in expected {
                assert_eq!(counters[field], value, "{field} {direction} at the {end}");
            }
            // The packets of the other side that acknowledge this direction.
            let other = &ports.iter().find(|(other, _)| other != direction).expect("two directions").1;
            let rows = tshark(end, other, &["tcp.analysis.ack_rtt"]).expect("it is installed");
            let seconds = |row: &Vec<String>| row.first().and_then(|text| text.parse::<f64>().ok());
            let rtts: Vec<f64> = rows.iter().filter_map(seconds).map(|rtt| rtt * 1e3).collect();
            let ours = |field: &str| counters["rtt_ms"][field].as_f64().expect("samples");
            let min = rtts.iter().copied().fold(f64::INFINITY, f64::min);
            assert!((ours("min") - min).abs() < 0.001, "{direction} at the {end}: {} of {min}", ours("min"));
            // Wireshark has samples of retransmitted data, which Karn's rule forbids.
            assert!(ours("max") <= rtts.iter().copied().fold(0.0, f64::max) + 0.001);
            assert!(ours("samples") <= rtts.len() as f64 && ours("samples") >= 0.8 * rtts.len() as f64);
        }
    }
}
