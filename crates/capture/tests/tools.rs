//! The tools that everybody reads captures with read ours.

use std::{io::Write, process::Command, time::Duration};

use capture::{Direction, LinkType, pcapng::Writer};
use etherparse::PacketBuilder;

/// 2026-01-02 03:04:05.123456789 UTC.
const TIME: Duration = Duration::new(1_767_323_045, 123_456_789);

/// A capture of one SYN sent, cut to 44 bytes, and one received, at two interfaces or at one.
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

/// What the program prints of the capture, or `None` where it is not installed.
fn run(program: &str, arguments: &[&str], file: &tempfile::NamedTempFile) -> Option<String> {
    let output = Command::new(program).args(arguments).arg(file.path()).env("TZ", "UTC").output();
    let Ok(output) = output else {
        // Not by `println!`, which libtest hides where a test passes.
        let why = format!("{program} is not installed (Debian package {program}), so it reads nothing here");
        writeln!(std::io::stderr(), "SKIPPED: {why}").expect("standard error");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
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
