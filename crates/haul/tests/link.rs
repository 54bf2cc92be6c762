//! `haul link` as a process, run by root and by an ordinary user.

mod common;

use std::{
    fs,
    net::IpAddr,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::Path,
    process::Stdio,
    thread::sleep,
    time::Duration,
};

use capture::{Summary, pcapng::Reader};
use common::{FETCH, HAUL, Room, Running, eventually, one_sentence, output, printed, serve, text};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::Signal;

fn main() {
    let arguments = Arguments::from_args();
    let probe = Room::new().link(&["--", "true"]);
    let ready = probe.status.success();
    if !ready {
        eprintln!("SKIPPED: links: {}", text(&probe.stderr));
    }
    let links: [(&str, fn()); 28] = [
        ("exit_status_is_the_commands", exit_status_is_the_commands),
        ("command_that_cannot_run_gets_a_shells_exit_status", command_that_cannot_run_gets_a_shells_exit_status),
        ("both_commands_get_both_addresses", both_commands_get_both_addresses),
        ("server_listens_before_the_command_starts", server_listens_before_the_command_starts),
        ("served_folder_is_listed_under_the_hosts_name", served_folder_is_listed_under_the_hosts_name),
        ("output_of_the_server_is_not_mixed_into_the_commands", output_of_the_server_is_not_mixed_into_the_commands),
        ("server_that_ends_early_is_reported", server_that_ends_early_is_reported),
        ("wait_for_a_silent_server_is_bounded", wait_for_a_silent_server_is_bounded),
        ("foreign_names_fail_without_a_way_outside", foreign_names_fail_without_a_way_outside),
        ("only_verbose_links_explain_unsplit_segments", only_verbose_links_explain_unsplit_segments),
        ("captures_say_that_a_link_has_no_rate", captures_say_that_a_link_has_no_rate),
        ("captures_of_both_ends_are_readable", captures_of_both_ends_are_readable),
        ("full_stderr_is_ignored_and_full_stdout_is_an_error", full_stderr_is_ignored_and_full_stdout_is_an_error),
        ("invalid_sysctl_error_lists_the_valid_ones", invalid_sysctl_error_lists_the_valid_ones),
        ("background_processes_of_the_command_are_ended", background_processes_of_the_command_are_ended),
        ("signal_is_passed_on_and_everything_removed", signal_is_passed_on_and_everything_removed),
        ("signal_ends_a_command_without_a_handler", signal_ends_a_command_without_a_handler),
        ("signal_before_the_command_starts_ends_it", signal_before_the_command_starts_ends_it),
        ("signal_at_any_moment_ends_it", signal_at_any_moment_ends_it),
        ("signal_ends_a_calibration", signal_ends_a_calibration),
        ("command_that_ignores_signals_is_killed", command_that_ignores_signals_is_killed),
        ("killed_haul_leaves_no_process", killed_haul_leaves_no_process),
        ("nested_and_parallel_links_are_separate", nested_and_parallel_links_are_separate),
        ("nested_links_are_in_series", nested_links_are_in_series),
        ("compared_commands_take_turns", compared_commands_take_turns),
        ("failed_run_of_a_comparison_is_said", failed_run_of_a_comparison_is_said),
        ("command_that_does_not_exist_ends_a_comparison", command_that_does_not_exist_ends_a_comparison),
        ("signal_ends_a_comparison", signal_ends_a_comparison),
    ];
    let mut trials: Vec<_> = links.map(|(name, f)| trial(name, f).with_ignored_flag(!ready)).into();
    trials.push(trial("usage_error_names_the_valid_values", usage_error_names_the_valid_values));
    // These two are simulated in a user namespace, root's too.
    let none = !output(unprivileged(&Room::new(), &["true"])).status.success();
    if none {
        eprintln!("SKIPPED: machines that lack what links take: unshare(1) makes no user namespace here");
    }
    for (name, f) in [
        ("missing_tun_device_is_reported", missing_tun_device_is_reported as fn()),
        ("missing_user_namespaces_are_reported", missing_user_namespaces_are_reported),
    ] {
        trials.push(trial(name, f).with_ignored_flag(none));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, f: fn()) -> Trial {
    Trial::test(name, move || -> Result<(), Failed> {
        f();
        Ok(())
    })
}

fn exit_status_is_the_commands() {
    let room = Room::new();
    for (command, status) in
        [("true", 0), ("exit 1", 1), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let output = room.link(&["--", "sh", "-c", command]);
        assert_eq!(output.status.code(), Some(status), "{command}");
        assert_eq!(text(&output.stderr), "", "{command}");
    }
    room.assert_clear();
}

fn command_that_cannot_run_gets_a_shells_exit_status() {
    let room = Room::new();
    let said = one_sentence(&room.link(&["--", "/no/such/program"]), 127);
    assert!(said.contains("/no/such/program"), "{said}");
    let file = room.path("not-executable");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let said = one_sentence(&room.link(&["--", file.to_str().unwrap()]), 126);
    assert!(said.contains("not-executable"), "{said}");
    room.assert_clear();
}

fn both_commands_get_both_addresses() {
    let room = Room::new();
    let names = ["HAUL_CLIENT_IP", "HAUL_SERVER_IP", "HAUL_CLIENT_IP6", "HAUL_SERVER_IP6"];
    let print = format!("printenv {}", names.join(" "));
    let file = room.path("server");
    let server = format!("{print} > '{}'; {}", file.display(), serve(&room.path("tmp")));
    let at_client = printed(&room.link(&["--server", &server, "--", "sh", "-c", &print]));
    let addresses: Vec<IpAddr> = at_client.lines().map(|line| line.parse().expect("an address")).collect();
    assert_eq!(addresses.iter().map(IpAddr::is_ipv4).collect::<Vec<_>>(), [true, true, false, false]);
    assert_eq!(fs::read_to_string(file).unwrap(), at_client);
    room.assert_clear();
}

fn server_listens_before_the_command_starts() {
    let room = Room::new();
    let server = format!("sleep 0.3; {}", serve(&room.path("tmp")));
    let answer = printed(&room.link(&["--rtt", "5ms", "--server", &server, "--", "bash", "-c", FETCH]));
    assert!(answer.starts_with("HTTP/1.") && answer.contains(" 200"), "{answer}");
    room.assert_clear();
}

/// `haul serve` accepts names against which DNS rebinding is not possible: the link's are among them.
fn served_folder_is_listed_under_the_hosts_name() {
    let room = Room::new();
    fs::create_dir(room.path("served")).unwrap();
    fs::write(room.path("served/file"), "").unwrap();
    let server = serve(&room.path("served"));
    let listed = room.link(&["--server", &server, "--", HAUL, "ls", "http://server:8080/"]);
    assert_eq!(printed(&listed), "file\n");
    // The address is the client's, not the server's.
    let foreign =
        "exec 3<>/dev/tcp/server/8080; printf 'GET / HTTP/1.1\\r\\nHost: client\\r\\n\\r\\n' >&3; head -n 1 <&3";
    let refused = room.link(&["--server", &server, "--", "bash", "-c", foreign]);
    assert!(printed(&refused).starts_with("HTTP/1.1 421 "), "{refused:?}");
}

fn output_of_the_server_is_not_mixed_into_the_commands() {
    let room = Room::new();
    let server = format!("echo from the server; {}", serve(&room.path("tmp")));
    let output = room.link(&["--server", &server, "--", "echo", "from the command"]);
    assert!(text(&output.stderr).contains("from the server\n"), "{}", text(&output.stderr));
    assert_eq!(printed(&output), "from the command\n");
    room.assert_clear();
}

fn server_that_ends_early_is_reported() {
    let room = Room::new();
    let touched = room.path("touched");
    let said = one_sentence(&room.link(&["--server", "exit 3", "--", "touch", touched.to_str().unwrap()]), 1);
    assert!(said.contains("exit 3") && said.contains("exit status: 3"), "{said}");
    assert!(!touched.exists(), "the command ran");
    room.assert_clear();
}

fn wait_for_a_silent_server_is_bounded() {
    let room = Room::new();
    let server = format!("exec sleep {}", room.marker());
    assert_eq!(printed(&room.link(&["--server", &server, "--", "echo", "done"])), "done\n");
    room.assert_clear();
}

fn usage_error_names_the_valid_values() {
    let room = Room::new();
    for (arguments, told) in [
        (&["--middlebox", "strip-tof"][..], &["did you mean `strip-tfo`", "hold-acks", "nat"][..]),
        (&["--at", "1s:middlebox=strip-tof"], &["did you mean `strip-tfo`", "hold-acks", "nat"]),
        (&["--at", "1s:speed=1mbit"], &["`speed`", "rate, trace-up"]),
        (&["--at", "1s:seed=2"], &["`seed`", "rate, trace-up"]),
        (&["--at", "1s:rate=fast"], &["`fast`", "100mbit"]),
        (&["--at", "1s:queue=9p"], &["--at 1s:queue=9p", "give a rate"]),
        (&["--queue", "9p"], &["give a rate"]),
        (&["--queue", "x"], &["`bdp`"]),
        (&["--loss", "1%/x"], &["`1%/0%` for up and down"]),
        (&["--rtt", "1ms/2ms/3ms"], &["`10ms/30ms`"]),
        (&["--mtu", "65536"], &["from 68 to 65535"]),
        (&["--at", "1s:wan.loss=1%"], &["there is no cable `wan`; there are: link"]),
        (&["--at", "1s:mtu=9000"], &["--at 1s:mtu=9000", "cannot grow", "1500"]),
        (&["--topology", "x", "--server", "y"], &["--server"]),
        (&["--sysctl", "net.ipv4.tcp_sack="], &["net.ipv4.tcp_fastopen=3"]),
        (&["--capture", "x", "--snaplen", "0"], &["--snaplen"]),
        (&["--json", "-"], &["--compare", "--calibrate"]),
        (&["--runs", "3"], &["--compare"]),
        (&["--network", "5g"], &["3g, 4g, dsl, satellite, transatlantic"]),
        (&["--compare", "true"], &["cannot be used with"]),
    ] {
        let output = room.link(&[arguments, &["--", "true"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(told.iter().all(|part| said.contains(part)), "{arguments:?}: {said}");
    }
    let one = room.link(&["--compare", "true"]);
    assert!(one.status.code() == Some(2) && text(&one.stderr).contains("at least two"), "{}", text(&one.stderr));
    let said = text(&room.link(&["--calibrate", "--rtt", "5ms"]).stderr);
    assert!(said.contains("--calibrate") && said.contains("leave out"), "{said}");
    room.assert_clear();
}

fn invalid_sysctl_error_lists_the_valid_ones() {
    let room = Room::new();
    let set = |setting| one_sentence(&room.link(&["--sysctl", setting, "--", "true"]), 1);
    let said = set("net.ipv4.tcp_congestion_control=none_such");
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    assert!(said.contains("tcp_allowed_congestion_control") && said.contains(available.trim()), "{said}");
    let said = set("net.ipv4.none_such=1");
    assert!(said.contains("net.ipv4.none_such") && said.contains("sysctl -a"), "{said}");
    room.assert_clear();
}

/// A full disk behind 2> must not end a command that runs well, nor a closed pipe a calibration.
fn full_stderr_is_ignored_and_full_stdout_is_an_error() {
    let room = Room::new();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let mut deaf = room.command(HAUL);
    deaf.args(["link", "--at", "9s:rtt=2ms", "--", "sh", "-c", "exit 5"]).stderr(full());
    assert_eq!(Running::start(deaf).status().code(), Some(5));
    let mut calibration = room.command(HAUL);
    calibration.args(["link", "--calibrate"]).stdout(full()).stderr(fs::File::create(room.path("said")).unwrap());
    assert_eq!(Running::start(calibration).status().code(), Some(1));
    let said = fs::read_to_string(room.path("said")).unwrap();
    assert!(said.starts_with("haul: cannot print the results: ") && said.lines().count() == 1, "{said}");
    room.assert_clear();
}

fn foreign_names_fail_without_a_way_outside() {
    let room = Room::new();
    let before = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let script = "getent ahosts example.org; echo status $?; cat /etc/resolv.conf || true";
    let told = printed(&room.link(&["--", "sh", "-c", script]));
    assert!(told.starts_with("status 2\n"), "{told}"); // getent(1): not found
    assert!(told.lines().all(|line| !line.starts_with("nameserver")), "{told}");
    assert_eq!(fs::read_to_string("/etc/resolv.conf").unwrap_or_default(), before, "the machine's file changed");
    room.assert_clear();
}

fn only_verbose_links_explain_unsplit_segments() {
    let room = Room::new();
    let said = |options: &[&str]| {
        let mut command = room.command(HAUL);
        command.arg("link").args(options).args(["--rtt", "1ms", "--", "true"]);
        text(&output(command).stderr)
    };
    assert!(!said(&[]).contains("unsplit"));
    assert!(said(&["--verbose"]).contains("TCP segments of up to 64 KiB pass unsplit"));
}

/// The rates that `haul explain` shows of the connections in captures, each once.
fn rates(room: &Room, captures: &[&Path]) -> Vec<Option<f64>> {
    let mut command = room.command(HAUL);
    command.args(["explain", "--json", "-"]).args(captures);
    let document: serde_json::Value = serde_json::from_str(&printed(&output(command))).unwrap();
    let connections = document["connections"].as_array().unwrap().iter();
    let mut rates: Vec<_> = connections.map(|connection| connection["rate_bits"].as_f64()).collect();
    rates.dedup();
    rates
}

/// A download on a link without a rate is as fast as the machine, which looks like a bottleneck.
fn captures_say_that_a_link_has_no_rate() {
    let room = Room::new();
    let folder = room.path("captures");
    fs::write(room.path("file"), vec![7; 20_000_000]).unwrap();
    let server = serve(&room.path(""));
    for (options, rate) in [(&["--rtt", "10ms"][..], None), (&["--rtt", "10ms", "--rate", "200mbit"], Some(2e8))] {
        let link = ["--capture", folder.to_str().unwrap(), "--server", &server];
        let fetch = format!("'{HAUL}' cp http://$HAUL_SERVER_IP:8080/file '{}'", room.path("copy").display());
        let command = ["--", "sh", "-c", &fetch];
        printed(&room.link(&[options, &link, &command].concat()));
        let [client, server] = ["client.pcapng", "server.pcapng"].map(|name| folder.join(name));
        for captures in [&[&*client][..], &[&*server], &[&*client, &*server]] {
            assert_eq!(rates(&room, captures), [rate], "{options:?}");
        }
    }
    room.assert_clear();
}

fn captures_of_both_ends_are_readable() {
    let room = Room::new();
    let folder = room.path("not/yet/there");
    let server = serve(&room.path("tmp"));
    let arguments = ["--capture", folder.to_str().unwrap(), "--server", &server, "--", "bash", "-c", FETCH];
    printed(&room.link(&arguments));
    let ends = ["client.pcapng", "server.pcapng"].map(|name| summary(&folder.join(name)));
    for end in &ends {
        let [connection] = end.connections.as_slice() else { panic!("connections: {:?}", end.connections) };
        assert_eq!(connection.server.port(), 8080);
        assert!(connection.to_client.packets > 2, "{connection:?}");
    }
    let [client, server] = ends;
    assert_eq!(client.outbound.packets, server.inbound.packets);
    assert_eq!(server.outbound.packets, client.inbound.packets);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    room.assert_clear();
}

fn summary(file: &Path) -> Summary {
    Summary::of(&mut Reader::open(file).unwrap()).unwrap()
}

fn background_processes_of_the_command_are_ended() {
    let room = Room::new();
    let daemon = format!("setsid sleep {} > /dev/null 2>&1 &", room.marker());
    printed(&room.link(&["--", "sh", "-c", &daemon]));
    room.assert_clear();
}

/// Starts a command that writes the signals it gets into a file and ends with status 3, beside a server.
fn a_careful_command(room: &Room, extra: &[&str]) -> Running {
    let got = room.path("got");
    let command = format!(
        "trap 'echo INT > {got}; exit 3' INT; trap 'echo TERM > {got}; exit 3' TERM; \
         sleep {marker} & echo up; while :; do sleep 0.05; done",
        got = got.display(),
        marker = room.marker()
    );
    let server = format!("sleep {} & {}", room.marker(), serve(&room.path("tmp")));
    room.link_until_up(&[extra, &["--server", &server, "--", "sh", "-c", &command]].concat())
}

fn signal_is_passed_on_and_everything_removed() {
    for (signal, name) in [(Signal::SIGINT, "INT\n"), (Signal::SIGTERM, "TERM\n")] {
        let room = Room::new();
        let folder = room.path("capture");
        let mut haul = a_careful_command(&room, &["--capture", folder.to_str().unwrap()]);
        assert_eq!(room.left_over().len(), 1, "one scratch folder");
        haul.send(signal);
        assert_eq!(haul.status().code(), Some(3), "{signal}");
        assert_eq!(fs::read_to_string(room.path("got")).unwrap(), name);
        room.assert_clear();
        summary(&folder.join("client.pcapng"));
        summary(&folder.join("server.pcapng"));
    }
}

fn signal_ends_a_command_without_a_handler() {
    let room = Room::new();
    let command = format!("echo up; exec sleep {}", room.marker());
    let mut haul = room.link_until_up(&["--", "sh", "-c", &command]);
    haul.send(Signal::SIGINT);
    assert_eq!(haul.status().code(), Some(130));
    room.assert_clear();
}

fn signal_before_the_command_starts_ends_it() {
    let room = Room::new();
    let touched = room.path("touched");
    // The file shows that it waits for the server, which does not listen.
    let up = room.path("up");
    let server = format!("touch '{}'; exec sleep {}", up.display(), room.marker());
    let mut command = room.command(HAUL);
    command.args(["link", "--quiet", "--server", &server, "--", "touch", touched.to_str().unwrap()]);
    let mut haul = Running::start(command);
    assert!(eventually(|| up.exists()), "the server does not start");
    haul.send(Signal::SIGINT);
    assert_eq!(haul.status().code(), Some(130));
    assert!(!touched.exists(), "the command ran");
    room.assert_clear();
}

fn signal_at_any_moment_ends_it() {
    let room = Room::new();
    for moment in 0..30 {
        let mut command = room.command(HAUL);
        command.args(["link", "--quiet", "--", "sleep", room.marker()]);
        let mut haul = Running::start(command);
        sleep(Duration::from_millis(2 * moment));
        haul.send(Signal::SIGINT);
        let status = haul.status();
        let ended_by_it = status.code() == Some(130) || status.signal() == Some(Signal::SIGINT as i32);
        assert!(ended_by_it, "after {} ms: {status}", 2 * moment);
    }
    room.assert_clear();
}

fn signal_ends_a_calibration() {
    let room = Room::new();
    let mut command = room.command(HAUL);
    command.args(["link", "--calibrate"]).stdout(Stdio::piped());
    let mut haul = Running::start(command);
    assert!(eventually(|| !room.left_over().is_empty()), "it does not start");
    haul.send(Signal::SIGTERM);
    assert_eq!(haul.status().code(), Some(143));
    room.assert_clear();
}

fn command_that_ignores_signals_is_killed() {
    let room = Room::new();
    let folder = room.path("capture");
    let command = format!("trap '' TERM; echo up; while :; do sleep 0.1; done; sleep {}", room.marker());
    let mut haul = room.link_until_up(&["--capture", folder.to_str().unwrap(), "--", "sh", "-c", &command]);
    haul.send(Signal::SIGTERM);
    assert_eq!(haul.status().code(), Some(137));
    room.assert_clear();
    summary(&folder.join("client.pcapng"));
}

fn killed_haul_leaves_no_process() {
    let room = Room::new();
    let mut haul = a_careful_command(&room, &[]);
    haul.send(Signal::SIGKILL);
    haul.status();
    room.assert_no_process_and_no_mount();
    assert!(!room.path("got").exists(), "the command got a signal it could heed");
    // Only an empty folder is left, which the next run removes.
    let left = room.left_over();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read_dir(&left[0]).unwrap().count(), 0);
    printed(&room.link(&["--", "true"]));
    room.assert_clear();
}

/// PIDs begin again in each link's sandbox, so they do not identify the owner of a scratch folder.
fn nested_and_parallel_links_are_separate() {
    let room = Room::new();
    let inner = format!("'{HAUL}' link --quiet -- sh -c 'sleep 0.2; exit 5'");
    let running: Vec<_> = (0..3)
        .map(|_| {
            let mut command = room.command(HAUL);
            command.args(["link", "--quiet", "--", "sh", "-c", &inner]);
            Running::start(command)
        })
        .collect();
    for mut haul in running {
        assert_eq!(haul.status().code(), Some(5));
    }
    room.assert_clear();
}

/// The inner link has no server of its own, so `server` is the outer one's, over both links.
fn nested_links_are_in_series() {
    let room = Room::new();
    let script = r#"
        begin=${EPOCHREALTIME/./}
        exec 3<>"/dev/tcp/server/8080" || exit
        end=${EPOCHREALTIME/./}
        printf 'GET / HTTP/1.0\r\n\r\n' >&3 && head -n 1 <&3
        echo "$(((end - begin) / 1000)) $1""#;
    let file = room.path("connect");
    fs::write(&file, script).unwrap();
    // A script for each level, since every one has its own `$HAUL_SERVER_IP`.
    let [two, three] = ["two", "three"].map(|name| room.path(name));
    fs::write(&two, format!("'{HAUL}' link -q --rtt 40ms -- bash -c 'bash \"{}\" $HAUL_SERVER_IP'", file.display()))
        .unwrap();
    fs::write(&three, format!("'{HAUL}' link -q -- sh '{}'", two.display())).unwrap();
    for inner in [two, three] {
        let server = serve(&room.path("tmp"));
        let arguments = ["--rtt", "60ms", "--server", &server, "--", "sh", inner.to_str().unwrap()];
        let told = printed(&room.link(&arguments));
        let (answer, took) = told.split_once('\n').expect("two lines");
        assert!(answer.starts_with("HTTP/1."), "{told}");
        let (took, address) = took.trim().split_once(' ').expect("a time and an address");
        assert!(took.parse::<u32>().unwrap() >= 100, "the RTTs of 60 and 40 ms add up: {told}");
        assert_eq!(address, "100.64.0.2", "the outer server");
    }
    room.assert_clear();
}

fn compared_commands_take_turns() {
    let room = Room::new();
    let [turns, json, csv, markdown] = ["turns", "json", "csv", "md"].map(|name| room.path(name));
    let quick = format!("echo a >> '{}'", turns.display());
    let slow = format!("echo b >> '{}'; sleep 0.5", turns.display());
    let files = [("--json", &json), ("--csv", &csv), ("--export-markdown", &markdown)];
    let files = files.iter().flat_map(|(option, path)| [*option, path.to_str().unwrap()]);
    let arguments = ["--rtt", "5ms", "--compare", &slow, "--compare", &quick, "--runs", "4", "--warmup", "2"];
    let table = printed(&room.link(&arguments.into_iter().chain(files).collect::<Vec<_>>()));
    let order: Vec<String> = fs::read_to_string(turns).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(order.join(""), "baabbaabbaab", "each round begins with another");
    assert!(table.contains("5ms RTT: 4 runs of each command, in turn, after 2 runs to warm up"), "{table}");
    assert!(table.contains(&format!("  A  {slow}")) || table.contains("  A  echo b"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["schema"], "longhaul.link-compare/1");
    let samples = |index: usize| json["commands"][index]["samples_s"].as_array().unwrap().len();
    assert_eq!((samples(0), samples(1)), (4, 4));
    assert!(json["commands"][0]["median_s"].as_f64().unwrap() >= 0.5, "{json}");
    assert_eq!(fs::read_to_string(csv).unwrap().lines().count(), 9);
    assert!(fs::read_to_string(markdown).unwrap().contains(&format!("| `{slow}` |")));
    room.assert_clear();
}

fn failed_run_of_a_comparison_is_said() {
    let room = Room::new();
    let compared = room.link(&["--compare", "echo no such page >&2; exit 22", "--compare", "true", "--runs", "3"]);
    let (table, said) = (text(&compared.stdout), text(&compared.stderr));
    assert_eq!(compared.status.code(), Some(1), "{said}");
    assert!(said.contains("failed (exit status 22): no such page"), "{said}");
    assert!(table.contains("A failed in 3 of 3 runs (exit status 22); it has no times."), "{table}");
    room.assert_clear();
}

fn command_that_does_not_exist_ends_a_comparison() {
    let room = Room::new();
    let arguments = ["--compare", "/no/such/program", "--compare", "true"];
    let said = one_sentence(&room.link(&arguments), 127);
    assert!(said.contains("/no/such/program"), "{said}");
    room.assert_clear();
}

fn signal_ends_a_comparison() {
    let room = Room::new();
    let up = room.path("up");
    // It ends well, in spite of the signal.
    let waits = format!("trap 'exit 0' INT; touch '{}'; sleep {} & wait", up.display(), room.marker());
    let mut command = room.command(HAUL);
    command.args(["link", "--quiet", "--compare", &waits, "--compare", "true"]);
    let mut haul = Running::start(command);
    assert!(eventually(|| up.exists()), "the command does not start");
    haul.send(Signal::SIGINT);
    assert_eq!(haul.status().code(), Some(130));
    room.assert_clear();
}

fn missing_tun_device_is_reported() {
    let room = Room::new();
    let mut command = room.command("unshare");
    let script = "mount -t tmpfs none /dev && exec \"$0\" link --quiet -- true";
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, HAUL]);
    let said = one_sentence(&output(command), 1);
    assert!(said.contains("no /dev/net/tun") && said.contains("modprobe tun"), "{said}");
    room.assert_clear();
}

/// `command`, without capabilities, in a user namespace that allows no further ones.
fn unprivileged(room: &Room, command: &[&str]) -> std::process::Command {
    let mut unshare = room.command("unshare");
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all \"$@\"";
    unshare.args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh"]).args(command);
    unshare
}

fn missing_user_namespaces_are_reported() {
    let room = Room::new();
    let said = one_sentence(&output(unprivileged(&room, &[HAUL, "link", "--quiet", "--", "true"])), 1);
    assert!(said.contains("namespaces") && said.contains("sysctl"), "{said}");
    room.assert_clear();
}
