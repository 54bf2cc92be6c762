//! `haul page`: show, import, record, replay and serve page loads.

mod import;
mod link_options;
mod record;
mod replay;
mod serve;
mod show;

use std::{error::Error, fmt::Display, path::Path, process::ExitCode};

/// Show, import, record, replay and serve page loads
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Show(show::Args),
    Import(import::Args),
    Record(record::Args),
    Replay(Box<replay::Args>),
    Serve(Box<serve::Args>),
}

pub(crate) fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Show(args) => show::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Serve(args) => serve::run(&args),
    }
}

/// Maximum number of notes printed.
const MAX_NOTES: usize = 20;

/// Writes a spec to a new file, and prints the notes about it.
fn write(spec: &::page::Spec, notes: &[impl Display], to: &Path) -> Result<(), Box<dyn Error>> {
    notes.iter().take(MAX_NOTES).for_each(crate::say);
    if notes.len() > MAX_NOTES {
        crate::say(format_args!("and {} more notes", notes.len() - MAX_NOTES));
    }
    spec.write(to)?;
    let requests = units::rounded::count(spec.requests.len() as u64, "request");
    crate::print(format!("{}: {requests}; `haul page show {0}` shows the waterfall\n", to.display()).as_bytes())
}

/// Refuses to overwrite a spec, which may have been edited by hand.
fn is_new(to: &Path) -> Result<(), String> {
    if to.exists() {
        Err(format!("{} exists already; name another file, or remove it first", to.display()))
    } else {
        Ok(())
    }
}
