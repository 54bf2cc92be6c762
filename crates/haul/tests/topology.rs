//! `haul link --topology`, and `haul link set` beside a running link; run by root and by an ordinary user.

mod common;

use std::{
    ffi::OsString,
    fs,
    io::{Read, Write},
    net::Shutdown,
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

use capture::{Summary, pcapng::Reader};
use common::{HAUL, Room, Running, eventually, one_sentence, output, printed, processes, serve, text};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::Signal;

fn main() {
    let arguments = Arguments::from_args();
    let probe = Room::new().link(&["--", "true"]);
    let ready = probe.status.success();
    if !ready {
        eprintln!("SKIPPED: topologies: {}", text(&probe.stderr));
    }
    let links: [(&str, fn()); 15] = [
        ("two_servers_have_their_own_rtt_and_names", two_servers_have_their_own_rtt_and_names),
        ("two_clients_share_a_bottleneck", two_clients_share_a_bottleneck),
        ("topology_leaves_nothing_behind_after_a_signal", topology_leaves_nothing_behind_after_a_signal),
        ("failed_server_of_a_topology_is_named", failed_server_of_a_topology_is_named),
        ("names_resolve_on_a_link_of_two_hosts", names_resolve_on_a_link_of_two_hosts),
        ("files_of_a_link_may_be_pipes", files_of_a_link_may_be_pipes),
        ("nested_links_have_different_addresses", nested_links_have_different_addresses),
        ("set_changes_the_rtt_of_a_running_link", set_changes_the_rtt_of_a_running_link),
        ("set_changes_the_rate_of_one_cable", set_changes_the_rate_of_one_cable),
        ("set_that_is_refused_changes_nothing", set_that_is_refused_changes_nothing),
        ("socket_is_private_and_removed", socket_is_private_and_removed),
        ("socket_of_a_killed_link_is_replaced", socket_of_a_killed_link_is_replaced),
        ("silent_client_of_the_socket_blocks_no_end", silent_client_of_the_socket_blocks_no_end),
        ("wrong_request_is_answered_and_bounded", wrong_request_is_answered_and_bounded),
        ("link_without_a_descriptor_for_a_client_waits", link_without_a_descriptor_for_a_client_waits),
    ];
    let mut trials: Vec<_> = links.map(|(name, f)| trial(name, f).with_ignored_flag(!ready)).into();
    trials.push(trial(
        "mistakes_in_a_topology_are_named_with_their_line",
        mistakes_in_a_topology_are_named_with_their_line,
    ));
    trials.push(trial("set_without_a_link_is_an_error", set_without_a_link_is_an_error));
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, f: fn()) -> Trial {
    Trial::test(name, move || -> Result<(), Failed> {
        f();
        Ok(())
    })
}

/// An example of the book.
fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/topologies");
    fs::canonicalize(folder).unwrap().join(name).to_str().unwrap().to_owned()
}

/// `haul link --quiet` with these arguments in the test's folder, where `haul` is the program under test.
fn link_in(room: &Room, arguments: &[&str]) -> Command {
    let mut command = room.command(HAUL);
    let mut path = OsString::from(Path::new(HAUL).parent().unwrap());
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    command.args(["link", "--quiet"]).args(arguments).current_dir(room.path("")).env("PATH", path).env("LC_ALL", "C");
    command
}

fn run(room: &Room, arguments: &[&str]) -> Output {
    output(link_in(room, arguments))
}

