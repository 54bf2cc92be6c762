//! Every format, byte order and compression: packets are read as written, and those before an error are returned.

use std::{
    io::{Read, Write},
    time::Duration,
};

use capture::{Error, FORMATS, Format, LinkType, Packet, Source, Summary, pcapng};
use flate2::write::GzEncoder;
use proptest::{collection::vec, prelude::*};

/// A packet to write.
#[derive(Debug, Clone)]
struct Sent {
    seconds: u32,
    micros: u32,
    cut: u32,
    bytes: Vec<u8>,
}

/// A capture format with its variants.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Pcap { big: bool, nanos: bool },
    Snoop,
    Pcapng,
}

const KINDS: [Kind; 6] = [
    Kind::Pcap { big: false, nanos: false },
    Kind::Pcap { big: true, nanos: false },
    Kind::Pcap { big: false, nanos: true },
    Kind::Pcap { big: true, nanos: true },
    Kind::Snoop,
    Kind::Pcapng,
];

fn packets() -> impl Strategy<Value = Vec<Sent>> {
    let packet = (any::<u32>(), 0..1_000_000u32, 0..9u32, vec(any::<u8>(), 0..200));
    vec(packet.prop_map(|(seconds, micros, cut, bytes)| Sent { seconds, micros, cut, bytes }), 0..12)
}

/// A capture of `packets` on Ethernet, and the offsets at which its header and each packet end.
fn write(kind: Kind, packets: &[Sent]) -> (Vec<u8>, Vec<usize>) {
    match kind {
        Kind::Pcap { big, nanos } => {
            let word = |word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() };
            let magic = if nanos { 0xA1B2_3C4D } else { 0xA1B2_C3D4 };
            let version = if big { 0x0002_0004 } else { 0x0004_0002 };
            // The upper half of the link type says that packets end with a check sequence of four bytes.
            let mut file: Vec<_> = [magic, version, 0, 0, 65_535, 0x4400_0001].into_iter().flat_map(word).collect();
            let mut ends = vec![file.len()];
            for sent in packets {
                let len = sent.bytes.len() as u32;
                let fraction = if nanos { sent.micros * 1000 } else { sent.micros };
                file.extend([sent.seconds, fraction, len, len + sent.cut].into_iter().flat_map(word));
                file.extend(&sent.bytes);
                ends.push(file.len());
            }
            (file, ends)
        }
        Kind::Snoop => {
            let mut file = b"snoop\0\0\0\0\0\0\x02\0\0\0\x04".to_vec();
            let mut ends = vec![file.len()];
            for sent in packets {
                let len = sent.bytes.len() as u32;
                let record = 24 + len.next_multiple_of(4);
                let words = [len + sent.cut, len, record, 3, sent.seconds, sent.micros];
                file.extend(words.into_iter().flat_map(u32::to_be_bytes));
                file.extend(&sent.bytes);
                file.resize(ends[ends.len() - 1] + record as usize, 0);
                ends.push(file.len());
            }
            (file, ends)
        }
        Kind::Pcapng => {
            let mut writer = pcapng::Writer::new(Vec::new()).expect("memory takes all");
            writer.interface("eth0", LinkType::ETHERNET, None).expect("memory takes all");
            let mut ends = vec![writer.output().len()];
            for sent in packets {
                let time = Duration::new(u64::from(sent.seconds), sent.micros * 1000);
                writer.packet(0, time, None, &sent.bytes).expect("memory takes all");
                ends.push(writer.output().len());
            }
            (writer.into_output(), ends)
        }
    }
}

/// Checks that `file` has the first of `packets`; returns how many, and how reading ended.
fn read(kind: Kind, file: impl Read + Send, packets: &[Sent]) -> (usize, Result<(), Error>) {
    let mut source = match capture::read(file, "some.capture", None) {
        Ok(source) => source,
        Err(error) => return (0, Err(error)),
    };
    let mut count = 0;
    loop {
        match source.next() {
            Ok(Some(packet)) => {
                let sent = &packets[count];
                let cut = if matches!(kind, Kind::Pcapng) { 0 } else { sent.cut };
                count += 1;
                let expected = Packet {
                    number: count as u64,
                    time: Duration::new(u64::from(sent.seconds), sent.micros * 1000),
                    interface: 0,
                    link: LinkType::ETHERNET,
                    direction: None,
                    original_len: sent.bytes.len() as u32 + cut,
                    bytes: &sent.bytes,
                };
                assert_eq!(packet, expected);
            }
            Ok(None) => return (count, Ok(())),
            Err(error) => {
                assert!(matches!(source.next(), Ok(None)), "nothing follows an error");
                return (count, Err(error));
            }
        }
    }
}

