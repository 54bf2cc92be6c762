//! Printed captures give the packets that were printed.

use std::{io::Read, net::IpAddr, time::Duration};

use capture::{Direction, Error, Format, LinkType, Source, Summary};
use etherparse::{LaxNetSlice, LaxSlicedPacket, TransportSlice};
use proptest::{collection::vec, prelude::*};

/// The next packet in a line: number, time, ends (by name if they have one), flags, sequence and acknowledgment number,
/// window, length and options.
fn next_packet(source: &mut dyn Source) -> Result<Option<String>, Error> {
    let Some(packet) = source.next()? else { return Ok(None) };
    assert_eq!(packet.link, LinkType::RAW);
    assert_eq!(packet.network(), Some(packet.bytes));
    let LaxSlicedPacket { net, transport, .. } =
        LaxSlicedPacket::from_ip(packet.bytes).expect("a packet that was made");
    let (from, to): (IpAddr, IpAddr) = match net.expect("IP") {
        LaxNetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        LaxNetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        LaxNetSlice::Arp(_) => panic!("made of a TCP line"),
    };
    let Some(TransportSlice::Tcp(tcp)) = transport else { panic!("made of a TCP line") };
    let flags = [('S', tcp.syn()), ('F', tcp.fin()), ('R', tcp.rst()), ('P', tcp.psh()), ('A', tcp.ack())];
    let flags: String = flags.iter().filter(|(_, set)| *set).map(|(letter, _)| *letter).collect();
    let data = packet.original_len - packet.bytes.len() as u32;
    let (number, micros) = (packet.number, packet.time.as_micros());
    let ends = (tcp.source_port(), tcp.destination_port());
    let numbers = format!("{} {} {} {data}", tcp.sequence_number(), tcp.acknowledgment_number(), tcp.window_size());
    let options = tcp.options().to_vec();
    let name = |address| source.name(address).map_or_else(|| address.to_string(), str::to_owned);
    Ok(Some(format!(
        "{number} {micros} {}.{}>{}.{} {flags} {numbers} {options:?}",
        name(from),
        ends.0,
        name(to),
        ends.1
    )))
}

/// The packets of a text, and how reading ended.
fn read(text: &str) -> (Vec<String>, Result<(), Error>) {
    let mut source = match capture::read(text.as_bytes(), "printed", None) {
        Ok(source) => source,
        Err(error) => return (vec![], Err(error)),
    };
    let mut seen = Vec::new();
    loop {
        match next_packet(&mut source) {
            Ok(Some(line)) => seen.push(line),
            Ok(None) => return (seen, Ok(())),
            Err(error) => {
                assert!(matches!(source.next(), Ok(None)), "nothing follows an error");
                return (seen, Err(error));
            }
        }
    }
}

/// Lines of a report on the web: reordered, with non-breaking spaces, column titles and prose.
const REPORT: &str = "\
We see this in the dump of 2005:

ID    time delta   from       to         prot      port     port
--    --------  ----      --        ----    ----   ----
411\u{a0}\u{a0} 0.00014 host22 -> yangtze TCP D=443 S=1742\u{a0}     Ack=1746871970 Seq=3921650671 Len=1160 Win=17250
417   0.00111 host22 -> yangtze TCP D=443 S=1742     Ack=1746871970 Seq=3921651928 Len=1160 Win=17250
412   0.00006 host22 -> yangtze TCP D=443 S=1742     Ack=1746871970 Seq=3921651831 Len=97 Win=17250
416   0.09311 yangtze -> host22 TCP D=1742 S=443     Ack=3921651928 Seq=1746871970 Len=0 Win=9280
1. In the beginning there was
1   0.00000      host22 -> yangtze  TCP D=443 S=1210 Syn Seq=3359941126 Len=0 Win=16384 Options=<mss 1160,nop,nop,sackOK>
2   0.00006      yangtze -> host22  TCP D=1210 S=443 Syn Ack=3359941127 Seq=1075308152 Len=0 Win=9280 Options=<nop,nop,sackOK,mss 1160>
once more
412   0.00006 host22 -> yangtze TCP D=443 S=1742     Ack=1746871970 Seq=3921651831 Len=97 Win=17250
";