/// A topology of the test's own.
fn write(room: &Room, toml: &str) -> String {
    let path = room.path("net.toml");
    fs::write(&path, toml).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The shell function that prints how long a connection to a host takes: the least of five, in µs.
const CONNECT: &str = r#"
    connect() {
        for _ in 1 2 3 4 5; do
            start=${EPOCHREALTIME/./}; exec 3<>"/dev/tcp/$1/8080" || exit 1; echo $((${EPOCHREALTIME/./} - start)); exec 3>&-
        done | sort -n | head -n 1
    }
"#;

fn microseconds(output: &str) -> Vec<u64> {
    output.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{output}"))).collect()
}

fn two_servers_have_their_own_rtt_and_names() {
    let room = Room::new();
    let file = example("two-servers.toml");
    fs::write(room.path("hello"), "from a server\n").unwrap();
    let script = format!(
        "{CONNECT} connect near; connect far; haul cat http://near:8080/hello >&2; haul cat http://far:8080/hello >&2; \
         echo ${{HAUL_FAR_IP#100.64.}} >&2"
    );
    let ended = run(&room, &["--topology", &file, "--capture", "shots", "--", "bash", "-c", &script]);
    let [near, far] = microseconds(&printed(&ended))[..] else { panic!("{}", printed(&ended)) };
    assert!(near >= 10_000 && far >= 80_000, "{near} and {far} µs are less than the RTT");
    assert!(near < far, "{near} µs to the near server, {far} µs to the far one");
    let said = text(&ended.stderr);
    assert_eq!(said.matches("from a server\n").count(), 2, "{said}");
    assert!(said.contains("2.2\n"), "the far server is at the end of the third cable: {said}");
    let mut captures: Vec<_> = fs::read_dir(room.path("shots"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    captures.sort();
    let routers = ["router.access.pcapng", "router.long.pcapng", "router.short.pcapng"];
    assert_eq!(captures, [&["client.pcapng", "far.pcapng", "near.pcapng"], &routers[..]].concat());
    room.assert_clear();
}

fn two_clients_share_a_bottleneck() {
    let room = Room::new();
    fs::write(room.path("large"), vec![7; 2_000_000]).unwrap();
    let file = example("dumbbell.toml");
    let script = "haul cat http://server:8080/large | wc -c";
    let told = printed(&run(&room, &["--topology", &file, "--capture", "shots", "--", "sh", "-c", script]));
    assert_eq!(told.trim(), "2000000");
    let received = |host: &str| {
        let mut reader = Reader::open(&room.path(&format!("shots/{host}.pcapng"))).unwrap();
        Summary::of(&mut reader).unwrap().connections.iter().map(|connection| connection.to_client.bytes).sum::<u64>()
    };
    let (one, two) = (received("one"), received("two"));
    assert!(one > 2_000_000 && one < 6 * two && two < 6 * one, "{one} and {two} bytes");
    room.assert_clear();
}

fn topology_leaves_nothing_behind_after_a_signal() {
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let room = Room::new();
        let sleeper = format!("sleep {0} & exec sleep {0}", room.marker());
        let net = format!(
            "default = 'a'\n[host.a]\n[host.b]\ncommand = '{sleeper}'\nlistens = false\n[host.c]\ncommand = '{sleeper}'\n\
             listens = false\n[cable.x]\nbetween = ['a', 'b']\n[cable.y]\nbetween = ['b', 'c']\n"
        );
        let file = write(&room, &net);
        let command = format!("echo up; exec sleep {}", room.marker());
        let mut haul = room.link_until_up(&["--topology", &file, "--", "sh", "-c", &command]);
        haul.send(signal);
        let status = haul.status();
        room.assert_no_process_and_no_mount();
        if signal == Signal::SIGINT {
            assert_eq!(status.code(), Some(130));
            room.assert_clear();
        }
    }
}

fn failed_server_of_a_topology_is_named() {
    let room = Room::new();
    let file =
        write(&room, "default = 'a'\n[host.a]\n[host.mail]\ncommand = 'exit 3'\n[cable.x]\nbetween = ['a', 'mail']\n");
    let said = one_sentence(&run(&room, &["--topology", &file, "--", "true"]), 1);
    assert!(
        said.contains("the command of the host `mail` ended before it listened") && said.contains("exit 3"),
        "{said}"
    );
    room.assert_clear();
}

fn mistakes_in_a_topology_are_named_with_their_line() {
    let room = Room::new();
    let hosts = "default = 'a'\n[host.a]\n[host.b]\n";
    for (status, net, expected) in [
        (2, "", "net.toml:1: there are no hosts"),
        (2, &*format!("{hosts}[cable.x]\nbetween = ['a', 'c']\n"), "net.toml:5: unknown host `c`"),
        (2, hosts, "net.toml:3: no cables lead from `a` to the host `b`"),
        (2, &*format!("{hosts}[host.b]\n"), "net.toml:4: duplicate key"),
        (
            2,
            &*format!("{hosts}[cable.x]\nbetween = ['a', 'b']\nqueue = '9p'\n"),
            "net.toml: cable `x`: the queue `9p` needs",
        ),
        (
            1,
            &*format!("{hosts}[cable.x]\nbetween = ['a', 'b']\ntrace_up = '/no/file'\n"),
            "net.toml: cable `x`: cannot read the trace file /no/file",
        ),
    ] {
        let file = write(&room, net);
        let ended = run(&room, &["--topology", &file, "--", "true"]);
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{said}");
    }
    let ended = run(&room, &["--topology", "/no/file", "--", "true"]);
    assert!(one_sentence(&ended, 1).contains("cannot read the topology /no/file"));
    let ended = run(&room, &["--topology", &write(&room, hosts), "--rtt", "1ms", "--", "true"]);
    assert!(text(&ended.stderr).contains("leave out the options that describe a link"));
    room.assert_clear();
}

fn names_resolve_on_a_link_of_two_hosts() {
    let room = Room::new();
    let before = fs::read_to_string("/etc/hosts").unwrap_or_default();
    let script = "exec 3<>/dev/tcp/server/8080 && grep -w -e server -e client /etc/hosts";
    let told = printed(&room.link(&["--server", &serve(&room.path("tmp")), "--", "bash", "-c", script]));
    assert_eq!(told.lines().count(), 4, "{told}");
    assert_eq!(fs::read_to_string("/etc/hosts").unwrap_or_default(), before, "the machine's file changed");
    room.assert_clear();
}

/// The files are read once.
fn files_of_a_link_may_be_pipes() {
    let room = Room::new();
    let script =
        format!("'{HAUL}' link -q --loss-trace-up <(echo 0) --delays-down <(echo 1ms) --trace-up <(echo 1) -- true");
    let mut command = room.command("bash");
    command.args(["-c", &script]);
    printed(&output(command));
    room.assert_clear();
}

fn nested_links_have_different_addresses() {
    let room = Room::new();
    let address = "echo $HAUL_CLIENT_IP";
    let innermost = format!("{address}; haul link -q -- sh -c '{address}'");
    let script = format!("{address}; haul link -q -- sh -c \"{}\"", innermost.replace('$', "\\$"));
    let told = printed(&run(&room, &["--", "sh", "-c", &script]));
    let mut networks: Vec<&str> = told.lines().collect();
    assert_eq!(networks.len(), 3, "{told}");
    networks.dedup();
    assert_eq!(networks.len(), 3, "{told}");
    room.assert_clear();
}

fn set_changes_the_rtt_of_a_running_link() {
    let room = Room::new();
    let script = format!("{CONNECT} connect server; haul link set ctl rtt=400ms; connect server");
    let server = serve(&room.path("tmp"));
    let arguments = ["--rtt", "4ms", "--control", "ctl", "--server", &server, "--", "bash", "-c", &script];
    let ended = run(&room, &arguments);
    let [before, after] = microseconds(&printed(&ended))[..] else { panic!("{}", printed(&ended)) };
    assert!(after >= 400_000 && after > 2 * before, "{before} µs before, {after} µs after");
    assert!(text(&ended.stderr).contains("haul: link: 400ms RTT\n"), "{}", text(&ended.stderr));
    assert!(!room.path("ctl").exists());
    room.assert_clear();
}

fn set_changes_the_rate_of_one_cable() {
    let room = Room::new();
    fs::write(room.path("file"), vec![7; 500_000]).unwrap();
    let file = write(
        &room,
        &format!(
            "default = 'a'\n[host.a]\n[host.b]\n[host.c]\ncommand = \"{}\"\n[cable.x]\nbetween = ['a', 'b']\n[cable.y]\n\
             between = ['b', 'c']\nrate = '50mbit'\n",
            serve(&room.path(""))
        ),
    );
    let fetch = "start=${EPOCHREALTIME/./}; haul cat http://$HAUL_C_IP:8080/file >/dev/null; \
                 echo $((${EPOCHREALTIME/./} - start))";
    let script = format!("{fetch}; haul link set ctl y.rate.down=1mbit x.loss=0% 2>/dev/null; {fetch}");
    let told = printed(&run(&room, &["--topology", &file, "--control", "ctl", "--", "bash", "-c", &script]));
    let [fast, slow] = microseconds(&told)[..] else { panic!("{told}") };
    // 500 kB take four seconds at 1 Mbit/s.
    assert!(slow >= 3_900_000 && slow > 2 * fast, "{fast} µs at 50 Mbit/s, {slow} µs at 1 Mbit/s");
    room.assert_clear();
}

fn set_that_is_refused_changes_nothing() {
    let room = Room::new();
    let script = "haul link set ctl loss=100% queue=9p; echo $?; haul link set ctl wan.rtt=1s; echo $?; \
                  haul link set ctl mtu=9000; echo $?; haul link set ctl delays-up=none; echo $?; \
                  haul link set ctl seed=2; echo $?; mkfifo pipe; haul link set ctl loss-trace-up=pipe; echo $?; exec 3<>/dev/tcp/server/8080 && echo connected";
    let server = serve(&room.path("tmp"));
    let ended = run(&room, &["--control", "ctl", "--server", &server, "--", "bash", "-c", script]);
    assert_eq!(printed(&ended), "1\n1\n1\n1\n2\n1\nconnected\n");
    let said = text(&ended.stderr);
    let file = room.path("none").display().to_string();
    for sentence in [
        "haul: the queue `9p` needs a bottleneck",
        "haul: there is no cable `wan`; there are: link",
        "haul: `mtu=9000`: the MTU cannot grow beyond",
        &*format!("haul: cannot read the file of delays {file}"),
        "`seed` cannot change; these can: rtt, ",
        "pipe: a running link reads it again, so it must be a regular file",
    ] {
        assert!(said.contains(sentence), "{said}");
    }
    room.assert_clear();
}

fn set_without_a_link_is_an_error() {
    let room = Room::new();
    let set = |path: &str| {
        let mut command = room.command(HAUL);
        command.args(["link", "set", path, "rtt=1ms"]).current_dir(room.path(""));
        one_sentence(&output(command), 1)
    };
    let said = set("nothing");
    assert!(said.contains("no link listens at nothing; start one with `haul link --control nothing`"), "{said}");
    fs::write(room.path("file"), "").unwrap();
    assert!(set("file").contains("no link listens at file"));
    room.assert_clear();
}

/// A link with a control socket that runs until it is killed.
fn sleeping(room: &Room, socket: &Path) -> Running {
    let command = format!("echo up; exec sleep {}", room.marker());
    room.link_until_up(&["--control", socket.to_str().unwrap(), "--", "sh", "-c", &command])
}

fn socket_is_private_and_removed() {
    let room = Room::new();
    let socket = room.path("ctl");
    let mut haul = sleeping(&room, &socket);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let second = room.link(&["--control", socket.to_str().unwrap(), "--", "true"]);
    assert!(one_sentence(&second, 1).contains("the path is in use; choose another"));
    assert!(socket.exists(), "the second link removed the socket of the first");
    haul.send(Signal::SIGTERM);
    haul.status();
    assert!(!socket.exists());
    fs::write(&socket, "a file of the user's").unwrap();
    one_sentence(&room.link(&["--control", socket.to_str().unwrap(), "--", "true"]), 1);
    assert_eq!(fs::read_to_string(&socket).unwrap(), "a file of the user's");
    room.assert_clear();
}

fn socket_of_a_killed_link_is_replaced() {
    let room = Room::new();
    let socket = room.path("ctl");
    let mut haul = sleeping(&room, &socket);
    haul.send(Signal::SIGKILL);
    haul.status();
    room.assert_no_process_and_no_mount();
    let again = format!("'{HAUL}' link set '{}' rtt=1ms", socket.display());
    printed(&room.link(&["--control", socket.to_str().unwrap(), "--", "sh", "-c", &again]));
    assert!(!socket.exists());
    room.assert_clear();
}

fn silent_client_of_the_socket_blocks_no_end() {
    let room = Room::new();
    let socket: PathBuf = room.path("ctl");
    let mut haul = sleeping(&room, &socket);
    let mut silent = UnixStream::connect(&socket).unwrap();
    silent.write_all(b"rtt=").unwrap();
    let mut garbage = UnixStream::connect(&socket).unwrap();
    garbage.write_all(&[0xff; 100]).unwrap();
    haul.send(Signal::SIGTERM);
    let start = Instant::now();
    assert!(eventually(|| haul.0.try_wait().unwrap().is_some()));
    // Much longer than a busy machine takes, and much shorter than the two clients might hold it.
    assert!(start.elapsed() < Duration::from_mins(1));
    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0);
    assert!(!socket.exists());
    room.assert_clear();
}

/// What the link answers to the bytes of a request, as far as it takes them.
fn answer(socket: &Path, request: &[u8]) -> String {
    let mut client = UnixStream::connect(socket).unwrap();
    client.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    client.set_write_timeout(Some(Duration::from_mins(1))).unwrap();
    // It closes the connection while the rest of a long request is on its way.
    let _ = client.write_all(request);
    let _ = client.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = client.read(&mut part) {
        answer.extend_from_slice(&part[..length]);
    }
    text(&answer)
}

fn wrong_request_is_answered_and_bounded() {
    let room = Room::new();
    let socket = room.path("ctl");
    let mut haul = sleeping(&room, &socket);
    for (request, said) in [
        (&b"hello\n"[..], "error\n"),
        (b"rtt=\0\n", "error\n"),
        (b"\xff\xfe\n", "error\ncannot read the request: invalid utf-8"),
        // One line, without an end.
        (&b"x".repeat(4 << 20), "error\ncannot read the request: it is longer than 65536 bytes\n"),
    ] {
        let answer = answer(&socket, request);
        assert!(answer.starts_with(said), "{answer}");
    }
    assert_eq!(answer(&socket, b"rtt=7ms\n"), "ok\nlink: 7ms RTT\n");
    haul.send(Signal::SIGTERM);
    haul.status();
    room.assert_clear();
}

/// The processor time that a process has used, in the kernel's ticks.
fn ticks(process: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn link_without_a_descriptor_for_a_client_waits() {
    let room = Room::new();
    let socket = room.path("ctl");
    let mut haul = sleeping(&room, &socket);
    let path = socket.display().to_string();
    let links: Vec<_> = processes("cmdline").into_iter().filter(|(_, line)| line.contains(&path)).collect();
    let limit = |soft: &str| {
        for (process, _) in &links {
            // Those that are open stay open.
            let mut command = room.command("prlimit");
            command.arg(format!("--nofile={soft}:")).arg("--pid").arg(process.to_string());
            printed(&output(command));
        }
    };
    limit("3");
    let mut client = UnixStream::connect(&socket).unwrap();
    client.write_all(b"rtt=7ms\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let used = || links.iter().map(|(process, _)| ticks(*process)).sum::<u64>();
    let before = used();
    client.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    assert!(client.read(&mut [0]).is_err(), "there was a descriptor, or the link has ended");
    // A loop without a pause takes nearly all of 300.
    let used = used() - before;
    assert!(used < 60, "{used} ticks in three seconds");
    limit("1024");
    client.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "ok\nlink: 7ms RTT\n");
    haul.send(Signal::SIGTERM);
    haul.status();
    room.assert_clear();
}
