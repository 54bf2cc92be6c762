//! Faults of contenders, servers and machines.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use nix::unistd::geteuid;

use crate::{
    Trials,
    common::{HAUL, Room, output, text},
    harness::{cells, lab_run, program, results, room, run, runs, samples},
};

pub(crate) const TRIALS: Trials = &[
    ("hanging_contender_fails_alone", hanging_contender_fails_alone),
    ("failed_contender_keeps_its_samples", failed_contender_keeps_its_samples),
    ("contender_that_does_half_the_work_fails", contender_that_does_half_the_work_fails),
    ("server_that_exits_ends_the_run", server_that_exits_ends_the_run),
    ("server_that_never_listens_ends_the_run", server_that_never_listens_ends_the_run),
    ("oversized_workload_is_refused", oversized_workload_is_refused),
    ("private_tmpdir_is_no_failure", private_tmpdir_is_no_failure),
];

/// Tests that simulate a fault in a mount namespace.
pub(crate) const SIMULATED: Trials = &[
    ("full_disk_at_the_start_is_reported", full_disk_at_the_start_is_reported),
    ("disk_filled_by_captures_keeps_the_results", disk_filled_by_captures_keeps_the_results),
    ("unwritable_results_are_shown", unwritable_results_are_shown),
    ("missing_tun_device_starts_nothing", missing_tun_device_starts_nothing),
    ("missing_user_namespaces_start_nothing", missing_user_namespaces_start_nothing),
];

fn hanging_contender_fails_alone() {
    let room = room();
    let hang = format!("case $1 in version) echo rclone v0;; *) echo stuck >&2; exec sleep {};; esac", room.marker());
    let mut command = lab_run(&room, &["--workload", "upload", "--samples", "2", "--timeout", "5s"]);
    command.env("PATH", program(&room, "rclone", &hang)).args(["--contender", "curl", "--contender", "rclone"]);
    run(&room, command).success();
    let kept = results(&room);
    let [curl, rclone] = cells(&kept) else { panic!("{kept:#}") };
    assert_eq!((curl["status"].as_str(), curl["samples_s"].as_array().unwrap().len()), (Some("ok"), 2));
    assert_eq!(rclone["reason"], "rclone did not finish within 5s and was killed: stuck");
    assert_eq!((rclone["status"].as_str(), &rclone["median_s"]), (Some("failed"), &serde_json::Value::Null));
}

fn failed_contender_keeps_its_samples() {
    let room = room();
    // Three files make a sample.
    let count = room.path("count");
    let script = format!(
        "case $* in -V|--version) echo curl v0; exit;; esac; echo >> {count}; \
         if [ $(wc -l < {count}) -le 3 ]; then exec /usr/bin/curl \"$@\"; fi; echo no such luck >&2; exit 7",
        count = count.display()
    );
    let mut command = lab_run(&room, &["--workload", "upload", "--contender", "curl", "--samples", "3"]);
    command.env("PATH", program(&room, "curl", &script));
    let ended = run(&room, command);
    assert!(ended.failure().contains("nothing could be measured"), "{:?}", ended.said);
    let kept = results(&room);
    let cell = &cells(&kept)[0];
    assert_eq!((cell["status"].as_str(), &cell["median_s"]), (Some("failed"), &serde_json::Value::Null));
    assert!(cell["reason"].as_str().unwrap().ends_with("no such luck"), "{cell:#}");
    assert_eq!(cell["samples_s"].as_array().unwrap().len(), 1);
    assert_eq!(samples(&room), 1);
    assert!(runs(&room)[0].join("captures/upload-near-curl.pcapng").exists());
}

fn contender_that_does_half_the_work_fails() {
    let room = room();
    let mut command = lab_run(&room, &["--workload", "upload", "--contender", "rclone"]);
    command.env("PATH", program(&room, "rclone", "exit 0"));
    let ended = run(&room, command);
    assert!(ended.failure().contains("nothing could be measured"), "{:?}", ended.said);
    let reason = cells(&results(&room))[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("the result is wrong: ") && reason.contains("has 0 of 3 names"), "{reason}");
    assert!(ended.printed.contains("rclone failed: the result is wrong"), "{}", ended.printed);
}

/// The command line, with this script in place of Apache.
fn with_apache(room: &Room, script: &str) -> Command {
    let script = format!("case $1 in -v) echo Apache;; *) {script};; esac");
    let mut command = lab_run(room, &["--workload", "upload", "--server", "apache", "--samples", "3"]);
    command.env("PATH", program(room, "apache2", &script));
    command
}

fn server_that_exits_ends_the_run() {
    let room = room();
    let ended = run(&room, with_apache(&room, "echo no such luck >&2; exit 1"));
    let said = ended.failure();
    assert!(said.starts_with("haul: apache did not start on "), "{said}");
    assert!(said.ends_with(": apache2 failed (exit status: 1): no such luck"), "{said}");
    assert_eq!(ended.said.iter().filter(|line| line.contains("did not start")).count(), 1, "{:?}", ended.said);
    assert_eq!(ended.printed, "");
    assert!(!room.path("runs").exists(), "{:?}", runs(&room));
}

fn server_that_never_listens_ends_the_run() {
    let room = room();
    let ended = run(&room, with_apache(&room, &format!("exec sleep {}", room.marker())));
    let said = ended.failure();
    assert!(said.contains("apache did not start") && said.contains("was not ready within"), "{said}");
    assert!(!room.path("runs").exists(), "{:?}", runs(&room));
}

