//! Hosts and cables with real kernels at both ends.

mod common;

use std::{
    collections::HashMap,
    io::Write,
    net::{IpAddr, TcpListener, TcpStream, UdpSocket},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use capture::Source as _;
use common::{PATIENCE, Result, ask, echo, noise, transfer};
use futures_util::TryStreamExt;
use libtest_mimic::Failed;
use link::{
    cable::{Cable, Options},
    host::Host,
    lanes::Lanes,
    packet::Packet,
    spec::LinkSpec,
    stage::{Direction, Out, Stage},
    stages::{Delay, Effect, Loss, Rng},
    tap::Tap,
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use rtnetlink::LinkUnspec;

fn main() {
    common::run(&[
        ("both_address_families_reach_the_other_host", both_address_families_reach_the_other_host),
        ("a_host_without_ipv6_has_cables_of_ipv4", a_host_without_ipv6_has_cables_of_ipv4),
        ("no_packet_arrives_early", no_packet_arrives_early),
        ("no_packet_of_a_burst_arrives_early", no_packet_of_a_burst_arrives_early),
        ("transfer_over_a_lossy_cable_is_intact", transfer_over_a_lossy_cable_is_intact),
        ("segments_pass_unsplit_only_without_stages_and_taps", segments_pass_unsplit_only_without_stages_and_taps),
        ("large_mtu_carries_large_packets", large_mtu_carries_large_packets),
        ("tap_records_every_packet_as_on_the_wire", tap_records_every_packet_as_on_the_wire),
        ("captures_never_show_less_than_the_delay", captures_never_show_less_than_the_delay),
        ("connection_starts_with_the_hosts_initial_window", connection_starts_with_the_hosts_initial_window),
        ("changed_cable_loses_no_packet_in_flight", changed_cable_loses_no_packet_in_flight),
        ("many_changes_reorder_no_packet", many_changes_reorder_no_packet),
        ("packets_dropped_by_a_full_device_are_counted", packets_dropped_by_a_full_device_are_counted),
        ("cable_reports_a_removed_device", cable_reports_a_removed_device),
        ("cable_reports_a_panic_of_a_stage", cable_reports_a_panic_of_a_stage),
        ("middle_host_forwards_packets", middle_host_forwards_packets),
        ("a_middle_host_without_ipv6_forwards", a_middle_host_without_ipv6_forwards),
        ("programs_run_on_a_host", programs_run_on_a_host),
    ]);
}

fn delay(ms: u64) -> Box<dyn Stage> {
    Box::new(Delay::new(Duration::from_millis(ms)))
}

fn loss(percent: &str) -> Box<dyn Stage> {
    Box::new(Loss::new(percent.parse().unwrap(), Rng::new(7, Effect::Loss, Direction::Up)))
}

/// Two hosts and a cable, with the same stages in both directions.
fn lay(stages: impl Fn() -> Vec<Box<dyn Stage>>) -> Result<(Host, Host, Cable)> {
    lay_tapped(stages, [None, None])
}

fn lay_tapped(stages: impl Fn() -> Vec<Box<dyn Stage>>, taps: [Option<Arc<Tap>>; 2]) -> Result<(Host, Host, Cable)> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let lanes = Lanes { up: stages().into(), down: stages().into() };
    let cable = Cable::connect(&a, &b, lanes, &Options { taps, ..Options::default() })?;
    Ok((a, b, cable))
}

fn both_address_families_reach_the_other_host() -> Result<(), Failed> {
    let (a, b, cable) = lay(Vec::new)?;
    let [_, at_b] = cable.addresses();
    for ip in [IpAddr::V4(at_b.v4), IpAddr::V6(at_b.v6)] {
        ask(&a, echo(&b, ip)?, PATIENCE)?;
    }
    Ok(())
}

fn a_host_without_ipv6_has_cables_of_ipv4() -> Result<(), Failed> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    for host in [&a, &b] {
        for which in ["all", "default"] {
            host.sysctl(&format!("net.ipv6.conf.{which}.disable_ipv6"), "1")?;
        }
    }
    let cable = Cable::connect(&a, &b, Lanes::default(), &Options::default())?;
    ask(&a, echo(&b, cable.addresses()[1].v4.into())?, PATIENCE)?;
    Ok(())
}

