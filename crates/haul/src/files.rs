//! The commands that move and show files (`haul ls`, `cp`, `sync`, `cat`, `mv`, `rm`, `mkdir`, `stat` and `probe`), and
//! `haul password`.
//!
//! Each command is a file of its own below, and says what it wants of `dav`. What they share lies beside them: what is
//! here and what is there (`place`), the settings from flags, environment and file (`options`, `settings`), the way to
//! a server with its credentials (`session`), what was learned of servers earlier (`memory`), and what a person and a
//! program read (`progress`, `bar`, `report`, `show`).

mod bandwidth;
mod bar;
mod cat;
mod check;
mod cp;
mod deletion;
mod filters;
mod headers;
mod journal;
mod ls;
mod memory;
mod mkdir;
mod moving;
mod mv;
mod named;
mod on_server;
mod options;
mod password;
mod pipes;
mod place;
mod probe;
mod progress;
mod prompt;
mod report;
mod rm;
mod runtime;
mod session;
mod settings;
mod show;
mod sparing;
mod stat;
mod sync;
mod verbosity;

use std::{error::Error, fmt::Display, process::ExitCode};

/// What becomes of a command.
type Outcome = Result<ExitCode, Box<dyn Error>>;

/// Says that something was done although its answer was lost.
fn say_checked(known: dav::Confirmed, what: impl Display) {
    if known == dav::Confirmed::ByLookup {
        crate::say(format_args!("{what} (the answer was lost; a look shows that it is done)"));
    }
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Ls(ls::Args),
    Cp(Box<cp::Args>),
    Sync(Box<sync::Args>),
    Cat(cat::Args),
    Check(Box<check::Args>),
    Mv(mv::Args),
    Rm(rm::Args),
    Mkdir(mkdir::Args),
    Stat(stat::Args),
    Probe(probe::Args),
    #[command(subcommand)]
    Password(password::Command),
}

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Ls(args) => runtime::conduct(|_| ls::run(args)),
        Command::Cp(args) => runtime::conduct(|stop| cp::run(*args, stop)),
        Command::Sync(args) => runtime::conduct(|stop| sync::run(*args, stop)),
        Command::Check(args) => runtime::conduct(|_| check::run(*args)),
        Command::Cat(args) => runtime::conduct(|_| cat::run(args)),
        Command::Mv(args) => runtime::conduct(|_| mv::run(args)),
        Command::Rm(args) => runtime::conduct(|_| rm::run(args)),
        Command::Mkdir(args) => runtime::conduct(|_| mkdir::run(args)),
        Command::Stat(args) => runtime::conduct(|_| stat::run(args)),
        Command::Probe(args) => runtime::conduct(|_| probe::run(args)),
        Command::Password(command) => runtime::conduct(|_| password::run(command)),
    }
}
