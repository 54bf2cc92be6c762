//! pcapng: packets are read as written, and errors follow the complete packets.

use std::{
    io::{self, Read},
    time::Duration,
};

use capture::{
    Direction, Error, LinkType, Packet, Source, Summary,
    pcapng::{Reader, WholeBlocks, Writer, whole_blocks},
};
use pcap_file::{
    DataLink, Endianness,
    pcapng::{
        PcapNgWriter,
        blocks::{
            enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption},
            interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption},
            simple_packet::SimplePacketBlock,
        },
    },
};
use proptest::{collection::vec, option, prelude::*};

/// A packet to write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    time: Duration,
    interface: u32,
    direction: Option<Direction>,
    bytes: Vec<u8>,
}

const SNAPLENS: [Option<u32>; 3] = [None, Some(96), Some(1)];

fn packets() -> impl Strategy<Value = Vec<Sent>> {
    let direction = prop_oneof![Just(Direction::Inbound), Just(Direction::Outbound)];
    let packet = (any::<u64>(), 0..SNAPLENS.len() as u32, option::of(direction), vec(any::<u8>(), 0..200));
    let packet = packet.prop_map(|(nanos, interface, direction, bytes)| Sent {
        time: Duration::from_nanos(nanos),
        interface,
        direction,
        bytes,
    });
    vec(packet, 0..20)
}

/// A capture of `packets`, and the offset at which each of them ends.
fn write(packets: &[Sent]) -> (Vec<u8>, Vec<usize>) {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    for (number, snaplen) in SNAPLENS.iter().enumerate() {
        let name = format!("end{number}");
        let given = writer.interface(&name, LinkType::RAW, *snaplen).expect("memory takes all");
        assert_eq!(given as usize, number);
    }
    let mut ends = vec![writer.output().len()];
    for packet in packets {
        writer.packet(packet.interface, packet.time, packet.direction, &packet.bytes).expect("memory takes all");
        ends.push(writer.output().len());
    }
    (writer.into_output(), ends)
}

/// The packet that a reader must return for a written one.
fn expected(number: u64, sent: &Sent) -> Packet<'_> {
    let kept = SNAPLENS[sent.interface as usize].map_or(sent.bytes.len(), |len| sent.bytes.len().min(len as usize));
    Packet {
        number,
        time: sent.time,
        interface: sent.interface,
        link: LinkType::RAW,
        direction: sent.direction,
        original_len: sent.bytes.len() as u32,
        bytes: &sent.bytes[..kept],
    }
}

/// Checks that `file` has the first of `packets`; returns how many, and how reading ended.
fn read(file: impl Read, packets: &[Sent]) -> (usize, Result<(), Error>) {
    let mut reader = Reader::new(file, "some.pcapng");
    for (number, sent) in packets.iter().enumerate() {
        match reader.next() {
            Ok(Some(packet)) => assert_eq!(packet, expected(number as u64 + 1, sent)),
            Ok(None) => return (number, Ok(())),
            Err(error) => {
                assert!(matches!(reader.next(), Ok(None)), "nothing follows an error");
                return (number, Err(error));
            }
        }
    }
    (packets.len(), reader.next().map(|packet| assert_eq!(packet, None)))
}

/// Returns one byte at a time, as a slow pipe does.
struct SlowPipe<'a>(&'a [u8]);

impl Read for SlowPipe<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let len = space.len().min(1);
        self.0.read(&mut space[..len])
    }
}

/// Returns all of its bytes, then fails.
struct FailingDisk<'a>(&'a [u8]);

impl Read for FailingDisk<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self.0.read(space)? {
            0 => Err(io::Error::other("the disk is gone")),
            len => Ok(len),
        }
    }
}

