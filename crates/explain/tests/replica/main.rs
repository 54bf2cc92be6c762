//! The replica against real kernels: uploads over cables whose parameters are known, and the time they take.

mod cases;
mod watch;
mod world;

use std::{collections::VecDeque, sync::Mutex, thread, time::Duration};

use cases::Case;
use libtest_mimic::{Arguments, Failed, Trial};
use link::{
    cable::{self, Cable},
    host::Host,
    lanes::Lanes,
    sandbox,
};

fn main() {
    let arguments = Arguments::from_args();
    let ready = sandbox::enter().map_err(|error| error.to_string()).and_then(|sandbox| {
        let hosts = Host::new("a").and_then(|a| Ok((a, Host::new("b")?))).map_err(|error| error.to_string())?;
        let cable = Cable::lay(&hosts.0, &hosts.1, Lanes::default(), &cable::Options::default());
        cable.map(|_| sandbox).map_err(|error| error.to_string())
    });
    if let Err(error) = &ready {
        eprintln!("SKIPPED: hosts and cables: {error}");
    }
    let trial = Trial::test("replays_take_as_long_as_real_transfers", replays_take_as_long_as_real_transfers);
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(ready.is_err())]).exit();
}

/// How many transfers run at once: they wait for their links, not for processors.
const AT_ONCE: usize = 8;

fn replays_take_as_long_as_real_transfers() -> Result<(), Failed> {
    let queue = Mutex::new(VecDeque::from(cases::all()));
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().unwrap().pop_front() else { break };
                    let outcome = compare(&case);
                    results.lock().unwrap().push((case.name.clone(), outcome));
                }
            });
        }
    });
    let mut results = results.into_inner()?;
    results.sort_by(|a, b| a.0.cmp(&b.0));
    let mut errors = Vec::new();
    for (name, outcome) in results {
        match outcome {
            Ok(Compared { measured, replayed, note }) => {
                let ratio = replayed.as_secs_f64() / measured.as_secs_f64();
                println!("{name:<80} {measured:>12.1?} {replayed:>12.1?} {:>+6.1}%  {note}", (ratio - 1.0) * 100.0);
                errors.push((ratio - 1.0).abs());
            }
            // A kernel may not offer a congestion control.
            Err(error) => println!("{name:<80} SKIPPED: {error}"),
        }
    }
    assert!(errors.len() >= 30, "only {} transfers could be compared", errors.len());
    errors.sort_by(f64::total_cmp);
    let (median, p95) = (errors[errors.len() / 2], errors[(errors.len() * 95).div_ceil(100) - 1]);
    println!("{} transfers: median error {:.1} %, p95 {:.1} %", errors.len(), median * 100.0, p95 * 100.0);
    assert!(median < 0.05 && p95 < 0.15, "the replica errs by {median:.3} at the median and {p95:.3} at p95");
    Ok(())
}

struct Compared {
    measured: Duration,
    replayed: Duration,
    note: String,
}

fn compare(case: &Case) -> world::Result<Compared> {
    let runs = [world::upload(case)?, world::upload(case)?];
    let best = runs.iter().min_by_key(|run| run.time).ok_or("no run")?;
    let model = case.model(best);
    let replay = explain::replica::replay(&model)?;
    let note = format!("{:.1?} {:?} {replay:?}", runs.each_ref().map(|run| run.time), best.windows);
    Ok(Compared { measured: best.time, replayed: replay.duration, note })
}
