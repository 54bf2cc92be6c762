//! Hosts and cables with real kernels at both ends.

mod common;

use std::{
    net::{IpAddr, UdpSocket},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use capture::Source as _;
use common::{PATIENCE, Result, ask, echo, noise, transfer};
use libtest_mimic::Failed;
use link::{
    cable::{Cable, Options},
    host::Host,
    lanes::Lanes,
    stage::{Direction, Stage},
    stages::{Delay, Dice, Effect, Loss},
    tap::Tap,
};

fn main() {
    common::run(&[
        ("both_address_families_reach_the_other_host", both_address_families_reach_the_other_host),
        ("a_host_without_ipv6_has_cables_of_ipv4", a_host_without_ipv6_has_cables_of_ipv4),
        ("nothing_arrives_before_its_time", nothing_arrives_before_its_time),
        ("nothing_in_a_burst_arrives_before_its_time", nothing_in_a_burst_arrives_before_its_time),
        ("a_transfer_over_a_lossy_cable_is_whole", a_transfer_over_a_lossy_cable_is_whole),
        ("segments_pass_whole_only_where_nobody_looks", segments_pass_whole_only_where_nobody_looks),
        ("a_tap_misses_nothing_and_sees_true_packets", a_tap_misses_nothing_and_sees_true_packets),
        ("a_cable_that_changes_loses_nothing_under_way", a_cable_that_changes_loses_nothing_under_way),
        ("a_middle_host_forwards", a_middle_host_forwards),
        ("programs_run_on_a_host", programs_run_on_a_host),
    ]);
}

fn delay(ms: u64) -> Box<dyn Stage> {
    Box::new(Delay::new(Duration::from_millis(ms)))
}

fn loss(percent: &str) -> Box<dyn Stage> {
    Box::new(Loss::new(percent.parse().unwrap(), Dice::new(7, Effect::Loss, Direction::Up)))
}

/// Two hosts and a cable, with the same stages each way.
fn lay(stages: impl Fn() -> Vec<Box<dyn Stage>>) -> Result<(Host, Host, Cable)> {
    lay_tapped(stages, [None, None])
}

fn lay_tapped(stages: impl Fn() -> Vec<Box<dyn Stage>>, taps: [Option<Arc<Tap>>; 2]) -> Result<(Host, Host, Cable)> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let lanes = Lanes { up: stages().into(), down: stages().into() };
    let cable = Cable::lay(&a, &b, lanes, &Options { taps, ..Options::default() })?;
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
    let cable = Cable::lay(&a, &b, Lanes::default(), &Options::default())?;
    ask(&a, echo(&b, cable.addresses()[1].v4.into())?, PATIENCE)?;
    Ok(())
}

fn nothing_arrives_before_its_time() -> Result<(), Failed> {
    let (a, b, cable) = lay(|| vec![delay(9)])?;
    let address = echo(&b, cable.addresses()[1].v4.into())?;
    for _ in 0..20 {
        let took = ask(&a, address, PATIENCE)?;
        assert!(took >= Duration::from_millis(18), "a round trip of 18 ms took {took:?}");
    }
    Ok(())
}

/// Single packets wake a relay and are paired with the kernel's times; in a burst it does not sleep, and
/// the last one is more than the device's queue holds. However that goes, nobody may be early.
fn nothing_in_a_burst_arrives_before_its_time() -> Result<(), Failed> {
    const DELAY: Duration = Duration::from_millis(5);
    let (a, b, cable) = lay(|| vec![delay(5)])?;
    let ip = cable.addresses()[1].v4;
    let receiver = b.run(move || UdpSocket::bind((ip, 0)))??;
    let address = receiver.local_addr()?;
    let start = Instant::now();
    let sender = a.thread("sender", move || -> std::io::Result<()> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        for burst in (0..60).map(|n| n % 7).chain([100, 1, 30_000, 1, 3, 1]) {
            for _ in 0..burst {
                let sent = start.elapsed().as_nanos() as u64;
                socket.send_to(&sent.to_ne_bytes(), address)?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(300));
        socket.send_to(b"end", address).map(drop)
    })?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = [0; 8];
    let mut heard = 0;
    while receiver.recv(&mut buffer)? == 8 {
        let took = start.elapsed().saturating_sub(Duration::from_nanos(u64::from_ne_bytes(buffer)));
        assert!(took >= DELAY, "the packet {heard} of a cable of 5 ms took {took:?}");
        heard += 1;
    }
    sender.join().map_err(|_| "the sender panicked")??;
    assert!(heard > 200, "{heard} packets arrived");
    Ok(())
}

