//! `haul race`, `haul lab` and `haul report`: running experiments, and showing and comparing their results.

mod capture_reports;
mod claims;
mod consent;
mod execute;
mod interrupt;
mod live;
mod merge;
mod part;
mod progress;
mod truth;

use std::{
    error::Error,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

pub(crate) use self::execute::{ExecuteOptions, execute};
use self::{
    merge::MergeArgs,
    part::{PartOptions, PlanArgs},
};
use crate::usage;
use clap::Subcommand;
use lab::{
    compare, contenders,
    experiment::{Experiment, Known, nearest},
    export, report_data,
    results::{self, REPORT, ResultsError, RunResult},
    servers,
    table::{Look, render, render_change},
};

/// The experiments that come with the program: name and text.
const EXPERIMENTS: [(&str, &str); 16] = [
    ("webdav-race", include_str!("../../../experiments/webdav-race.toml")),
    ("article-conditions", include_str!("../../../experiments/article-conditions.toml")),
    ("mounts", include_str!("../../../experiments/mounts.toml")),
    ("gateways", include_str!("../../../experiments/gateways.toml")),
    ("idle-connection", include_str!("../../../experiments/idle-connection.toml")),
    ("pipelining", include_str!("../../../experiments/pipelining.toml")),
    ("upload-stall", include_str!("../../../experiments/upload-stall.toml")),
    ("tfo-page-load", include_str!("../../../experiments/tfo-page-load.toml")),
    ("tfo-server-cost", include_str!("../../../experiments/tfo-server-cost.toml")),
    ("handshake-savers", include_str!("../../../experiments/handshake-savers.toml")),
    ("tfo-dns", include_str!("../../../experiments/tfo-dns.toml")),
    ("tfo-middleboxes", include_str!("../../../experiments/tfo-middleboxes.toml")),
    ("bars", include_str!("../../../experiments/bars.toml")),
    ("bars-idle", include_str!("../../../experiments/bars-idle.toml")),
    ("bars-page", include_str!("../../../experiments/bars-page.toml")),
    ("bars-browser", include_str!("../../../experiments/bars-browser.toml")),
];

/// Run experiments, and show and compare their results
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an experiment
    Run {
        /// Name of a built-in experiment (see `haul lab list`), or a TOML file
        experiment: String,
        #[command(flatten)]
        options: RunOptions,
        #[command(flatten)]
        truth: truth::TruthOptions,
    },
    /// Show what a run would measure
    Plan(PlanArgs),
    /// Make one run out of runs of parts of an experiment
    Merge(MergeArgs),
    /// Serve a live report of a run in progress on 127.0.0.1
    Watch {
        /// Run ID (see `haul lab list`) or folder [default: the newest run in progress]
        run: Option<String>,
        #[command(flatten)]
        folder: ResultsFolder,
    },
    /// List the built-in experiments and the runs
    List {
        #[command(flatten)]
        folder: ResultsFolder,
    },
    /// Show the results of a run
    Show {
        /// Run ID (see `haul lab list`) or folder [default: the newest run]
        run: Option<String>,
        /// Print the tables as Markdown
        #[arg(long, conflicts_with = "csv")]
        markdown: bool,
        /// Print one line per cell as CSV, times in seconds
        #[arg(long)]
        csv: bool,
        #[command(flatten)]
        folder: ResultsFolder,
        #[command(flatten)]
        json: JsonOutput,
    },
    /// Compare runs, and show which differences are larger than noise
    Compare(CompareArgs),
    /// List the claims of the built-in experiments: what would refute each, and its verdict by runs
    Claims(claims::ClaimsArgs),
}

/// Which runs to compare, and where to write the comparison.
#[derive(clap::Args)]
pub(crate) struct CompareArgs {
    /// Run IDs (see `haul lab list`) or folders; the first is the baseline
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    names: Vec<String>,
    /// Also write the comparison as JSON (schema longhaul.compare/1); `-` writes it to standard output instead
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the comparison as an HTML report; `-` writes it to standard output instead
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    folder: ResultsFolder,
}

/// Where the results of all runs are.
#[derive(clap::Args)]
pub(crate) struct ResultsFolder {
    /// Folder of the results of all runs
    #[arg(long, value_name = "DIR", default_value = "runs", value_parser = results_folder)]
    pub(crate) results: PathBuf,
}

