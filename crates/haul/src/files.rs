//! The commands that move and show files (`haul ls`, `du`, `tree`, `cp`, `sync`, `cat`, `mv`, `rm`, `mkdir`, `stat` and `probe`), and
//! `haul password`.
//!
//! Each command is a file of its own. They share [`options`] (the command line), [`session`] (settings, credentials and
//! cached facts of a server), [`transfer`] (copies, with progress), [`results`] (output and JSON) and [`runtime`] (Ctrl-C).

mod cat;
mod check;
mod cp;
mod du;
mod ls;
mod mkdir;
mod mount;
mod mv;
mod options;
mod password;
mod probe;
mod results;
mod rm;
pub(crate) mod runtime;
mod server_side;
pub(crate) mod session;
mod stat;
mod stdin;
mod sync;
mod transfer;
mod tree;
mod walk;

use std::{error::Error, fmt::Display, process::ExitCode};

pub(crate) use mount::fstab::translated as mount_helper_arguments;

/// The result of a command.
pub(crate) type Outcome = Result<ExitCode, Box<dyn Error>>;

/// Prints that a change was made although its response was lost.
fn say_checked(known: dav::Confirmed, what: impl Display) {
    if known == dav::Confirmed::ByLookup {
        crate::say(format_args!("{what} (response lost; verified on the server)"));
    }
}

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Ls(ls::Args),
    Du(du::Args),
    Tree(tree::Args),
    Cp(Box<cp::Args>),
    Sync(Box<sync::Args>),
    Cat(cat::Args),
    Check(Box<check::Args>),
    Mv(Box<mv::Args>),
    Rm(rm::Args),
    Mkdir(mkdir::Args),
    Stat(stat::Args),
    Probe(probe::Args),
    Mount(Box<mount::Args>),
    #[command(visible_alias = "umount")]
    Unmount(mount::unmount::Args),
    #[command(subcommand)]
    Password(password::Command),
}

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Ls(args) => runtime::run_until_stopped(|_| ls::run(args)),
        Command::Du(args) => runtime::run_until_stopped(|_| du::run(args)),
        Command::Tree(args) => runtime::run_until_stopped(|_| tree::run(args)),
        Command::Cp(args) => runtime::run_until_stopped(|stop| cp::run(*args, stop)),
        Command::Sync(args) => runtime::run_until_stopped(|stop| sync::run(*args, stop)),
        Command::Check(args) => runtime::run_until_stopped(|_| check::run(*args)),
        Command::Mount(args) => mount::run(*args),
        Command::Unmount(args) => mount::unmount::run(&args),
        Command::Cat(args) => runtime::run_until_stopped(|_| cat::run(args)),
        Command::Mv(args) => runtime::run_until_stopped(|stop| mv::run(*args, stop)),
        Command::Rm(args) => runtime::run_until_stopped(|_| rm::run(args)),
        Command::Mkdir(args) => runtime::run_until_stopped(|_| mkdir::run(args)),
        Command::Stat(args) => runtime::run_until_stopped(|_| stat::run(args)),
        Command::Probe(args) => runtime::run_until_stopped(|_| probe::run(args)),
        Command::Password(command) => runtime::run_until_stopped(|_| password::run(command)),
    }
}
