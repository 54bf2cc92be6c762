//! `haul lab merge`: one run out of runs of parts of an experiment.

use std::{error::Error, fs, process::ExitCode, sync::Arc, time::SystemTime};

use lab::{
    merge::{self, Source},
    results::{self, CreatedPaths, RunFolder},
};

use super::{
    Format, JsonOutput, ResultsFolder, capture_reports, execute::command_line, part::Variants, save_report, show,
    unknown,
};
use crate::say;

/// What to merge, and where to.
#[derive(clap::Args)]
pub(crate) struct MergeArgs {
    /// Name of a built-in experiment (see `haul lab list`), or a TOML file
    experiment: String,
    /// Run IDs (see `haul lab list`) or folders
    #[arg(required = true, value_name = "RUN")]
    names: Vec<String>,
    #[command(flatten)]
    variants: Variants,
    #[command(flatten)]
    folder: ResultsFolder,
    #[command(flatten)]
    json: JsonOutput,
}

pub(super) fn run(args: &MergeArgs) -> Result<ExitCode, Box<dyn Error>> {
    let experiment = args.variants.read(&args.experiment)?;
    let read = |name: &String| -> Result<Source, Box<dyn Error>> {
        let file = results::locate(&args.folder.results, Some(name)).map_err(unknown)?;
        Ok(Source::read(&file)?)
    };
    let sources = args.names.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let merged = merge::merge(&experiment, &sources, command_line())?;
    let created = Arc::new(CreatedPaths::default());
    let mut folder = RunFolder::create(&args.folder.results, &experiment.name, SystemTime::now(), created)?;
    let copied =
        merge::copy_files(&sources, &merged, &folder).and_then(|()| results::write(&folder.results(), &merged));
    if let Err(error) = copied {
        let _ = fs::remove_dir_all(folder.path());
        return Err(error.into());
    }
    folder.keep();
    capture_reports::write(folder.path(), &merged, || false);
    save_report(&folder.report(), &merged)?;
    show(&merged, Format::Text, &args.json)?;
    say(format_args!("results: {}, report: {}", folder.path().display(), folder.report().display()));
    Ok(ExitCode::SUCCESS)
}
