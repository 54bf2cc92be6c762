//! The first lines for the user.

use std::time::Duration;

use etherparse::PacketBuilder;
use explain::{
    Cause, Failure, pair_captures,
    render::{PredictionRequest, text},
};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    MSS, ScriptedConnection,
};

const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer";

/// All text about a capture.
fn said(captured: Captured) -> String {
    let connections = pair_captures([captured.explained()]);
    let layout = text::Layout { width: 1000, colour: false, top: 5 };
    text::render(&connections, 9, &PredictionRequest::default(), &layout)
}

fn at(connection: &ScriptedConnection, end: End) -> Captured {
    Captured::at(std::slice::from_ref(connection), end, 0.0)
}

/// A SYN over IPv6 that is refused, `before` ms ahead of the other packets.
fn refused_over_ipv6(captured: &mut Captured, before: f64) {
    let [client, server] = [1, 2].map(|last| {
        let mut address = [0; 16];
        (address[0], address[15]) = (0xfd, last);
        address
    });
    let first = captured.packets[0].0 - (before * 1e6) as u64;
    let (mut syn, mut rst) = (Vec::new(), Vec::new());
    PacketBuilder::ipv6(client, server, 64).tcp(40_001, 80, 100, 64_000).syn().write(&mut syn, &[]).expect("memory");
    let tcp = PacketBuilder::ipv6(server, client, 64).tcp(80, 40_001, 0, 0);
    tcp.rst().ack(101).write(&mut rst, &[]).expect("memory");
    captured.packets.splice(0..0, [(first, syn), (first + 20_000_000, rst)]);
}

#[test]
fn attempt_over_the_other_ip_version_is_no_failure_if_another_one_follows() {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, REQUEST);
    connection.data(Server, arrived + 300.0, RESPONSE);
    let both = |before: f64| {
        let mut captured = at(&connection, Client);
        refused_over_ipv6(&mut captured, before);
        said(captured)
    };
    let tried = both(21.0);
    assert!(tried.starts_with("300 ms of 3"), "{tried}");
    let after = "Before, [fd00::2]:80 was tried and refused; the client went on over IPv4 after 21 ms.";
    assert!(tried.lines().next().unwrap_or_default().ends_with(after), "{tried}");
    // Long before, it was a failure of its own.
    let failed = both(5000.0);
    assert!(failed.starts_with("The connection to [fd00::2]:80 was refused"), "{failed}");
}

#[test]
fn many_round_trips_one_after_another_are_named() {
    let chatty = |count: usize| {
        let mut connection = ScriptedConnection::new(40_000, 50.0);
        let mut now = connection.open(0.0);
        for _ in 0..count {
            let arrived = connection.data(Client, now, REQUEST);
            now = connection.data(Server, arrived + 0.2, RESPONSE) + 0.1;
        }
        said(at(&connection, Client))
    };
    let many = chatty(30);
    assert!(many.contains("That is 30 round trips, one after another"), "{many}");
    assert!(!chatty(5).contains("one after another"));
}

#[test]
fn long_rtt_may_be_a_queue_that_was_full_from_the_start() {
    let request = |rtt: f64| {
        let mut connection = ScriptedConnection::new(40_000, rtt);
        let now = connection.open(0.0);
        let arrived = connection.data(Client, now, REQUEST);
        connection.data(Server, arrived + 0.2, RESPONSE);
        said(at(&connection, Client))
    };
    let long = request(780.0);
    assert!(long.contains("An RTT of 780 ms is that of a satellite link, or of a queue"), "{long}");
    assert!(!request(180.0).contains("queue"));
}

#[test]
fn slow_start_of_a_few_long_round_trips_is_a_finding() {
    let mut connection = ScriptedConnection::new(40_000, 600.0);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let mut arrived = connection.data(Client, now, REQUEST) + 0.5;
    for segments in [10, 20, 40, 80] {
        // Acknowledgements arrive here and there, so that most waits are short and one is long.
        let received = connection.bulk(Server, arrived, segments * MSS);
        arrived = connection.ack(Client, received);
    }
    let explanation = at(&connection, Server).explained();
    let transfer = &explanation.connections[0].transfers[0];
    assert!(transfer.findings.iter().any(|finding| finding.cause == Cause::SlowStart), "{:?}", transfer.times.ranked());
    // It is new, and has not been idle.
    let finding = transfer.findings.iter().find(|finding| finding.cause == Cause::SlowStart).expect("it is there");
    assert!(finding.fixes().iter().all(|fix| !fix.how.contains("slow_start_after_idle")), "{:?}", finding.fixes());
}

