//! A race on a machine that other programs keep busy.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    Trials,
    harness::{Race, cells, lab_run, results, room},
};

pub(crate) const TRIALS: Trials =
    &[("race_beside_spinning_programs_is_marked", race_beside_spinning_programs_is_marked)];

/// A program that computes without end; dropping it kills it.
struct Spinner(Child);

impl Spinner {
    fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Self(command.spawn().expect("a shell"))
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `f` on one processor, which the programs that it starts inherit.
fn on_one_processor<T>(f: impl FnOnce() -> T) -> T {
    let me = Pid::from_raw(0);
    let all = sched_getaffinity(me).expect("the processors of this thread");
    let first = (0..CpuSet::count()).find(|processor| all.is_set(*processor).unwrap_or(false)).expect("a processor");
    let mut one = CpuSet::new();
    one.set(first).expect("its number");
    sched_setaffinity(me, &one).expect("one of them");
    let result = f();
    sched_setaffinity(me, &all).expect("all of them");
    result
}

fn race_beside_spinning_programs_is_marked() {
    for file in ["/proc/pressure/cpu", "/proc/self/schedstat"] {
        if let Err(error) = fs::read(file) {
            eprintln!("SKIPPED: a race beside spinning programs: {file}: {error}");
            return;
        }
    }
    let room = room();
    // All of it shares one processor with three spinners, so that each wait for the processor is sure.
    let arguments = ["--plain", "--workload", "upload", "--contender", "curl", "--contender", "webdrive"];
    let (spinners, mut race) = on_one_processor(|| {
        let spinners: Vec<Spinner> = (0..3).map(|_| Spinner::start()).collect();
        (spinners, Race::start(lab_run(&room, &arguments)))
    });
    let ended = race.end();
    drop(spinners);
    ended.success();
    let run = results(&room);
    let [curl, _] = cells(&run) else { panic!("{run:#}") };
    assert!(curl["disturbed"].as_str().is_some_and(|why| why.contains("the machine may have added")), "{curl:#}");
    let machine = &curl["machine_samples"][0];
    assert_eq!((&machine["disturbed"], &machine["pressure_source"]), (&Value::Bool(true), &"psi".into()));
    for measured in ["client_wait_s", "others_s", "own_s", "pressure_s", "added_s"] {
        assert!(machine[measured].as_f64().is_some_and(|seconds| seconds > 0.0), "{measured}: {machine:#}");
    }
    assert!(curl["repeated"].as_u64().is_some_and(|times| times > 0), "{curl:#}");
    assert!(ended.printed.contains("⚠ curl"), "{}", ended.printed);
    let has_said = |text: &str| ended.said.iter().any(|line| line.contains(text));
    assert!(has_said("taking the sample again") && has_said("could not be measured"), "{:?}", ended.said);
    race.assert_clear(&room);
}
