//! Taps: completeness, order, full disks.

use std::{
    io::Write,
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime},
};

use capture::{Direction, LinkType, Source, pcapng::Reader};
use link::tap::{Tap, TapError};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};

/// A captured packet: its time, direction, original length and bytes.
type Kept = (Duration, Option<Direction>, u32, Vec<u8>);

fn read(path: &Path) -> Vec<Kept> {
    let mut reader = Reader::open(path).expect("the capture");
    let mut packets = Vec::new();
    while let Some(packet) = reader.next().expect("a whole capture") {
        assert_eq!(packet.link, LinkType::RAW);
        packets.push((packet.time, packet.direction, packet.original_len, packet.bytes.to_vec()));
    }
    packets
}

#[test]
fn concurrent_recording_is_complete_and_ordered() {
    const THREADS: u32 = 8;
    const EACH: u32 = 20_000;
    let way = |thread: u32| if thread.is_multiple_of(2) { Direction::Inbound } else { Direction::Outbound };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("busy.pcapng");
    let before = SystemTime::now();
    let tap = Tap::create(&path, "client", None).expect("a tap");
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let tap = &tap;
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut packet = [thread.to_ne_bytes(), number.to_ne_bytes()].concat();
                    packet.resize(8 + number as usize % 1000, 0);
                    tap.record(way(thread), &packet);
                }
            });
        }
    });
    let summary = tap.finish().expect("room for the capture");
    let after = SystemTime::now();

    let packets = read(&path);
    assert_eq!(summary.packets, u64::from(THREADS * EACH));
    assert_eq!(packets.len(), (THREADS * EACH) as usize);
    assert_eq!(summary.bytes, packets.iter().map(|packet| u64::from(packet.2)).sum::<u64>());
    assert!(packets.is_sorted_by_key(|packet| packet.0), "times are not monotonic");
    let mut next = [0; THREADS as usize];
    for (_, direction, _, bytes) in &packets {
        let [thread, number] = [0, 4].map(|at| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
        assert_eq!(number, next[thread as usize], "thread {thread}");
        assert_eq!(*direction, Some(way(thread)));
        next[thread as usize] += 1;
    }
    assert_eq!(next, [EACH; THREADS as usize]);
    let slack = Duration::from_mins(1); // the clock may be set meanwhile
    let epoch = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    assert!(packets[0].0 + slack > epoch(before));
    assert!(packets[packets.len() - 1].0 < epoch(after) + slack);
}

#[test]
fn packet_that_is_recorded_late_is_in_the_order_of_its_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("late.pcapng");
    let tap = Tap::create(&path, "client", None).expect("a tap");
    let start = Instant::now();
    let ms = |count| start + Duration::from_millis(count);
    for (at, number) in [(ms(7), 2), (ms(9), 3), (ms(2), 0), (ms(7), 1), (ms(4), 4)] {
        tap.record_at(at, Direction::Outbound, &[number]);
    }
    tap.finish().expect("room for the capture");
    let kept = read(&path);
    assert_eq!(kept.iter().map(|(.., bytes)| bytes[0]).collect::<Vec<_>>(), [0, 4, 2, 1, 3]);
    let since: Vec<_> = kept.iter().map(|(time, ..)| time.saturating_sub(kept[0].0).as_millis()).collect();
    assert_eq!(since, [0, 2, 5, 5, 7]);
}

#[test]
fn snaplen_truncates_bytes_and_keeps_original_lengths() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("short.pcapng");
    let tap = Tap::create(&path, "server", Some(96)).expect("a tap");
    tap.record(Direction::Inbound, &[7; 1500]);
    tap.record(Direction::Outbound, &[8; 40]);
    let summary = tap.finish().expect("room for the capture");
    assert_eq!((summary.packets, summary.bytes), (2, 1540));
    let kept: Vec<_> = read(&path).into_iter().map(|(_, direction, len, bytes)| (direction, len, bytes)).collect();
    let expected = [(Some(Direction::Inbound), 1500, vec![7; 96]), (Some(Direction::Outbound), 40, vec![8; 40])];
    assert_eq!(kept, expected);
}

#[test]
fn dropped_tap_is_flushed_and_idle_tap_is_a_valid_capture() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("dropped.pcapng");
    let tap = Tap::create(&path, "client", None).expect("a tap");
    assert_eq!(read(&path), []);
    tap.record(Direction::Inbound, b"packet");
    drop(tap);
    assert_eq!(read(&path).len(), 1);
}

#[test]
fn error_says_why_a_capture_cannot_be_created() {
    for (path, why) in [("/nowhere/at/all", "No such file"), ("/dev/full", "No space left")] {
        let error = Tap::create(path.as_ref(), "client", None).err().expect("an error").to_string();
        assert!(error.starts_with(&format!("cannot create the capture {path}: {why}")), "{error}");
    }
}

#[test]
fn full_disk_ends_the_capture_after_a_complete_packet() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = folder.path().to_owned();
    // A mount namespace that ends with this thread.
    let outcome = thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNS) {
            // Not `println!`, which libtest hides for passed tests.
            let why = format!("no mount namespace for a small disk ({error}); run as root to test a full one");
            writeln!(std::io::stderr(), "SKIPPED: {why}").expect("standard error");
            return;
        }
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private mounts");
        mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), Some("size=1M")).expect("a small disk");
        let path = disk.join("full.pcapng");
        let tap = Tap::create(&path, "client", None).expect("a tap");
        for number in 0..3000u32 {
            let mut packet = number.to_ne_bytes().to_vec();
            packet.resize(1001, 0);
            tap.record(Direction::Outbound, &packet);
            if number.is_multiple_of(100) {
                thread::sleep(Duration::from_millis(10)); // so that several buffers go to the disk
            }
        }
        let error = tap.finish().expect_err("the disk is full");
        let TapError::Write { packets, .. } = error else { panic!("{error}") };
        let said = format!("the capture {} ends after {packets} packets, since writing failed", path.display());
        assert!(error.to_string().starts_with(&said), "{error}");
        let kept = read(&path);
        assert_eq!(kept.len() as u64, packets);
        assert!((900..1048).contains(&packets), "1 MiB holds about 1000 packets, not {packets}");
        for (number, (.., bytes)) in kept.iter().enumerate() {
            assert_eq!(bytes[..4], (number as u32).to_ne_bytes());
        }
    });
    outcome.join().expect("no panic");
}
