//! `haul page`: page loads, written down and replayed.

mod replay;

use std::{error::Error, process::ExitCode};

use clap::Subcommand;

/// Replay recorded page loads over emulated links
#[derive(Subcommand)]
pub(crate) enum Command {
    Replay(Box<replay::Args>),
}

pub(crate) fn run(command: &Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Replay(args) => replay::run(args),
    }
}
