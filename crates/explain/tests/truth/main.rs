//! Ground truth: what happened is known, because it was made to happen, and `explain` must find it.
//!
//! Each `tests/scenarios/*.toml` is played between two real kernels over a cable, side by side with the others, since
//! they wait and do not compute.

mod path;
mod scenario;
mod talk;
mod world;

use std::{path::Path, time::{Duration, Instant}};

use libtest_mimic::{Arguments, Failed, Trial};
use link::sandbox;

/// How many scenarios are played side by side.
const AT_ONCE: usize = 16;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let sandbox = sandbox::enter();
    let scratch = sandbox.as_ref().map(|sandbox| sandbox.scratch().to_owned());
    if let Err(error) = &sandbox {
        eprintln!("SKIPPED: the scenarios: {error}");
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut trials = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let scratch = scratch.as_ref().ok().cloned();
        let trial = Trial::test(name.clone(), move || {
            let (scenario, afters) = scenario::read(&file)?;
            let scratch = scratch.unwrap();
            let began = Instant::now();
            let played = world::play(&scenario, &scratch.join(&name)).map_err(|e| Failed::from(format!("{name}: {e}")))?;
            let k = played.told.kernels.map(|k| (k.busy_time.unwrap_or_default(), k.rwnd_limited.unwrap_or_default(), k.sndbuf_limited.unwrap_or_default(), k.retransmits, k.snd_mss));
            eprintln!("{name}: {:?} ex {:?} up {:?} down {:?} [{:?}]", played.told.took, played.told.exchanges, k[0], k[1], began.elapsed());
            for (n, after) in afters.iter().enumerate() {
                let played = world::play(&after.scenario, &scratch.join(format!("{name}-{n}"))).map_err(|e| Failed::from(format!("{name}: {}: {e}", after.what_if)))?;
                eprintln!("{name}: {}: {:?} ex {:?}", after.what_if, played.told.took, played.told.exchanges);
            }
            Ok(())
        });
        trials.push(trial.with_ignored_flag(sandbox.is_err()));
    }
    let _ = Duration::ZERO;
    libtest_mimic::run(&arguments, trials).exit();
}
