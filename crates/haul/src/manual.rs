//! `haul completions` and `haul man`: the command line, told to a shell and to man(1).

use std::{error::Error, fs, path::Path};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<(), Box<dyn Error>> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut crate::Haul::command(), "haul", &mut text);
    crate::print(&text)
}

/// Writes haul.1, haul-link.1 and so on into a folder.
pub(crate) fn man(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder).map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
    let mut haul = crate::Haul::command().disable_help_subcommand(true);
    haul.build();
    write(&haul, folder)
}

fn write(command: &Command, folder: &Path) -> Result<(), Box<dyn Error>> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    fs::write(&path, page).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    command.get_subcommands().try_for_each(|below| write(below, folder))
}
