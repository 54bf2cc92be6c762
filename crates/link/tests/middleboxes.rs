//! Middleboxes between real kernels, and how TCP reacts to them.

mod common;

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use capture::{Summary, pcapng, summary::FastOpen};
use common::{PATIENCE, Result, ask, echo, noise, receive, transfer};
use libtest_mimic::Failed;
use link::{
    cable::{Cable, Options},
    host::Host,
    spec::LinkSpec,
    tap::Tap,
};

fn main() {
    common::run(&[
        ("nat_shows_the_public_address_to_the_server", nat_shows_the_public_address_to_the_server),
        ("reset_ends_the_connection_at_both_ends", reset_ends_the_connection_at_both_ends),
        ("link_is_silent_for_a_while_and_recovers", link_is_silent_for_a_while_and_recovers),
        ("path_mtu_is_discovered", path_mtu_is_discovered),
        ("stripped_option_does_not_arrive", stripped_option_does_not_arrive),
        ("syn_with_an_unknown_option_is_dropped", syn_with_an_unknown_option_is_dropped),
        ("held_ack_is_sent_when_the_timer_fires", held_ack_is_sent_when_the_timer_fires),
        ("transfer_is_intact_with_all_effects_combined", transfer_is_intact_with_all_effects_combined),
    ]);
}

/// Two hosts, and a cable from a TOML description.
fn lay(toml: &str) -> Result<(Host, Host, Cable)> {
    lay_tapped(toml, [None, None])
}

fn lay_tapped(toml: &str, taps: [Option<Arc<Tap>>; 2]) -> Result<(Host, Host, Cable)> {
    let spec: LinkSpec = toml::from_str(toml)?;
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let cable = Cable::connect(&a, &b, spec.lanes()?, &Options { taps, ..Options::default() })?;
    Ok((a, b, cable))
}

fn nat_shows_the_public_address_to_the_server() -> Result<(), Failed> {
    let (a, b, cable) = lay(r#"middlebox = ["nat:address=203.0.113.7,address6=2001:db8:113::7"]"#)?;
    let at_b = cable.addresses()[1];
    for (ip, public) in [(IpAddr::V4(at_b.v4), "203.0.113.7"), (IpAddr::V6(at_b.v6), "2001:db8:113::7")] {
        let listener = b.run(move || TcpListener::bind((ip, 0)))??;
        let address = listener.local_addr()?;
        let seen =
            b.thread("server", move || listener.accept().map(|(mut stream, peer)| (stream.write_all(b"hello"), peer)))?;
        let heard = a.run(move || -> std::io::Result<Vec<u8>> {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut heard = Vec::new();
            stream.read_to_end(&mut heard)?;
            Ok(heard)
        })??;
        assert_eq!(heard, b"hello");
        let (_, peer) = seen.join().map_err(|_| "the server panicked")??;
        assert_eq!(peer.ip().to_string(), public);
        ask(&a, echo(&b, ip)?, PATIENCE)?;
    }
    Ok(())
}

fn reset_ends_the_connection_at_both_ends() -> Result<(), Failed> {
    let (a, b, cable) = lay(r#"middlebox = ["reset:bytes=100KB"]"#)?;
    let ip = cable.addresses()[1].v4;
    let listener = b.run(move || TcpListener::bind((ip, 0)))??;
    let address = listener.local_addr()?;
    let server = b.thread("server", move || -> std::io::Result<u64> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        std::io::copy(&mut stream, &mut std::io::sink())
    })?;
    let client = a.run(move || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        (0..10_000).try_for_each(|_| stream.write_all(&[7; 10_000]))
    })?;
    let reset = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(reset.contains(&client.unwrap_err().kind()));
    let server = server.join().map_err(|_| "the server panicked")?;
    assert_eq!(server.unwrap_err().kind(), ErrorKind::ConnectionReset);
    Ok(())
}

