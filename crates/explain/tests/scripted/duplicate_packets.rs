//! Packets that a capture contains more than once, as `tcpdump -i any` records them.

use explain::Explanation;

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

/// Offsets in an IPv4 header.
const IDENTIFICATION: usize = 4;
const TTL: usize = 8;

/// A download with a loss, its duplicate acknowledgements and its repair.
fn lossy() -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(40_000, 40.0);
    let now = connection.open(0.0);
    let asked = connection.data(Client, now, b"GET / HTTP/1.1\r\n\r\n");
    connection.data(Server, asked + 5.0, b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n");
    connection.bulk(Server, asked + 5.0, 4 * MSS);
    connection.lose(Server, asked + 6.0, &[b'x'; MSS as usize]);
    connection.bulk(Server, asked + 6.5, 3 * MSS);
    let arrived = asked + 6.5 + 20.0;
    let mut heard = 0.0;
    for ack in 0..4 {
        heard = connection.ack(Client, arrived + 0.05 * f64::from(ack));
    }
    let repaired = connection.bulk(Server, heard + 0.2, 2 * MSS);
    connection.ack(Client, repaired);
    connection
}

/// Gives each packet another identification.
fn identified(captured: &mut Captured) {
    for (number, (_, bytes)) in captured.packets.iter_mut().enumerate() {
        bytes[IDENTIFICATION..IDENTIFICATION + 2].copy_from_slice(&(number as u16 + 1).to_be_bytes());
    }
}

/// Captures each packet once more, `later` nanoseconds after, having passed a router.
fn doubled(captured: &Captured, later: u64) -> Captured {
    let mut all = captured.clone();
    for (time, bytes) in &captured.packets {
        let mut bytes = bytes.clone();
        bytes[TTL] -= 1;
        all.packets.push((time + later, bytes));
    }
    all.packets.sort_by_key(|(time, _)| *time);
    all
}

fn times(explanation: &Explanation) -> Vec<(u64, explain::CauseTimes)> {
    let transfers = explanation.connections.iter().flat_map(|connection| &connection.transfers);
    transfers.map(|transfer| (transfer.bytes, transfer.times)).collect()
}

#[test]
fn packets_of_any_kind_count_once_when_captured_twice() {
    for end in [Client, Server] {
        for has_identifications in [true, false] {
            let mut whole = Captured::at(&[lossy()], end, 0.0);
            if has_identifications {
                identified(&mut whole);
            }
            let count = whole.packets.len() as u64;
            let single = whole.clone().explained();
            assert_eq!((single.coverage.duplicates, single.connections[0].packets), (0, count));
            for later in [2000, 300_000, 4_000_000] {
                let both = doubled(&whole, later).explained();
                assert_eq!(both.coverage.duplicates, count, "{end:?}, {later} ns, {has_identifications}");
                assert_eq!(both.connections[0].packets, count);
                assert_eq!(times(&both), times(&single));
            }
        }
    }
}

#[test]
fn real_duplicate_acks_and_retransmissions_stay() {
    // The same packet again, by its TCP header, 100 us later.
    let repeated = |has_identifications: bool| {
        let mut captured = Captured::at(&[lossy()], Server, 0.0);
        let again: Vec<_> = captured.packets.iter().map(|(time, bytes)| (time + 100_000, bytes.clone())).collect();
        captured.packets.extend(again);
        captured.packets.sort_by_key(|(time, _)| *time);
        if has_identifications {
            identified(&mut captured);
        }
        let count = captured.packets.len() as u64;
        (captured.explained(), count)
    };
    let (explanation, count) = repeated(true);
    assert_eq!((explanation.coverage.duplicates, explanation.connections[0].packets), (0, count));
    // Without identifications, nobody retransmits data after 100 us, but acknowledgements may be repeated.
    let (explanation, _) = repeated(false);
    let data_and_handshake = 2 + 1 + 1 + 4 + 1 + 3 + 2;
    assert_eq!(explanation.coverage.duplicates, data_and_handshake);
    assert!(explanation.connections[0].packets > data_and_handshake);
}

#[test]
fn resets_without_identification_stay() {
    let mut captured = Captured::at(&[lossy()], Client, 0.0);
    let (time, mut reset) = captured.packets[3].clone();
    reset[33] = 4;
    for count in 0..5 {
        captured.packets.push((time + 200_000_000 + count * 10_000, reset.clone()));
    }
    assert_eq!(captured.explained().coverage.duplicates, 0);
}

#[test]
fn identification_that_never_changes_says_nothing() {
    let mut captured = Captured::at(&[lossy()], Server, 0.0);
    for (_, bytes) in &mut captured.packets {
        bytes[IDENTIFICATION + 1] = 7;
    }
    assert_eq!(captured.explained().coverage.duplicates, 0);
}
