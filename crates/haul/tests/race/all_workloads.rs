//! Complete races with every contender, server and workload.

use std::path::Path;

use capture::{Summary, pcapng::Reader};
use nix::unistd::geteuid;
use serde_json::Value;

use crate::{
    Trials,
    common::{HAUL, Room, output, printed},
    harness::{Ended, SMALL, cells, lab_run, results, room, run, runs, samples},
};

pub(crate) const TRIALS: Trials = &[
    ("every_contender_runs", every_contender_runs),
    ("reading_workloads_run_on_nginx_over_tls", reading_workloads_run_on_nginx_over_tls),
    ("editing_and_listing_run_on_apache_in_cleartext", editing_and_listing_run_on_apache_in_cleartext),
    ("all_workloads_run_on_the_embedded_server_in_cleartext", all_workloads_run_on_the_embedded_server_in_cleartext),
    ("gateways_race_over_tls", gateways_race_over_tls),
    ("odd_segment_stalls_an_upload", odd_segment_stalls_an_upload),
    ("locks_cost_round_trips_on_a_long_link", locks_cost_round_trips_on_a_long_link),
];

/// The fields that `docs/src/run-json.md` promises.
const FIELDS: [&str; 11] = [
    "schema",
    "experiment",
    "title",
    "started",
    "host",
    "calibration",
    "settings",
    "networks",
    "workloads",
    "comparisons",
    "claims",
];
const CELL_FIELDS: [&str; 18] = [
    "workload",
    "network",
    "contender",
    "model",
    "status",
    "reason",
    "samples_s",
    "median_s",
    "ci95_s",
    "bytes",
    "requests",
    "connections",
    "methods",
    "protocols",
    "round_trips",
    "floor_s",
    "times_floor",
    "why",
];

/// Runs a race and checks each cell: it succeeded, or was skipped because something is missing on this machine.
fn race(room: &Room, server: &str, arguments: &[&str]) -> Option<Ended> {
    let ended = run(room, lab_run(room, &[&["--server", server], arguments].concat()));
    if let Some(missing) = ended.said.iter().find(|line| line.contains("is not installed") && ended.said.len() == 1) {
        eprintln!("SKIPPED: a race over {server}: {missing}");
        return None;
    }
    ended.success();
    for cell in cells(&results(room)) {
        let reason = cell["reason"].as_str().unwrap_or_default();
        match cell["status"].as_str() {
            Some("ok") => {}
            Some("skipped") if reason.contains("is not installed") => {
                eprintln!("SKIPPED: {}: {reason}", cell["contender"]);
            }
            Some("skipped") if excused(cell, server, arguments, reason) => {}
            _ => panic!("{cell:#}"),
        }
        for field in CELL_FIELDS {
            assert!(cell.get(field).is_some(), "{field} is missing: {cell:#}");
        }
        if cell["status"] == "ok" {
            check_capture(&runs(room)[0], cell);
            check_why(cell);
        }
    }
    Some(ended)
}

fn excused(cell: &Value, server: &str, arguments: &[&str], reason: &str) -> bool {
    let (contender, workload) = (cell["contender"].as_str().unwrap(), cell["workload"].as_str().unwrap());
    if (contender.contains("davfs2") || contender.starts_with("samba")) && !geteuid().is_root() {
        // And the package to install.
        return reason.contains("root") && reason.contains("sudo");
    }
    if contender.starts_with("gvfs") && !geteuid().is_root() {
        // Its bus needs one.
        return reason.contains("no line in /etc/passwd");
    }
    let one_by_one = contender.starts_with("curl-parallel") && ["list", "edit"].contains(&workload);
    let no_proppatch = server == "nginx" && reason.contains("PROPPATCH");
    one_by_one || no_proppatch || contender == "curl-parallel-h2" && arguments.contains(&"--plain")
}

/// Checks that the cell's capture has the connections and bytes that the cell reports.
fn check_capture(folder: &Path, cell: &Value) {
    let [workload, network, contender] = ["workload", "network", "contender"].map(|key| cell[key].as_str().unwrap());
    let name = format!("{workload}-{network}-{contender}.pcapng").replace(' ', "-");
    let file = folder.join("captures").join(name);
    let summary = Summary::of(&mut Reader::open(&file).unwrap()).unwrap();
    assert!(!summary.connections.is_empty(), "{}", file.display());
    assert!(summary.connections.iter().all(|connection| connection.server.port() == 8443), "{}", file.display());
    if cell["samples_s"].as_array().unwrap().len() == 1 {
        assert_eq!(cell["connections"], summary.connections.len(), "{}", file.display());
        assert_eq!(cell["bytes"], summary.inbound.bytes + summary.outbound.bytes, "{}", file.display());
    }
}