fn no_packet_arrives_early() -> Result<(), Failed> {
    let (a, b, cable) = lay(|| vec![delay(9)])?;
    let address = echo(&b, cable.addresses()[1].v4.into())?;
    for _ in 0..20 {
        let took = ask(&a, address, PATIENCE)?;
        assert!(took >= Duration::from_millis(18), "a round trip of 18 ms took {took:?}");
    }
    Ok(())
}

/// A single packet wakes the relay, which matches it with its timestamp. In a burst the relay does not sleep, and the
/// device's queue overflows. In no case may a packet be early.
fn no_packet_of_a_burst_arrives_early() -> Result<(), Failed> {
    const DELAY: Duration = Duration::from_millis(5);
    let (a, b, cable) = lay(|| vec![delay(5)])?;
    let ip = cable.addresses()[1].v4;
    let receiver = b.run(move || UdpSocket::bind((ip, 0)))??;
    let address = receiver.local_addr()?;
    let start = Instant::now();
    let over = Arc::new(AtomicBool::new(false));
    let heard_all = over.clone();
    let sender = a.thread("sender", move || -> std::io::Result<()> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        for burst in (0..60).map(|n| n % 7).chain([100, 1, 30_000, 1, 3, 1]) {
            for _ in 0..burst {
                let sent = start.elapsed().as_nanos() as u64;
                socket.send_to(&sent.to_ne_bytes(), address)?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // A slow receiver loses some packets.
        while !heard_all.load(Ordering::Relaxed) && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(300));
            socket.send_to(b"end", address)?;
        }
        Ok(())
    })?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = [0; 8];
    let mut heard = 0;
    while receiver.recv(&mut buffer)? == 8 {
        let took = start.elapsed().saturating_sub(Duration::from_nanos(u64::from_ne_bytes(buffer)));
        assert!(took >= DELAY, "the packet {heard} of a cable of 5 ms took {took:?}");
        heard += 1;
    }
    over.store(true, Ordering::Relaxed);
    sender.join().map_err(|_| "the sender panicked")??;
    assert!(heard > 200, "{heard} packets arrived");
    Ok(())
}

