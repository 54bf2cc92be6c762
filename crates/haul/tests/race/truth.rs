//! `haul lab run truth`: cases with a known cause.

use std::{fs, process::Command, time::Duration};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    Trials,
    common::{HAUL, Room, output, text},
    harness::{Race, run, runs},
};

pub(crate) const TRIALS: Trials = &[
    ("cases_are_measured_judged_and_not_measured_again", cases_are_measured_judged_and_not_measured_again),
    ("interrupted_truth_keeps_finished_cases", interrupted_truth_keeps_finished_cases),
    ("options_of_the_other_experiments_are_refused", options_of_the_other_experiments_are_refused),
];

/// Knobs whose cost does not depend on a busy machine.
const KNOBS: [&str; 4] = ["--knob", "server-think", "--knob", "client-think"];

fn truth(room: &Room, arguments: &[&str]) -> Command {
    let mut command = room.command(HAUL);
    command.args(["lab", "run", "truth"]).args(KNOBS).args(arguments).current_dir(room.path("."));
    command
}

fn cases_are_measured_judged_and_not_measured_again() {
    let room = Room::new();
    let arguments = ["--cases", "2", "--seed", "2", "--json", "-"];
    let first = run(&room, truth(&room, &arguments));
    let results: Value = serde_json::from_str(&first.success().printed).expect("JSON");
    assert_eq!(results["schema"], "longhaul.truth/1");
    assert_eq!((&results["seed"], &results["split"]), (&2.into(), &"develop".into()));
    let cases = results["cases"].as_array().expect("a list");
    assert_eq!(cases.len(), 2, "{:?}", first.said);
    let [folder] = runs(&room).try_into().expect("one run");
    for case in cases {
        assert!(case["turned"]["duration_s"].as_f64() > case["back"]["duration_s"].as_f64(), "{case:#}");
        let judgements = case["judgements"].as_array().expect("a list");
        assert_eq!(judgements.len(), 10);
        for judgement in judgements {
            for capture in judgement["capture"].as_str().expect("paths").split(' ') {
                assert!(fs::metadata(folder.join(capture)).expect("a capture").len() > 100, "{capture}");
            }
            assert_eq!(judgement["is_conserved"], true, "{judgement:#}");
        }
    }
    let said = first.said.join("\n");
    for part in ["Ground truth: seed 2 (to develop with), 2 cases", "By place and kind of capture"] {
        assert!(said.contains(part), "{said}");
    }

    // The second run explains them again and measures nothing.
    let again = run(&room, truth(&room, &arguments));
    let same: Value = serde_json::from_str(&again.success().printed).expect("JSON");
    assert_eq!(same["cases"], results["cases"]);
    let stored = again.said.iter().filter(|line| line.ends_with("(measured before)")).count();
    assert_eq!(stored, 2, "{:?}", again.said);
}

fn interrupted_truth_keeps_finished_cases() {
    for (ms, signal, to_the_group) in [(50, Signal::SIGINT, true), (700, Signal::SIGTERM, false)] {
        let room = Room::new();
        let mut race = Race::start(truth(&room, &["--cases", "100"]));
        race.wait_for("how long a case took", |line| line.ends_with(" s without"));
        race.watch(Duration::from_millis(ms));
        race.send(signal, to_the_group);
        let ended = race.end();
        assert!(ended.failure().starts_with("haul: interrupted; the results so far"), "{:?}", ended.said);
        race.assert_clear(&room);
        let [folder] = runs(&room).try_into().expect("one run");
        let text = fs::read_to_string(folder.join("truth.json")).expect("the results");
        let results: Value = serde_json::from_str(&text).expect("JSON");
        let kept = results["cases"].as_array().expect("a list").len();
        let folders = fs::read_dir(folder.join("cases")).expect("a folder").count();
        assert!(kept >= 1 && folders == kept, "{kept} cases and {folders} folders");
    }
}

fn options_of_the_other_experiments_are_refused() {
    let room = Room::new();
    for (arguments, part) in [
        (&["truth", "--network", "lan"][..], "`haul lab run truth` takes --cases, --knob,"),
        (&["truth", "--knob", "nagel"], "unknown knob `nagel`; use one of receive-buffer,"),
        (&["webdav-race", "--cases", "3"], "--cases and --knob are for `haul lab run truth`"),
    ] {
        let mut command = room.command(HAUL);
        command.args(["lab", "run"]).args(arguments).current_dir(room.path("."));
        let output = output(command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
    assert!(!room.path("runs").exists());
}