fn oversized_workload_is_refused() {
    let room = room();
    let file = room.path("small.toml");
    let huge = fs::read_to_string(&file).unwrap().replace("files = 3", "files = 3000000000");
    fs::write(&file, huge).unwrap();
    let ended = run(&room, lab_run(&room, &["--workload", "download"]));
    let said = ended.failure();
    assert!(said.contains("workload `download` needs about ") && said.contains("GiB"), "{said}");
    assert!(!room.path("runs").exists(), "{:?}", runs(&room));
}

/// Apache drops root privileges, and then cannot enter a folder that only root may enter.
fn private_tmpdir_is_no_failure() {
    let room = room();
    fs::set_permissions(room.path("tmp"), fs::Permissions::from_mode(0o700)).unwrap();
    let command = lab_run(&room, &["--workload", "upload", "--contender", "curl", "--server", "apache"]);
    let ended = run(&room, command);
    if ended.said[0].contains("is not installed") {
        eprintln!("SKIPPED: Apache in a closed TMPDIR: {}", ended.said[0]);
        return;
    }
    assert_eq!(cells(&results(&room))[0]["status"], "ok");
}

/// The program in a mount namespace of its own, after this script.
fn after(room: &Room, script: &str, run: &Command) -> Command {
    let mut command = room.command("unshare");
    if !geteuid().is_root() {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    command.args(["--mount", "sh", "-ec", &format!("{script}\n\"$@\" && s=0 || s=$?\n{AFTER}"), "sh"]);
    command.arg(run.get_program()).args(run.get_args()).current_dir(room.path("."));
    command
}

/// The files on the script's private disk are copied to a visible one.
const AFTER: &str = "if [ -d disk ]; then cp -r disk seen; fi; exit $s";

pub(crate) fn may_simulate() -> bool {
    let room = Room::new();
    let run = after(&room, "mkdir disk; mount -t tmpfs none disk", &Command::new("true"));
    output(run).status.success()
}

/// A disk of this size, on which the runs are kept.
fn small_disk(room: &Room, options: &str, arguments: &[&str]) -> Command {
    let run = lab_run(room, &[&["--results", "disk/runs"], arguments].concat());
    after(room, &format!("mkdir disk; mount -t tmpfs -o {options} none disk"), &run)
}

fn full_disk_at_the_start_is_reported() {
    let room = room();
    let ended = run(&room, small_disk(&room, "nr_inodes=2", &["--workload", "upload"]));
    let said = ended.failure();
    assert!(said.contains("disk/runs/") && said.contains("No space left on device"), "{said}");
    assert_eq!(ended.said.len(), 1, "{:?}", ended.said);
    assert!(fs::read_dir(room.path("seen")).unwrap().next().is_none(), "a folder without results is left");
}

fn disk_filled_by_captures_keeps_the_results() {
    let room = room();
    let workloads = ["--workload", "upload", "--workload", "large", "--contender", "curl"];
    let ended = run(&room, small_disk(&room, "size=192k", &workloads));
    let said = ended.failure();
    assert!(said.contains("captures/large-near-curl-round0.pcapng: No space left on device"), "{said}");
    assert!(said.contains("stored in disk/runs/"), "{said}");
    fs::rename(room.path("seen/runs"), room.path("runs")).unwrap();
    let kept = results(&room);
    let [small, large] = cells(&kept) else { panic!("{kept:#}") };
    assert_eq!((&small["status"], &large["status"]), (&"ok".into(), &"skipped".into()));
    assert!(ended.printed.contains("upload, near"), "{}", ended.printed);
}

fn unwritable_results_are_shown() {
    let room = room();
    // A folder is in the way of the results.
    let script = "mkdir disk; mount -t tmpfs none disk; \
                  (for i in $(seq 3000); do if [ -d disk/runs/*/captures ]; then break; fi; sleep 0.01; done; \
                  for run in disk/runs/*; do mkdir \"$run/run.json\"; done) &";
    let once = lab_run(&room, &["--results", "disk/runs", "--workload", "upload", "--contender", "curl"]);
    let ended = run(&room, after(&room, script, &once));
    let said = ended.failure();
    assert!(said.contains("/run.json: Is a directory"), "{said}");
    assert!(said.contains("shown above and not stored, the samples are in disk/runs/"), "{said}");
    fs::rename(room.path("seen/runs"), room.path("runs")).unwrap();
    assert_eq!(samples(&room), 1);
    assert!(ended.printed.contains("upload, near") && ended.printed.contains("curl "), "{}", ended.printed);
}

fn missing_tun_device_starts_nothing() {
    let room = room();
    let ended = run(&room, after(&room, "mount -t tmpfs none /dev/net", &lab_run(&room, &["--workload", "upload"])));
    let said = ended.failure();
    assert!(said.contains("no /dev/net/tun") && said.contains("modprobe tun"), "{said}");
    assert_eq!(ended.said.len(), 2, "{:?}", ended.said);
    assert!(!room.path("runs").exists(), "{:?}", runs(&room));
}

fn missing_user_namespaces_start_nothing() {
    let room = room();
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all \"$@\"";
    let mut command = room.command("unshare");
    command.args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script, "sh", HAUL]);
    command.args(["lab", "run", "small.toml"]).current_dir(room.path("."));
    let ended = run(&room, command);
    let said = ended.failure();
    assert!(said.contains("namespaces") && said.contains("sysctl"), "{said}");
    assert_eq!(ended.said.len(), 1, "{}", text(ended.printed.as_bytes()));
    assert!(!room.path("runs").exists(), "{:?}", runs(&room));
}