/// Checks that the causes cover the whole time of the typical sample.
fn check_why(cell: &Value) {
    let why = &cell["why"];
    let place = why["round"].as_u64().expect("a round") as usize;
    let whole = cell["samples_s"][place].as_f64().expect("a sample");
    let seconds = why["seconds"].as_object().expect("seconds by cause");
    let sum: f64 = seconds.values().map(|seconds| seconds.as_f64().unwrap()).sum();
    assert!((sum - whole).abs() < 1e-6, "{sum} s of {whole} s: {cell:#}");
    assert!(why["answer"].as_str().is_some_and(|answer| answer.contains(" % ")), "{cell:#}");
}

/// The causes of the redirector model's time over 50 ms.
fn locks_cost_round_trips_on_a_long_link() {
    let room = room();
    std::fs::write(room.path("small.toml"), SMALL.replace("5ms", "50ms")).expect("a file");
    let arguments = ["--plain", "--workload", "upload"];
    let Some(ended) = race(&room, "embedded", &with(&arguments, &["redirector-h1"])) else { return };
    let kept = results(&room);
    let [cell] = cells(&kept) else { panic!("{kept:#}") };
    let (trips, whole) = (&cell["why"]["seconds"]["propagation"], cell["median_s"].as_f64().unwrap());
    assert!(trips.as_f64().is_some_and(|trips| trips > 0.6 * whole), "{cell:#}");
    assert!(cell["why"]["answer"].as_str().unwrap().contains("% round trips ("), "{cell:#}");
    assert!(ended.printed.contains("Where the time went"), "{}", ended.printed);
}

