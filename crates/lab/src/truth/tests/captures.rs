//! What a capture says without `explain`, and the captures derived from it.

use std::{path::Path, time::Duration};

use capture::{Direction, LinkType, pcapng::Writer, tcp::Segment};

use crate::truth::{
    facts::{Counted, facts},
    programs::PORT,
    variants::{VARIANTS, derive},
};

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 17;

/// A packet between client and server: when (in ms), from whom, flags, relative sequence number, bytes of data.
type Sent = (u64, bool, u8, u32, usize);

/// A request of 100 bytes, a response of four segments of which the second is lost and repaired, and a late FIN.
const SENT: [Sent; 11] = [
    (0, true, SYN, 0, 0),
    (10, false, SYN | ACK, 0, 0),
    (20, true, ACK, 1, 0),
    (20, true, ACK, 1, 100),
    (30, false, ACK, 1, 1000),
    (30, false, ACK, 2001, 1000),
    (30, false, ACK, 3001, 500),
    (31, true, ACK, 101, 0),
    (60, false, ACK, 1001, 1000),
    (60, false, ACK, 1001, 1000),
    (500, false, FIN, 3501, 0),
];

/// The port of the client.
const FROM: u16 = 40_000;

/// A connection on which two programs agree about a transfer, as those of iperf3 do.
const AGREEMENT: [Sent; 4] =
    [(0, true, SYN, 0, 0), (10, false, SYN | ACK, 0, 0), (15, true, ACK, 1, 40), (900, false, ACK, 1, 300)];

fn packet(client_port: u16, from_client: bool, flags: u8, sequence: u32, data: usize) -> Vec<u8> {
    let (client, server) = ([100, 64, 0, 1], [100, 64, 1, 2]);
    let (from, to) = if from_client { (client, server) } else { (server, client) };
    let (source, destination) = if from_client { (client_port, PORT) } else { (PORT, client_port) };
    let length = (20 + 32 + data) as u16;
    let mut bytes = vec![0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend([from, to].concat());
    bytes.extend([source.to_be_bytes(), destination.to_be_bytes()].concat());
    // An initial sequence number just before the numbers start over.
    bytes.extend((u32::MAX - 500).wrapping_add(sequence).to_be_bytes());
    bytes.extend([0, 0, 0, 1, 8 << 4, flags, 1, 0, 0, 0, 0, 0]);
    bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    bytes.resize(usize::from(length), b'x');
    bytes
}

fn write(file: &Path, connections: &[(u16, &[Sent])]) {
    let mut writer = Writer::new(Vec::new()).expect("memory");
    let interface = writer.interface("client", LinkType::RAW, Some(256)).expect("memory");
    let sent = |(port, sent): &(u16, &[Sent])| sent.iter().map(|one| (*port, *one)).collect::<Vec<_>>();
    let mut all: Vec<(u16, Sent)> = connections.iter().flat_map(sent).collect();
    all.sort_by_key(|(_, (ms, ..))| *ms);
    for (port, (ms, from_client, flags, sequence, data)) in all {
        let direction = if from_client { Direction::Outbound } else { Direction::Inbound };
        let bytes = packet(port, from_client, flags, sequence, data);
        writer.packet(interface, Duration::from_millis(ms), Some(direction), &bytes).expect("memory");
    }
    std::fs::write(file, writer.into_output()).expect("a file");
}

#[test]
fn facts_count_each_byte_once_and_end_with_the_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("client.pcapng");
    write(&file, &[(FROM, &SENT)]);
    let facts = facts(&file, Counted::All).expect("a capture").expect("a connection");
    assert_eq!((facts.bytes, facts.connections, facts.packets), (100 + 3500, 1, 11));
    assert!((facts.duration_s - 0.06).abs() < 1e-9, "{facts:?}");
}

#[test]
fn facts_of_the_largest_connection_leave_out_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("client.pcapng");
    write(&file, &[(FROM - 1, &AGREEMENT), (FROM, &SENT)]);
    let of = |counted| facts(&file, counted).expect("a capture").expect("a connection");
    let (all, largest) = (of(Counted::All), of(Counted::Largest));
    assert_eq!((all.bytes, all.connections, all.packets), (100 + 3500 + 340, 2, 15));
    assert!((all.duration_s - 0.9).abs() < 1e-9, "{all:?}");
    assert_eq!((largest.bytes, largest.connections, largest.packets), (100 + 3500, 1, 11));
    assert!((largest.duration_s - 0.06).abs() < 1e-9, "{largest:?}");
}

/// The data of each packet with a whole TCP header, and the number of packets.
fn derived(name: &str) -> (Vec<u32>, usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("client.pcapng"), folder.path().join("derived.pcap"));
    write(&from, &[(FROM, &SENT)]);
    let (_, _, variant) = VARIANTS.into_iter().find(|(_, known, _)| *known == name).expect("it exists");
    derive(&from, variant, &to).expect("it is derived");
    let mut source = capture::open(&to, None).expect("a capture");
    let (mut data, mut packets) = (Vec::new(), 0);
    while let Some(packet) = source.next().expect("it is whole") {
        packets += 1;
        data.extend(Segment::of(&packet).map(|segment| segment.data));
    }
    (data, packets)
}

#[test]
fn variants_lack_what_such_captures_lack() {
    let all: Vec<u32> = SENT.iter().map(|sent| sent.4 as u32).collect();
    assert_eq!(derived("snaplen-96"), (all.clone(), 11));
    assert_eq!(derived("pcap"), (all.clone(), 11));
    assert_eq!(derived("snaplen-54").1, 11);
    assert_eq!(derived("begun-late").0, all[2..]);
    assert_eq!(derived("one-direction").0, [0, 1000, 1000, 500, 1000, 1000, 0]);
    // 2001 and 3001 follow one another; the repeated segment does not follow itself.
    assert_eq!(derived("merged").0, [0, 0, 0, 100, 1000, 1500, 0, 1000, 1000, 0]);
}
