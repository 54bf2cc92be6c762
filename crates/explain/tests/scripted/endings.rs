//! Connections that were refused, never answered, not delivered, or reset.

use etherparse::{Icmpv4Type, PacketBuilder, icmpv4};
use explain::{Ending, Failure, Side};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    ScriptedConnection,
};

const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6000\r\n\r\n";

fn new() -> ScriptedConnection {
    ScriptedConnection::new(40_000, 20.0)
}

fn ending(connection: &ScriptedConnection, end: End) -> Option<Ending> {
    Captured::at(std::slice::from_ref(connection), end, 0.0).explained().connections[0].ending.clone()
}

/// A request, and as many bytes of its response; returns when they have arrived.
fn respond(connection: &mut ScriptedConnection, bytes: u64) -> f64 {
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, REQUEST);
    connection.data(Server, arrived + 5.0, RESPONSE);
    connection.bulk(Server, arrived + 5.0, bytes)
}

#[test]
fn refused_and_unanswered_connections_are_failures() {
    let mut refused = new();
    let arrived = refused.syn(0.0);
    refused.reset(Server, arrived + 0.1);
    let mut unanswered = new();
    for at in [0.0, 1000.0, 3000.0] {
        unanswered.lost_syn(at);
    }
    let ending = |connection: &ScriptedConnection| ending(connection, Client).expect("it failed");
    let (refused, unanswered) = (ending(&refused), ending(&unanswered));
    assert_eq!((refused.failure, refused.by), (Failure::Refused, Some(Side::Server)));
    assert!(refused.why.contains("refused by the server after 20 ms"), "{refused:?}");
    assert_eq!((unanswered.failure, unanswered.by), (Failure::Unanswered, None));
    assert!(unanswered.why.contains("3 SYNs in 3.0 s"), "{unanswered:?}");
}

#[test]
fn reset_is_a_failure_only_before_the_last_byte() {
    for end in [Client, Server] {
        let mut whole = new();
        let arrived = respond(&mut whole, 6000);
        let acked = whole.ack(Client, arrived);
        whole.reset(Server, acked);
        assert_eq!(ending(&whole, end), None, "{end:?}");

        let mut cut = new();
        let arrived = respond(&mut cut, 2320);
        whole.ack(Client, arrived);
        cut.reset(Server, arrived + 5000.0);
        let found = ending(&cut, end).expect("it failed");
        assert_eq!((found.failure, found.by), (Failure::Reset, Some(Side::Server)));
        assert!(found.why.contains("after 2361 bytes of 6041 bytes of the response to GET /file"), "{found:?}");
        assert!(found.why.contains("nothing had passed for 5.0 s: a time-out"), "{found:?}");
    }
}

#[test]
fn reset_says_what_came_just_before() {
    let mut unread = new();
    let arrived = respond(&mut unread, 1160);
    unread.window = 0;
    let acked = unread.ack(Client, arrived);
    unread.reset(Server, acked + 3000.0);
    let found = ending(&unread, Server).expect("it failed");
    assert!(found.why.contains("the client had not read what it was sent"), "{found:?}");

    let mut waiting = new();
    let now = waiting.open(0.0);
    let arrived = waiting.data(Client, now, REQUEST);
    waiting.reset(Server, arrived + 1.0);
    let found = ending(&waiting, Client).expect("it failed");
    assert!(found.why.ends_with("before the response to GET /file began"), "{found:?}");
}

#[test]
fn report_of_a_router_names_it_and_its_reason() {
    let mut connection = new();
    connection.lost_syn(0.0);
    let mut captured = Captured::at(&[connection], Client, 0.0);
    let (time, syn) = captured.packets[0].clone();
    let header = icmpv4::DestUnreachableHeader::from_values(1, 0).expect("a known code");
    let mut report = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 9], [10, 0, 0, 1], 64);
    builder.icmpv4(Icmpv4Type::DestinationUnreachable(header)).write(&mut report, &syn[..28]).expect("memory");
    captured.packets.push((time + 10_000_000, report));
    let found = captured.explained().connections[0].ending.clone().expect("it failed");
    assert_eq!((found.failure, found.packet), (Failure::Undelivered, 2));
    assert!(found.why.contains("10.0.0.9 reports “host unreachable”"), "{found:?}");
}

/// A stream in no known protocol, of which the server has acknowledged all but the last `in_flight` bytes; returns when
/// it has received them.
fn stream(connection: &mut ScriptedConnection, bytes: u64, in_flight: u64) -> f64 {
    let now = connection.open(0.0);
    let arrived = connection.bulk(Client, now, bytes);
    let acked = connection.ack(Server, arrived);
    connection.bulk(Client, acked, in_flight)
}

#[test]
fn receiver_that_wants_no_more_of_a_stream_has_not_failed() {
    for end in [Client, Server] {
        // As iperf3 ends its test.
        let mut stopped = new();
        let arrived = stream(&mut stopped, 100_000, 5800);
        stopped.reset(Server, arrived - 0.05);
        assert_eq!(ending(&stopped, end), None, "{end:?}");

        // A request is no stream, and whoever does not read, or is gone, did not want to stop.
        let mut unanswered = new();
        let arrived = stream(&mut unanswered, 2320, 1160);
        unanswered.reset(Server, arrived);
        let mut unread = new();
        let arrived = stream(&mut unread, 100_000, 5800);
        unread.window = 0;
        unread.ack(Server, arrived);
        unread.reset(Server, arrived + 10.0);
        let mut gone = new();
        let arrived = stream(&mut gone, 100_000, 5800);
        gone.reset(Server, arrived + 8000.0);
        for failed in [unanswered, unread, gone] {
            assert_eq!(ending(&failed, end).expect("it failed").by, Some(Side::Server), "{end:?}");
        }
        // The sender of a stream is done when all of it has arrived, and not before.
        let mut done = new();
        let arrived = stream(&mut done, 100_000, 5800);
        let acked = done.ack(Server, arrived);
        let mut cut = done.clone();
        done.reset(Client, acked + 1.0);
        assert_eq!(ending(&done, end), None, "{end:?}");
        let sent = cut.bulk(Client, acked, 5800) - 10.0;
        cut.reset(Client, sent + 0.1);
        assert_eq!(ending(&cut, end).expect("it failed").by, Some(Side::Client), "{end:?}");
    }
}

#[test]
fn reset_from_elsewhere_is_the_failure_of_neither_end() {
    // The server's packets come from 12 hops away.
    let cut = |hop_limit: u8| {
        let mut cut = new();
        let arrived = respond(&mut cut, 2320);
        cut.ack(Client, arrived);
        cut.reset(Server, arrived + 1.0);
        cut.set_hop_limit(hop_limit);
        let mut captured = Captured::at(std::slice::from_ref(&cut), Client, 0.0);
        for (_, packet) in captured.packets.iter_mut().filter(|(_, packet)| packet[12..16] == [10, 0, 0, 2]) {
            packet[8] = if packet[8] == 64 { 52 } else { packet[8] };
        }
        captured.explained().connections[0].ending.clone().expect("it failed")
    };
    let forged = cut(61);
    assert_eq!((forged.failure, forged.by), (Failure::Reset, None));
    assert!(forged.why.contains("a device on the path") && forged.why.contains("3 hops away"), "{forged:?}");
    // Its own kernel begins with another value, or the route changed by a hop.
    for own in [52, 243, 116, 53] {
        assert_eq!(cut(own).by, Some(Side::Server), "{own}");
    }
}