proptest! {
    #[test]
    fn packets_are_read_as_written(packets in packets()) {
        let (file, _) = write(&packets);
        let (read_fast, end) = read(&file[..], &packets);
        prop_assert!(end.is_ok());
        prop_assert_eq!(read_fast, packets.len());
        let (read_slow, end) = read(SlowPipe(&file), &packets);
        prop_assert!(end.is_ok());
        prop_assert_eq!(read_slow, packets.len());
    }

    #[test]
    fn truncated_capture_has_its_complete_packets_and_an_error(packets in packets(), cut in any::<prop::sample::Index>()) {
        let (file, ends) = write(&packets);
        let cut = cut.index(file.len());
        let whole = ends[1..].iter().filter(|end| **end <= cut).count();
        let (read, end) = read(&file[..cut], &packets);
        prop_assert_eq!(read, whole);
        match end {
            Ok(()) => prop_assert!(ends.contains(&cut) || cut < ends[0], "{} is within a packet", cut),
            Err(Error::Truncated { packet, .. }) => prop_assert_eq!(packet, whole as u64 + 1),
            Err(Error::Format { .. }) => prop_assert!(cut < 12), // less than a block header
            Err(other) => prop_assert!(false, "{}", other),
        }
        let found = whole_blocks(&file[..cut]);
        prop_assert_eq!(found.packets, whole as u64);
        prop_assert!(found.bytes <= cut);
        if cut >= ends[0] {
            prop_assert_eq!(found, WholeBlocks { bytes: ends[whole], packets: whole as u64 });
        }
    }

    #[test]
    fn read_error_follows_the_complete_packets(packets in packets()) {
        let (file, _) = write(&packets);
        let (read, end) = read(FailingDisk(&file), &packets);
        prop_assert_eq!(read, packets.len());
        let named = matches!(&end, Err(Error::Read { packet, .. }) if *packet == packets.len() as u64 + 1);
        prop_assert!(named, "{:?}", end);
    }

    #[test]
    fn flipped_bits_never_panic(packets in packets(), flips in vec((any::<prop::sample::Index>(), 0..8u8), 1..20)) {
        let (mut file, _) = write(&packets);
        for (byte, bit) in flips {
            let byte = byte.index(file.len());
            file[byte] ^= 1 << bit;
        }
        let _ = Summary::of(&mut Reader::new(&file[..], "flipped.pcapng"));
        whole_blocks(&file);
    }

    #[test]
    fn garbage_never_panics(mut garbage in vec(any::<u8>(), 0..400), begin in any::<bool>()) {
        if begin {
            let (file, ends) = write(&[]);
            garbage.splice(..0, file[..ends[0]].iter().copied());
        }
        let _ = Summary::of(&mut Reader::new(&garbage[..], "garbage"));
    }
}

#[test]
fn interfaces_keep_their_names_and_snaplens() {
    let (file, _) = write(&[]);
    let mut reader = Reader::new(&file[..], "some.pcapng");
    assert!(matches!(reader.next(), Ok(None)));
    let found: Vec<_> = reader.interfaces().iter().map(|known| (known.name.as_deref(), known.snaplen)).collect();
    assert_eq!(found, [(Some("end0"), None), (Some("end1"), Some(96)), (Some("end2"), Some(1))]);
}

#[test]
fn long_name_is_truncated_between_characters() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    writer.interface(&"ä".repeat(40_000), LinkType::RAW, None).expect("memory takes all");
    let file = writer.into_output();
    let mut reader = Reader::new(&file[..], "some.pcapng");
    assert!(matches!(reader.next(), Ok(None)));
    assert_eq!(reader.interfaces()[0].name, Some("ä".repeat(32_767)));
}

#[test]
fn packet_with_unknown_interface_is_rejected() {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    let refused = writer.packet(0, Duration::ZERO, None, b"lost").expect_err("there is no interface 0");
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
}

/// A capture of another machine: its byte order, its time resolution, two sections.
fn foreign(endianness: Endianness) -> Vec<u8> {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).expect("memory takes all");
    for _ in 0..2 {
        let section = writer.section().clone();
        let describe = |options| InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        let milliseconds = vec![InterfaceDescriptionOption::IfTsResol(3), InterfaceDescriptionOption::IfTsOffset(1000)];
        writer.write_pcapng_block(describe(milliseconds)).expect("memory takes all");
        writer.write_pcapng_block(describe(vec![])).expect("memory takes all");
        for interface_id in [0, 1] {
            let block = EnhancedPacketBlock {
                interface_id,
                timestamp: Duration::from_nanos(2_000_001), // pcap-file writes the number of nanoseconds as it is
                original_len: 3,
                data: b"abc".into(),
                options: vec![EnhancedPacketOption::Comment("a comment".into()), EnhancedPacketOption::Flags(2)],
            };
            writer.write_pcapng_block(block).expect("memory takes all");
        }
        writer.write_pcapng_block(section).expect("memory takes all");
    }
    writer.into_inner()
}

#[test]
fn byte_order_and_time_resolution_of_other_machines_are_read() {
    for endianness in [Endianness::Big, Endianness::Little] {
        let file = foreign(endianness);
        let mut reader = Reader::new(&file[..], "foreign.pcapng");
        for _ in 0..2 {
            for (interface, time) in [Duration::new(3000, 1_000_000), Duration::new(2, 1000)].into_iter().enumerate() {
                let packet = reader.next().expect("the file is whole").expect("there is one more packet");
                assert_eq!(packet.time, time);
                assert_eq!(packet.interface as usize, interface);
                assert_eq!(packet.link, LinkType::ETHERNET);
                assert_eq!(packet.direction, Some(Direction::Outbound));
                assert_eq!(packet.bytes, b"abc");
            }
        }
        assert!(matches!(reader.next(), Ok(None)));
    }
}

