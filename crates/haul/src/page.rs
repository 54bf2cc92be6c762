//! `haul page`: page loads, written down, recorded, looked at and replayed.

mod import;
mod record;
mod replay;
mod show;

use std::{error::Error, fmt::Display, path::Path, process::ExitCode};

/// Page loads: look at them, import them, record them, replay them over emulated links
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Show(show::Args),
    Import(import::Args),
    Record(record::Args),
    Replay(Box<replay::Args>),
}

pub(crate) fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Show(args) => show::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
    }
}

/// Notes that are printed at most; of a large page there may be hundreds.
const NOTES: usize = 20;

/// Writes a spec to a file that is not there yet, and says what there is to say about it.
fn write(spec: &::page::Spec, notes: &[impl Display], to: &Path) -> Result<(), Box<dyn Error>> {
    notes.iter().take(NOTES).for_each(crate::say);
    if notes.len() > NOTES {
        crate::say(format_args!("and {} more of the kind", notes.len() - NOTES));
    }
    spec.write(to)?;
    crate::print(
        format!("{}: {} requests; `haul page show {0}` draws it\n", to.display(), spec.requests.len()).as_bytes(),
    )
}

/// Refuses to write over a spec that somebody may have changed by hand.
fn is_new(to: &Path) -> Result<(), String> {
    if to.exists() {
        Err(format!("{} is there already; name another file, or remove it first", to.display()))
    } else {
        Ok(())
    }
}
