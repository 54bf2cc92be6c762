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
mod random;
mod steps;
#[path = "../mounted/world.rs"]
mod world;

use std::{
    env,
    fs::{self, File},
    time::{Duration, Instant, SystemTime},
};

use libtest_mimic::{Arguments, Failed, Trial};
use link::sandbox;

use crate::{actor::Actor, random::Random, world::World};

/// How long each test looks for a seed that fails.
const SECONDS: u64 = 6;
/// The steps of a seed, if time allows.
const STEPS: usize = 400;
/// Contents of closed files larger than this are dropped, so that much is fetched again, in ranges.
const SMALL_CACHE: u64 = 300_000;

/// Who changes the share.
#[derive(Debug, Clone, Copy)]
enum Who {
    OneMount,
    OneMountAndTheServer,
    TwoMountsAndTheServer,
}

fn main() {
    let arguments = Arguments::from_args();
    let ready = sandbox::enter().map_err(|error| error.to_string());
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let missing = match (&ready, &device) {
        (Err(error), _) => Some(error.clone()),
        (_, Err(error)) => Some(format!("/dev/fuse: {error}")),
        _ => None,
    };
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: mounts: {missing}");
    }
    let tests = [
        ("a_mount_behaves_as_a_local_folder", Who::OneMount),
        ("a_mount_follows_changes_on_the_server", Who::OneMountAndTheServer),
        ("two_mounts_and_the_server_agree", Who::TwoMountsAndTheServer),
    ];
    let trials =
        tests.map(|(name, who)| Trial::test(name, move || search(who)).with_ignored_flag(missing.is_some())).into();
    libtest_mimic::run(&arguments, trials).exit();
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Runs seeds until the time is over.
fn search(who: Who) -> Result<(), Failed> {
    let end = Instant::now() + Duration::from_secs(number("MODEL_SECONDS").unwrap_or(SECONDS));
    if let Some(seed) = number("MODEL_SEED") {
        return run(who, seed, end);
    }
    let first = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64 % 1_000_000_000;
    for seed in first.. {
        run(who, seed, end)?;
        if Instant::now() >= end {
            break;
        }
    }
    Ok(())
}

fn run(who: Who, seed: u64, end: Instant) -> Result<(), Failed> {
    let mounts = if matches!(who, Who::TwoMountsAndTheServer) { 2 } else { 1 };
    let mut random = Random::new(seed);
    let cache_size = if random.chance(50) { SMALL_CACHE } else { 64 << 20 };
    let world = World::new(mounts, cache_size).map_err(|error| Failed::from(error.to_string()))?;
    let mut actor = Actor::new(&world, random)?;
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
    actor.finish(mounts).map_err(|why| actor.failure(seed, &why))?;
    let unsaved = world.cache.join("unsaved");
    if unsaved.exists() {
        let kept = fs::read_dir(&unsaved)?.count();
        return Err(actor.failure(seed, &format!("{kept} files were not uploaded")));
    }
    Ok(())
}
