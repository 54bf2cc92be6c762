//! The mount against a model server in simulated time.
//!
//! The share, its journal, the WebDAV client and the HTTP engine are the real ones; the network, the server and the kernel are
//! models ([`simulation`], [`kernel`]). Programs open, write, rename and delete, other clients write in between, requests are
//! late, lost and doubled, and the mount is killed. When all faults have ended, the mount must come to rest; then every
//! confirmed version is where its program left it, or beside another client's, and no lock is left.
//!
//! A failing run names its seed and shows its end. `SIMULATION_SEED=<N>` repeats that seed alone and shows all of it;
//! `SIMULATION_SEEDS=<COUNT>` runs so many, from `SIMULATION_FROM=<N>` on.
//!
//! A run has one thread, and its own clock on the wall, so that a seed repeats it; the seeds share the processors.

mod kernel;
mod life;
mod programs;

use std::{
    cell::RefCell,
    env, panic,
    sync::{
        Arc, Mutex, Once, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use self::life::Run;

/// How much of a run is shown that has failed, in lines.
const SHOWN: usize = 40;
/// The seeds of a usual run.
const SEEDS: u64 = 600;

/// What panics in a simulation have said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Panics(Arc<Mutex<Vec<String>>>);

thread_local! {
    static PANICS: RefCell<Option<Panics>> = const { RefCell::new(None) };
}

impl Panics {
    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of this thread are recorded here, and not printed.
    fn watch(&self) {
        PANICS.with_borrow_mut(|watch| *watch = Some(self.clone()));
    }

    /// This thread's are printed again.
    fn unwatch() {
        PANICS.with_borrow_mut(|watch| *watch = None);
    }
}

/// Other tests' panics are printed as usual.
fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let watched = PANICS.try_with(|watch| watch.try_borrow().ok().and_then(|watch| watch.clone()));
            match watched {
                Ok(Some(panics)) => {
                    panics.0.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
                }
                _ => usual(info),
            }
        }));
    });
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

#[test]
fn nothing_confirmed_is_lost_in_simulated_time() {
    watch_panics();
    if let Some(seed) = number("SIMULATION_SEED") {
        let run = Run::of(seed);
        println!("{}", run.trace);
        assert!(run.wrong.is_empty(), "seed {seed}: {}", run.wrong.join("\n"));
        return;
    }
    let (from, count) = (number("SIMULATION_FROM").unwrap_or(0), number("SIMULATION_SEEDS").unwrap_or(SEEDS));
    let (next, failed) = (AtomicU64::new(from), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count {
                return;
            }
            let run = Run::of(seed);
            if !run.wrong.is_empty() {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push((seed, run));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort_by_key(|(seed, _)| *seed);
    for (seed, run) in &failed {
        let lines: Vec<_> = run.trace.lines().collect();
        println!("{}", lines[lines.len().saturating_sub(SHOWN)..].join("\n"));
        println!("SIMULATION_SEED={seed}: {}", run.wrong.join("; "));
    }
    let failed: Vec<_> = failed.into_iter().map(|(seed, _)| seed).collect();
    assert!(failed.is_empty(), "{} of {count} seeds have failed: {failed:?}", failed.len());
}

#[test]
fn seed_repeats_its_simulated_run() {
    watch_panics();
    for seed in 0..50 {
        let (first, second) = (Run::of(seed).trace, Run::of(seed).trace);
        let differs = first.lines().zip(second.lines()).find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}