#[test]
fn snoop_lines_are_read_in_the_order_of_their_numbers() {
    let (seen, end) = read(REPORT);
    assert!(end.is_ok(), "{end:?}");
    let expected = [
        "1 0 host22.1210>yangtze.443 S 3359941126 0 16384 0 [2, 4, 4, 136, 1, 1, 4, 2]",
        "2 60 yangtze.443>host22.1210 SA 1075308152 3359941127 9280 0 [1, 1, 4, 2, 2, 4, 4, 136]",
        "411 200 host22.1742>yangtze.443 A 3921650671 1746871970 17250 1160 []",
        "412 260 host22.1742>yangtze.443 A 3921651831 1746871970 17250 97 []",
        "416 93370 yangtze.443>host22.1742 A 1746871970 3921651928 9280 0 []",
        "417 94480 host22.1742>yangtze.443 A 3921651928 1746871970 17250 1160 []",
    ];
    assert_eq!(seen, expected);
}

#[test]
fn snoop_lines_of_other_protocols_advance_the_time() {
    let (seen, end) = read(
        "  1   0.00000       here -> (broadcast)  ARP C Who is 10.0.0.2, there ?\n\
         \x20 2   0.00100       here -> there ETHER Type=0800 (IP), size=60 bytes\n\
         \x20 2   0.00100       here -> there TCP D=80 S=5 Fin Push Ack=1 Win=7\n\
         \x20 3   0.00200   10.0.0.1 -> fe80::2 TCP D=80 S=5 Rst Urg=5 Seq=2 Len=0 Win=7\n",
    );
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(seen[0], "2 1000 here.5>there.80 FPA 0 1 7 0 []");
    assert_eq!(seen[1], "3 3000 ::ffff:10.0.0.1.5>fe80::2.80 R 2 0 7 0 []");
}

#[test]
fn invalid_snoop_line_is_an_error_after_the_packets_before() {
    let whole = "7 0.1 a -> b TCP D=1 S=2 Ack=3 Seq=4 Len=5 Win=6";
    let cases = [
        ("8 0.1 a -> b TCP D=1 S=2 Ack=3 Seq=4", "the line ends before the window"),
        ("8 0.1 a -> b TCP D=1 S=2 Ack=x Seq=4 Len=5 Win=6", "invalid number"),
        ("8 0.1 a -> b TCP D=70000 S=2 Ack=1 Seq=4 Len=5 Win=6", "invalid or too large number"),
        ("8 0.1 a -> b TCP D=1 S=2 Syn Seq=4 Len=0 Win=6 Options=<mss>", "invalid TCP options"),
        ("7 0.1 a -> b TCP D=1 S=2 Ack=3 Seq=5 Len=5 Win=6", "another line has the same number"),
    ];
    for (line, what) in cases {
        let (seen, end) = read(&format!("{whole}\nprose\n{line}\n9 0.1 a -> b UDP\n"));
        assert_eq!(seen, ["7 100000 a.2>b.1 A 4 3 6 5 []"]);
        let said = format!("printed:3: {what}; correct or remove the line");
        assert_eq!(end.expect_err(line).to_string(), said);
    }
    let mut late: Vec<_> = (2..6000).map(|number| format!("{number} 0.0 a -> b UDP")).collect();
    late.push("1 0.0 a -> b UDP".to_owned());
    let (_, end) = read(&late.join("\n"));
    assert!(matches!(end, Err(Error::Line { line: 5999, .. })), "{end:?}");
}

const TCPDUMP: &str = "\
tcpdump: listening on eth0, link-type EN10MB (Ethernet)
03:04:05.000001 IP here.48100 > there.http: Flags [S], seq 7000, win 64240, options [mss 1460,sackOK,TS val 5 ecr 0,nop,wscale 7], length 0
03:04:05.000002 ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28
03:04:05.000101 IP there.http > here.48100: Flags [S.], seq 9000, ack 7001, win 65160, options [mss 1460,nop,nop,sackOK,nop,wscale 7], length 0
03:04:05.000102 IP here.48100 > there.http: Flags [.], ack 1, win 502, length 0
03:04:05.000103 IP here.48100 > there.http: Flags [P.], seq 1:28, ack 1, win 502, length 27: HTTP: GET /, length 5 HTTP/1.1
03:04:05.000204 IP there.http > here.48100: Flags [.], ack 28, win 510, options [nop,nop,sack 1 {40:50}], length 0
00:04:05.000000 IP there.http > here.48100: Flags [F.], seq 1:64001, ack 28, win 510, length 64000
5 packets captured
";

