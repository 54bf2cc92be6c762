//! Clients that wait for `100 Continue` before they send a body (RFC 9110 §10.1.1).

use explain::{
    Cause, Connection, Transfer, pair_captures,
    render::{PredictionRequest, text},
    replica::WhatIf,
};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    MSS, ScriptedConnection,
};

const RTT: f64 = 80.0;
const BODY: u64 = 100 * MSS;
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

fn head(expect: &str) -> Vec<u8> {
    format!("PUT /file HTTP/1.1\r\nHost: here\r\nContent-Length: {BODY}\r\n{expect}\r\n").into_bytes()
}

/// A body in slow start, from an initial window of 10 segments, and the response.
fn body(connection: &mut ScriptedConnection, at: f64, response: &[u8]) {
    let (mut now, mut left, mut flight) = (at, BODY, 10 * MSS);
    while left > 0 {
        let bytes = left.min(flight);
        let arrived = connection.bulk(Client, now, bytes);
        (left, flight) = (left - bytes, flight * 2);
        now = if left > 0 { connection.ack(Server, arrived) } else { connection.data(Server, arrived + 0.3, response) };
    }
    connection.ack(Client, now);
}

/// An upload whose body follows the head after the server's answer and this many milliseconds, as seen from an end.
fn upload(answer: Option<&[u8]>, wait: f64, seen_from: End) -> Connection {
    let mut connection = ScriptedConnection::new(40_000, RTT);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, &head("Expect: 100-continue\r\n"));
    let ready = if let Some(answer) = answer {
        connection.data(Server, arrived + 0.2, answer)
    } else {
        connection.ack(Server, arrived);
        now
    };
    body(&mut connection, ready + wait, CREATED);
    let explanation = Captured::at(&[connection], seen_from, 0.0).explained();
    explanation.connections.into_iter().next().expect("a connection")
}

fn milliseconds(transfer: &Transfer, cause: Cause) -> u64 {
    transfer.times[cause] / 1_000_000
}

fn without_wait(transfer: &Transfer) -> u64 {
    let what_if: WhatIf = "no-expect".parse().expect("a change");
    let predicted = transfer.what_if(&what_if, None).expect("it carried data").expect("the replica reproduces it");
    predicted.duration.as_millis() as u64
}

#[test]
fn round_trip_for_100_continue_is_no_slow_start() {
    for end in [Client, Server] {
        let connection = upload(Some(CONTINUE), 0.3, end);
        let transfer = &connection.transfers[0];
        let waited = milliseconds(transfer, Cause::ExpectContinue);
        assert!((80..=82).contains(&waited), "{end:?}: {:?}", transfer.times.ranked());
        let finding = transfer.findings.iter().find(|finding| finding.cause == Cause::ExpectContinue).expect("found");
        assert!(finding.why.contains("until the server's `100 Continue` arrived"), "{}", finding.why);
        assert!(finding.fixes()[0].how.contains("-H Expect:"), "{:?}", finding.fixes());
        let slow_start = transfer.findings.iter().find(|finding| finding.cause == Cause::SlowStart);
        let why = slow_start.map(|finding| finding.why.clone()).unwrap_or_default();
        assert!(!why.contains("congestion window of 1 segment"), "{why}");
        let predicted = transfer.without(finding).expect("it needs no simulation");
        assert!(transfer.duration.abs_diff(predicted.duration).as_millis().abs_diff(81) < 3, "{predicted:?}");
        let saved = transfer.duration.as_millis() as u64 - without_wait(transfer);
        assert!((70..=90).contains(&saved), "{end:?}: {saved} ms saved");
    }
}

/// What is said of an upload whose response takes this long.
fn said(think_time: f64) -> String {
    let mut connection = ScriptedConnection::new(40_000, RTT);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, &head("Expect: 100-continue\r\n"));
    let ready = connection.data(Server, arrived + 0.2, CONTINUE);
    let arrived = connection.bulk(Client, ready + 0.3, BODY);
    connection.ack(Server, arrived);
    let now = connection.data(Server, arrived + think_time, CREATED);
    connection.ack(Client, now);
    let connections = pair_captures([Captured::at(&[connection], Client, 0.0).explained()]);
    let layout = text::Layout { width: 1000, colour: false, top: 5 };
    text::render(&connections, 9, &PredictionRequest::default(), &layout)
}

#[test]
fn short_wait_for_100_continue_is_named_in_a_line_with_its_switch() {
    let found = said(100.0);
    assert!(found.contains("waiting for 100 Continue (expect_continue) "), "{found}");
    assert!(!found.contains("also:"), "{found}");
    // As printed, in whole per cent, it is 10 %.
    let rounded = said(585.0);
    assert!(rounded.contains("waiting for 100 Continue (expect_continue) 10 %"), "{rounded}");
    let short = said(900.0);
    assert!(short.contains("also: waiting for 100 Continue, 7 % (80 ms): `curl -H Expect:`"), "{short}");
    assert!(!short.contains("(expect_continue)"), "{short}");
}

