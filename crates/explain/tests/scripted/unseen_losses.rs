//! Packets that were lost before the capture point, and whose retransmissions fill no gap in the data.

use std::array;

use explain::{Cause, Explanation};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    MSS, ScriptedConnection,
};

const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n";
/// Those of a SYN of Windows.
const WINDOWS_OPTIONS: [u8; 12] = [2, 4, 4, 136, 1, 3, 3, 7, 1, 1, 4, 2];
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer";

fn new() -> ScriptedConnection {
    let mut new = ScriptedConnection::new(40_000, 40.0);
    new.identification = Some([700, 65_530]);
    new
}

fn explained(connection: &ScriptedConnection, end: End) -> Explanation {
    Captured::at(std::slice::from_ref(connection), end, 0.0).explained()
}

/// The milliseconds of these causes.
fn spent<const N: usize>(explanation: &Explanation, causes: [Cause; N]) -> [u64; N] {
    let transfers = || explanation.connections[0].transfers.iter();
    array::from_fn(|index| transfers().map(|transfer| transfer.times[causes[index]]).sum::<u64>() / 1_000_000)
}

/// A request that is sent `think` ms after the handshake, and whose packet is lost `times` times before the server.
/// The answers have as many packets as it takes to see that the client counts.
fn lost_request(connection: &mut ScriptedConnection, think: f64, times: u32) {
    let mut now = connection.open(0.0) + think;
    for retry in 0..times {
        if retry == 0 {
            connection.lose(Client, now, REQUEST);
        } else {
            connection.lose_again(Client, now);
        }
        now += 240.0 * f64::from(1 << retry);
    }
    let arrived = if times > 0 { connection.retransmit(Client, now) } else { connection.data(Client, now, REQUEST) };
    let mut answered = arrived + 1.0;
    for _ in 0..6 {
        answered = connection.data(Server, answered, RESPONSE);
        answered = connection.ack(Client, answered) + 1.0;
    }
}

#[test]
fn lost_request_is_a_timeout_and_no_think_time() {
    let causes = [Cause::RetransmissionTimeout, Cause::ClientThink];
    for (think, times, wanted) in [(0.0, 1, [240, 0]), (1000.0, 1, [240, 1000]), (0.0, 2, [720, 0])] {
        let mut lost = new();
        lost_request(&mut lost, think, times);
        // Both ends tell the same.
        for end in [Client, Server] {
            let found = spent(&explained(&lost, end), causes);
            let is_near = |(found, wanted): (u64, u64)| found.abs_diff(wanted) <= 25;
            assert!(found.into_iter().zip(wanted).all(is_near), "{end:?}, {think} ms, {times}: {found:?}");
        }
    }
}

#[test]
fn client_that_thinks_or_does_not_count_has_lost_nothing() {
    let causes = [Cause::RetransmissionTimeout, Cause::ClientThink];
    // It thinks for as long as a timer takes.
    let mut thinking = new();
    lost_request(&mut thinking, 240.0, 0);
    // Its numbers are used by other connections too.
    let mut shared = new();
    lost_request(&mut shared, 240.0, 0);
    let mut shared = Captured::at(&[shared], Server, 0.0);
    for (index, (_, packet)) in shared.packets.iter_mut().enumerate() {
        packet[4..6].copy_from_slice(&(index as u16 * 3).to_be_bytes());
    }
    // The acknowledgement of the handshake was lost, and not the request.
    let mut lost_ack = new();
    let syn = lost_ack.syn(0.0);
    let opened = lost_ack.syn_ack(syn);
    lost_ack.identification = lost_ack.identification.map(|[client, server]| [client + 1, server]);
    let arrived = lost_ack.data(Client, opened + 240.0, REQUEST);
    let mut answered = arrived + 1.0;
    for _ in 0..6 {
        answered = lost_ack.data(Server, answered, RESPONSE);
        answered = lost_ack.ack(Client, answered) + 1.0;
    }
    // The same numbers, but of a system that counts for all connections: it thinks while others send.
    let mut elsewhere = new();
    lost_request(&mut elsewhere, 0.0, 1);
    let mut elsewhere = Captured::at(&[elsewhere], Server, 0.0);
    for (_, packet) in elsewhere.packets.iter_mut().filter(|(_, packet)| packet[33] & 2 != 0) {
        packet[8] = 128;
        packet[40..52].copy_from_slice(&WINDOWS_OPTIONS);
    }
    let explanations =
        [explained(&thinking, Server), shared.explained(), explained(&lost_ack, Server), elsewhere.explained()];
    for explanation in explanations {
        assert_eq!(spent(&explanation, causes)[0], 0);
    }
}

