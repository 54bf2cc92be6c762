//! Compares the replica with real kernels: uploads over cables with known parameters.

mod cases;
mod observing_stages;
mod testbed;

use std::{
    collections::VecDeque,
    fmt::{self, Display, Formatter},
    sync::Mutex,
    thread,
    time::Duration,
};

use cases::Case;
use libtest_mimic::{Arguments, Failed, Trial};
use link::{
    cable::{self, Cable},
    host::Host,
    lanes::Lanes,
    sandbox,
};
use testbed::Run;

fn main() {
    let arguments = Arguments::from_args();
    let ready = sandbox::enter().map_err(|error| error.to_string()).and_then(|sandbox| {
        let hosts = Host::new("a").and_then(|a| Ok((a, Host::new("b")?))).map_err(|error| error.to_string())?;
        let cable = Cable::connect(&hosts.0, &hosts.1, Lanes::default(), &cable::Options::default());
        cable.map(|_| sandbox).map_err(|error| error.to_string())
    });
    if let Err(error) = &ready {
        eprintln!("SKIPPED: hosts and cables: {error}");
    }
    let trial = Trial::test("replica_takes_as_long_as_kernel", replica_takes_as_long_as_kernel);
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(ready.is_err())]).exit();
}

/// The number of concurrent transfers. They wait for their links, not for processors.
const CONCURRENT: usize = 8;

/// A transfer with a larger relative error runs again alone.
const REPEAT_ERROR: f64 = 0.1;

fn replica_takes_as_long_as_kernel() -> Result<(), Failed> {
    let cases = cases::all();
    let queue = Mutex::new(cases.iter().collect::<VecDeque<_>>());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..CONCURRENT {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().unwrap().pop_front() else { break };
                    let runs = uploads(case);
                    results.lock().unwrap().push((case, runs));
                }
            });
        }
    });
    let mut results = results.into_inner()?;
    results.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut errors = Vec::new();
    for (case, runs) in results {
        let compared = runs.and_then(|mut runs| {
            let first = compare(case, &runs)?;
            if first.error().abs() < REPEAT_ERROR {
                return Ok(first);
            }
            runs.extend(uploads(case)?);
            compare(case, &runs)
        });
        match compared {
            Ok(compared) => {
                println!("{:<80} {compared}", case.name);
                errors.push(compared.error().abs());
            }
            // The kernel may lack a congestion control.
            Err(error) => println!("{:<80} SKIPPED: {error}", case.name),
        }
    }
    assert!(errors.len() >= 30, "only {} transfers could be compared", errors.len());
    errors.sort_by(f64::total_cmp);
    let (median, p95) = (errors[errors.len() / 2], errors[(errors.len() * 95).div_ceil(100) - 1]);
    println!("{} transfers: median error {:.1} %, p95 {:.1} %", errors.len(), median * 100.0, p95 * 100.0);
    assert!(median < 0.05 && p95 < 0.15, "the replica's error is {median:.3} in the median and {p95:.3} at p95");
    Ok(())
}

struct Comparison {
    measured: Duration,
    replayed: Duration,
    note: String,
}

impl Comparison {
    fn error(&self) -> f64 {
        self.replayed.as_secs_f64() / self.measured.as_secs_f64() - 1.0
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { measured, replayed, note } = self;
        write!(f, "{measured:>12.1?} {replayed:>12.1?} {:>+6.1}%  {note}", self.error() * 100.0)
    }
}

fn uploads(case: &Case) -> testbed::Result<Vec<Run>> {
    (0..2).map(|_| testbed::upload(case)).collect()
}

/// Compares the replica with the fastest run, which a busy machine delayed least.
fn compare(case: &Case, runs: &[Run]) -> testbed::Result<Comparison> {
    let best = runs.iter().min_by_key(|run| run.time).ok_or("no run")?;
    let replay = explain::replica::replay(&case.model(best))?;
    let times: Vec<Duration> = runs.iter().map(|run| run.time).collect();
    Ok(Comparison {
        measured: best.time,
        replayed: replay.duration,
        note: format!("{times:.1?} {:?} {replay:?}", best.windows),
    })
}
