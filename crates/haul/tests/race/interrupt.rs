//! Races that are interrupted.

use std::{fs, io::Write, os::fd::OwnedFd, os::unix::process::ExitStatusExt, process::Command, time::Duration};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    pty::openpty,
    sys::signal::{Signal, kill},
    unistd::{Pid, pipe},
};

use crate::{
    Trials,
    common::{HAUL, Room, eventually, output, printed},
    harness::{Ended, Race, cells, lab_run, results, room, runs, samples},
};

pub(crate) const TRIALS: Trials = &[
    ("interrupt_before_the_first_sample_leaves_nothing", interrupt_before_the_first_sample_leaves_nothing),
    ("interrupt_keeps_finished_samples", interrupt_keeps_finished_samples),
    ("sigterm_keeps_finished_samples", sigterm_keeps_finished_samples),
    ("closed_terminal_loses_no_result", closed_terminal_loses_no_result),
    ("hanging_shutdown_is_bounded_at_a_terminal_too", hanging_shutdown_is_bounded_at_a_terminal_too),
    ("nohup_is_respected", nohup_is_respected),
    ("killed_supervisor_leaves_no_process", killed_supervisor_leaves_no_process),
    ("killed_worker_is_reported", killed_worker_is_reported),
];

/// Longer than any test waits.
const ENDLESS: [&str; 4] = ["--samples", "100", "--workload", "upload"];

fn interrupt_before_the_first_sample_leaves_nothing() {
    let moments = [(0, Signal::SIGINT, true), (15, Signal::SIGTERM, false), (40, Signal::SIGINT, false)];
    for (ms, signal, to_the_group) in
        moments.into_iter().chain([(150, Signal::SIGTERM, true), (1300, Signal::SIGINT, true)])
    {
        let room = room();
        let mut race = Race::start(lab_run(&room, &ENDLESS));
        race.watch(Duration::from_millis(ms));
        race.send(signal, to_the_group);
        let ended = race.end();
        // It may not have installed its signal handlers yet.
        if ended.status.signal() != Some(signal as i32) {
            assert_eq!(ended.failure(), "haul: interrupted before anything was measured", "after {ms} ms");
        }
        assert_eq!(ended.printed, "");
        race.assert_clear(&room);
        assert!(!room.path("runs").exists(), "after {ms} ms: {:?}", runs(&room));
    }
}

fn interrupt_keeps_finished_samples() {
    for (ms, to_the_group) in [(0, true), (130, false), (390, true), (710, true)] {
        stop_midway(ms, Signal::SIGINT, to_the_group);
    }
}

fn sigterm_keeps_finished_samples() {
    for (ms, to_the_group) in [(30, false), (220, false), (520, true), (900, false)] {
        stop_midway(ms, Signal::SIGTERM, to_the_group);
    }
}

/// Stops a time after the first sample: while a server starts, a mount is created, a contender runs, or all is torn
/// down.
fn stop_midway(ms: u64, signal: Signal, to_the_group: bool) {
    let room = room();
    let mut race = Race::start(lab_run(&room, &ENDLESS));
    race.wait_for_sample();
    race.watch(Duration::from_millis(ms));
    assert!(race.is_seen(&room), "who cannot see a run that goes on cannot see what it leaves either");
    race.send(signal, to_the_group);
    let ended = race.end();
    assert!(ended.failure().starts_with("haul: interrupted; the results so far"), "{:?}", ended.said);
    race.assert_clear(&room);
    check_kept(&room, &ended);
}

fn check_kept(room: &Room, ended: &Ended) {
    let kept = results(room);
    let of = |status: &str| cells(&kept).iter().filter(|cell| cell["status"] == status).collect::<Vec<_>>();
    assert!(!of("ok").is_empty(), "nothing is kept");
    assert!(of("failed").is_empty(), "{:#?}", of("failed"));
    let of_cells: usize = of("ok").iter().map(|cell| cell["samples_s"].as_array().unwrap().len()).sum();
    assert_eq!(samples(room), of_cells);
    let captures = fs::read_dir(runs(room)[0].join("captures")).unwrap();
    let waiting = captures.flatten().filter(|capture| capture.file_name().to_string_lossy().contains("-round"));
    assert_eq!(waiting.count(), 0, "captures are kept of which nobody has said that they are worth it");
    let unreached = of("skipped").iter().filter(|cell| cell["reason"] == "the run was stopped before it").count();
    if unreached > 0 {
        let said = format!("{unreached} of 11 cells were not measured, because the run was stopped.");
        assert!(ended.printed.contains(&said), "{}", ended.printed);
    }
}

