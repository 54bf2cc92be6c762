//! A share that is really mounted, and the programs' view of it, over the embedded server.
//!
//! The sandbox gives an ordinary user the right to mount. Their harness is libtest-mimic's, because it must be entered before
//! any thread starts.

mod changes;
mod doubled;
mod failures;
mod far;
mod files;
mod folders;
mod full_disk;
mod interrupts;
mod locks;
mod races;
mod reads;
mod watchdog;
mod world;
mod write_back;

use libtest_mimic::{Arguments, Failed, Trial};
use mount::Write;

use crate::world::World;

/// Larger than what a test reads.
const CACHE_SIZE: u64 = 64 << 20;

/// A test over a server double.
type DoubleTest = fn() -> Result<(), Failed>;
type Test = fn(&World) -> Result<(), Failed>;

fn main() {
    let arguments = Arguments::from_args();
    let sandbox = world::enter();
    let tests = [files::TESTS, folders::TESTS, changes::TESTS, reads::TESTS].concat();
    let trials = tests.into_iter().map(|(name, test): (&str, Test)| {
        let run =
            move || World::new(1, CACHE_SIZE, Write::Through).map_err(Failed::from).and_then(|world| test(&world));
        Trial::test(name, move || watchdog::bounded(name, run)).with_ignored_flag(sandbox.is_none())
    });
    let doubled = [
        locks::TESTS,
        races::TESTS,
        full_disk::TESTS,
        far::TESTS,
        failures::TESTS,
        reads::DOUBLED,
        write_back::TESTS,
        interrupts::TESTS,
    ]
    .concat();
    let doubled = doubled
        .into_iter()
        .map(|(name, test): (&str, DoubleTest)| Trial::test(name, move || watchdog::bounded(name, test)))
        .map(|trial| trial.with_ignored_flag(sandbox.is_none()));
    libtest_mimic::run(&arguments, trials.chain(doubled).collect()).exit();
}
