//! `haul link --outside`: only with this option, the client host reaches the machine's network.

mod common;

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::Path,
    thread,
};

use common::{FETCH, HAUL, PATIENCE, Room, eventually, one_sentence, output, printed, processes, serve, text};
use libtest_mimic::{Arguments, Trial};
use nix::sys::signal::Signal;

fn main() {
    let arguments = Arguments::from_args();
    let probe = Room::new().link(&["--outside", "--", "true"]);
    let ready = probe.status.success();
    if !ready {
        eprintln!("SKIPPED: the outside: {}", text(&probe.stderr));
    }
    if own_address().is_none() {
        eprintln!("SKIPPED: missing_passt_error_names_the_package: this machine has no default route");
    }
    let resolver = Resolver::start();
    if let Err(error) = &resolver {
        eprintln!("SKIPPED: resolver_on_loopback_is_reached: there is no listening on port 53: {error}");
    }
    let no_resolver = resolver.is_err();
    let trials = vec![
        trial("outside_is_reached_without_loss", ready, outside_is_reached_without_loss),
        trial("outside_is_unreachable_without_the_option", ready, outside_is_unreachable_without_the_option),
        trial("server_and_outside_are_reached_over_the_link", ready, server_and_outside_are_reached_over_the_link),
        trial("outside_has_the_delay_of_the_link", ready, outside_has_the_delay_of_the_link),
        trial(
            "server_behind_a_nat_is_reached_with_the_outside",
            ready,
            server_behind_a_nat_is_reached_with_the_outside,
        ),
        trial("nested_link_reaches_both_servers", ready, nested_link_reaches_both_servers),
        trial("loopback_of_the_machine_is_unreachable", ready, loopback_of_the_machine_is_unreachable),
        trial("passt_ends_with_a_killed_haul", ready, passt_ends_with_a_killed_haul),
        trial("resolver_on_loopback_is_reached", ready && !no_resolver, move || {
            resolver_on_loopback_is_reached(&resolver.expect("ignored otherwise"));
        }),
        trial("missing_passt_error_names_the_package", own_address().is_some(), missing_passt_error_names_the_package),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, ready: bool, f: impl FnOnce() + Send + 'static) -> Trial {
    Trial::test(name, || {
        f();
        Ok(())
    })
    .with_ignored_flag(!ready)
}

/// The machine's own address on the network it is on, if any. (To connect a UDP socket sends nothing.)
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// A socket that listens there.
fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((own_address().expect("a default route"), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A server outside that sends back the first `length` bytes of a connection when it has them all.
fn echo(length: usize) -> SocketAddr {
    let (listener, address) = listener();
    thread::spawn(move || -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut bytes = vec![0; length];
        stream.read_exact(&mut bytes)?;
        stream.write_all(&bytes)
    });
    address
}

fn connect(to: SocketAddr) -> String {
    format!("exec 3<>/dev/tcp/{}/{}", to.ip(), to.port())
}

fn outside_is_reached_without_loss() {
    let room = Room::new();
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let (there, back) = (room.path("there"), room.path("back"));
    fs::write(&there, &bytes).unwrap();
    let command =
        format!("{} && cat '{}' >&3 && cat <&3 > '{}'", connect(echo(bytes.len())), there.display(), back.display());
    printed(&room.link(&["--outside", "--", "bash", "-c", &command]));
    assert!(fs::read(back).unwrap() == bytes, "the bytes differ");
    room.assert_clear();
}

/// Whether a program on the client host can connect to `address` with these options, within a time in seconds.
fn reaches(options: &[&str], address: SocketAddr, patience: u32) -> bool {
    let room = Room::new();
    // An unreachable address only times out, so the test does not wait for that.
    let command = format!("timeout {patience} bash -c '{}' 2> /dev/null && echo yes || echo no", connect(address));
    let answer = printed(&room.link(&[options, &["--", "sh", "-c", &command]].concat()));
    room.assert_clear();
    answer == "yes\n"
}

fn outside_is_unreachable_without_the_option() {
    let (_listener, address) = listener();
    assert!(!reaches(&[], address, 2));
    assert!(reaches(&["--outside"], address, 60));
}

/// The outer link's host has no gateway of its own, and no Ethernet device.
fn nested_link_reaches_both_servers() {
    let room = Room::new();
    let server = serve(&room.path("tmp"));
    let fetch = r#"for ip in $OUTER $HAUL_SERVER_IP; do
        exec 3<>"/dev/tcp/$ip/8080" && printf "GET / HTTP/1.0\r\n\r\n" >&3 && head -n 1 <&3; done"#;
    let inner = format!("OUTER=$HAUL_SERVER_IP '{HAUL}' link -q --outside --server \"{server}\" -- bash -c '{fetch}'");
    for outside in [&[][..], &["--outside"]] {
        let told = printed(&room.link(&[outside, &["--server", &server, "--", "sh", "-c", &inner]].concat()));
        assert_eq!(told.matches("HTTP/1.").count(), 2, "{told}");
    }
    room.assert_clear();
}

fn loopback_of_the_machine_is_unreachable() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    assert!(!reaches(&["--outside"], address, 2));
    let gateway = SocketAddr::new(Ipv4Addr::new(100, 127, 255, 1).into(), address.port());
    assert!(!reaches(&["--outside"], gateway, 2));
}

fn server_and_outside_are_reached_over_the_link() {
    let room = Room::new();
    let folder = room.path("capture");
    let server = serve(&room.path("tmp"));
    let arguments = ["--outside", "--capture", folder.to_str().unwrap(), "--server", &server, "--", "bash", "-c"];
    let outside = echo(1);
    let command = format!("{} && {FETCH}", connect(outside));
    let answer = printed(&room.link(&[arguments.as_slice(), &[&command]].concat()));
    assert!(answer.contains(" 200"), "{answer}");
    let mut reader = capture::pcapng::Reader::open(&folder.join("client.pcapng")).unwrap();
    let summary = capture::Summary::of(&mut reader).unwrap();
    let mut ports: Vec<_> = summary.connections.iter().map(|connection| connection.server.port()).collect();
    ports.sort_unstable();
    let mut expected = [8080, outside.port()];
    expected.sort_unstable();
    assert_eq!(ports, expected, "what crossed the cable");
    room.assert_clear();
}

fn outside_has_the_delay_of_the_link() {
    let room = Room::new();
    let (_listener, address) = listener();
    let command = format!(
        "begin=${{EPOCHREALTIME/./}}; {} && echo $(((${{EPOCHREALTIME/./}} - begin) / 1000))",
        connect(address)
    );
    let took = printed(&room.link(&["--rtt", "200ms", "--outside", "--", "bash", "-c", &command]));
    assert!(took.trim().parse::<u32>().unwrap() >= 200, "ms: {took}");
    room.assert_clear();
}

/// The answers to a translated address do not follow the server host's default route.
fn server_behind_a_nat_is_reached_with_the_outside() {
    let room = Room::new();
    let server = serve(&room.path("tmp"));
    let command = format!("{} && {FETCH}", connect(echo(1)));
    let arguments = ["--outside", "--middlebox", "nat", "--server", &server, "--", "bash", "-c", &command];
    assert!(printed(&room.link(&arguments)).contains(" 200"));
    room.assert_clear();
}

/// The PIDs of every passt on the machine.
fn helpers() -> Vec<i32> {
    let named_so = |(_, name): &(i32, String)| name.trim_end().starts_with("passt");
    processes("comm").into_iter().filter(named_so).map(|(pid, _)| pid).collect()
}

fn passt_ends_with_a_killed_haul() {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let room = Room::new();
        let before = helpers();
        let command = format!("echo up; exec sleep {}", room.marker());
        let mut haul = room.link_until_up(&["--outside", "--", "sh", "-c", &command]);
        let new: Vec<_> = helpers().into_iter().filter(|pid| !before.contains(pid)).collect();
        assert!(!new.is_empty(), "no helper runs");
        haul.send(signal);
        haul.status();
        assert!(eventually(|| helpers().iter().all(|pid| !new.contains(pid))), "a helper is left running: {new:?}");
        room.assert_no_process_and_no_mount();
    }
}

