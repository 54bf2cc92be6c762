//! Captures that are truncated, contain headers only, or have fragmented packets.

use explain::Cause;

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

/// The receiver's delayed-ACK timer, in ms.
const DELAYED_ACK: f64 = 100.0;

/// Eight writes of seven segments and 97 bytes, each of which waits for the acknowledgement of the one before. The
/// program's delay before a write is sometimes longer and sometimes shorter than the handshake's.
fn stalled() -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(40_000, 12.0);
    let mut now = connection.open(0.0) + 0.8;
    for delay in [0.3, 0.11, 0.05, 0.02, 0.4, 0.05, 0.2, 0.01] {
        let mut arrived = now;
        for pair in [2, 2, 2, 1] {
            arrived = connection.bulk(Client, now, pair * MSS);
            if pair == 2 {
                connection.ack(Server, arrived);
            }
            now += 0.2;
        }
        connection.bulk(Client, now, 97);
        now = connection.ack(Server, arrived + DELAYED_ACK) + delay;
    }
    connection
}

#[test]
fn stalled_upload_is_found_wherever_the_capture_ends() {
    for end in [Client, Server] {
        let whole = Captured::at(&[stalled()], end, 0.0);
        for count in 1..=whole.packets.len() {
            let mut part = whole.clone();
            part.packets.truncate(count);
            let explanation = part.explained();
            let Some(transfer) = explanation.connections[0].transfers.first() else { continue };
            let idle = transfer.times[Cause::SenderIdle];
            assert!(idle * 50 < transfer.times.sum(), "{end:?}, {count} packets: {:?}", transfer.times.ranked());
            let held = transfer.times[Cause::DelayedAck];
            assert!(
                held == 0 || transfer.cause == Some(Cause::DelayedAck),
                "{end:?}, {count} packets: {:?}",
                transfer.times.ranked()
            );
            let chunks = explanation.connections[0].packets / 12;
            assert!(
                held >= chunks.saturating_sub(1) * 90_000_000,
                "{end:?}, {count}: {held} ns held in {chunks} chunks"
            );
        }
    }
}

#[test]
fn exchanges_follow_turns_when_capture_has_headers_only() {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    let mut now = connection.open(0.0);
    for (path, bytes) in [("a", 60_000), ("b", 3000)] {
        let request_arrived =
            connection.data(Client, now, format!("GET /{path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes());
        let pad = "x".repeat(200);
        let head = format!("HTTP/1.1 200 OK\r\nServer: {pad}\r\nContent-Length: {bytes}\r\n\r\n");
        connection.data(Server, request_arrived + 30.0, head.as_bytes());
        now = connection.bulk(Server, request_arrived + 30.0, bytes) + 5.0;
        connection.ack(Client, now - 5.0);
    }
    for end in [Client, Server] {
        let mut captured = Captured::at(&[connection.clone()], end, 0.0);
        captured.snaplen = Some(100);
        let transfers = &captured.explained().connections[0].transfers;
        let result: Vec<_> = transfers.iter().map(|transfer| (&*transfer.request, transfer.bytes > 2900)).collect();
        assert_eq!(result, [("GET /a", true), ("GET /b", true)], "{end:?}");
        assert!(transfers.iter().all(|transfer| transfer.times[Cause::ServerThink] > 25_000_000), "{end:?}");
    }
}

#[test]
fn lost_head_of_a_response_counts_although_it_comes_after_the_body() {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    let now = connection.open(0.0);
    let request_arrived = connection.data(Client, now, b"GET /a HTTP/1.1\r\nHost: here\r\n\r\n");
    let head = format!("HTTP/1.1 200 OK\r\nServer: {}\r\nContent-Length: 23200\r\n\r\n", "x".repeat(200));
    connection.lose(Server, request_arrived + 1.0, head.as_bytes());
    let repaired = connection.retransmit(Server, request_arrived + 60.0);
    connection.bulk(Server, request_arrived + 1.0, 23_200);
    connection.ack(Client, repaired);
    let mut captured = Captured::at(&[connection], Client, 0.0);
    captured.snaplen = Some(54);
    let transfers = &captured.explained().connections[0].transfers;
    let bytes: Vec<u64> = transfers.iter().map(|transfer| transfer.bytes).collect();
    assert_eq!(bytes, [31 + head.len() as u64 + 23_200], "{transfers:?}");
}

/// Fragments packets with a payload of more than `max` bytes (RFC 791 §3.2).
fn fragmented(captured: &Captured, max: usize) -> Captured {
    let mut all = Captured::default();
    for (number, (time, bytes)) in captured.packets.iter().enumerate() {
        let pieces: Vec<_> = bytes[20..].chunks(max).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let mut header = bytes[..20].to_vec();
            header[2..4].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
            header[4..6].copy_from_slice(&(number as u16).to_be_bytes());
            let more = u16::from(index + 1 < pieces.len()) << 13;
            header[6..8].copy_from_slice(&(more | (index * max / 8) as u16).to_be_bytes());
            all.packets.push((*time, [&header, *piece].concat()));
        }
    }
    all
}

#[test]
fn fragments_are_explained_like_whole_packets() {
    let whole = Captured::at(&[stalled()], Server, 0.0);
    let cut = fragmented(&whole, 560);
    assert!(cut.packets.len() > whole.packets.len() + 50);
    let result = |captured: Captured| {
        let explanation = captured.explained();
        let transfers = explanation.connections.iter().flat_map(|connection| &connection.transfers);
        transfers.map(|transfer| (transfer.bytes, transfer.times)).collect::<Vec<_>>()
    };
    assert_eq!(result(cut), result(whole));
}

/// Four segments per round trip. The window field is shifted by 7, as the SYN announced.
fn four_segments_per_round_trip(window: u16) -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(40_000, 50.0);
    connection.window = window;
    let mut now = connection.open(0.0);
    for _ in 0..40 {
        let arrived = connection.bulk(Client, now, 4 * MSS);
        now = connection.ack(Server, arrived) + 0.05;
    }
    connection
}

#[test]
fn window_is_blamed_without_a_handshake_only_if_the_sender_stops_at_its_end() {
    let share = |window: u16, end, from: usize| {
        let mut captured = Captured::at(&[four_segments_per_round_trip(window)], end, 0.0);
        captured.packets.drain(..from);
        let connection = &captured.explained().connections[0];
        let transfer = &connection.transfers[0];
        (connection.knows_window, transfer.times[Cause::ReceiveWindow] as f64 / transfer.times.sum() as f64)
    };
    for end in [Client, Server] {
        for from in [0, 30] {
            // 4736 bytes: four segments, and no fifth.
            let (is_known, full) = share(37, end, from);
            assert!(is_known && full > 0.9, "{end:?}, from packet {from}: {full}");
            // Half a megabyte; unscaled it would be less than was in flight.
            let (is_known, full) = share(4000, end, from);
            assert!(is_known == (from == 0) && full == 0.0, "{end:?}, from packet {from}: {full}");
        }
    }
}