fn every_contender_runs() {
    let room = room();
    let arguments = ["--workload", "upload", "--samples", "3", "--json", "-"];
    let Some(ended) = race(&room, "apache", &arguments) else { return };
    let kept = results(&room);
    let on_stdout: Value = serde_json::from_str(&ended.printed).expect("JSON and nothing else");
    assert_eq!(on_stdout, kept);
    assert_eq!(kept["schema"], "longhaul.run/1");
    for field in FIELDS {
        assert!(kept.get(field).is_some(), "{field} is missing");
    }
    assert_eq!(kept["settings"]["server"], "apache");
    assert_eq!(kept["settings"]["patience"], "300s");
    assert_eq!(kept["settings"]["congestion control"], kept["host"]["sysctls"]["net.ipv4.tcp_congestion_control"]);
    assert_eq!(cells(&kept).len(), 11);
    let measured: Vec<&Value> = cells(&kept).iter().filter(|cell| cell["status"] == "ok").collect();
    assert!(measured.iter().all(|cell| cell["samples_s"].as_array().unwrap().len() == 3));
    // A busy machine may have disturbed some.
    let ranked = measured.iter().filter(|cell| cell["disturbed"].is_null()).count();
    assert_eq!(kept["comparisons"].as_array().unwrap().len(), ranked * ranked.saturating_sub(1) / 2);
    assert_eq!(samples(&room), 3 * measured.len());
    for cell in measured {
        let (http, tls) = match cell["contender"].as_str().unwrap() {
            "curl-parallel-h2" | "rclone" => ("HTTP/2.0", "TLSv1.3"),
            "redirector-h1" | "webdrive" => ("HTTP/1.1", "TLSv1.2"),
            "redirector-h2" => ("HTTP/2.0", "TLSv1.2"),
            _ => ("HTTP/1.1", "TLSv1.3"),
        };
        let [protocol] = cell["protocols"].as_array().unwrap().as_slice() else { panic!("{cell:#}") };
        assert_eq!((protocol["http"].as_str(), protocol["tls"].as_str()), (Some(http), Some(tls)), "{cell:#}");
        assert!(protocol["cipher"].as_str().is_some_and(|cipher| cipher.contains("AES")), "{cell:#}");
    }

    let lab = |arguments: &[&str]| {
        let mut command = room.command(HAUL);
        command.arg("lab").args(arguments).current_dir(room.path("."));
        printed(&output(command))
    };
    let id = runs(&room)[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(lab(&["list"]).lines().any(|line| line.contains(&id) && line.contains("11 cells")));
    assert!(lab(&["show"]).starts_with("A small race\n") && lab(&["show", &id]).contains("upload, near"));
    let shown: Value = serde_json::from_str(&lab(&["show", &id, "--json", "-"])).expect("JSON and nothing else");
    assert_eq!(shown, kept);
    assert!(lab(&["compare", &id, &id]).contains("upload"));
    let three: Value = serde_json::from_str(&lab(&["compare", &id, &id, &id, "--json", "-"])).expect("JSON");
    assert_eq!(
        (three["schema"].as_str(), three["runs"].as_array().map(Vec::len)),
        (Some("longhaul.compare/1"), Some(3))
    );
}

fn reading_workloads_run_on_nginx_over_tls() {
    let arguments = ["--workload", "download", "--workload", "list"];
    let contenders =
        ["curl", "curl-parallel-h2", "rclone", "redirector-h1", "redirector-h2", "webdrive", "davfs2-nolocks"];
    race(&room(), "nginx", &with(&arguments, &contenders));
}

fn editing_and_listing_run_on_apache_in_cleartext() {
    let arguments = ["--plain", "--workload", "edit", "--workload", "list"];
    let contenders =
        ["curl", "curl-parallel-h1", "rclone", "redirector-h2", "webdrive", "davfs2", "samba-davfs2-nolocks"];
    race(&room(), "apache", &with(&arguments, &contenders));
}

fn all_workloads_run_on_the_embedded_server_in_cleartext() {
    let arguments =
        ["--plain", "--workload", "upload", "--workload", "download", "--workload", "edit", "--workload", "list"];
    let contenders = ["curl-parallel-h1", "rclone", "redirector-h1", "webdrive", "samba-davfs2"];
    let room = room();
    race(&room, "embedded", &with(&arguments, &contenders));
    let all_read = cells(&results(&room)).iter().filter(|cell| cell["status"] == "ok").count();
    assert!(all_read >= 4 * 2, "{all_read} cells");
}

/// The experiment of the gateways, with little work, on a server whose LOCK creates a file, and on one whose LOCK only
/// reserves its name (Apache). Requests are counted between the middle box and the server.
fn gateways_race_over_tls() {
    let experiment = include_str!("../../../../experiments/gateways.toml");
    let experiment =
        ["files = 200", "entries = 1000", "times = 20"].iter().fold(experiment.to_owned(), |text, amount| {
            let (name, _) = amount.split_once(" = ").expect("an amount");
            text.replace(amount, &format!("{name} = 3"))
        });
    for server in ["embedded", "apache"] {
        let room = room();
        std::fs::write(room.path("small.toml"), experiment.replace("20MiB", "1MiB")).expect("a file");
        let Some(ended) = race(&room, server, &["--samples", "1", "--network", "article"]) else { continue };
        println!("{}", ended.printed);
        let kept = results(&room);
        let of = |contender: &str| {
            let is = |cell: &&Value| cell["contender"] == contender && cell["workload"] == "upload-small";
            cells(&kept).iter().find(is).expect("a cell").clone()
        };
        for (contender, client) in [("redirector-gateway", Some("redirector-h1")), ("redirector-h1", None)] {
            let cell = of(contender);
            assert_eq!(cell["requests_of"].as_str(), client, "{cell:#}");
            let locks = ["LOCK", "UNLOCK"].map(|method| cell["methods"][method].as_u64());
            assert_eq!(locks, [Some(3), Some(3)], "{cell:#}");
        }
        let nginx = of("redirector-nginx");
        if nginx["status"] == "ok" {
            assert_eq!(nginx["requests"], 3 * 8, "{nginx:#}");
        }
    }
}

/// The experiment of the stalled upload, with a file of ten chunks, which waits ten times for a timer of 0.1 s.
///
/// On a busy machine there may be fewer waits: if the sender's last segment is late, the receiver has acknowledged
/// already. So it has three attempts.
fn odd_segment_stalls_an_upload() {
    let experiment = include_str!("../../../../experiments/upload-stall.toml").replace("328680B", "82170B");
    let rows = [8217, 9280].map(|chunk| format!("chunked-upload chunk={chunk} in-flight=1"));
    let arguments = ["--samples", "1", "--network", "deferred-100ms"];
    let stalls = || {
        let room = room();
        std::fs::write(room.path("small.toml"), &experiment).expect("a file");
        race(&room, "embedded", &with(&arguments, &rows.each_ref().map(String::as_str)));
        let kept = results(&room);
        let [stalled, fixed] = rows.each_ref().map(|row| {
            let cells = cells(&kept);
            let cell = cells.iter().find(|cell| cell["contender"] == row.as_str()).expect("a cell");
            let held = cell["why"]["seconds"]["delayed_ack"].as_f64().unwrap_or_default();
            (cell["median_s"].as_f64().expect("a time"), held)
        });
        println!("{stalled:?} s and {fixed:?} s, of which waited for an ACK");
        // It takes longer, and the waits are attributed to the right cause.
        stalled.0 > 1.5 * fixed.0 && stalled.1 > fixed.1 + 0.2
    };
    assert!((0..3).any(|_| stalls()));
}

/// The arguments, with these contenders selected.
fn with<'a>(arguments: &[&'a str], contenders: &[&'a str]) -> Vec<&'a str> {
    let chosen = contenders.iter().flat_map(|name| ["--contender", *name]);
    arguments.iter().copied().chain(chosen).collect()
}
