//! Fifty users at once, mixed work, an hour of it compressed into ten minutes, through `haul gateway` to Apache, and
//! then to `haul serve` with locks:
//!
//!     cargo bench --package haul --bench users
//!     cargo bench --package haul --bench users -- --users 50 --for 60 --pause 2000
//!
//! `--for` is the length in seconds, `--pause` the mean pause of a user between two tasks in milliseconds. An hour has some
//! three hundred tasks of an office worker, one in twelve seconds; ten minutes have as many with a pause of two.

#[path = "../tests/users/soak/mod.rs"]
mod soak;

use std::process::ExitCode;

use clap::Parser;

use soak::{Bars, Plan, Program};

/// Among users of the same kind. Pauses make shares equal where the gateway does not; so they are to be nearly equal. What is kept for each user is kept
/// from the beginning on, and memory is not to grow after that.
const BARS: Bars = Bars { most_to_least: 1.5, jain: 0.99, growth: 1.1, growth_bytes: 4 << 20 };

#[derive(Parser)]
struct Arguments {
    #[arg(long, default_value_t = 50)]
    users: usize,
    #[arg(long = "for", default_value_t = 600)]
    seconds: u64,
    #[arg(long, default_value_t = 2000)]
    pause: u64,
    /// From cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    if let Some(ended) = soak::role(&BARS) {
        return ended;
    }
    let arguments = Arguments::parse();
    let mut is_good = true;
    for server in [Program::Apache, Program::HaulServe] {
        if let Some(missing) = soak::missing(server) {
            eprintln!("skipped: {missing}");
            continue;
        }
        let plan = Plan { users: arguments.users, seconds: arguments.seconds, pause_ms: arguments.pause, server };
        if let Err(why) = soak::run(&plan) {
            eprintln!("{why}");
            is_good = false;
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