fn transfer_over_a_lossy_cable_is_intact() -> Result<(), Failed> {
    let (a, b, cable) = lay(|| vec![delay(2), loss("2%")])?;
    let bytes = noise(3_000_000);
    assert!(transfer(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes, "the bytes differ");
    assert!(transfer(&b, &a, cable.addresses()[0].v6.into(), bytes.clone())? == bytes, "the bytes differ");
    let [up, down] = cable.disconnect()?;
    assert!(
        up.packets_out < up.packets_in && down.packets_out < down.packets_in,
        "no packet was lost: {up:?} {down:?}"
    );
    Ok(())
}

fn segments_pass_unsplit_only_without_stages_and_taps() -> Result<(), Failed> {
    let bytes = noise(10_000_000);
    let average = |stages: fn() -> Vec<Box<dyn Stage>>| -> Result<([bool; 2], u64)> {
        let (a, b, cable) = lay(stages)?;
        let whole = cable.passes_segments_unsplit();
        assert!(transfer(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes);
        let [up, _] = cable.disconnect()?;
        Ok((whole, up.bytes_out / up.packets_out))
    };
    let (whole, size) = average(|| vec![delay(1)])?;
    assert!(whole == [true, true] && size > 3000, "{whole:?}, {size} bytes a packet");
    let (whole, size) = average(|| vec![delay(1), loss("0%")])?;
    assert!(whole == [false, false] && size <= 1500, "{whole:?}, {size} bytes a packet");
    Ok(())
}

fn large_mtu_carries_large_packets() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let bytes = noise(2_000_000);
    for mtu in ["9000", "65535"] {
        let path = folder.path().join(mtu).with_extension("pcapng");
        let tap = Arc::new(Tap::create(&path, "a", None)?);
        let spec = LinkSpec { mtu: mtu.parse().ok(), rtt: "2ms".parse()?, ..LinkSpec::default() };
        let (a, b) = (Host::new("a")?, Host::new("b")?);
        let options = Options { mtu: spec.device_mtu(), taps: [Some(tap.clone()), None], ..Options::default() };
        let cable = Cable::connect(&a, &b, spec.lanes()?, &options)?;
        let to = cable.addresses()[1];
        assert!(transfer(&a, &b, to.v4.into(), bytes.clone())? == bytes, "the bytes differ");
        assert!(transfer(&a, &b, to.v6.into(), bytes.clone())? == bytes, "the bytes differ");
        // The largest datagram: 20 bytes of IP and 8 of UDP in front of it.
        let mtu: usize = mtu.parse()?;
        let receiver = b.run(move || UdpSocket::bind((to.v4, 0)))??;
        receiver.set_read_timeout(Some(PATIENCE))?;
        let (address, datagram) = (receiver.local_addr()?, noise(mtu - 28));
        let sent = datagram.clone();
        a.run(move || UdpSocket::bind("0.0.0.0:0")?.send_to(&sent, address))??;
        let mut buffer = vec![0; mtu];
        let length = receiver.recv(&mut buffer)?;
        assert!(buffer[..length] == datagram, "the datagram differs");
        cable.disconnect()?;
        drop((tap, options)); // writes the rest of the capture
        let mut reader = capture::pcapng::Reader::open(&path)?;
        // TCP over IPv4, TCP over IPv6, and UDP.
        let mut largest = [0; 3];
        while let Some(packet) = reader.next()? {
            let kind = if packet.bytes[0] >> 4 == 6 { 1 } else { 2 * usize::from(packet.bytes[9] == 17) };
            largest[kind] = largest[kind].max(packet.original_len as usize);
        }
        assert!(largest.iter().all(|length| (mtu - 60..=mtu).contains(length)), "{largest:?} of {mtu}");
        assert_eq!(largest[2], mtu);
    }
    Ok(())
}

fn tap_records_every_packet_as_on_the_wire() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let paths = ["a", "b"].map(|end| folder.path().join(end).with_extension("pcapng"));
    let taps = [Arc::new(Tap::create(&paths[0], "a", None)?), Arc::new(Tap::create(&paths[1], "b", None)?)];
    let (a, b, cable) = lay_tapped(|| vec![delay(1)], [Some(taps[0].clone()), Some(taps[1].clone())])?;
    let bytes = noise(5_000_000);
    assert!(transfer(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes);
    let [up, down] = cable.disconnect()?;
    let expected = [(up.packets_in, down.packets_out), (down.packets_in, up.packets_out)];
    for ((tap, path), (outbound, inbound)) in taps.into_iter().zip(&paths).zip(expected) {
        let summary = Arc::try_unwrap(tap).map_err(|_| "the relay still holds the tap")?.finish()?;
        assert_eq!(summary.packets, outbound + inbound);
        let mut reader = capture::pcapng::Reader::open(path)?;
        let mut last = Duration::ZERO;
        let mut seen = 0;
        while let Some(packet) = reader.next()? {
            assert!(packet.time >= last, "time runs backwards");
            assert!(packet.bytes.len() <= 1500 && packet.bytes.len() == packet.original_len as usize);
            last = packet.time;
            seen += 1;
        }
        assert_eq!(seen, summary.packets);
    }
    Ok(())
}

/// The packets of a capture in one direction, with their times. Each is unlike all others.
fn times(path: &Path, direction: capture::Direction) -> Result<HashMap<Vec<u8>, Duration>> {
    let mut reader = capture::pcapng::Reader::open(path)?;
    let mut times = HashMap::new();
    while let Some(packet) = reader.next()? {
        if packet.direction == Some(direction) {
            times.insert(packet.bytes.to_vec(), packet.time);
        }
    }
    Ok(times)
}

fn captures_never_show_less_than_the_delay() -> Result<(), Failed> {
    const DELAY: Duration = Duration::from_millis(20);
    const PACKETS: u32 = 240;
    const BURST: u32 = 8;
    let folder = tempfile::tempdir()?;
    let paths = ["a", "b"].map(|end| folder.path().join(end).with_extension("pcapng"));
    let taps = [Arc::new(Tap::create(&paths[0], "a", None)?), Arc::new(Tap::create(&paths[1], "b", None)?)];
    let (a, b, cable) = lay_tapped(|| vec![Box::new(Delay::new(DELAY))], taps.map(Some))?;
    let address = echo(&b, cable.addresses()[1].v4.into())?;
    let is_over = AtomicBool::new(false);
    // Other programs want the processors, too.
    thread::scope(|scope| -> Result<()> {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let asked = a.run(move || -> std::io::Result<()> {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.set_read_timeout(Some(PATIENCE))?;
            // The relay sleeps between bursts, and reads the first packet of each late.
            for burst in 0..PACKETS / BURST {
                for number in 0..BURST {
                    socket.send_to(&(burst * BURST + number).to_ne_bytes(), address)?;
                }
                for _ in 0..BURST {
                    socket.recv(&mut [0; 100])?;
                }
            }
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        Ok(asked??)
    })?;
    drop(cable); // and with it the last references to the taps
    let mut compared = 0;
    for [from, to] in [[&paths[0], &paths[1]], [&paths[1], &paths[0]]] {
        let arrived = times(to, capture::Direction::Inbound)?;
        for (packet, sent) in times(from, capture::Direction::Outbound)? {
            let Some(arrived) = arrived.get(&packet) else { continue };
            let took = arrived.saturating_sub(sent);
            assert!(took >= DELAY, "the captures show {took:?} on the way from {}", from.display());
            compared += 1;
        }
    }
    assert!(compared >= 2 * PACKETS, "{compared} packets are in both captures");
    Ok(())
}

fn connection_starts_with_the_hosts_initial_window() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.pcapng");
    for (window, v6) in [(None, false), (Some(3), false), (Some(5), true)] {
        let tap = Arc::new(Tap::create(&path, "a", None)?);
        let (a, b, cable) = lay_tapped(|| vec![delay(50)], [Some(tap), None])?;
        window.map_or(Ok(()), |segments| a.initial_window(segments))?;
        let to = cable.addresses()[1];
        transfer(&a, &b, if v6 { to.v6.into() } else { to.v4.into() }, noise(50_000))?;
        cable.disconnect()?;
        let mut reader = capture::pcapng::Reader::open(&path)?;
        let mut sent = 0;
        while let Some(packet) = reader.next()? {
            match packet.direction {
                Some(capture::Direction::Outbound) => sent += u32::from(packet.original_len > 1000),
                _ if sent > 0 => break,
                _ => {}
            }
        }
        assert_eq!(sent, window.unwrap_or(10), "segments before the first acknowledgement");
    }
    Ok(())
}

fn changed_cable_loses_no_packet_in_flight() -> Result<(), Failed> {
    let (a, b, cable) = lay(|| vec![delay(200)])?;
    let ip = cable.addresses()[1].v4;
    let socket = b.run(move || UdpSocket::bind((ip, 0)))??;
    socket.set_read_timeout(Some(PATIENCE))?;
    let address = socket.local_addr()?;
    let send = |text: &'static [u8]| a.run(move || UdpSocket::bind("0.0.0.0:0")?.send_to(text, address));
    send(b"slow")??;
    // Long enough for the relay to read it, even on a busy machine.
    std::thread::sleep(Duration::from_millis(50));
    cable.change(Lanes { up: vec![delay(0)].into(), down: vec![loss("100%")].into() })?;
    std::thread::sleep(Duration::from_millis(50));
    send(b"fast")??;
    let mut heard = Vec::new();
    for _ in 0..2 {
        let mut buffer = [0; 10];
        let length = socket.recv(&mut buffer)?;
        heard.push(buffer[..length].to_vec());
    }
    assert_eq!(heard, [b"slow", b"fast"]);
    assert!(ask(&a, echo(&b, ip.into())?, Duration::from_millis(300)).is_err(), "a link that is down carried a packet");
    cable.change(Lanes::default())?;
    std::thread::sleep(Duration::from_millis(50));
    ask(&a, echo(&b, ip.into())?, PATIENCE)?;
    Ok(())
}

/// A change takes effect between two packets, whether segments are split or not.
fn many_changes_reorder_no_packet() -> Result<(), Failed> {
    let (a, b, cable) = lay(|| vec![delay(3)])?;
    let ip = cable.addresses()[1].v4;
    let receiver = b.run(move || UdpSocket::bind((ip, 0)))??;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let address = receiver.local_addr()?;
    let listener = b.run(move || TcpListener::bind((ip, 0)))??;
    let stream_address = listener.local_addr()?;
    let sender = a.thread("sender", move || -> std::io::Result<()> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let mut stream = TcpStream::connect_timeout(&stream_address, PATIENCE)?;
        for n in 0..600u32 {
            socket.send_to(&n.to_be_bytes(), address)?;
            stream.write_all(&[7; 10_000])?; // segments that are not split without stages
            std::thread::sleep(Duration::from_micros(500));
        }
        Ok(())
    })?;
    let numbers = b.thread("receiver", move || {
        let mut buffer = [0; 4];
        (0..600)
            .map(|_| receiver.recv(&mut buffer).map(|_| u32::from_be_bytes(buffer)))
            .collect::<std::io::Result<Vec<_>>>()
    })?;
    let reader = b.thread("reader", move || {
        let (mut stream, _) = listener.accept()?;
        std::io::copy(&mut stream, &mut std::io::sink())
    })?;
    for n in 0..60 {
        let lane = || -> Vec<Box<dyn Stage>> {
            let mut stages = vec![delay([9, 0, 5, 1][n % 4])];
            stages.extend((n % 3 == 0).then(|| loss("0%")));
            stages
        };
        cable.change(Lanes { up: lane().into(), down: lane().into() })?;
        std::thread::sleep(Duration::from_millis(if n % 2 == 0 { 1 } else { 9 }));
    }
    assert_eq!(numbers.join().map_err(|_| "the receiver panicked")??, (0..600).collect::<Vec<u32>>());
    sender.join().map_err(|_| "the sender panicked")??;
    assert_eq!(reader.join().map_err(|_| "the reader panicked")??, 6_000_000);
    let [up, down] = cable.disconnect()?;
    assert_eq!((up.device_drops, up.rejected, down.device_drops, down.rejected), (0, 0, 0, 0));
    Ok(())
}

/// Changes the queue of a host's first device, or removes the device.
fn alter_device(host: &Host, queue: Option<u32>) -> Result<()> {
    host.run(move || {
        tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
            let (connection, handle, _) = rtnetlink::new_connection()?;
            tokio::spawn(connection);
            let mut links = handle.link().get().match_name("eth0".to_owned()).execute();
            let index = links.try_next().await.map_err(std::io::Error::other)?.map_or(0, |link| link.header.index);
            match queue {
                Some(length) => {
                    let link = LinkUnspec::new_with_index(index).txqueuelen(length).build();
                    handle.link().set(link).execute().await
                }
                None => handle.link().del(index).execute().await,
            }
            .map_err(std::io::Error::other)
        })
    })??;
    Ok(())
}