/// Checks the packets and the error of a capture truncated to `cut` bytes.
fn check_cut(kind: Kind, packets: &[Sent], file: &[u8], ends: &[usize], cut: usize) {
    let whole = ends[1..].iter().filter(|end| **end <= cut).count();
    let (read, end) = read(kind, &file[..cut], packets);
    assert_eq!(read, whole, "{kind:?} {cut}");
    match end {
        Ok(()) => assert!(ends.contains(&cut) || cut < ends[0], "{cut} is within a packet"),
        Err(Error::Truncated { packet, .. }) => assert_eq!(packet, whole as u64 + 1),
        Err(Error::Empty { .. }) => assert_eq!(cut, 0, "{kind:?}"),
        Err(Error::Format { .. }) => assert!((1..12).contains(&cut), "{kind:?} {cut}"),
        Err(other) => panic!("{other}"),
    }
}

fn gzip(file: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(file).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn zstd(file: &[u8]) -> Vec<u8> {
    zstd::encode_all(file, 1).expect("memory takes all")
}

/// Returns at most three bytes at a time, as a slow pipe does.
struct SlowPipe<'a>(&'a [u8]);

impl Read for SlowPipe<'_> {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        let len = space.len().min(3);
        self.0.read(&mut space[..len])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_are_read_as_written(packets in packets()) {
        for kind in KINDS {
            let (file, _) = write(kind, &packets);
            let (once, twice) = (gzip(&file), zstd(&file));
            for (read, end) in [
                read(kind, &file[..], &packets),
                read(kind, SlowPipe(&file), &packets),
                read(kind, &once[..], &packets),
                read(kind, &twice[..], &packets),
            ] {
                prop_assert!(end.is_ok(), "{kind:?} {end:?}");
                prop_assert_eq!(read, packets.len());
            }
        }
    }

    #[test]
    fn truncated_capture_has_its_complete_packets_and_an_error(packets in packets(), cut in any::<prop::sample::Index>()) {
        for kind in KINDS {
            let (file, ends) = write(kind, &packets);
            check_cut(kind, &packets, &file, &ends, cut.index(file.len()));
        }
    }

    #[test]
    fn truncated_compressed_capture_has_its_complete_packets_and_an_error(packets in packets(), cut in any::<prop::sample::Index>()) {
        for kind in KINDS {
            let (file, _) = write(kind, &packets);
            for file in [gzip(&file), zstd(&file)] {
                let cut = 4 + cut.index(file.len() - 4);
                let (whole, end) = read(kind, &file[..cut], &packets);
                match end {
                    Err(Error::Truncated { packet, .. }) => prop_assert_eq!(packet, whole as u64 + 1),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }

    #[test]
    fn flipped_bits_never_panic(packets in packets(), flips in vec((any::<prop::sample::Index>(), 0..8u8), 1..20)) {
        for kind in KINDS {
            let (mut file, _) = write(kind, &packets);
            for (byte, bit) in &flips {
                let byte = byte.index(file.len());
                file[byte] ^= 1 << bit;
            }
            for file in [gzip(&file), file] {
                if let Ok(mut source) = capture::read(&file[..], "flipped", None) {
                    let _ = Summary::of(&mut source);
                }
            }
        }
    }

    #[test]
    fn flipped_bits_in_compressed_data_never_panic(packets in packets(), flips in vec((any::<prop::sample::Index>(), 0..8u8), 1..20)) {
        let (file, _) = write(Kind::Snoop, &packets);
        for mut file in [gzip(&file), zstd(&file)] {
            for (byte, bit) in &flips {
                let byte = byte.index(file.len());
                file[byte] ^= 1 << bit;
            }
            if let Ok(mut source) = capture::read(&file[..], "flipped", None) {
                let _ = Summary::of(&mut source);
            }
        }
    }
}

#[test]
fn truncation_is_detected_at_every_byte() {
    let sent = |len| Sent { seconds: 1, micros: 2, cut: 3, bytes: vec![4; len] };
    let packets = [sent(5), sent(0), sent(8)];
    for kind in KINDS {
        let (file, ends) = write(kind, &packets);
        for cut in 0..file.len() {
            check_cut(kind, &packets, &file, &ends, cut);
        }
    }
}

#[test]
fn other_files_are_rejected() {
    for file in [&b"x"[..], b"a text\nof two lines\n", &vec![0; 1 << 20], &gzip(b"a text"), &zstd(&vec![7; 1 << 20])] {
        let error = capture::read(file, "notes", None).err().expect("not a capture").to_string();
        let said = "notes is not a pcap, pcapng, snoop or printed capture; \
                    `editcap -F pcapng` converts most other formats";
        assert_eq!(error, said);
    }
    let error = capture::read(&b""[..], "notes", None).err().expect("not a capture").to_string();
    assert!(error.starts_with("notes is empty; "), "{error}");
    for format in FORMATS {
        let text = &b"a text of no such format"[..];
        let end = capture::read(text, "notes", Some(format)).expect("it opens").next().map(drop);
        assert!(matches!(end, Err(Error::Format { .. })), "{format}: {end:?}");
        assert_eq!(format.name().parse(), Ok(format));
    }
    let error = "erf".parse::<Format>().expect_err("it is not read").to_string();
    assert_eq!(error, "unknown capture format `erf`; use pcap, pcapng, snoop or tcpdump");
}

#[test]
fn false_lengths_allocate_no_memory() {
    let records = [
        (Kind::Pcap { big: false, nanos: false }, vec![1, 0, 16 << 20, 16 << 20]),
        (Kind::Snoop, vec![1, (16 << 20) - 64, 16 << 20, 0, 0, 0].into_iter().map(u32::swap_bytes).collect()),
    ];
    for (kind, record) in records {
        let (mut file, _) = write(kind, &[]);
        file.extend(record.into_iter().flat_map(u32::to_le_bytes));
        let (read, end) = read(kind, &file[..], &[]);
        assert!(matches!(end, Err(Error::Truncated { packet: 1, .. })), "{kind:?} {end:?}");
        assert_eq!(read, 0);
    }
}

#[test]
fn invalid_packet_header_is_an_error_with_the_packet_number() {
    let pcap = Kind::Pcap { big: false, nanos: false };
    let cases = [
        (pcap, vec![1, 0, (16 << 20) + 1, 0], "its length is invalid"),
        (pcap, vec![1, 1_000_000, 0, 0], "its time is invalid"),
        (Kind::Snoop, vec![0, 0, 23, 0, 0, 0], "its lengths are invalid"),
        (Kind::Snoop, vec![0, 5, 28, 0, 0, 0], "its lengths are invalid"),
        (Kind::Snoop, vec![0, 0, 24, 0, 0, 1_000_000], "its time is invalid"),
    ];
    for (kind, record, what) in cases {
        let (mut file, _) = write(kind, &[]);
        let big = matches!(kind, Kind::Snoop);
        file.extend(record.into_iter().flat_map(|word: u32| if big { word.to_be_bytes() } else { word.to_le_bytes() }));
        let (_, end) = read(kind, &file[..], &[]);
        let said = format!("cannot read packet 1 of some.capture: {what}; capture again");
        assert_eq!(end.expect_err("an invalid header").to_string(), said);
    }
}

#[test]
fn capture_without_ip_ends_with_the_link_types_name_and_advice() {
    let sent = [Sent { seconds: 0, micros: 0, cut: 0, bytes: vec![8, 0x41, 3, 4] }];
    let said = |link: u16, is_truncated: bool| {
        let (mut file, _) = write(Kind::Pcap { big: false, nanos: false }, &sent);
        file[20..24].copy_from_slice(&u32::from(link).to_le_bytes());
        file.extend(is_truncated.then_some(7));
        let mut source = capture::read(&file[..], "odd.pcap", None).expect("it opens");
        assert!(source.next().is_ok_and(|packet| packet.is_some_and(|packet| packet.link == LinkType(link))));
        let end = source.next().map(drop);
        assert!(source.next().is_ok_and(|packet| packet.is_none()));
        end.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(
        said(220, false),
        "odd.pcap contains only USB transfers (link type USB_LINUX_MMAPPED), not IP; capture the network interface: \
         `tcpdump -i any -s 200 -w NEW.pcap`"
    );
    assert_eq!(said(220, true), said(220, false));
    assert!(said(10, false).contains("FDDI frames (link type FDDI)"));
    assert!(said(10, false).contains("`editcap -C N -T rawip OLD.pcap NEW.pcap`"));
    assert!(said(105, false).contains("only encrypted 802.11 frames"));
    assert!(said(105, true).contains("-p PASSWORD odd.pcap`"));
    assert_eq!(said(1, false), "");
}

#[test]
fn snoop_link_types_are_recognised() {
    for (datalink, link) in [(0u32, LinkType::ETHERNET), (4, LinkType::ETHERNET), (0x8000_0001, LinkType::IPV4)] {
        let (mut file, _) = write(Kind::Snoop, &[Sent { seconds: 0, micros: 0, cut: 0, bytes: vec![1] }]);
        file[12..16].copy_from_slice(&datalink.to_be_bytes());
        let mut source = capture::read(&file[..], "tunnel", Some(Format::Snoop)).expect("it opens");
        assert_eq!(source.next().expect("it is whole").map(|packet| packet.link), Some(link));
        drop(source);
        file[12] = 0x7F;
        let end = capture::read(&file[..], "odd", None).expect("it opens").next().map(drop);
        assert!(matches!(end, Err(Error::Damaged { packet: 1, .. })), "{end:?}");
    }
}

#[test]
fn packet_longer_than_a_block_is_complete() {
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| at as u8).collect();
    let sent = vec![Sent { seconds: 1, micros: 2, cut: 0, bytes }; 3];
    for kind in KINDS {
        let (file, _) = write(kind, &sent);
        let (read, end) = read(kind, &file[..], &sent);
        assert!(end.is_ok(), "{end:?}");
        assert_eq!(read, 3);
    }
}

#[test]
fn concatenated_compressed_files_are_one_capture() {
    let sent = vec![Sent { seconds: 1, micros: 2, cut: 0, bytes: vec![5; 60] }; 3];
    let (file, ends) = write(Kind::Snoop, &sent);
    let (first, second) = file.split_at(ends[1]);
    for file in [[gzip(first), gzip(second)].concat(), [zstd(first), zstd(second)].concat()] {
        let (read, end) = read(Kind::Snoop, &file[..], &sent);
        assert!(end.is_ok(), "{end:?}");
        assert_eq!(read, 3);
    }
}
