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
    let trial = Trial::test("replays_take_as_long_as_real_transfers", replays_take_as_long_as_real_transfers);
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(ready.is_err())]).exit();
}

/// How many transfers run at once: they wait for their links, not for processors.
const AT_ONCE: usize = 8;

/// What errs by more than this beside other transfers runs again alone.
const DOUBTFUL: f64 = 0.1;

fn replays_take_as_long_as_real_transfers() -> Result<(), Failed> {
    let cases = cases::all();
    let queue = Mutex::new(cases.iter().collect::<VecDeque<_>>());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
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
            if first.error().abs() < DOUBTFUL {
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
            // A kernel may not offer a congestion control.
            Err(error) => println!("{:<80} SKIPPED: {error}", case.name),
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

impl Compared {
    fn error(&self) -> f64 {
        self.replayed.as_secs_f64() / self.measured.as_secs_f64() - 1.0
    }
}

impl Display for Compared {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { measured, replayed, note } = self;
        write!(f, "{measured:>12.1?} {replayed:>12.1?} {:>+6.1}%  {note}", self.error() * 100.0)
    }
}

fn uploads(case: &Case) -> testbed::Result<Vec<Run>> {
    (0..2).map(|_| testbed::upload(case)).collect()
}

/// Compares with the fastest run: what a busy machine adds is not the transfer's.
fn compare(case: &Case, runs: &[Run]) -> testbed::Result<Compared> {
    let best = runs.iter().min_by_key(|run| run.time).ok_or("no run")?;
    let replay = explain::replica::replay(&case.model(best))?;
    let times: Vec<Duration> = runs.iter().map(|run| run.time).collect();
    Ok(Compared {
        measured: best.time,
        replayed: replay.duration,
        note: format!("{times:.1?} {:?} {replay:?}", best.windows),
    })
}