fn packets_dropped_by_a_full_device_are_counted() -> Result<(), Failed> {
    let (a, b, cable) = lay(Vec::new)?;
    let address = echo(&b, cable.addresses()[1].v4.into())?;
    ask(&a, address, PATIENCE)?;
    alter_device(&a, Some(0))?;
    for _ in 0..3 {
        assert!(ask(&a, address, Duration::from_millis(10)).is_err(), "a packet passed a full queue");
    }
    let [up, down] = cable.disconnect()?;
    assert!(up.device_drops >= 3 && down.device_drops == 0, "{up:?} {down:?}");
    Ok(())
}

/// Waits until the cable reports its failure.
fn expect_failure(cable: Cable, of: &str) -> Result<(), Failed> {
    let start = Instant::now();
    let error = loop {
        match cable.check() {
            Err(error) => break error.to_string(),
            Ok(()) if start.elapsed() > PATIENCE => return Err("nobody noticed".into()),
            Ok(()) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    assert!(error.contains("the cable failed") && error.contains(of), "{error}");
    assert_eq!(cable.change(Lanes::default()).unwrap_err().to_string(), error);
    assert_eq!(cable.disconnect().unwrap_err().to_string(), error);
    Ok(())
}

fn cable_reports_a_removed_device() -> Result<(), Failed> {
    let (a, _b, cable) = lay(|| vec![delay(1)])?;
    assert!(cable.check().is_ok());
    alter_device(&a, None)?;
    expect_failure(cable, "host `a`")
}

fn cable_reports_a_panic_of_a_stage() -> Result<(), Failed> {
    struct Bad;
    impl Stage for Bad {
        fn push(&mut self, _: Packet, _: Instant, _: &mut Out) {
            std::panic::resume_unwind(Box::new("on purpose")); // without a message
        }
    }
    let (a, b, cable) = lay(|| vec![Box::new(Bad)])?;
    let address = echo(&b, cable.addresses()[1].v4.into())?;
    assert!(ask(&a, address, Duration::from_millis(10)).is_err());
    expect_failure(cable, "panicked")
}

fn middle_host_forwards_packets() -> Result<(), Failed> {
    let [client, middle, server] = ["client", "middle", "server"].map(Host::new);
    let (client, middle, server) = (client?, middle?, server?);
    let near = Cable::connect(&client, &middle, Lanes::default(), &Options::default())?;
    let far = Cable::connect(&middle, &server, Lanes::default(), &Options { number: 1, ..Options::default() })?;
    middle.forward()?;
    let _ = near.addresses();
    let address = far.addresses()[1];
    for ip in [IpAddr::V4(address.v4), IpAddr::V6(address.v6)] {
        ask(&client, echo(&server, ip)?, PATIENCE)?;
    }
    Ok(())
}

fn a_middle_host_without_ipv6_forwards() -> Result<(), Failed> {
    let host = Host::new("middle")?;
    let same = host.clone();
    // Hides IPv6 in /proc/sys from this thread and those that it starts.
    let forwarded = host.run(move || {
        const NONE: Option<&str> = None;
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
        if Path::new("/proc/sys/net/ipv6").exists() {
            mount(Some("none"), "/proc/sys/net/ipv6", Some("tmpfs"), MsFlags::empty(), NONE)?;
        }
        nix::Result::Ok(same.forward())
    })?;
    match forwarded {
        Ok(forwarded) => forwarded?,
        Err(errno) => eprintln!("SKIPPED: a host without IPv6: nothing can be mounted on /proc/sys here ({errno})"),
    }
    assert_eq!(host.read_sysctl("net.ipv4.ip_forward")?, "1");
    assert_eq!(host.read_sysctl("net.ipv6.conf.all.forwarding").unwrap_or("0".to_owned()), "0");
    Ok(())
}

fn programs_run_on_a_host() -> Result<(), Failed> {
    let (a, _b, cable) = lay(Vec::new)?;
    let mut command = Command::new("cat");
    command.arg("/proc/self/net/fib_trie");
    a.attach(&mut command);
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    let own = cable.addresses()[0].v4.to_string();
    assert!(text.contains(&own), "{own} is not an address of the program's: {text}");
    Ok(())
}
