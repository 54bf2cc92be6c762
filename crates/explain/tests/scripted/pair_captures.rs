//! Captures of both ends: clock offset, delays, losses, and who delayed acknowledgements.

use std::time::Duration;

use explain::{KeepPackets, PairedConnection, explain_keeping, pair_captures};

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    Line, MSS,
};

/// How far the server's clock is ahead, in milliseconds.
const AHEAD: f64 = 1234.0;

/// A connection captured at both ends, as both captures together explain it.
fn both(line: &Line) -> PairedConnection {
    let captures = [(Client, 0.0), (Server, AHEAD)].map(|(end, ahead)| {
        let mut captured = Captured::at(std::slice::from_ref(line), end, ahead);
        let (explanation, broken) =
            explain_keeping(&mut captured, KeepPackets { for_pairing: true, ..KeepPackets::default() });
        assert!(broken.is_none());
        explanation
    });
    pair_captures(captures).remove(0)
}

/// An upload in writes that wait to be acknowledged, which takes so long at the receiver and so long on the way.
fn held(at_receiver: f64, on_the_way: f64) -> Line {
    let mut line = Line::new(40_000, 40.0);
    let mut now = line.open(0.0) + 1.0;
    for _ in 0..8 {
        let came = line.much(Client, now, 3 * MSS);
        line.held_up = on_the_way;
        now = line.ack(Server, came + at_receiver) + 0.3;
    }
    line
}

fn near(time: Duration, ms: f64) -> bool {
    (time.as_secs_f64() * 1e3 - ms).abs() < 0.5
}

#[test]
fn clock_offset_and_one_way_delays_are_separated() {
    let mut line = Line::new(40_000, 40.0);
    let mut now = line.open(0.0) + 1.0;
    for waits in [0.0, 5.0, 0.0, 0.0, 17.0, 0.0, 0.0] {
        line.held_up = waits;
        let came = line.data(Client, now, b"ask");
        now = line.data(Server, came + 2.0, b"answer") + 3.0;
    }
    let seen = both(&line);
    let delays = seen.one_way.expect("two ends");
    assert!((delays.clock_ahead as f64 / 1e6 - AHEAD).abs() < 0.5, "{delays:?}");
    assert!(near(delays.up.min, 20.0) && near(delays.up.median, 20.0) && near(delays.up.max, 37.0), "{delays:?}");
    assert!(near(delays.down.min, 20.0) && near(delays.down.max, 20.0), "{delays:?}");
    assert_eq!((delays.up.lost, delays.down.lost, delays.captures), (0, 0, [0, 1]));
}

#[test]
fn lost_packet_is_named() {
    let mut line = Line::new(40_000, 40.0);
    let now = line.open(0.0) + 1.0;
    line.data(Client, now, b"first");
    line.lose(Client, now + 1.0, b"second");
    let came = line.again(Client, now + 250.0);
    let now = line.ack(Server, came);
    let came = line.data(Client, now, b"third");
    line.data(Server, came, b"answer");
    let delays = both(&line).one_way.expect("two ends");
    // Behind the handshake's two and the first.
    assert_eq!((delays.up.lost, &delays.up.lost_packets[..], delays.down.lost), (1, &[5][..], 0), "{delays:?}");
    assert!(near(delays.up.max, 20.0), "{delays:?}");
}

#[test]
fn delayed_acks_are_attributed_to_receiver_or_path() {
    let why = |line: &Line| both(line).connection.transfers[0].findings[0].why.clone();
    let by_receiver = why(&held(100.0, 0.0));
    assert!(by_receiver.contains("own capture confirms it: the receiver sent them 100 ms late"), "{by_receiver}");
    let by_path = why(&held(0.1, 100.0));
    assert!(by_path.contains("a device on the path delayed them by 100 ms each"), "{by_path}");
}
