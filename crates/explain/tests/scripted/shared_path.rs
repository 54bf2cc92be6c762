//! What several connections show together: a queue, and a link that they share.

use etherparse::{PacketBuilder, TcpOptionElement::Timestamp};
use explain::{Cause, Transfer, pair_captures};

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    ScriptedConnection,
};

fn share(transfer: &Transfer, cause: Cause) -> f64 {
    transfer.times[cause] as f64 / transfer.times.sum() as f64
}

/// A request over a connection whose packets are this much later in each direction.
fn request(port: u16, at: f64, queue: f64) -> ScriptedConnection {
    let mut connection = ScriptedConnection::new(port, 20.0);
    connection.extra_delay = queue;
    let syn = connection.syn(at);
    let syn_ack = connection.syn_ack(syn);
    connection.extra_delay = queue;
    connection.ack(Client, syn_ack);
    connection.extra_delay = queue;
    let arrived = connection.data(Client, syn_ack, b"GET /small HTTP/1.1\r\nHost: here\r\n\r\n");
    let answered = connection.data(Server, arrived + 2.0, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    connection.ack(Client, answered);
    connection
}

#[test]
fn queue_is_told_from_a_long_path_and_a_slow_server() {
    let connections = [request(40_000, 0.0, 0.0), request(40_001, 5000.0, 400.0)];
    for end in [Client, Server] {
        let explanation = Captured::at(&connections, end, 0.0).explained();
        let [empty, queued] = [0, 1].map(|index| &explanation.connections[index].transfers[0]);
        assert_eq!(empty.times[Cause::Queueing], 0, "{end:?}: {:?}", empty.times.ranked());
        assert!(share(queued, Cause::Queueing) > 0.85, "{end:?}: {:?}", queued.times.ranked());
        assert!(queued.times[Cause::ServerThink] < 10_000_000, "{end:?}: {:?}", queued.times.ranked());
        // Alone, the second connection cannot know.
        let alone = Captured::at(&connections[1..], end, 0.0).explained();
        assert_eq!(alone.connections[0].transfers[0].times[Cause::Queueing], 0);
    }
}

/// Downloads to ports 40,000 and 40,001, captured at the client: a packet arrives every millisecond, in bursts of either
/// connection. `queue` is what the round trip of 20 ms takes longer after the start, in ms.
#[allow(clippy::field_reassign_with_default, reason = "one field is private")]
fn two_downloads(queue: u64) -> Captured {
    const START: u64 = 1_700_000_000_000_000_000;
    let mut packets: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut sent = [1_u32, 1];
    for ms in 0..3000_u64 {
        // Each gets the greater part of the link for a while.
        let favours = usize::from(ms / 250 % 2 == 1);
        let which = if ms % 4 == 0 { 1 - favours } else { favours };
        let port = 40_000 + which as u16;
        // What was sent before the capture began has another value.
        let echoed = (1000 + ms).saturating_sub(if ms < 40 { 20 } else { 20 + queue });
        let time = START + ms * 1_000_000;
        let mut data = Vec::new();
        let options = [Timestamp(1000 + ms as u32, 4000 + echoed as u32)];
        let builder = PacketBuilder::ipv4([10, 0, 0, 2], [10, 0, 0, 1], 64).tcp(80, port, sent[which], 60_000).ack(1);
        builder.options(&options).expect("options that fit").write(&mut data, &[b'.'; 1448]).expect("memory");
        sent[which] += 1448;
        let mut ack = Vec::new();
        let options = [Timestamp(5000 + ms as u32, 1000 + ms as u32)];
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(port, 80, 1, 60_000).ack(sent[which]);
        builder.options(&options).expect("options that fit").write(&mut ack, &[]).expect("memory");
        packets.extend([(time, data), (time + 10_000, ack)]);
    }
    let mut captured = Captured::default();
    captured.packets = packets;
    captured
}

#[test]
fn link_is_shared_if_the_sum_is_steady_and_packets_queue() {
    for (queue, is_shared) in [(60, true), (0, false)] {
        let explanation = two_downloads(queue).explained();
        for connection in &explanation.connections {
            let transfer = &connection.transfers[0];
            let shared = share(transfer, Cause::SharedLink);
            assert!(if is_shared { shared > 0.3 } else { shared == 0.0 }, "{queue}: {:?}", transfer.times.ranked());
        }
    }
}

/// An upload in writes 9 ms apart: a small segment, whose acknowledgement is delayed until the eight of the next write come.
/// It echoes the timestamp of the small one.
#[test]
fn delayed_acknowledgement_is_no_queue() {
    const START: u64 = 1_700_000_000_000_000_000;
    let packet = |from: u8, (seq, ack): (u32, u32), stamps: (u64, u64), len: usize| {
        let (ends, ports) = if from == 1 { ([1, 2], [40_000, 80]) } else { ([2, 1], [80, 40_000]) };
        let builder = PacketBuilder::ipv4([10, 0, 0, ends[0]], [10, 0, 0, ends[1]], 64);
        let options = [Timestamp(stamps.0 as u32, stamps.1 as u32)];
        let builder =
            builder.tcp(ports[0], ports[1], seq, 60_000).ack(ack).options(&options).expect("options that fit");
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &vec![b'.'; len]).expect("memory");
        bytes
    };
    let mut captured = Captured::default();
    let mut sent = 1;
    for round in 0..30_u64 {
        let ms = 10 * round;
        let at = |micros: u64| START + ms * 1_000_000 + micros * 1000;
        for segment in 0..8_u64 {
            captured.packets.push((at(segment), packet(1, (sent, 1), (1000 + ms, 5000 + ms - ms.min(1)), 1448)));
            sent += 1448;
        }
        let echoed = if round == 0 { 1000 } else { 1000 + ms - 9 };
        captured.packets.push((at(600), packet(2, (1, sent), (5000 + ms, echoed), 0)));
        captured.packets.push((at(1000), packet(1, (sent, 1), (1001 + ms, 5000 + ms), 35)));
        sent += 35;
    }
    let explanation = captured.explained();
    for transfer in &explanation.connections[0].transfers {
        assert_eq!(transfer.times[Cause::Queueing], 0, "{:?}", transfer.times.ranked());
    }
}

