//! Captures of headers only, and captures that begin in the middle: what the headers still say.

use explain::{Cause, Connection};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    MSS, ScriptedConnection,
};

/// The bytes of an IPv4 packet's headers without the options of TCP.
const HEADERS: usize = 40;

/// The only connection in a capture of this part of the packets.
fn explained(connection: &ScriptedConnection, end: End, from: usize, snaplen: Option<usize>) -> Connection {
    let mut captured = Captured::at(std::slice::from_ref(connection), end, 0.0);
    captured.packets.drain(..from);
    captured.snaplen = snaplen;
    captured.explained().connections.remove(0)
}

fn share(connection: &Connection, cause: Cause) -> f64 {
    let sum = |of: &dyn Fn(&explain::Transfer) -> u64| connection.transfers.iter().map(of).sum::<u64>() as f64;
    sum(&|transfer| transfer.times[cause]) / sum(&|transfer| transfer.times.sum()).max(1.0)
}

/// An upload of flights of this many bytes, each of which waits for the acknowledgement of the one before.
fn flights(bytes: u64, window: u16) -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(40_000, 50.0);
    let mut now = connection.open(0.0);
    connection.window = window;
    for _ in 0..40 {
        let arrived = connection.bulk(Client, now, bytes);
        now = connection.ack(Server, arrived) + 0.05;
    }
    connection
}

#[test]
fn window_scale_follows_from_the_first_windows_if_the_options_were_cut() {
    for end in [Client, Server] {
        // Half a megabyte, of which little is used.
        let ample = explained(&flights(4 * MSS, 4000), end, 0, Some(HEADERS));
        assert!(ample.knows_window && share(&ample, Cause::ReceiveWindow) == 0.0, "{end:?}");
        // 4736 bytes: four segments, and no fifth.
        let full = explained(&flights(4 * MSS, 37), end, 0, Some(HEADERS));
        assert!(full.knows_window && share(&full, Cause::ReceiveWindow) > 0.9, "{end:?}");
    }
}

#[test]
fn window_of_unknown_scale_is_blamed_if_segments_fill_it_and_not_by_chance() {
    for end in [Client, Server] {
        // 5120 bytes are four segments and 480 bytes, which end exactly where the window does.
        let filled = explained(&flights(5120, 40), end, 30, None);
        assert!(filled.knows_window && share(&filled, Cause::ReceiveWindow) > 0.9, "{end:?}");
        // With a scale of 5, 167 would be 5344 bytes, and no further segment would fit. It is 7.
        let within = explained(&flights(5125, 167), end, 30, None);
        assert!(!within.knows_window && share(&within, Cause::ReceiveWindow) == 0.0, "{end:?}");
    }
}

#[test]
fn flow_control_of_http2_shows_in_the_sizes_of_segments() {
    let mut connection = ScriptedConnection::new(40_000, 50.0);
    connection.window = 4000;
    let mut now = connection.open(0.0);
    connection.data(Client, now, &[b'.'; 150]);
    for _ in 0..12 {
        // Two frames fill half of a window of 65,535 bytes.
        let arrived = connection.bulk(Client, now, 2 * (16_384 + 9));
        connection.ack(Server, arrived);
        // Two window updates.
        now = connection.data(Server, arrived + 0.1, &[b'.'; 26]) + 0.05;
    }
    for end in [Client, Server] {
        let cut = explained(&connection, end, 0, Some(HEADERS));
        assert!(share(&cut, Cause::HttpFlowControl) > 0.6, "{end:?}: {:?}", cut.transfers[0].times.ranked());
        // Where the bytes were captured, and are not HTTP/2, it is another protocol's business.
        let whole = explained(&connection, end, 0, None);
        assert!(share(&whole, Cause::HttpFlowControl) == 0.0, "{end:?}");
    }
}

#[test]
fn window_updates_of_http2_are_read_in_the_middle_of_a_connection() {
    let mut connection = ScriptedConnection::new(40_000, 50.0);
    connection.window = 4000;
    let mut now = connection.open(0.0);
    let update = |stream: u8| [0, 0, 4, 8, 0, 0, 0, 0, stream, 0, 0, 0x80, 0];
    for _ in 0..12 {
        let arrived = connection.bulk(Client, now, 2 * (16_384 + 9));
        connection.ack(Server, arrived);
        now = connection.data(Server, arrived + 0.1, &[update(0), update(1)].concat()) + 0.05;
    }
    for end in [Client, Server] {
        let late = explained(&connection, end, 100, None);
        assert!(share(&late, Cause::HttpFlowControl) > 0.6, "{end:?}: {:?}", late.transfers[0].times.ranked());
    }
}

#[test]
fn nothing_is_blamed_where_nothing_shows_the_round_trip() {
    let mut connection = ScriptedConnection::new(40_000, 50.0);
    connection.window = 4000;
    let mut now = connection.open(0.0);
    for _ in 0..200 {
        let arrived = connection.bulk(Client, now, MSS);
        connection.ack(Server, arrived + 0.01);
        now += 0.4;
    }
    // At the receiver, each segment is acknowledged at once, and the next one comes a moment later.
    let late = explained(&connection, Server, 30, Some(HEADERS));
    assert!(late.is_rtt_unknown && late.transfers.iter().all(|transfer| transfer.findings.is_empty()));
    assert!((share(&late, Cause::Propagation) - 1.0).abs() < 1e-9);
    // At the sender, the acknowledgements show it; so does the handshake.
    assert!(!explained(&connection, Client, 30, Some(HEADERS)).is_rtt_unknown);
    assert!(!explained(&connection, Server, 0, Some(HEADERS)).is_rtt_unknown);
}