/// A resolver on an unused loopback address, which answers any query.
struct Resolver(UdpSocket, TcpListener);

impl Resolver {
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 83, 71, 53);
    const QUESTION: &str = "who?";
    const ANSWER: &str = "me!\n";

    fn start() -> io::Result<Self> {
        Ok(Self(UdpSocket::bind((Self::ADDRESS, 53))?, TcpListener::bind((Self::ADDRESS, 53))?))
    }

    fn answer(&self) {
        let (udp, tcp) = (self.0.try_clone().unwrap(), self.1.try_clone().unwrap());
        thread::spawn(move || -> io::Result<()> {
            let mut question = [0; 100];
            let (length, client) = udp.recv_from(&mut question)?;
            assert_eq!(text(&question[..length]), Self::QUESTION);
            udp.send_to(Self::ANSWER.as_bytes(), client).map(drop)
        });
        thread::spawn(move || -> io::Result<()> {
            let (mut client, _) = tcp.accept()?;
            client.read_exact(&mut [0; Self::QUESTION.len()])?;
            client.write_all(Self::ANSWER.as_bytes())
        });
    }
}

fn resolver_on_loopback_is_reached(resolver: &Resolver) {
    let room = Room::new();
    resolver.answer();
    let resolv_conf = room.path("resolv.conf");
    fs::write(&resolv_conf, format!("nameserver {}\n", Resolver::ADDRESS)).unwrap();
    let ask = |protocol: &str| {
        let (address, question) = (Resolver::ADDRESS, Resolver::QUESTION);
        format!("exec 3<>/dev/{protocol}/{address}/53 && printf '{question}' >&3 && head -n 1 <&3")
    };
    // Only a mount namespace of the test's own sees this /etc/resolv.conf.
    let mut command = room.command("unshare");
    let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(&resolv_conf);
    command.args([HAUL, "link", "--quiet", "--outside", "--", "timeout", "30", "bash", "-c"]);
    command.arg(format!("{} && {}", ask("udp"), ask("tcp")));
    assert_eq!(printed(&output(command)), [Resolver::ANSWER; 2].concat());
    room.assert_clear();
}

fn missing_passt_error_names_the_package() {
    let room = Room::new();
    let mut command = room.command(HAUL);
    command.args(["link", "--quiet", "--outside", "--", "true"]).env("PATH", Path::new("/nowhere"));
    let said = one_sentence(&output(command), 1);
    assert!(said.contains("`passt`") && said.contains("install the package passt"), "{said}");
    room.assert_clear();
}
