//! Captures that lack packets which the network did not lose.

use explain::{Cause, Explanation, Side, Transfer, render};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    MSS, ScriptedConnection,
};

/// A download in three flights, in which each pair of segments is acknowledged.
fn download() -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(40_000, 40.0);
    let now = connection.open(0.0);
    let mut now = connection.data(Client, now, b"GET / HTTP/1.1\r\n\r\n") + 5.0;
    for _ in 0..3 {
        let mut arrived = now;
        for _ in 0..5 {
            arrived = connection.bulk(Server, now, 2 * MSS);
            connection.ack(Client, arrived);
            now += 0.3;
        }
        now = arrived + 20.0;
    }
    connection
}

fn is_from(end: End, bytes: &[u8]) -> bool {
    bytes[12..16] == if end == Client { [10, 0, 0, 1] } else { [10, 0, 0, 2] }
}

/// The positions of full segments in a capture.
fn full_segments(captured: &Captured) -> Vec<usize> {
    let packets = captured.packets.iter().enumerate();
    packets.filter(|(_, (_, bytes))| bytes.len() as u64 == 40 + MSS).map(|(index, _)| index).collect()
}

fn transfer(explanation: &Explanation) -> &Transfer {
    &explanation.connections[0].transfers[0]
}

fn assert_nothing_was_lost(explanation: &Explanation, what: &str) {
    for cause in [Cause::FastRecovery, Cause::RetransmissionTimeout] {
        assert_eq!(transfer(explanation).times[cause], 0, "{what}: {:?}", transfer(explanation).times.ranked());
    }
}

#[test]
fn packets_that_the_capture_dropped_are_no_losses() {
    for end in [Client, Server] {
        let whole = Captured::at(&[download()], end, 0.0);
        let full = full_segments(&whole);
        for (first, count) in [(4, 1), (7, 5), (0, 3), (full.len() - 2, 2)] {
            let mut captured = whole.clone();
            for index in full[first..first + count].iter().rev() {
                captured.packets.remove(*index);
            }
            let explanation = captured.explained();
            let what = format!("{end:?}, {count} packets from {first}");
            assert_eq!(explanation.connections[0].uncaptured, count as u64 * MSS, "{what}");
            assert_nothing_was_lost(&explanation, &what);
        }
        assert_eq!(whole.explained().connections[0].uncaptured, 0);
    }
}

#[test]
fn data_that_was_captured_late_is_no_retransmission() {
    // Another processor recorded it: after later data, and after its acknowledgement.
    for (end, late) in [(Client, 700_000), (Server, 700_000), (Server, 41_000_000)] {
        let mut captured = Captured::at(&[download()], end, 0.0);
        let moved = full_segments(&captured)[5];
        captured.packets[moved].0 += late;
        captured.packets.sort_by_key(|(time, _)| *time);
        let explanation = captured.explained();
        assert_eq!(explanation.connections[0].uncaptured, 0);
        assert_nothing_was_lost(&explanation, &format!("{end:?}, {late} ns"));
    }
}

#[test]
fn one_direction_alone_has_no_causes_and_says_so() {
    for (end, side) in [(Client, Side::Client), (Server, Side::Server)] {
        for at in [Client, Server] {
            let mut captured = Captured::at(&[download()], at, 0.0);
            captured.packets.retain(|(_, bytes)| is_from(end, bytes));
            let explanation = captured.explained();
            assert_eq!(explanation.connections[0].only_from, Some(side));
            let transfer = transfer(&explanation);
            assert!(transfer.findings.is_empty() && transfer.cause.is_none());
            assert_eq!(transfer.times[Cause::Propagation], transfer.times.sum());
            let connections = explain::pair_captures([explanation]);
            let layout = render::text::Layout { width: 200, colour: false, top: 5 };
            let text = render::text::render(&connections, 9, &render::PredictionRequest::default(), &layout);
            assert!(text.starts_with("Nothing to explain: 1 connection was captured in one direction only"), "{text}");
        }
    }
}

#[test]
fn notes_say_what_a_capture_lacks() {
    let mut captured = Captured::at(&[download()], Client, 0.0);
    let gap = full_segments(&captured)[4];
    captured.packets.remove(gap);
    let (time, mut copy) = captured.packets[0].clone();
    copy[8] -= 1;
    captured.packets.insert(1, (time + 1000, copy));
    let mut other = Captured::at(&[download()], Client, 0.0);
    other.packets.retain(|(_, bytes)| is_from(Server, bytes));
    for (_, bytes) in &mut other.packets {
        // Another client port.
        bytes[22] = 200;
    }
    captured.packets.extend(other.packets);
    captured.packets.sort_by_key(|(time, _)| *time);
    let explanation = captured.explained();
    let read = [render::ReadCapture { coverage: explanation.coverage, ..Default::default() }];
    let notes = render::notes(&read, &explain::pair_captures([explanation]));
    let begins =
        ["1160 bytes of 1 connection were acknowledged", "1 packet was captured more", "1 connection was captured in"];
    assert_eq!(notes.len(), begins.len(), "{notes:?}");
    assert!(notes.iter().zip(begins).all(|(note, begin)| note.starts_with(begin)), "{notes:?}");
}

#[test]
fn connection_without_answer_is_no_one_sided_capture() {
    let mut captured = Captured::at(&[download()], Client, 0.0);
    captured.packets.truncate(1);
    assert_eq!(captured.explained().connections[0].only_from, None);
}