const TCPDUMP_PACKETS: [&str; 6] = [
    "1 11045000001 here.48100>there.80 S 7000 0 64240 0 [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 5, 0, 0, 0, 0, 1, 3, 3, 7]",
    "3 11045000101 there.80>here.48100 SA 9000 7001 65160 0 [2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7]",
    "4 11045000102 here.48100>there.80 A 7001 9001 502 0 []",
    "5 11045000103 here.48100>there.80 PA 7001 9001 502 27 []",
    "6 11045000204 there.80>here.48100 A 9001 7028 510 0 [1, 1, 5, 10, 0, 0, 27, 128, 0, 0, 27, 138]",
    "7 86645000000 there.80>here.48100 FA 9001 7028 510 64000 []",
];

#[test]
fn tcpdump_numbers_become_absolute_and_times_pass_midnight() {
    let (seen, end) = read(TCPDUMP);
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(seen, TCPDUMP_PACKETS);
}

#[test]
fn tcpdump_options_change_the_line_and_all_are_read() {
    let line = "IP6 fe80::1%eth0.5 > there.unheard-of: Flags [R], seq 1, win 0, length 0";
    for (text, expected) in [
        (format!("1767323045.5 {line}"), "1 1767323045500000 fe80::1.5>there.1023 R 1 0 0 0 []"),
        (format!("2026-01-02 03:04:05.5 {line}"), "1 1767323045500000 fe80::1.5>there.1023 R 1 0 0 0 []"),
        (format!("   12  03:04:05.000000 {line}"), "12 11045000000 fe80::1.5>there.1023 R 1 0 0 0 []"),
        (format!("03:04:05 eth0  In  {line}"), "1 11045000000 fe80::1.5>there.1023 R 1 0 0 0 []"),
        (
            "03:04:05.0 IP (tos 0x0, ttl 64, id 1, proto TCP (6), length 60)\n    1.2.3.4.5 > 2.3.4.5.6: Flags [R], cksum 0xfe30 (correct), seq 9, win 0, length 0\n".to_owned(),
            "1 11045000000 1.2.3.4.5>2.3.4.5.6 R 9 0 0 0 []",
        ),
    ] {
        let (seen, end) = read(&text);
        assert!(end.is_ok(), "{end:?}");
        assert_eq!(seen, [expected]);
    }
    let text = format!("03:04:05 eth0  In  {line}");
    let mut source = capture::read(text.as_bytes(), "printed", Some(Format::Tcpdump)).expect("it opens");
    let packet = source.next().expect("it is whole").expect("there is a packet");
    assert_eq!(packet.direction, Some(Direction::Inbound));
}

/// The times of `count` packets that are printed with these microseconds.
fn times(count: usize, micros: impl Fn(usize) -> u64) -> Vec<u64> {
    let line = |at| format!("00:00:00.{:06} IP a.1 > b.2: Flags [R], seq 1, win 0, length 0", micros(at));
    let text = (0..count).map(line).collect::<Vec<_>>().join("\n");
    let mut source = capture::read(text.as_bytes(), "printed", None).expect("it opens");
    let mut times = Vec::new();
    while let Some(packet) = source.next().expect("it is whole") {
        times.push(packet.time.as_micros() as u64);
    }
    times
}