fn a_transfer_over_a_lossy_cable_is_whole() -> Result<(), Failed> {
    let (a, b, cable) = lay(|| vec![delay(2), loss("2%")])?;
    let bytes = noise(3_000_000);
    assert!(transfer(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes, "the bytes differ");
    assert!(transfer(&b, &a, cable.addresses()[0].v6.into(), bytes.clone())? == bytes, "the bytes differ");
    let [up, down] = cable.pull()?;
    assert!(up.packets_out < up.packets_in && down.packets_out < down.packets_in, "nothing was lost: {up:?} {down:?}");
    Ok(())
}

fn segments_pass_whole_only_where_nobody_looks() -> Result<(), Failed> {
    let bytes = noise(10_000_000);
    let average = |stages: fn() -> Vec<Box<dyn Stage>>| -> Result<([bool; 2], u64)> {
        let (a, b, cable) = lay(stages)?;
        let whole = cable.passes_segments_whole();
        assert!(transfer(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes);
        let [up, _] = cable.pull()?;
        Ok((whole, up.bytes_out / up.packets_out))
    };
    let (whole, size) = average(|| vec![delay(1)])?;
    assert!(whole == [true, true] && size > 3000, "{whole:?}, {size} bytes a packet");
    let (whole, size) = average(|| vec![delay(1), loss("0%")])?;
    assert!(whole == [false, false] && size <= 1500, "{whole:?}, {size} bytes a packet");
    Ok(())
}

fn a_tap_misses_nothing_and_sees_true_packets() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let paths = ["a", "b"].map(|end| folder.path().join(end).with_extension("pcapng"));
    let taps = [Arc::new(Tap::create(&paths[0], "a", None)?), Arc::new(Tap::create(&paths[1], "b", None)?)];
    let (a, b, cable) = lay_tapped(|| vec![delay(1)], [Some(taps[0].clone()), Some(taps[1].clone())])?;
    let bytes = noise(5_000_000);
    assert!(transfer(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes);
    let [up, down] = cable.pull()?;
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

fn a_cable_that_changes_loses_nothing_under_way() -> Result<(), Failed> {
    let (a, b, cable) = lay(|| vec![delay(200)])?;
    let ip = cable.addresses()[1].v4;
    let socket = b.run(move || UdpSocket::bind((ip, 0)))??;
    socket.set_read_timeout(Some(PATIENCE))?;
    let address = socket.local_addr()?;
    let send = |text: &'static [u8]| a.run(move || UdpSocket::bind("0.0.0.0:0")?.send_to(text, address));
    send(b"slow")??;
    // Long enough for the relay to have taken it in, whatever else the machine does.
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
    heard.sort();
    assert_eq!(heard, [b"fast", b"slow"]);
    assert!(ask(&a, echo(&b, ip.into())?, Duration::from_millis(300)).is_err(), "a link that is down carried a packet");
    cable.change(Lanes::default())?;
    std::thread::sleep(Duration::from_millis(50));
    ask(&a, echo(&b, ip.into())?, PATIENCE)?;
    Ok(())
}

fn a_middle_host_forwards() -> Result<(), Failed> {
    let [client, middle, server] = ["client", "middle", "server"].map(Host::new);
    let (client, middle, server) = (client?, middle?, server?);
    let near = Cable::lay(&client, &middle, Lanes::default(), &Options::default())?;
    let far = Cable::lay(&middle, &server, Lanes::default(), &Options { number: 1, ..Options::default() })?;
    middle.forward()?;
    let _ = near.addresses();
    let address = far.addresses()[1];
    for ip in [IpAddr::V4(address.v4), IpAddr::V6(address.v6)] {
        ask(&client, echo(&server, ip)?, PATIENCE)?;
    }
    Ok(())
}

fn programs_run_on_a_host() -> Result<(), Failed> {
    let (a, _b, cable) = lay(Vec::new)?;
    let mut command = Command::new("cat");
    command.arg("/proc/self/net/fib_trie");
    a.place(&mut command);
    let output = command.output()?;
    let text = String::from_utf8(output.stdout)?;
    let own = cable.addresses()[0].v4.to_string();
    assert!(text.contains(&own), "{own} is not an address of the program's: {text}");
    Ok(())
}