/// A download of four segments at a time, captured at the client, whose program hardly reads: the window shrinks, and each
/// acknowledgement is delayed by 36 ms, although it covers more than two segments.
#[test]
fn acknowledgement_of_a_receiver_that_does_not_read_is_no_queue() {
    const START: u64 = 1_700_000_000_000_000_000;
    let packet = |from: u8, (seq, ack): (u32, u32), stamps: (u64, u64), window: u16, len: usize| {
        let (ends, ports) = if from == 1 { ([1, 2], [40_000, 80]) } else { ([2, 1], [80, 40_000]) };
        let builder = PacketBuilder::ipv4([10, 0, 0, ends[0]], [10, 0, 0, ends[1]], 64);
        let options = [Timestamp(stamps.0 as u32, stamps.1 as u32)];
        let builder =
            builder.tcp(ports[0], ports[1], seq, window).ack(ack).options(&options).expect("options that fit");
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &vec![b'.'; len]).expect("memory");
        bytes
    };
    let mut captured = Captured::default();
    let (mut sent, mut acked) = (1, 1000);
    for round in 0..20_u64 {
        let ms = 56 * round;
        let at = |micros: u64| START + ms * 1_000_000 + micros * 1000;
        for segment in 0..4_u64 {
            captured.packets.push((at(segment * 400), packet(2, (sent, 1), (5000 + ms, acked), 60_000, 1448)));
            sent += 1448;
        }
        // The first ones come at once.
        let late = if round < 3 { 1500 } else { 36_000 };
        acked = 1000 + ms + late / 1000;
        captured.packets.push((at(late), packet(1, (1, sent), (acked, 5000 + ms), 60_000 - 2000 * round as u16, 0)));
    }
    let explanation = captured.explained();
    for transfer in &explanation.connections[0].transfers {
        assert_eq!(transfer.times[Cause::Queueing], 0, "{:?}", transfer.times.ranked());
    }
}

#[test]
fn finding_names_the_other_connections_on_the_link_and_predicts_the_transfer_alone() {
    let paired = pair_captures([two_downloads(60).explained()]);
    let bytes = paired.iter().map(|one| one.connection.transfers[0].bytes).sum::<u64>();
    for paired in &paired {
        let transfer = &paired.connection.transfers[0];
        let finding = transfer.findings.iter().find(|finding| finding.cause == Cause::SharedLink);
        let finding = finding.unwrap_or_else(|| panic!("{:?}", transfer.times.ranked()));
        let [other] = &finding.neighbours[..] else { panic!("{:?}", finding.neighbours) };
        assert_eq!((&*other.server, other.connections), ("10.0.0.2:80", 1));
        assert!(other.bytes.abs_diff(bytes - transfer.bytes) * 20 < bytes, "{} of {bytes}", other.bytes);
        assert!(finding.why.contains("Meanwhile, the client received 2.") && finding.why.contains("(1 connection)"));
        assert_eq!(finding.what_if.as_ref().map(ToString::to_string).as_deref(), Some("alone"));
    }
}
