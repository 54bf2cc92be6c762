//! `haul completions` and `haul man`: shell completions, manual pages, and the command pages of the book.
//!
//! All three come from the same [`clap::Command`] as `--help`, so that they cannot disagree with it.

mod examples;
mod markdown;

use std::{error::Error, fs, path::Path};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Box<dyn Error>> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "haul", &mut text);
    crate::print(&text)
}

/// Writes manual pages into a folder: `haul.1`, `haul-link.1` and so on.
pub(crate) fn man_pages(folder: &Path) -> Result<(), Box<dyn Error>> {
    create(folder)?;
    write_man_page(&command_tree(), folder)
}

/// Writes the book's command pages into a folder: `race.md`, `lab.md` and so on, one for each command of `haul`.
pub(crate) fn command_pages(folder: &Path) -> Result<(), Box<dyn Error>> {
    create(folder)?;
    let haul = command_tree();
    let shared = markdown::Shared::of(&haul);
    for command in haul.get_subcommands().filter(|command| !command.is_hide_set()) {
        let path = folder.join(format!("{}.md", command.get_name()));
        fs::write(&path, markdown::page(command, &shared)).map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(())
}

/// The command line, with examples.
pub(crate) fn command() -> Command {
    examples::add(crate::Haul::command(), "")
}

fn command_tree() -> Command {
    let mut haul = command().disable_help_subcommand(true);
    haul.build();
    haul
}

fn write_man_page(command: &Command, folder: &Path) -> Result<(), Box<dyn Error>> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    // The heading by which man(7) knows them.
    let page = String::from_utf8(page)?.replace(".SH EXTRA\nExamples:\n\n", ".SH EXAMPLES\n");
    fs::write(&path, page).map_err(|error| cannot_write(&path, &error))?;
    command.get_subcommands().try_for_each(|subcommand| write_man_page(subcommand, folder))
}

fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}
