//! `haul page` as a process: a page served to other programs, and replayed over links with every option.

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
};

use common::{HAUL, Room, Running, one_sentence, output, printed, text};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::sys::signal::Signal;
use serde_json::Value;

/// A page over HTTPS with a style sheet on a host of its own, a picture over HTTP at another port, and a host that is an
/// address of the machine.
const PAGE: &str = r#"
schema = "longhaul.page/1"
title = "A page for everybody"

[[request]]
id = "page"
host = "www.first.test"
path = "/start"
response = { type = "text/html", text = "<link rel=stylesheet href=//style.second.test/s.css><img src=http://third.test:8080/p>" }

[[request]]
id = "style"
host = "style.second.test"
path = "/s.css"
after = [{ end = "page" }]
response = { type = "text/css", text = "body { color: green }", headers = ["cache-control: max-age=600"] }

[[request]]
id = "picture"
scheme = "http"
host = "third.test:8080"
path = "/p"
after = [{ end = "page" }]
response = { type = "image/png", body = 3000, think = "120ms" }

[[request]]
id = "own"
scheme = "http"
host = "127.0.0.1:8000"
path = "/own"
after = [{ end = "page" }]
response = { text = "at home", headers = ["last-modified: Tue, 01 Jan 2019 00:00:00 GMT"] }
"#;

fn main() {
    let arguments = Arguments::from_args();
    let probe = Room::new().link(&["--", "true"]);
    let has_links = probe.status.success();
    if !has_links {
        eprintln!("SKIPPED: links: {}", text(&probe.stderr));
    }
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    if !has_curl {
        eprintln!("SKIPPED: programs that load a page: curl is not installed (sudo apt-get install curl)");
    }
    let trials = vec![
        trial("any_program_loads_a_served_page", any_program_loads_a_served_page, has_links && has_curl),
        trial("served_page_needs_a_command_for_a_link", served_page_needs_a_command_for_a_link, true),
        trial("page_is_served_here_until_ctrl_c", page_is_served_here_until_ctrl_c, has_curl),
        trial("replay_takes_the_options_of_a_link", replay_takes_the_options_of_a_link, has_links),
        trial("replay_refuses_contradicting_options", replay_refuses_contradicting_options, true),
    ];
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, f: fn(), is_possible: bool) -> Trial {
    let trial = Trial::test(name, move || -> Result<(), Failed> {
        f();
        Ok(())
    });
    trial.with_ignored_flag(!is_possible)
}

fn page(room: &Room) -> PathBuf {
    let path = room.path("page.toml");
    fs::write(&path, PAGE).unwrap();
    path
}

/// `haul page` with these arguments, the first of which is the spec.
fn haul(room: &Room, command: &str, arguments: &[&str]) -> Command {
    let spec = page(room);
    let mut haul = room.command(HAUL);
    haul.args(["page", command]).arg(spec).args(arguments);
    haul
}

fn any_program_loads_a_served_page() {
    let room = Room::new();
    let script = "set -e
        echo $HAUL_PAGE_URL
        curl -sS --http1.1 -w ' %{http_version}\n' -o /dev/null \"$HAUL_PAGE_URL\"
        curl -sS -w ' %{http_version}\n' https://style.second.test/s.css
        curl -sS -w ' %{size_download} %{time_starttransfer}\n' -o /dev/null http://third.test:8080/p
        curl -sS -w '\n' http://server:8000/own
        curl -sS -o /dev/null -w '%{http_code}\n' https://www.first.test/missing
        test -n \"$HAUL_PAGE_KEY\"
        grep -q BEGIN \"$HAUL_PAGE_CA\"";
    let served = output(haul(&room, "serve", &["--rtt", "20ms", "--", "sh", "-c", script]));
    let said = printed(&served);
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert_eq!(lines[..3], ["https://www.first.test/start", "1.1", "body { color: green } 2"]);
    let (size, first) = lines[3].split_once(' ').unwrap();
    assert_eq!(size, "3000");
    assert!(first.parse::<f64>().unwrap() >= 0.16, "two round trips and the think time: {first}");
    assert_eq!(lines[4..], ["at home", "404"]);
    let told = text(&served.stderr);
    assert!(told.contains("A page for everybody: 4 requests of 4 hosts at https://www.first.test/start"), "{told}");
    assert!(told.contains("127.0.0.1:8000 cannot lead to another host"), "{told}");
    // Its exit status is the program's; a program that reads the system's list of authorities trusts it, too.
    let status = output(haul(&room, "serve", &["-q", "--", "sh", "-c", "exit 7"]));
    assert_eq!((status.status.code(), text(&status.stderr)), (Some(7), String::new()));
    if fs::exists("/etc/ssl/certs/ca-certificates.crt").unwrap() && Command::new("wget").arg("-V").output().is_ok() {
        let wget = ["-q", "--", "wget", "-q", "-O", "-", "https://style.second.test/s.css"];
        assert_eq!(printed(&output(haul(&room, "serve", &wget))), "body { color: green }");
    } else {
        println!("skipped: wget, which is not installed or has another list of authorities");
    }
    room.assert_clear();
}

