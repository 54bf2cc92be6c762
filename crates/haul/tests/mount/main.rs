//! `haul mount` as a process, in all sorts of trouble: no content is lost whose close(2) succeeded, and nothing hangs.
//!
//! Programs write while the mount or the server is killed, the link is cut, the disk of the cache is full, or the server
//! refuses, or requests come late. `CRASHES`, `CUTS`, `CUT_SECONDS`, `DISK_SECONDS`, `REFUSALS` and `STORMS` set how often or how long, for long runs;
//! `CRASH_SEED=<N>` repeats a run as far as its threads allow.

#[path = "../common/mod.rs"]
mod common;
mod crashes;
mod cuts;
mod folders;
mod full_disk;
mod random;
mod refusals;
mod relay;
mod storms;
mod world;
mod writers;

use std::{
    env, fs,
    fs::File,
    sync::{PoisonError, RwLock},
    thread,
    time::{Duration, Instant},
};

use libtest_mimic::{Arguments, Failed, Trial};
use link::sandbox;

use crate::{common::PATIENCE, world::World};

/// The largest file that programs write, as a rule.
const LARGEST: u64 = 2_000_000;

/// In a write mode.
type Test = fn(&'static str) -> Result<(), Failed>;
/// In the usual mode.
type OtherTest = fn() -> Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let entered = sandbox::enter().map_err(|error| error.to_string());
    let device =
        File::options().read(true).write(true).open("/dev/fuse").map_err(|error| format!("/dev/fuse: {error}"));
    let missing = entered.map(drop).and(device.map(drop)).err();
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: mounts: {missing}");
    }
    let troubles: [(&str, Test); 7] = [
        ("the_mount_or_the_server_is_killed", crashes::mount_or_server),
        ("the_server_is_killed", crashes::server_only),
        ("the_link_is_cut", cuts::under_load),
        ("the_disk_of_the_cache_is_full", full_disk::under_load),
        ("the_server_refuses", refusals::under_load),
        ("requests_come_late", storms::over_serve),
        ("requests_come_late_to_apache", storms::over_apache),
    ];
    let others: [(&str, OtherTest); 6] = [
        ("a_mount_is_told_to_end_and_a_dead_one_is_named", crashes::a_mount_is_told_to_end),
        ("a_missing_folder_is_created_and_the_mount_listed", folders::missing_folder_is_created),
        ("umount_ends_a_mount", folders::umount_ends_a_mount),
        ("a_mount_whose_program_was_killed_is_named", folders::dead_mount_is_named),
        ("a_busy_mount_is_explained", folders::busy_mount_is_explained),
        ("unmounting_ends_while_the_link_is_cut_and_says_what_is_left", cuts::at_the_end),
    ];
    let mut trials = Vec::new();
    for (trouble, test) in troubles {
        for mode in ["through", "back"] {
            let name = format!("nothing_closed_is_lost_when_{trouble}_writing_{mode}");
            trials.push(Trial::test(name, move || among_others(|| test(mode))));
        }
    }
    for (name, test) in others {
        trials.push(Trial::test(name, move || among_others(test)));
    }
    trials.push(Trial::test("another_mount_namespace_is_named", || alone(folders::other_namespace_is_named)));
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(missing.is_some())).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// Locked for writing by a test that makes a mount namespace, which would keep the mounts of others.
static MOUNTS: RwLock<()> = RwLock::new(());

fn among_others(test: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    let _mounts = MOUNTS.read().unwrap_or_else(PoisonError::into_inner);
    test()
}

fn alone(test: impl FnOnce() -> Result<(), Failed>) -> Result<(), Failed> {
    let _mounts = MOUNTS.write().unwrap_or_else(PoisonError::into_inner);
    test()
}

fn variable(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// How often or how long, from the environment.
fn times(name: &str, usual: u64) -> u64 {
    variable(name).unwrap_or(usual)
}

/// What the server has under a name.
fn whole_on_disk(world: &World) -> impl Fn(&str) -> Option<Vec<u8>> {
    let there = world.path("there");
    move |name| fs::read(there.join(name)).ok()
}

/// Unmounts the share. If the server does not have everything by then, mounts it again until it has.
fn finish(world: &mut World) -> Result<(), Failed> {
    let begin = Instant::now();
    loop {
        let unmounted = world.unmount();
        if !unmounted.status.success() {
            return Err(format!("cannot unmount: {}\n{}", common::text(&unmounted.stderr), world.log()).into());
        }
        if let Some(mut mount) = world.mount.take() {
            while mount.try_wait()?.is_none() {
                assert!(begin.elapsed() < PATIENCE, "the mount does not end\n{}", world.log());
                thread::sleep(Duration::from_millis(20));
            }
        }
        let said = common::text(&unmounted.stderr);
        if !said.contains("it stays in the journal") {
            return Ok(());
        }
        assert!(begin.elapsed() < PATIENCE, "{said}\n{}\n{}", world.status(), world.log());
        world.start_mount_sometime()?;
    }
}
