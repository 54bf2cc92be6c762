//! Runs of parts of an experiment, merged into one.

use serde_json::Value;

use crate::{
    Trials,
    common::{HAUL, Room, output, text},
    harness::{cells, lab_run, room, run, runs},
};

pub(crate) const TRIALS: Trials =
    &[("parts_become_one_run_that_every_command_takes", parts_become_one_run_that_every_command_takes)];

const SWEEP: [&str; 2] = ["--sweep", "network.rtt=4ms,8ms"];

fn haul(room: &Room, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = room.command(HAUL);
    command.args(arguments).current_dir(room.path("."));
    let output = output(command);
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn parts_become_one_run_that_every_command_takes() {
    let room = room();
    let mut plan = vec!["lab", "plan", "small.toml", "--json", "-", "--workload", "list", "--contender", "webdrive"];
    plan.extend(SWEEP);
    let (status, plan, said) = haul(&room, &plan);
    assert_eq!(status, Some(0), "{said}");
    let plan: Value = serde_json::from_str(&plan).expect("JSON");
    let networks: Vec<&str> =
        plan["blocks"].as_array().unwrap().iter().map(|block| block["network"].as_str().unwrap()).collect();
    assert_eq!(networks, ["near rtt=4ms", "near rtt=8ms"]);

    for network in &networks {
        let mut part = vec!["--plain", "--workload", "list", "--contender", "webdrive", "--network", network];
        part.extend(SWEEP);
        run(&room, lab_run(&room, &part)).success();
    }
    let parts: Vec<String> = runs(&room).iter().map(|run| run.display().to_string()).collect();
    assert_eq!(parts.len(), 2);

    let mut merge = vec!["lab", "merge", "small.toml", "--results", "whole", "--json", "-"];
    merge.extend(parts.iter().map(String::as_str));
    let (status, _, said) = haul(&room, &merge);
    assert_eq!(status, Some(1), "without --sweep the experiment has other networks");
    assert!(said.contains("is not that of the experiment") && !room.path("whole").exists(), "{said}");

    merge.extend(SWEEP);
    let (status, merged, said) = haul(&room, &merge);
    assert_eq!(status, Some(0), "{said}");
    let merged: Value = serde_json::from_str(&merged).expect("JSON");
    let measured: Vec<(&str, u64)> =
        cells(&merged).iter().map(|cell| (cell["network"].as_str().unwrap(), cell["part"].as_u64().unwrap())).collect();
    assert_eq!(measured.iter().map(|(network, _)| *network).collect::<Vec<_>>(), networks);
    let commands = merged["parts"].as_array().unwrap();
    for (network, part) in measured {
        let command = commands[part as usize]["command"].as_str().unwrap();
        assert!(command.contains(&format!("--network '{network}'")), "{command} measured {network}");
    }

    let whole = std::fs::read_dir(room.path("whole")).unwrap().next().unwrap().unwrap().path();
    let samples = std::fs::read_to_string(whole.join("samples.csv")).unwrap();
    assert_eq!(samples.lines().count(), 3, "a heading, and a sample of each part: {samples}");
    assert!(whole.join("captures/list-near-rtt=8ms-webdrive.pcapng").exists());
    let whole = whole.display().to_string();
    for arguments in [&["report", &whole][..], &["lab", "show", &whole], &["lab", "compare", &whole, &parts[0]]] {
        let (status, _, said) = haul(&room, arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
    }

    let twice = ["lab", "merge", "small.toml", SWEEP[0], SWEEP[1], "--results", "whole", &whole, &parts[0]];
    let (status, _, said) = haul(&room, &twice);
    assert_eq!(status, Some(1));
    assert!(said.contains("both have cells of list/near rtt="), "{said}");
    room.assert_clear();
}