/// Parses the folder of the results. A number is more likely meant as the number of samples.
fn results_folder(text: &str) -> Result<PathBuf, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "a number is no folder; --samples {text} sets the number of samples, ./{text} is a folder"
        ));
    }
    Ok(text.into())
}

/// Parses the number of samples of each cell. A path is more likely meant as the folder of the results.
pub(crate) fn samples(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "expected a number; --results sets the folder of the results".to_owned())
}

/// Where results go for programs.
#[derive(clap::Args)]
pub(crate) struct JsonOutput {
    /// Also write the results as JSON (schema longhaul.run/1); `-` for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Which part of an experiment to run, and how.
#[derive(clap::Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    part: PartOptions,

    /// Server: apache, nginx, embedded, pages, nginx-pages or unbound [default: the experiment's first that is installed]
    #[arg(long, value_name = "NAME")]
    server: Option<String>,

    /// Start a server of your own by its command, as in './mine serve {port} {dir}'; {cert} and {key} are its TLS
    /// certificate and key. Without them, the race uses HTTP
    #[arg(long, value_name = "COMMAND", conflicts_with = "server")]
    with_server: Option<String>,

    /// Use HTTP instead of HTTPS
    #[arg(long)]
    plain: bool,

    #[command(flatten)]
    folder: ResultsFolder,

    #[command(flatten)]
    execute: ExecuteOptions,
}

/// `haul race`.
pub(crate) fn race(options: &RunOptions) -> Result<ExitCode, Box<dyn Error>> {
    execute::run("webdav-race", options)
}

pub(crate) fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Run { experiment, options, truth } if experiment == truth::NAME => truth::run(&options, &truth),
        Command::Run { experiment, options, truth } => {
            truth.refuse()?;
            execute::run(&experiment, &options)
        }
        Command::Plan(args) => part::show(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Watch { run, folder } => live::watch(&folder, run.as_deref()),
        Command::List { folder } => list(&folder.results).map(|()| ExitCode::SUCCESS),
        Command::Show { run, markdown, csv, folder, json } => {
            let run = find(&folder, run.as_deref())?;
            let format = match (markdown, csv) {
                (true, _) => Format::Markdown,
                (_, true) => Format::Csv,
                _ => Format::Text,
            };
            show(&run, format, &json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Compare(args) => compare_runs(&args).map(|()| ExitCode::SUCCESS),
        Command::Claims(args) => claims::show(&args).map(|()| ExitCode::SUCCESS),
    }
}

/// Reads a built-in experiment, or a file.
fn read(name: &str) -> Result<Experiment, Box<dyn Error>> {
    let (contenders, servers) = (contenders::known(), servers::all());
    let servers: Vec<&str> = servers.iter().map(|server| server.name()).collect();
    let known = Known { contenders: &contenders, servers: &servers };
    if let Some((name, text)) = EXPERIMENTS.iter().find(|(built_in, _)| *built_in == name) {
        let path = Path::new("experiments").join(name).with_extension("toml");
        return Ok(Experiment::parse(text, &path, known)?);
    }
    let path = Path::new(name);
    if path.components().count() == 1 && path.extension().is_none() && !path.exists() {
        if name == truth::NAME {
            return Err(usage(format_args!("`{name}` is no experiment file; `haul lab run {name}` runs it")));
        }
        let names = EXPERIMENTS.map(|(name, _)| name).into_iter().chain([truth::NAME]);
        let advice = match nearest(name, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`haul lab list` lists them".to_owned(),
        };
        return Err(usage(format_args!("unknown experiment `{name}`; {advice}")));
    }
    Ok(Experiment::read(path, known)?)
}

/// Which run to report, and where to.
#[derive(clap::Args)]
pub(crate) struct ReportArgs {
    /// Run ID (see `haul lab list`), folder, run.json or truth.json [default: the newest run]
    run: Option<String>,
    /// Output file, `-` for standard output [default: report.html in the run's folder]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    folder: ResultsFolder,
}

/// `haul report`: writes a run's report and prints its path.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Box<dyn Error>> {
    if let Some((result, file)) = args.run.as_deref().and_then(|run| truth::stored(&args.folder.results, run)) {
        let html = args.html.clone().unwrap_or_else(|| file.with_file_name(REPORT));
        report::save(&html, &result)?;
        return say_report(&html);
    }
    let file = results::locate(&args.folder.results, args.run.as_deref()).map_err(unknown)?;
    let html = args.html.clone().unwrap_or_else(|| file.with_file_name(REPORT));
    let run = results::read(&file)?;
    if args.html.is_none() {
        capture_reports::write(file.parent().unwrap_or(Path::new("")), &run, || false);
    }
    save_report(&html, &run)?;
    say_report(&html)
}

