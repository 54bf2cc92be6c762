//! `haul page import`.

use std::{error::Error, path::PathBuf, process::ExitCode};

/// Import a page load from a HAR, a capture of plain HTTP/1.1, or manifests of 2013
///
/// Prints a note for each assumption and each omitted request. Cookies and credentials are not kept.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A .har file, a capture, a .reqs file, or a folder with a .reqs file
    #[arg(value_name = "DIR|FILE")]
    from: PathBuf,

    /// The spec to write; bodies go into the folder of the same name [default: NAME.toml]
    #[arg(value_name = "SPEC")]
    to: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(to) = &args.to {
        super::is_new(to)?;
    }
    let imported = ::page::import::import(&args.from)?;
    let to = args.to.clone().unwrap_or_else(|| format!("{}.toml", imported.spec.name).into());
    super::is_new(&to)?;
    super::write(&imported.spec, &imported.notes, &to)?;
    Ok(ExitCode::SUCCESS)
}
