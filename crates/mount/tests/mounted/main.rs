//! A share that is really mounted, and the programs' view of it, over the embedded server.
//!
//! The sandbox gives an ordinary user the right to mount. Their harness is libtest-mimic's, because it must be entered before
//! any thread starts.

mod apache;
mod changes;
mod conflicts;
mod doubled;
mod failures;
mod far;
mod files;
mod folders;
mod full_disk;
mod interrupts;
mod lock_files;
mod locks;
mod races;
mod reads;
mod sync_reports;
mod watchdog;
mod world;
mod write_back;

use std::{
    env,
    sync::{PoisonError, RwLock},
};

use libtest_mimic::{Arguments, Failed, Trial};
use mount::Write;

use crate::world::World;

/// Larger than what a test reads.
const CACHE_SIZE: u64 = 64 << 20;

/// Set if an ordinary user, who may mount, runs the same tests; root then runs only those over a real server.
const ALSO_AS_USER: &str = "LONGHAUL_TESTS_ALSO_AS_USER";

/// A test over a server double.
type DoubleTest = fn() -> Result<(), Failed>;
type Test = fn(&World) -> Result<(), Failed>;

/// Tests that start programs.
const WITH_PROGRAMS: [&str; 9] = [
    "a_mapped_file_is_uploaded",
    "a_program_that_catches_other_signals_is_not_disturbed",
    "a_program_that_waits_can_be_stopped",
    "a_tree_is_copied_and_compared",
    "an_answer_after_the_program_has_gone_leaves_nothing_open",
    "dead_properties_are_extended_attributes",
    "extended_attributes_can_be_switched_off",
    "git_works_in_a_mount",
    "what_webdav_has_no_place_for_is_refused",
];

/// Runs a test, apart from others if it starts programs. Such a program has all files of this one open until execve(2)
/// closes them, and that flushes them: it would wait for the servers of other tests, which may be dead, and these would wait
/// for the last close(2) of their files.
fn run<T>(name: &str, test: impl FnOnce() -> T) -> T {
    static PROGRAMS: RwLock<()> = RwLock::new(());
    let (mut alone, mut among_others) = (None, None);
    if WITH_PROGRAMS.contains(&name) {
        alone = Some(PROGRAMS.write().unwrap_or_else(PoisonError::into_inner));
    } else {
        among_others = Some(PROGRAMS.read().unwrap_or_else(PoisonError::into_inner));
    }
    let result = watchdog::bounded(name, test);
    drop((alone, among_others));
    result
}

fn main() {
    let arguments = Arguments::from_args();
    let sandbox = world::enter();
    let tests = [files::TESTS, folders::TESTS, changes::TESTS, reads::TESTS].concat();
    let trials = tests.into_iter().map(|(name, test): (&str, Test)| {
        let with_world =
            move || World::new(1, CACHE_SIZE, Write::Through).map_err(Failed::from).and_then(|world| test(&world));
        Trial::test(name, move || run(name, with_world)).with_ignored_flag(sandbox.is_none())
    });
    let mut doubled = [
        lock_files::TESTS,
        locks::TESTS,
        races::TESTS,
        full_disk::TESTS,
        far::TESTS,
        failures::TESTS,
        reads::DOUBLED,
        write_back::TESTS,
        conflicts::TESTS,
        interrupts::TESTS,
        sync_reports::TESTS,
        apache::TESTS,
    ]
    .concat();
    if nix::unistd::geteuid().is_root() && env::var_os(ALSO_AS_USER).is_some() {
        eprintln!("not run as root: {} tests over server doubles, which an ordinary user runs", doubled.len());
        doubled.clear();
    }
    let doubled = doubled
        .into_iter()
        .map(|(name, test): (&str, DoubleTest)| Trial::test(name, move || run(name, test)))
        .map(|trial| trial.with_ignored_flag(sandbox.is_none()));
    libtest_mimic::run(&arguments, trials.chain(doubled).collect()).exit();
}