/// Prints where a report is, unless it was written to standard output.
fn say_report(html: &Path) -> Result<ExitCode, Box<dyn Error>> {
    if html != Path::new("-") {
        crate::print(format!("{}\n", html.display()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn compare_runs(args: &CompareArgs) -> Result<(), Box<dyn Error>> {
    let CompareArgs { names, json, html, folder } = args;
    let to_stdout = |path: &&PathBuf| *path == Path::new("-");
    let printed = json.iter().chain(html).filter(to_stdout).count();
    if printed > 1 {
        return Err(usage("--json and --html cannot both write to standard output; give one of them a file"));
    }
    let runs = names.iter().map(|name| find(folder, Some(name))).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<(&str, &RunResult)> = names.iter().map(String::as_str).zip(&runs).collect();
    let change = compare::compare(&runs);
    let comparison = report_data::of_comparison(&runs, &change);
    if let Some(html) = html {
        report::save(html, &comparison)?;
    }
    if let Some(json) = json {
        results::write(json, &comparison)?;
    }
    if printed == 0 {
        crate::print(render_change(&change, look()).as_bytes())?;
    }
    Ok(())
}

/// Writes a run's report, with links to the captures that exist beside it.
fn save_report(html: &Path, run: &RunResult) -> Result<(), report::SaveError> {
    let folder = html.parent().unwrap_or(Path::new(""));
    report::save(html, &report_data::of_run(run, |file| folder.join(file).exists()))
}

/// The results of a run.
fn find(folder: &ResultsFolder, id: Option<&str>) -> Result<RunResult, Box<dyn Error>> {
    results::find(&folder.results, id).map_err(unknown)
}

/// An unknown run is wrong usage; other errors are failures.
fn unknown(error: ResultsError) -> Box<dyn Error> {
    match error {
        ResultsError::Unknown { .. } => usage(error),
        error => error.into(),
    }
}

fn list(runs: &Path) -> Result<(), Box<dyn Error>> {
    let look = look();
    let mut text = String::from("Experiments\n");
    for (name, _) in EXPERIMENTS {
        let experiment = read(name)?;
        text += &look.paragraph(&format!("  {name:<24} "), 27, &experiment.question);
    }
    text += &look.paragraph(&format!("  {:<24} ", truth::NAME), 27, truth::QUESTION);
    text += "\nRuns\n";
    let listed = results::list(runs)?;
    if listed.is_empty() {
        writeln!(text, "  none in {}; `haul race --quick` makes one", runs.display())?;
    }
    for listed in listed {
        let line = match &listed.run {
            Ok(run) => run.summary(),
            Err(_) if runs.join(&listed.id).join(truth::CASES).is_dir() => {
                format!("ground truth; `haul lab run {}` with the same seed shows it again", truth::NAME)
            }
            Err(_) if !runs.join(&listed.id).join("run.json").exists() => {
                "no results: it is in progress or was killed; samples.csv has its samples".to_owned()
            }
            Err(error) => error.to_string(),
        };
        text += &look.paragraph(&format!("  {:<36} ", listed.id), 39, &line);
    }
    crate::print(text.as_bytes())
}

/// How results are printed.
#[derive(Clone, Copy)]
enum Format {
    Text,
    Markdown,
    Csv,
}

/// Prints the results, and writes them as JSON if asked to.
fn show(run: &RunResult, format: Format, JsonOutput { json }: &JsonOutput) -> Result<(), Box<dyn Error>> {
    let table = match format {
        Format::Text => render(run, look()).into_bytes(),
        Format::Markdown => export::markdown(run).into_bytes(),
        Format::Csv => export::csv(run)?,
    };
    match json {
        Some(path) if path == Path::new("-") => {
            let _ = io::stderr().write_all(&table);
            results::write(path, run)?;
        }
        Some(path) => {
            crate::print(&table)?;
            results::write(path, run)?;
        }
        None => crate::print(&table)?,
    }
    Ok(())
}

/// The table's look: as wide as the terminal, and coloured on one.
pub(crate) fn look() -> Look {
    let terminal = io::stdout().is_terminal();
    Look { width: crate::columns().min(120), colour: terminal && std::env::var_os("NO_COLOR").is_none() }
}