#[test]
fn client_that_gives_up_waiting_is_named() {
    let connection = upload(None, 1000.0, Client);
    let transfer = &connection.transfers[0];
    assert!((999..=1001).contains(&milliseconds(transfer, Cause::ExpectContinue)), "{:?}", transfer.times.ranked());
    assert_eq!(transfer.cause, Some(Cause::ExpectContinue));
    let finding = &transfer.findings[0];
    assert!(finding.why.contains("No `100 Continue` came"), "{}", finding.why);
    assert!(finding.fixes().iter().any(|fix| fix.how.contains("--expect100-timeout")), "{:?}", finding.fixes());
    assert!(without_wait(transfer) + 950 < transfer.duration.as_millis() as u64);
}

#[test]
fn client_that_does_not_wait_lost_nothing() {
    let mut connection = ScriptedConnection::new(40_000, RTT);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    connection.data(Client, now, &head("Expect: 100-continue\r\n"));
    let arrived = connection.bulk(Client, now + 0.1, 10 * MSS);
    // The answer comes when the body is on its way, and is no response.
    let now = connection.data(Server, arrived, CONTINUE);
    let arrived = connection.bulk(Client, now, BODY - 10 * MSS);
    let now = connection.data(Server, arrived, CREATED);
    connection.ack(Client, now);
    let explanation = Captured::at(&[connection], Client, 0.0).explained();
    let [transfer] = &explanation.connections[0].transfers[..] else { panic!("one transfer") };
    assert_eq!((&*transfer.request, &*transfer.status), ("PUT /file", "201"));
    assert_eq!(milliseconds(transfer, Cause::ExpectContinue), 0, "{:?}", transfer.times.ranked());
}

/// TLS records of these types and lengths, headers included.
fn records(records: &[(u8, u16)]) -> Vec<u8> {
    records
        .iter()
        .flat_map(|(kind, len)| {
            let mut record = vec![*kind, 3, 3];
            record.extend((len - 5).to_be_bytes());
            record.resize(usize::from(*len), 0);
            record
        })
        .collect()
}

/// A connection with TLS 1.3 that has sent a request of this many bytes; when it has arrived, after a session ticket was sent.
fn secured(request: u16) -> (ScriptedConnection, f64) {
    let mut connection = ScriptedConnection::new(40_000, RTT);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, &records(&[(22, 300)]));
    let flight = records(&[(22, 90), (20, 6), (23, 40), (23, 700), (23, 60)]);
    let now = connection.data(Server, arrived + 1.0, &flight) + 1.0;
    connection.data(Client, now, &records(&[(20, 6), (23, 58)]));
    let arrived = connection.data(Client, now, &records(&[(23, request)]));
    connection.data(Server, arrived + 0.1, &records(&[(23, 255)]));
    (connection, arrived)
}

fn explained(connection: ScriptedConnection) -> Connection {
    let explanation = Captured::at(&[connection], Client, 0.0).explained();
    explanation.connections.into_iter().next().expect("a connection")
}

#[test]
fn record_with_the_size_of_100_continue_shows_the_wait_inside_tls() {
    let (mut connection, arrived) = secured(190);
    let now = connection.data(Server, arrived + 0.3, &records(&[(23, 47)]));
    body(&mut connection, now + 0.2, &records(&[(23, 120)]));
    let connection = explained(connection);
    let [transfer] = &connection.transfers[..] else { panic!("one transfer, not {}", connection.transfers.len()) };
    assert!((80..=82).contains(&milliseconds(transfer, Cause::ExpectContinue)), "{:?}", transfer.times.ranked());
    let finding = transfer.findings.iter().find(|finding| finding.cause == Cause::ExpectContinue).expect("found");
    assert!(finding.why.contains("a TLS record with the size of `100 Continue`"), "{}", finding.why);
}

#[test]
fn short_http2_response_before_an_upload_is_no_100_continue() {
    let (mut connection, arrived) = secured(190);
    // The server's SETTINGS and its acknowledgement, and after them a response of 25 bytes.
    let now = connection.data(Server, arrived + 0.1, &records(&[(23, 49), (23, 31)]));
    let now = connection.data(Server, now.max(arrived + 0.3), &records(&[(23, 47)])) + 0.2;
    body(&mut connection, now, &records(&[(23, 120)]));
    let connection = explained(connection);
    let waited: u64 = connection.transfers.iter().map(|transfer| transfer.times[Cause::ExpectContinue]).sum();
    assert_eq!(waited, 0, "{:?}", connection.transfers.iter().map(|one| one.times.ranked()).collect::<Vec<_>>());
}
