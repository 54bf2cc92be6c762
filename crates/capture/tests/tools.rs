//! tshark, tcpdump and editcap read our captures, and we read theirs and what they print.

use std::{
    fs,
    io::Write,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use capture::{Direction, LinkType, Source, pcapng::Writer};
use etherparse::{LaxNetSlice, LaxSlicedPacket, PacketBuilder, TcpHeader, TcpOptionElement, TransportSlice};

/// 2026-01-02 03:04:05.123456789 UTC.
const TIME: Duration = Duration::new(1_767_323_045, 123_456_789);

/// A capture of an outbound SYN, truncated to 44 bytes, and an inbound one, at one or two interfaces.
fn capture(interfaces: usize) -> tempfile::NamedTempFile {
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(40_000, 80, 7, 65_000).syn();
    builder.write(&mut packet, &[0; 60]).expect("memory takes all");
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    let cut = writer.interface("client", LinkType::RAW, Some(44)).expect("memory takes all");
    let other = match interfaces {
        1 => cut,
        _ => writer.interface("server", LinkType::RAW, None).expect("memory takes all"),
    };
    writer.packet(cut, TIME, Some(Direction::Outbound), &packet).expect("memory takes all");
    let later = TIME + Duration::from_nanos(1);
    writer.packet(other, later, Some(Direction::Inbound), &packet).expect("memory takes all");
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&writer.into_output()).expect("room for a small file");
    file
}

/// The program's output for the capture, or `None` if it is not installed.
fn run(program: &str, arguments: &[&str], file: &tempfile::NamedTempFile) -> Option<String> {
    let output = output(Command::new(program).args(arguments).arg(file.path()).env("TZ", "UTC"))?;
    Some(String::from_utf8_lossy(&output).into_owned())
}

/// The command's output, or `None` if its program is not installed.
fn output(command: &mut Command) -> Option<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let Ok(output) = command.output() else {
        // libtest hides the output of `println!` in a test that passes.
        writeln!(std::io::stderr(), "SKIPPED: {program} is not installed").expect("standard error");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    Some(output.stdout)
}

