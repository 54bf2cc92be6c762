//! What a finding says and advises depends on what is so already.

use explain::{
    Cause, Finding, pair_captures,
    render::{PredictionRequest, text},
};

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n";

/// The finding of this cause in a download whose flights have these numbers of segments.
fn finding(flights: &[u64], cause: Cause) -> Finding {
    let mut connection = ScriptedConnection::new(40_000, 60.0);
    connection.identification = Some([700, 900]);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let mut arrived = connection.data(Client, now, REQUEST) + 0.5;
    for segments in flights {
        let received = connection.bulk(Server, arrived, segments * MSS);
        arrived = connection.ack(Client, received);
    }
    let explanation = Captured::at(&[connection], Server, 0.0).explained();
    let transfer = &explanation.connections[0].transfers[0];
    let found = transfer.findings.iter().find(|finding| finding.cause == cause);
    found.unwrap_or_else(|| panic!("{:?}", transfer.times.ranked())).clone()
}

#[test]
fn initial_window_is_compared_with_what_is_allowed() {
    let cases = [
        (&[4, 8, 16, 32, 64][..], "4 segments, fewer than the 10 that RFC 6928 allows"),
        (&[10, 20, 40, 80, 160], "10 segments, which is what RFC 6928 allows"),
        (&[30, 60, 120, 240, 480], "30 segments, more than the 10 that RFC 6928 allows"),
    ];
    for (flights, said) in cases {
        let found = finding(flights, Cause::SlowStart);
        assert!(found.why.contains(said), "{}", found.why);
        // The connection was new: it can be reused next time.
        assert!(found.fixes().iter().any(|fix| fix.how.starts_with("reuse a connection")));
        let illumos = found.fixes().iter().any(|fix| fix.system == "Solaris/illumos sender");
        assert_eq!(illumos, flights[0] < 10);
    }
}

/// The fixes for the slow start of a second download, which is requested this long after the first, in milliseconds.
fn fixes_of_second_download(pause: f64) -> Vec<String> {
    let mut connection = ScriptedConnection::new(40_000, 60.0);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, REQUEST);
    let mut now = connection.data(Server, arrived + 0.5, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer") + pause;
    connection.ack(Client, now);
    now += 0.1;
    let arrived = connection.data(Client, now, REQUEST);
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 310 * MSS);
    connection.data(Server, arrived + 0.4, head.as_bytes());
    let mut arrived = arrived + 0.5;
    for segments in [10, 20, 40, 80, 160] {
        let received = connection.bulk(Server, arrived, segments * MSS);
        arrived = connection.ack(Client, received);
    }
    let explanation = Captured::at(&[connection], Server, 0.0).explained();
    let transfer = explanation.connections[0].transfers.last().expect("two transfers");
    let finding = transfer.findings.iter().find(|finding| finding.cause == Cause::SlowStart);
    let finding = finding.unwrap_or_else(|| panic!("{:?}", transfer.times.ranked()));
    finding.fixes().iter().map(|fix| fix.how.to_string()).collect()
}

#[test]
fn slow_start_after_idle_is_advised_only_after_a_timeout() {
    let is_advised = |pause| fixes_of_second_download(pause).iter().any(|how| how.contains("slow_start_after_idle"));
    assert!(!is_advised(0.2), "the connection was not idle");
    assert!(is_advised(900.0), "it was idle for longer than any retransmission timeout here");
}

/// An upload of 60 KB in one flight, whose response of almost as much has to pass a receive window of 8 KB.
#[test]
fn finding_describes_the_sender_whose_packets_waited() {
    let mut connection = ScriptedConnection::new(40_000, 40.0);
    connection.window = 64;
    let now = connection.open(0.0);
    connection.data(Client, now, b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 60000\r\n\r\n");
    let mut now = connection.bulk(Client, now, 60_000);
    let flight = 7 * MSS;
    connection.data(Server, now, b"HTTP/1.1 200 OK\r\nContent-Length: 56840\r\n\r\n");
    for _ in 0..7 {
        let arrived = connection.bulk(Server, now, flight);
        now = connection.ack(Client, arrived);
    }
    let explanation = Captured::at(&[connection], Client, 0.0).explained();
    let transfer = &explanation.connections[0].transfers[0];
    let finding = transfer.findings.iter().find(|finding| finding.cause == Cause::ReceiveWindow);
    let finding = finding.unwrap_or_else(|| panic!("{:?}", transfer.times.ranked()));
    assert!(finding.why.contains("never exceeded 8192 bytes"), "{}", finding.why);
}

/// The first lines for a request with this response, on a connection that was opened before.
fn said(head: &str) -> String {
    let mut connection = ScriptedConnection::new(40_000, 40.0);
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, REQUEST);
    let arrived = connection.data(Server, arrived + 1.0, head.as_bytes());
    connection.ack(Client, arrived);
    let mut captured = Captured::at(&[connection], Client, 0.0);
    captured.packets.drain(..3);
    let connections = pair_captures([captured.explained()]);
    let layout = text::Layout { width: 1000, colour: false, top: 5 };
    text::render(&connections, 9, &PredictionRequest::default(), &layout)
}

#[test]
fn nothing_is_called_healthy_after_a_failure() {
    let failed = said("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    let wanted = "The only response is an error: 404. Apart from that, nothing is worth a change. The transfer took";
    assert!(failed.starts_with(wanted), "{failed}");
    let worked = said("HTTP/1.1 204 No Content\r\n\r\n");
    assert!(worked.starts_with("Healthy: nothing is worth a change."), "{worked}");
}
