//! Random operations through a mount, compared step by step with the same operations on a local folder.
//!
//! The model of a mount is the kernel's own file system: whatever a program does, its calls return the same in both, and
//! when nothing is open, the server has what the local folder has. Changes that somebody else makes on the server are made to
//! the local folder too, and the mount shows them after the time that it promises.
//!
//! A failure names its seed and its last steps. `MODEL_SEED=<N>` runs that seed alone; `MODEL_SECONDS=<N>` runs new ones for
//! longer than the usual few seconds.

mod actor;
mod compare;
mod steps;
#[path = "../mounted/watchdog.rs"]
mod watchdog;
#[path = "../mounted/world.rs"]
mod world;

use std::{
    env, fs,
    time::{Duration, Instant, SystemTime},
};

use libtest_mimic::{Arguments, Failed, Trial};
use mount::Write;
use simulation::Random;

use crate::{actor::Actor, world::World};

/// How long each test looks for a seed that fails.
const SECONDS: u64 = 6;
/// The steps of a seed, if time allows.
const STEPS: usize = 400;
/// Contents of closed files larger than this are dropped, so that much is fetched again, in ranges.
const SMALL_CACHE: u64 = 300_000;

/// With a journal that a test does not fill.
const BACK: Write = Write::Back { journal_size: 1 << 30 };

/// Who changes the share.
#[derive(Debug, Clone, Copy)]
enum Who {
    OneMount,
    OneMountAndTheServer,
    TwoMountsAndTheServer,
}

fn main() {
    let arguments = Arguments::from_args();
    let sandbox = world::enter();
    let tests = [
        ("a_mount_behaves_as_a_local_folder", Who::OneMount, Write::Through),
        ("a_mount_follows_changes_on_the_server", Who::OneMountAndTheServer, Write::Through),
        ("two_mounts_and_the_server_agree", Who::TwoMountsAndTheServer, Write::Through),
        ("a_mount_that_writes_back_behaves_as_a_local_folder", Who::OneMount, BACK),
        ("a_mount_that_writes_back_follows_changes_on_the_server", Who::OneMountAndTheServer, BACK),
        ("two_mounts_that_write_back_and_the_server_agree", Who::TwoMountsAndTheServer, BACK),
    ];
    let trials = tests
        .map(|(name, who, write)| {
            Trial::test(name, move || watchdog::bounded_by(bound(), name, || search(who, write)))
                .with_ignored_flag(sandbox.is_none())
        })
        .into();
    libtest_mimic::run(&arguments, trials).exit();
}

/// What no search takes.
fn bound() -> Duration {
    Duration::from_secs(number("MODEL_SECONDS").unwrap_or(SECONDS)) + watchdog::BOUND
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Runs seeds until the time is over.
fn search(who: Who, write: Write) -> Result<(), Failed> {
    let end = Instant::now() + Duration::from_secs(number("MODEL_SECONDS").unwrap_or(SECONDS));
    if let Some(seed) = number("MODEL_SEED") {
        return run(who, write, seed, end);
    }
    let first = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64 % 1_000_000_000;
    for seed in first.. {
        run(who, write, seed, end)?;
        if Instant::now() >= end {
            break;
        }
    }
    Ok(())
}

fn run(who: Who, write: Write, seed: u64, end: Instant) -> Result<(), Failed> {
    let mounts = if matches!(who, Who::TwoMountsAndTheServer) { 2 } else { 1 };
    let mut random = Random::new(seed);
    let cache_size = if random.chance(50) { SMALL_CACHE } else { 64 << 20 };
    let world = World::new(mounts, cache_size, write).map_err(|error| Failed::from(error.to_string()))?;
    let mut actor = Actor::new(&world, random, mounts, write == Write::Through)?;
    for _ in 0..STEPS {
        let step = match who {
            Who::OneMountAndTheServer if actor.chance(5) => actor.change_the_server(),
            Who::TwoMountsAndTheServer if actor.chance(4) => actor.change_the_server(),
            Who::TwoMountsAndTheServer if actor.chance(3) => actor.change_mounts(),
            _ => actor.step(),
        };
        step.map_err(|why| actor.failure(seed, &why))?;
        if Instant::now() >= end {
            break;
        }
    }
    actor.finish().map_err(|why| actor.failure(seed, &why))?;
    for number in 0..mounts {
        let unsaved = world.cache_of(number).join("unsaved");
        if unsaved.exists() {
            let kept = fs::read_dir(&unsaved)?.count();
            return Err(actor.failure(seed, &format!("{kept} files were not uploaded")));
        }
    }
    Ok(())
}