#[test]
fn tshark_sees_nanoseconds_lengths_directions_and_names() {
    let fields =
        ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_name", "frame.packet_flags_direction"];
    let mut arguments = vec!["-T", "fields", "-E", "separator=,"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    arguments.push("-r");
    let Some(seen) = run("tshark", &arguments, &capture(2)) else { return };
    let lines: Vec<_> = seen.lines().map(|line| line.replace("0x0000000", "").replace("0x", "")).collect();
    assert_eq!(lines, ["1767323045.123456789,100,44,client,2", "1767323045.123456790,100,100,server,1"]);
}

#[test]
fn tcpdump_sees_nanoseconds() {
    let arguments = ["-n", "-tt", "--time-stamp-precision=nano", "-r"];
    let Some(seen) = run("tcpdump", &arguments, &capture(1)) else { return };
    let times: Vec<_> = seen.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(times, ["1767323045.123456789", "1767323045.123456790"]);
    assert!(seen.contains("10.0.0.1.40000 > 10.0.0.2.80: Flags [S]"), "{seen}");
}

/// A linear congruential generator (Knuth's MMIX): the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Connections with everything that is printed of TCP: with and without handshake, data, retransmissions, selective
/// acknowledgments, timestamps, FINs; and packets of another protocol. Each step depends on the state of both ends.
fn connections(v6: bool) -> Vec<Vec<u8>> {
    let mut random = Random(7);
    let mut packets = Vec::new();
    for connection in 0..12u64 {
        let port = 40_000 + connection as u16;
        let mut next = [random.below(1 << 32) as u32, random.below(1 << 32) as u32];
        let begin = next;
        let handshake = connection % 3 > 0;
        for step in 0..40 {
            let me = if step < 2 { step } else { random.below(2) as usize };
            let (from, to) = if me == 0 { (port, 80) } else { (80, port) };
            let mut tcp = TcpHeader::new(from, to, next[me], random.below(65_536) as u16);
            tcp.acknowledgment_number = next[1 - me];
            tcp.ack = true;
            let mut len = random.below(3) * random.below(1000);
            let stamps = TcpOptionElement::Timestamp(step as u32, 7);
            let mut options = vec![TcpOptionElement::Noop, TcpOptionElement::Noop, stamps];
            match step {
                0 if handshake => {
                    (tcp.syn, tcp.ack, tcp.acknowledgment_number, len) = (true, false, 0, 0);
                    options.splice(
                        ..2,
                        [
                            TcpOptionElement::MaximumSegmentSize(1460),
                            TcpOptionElement::SelectiveAcknowledgementPermitted,
                        ],
                    );
                    options.extend([TcpOptionElement::Noop, TcpOptionElement::WindowScale(7)]);
                }
                1 if handshake => (tcp.syn, len) = (true, 0),
                0 => len += 1, // tcpdump prints the other numbers relative to this segment's
                30.. if me == 0 => tcp.fin = step == 39,
                _ if len > 0 && random.below(5) == 0 && next[me] != begin[me] => {
                    tcp.sequence_number = begin[me].wrapping_add(u32::from(handshake)); // a retransmission
                }
                _ if len == 0 && random.below(2) == 0 => {
                    let edge = next[1 - me].wrapping_add(1000);
                    options.truncate(2);
                    options.push(TcpOptionElement::SelectiveAcknowledgement((edge, edge.wrapping_add(500)), [None; 3]));
                }
                _ => tcp.psh = len > 0,
            }
            tcp.set_options(&options).expect("options that fit");
            let end = tcp.sequence_number.wrapping_add(len as u32 + u32::from(tcp.syn) + u32::from(tcp.fin));
            if end.wrapping_sub(next[me]).cast_signed() > 0 {
                next[me] = end;
            }
            let ends = [[10, 0, 0, 1 + connection as u8], [10, 1, 0, 2]];
            let wide = |end: [u8; 4]| [[0xFD; 12].as_slice(), &end].concat().try_into().expect("sixteen bytes");
            let builder = if v6 {
                PacketBuilder::ipv6(wide(ends[me]), wide(ends[1 - me]), 64)
            } else {
                PacketBuilder::ipv4(ends[me], ends[1 - me], 64)
            };
            let mut packet = Vec::new();
            builder.tcp_header(tcp).write(&mut packet, &vec![0; len as usize]).expect("memory takes all");
            packets.push(packet);
        }
        let mut packet = Vec::new();
        PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(9, 9)
            .write(&mut packet, b"x")
            .expect("memory takes all");
        packets.push(packet);
    }
    packets
}

/// The time of the packet with this index.
fn time(index: usize) -> Duration {
    TIME.saturating_sub(Duration::from_nanos(789))
        + Duration::from_micros(index as u64 * 4999 % 7919 + index as u64 * 8000)
}

/// Writes these packets as a pcapng capture.
fn write(packets: &[Vec<u8>], folder: &Path) -> PathBuf {
    let mut writer = Writer::new(Vec::new()).expect("memory takes all");
    writer.interface("end", LinkType::RAW, None).expect("memory takes all");
    for (index, packet) in packets.iter().enumerate() {
        writer.packet(0, time(index), None, packet).expect("memory takes all");
    }
    let path = folder.join("capture.pcapng");
    fs::write(&path, writer.into_output()).expect("room for a small file");
    path
}

/// A segment: number, time, source, destination, header without checksum, length of its data.
type Segment = (u64, Duration, IpAddr, IpAddr, Vec<u8>, u32);

fn segment(number: u64, time: Duration, ip: &[u8], original_len: u32) -> Option<Segment> {
    let LaxSlicedPacket { net, transport, .. } = LaxSlicedPacket::from_ip(ip).ok()?;
    let (from, to): (IpAddr, IpAddr) = match net? {
        LaxNetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        LaxNetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        LaxNetSlice::Arp(_) => return None,
    };
    let Some(TransportSlice::Tcp(tcp)) = transport else { return None };
    let mut header = tcp.header_slice().to_vec();
    header[16..18].fill(0);
    let rest = original_len - (ip.len() - tcp.payload().len()) as u32;
    Some((number, time, from, to, header, rest))
}

#[test]
fn headers_are_rebuilt_from_tcpdump_output() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for v6 in [false, true] {
        let packets = connections(v6);
        let file = write(&packets, folder.path());
        let sent = |epoch: Duration| {
            let packets = packets.iter().enumerate();
            packets.filter_map(move |(index, ip)| {
                segment(index as u64 + 1, time(index).checked_sub(epoch)?, ip, ip.len() as u32)
            })
        };
        let midnight = Duration::from_hours(24 * (TIME.as_secs() / 86_400));
        let forms: [(&[&str], Duration); 10] = [
            (&["-n"], midnight),
            (&["-n", "-S"], midnight),
            (&["-n", "-tt"], Duration::ZERO),
            (&["-n", "-ttt"], time(0)),
            (&["-n", "-tttt"], Duration::ZERO),
            (&["-n", "-ttttt", "-S"], time(0)),
            (&["-n", "-v", "-ttt"], time(0)),
            (&["-n", "-#"], midnight),
            (&["-n", "-e", "-tt"], Duration::ZERO),
            (&["-n", "-X", "-v", "-S"], midnight),
        ];
        for (form, epoch) in forms {
            let Some(text) = output(Command::new("tcpdump").args(form).arg("-r").arg(&file).env("TZ", "UTC")) else {
                return;
            };
            let printed = folder.path().join("printed");
            fs::write(&printed, &text).expect("room for a small file");
            let mut source = capture::open(&printed, None).expect("a printed capture");
            for sent in sent(epoch) {
                let packet = source.next().unwrap_or_else(|error| panic!("{form:?} {error}")).expect("one more packet");
                let read = segment(packet.number, packet.time, packet.bytes, packet.original_len);
                assert_eq!(read, Some(sent), "{form:?}");
            }
            assert!(matches!(source.next(), Ok(None)), "{form:?}");
        }
    }
}

#[test]
fn captures_of_other_tools_are_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let packets = connections(false);
    let file = write(&packets, folder.path());
    let check = |path: &Path, how: &str| {
        let mut source = capture::open(path, None).expect(how);
        for (index, sent) in packets.iter().enumerate() {
            let packet = source.next().expect(how).expect(how);
            assert_eq!((packet.number, packet.time, packet.bytes), (index as u64 + 1, time(index), &sent[..]), "{how}");
        }
        assert!(matches!(source.next(), Ok(None)), "{how}");
    };
    check(&file, "our own");
    for (format, link) in [("pcap", "rawip"), ("nsecpcap", "rawip"), ("pcapng", "rawip4"), ("snoop", "ether")] {
        let path = folder.path().join(format);
        let convert = ["-F", format, "-T", link];
        let Some(_) = output(Command::new("editcap").args(convert).arg(&file).arg(&path)) else { break };
        check(&path, format);
    }
    for (program, ending) in [("gzip", "gz"), ("zstd", "zst")] {
        let path = folder.path().join(ending);
        let Some(bytes) = output(Command::new(program).arg("-c").arg(&file)) else { continue };
        fs::write(&path, bytes).expect("room for a small file");
        check(&path, program);
    }
}