fn served_page_needs_a_command_for_a_link() {
    let room = Room::new();
    let said = text(&output(haul(&room, "serve", &["--rtt", "20ms"])).stderr);
    assert!(said.contains("a link needs a command") && said.contains("-- bash"), "{said}");
    let said = text(&output(haul(&room, "serve", &["--listen", "127.0.0.1:0", "--", "true"])).stderr);
    assert!(said.contains("--listen") && said.contains("cannot be used with"), "{said}");
    let mut missing = room.command(HAUL);
    missing.args(["page", "serve", "no.toml", "--", "true"]);
    assert!(one_sentence(&output(missing), 1).contains("no.toml"));
    room.assert_clear();
}

fn page_is_served_here_until_ctrl_c() {
    let room = Room::new();
    let mut command = haul(&room, "serve", &["--listen", "127.0.0.1:0"]);
    command.stdout(Stdio::piped());
    let mut running = Running::start(command);
    let stdout = running.0.stdout.take().expect("it is piped");
    let lines: Vec<String> = BufReader::new(stdout).lines().take(3).map(Result::unwrap).collect();
    let [about, curl, chromium] = &lines[..] else { panic!("{lines:?}") };
    assert!(about.starts_with("A page for everybody: 4 requests of 4 hosts at 127.0.0.1:"), "{about}");
    assert!(chromium.contains("--ignore-certificate-errors-spki-list="), "{chromium}");
    // The quoted command works as it stands, for every host of the page.
    for (url, body) in [
        ("https://www.first.test/start", "<link rel=stylesheet"),
        ("https://style.second.test/s.css", "body { color: green }"),
    ] {
        let quoted = curl.replace("https://www.first.test/start", url);
        let mut shell = room.command("sh");
        shell.arg("-c").arg(format!("{quoted} -sS"));
        assert!(printed(&output(shell)).starts_with(body), "{quoted}");
    }
    let port = about.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
    let taken = output(haul(&room, "serve", &["--listen", &format!("127.0.0.1:{port}")]));
    assert!(one_sentence(&taken, 1).contains("in use"));
    running.send(Signal::SIGINT);
    assert!(running.status().success());
    room.assert_clear();
}

fn replay_takes_the_options_of_a_link() {
    let room = Room::new();
    let trace = room.path("trace");
    fs::write(&trace, "1\n2\n").unwrap();
    let runs = room.path("runs");
    let results = room.path("results.json");
    let arguments = [
        "--repeat-view",
        "--over",
        "h1",
        "--samples",
        "1",
        "--rtt",
        "5ms,2ms/8ms,5ms",
        "--jitter",
        "1ms",
        "--middlebox",
        "nat",
        "--mtu",
        "1400",
        "--seed",
        "7",
        "--trace-down",
        trace.to_str().unwrap(),
        "--results",
        runs.to_str().unwrap(),
        "--json",
        results.to_str().unwrap(),
    ];
    let done = output(haul(&room, "replay", &arguments));
    assert!(done.status.success(), "{}", text(&done.stderr));
    let run: Value = serde_json::from_slice(&fs::read(results).unwrap()).unwrap();
    let networks = run["networks"].as_array().unwrap();
    let names: Vec<&str> = networks.iter().map(|network| network["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["5ms", "2ms+8ms"], "each once");
    for network in networks {
        let link = &network["link"];
        assert_eq!(
            (&link["jitter"], &link["seed"], &link["mtu"]),
            (&"1ms".into(), &7.into(), &"1400".into()),
            "{link}"
        );
        assert_eq!(link["middlebox"][0], "nat", "{link}");
        assert_eq!(link["trace_down"], trace.to_str().unwrap(), "{link}");
    }
    let cells = run["cells"].as_array().unwrap();
    let of =
        |workload: &str| cells.iter().find(|cell| cell["workload"] == workload && cell["network"] == "5ms").unwrap();
    // A warm cache has the style sheet.
    for (workload, requests) in [("page", 4), ("page, repeat view", 3)] {
        let cell = of(workload);
        assert_eq!((&cell["status"], &cell["requests"]), (&"ok".into(), &requests.into()), "{cell}");
    }
    let cell = of("page");
    // The think time is no part of the floor, and of every load.
    assert!(cell["median_s"].as_f64().unwrap() > 0.12 && cell["floor_s"].as_f64().unwrap() < 0.05, "{cell}");
    let requests = cell["page_view"]["requests"].as_array().unwrap();
    assert_eq!((requests.len(), &requests[2]["name"]), (4, &"picture".into()));
    room.assert_clear();
}

fn replay_refuses_contradicting_options() {
    let room = Room::new();
    for (arguments, part) in [
        (&["--queue", "9p"][..], "needs a bottleneck"),
        (&["--middlebox", "strip-tof"], "did you mean `strip-tfo`"),
        (&["--rtt", "fast"], "10ms/30ms"),
    ] {
        let refused = output(haul(&room, "replay", arguments));
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(part), "{}", text(&refused.stderr));
    }
    let missing = output(haul(&room, "replay", &["--trace-up", "/no/trace"]));
    assert!(one_sentence(&missing, 1).contains("cannot read the trace file /no/trace"));
    room.assert_clear();
}