#[test]
fn packets_that_are_too_large_for_the_path_are_named() {
    let mut connection = ScriptedConnection::new(40_000, 40.0);
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, REQUEST);
    connection.lose(Server, arrived + 0.5, &[b'.'; MSS as usize]);
    for after in [240.0, 720.0, 1680.0, 3600.0] {
        connection.lose_again(Server, arrived + after);
    }
    let explanation = at(&connection, Server).explained();
    let finding = &explanation.connections[0].transfers[0].findings[0];
    assert_eq!(finding.cause, Cause::RetransmissionTimeout);
    assert!(finding.why.contains("No packet of 1200 bytes arrived"), "{}", finding.why);
    assert!(finding.fixes().iter().any(|fix| fix.how.contains("clamp")), "{:?}", finding.fixes());
}

#[test]
fn client_that_closes_after_a_wait_has_given_up() {
    let closed = |after: f64| {
        let mut connection = ScriptedConnection::new(40_000, 40.0);
        let now = connection.open(0.0);
        let arrived = connection.data(Client, now, REQUEST);
        connection.ack(Server, arrived);
        connection.fin(Client, now + after);
        connection
    };
    let found = at(&closed(6000.0), Client).explained().connections[0].ending.clone().expect("it failed");
    assert_eq!(found.failure, Failure::Abandoned);
    assert!(found.why.contains("had waited 6.0 s for a response to GET /file"), "{found:?}");
    assert!(found.after > Duration::from_secs(6));
    let answer = said(at(&closed(6000.0), Client));
    assert!(!answer.contains("lost to") && !answer.contains("worth a change"), "{answer}");
    // One that sends all it has and closes its side waits for the response.
    assert_eq!(at(&closed(1.0), Client).explained().connections[0].ending, None);
}

/// A connection that carries a request, opened after 5 ms.
fn request_after_5_ms() -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    let now = connection.open(5.0);
    let arrived = connection.data(Client, now, REQUEST);
    let now = connection.data(Server, arrived + 300.0, RESPONSE);
    connection.ack(Client, now);
    connection
}

#[test]
fn spare_connection_of_happy_eyeballs_is_not_counted() {
    let winner = request_after_5_ms();
    let alone = said(at(&winner, Client));
    let spare = || ScriptedConnection::new(40_001, 20.0);
    let [mut closed, mut reset, mut refused, mut unanswered] = [spare(), spare(), spare(), spare()];
    let now = closed.open(0.0);
    closed.fin(Client, now + 10.0);
    let now = reset.open(0.0);
    reset.reset(Client, now + 10.0);
    // The SYN-ACK comes when its socket is closed.
    let arrived = refused.syn(0.0);
    let now = refused.syn_ack(arrived);
    refused.reset(Client, now);
    unanswered.syn(6.0);
    for (name, spare) in [("closed", closed), ("reset", reset), ("refused", refused), ("unanswered", unanswered)] {
        let said = said(Captured::at(&[winner.clone(), spare], Client, 0.0));
        let [said, alone] = [&said, &alone].map(|text| text.lines().next().unwrap_or_default().to_owned());
        assert_eq!(said, alone, "{name}");
    }
}

#[test]
fn connection_that_is_closed_without_a_request_long_after_is_no_spare_one() {
    let winner = request_after_5_ms();
    let mut late = ScriptedConnection::new(40_001, 20.0);
    late.open(9000.0);
    late.fin(Client, 9100.0);
    let said = said(Captured::at(&[winner, late], Client, 0.0));
    assert!(said.contains("in 2 transfers"), "{said}");
}

#[test]
fn impossible_prediction_says_why_and_what_to_capture() {
    let mut captured = at(&request_after_5_ms(), Client);
    captured.packets.retain(|(_, bytes)| bytes[15] == 2); // the last byte of the sender's address
    let connections = pair_captures([captured.explained()]);
    let layout = text::Layout { width: 1000, colour: false, top: 5 };
    let what_if = Some("rtt=10ms".parse().expect("a change"));
    let said = text::render(&connections, 9, &PredictionRequest { what_if, bytes: None }, &layout);
    let why = "No prediction: only the server's packets were captured; capture both directions, with `host` and `port` as \
               filters, not `src` or `dst`.";
    assert!(said.contains(why), "{said}");
}
