//! The data of a page: traces reproduce the packets, times add up, and the size is bounded.

use std::path::Path;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use explain::{
    KeepPackets, PacketStore, explain_keeping, pair_captures,
    render::{PredictionRequest, page},
};
use serde_json::Value;

const UPLOAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/traces/browser-upload.snoop.txt");

/// The page's data of a capture.
fn document(file: &str) -> Value {
    let store = PacketStore::default();
    let mut source = capture::open(Path::new(file), None).expect("it is a capture");
    let (explanation, broken) =
        explain_keeping(&mut *source, KeepPackets { for_page: Some(&store), ..KeepPackets::default() });
    assert!(broken.is_none(), "{broken:?}");
    let packets = explanation.packets;
    let names = [file.to_owned()];
    let connections = pair_captures([explanation]);
    serde_json::to_value(page::document(&names, &connections, packets, &PredictionRequest::default()))
        .expect("it is JSON")
}

/// Reads the numbers of a trace (`explain::packet_trace`).
struct TraceReader(std::vec::IntoIter<u8>);

impl TraceReader {
    fn of(text: &Value) -> Self {
        Self(BASE64_STANDARD.decode(text.as_str().expect("text")).expect("base64").into_iter())
    }

    fn is_done(&self) -> bool {
        self.0.len() == 0
    }

    fn next(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.0.next().expect("more bytes");
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
            shift += 7;
        }
    }

    fn signed(&mut self) -> i64 {
        let value = self.next();
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }
}

/// A packet of a trace: its number, microseconds, kind, first byte, length, acknowledgement, window.
type Row = (u64, u64, u64, i64, u64, i64, i64);

fn packets(trace: &Value) -> Vec<Row> {
    let mut reader = TraceReader::of(&trace["packets"]);
    let (mut number, mut time, mut sides) = (0, 0, [(0, 0, 0); 2]);
    let mut rows = Vec::new();
    while !reader.is_done() {
        number += reader.next();
        time += reader.next();
        let kind = reader.next();
        let (end, ack, window) = &mut sides[usize::from(kind & 64 != 0)];
        let seq = *end + reader.signed();
        let length = reader.next();
        *ack += if kind & 16 != 0 { reader.signed() } else { 0 };
        *window += reader.signed();
        if kind & 512 != 0 {
            for _ in 0..reader.next() {
                reader.signed();
                reader.next();
            }
        }
        *end = seq + length as i64 + i64::from(kind & 2 != 0) + i64::from(kind & 1 != 0);
        rows.push((number, time, kind, seq, length, *ack, *window));
    }
    rows
}

#[test]
fn trace_contains_the_captured_packets() {
    let document = document(UPLOAD);
    let trace = &document["connections"][0]["trace"];
    let rows = packets(trace);
    assert_eq!((rows.len(), trace["count"].as_u64()), (24, Some(24)));
    let text = std::fs::read_to_string(UPLOAD).expect("the book has it");
    let field = |line: &str, name: &str| -> u64 {
        let from = line.find(name).expect(name) + name.len();
        line[from..].split(|sign: char| !sign.is_ascii_digit()).next().expect("a number").parse().expect("a number")
    };
    let printed: Vec<(u64, u64, u64, u64, u64)> = text
        .lines()
        .map(|line| {
            let number = line.split_whitespace().next().expect("a number").parse().expect("a number");
            (number, field(line, "Seq="), field(line, "Len="), field(line, "Ack="), field(line, "Win="))
        })
        .collect();
    for (number, _, kind, seq, length, ack, window) in &rows {
        let line = printed.iter().find(|line| line.0 == *number).expect("its line");
        // Relative to the first captured byte of each side.
        let (own, other) = if kind & 64 == 0 { (3_921_643_711, 1_746_871_970) } else { (1_746_871_970, 3_921_643_711) };
        let decoded = (own + *seq as u64, *length, other + *ack as u64, *window as u64);
        assert_eq!(decoded, (line.1, line.2, line.3, line.4), "packet {number}");
    }
    // There are no retransmissions: 417 is printed before 412, but is later in the sequence.
    let retransmissions: Vec<u64> = rows.iter().filter(|row| row.2 & 128 != 0).map(|row| row.0).collect();
    assert_eq!(retransmissions, Vec::<u64>::new());
}

#[test]
fn intervals_add_up_to_their_transfer() {
    let document = document(UPLOAD);
    let trace = &document["connections"][0]["trace"];
    let causes = document["causes"].as_array().expect("causes");
    let mut reader = TraceReader::of(&trace["pieces"]);
    let transfer = &document["transfers"][0];
    let (mut sums, mut number, mut at) = (std::collections::BTreeMap::new(), 0, 0);
    let end = ((transfer["start_s"].as_f64().unwrap() + transfer["duration_s"].as_f64().unwrap()) * 1e6) as u64;
    while !reader.is_done() {
        let (long, cause) = (reader.next(), reader.next());
        number += reader.signed();
        assert!((405..=428).contains(&number));
        let within = long.min(end.saturating_sub(at));
        at += long;
        *sums.entry(causes[cause as usize]["name"].as_str().unwrap()).or_insert(0) += within;
    }
    for (cause, seconds) in transfer["time_s"].as_object().expect("times") {
        let sum = sums[cause.as_str()] as f64 / 1e6;
        assert!((sum - seconds.as_f64().unwrap()).abs() < 1e-5, "{cause}: {sum} of {seconds}");
    }
}

#[test]
fn phases_add_up_to_their_transfer() {
    let document = document(UPLOAD);
    let transfer = &document["transfers"][0];
    let phases = transfer["phases_s"].as_object().expect("phases");
    let sum: f64 = phases.values().map(|seconds| seconds.as_f64().unwrap()).sum();
    assert!((sum - transfer["duration_s"].as_f64().unwrap()).abs() < 1e-9, "{phases:?}");
    // An upload over an open connection is sent, and then answered.
    assert!(phases["send"].as_f64().unwrap() > 0.9 * sum, "{phases:?}");
}

#[test]
fn counters_are_those_of_the_trace() {
    let document = document(UPLOAD);
    let connection = &document["connections"][0];
    let rows = packets(&connection["trace"]);
    for (direction, server) in [("up", false), ("down", true)] {
        let counters = &connection["counters"][direction];
        let sent: Vec<&Row> = rows.iter().filter(|row| (row.2 & 64 != 0) == server).collect();
        assert_eq!(counters["packets"], sent.len());
        assert_eq!(counters["data_bytes"], sent.iter().map(|row| row.4).sum::<u64>());
        assert_eq!(counters["max_window"].as_i64(), sent.iter().map(|row| row.6).max());
        assert_eq!(counters["retransmitted_packets"], 0);
    }
}

#[test]
fn predictions_have_before_and_after() {
    let document = document(UPLOAD);
    let predictions = &document["transfers"][0]["predictions"];
    let changes: Vec<&str> =
        predictions["after"].as_array().unwrap().iter().map(|after| after["change"].as_str().unwrap()).collect();
    assert_eq!(changes, ["deferred-ack=1ms", "send-buffer=16MiB", "deferred-ack=1ms,send-buffer=16MiB"]);
    let before = predictions["before_s"].as_f64().unwrap();
    assert!(
        predictions["after"].as_array().unwrap().iter().all(|after| after["duration_s"].as_f64().unwrap() < before)
    );
    assert_eq!(document["transfers"][0]["findings"][0]["change"], "deferred-ack=1ms");
}