#[test]
fn lost_window_update_and_answer_to_a_keep_alive_are_no_lost_request() {
    let causes = [Cause::RetransmissionTimeout, Cause::ClientThink];
    for is_update in [true, false] {
        let mut connection = new();
        connection.window = 100;
        let mut now = connection.open(0.0);
        for _ in 0..6 {
            let arrived = connection.data(Client, now, REQUEST);
            let answered = connection.data(Server, arrived + 1.0, RESPONSE);
            now = connection.ack(Client, answered);
        }
        if is_update {
            // The program reads, which makes the window five times as large.
            connection.window = 500;
        } else {
            connection.keep_alive(Server, now);
        }
        connection.lose_ack(Client, now + 100.0);
        let arrived = connection.data(Client, now + 600.0, REQUEST);
        connection.data(Server, arrived + 1.0, RESPONSE);
        let [timeout, think] = spent(&explained(&connection, Server), causes);
        assert!(timeout == 0 && think >= 550, "{timeout} ms, {think} ms");
    }
}

#[test]
fn skipped_number_is_no_lost_request_before_a_timer_can_have_fired() {
    let mut connection = new();
    let mut now = connection.open(0.0);
    for _ in 0..6 {
        let arrived = connection.data(Client, now, REQUEST);
        let answered = connection.data(Server, arrived + 1.0, RESPONSE);
        now = connection.ack(Client, answered);
    }
    connection.lose_ack(Client, now);
    // Seen at the server, that is 140 ms later than it could be; the timer takes 240 ms.
    let arrived = connection.data(Client, now + 100.0, REQUEST);
    connection.data(Server, arrived + 1.0, RESPONSE);
    assert_eq!(spent(&explained(&connection, Server), [Cause::RetransmissionTimeout]), [0]);
}

#[test]
fn lost_end_of_a_response_is_no_idle_sender_before_the_minimum_timeout() {
    let mut connection = new();
    let now = connection.open(0.0);
    let arrived = connection.data(Client, now, REQUEST);
    connection.data(Server, arrived + 1.0, b"HTTP/1.1 200 OK\r\nContent-Length: 5900\r\n\r\n");
    let sent = arrived + 1.2;
    let arrived = connection.bulk(Server, sent, 5 * MSS);
    connection.ack(Client, arrived);
    connection.lose(Server, sent + 0.5, &[b'.'; 100]);
    // A tail loss probe.
    let arrived = connection.retransmit(Server, sent + 82.0);
    connection.ack(Client, arrived);
    let explanation = explained(&connection, Client);
    let [timeout, idle] = spent(&explanation, [Cause::RetransmissionTimeout, Cause::SenderIdle]);
    assert!(timeout >= 75 && idle == 0, "{timeout} ms, {idle} ms");
    let finding = &explanation.connections[0].transfers[0].findings[0];
    assert!(finding.why.contains("tail loss probe"), "{}", finding.why);
    // Probes are on, and no setting of the retransmission timer would have helped.
    assert!(finding.fixes().iter().all(|fix| fix.system == "the path"), "{:?}", finding.fixes());
}

#[test]
fn overtaken_data_is_no_retransmission_however_late() {
    let mut connection = new();
    let mut now = connection.open(0.0);
    for _ in 0..6 {
        let arrived = connection.bulk(Client, now, 2 * MSS);
        now = connection.ack(Server, arrived);
    }
    connection.bulk(Client, now, MSS);
    // Overtaken for longer than half a round trip.
    connection.extra_delay = 35.0;
    connection.data(Client, now + 0.1, &[b'.'; MSS as usize]);
    connection.bulk(Client, now + 0.2, MSS);
    let explanation = explained(&connection, Server);
    assert_eq!(spent(&explanation, [Cause::RetransmissionTimeout, Cause::FastRecovery]), [0, 0]);
}