#[test]
fn times_from_0_are_differences_unless_they_never_decrease() {
    assert_eq!(times(4, |at| at as u64), [0, 1, 3, 6]);
    assert_eq!(times(8, |at| at as u64), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(times(9, |at| at as u64 % 3), [0, 1, 3, 3, 4, 6, 6, 7, 9]);
    assert_eq!(times(3, |at| 5 + at as u64), [5, 6, 7]);
    assert_eq!(times(200, |at| at as u64 % 2)[199], 100);
}

#[test]
fn invalid_tcpdump_line_is_an_error_after_the_packets_before() {
    let cases = [
        ("Flags [.], ack 1, win 502", "the line ends before the length"),
        ("Flags [.", "the line ends in the flags"),
        ("Flags [.], ack x, win 502, length 0", "invalid number"),
        ("Flags [.], win 502, length 0", "the flags contradict the acknowledgment"),
        ("Flags [.], seq 1:5, ack 1, win 502, length 3", "the sequence numbers contradict the length"),
        ("Flags [.], ack 1, win 70000, length 0", "invalid or too large number"),
        ("Flags [.], ack 1, win 502, options [mss 1,TS val 3], length 0", "invalid TCP options"),
        ("Flags [.], ack 1, win 502, length 99999999999", "invalid length"),
    ];
    for (rest, what) in cases {
        let line = format!("03:04:06 IP here.48100 > there.http: {rest}");
        let (seen, end) = read(&format!("{TCPDUMP}{line}\n{line}\n"));
        assert_eq!(seen, TCPDUMP_PACKETS, "{line}");
        let said = format!("printed:10: {what}; correct or remove the line");
        assert_eq!(end.expect_err(&line).to_string(), said);
    }
}

#[test]
fn endless_line_needs_bounded_memory() {
    let long = std::io::repeat(b'x').take(100 << 20).chain(&b"\n"[..]).chain(REPORT.as_bytes());
    let mut source = capture::read(long, "printed", Some(Format::Snoop)).expect("it opens");
    assert_eq!(next_packet(&mut source).expect("it is whole").expect("there is a packet")[..4], *"1 0 ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn reordered_snoop_lines_give_the_same_packets(count in 1..300usize, order in vec(any::<prop::sample::Index>(), 300)) {
        let lines: Vec<_> = (1..=count)
            .map(|number| format!("{number} 0.{number:05} a -> b TCP D=80 S=9 Ack=1 Seq={number} Len=3 Win=4"))
            .collect();
        let mut shuffled = lines.clone();
        for (at, with) in order.iter().enumerate().take(count) {
            shuffled.swap(at, with.index(at + 1));
        }
        let (seen, end) = read(&shuffled.join("\n"));
        prop_assert!(end.is_ok());
        prop_assert_eq!(seen, read(&lines.join("\n")).0);
    }

    #[test]
    fn truncated_text_has_its_complete_packets(snoop in any::<bool>(), cut in any::<prop::sample::Index>()) {
        let text = if snoop { REPORT } else { TCPDUMP };
        let cut = text.floor_char_boundary(cut.index(text.len()));
        // A line that is cut within a number may look complete.
        let lines = text[..cut].rfind('\n').map_or("", |end| &text[..=end]);
        let (whole, _) = read(lines);
        let (seen, _) = read(&text[..cut]);
        prop_assert!(seen.len() <= whole.len() + 1, "{:?} {:?}", seen, whole);
        prop_assert!(whole.iter().all(|packet| seen.iter().any(|seen| seen.split(' ').next() == packet.split(' ').next())));
    }

    #[test]
    fn flipped_bits_never_panic(snoop in any::<bool>(), flips in vec((any::<prop::sample::Index>(), 0..8u8), 1..20)) {
        let mut text = if snoop { REPORT } else { TCPDUMP }.as_bytes().to_vec();
        for (byte, bit) in flips {
            let byte = byte.index(text.len());
            text[byte] ^= 1 << bit;
        }
        for format in [None, Some(Format::Snoop), Some(Format::Tcpdump)] {
            if let Ok(mut source) = capture::read(&text[..], "flipped", format) {
                let _ = Summary::of(&mut source);
            }
        }
    }
}

#[test]
fn printed_capture_has_a_summary() {
    let mut source = capture::read(TCPDUMP.as_bytes(), "printed", None).expect("it opens");
    let summary = Summary::of(&mut source).expect("it is whole");
    assert_eq!(summary.connections.len(), 1);
    assert_eq!(summary.connections[0].to_client.packets, 3);
    assert_eq!(summary.connections[0].to_client.bytes, 52 + 52 + 64_040);
    assert_eq!(summary.span.map(|(first, _)| first), Some(Duration::from_micros(11_045_000_001)));
}