fn link_is_silent_for_a_while_and_recovers() -> Result<(), Failed> {
    let (a, b, cable) = lay(r#"middlebox = ["silent:after=0s,for=2s"]"#)?;
    let address = echo(&b, cable.addresses()[1].v4.into())?;
    assert!(ask(&a, address, Duration::from_millis(200)).is_err(), "a silent link carried a packet");
    thread::sleep(Duration::from_secs(2));
    ask(&a, address, PATIENCE)?;
    Ok(())
}

fn path_mtu_is_discovered() -> Result<(), Failed> {
    let (a, b, cable) = lay(r#"mtu = "1300""#)?;
    let bytes = noise(500_000);
    let at_b = cable.addresses()[1];
    for ip in [IpAddr::V4(at_b.v4), IpAddr::V6(at_b.v6)] {
        assert!(transfer(&a, &b, ip, bytes.clone())? == bytes, "the bytes differ");
    }
    let [up, _] = cable.disconnect()?;
    assert!(up.packets_out < up.packets_in, "no packet was too large: {up:?}");
    Ok(())
}

/// The Fast Open option that arrives at the server's end of a cable.
fn fast_open(middlebox: &str) -> Result<Option<FastOpen>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("b.pcapng");
    let tap = Arc::new(Tap::create(&path, "b", None)?);
    let (a, b, cable) = lay_tapped(&format!("middlebox = [{middlebox:?}]"), [None, Some(tap.clone())])?;
    for host in [&a, &b] {
        host.sysctl("net.ipv4.tcp_fastopen", "1027")?; // client, server, and cookies for every listener
    }
    let bytes = noise(10);
    assert!(transfer_fast(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes);
    cable.disconnect()?;
    Arc::into_inner(tap).ok_or("the relay still holds the tap")?.finish()?;
    let summary = Summary::of(&mut pcapng::Reader::open(&path)?)?;
    Ok(summary.connections.first().ok_or("no connection")?.fast_open)
}

/// Like `transfer`, with a client that requests TCP Fast Open.
fn transfer_fast(from: &Host, to: &Host, ip: IpAddr, bytes: Vec<u8>) -> Result<Vec<u8>> {
    let (address, receiver) = receive(to, ip)?;
    from.run(move || -> Result<(), String> {
        use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, sendto, socket};
        use std::os::fd::AsRawFd;
        let told = |error: nix::Error| error.to_string();
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).map_err(told)?;
        let flag = MsgFlags::from_bits_retain(nix::libc::MSG_FASTOPEN);
        sendto(socket.as_raw_fd(), &bytes, &SockaddrStorage::from(address), flag).map(drop).map_err(told)
    })??;
    Ok(receiver.join().map_err(|_| "the receiver panicked")??)
}

fn stripped_option_does_not_arrive() -> Result<(), Failed> {
    assert!(fast_open("strip-sack")?.is_some(), "the SYN has no Fast Open option");
    assert_eq!(fast_open("strip-tfo")?, None);
    Ok(())
}

fn syn_with_an_unknown_option_is_dropped() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("a.pcapng");
    let tap = Arc::new(Tap::create(&path, "a", None)?);
    let (a, b, cable) = lay_tapped(r#"middlebox = ["drop-unknown-options"]"#, [Some(tap.clone()), None])?;
    a.sysctl("net.ipv4.tcp_fastopen", "1")?;
    // Linux sends the SYN again without the option.
    let bytes = noise(10);
    assert!(transfer_fast(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes);
    cable.disconnect()?;
    Arc::into_inner(tap).ok_or("the relay still holds the tap")?.finish()?;
    let summary = Summary::of(&mut pcapng::Reader::open(&path)?)?;
    assert_eq!(summary.connections[0].syn_retransmissions, 1);
    Ok(())
}

fn held_ack_is_sent_when_the_timer_fires() -> Result<(), Failed> {
    // Shorter than Linux's minimum RTO, 200 ms, which would end the wait.
    const TIMER: Duration = Duration::from_millis(100);
    let (a, b, cable) = lay(r#"middlebox = ["hold-acks:timer=100ms"]"#)?;
    let ip = cable.addresses()[1].v4;
    let listener = b.run(move || TcpListener::bind((ip, 0)))??;
    let address = listener.local_addr()?;
    let server = b.thread("server", move || -> std::io::Result<Instant> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.read_exact(&mut [0; 970])?;
        Ok(Instant::now())
    })?;
    // Nagle's algorithm sends the second small write only after the first is acknowledged (RFC 896).
    let (start, _stream) = a.run(move || -> std::io::Result<(Instant, TcpStream)> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        let start = Instant::now();
        (0..10).try_for_each(|_| stream.write_all(&[7; 97]))?;
        Ok((start, stream))
    })??;
    let took = server.join().map_err(|_| "the server panicked")?? - start;
    assert!(took >= TIMER, "the ACK was not held: {took:?}");
    Ok(())
}

fn transfer_is_intact_with_all_effects_combined() -> Result<(), Failed> {
    let all = r#"
        rtt = "4ms"
        jitter = "1ms reorder"
        rate = "200mbit/100mbit"
        queue = "codel"
        loss = "ge:p=0.2%,r=50%"
        reorder = "0.5%"
        duplicate = "0.5%"
        corrupt = "0.2%"
        mtu = "1400"
        middlebox = ["strip-timestamps", "nat", "hold-acks:timer=5ms"]
    "#;
    let (a, b, cable) = lay(all)?;
    let bytes = noise(1_000_000);
    assert!(transfer(&a, &b, cable.addresses()[1].v4.into(), bytes.clone())? == bytes, "the bytes differ");
    Ok(())
}
