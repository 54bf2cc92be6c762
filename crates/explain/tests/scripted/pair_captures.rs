//! Captures of both ends: clock offset, delays, losses, and who delayed acknowledgements.

use std::time::Duration;

use explain::{Cause, KeepPackets, PairedConnection, explain_keeping, pair_captures};

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

/// The offset of the server's clock, in milliseconds.
const CLOCK_OFFSET: f64 = 1234.0;

/// Explains a connection from captures of both ends.
fn explain_both(script: &ScriptedConnection) -> PairedConnection {
    let captures = [(Client, 0.0), (Server, CLOCK_OFFSET)].map(|(end, ahead)| {
        let mut captured = Captured::at(std::slice::from_ref(script), end, ahead);
        let (explanation, broken) =
            explain_keeping(&mut captured, KeepPackets { for_pairing: true, ..KeepPackets::default() });
        assert!(broken.is_none());
        explanation
    });
    pair_captures(captures).remove(0)
}

/// An upload in writes that wait for acknowledgements, with these delays at the receiver and on the path.
fn delayed_acks(at_receiver: f64, on_path: f64) -> ScriptedConnection {
    let mut script = ScriptedConnection::new(40_000, 40.0);
    let mut now = script.open(0.0) + 1.0;
    for _ in 0..8 {
        let arrived = script.bulk(Client, now, 3 * MSS);
        script.extra_delay = on_path;
        now = script.ack(Server, arrived + at_receiver) + 0.3;
    }
    script
}

fn near(time: Duration, ms: f64) -> bool {
    (time.as_secs_f64() * 1e3 - ms).abs() < 0.5
}

#[test]
fn clock_offset_and_one_way_delays_are_separated() {
    let mut script = ScriptedConnection::new(40_000, 40.0);
    let mut now = script.open(0.0) + 1.0;
    for delay in [0.0, 5.0, 0.0, 0.0, 17.0, 0.0, 0.0] {
        script.extra_delay = delay;
        let arrived = script.data(Client, now, b"ask");
        now = script.data(Server, arrived + 2.0, b"answer") + 3.0;
    }
    let paired = explain_both(&script);
    let delays = paired.one_way.expect("two ends");
    assert!((delays.clock_ahead as f64 / 1e6 - CLOCK_OFFSET).abs() < 0.5, "{delays:?}");
    assert!(near(delays.up.min, 20.0) && near(delays.up.median, 20.0) && near(delays.up.max, 37.0), "{delays:?}");
    assert!(near(delays.down.min, 20.0) && near(delays.down.max, 20.0), "{delays:?}");
    assert_eq!((delays.up.lost, delays.down.lost, delays.captures), (0, 0, [0, 1]));
}

#[test]
fn lost_packet_is_named() {
    let mut script = ScriptedConnection::new(40_000, 40.0);
    let now = script.open(0.0) + 1.0;
    script.data(Client, now, b"first");
    script.lose(Client, now + 1.0, b"second");
    let arrived = script.retransmit(Client, now + 250.0);
    let now = script.ack(Server, arrived);
    let arrived = script.data(Client, now, b"third");
    script.data(Server, arrived, b"answer");
    let delays = explain_both(&script).one_way.expect("two ends");
    // The fifth packet of the client's capture, after the handshake and the first packet of data.
    assert_eq!((delays.up.lost, &delays.up.lost_packets[..], delays.down.lost), (1, &[5][..], 0), "{delays:?}");
    assert!(near(delays.up.max, 20.0), "{delays:?}");
}

#[test]
fn time_is_that_at_the_client() {
    let mut script = ScriptedConnection::new(40_000, 40.0);
    script.window = u16::MAX;
    // The server sees nothing of the first SYN.
    script.lost_syn(0.0);
    let now = script.open(1000.0);
    let mut arrived = script.data(Client, now, b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n") + 0.5;
    for segments in [10, 20, 40, 80] {
        let received = script.bulk(Server, arrived, segments * MSS);
        arrived = script.ack(Client, received);
    }
    let at_client = Captured::at(std::slice::from_ref(&script), Client, 0.0).explained();
    let paired = explain_both(&script);
    let [alone, both] = [&at_client.connections[0], &paired.connection].map(|connection| &connection.transfers[0]);
    assert_eq!((paired.capture, both.duration), (1, alone.duration));
    assert_eq!(both.times[Cause::ConnectRetry], alone.times[Cause::ConnectRetry]);
    assert_eq!(u128::from(both.times.sum()), both.duration.as_nanos());
    assert!(both.findings.iter().any(|finding| finding.cause == Cause::ConnectRetry), "{:?}", both.findings);
    // What a change saves is no part of what came before.
    let predicted = both.what_if(&"rtt=20ms".parse().expect("a change"), None).expect("data").expect("a prediction");
    assert!(predicted.duration > Duration::from_secs(1), "{predicted:?}");
}

#[test]
fn delayed_acks_are_attributed_to_receiver_or_path() {
    let why = |script: &ScriptedConnection| explain_both(script).connection.transfers[0].findings[0].why.clone();
    let by_receiver = why(&delayed_acks(100.0, 0.0));
    assert!(by_receiver.contains("own capture confirms it: the receiver sent them 100 ms late"), "{by_receiver}");
    let by_path = why(&delayed_acks(0.1, 100.0));
    assert!(by_path.contains("a device on the path delayed them by 100 ms each"), "{by_path}");
}

#[test]
fn packet_that_a_capture_lacks_is_not_lost_if_it_was_acknowledged() {
    let mut script = ScriptedConnection::new(40_000, 40.0);
    let now = script.open(0.0) + 1.0;
    let arrived = script.bulk(Client, now, 10 * MSS);
    script.ack(Server, arrived);
    let mut lost = script.clone();
    lost.lose(Client, now + 60.0, b"lost");
    let arrived = lost.retransmit(Client, now + 400.0);
    lost.ack(Server, arrived);
    for (script, count) in [(script, 0), (lost, 1)] {
        let ends = [Client, Server].map(|end| {
            let mut captured = Captured::at(std::slice::from_ref(&script), end, 0.0);
            if end == Server {
                captured.packets.remove(6);
            }
            explain_keeping(&mut captured, KeepPackets { for_pairing: true, ..KeepPackets::default() }).0
        });
        let one_way = pair_captures(ends).remove(0).one_way.expect("captures of both ends");
        assert_eq!((one_way.up.lost, one_way.down.lost), (count, 0));
    }
}
