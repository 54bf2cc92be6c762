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

/// Set if an ordinary user, who may mount, runs the same tests; root then runs only those in which it matters who runs them.
const ALSO_AS_USER: &str = "LONGHAUL_TESTS_ALSO_AS_USER";

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
    let mut trials = vec![
        (all_workloads::TRIALS, ready),
        (interrupt::TRIALS, ready),
        (faults::TRIALS, ready),
        (faults::SIMULATED, ready && simulated),
    ];
    let others = [
        (busy::TRIALS, ready),
        (custom::TRIALS, ready),
        (custom_servers::TRIALS, ready),
        (parts::TRIALS, ready),
        (serial_connections::TRIALS, ready),
        (truth::TRIALS, ready),
        (custom::USAGE, true),
        (usage_errors::TRIALS, true),
    ];
    if nix::unistd::geteuid().is_root() && std::env::var_os(ALSO_AS_USER).is_some() {
        let omitted: usize = others.iter().map(|(trials, _)| trials.len()).sum();
        eprintln!("not run as root: {omitted} tests that an ordinary user runs");
    } else {
        trials.extend(others);
    }
    let trials = trials.into_iter().flat_map(|(trials, run)| trials.iter().map(move |(name, f)| trial(name, *f, run)));
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