/// A race of curl alone, started by another program.
fn by(room: &Room, starter: &[&str], arguments: &[&str]) -> Command {
    let run = lab_run(room, &[&["--workload", "upload", "--contender", "curl"], arguments].concat());
    let mut command = room.command(starter[0]);
    command.args(&starter[1..]).arg(run.get_program()).args(run.get_args()).current_dir(room.path("."));
    command
}

fn closed_terminal_loses_no_result() {
    let room = room();
    // The reader of both pipes ends while there is still much output.
    // Before the first sample's line there are at most three: the calibration, and two repeats on a busy machine.
    let script = "\"$@\" 2>&1 | head -n 4 >&2";
    let mut race = Race::start(by(&room, &["bash", "-c", script, "bash"], &["--samples", "100"]));
    race.wait_for_sample();
    let two = || runs(&room).first().is_some_and(|run| run.join("samples.csv").exists()) && samples(&room) > 1;
    assert!(eventually(two), "there is no second sample");
    race.send(Signal::SIGHUP, true);
    race.turn_away();
    race.end();
    race.assert_clear(&room);
    let kept = results(&room);
    assert!(cells(&kept)[0]["samples_s"].as_array().unwrap().len() > 1, "{kept:#}");
}

/// A full pipe, and its other end.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    while nix::unistd::write(&writer, &[0; 4096]).is_ok() {}
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, writer)
}

/// Ctrl-C from the terminal itself: the supervisor gets it too and sets no time limit. Then the table goes to a pipe
/// that nobody reads.
fn hanging_shutdown_is_bounded_at_a_terminal_too() {
    let room = room();
    let terminal = openpty(None, None).unwrap();
    let (unread, full) = full_pipe();
    let command = by(&room, &["setsid", "--ctty", "--wait"], &["--samples", "100"]);
    let mut race = Race::between(command, terminal.slave, full);
    race.wait_for_sample();
    race.watch(Duration::from_millis(100));
    let mut keyboard = fs::File::from(terminal.master);
    keyboard.write_all(b"\x03").unwrap();
    let ended = race.end();
    let said = ended.failure();
    assert!(
        said.starts_with("haul: interrupted; the run did not end within 18s, so its programs were killed"),
        "{said}"
    );
    assert!(said.contains("the results so far are in runs/"), "{said}");
    race.assert_clear(&room);
    check_kept(&room, &ended);
    drop(unread);
}

fn nohup_is_respected() {
    let room = room();
    let mut race = Race::start(by(&room, &["nohup"], &[]));
    race.wait_for_calibration();
    race.send(Signal::SIGHUP, true);
    race.end().success();
    race.assert_clear(&room);
    assert_eq!(cells(&results(&room))[0]["status"], "ok");
}

fn killed_supervisor_leaves_no_process() {
    let room = room();
    let mut race = Race::start(lab_run(&room, &ENDLESS));
    race.wait_for_sample();
    race.watch(Duration::from_millis(300));
    race.send(Signal::SIGKILL, false);
    race.end();
    race.assert_gone(&room);
    assert!(samples(&room) > 0, "what was measured is gone");
    // Only an empty folder is left, which the next run removes, with the samples and captures.
    let left = room.left_over();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read_dir(&left[0]).unwrap().count(), 0);
    printed(&room.link(&["--", "true"]));
    assert!(room.left_over().is_empty(), "{:?}", room.left_over());
    let mut list = room.command(HAUL);
    list.args(["lab", "list"]).current_dir(room.path("."));
    let told = printed(&output(list)).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("no results: it is in progress or was killed; samples.csv"), "{told}");
}

fn killed_worker_is_reported() {
    // The supervisor's child is the init of the sandbox, and the worker is the child of that.
    for generation in [1, 2] {
        let room = room();
        let mut race = Race::start(lab_run(&room, &ENDLESS));
        race.wait_for_sample();
        race.watch(Duration::from_millis(200));
        let victim = race.family()[generation];
        kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
        let ended = race.end();
        assert!(ended.failure().contains("killed by SIGKILL"), "{:?}", ended.said);
        race.assert_clear(&room);
    }
}
