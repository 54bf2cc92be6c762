//! A share that is really mounted, and the programs' view of it, over the embedded server.
//!
//! The sandbox gives an ordinary user the right to mount. Their harness is libtest-mimic's, because it must be entered before
//! any thread starts.

mod changes;
mod doubled;
mod failures;
mod files;
mod folders;
mod locks;
mod world;

use std::fs::File;

use libtest_mimic::{Arguments, Failed, Trial};
use link::sandbox;

use crate::world::World;

/// Larger than what a test reads.
const CACHE_SIZE: u64 = 64 << 20;

/// A test over a server double.
type DoubleTest = fn() -> Result<(), Failed>;
type Test = fn(&World) -> Result<(), Failed>;

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
    let tests = [files::TESTS, folders::TESTS, changes::TESTS].concat();
    let trials = tests.into_iter().map(|(name, test): (&str, Test)| {
        let run = move || World::new(1, CACHE_SIZE).map_err(Failed::from).and_then(|world| test(&world));
        Trial::test(name, run).with_ignored_flag(missing.is_some())
    });
    let doubled = [locks::TESTS, failures::TESTS].concat();
    let doubled = doubled
        .into_iter()
        .map(|(name, test): (&str, DoubleTest)| Trial::test(name, test).with_ignored_flag(missing.is_some()));
    libtest_mimic::run(&arguments, trials.chain(doubled).collect()).exit();
}
