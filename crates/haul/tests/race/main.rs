//! `haul race` and `haul lab` as processes, run by root and by an ordinary user: small races on every server, signals
//! at any moment, missing system features, usage errors.

mod all_workloads;
mod busy;
#[path = "../common/mod.rs"]
mod common;
mod custom;
mod custom_servers;
mod faults;
mod harness;
mod interrupt;
mod parts;
mod serial_connections;
mod truth;
mod usage_errors;

use common::{Room, text};
use libtest_mimic::{Arguments, Failed, Trial};

/// A run mostly waits (the calibration alone takes seconds), so more of them run at a time than there are processors.
const AT_ONCE: usize = 6;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let probe = Room::new().link(&["--", "true"]);
    let ready = probe.status.success();
    if !ready {
        eprintln!("SKIPPED: races: {}", text(&probe.stderr));
    }
    let simulated = faults::may_simulate();
    if !simulated {
        eprintln!("SKIPPED: full disks and missing devices: unshare(1) may not mount anything here");
    }
    let trials = [
        (all_workloads::TRIALS, ready),
        (interrupt::TRIALS, ready),
        (faults::TRIALS, ready),
        (busy::TRIALS, ready),
        (custom::TRIALS, ready),
        (custom_servers::TRIALS, ready),
        (parts::TRIALS, ready),
        (serial_connections::TRIALS, ready),
        (truth::TRIALS, ready),
    ];
    let trials = trials.into_iter().chain([
        (faults::SIMULATED, ready && simulated),
        (custom::USAGE, true),
        (usage_errors::TRIALS, true),
    ]);
    let trials = trials.flat_map(|(trials, run)| trials.iter().map(move |(name, f)| trial(name, *f, run)));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

type Trials = &'static [(&'static str, fn())];

fn trial(name: &str, f: fn(), run: bool) -> Trial {
    let checked = move || -> Result<(), Failed> {
        f();
        Ok(())
    };
    Trial::test(name, checked).with_ignored_flag(!run)
}