#[test]
fn simple_packet_has_the_time_of_the_packet_before() {
    let mut writer = PcapNgWriter::new(Vec::new()).expect("memory takes all");
    writer.write_pcapng_block(InterfaceDescriptionBlock::new(DataLink::RAW, 4)).expect("memory takes all");
    let simple = SimplePacketBlock { original_len: 6, data: b"when".into() };
    writer.write_pcapng_block(simple.clone()).expect("memory takes all");
    let timestamp = Duration::from_nanos(7); // pcap-file writes the number of nanoseconds as it is
    let timed = EnhancedPacketBlock { interface_id: 0, timestamp, original_len: 0, data: b"".into(), options: vec![] };
    writer.write_pcapng_block(timed).expect("memory takes all");
    writer.write_pcapng_block(simple).expect("memory takes all");
    let file = writer.into_inner();
    let mut reader = Reader::new(&file[..], "simple.pcapng");
    for (number, micros, len) in [(1, 0, 4), (2, 7, 0), (3, 7, 4)] {
        let packet = reader.next().expect("the file is whole").expect("there is one more packet");
        assert_eq!((packet.number, packet.time), (number, Duration::from_micros(micros)));
        assert_eq!(packet.bytes, &b"when"[..len]);
        assert_eq!(packet.original_len, if len == 0 { 0 } else { 6 });
    }
    assert!(matches!(reader.next(), Ok(None)));
}

#[test]
fn obsolete_packet_block_is_read() {
    let (mut file, _) = write(&[]);
    let block = [2u32, 36, 1 | 5 << 16, 0, 7, 1, 100, u32::from(b'x'), 36]; // five packets were dropped
    file.extend(block.into_iter().flat_map(u32::to_le_bytes));
    let mut reader = Reader::new(&file[..], "old.pcapng");
    let packet = reader.next().expect("the file is whole").expect("there is a packet");
    assert_eq!((packet.interface, packet.time, packet.original_len), (1, Duration::from_nanos(7), 100));
    assert_eq!(packet.bytes, b"x");
}

#[test]
fn other_files_are_rejected() {
    for file in [&b""[..], b"short", b"a text that is long enough to be a header"] {
        let error = Reader::new(file, "notes.txt").next().expect_err("not a capture");
        let said = "notes.txt is not a pcapng capture; `editcap -F pcapng` converts most other formats";
        assert_eq!(error.to_string(), said);
    }
    let error = Reader::open("/nowhere/at/all".as_ref()).expect_err("there is no such file").to_string();
    assert!(error.starts_with("cannot open the capture /nowhere/at/all: No such file"), "{error}");
}

#[test]
fn false_length_allocates_no_memory() {
    let (mut file, ends) = write(&[]);
    file.truncate(ends[0]);
    file.extend(6u32.to_ne_bytes());
    file.extend(((16u32 << 20) - 4).to_ne_bytes());
    file.extend([0; 40]);
    let error = Reader::new(&file[..], "false.pcapng").next().expect_err("an incomplete block");
    assert!(matches!(error, Error::Truncated { packet: 1, .. }), "{error}");
}

/// A block of this kind with these words, then options.
fn block(kind: u32, words: &[u32], options: &[(u16, &[u8])]) -> Vec<u8> {
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (code, value) in options {
        body.extend([*code, value.len() as u16].into_iter().flat_map(u16::to_le_bytes));
        body.extend_from_slice(value);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let len = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &len, &body, &len].concat()
}

#[test]
fn lost_packets_are_counted_as_the_capture_says() {
    let section = || block(0x0A0D_0D0A, &[0x1A2B_3C4D, 1, u32::MAX, u32::MAX], &[]);
    let interface = || block(1, &[101, 0], &[]);
    let statistics = |number: u32, drops: &[(u16, &[u8])]| block(5, &[number, 0, 0], drops);
    let packet = |dropped: &[(u16, &[u8])]| block(6, &[0, 0, 0, 0, 0], dropped);
    let file = [
        section(),
        interface(),
        interface(),
        packet(&[(2, &[1, 0, 0, 0]), (4, &3u64.to_le_bytes())]),
        // Counters count from the start: only the last ones matter.
        statistics(0, &[(5, &4u64.to_le_bytes()), (7, &1u64.to_le_bytes())]),
        statistics(0, &[(4, &99u64.to_le_bytes()), (5, &6u64.to_le_bytes())]),
        statistics(1, &[(7, &2u64.to_le_bytes())]),
        // Of no interface, too short, and unknown.
        statistics(7, &[(5, &1000u64.to_le_bytes())]),
        block(5, &[], &[]),
        statistics(1, &[(5, &[1, 2]), (5, &u64::MAX.to_le_bytes())]),
        section(),
        interface(),
        packet(&[(4, &4u64.to_le_bytes())]),
        block(2, &[0x0005_0000, 0, 0, 0, 0], &[]),
        statistics(0, &[(5, &10u64.to_le_bytes())]),
    ];
    let file = file.concat();
    let mut reader = Reader::new(&file[..], "drops.pcapng");
    let mut packets = 0;
    while let Some(packet) = reader.next().expect("it is whole") {
        packets += 1;
        assert_eq!(packet.direction, (packets == 1).then_some(Direction::Inbound));
    }
    let drops = reader.drops();
    assert_eq!((packets, drops.by_interface, drops.by_system, drops.at_packets), (3, 16, 3, 12));
    assert_eq!(drops.total(), 19);
}
