//! Many users at once through `haul gateway` to Apache and to `haul serve`, briefly: `benches/users.rs` is the long one.

mod soak;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use soak::{Bars, Plan, Program};

/// What any machine keeps. Ten seconds say little about shares, and about memory, which still grows with the first requests.
const BARS: Bars = Bars { most_to_least: 10.0, jain: 0.5, growth: 1.5, growth_bytes: 16 << 20 };

fn main() -> ExitCode {
    if let Some(ended) = soak::role(&BARS) {
        return ended;
    }
    let trials = [Program::Apache, Program::HaulServe].map(|server| {
        let missing = soak::missing(server);
        if let Some(missing) = &missing {
            eprintln!("SKIPPED: users of the gateway before {}: {missing}", server.name());
        }
        let plan = Plan { users: 10, seconds: 10, pause_ms: 150, server };
        let name = format!("ten_users_at_once_get_their_own_files_of_{}", server.name().replace('-', "_"));
        Trial::test(name, move || soak::run(&plan).map_err(Into::into)).with_ignored_flag(missing.is_some())
    });
    let mut arguments = Arguments::from_args();
    // One after the other: both need the machine.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}
