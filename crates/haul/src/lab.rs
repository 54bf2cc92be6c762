//! `haul race` and `haul lab`: experiments, run, shown and compared.

mod capture_reports;
mod conduct;
mod interrupt;
mod live;
mod progress;

use std::{
    collections::BTreeSet,
    error::Error,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
};

pub(crate) use self::conduct::{How, conduct};
use crate::usage;
use clap::Subcommand;
use lab::{
    compare, contenders,
    experiment::{Experiment, Known, nearest},
    report_data,
    results::{self, ResultsError, RunResult},
    servers,
    table::{Look, render, render_change},
};

/// The experiments that come with the program: name and text.
const EXPERIMENTS: [(&str, &str); 13] = [
    ("webdav-race", include_str!("../../../experiments/webdav-race.toml")),
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

/// Run experiments, and show and compare what they found
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run an experiment
    Run {
        /// The name of one that `haul lab list` shows, or a TOML file
        experiment: String,
        #[command(flatten)]
        options: RunOptions,
    },
    /// Watch a run that goes on: a page on loopback, with its results as they come
    Watch {
        /// Its id, as `haul lab list` shows it, or its folder; the newest that goes on, if left out
        run: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// List the experiments there are, and the runs made so far
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Show a run as it was shown when it ended
    Show {
        /// Its id, as `haul lab list` shows it, or its folder; the newest, if left out
        run: Option<String>,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        json: Json,
    },
    /// Say what differs between runs beyond noise
    Compare(Compare),
}

/// What is compared, and where it is told.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// The runs: their ids, as `haul lab list` shows them, or folders. Each is measured against the first, the baseline
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    names: Vec<String>,
    /// Write it (schema longhaul.compare/1) to this file as well; `-`: to standard output, in its place
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write it as a page to this file as well; `-`: to standard output, in its place
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// Where runs are kept.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// The folder of the runs
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
}

/// Results for programs.
#[derive(clap::Args)]
pub(crate) struct Json {
    /// Write the results (schema longhaul.run/1) to this file as well; `-`: to standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What of an experiment is run, and how.
#[derive(clap::Args)]
pub(crate) struct RunOptions {
    /// Only the part that the experiment calls quick
    #[arg(long)]
    quick: bool,

    /// Only this network; may be repeated
    #[arg(long, value_name = "NAME")]
    network: Vec<String>,

    /// Only this workload; may be repeated
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,

    /// Only this contender; may be repeated
    #[arg(long, value_name = "NAME")]
    contender: Vec<String>,

    /// Run each cell so often
    #[arg(long, value_name = "N")]
    samples: Option<u32>,

    /// Run a contender once for each value: rclone.transfers=1,4,16
    #[arg(long, value_name = "CONTENDER.SETTING=VALUES")]
    sweep: Vec<Sweep>,

    /// The server: apache, nginx or embedded, of pages pages or nginx-pages; the first that is installed, if left out
    #[arg(long, value_name = "NAME")]
    server: Option<String>,

    /// Plain HTTP in place of HTTPS
    #[arg(long)]
    plain: bool,

    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    how: How,
}

/// A setting of a contender and the values that it takes in turn.
#[derive(Debug, Clone)]
struct Sweep {
    contender: String,
    setting: String,
    values: Vec<u32>,
}

impl FromStr for Sweep {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(name, values)| {
            let (contender, setting) = name.split_once('.')?;
            let values = values.split(',').map(|value| value.parse().ok()).collect::<Option<Vec<u32>>>()?;
            Some((contender, setting, values))
        });
        let Some((contender, setting, values)) = parts else {
            return Err("write it like rclone.transfers=1,4,16".to_owned());
        };
        if values.contains(&0) || values.iter().collect::<BTreeSet<_>>().len() < values.len() {
            return Err("give each value once, and none below 1".to_owned());
        }
        let one = contenders::all().iter().find(|one| one.name == contender);
        if let Some(one) = one {
            one.with(&[(setting.to_owned(), 1)].into()).map_err(|error| error.to_string())?;
        }
        Ok(Self { contender: contender.to_owned(), setting: setting.to_owned(), values })
    }
}

/// The race, which has a command of its own.
pub(crate) fn race(options: &RunOptions) -> Result<ExitCode, Box<dyn Error>> {
    conduct::run("webdav-race", options)
}

pub(crate) fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Run { experiment, options } => conduct::run(&experiment, &options),
        Command::Watch { run, place } => live::watch(&place, run.as_deref()),
        Command::List { place } => list(&place.runs).map(|()| ExitCode::SUCCESS),
        Command::Show { run, place, json } => {
            let run = find(&place, run.as_deref())?;
            show(&run, &json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Compare(asked) => compare_runs(&asked).map(|()| ExitCode::SUCCESS),
    }
}

/// Reads one of our experiments, or a file.
fn read(name: &str) -> Result<Experiment, Box<dyn Error>> {
    let (contenders, servers) = (contenders::known(), servers::all());
    let servers: Vec<&str> = servers.iter().map(|server| server.name()).collect();
    let known = Known { contenders: &contenders, servers: &servers };
    if let Some((name, text)) = EXPERIMENTS.iter().find(|(ours, _)| *ours == name) {
        let path = Path::new("experiments").join(name).with_extension("toml");
        return Ok(Experiment::parse(text, &path, known)?);
    }
    let path = Path::new(name);
    if path.components().count() == 1 && path.extension().is_none() && !path.exists() {
        let ours = EXPERIMENTS.map(|(ours, _)| ours);
        let advice = match nearest(name, ours) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`haul lab list` shows those there are".to_owned(),
        };
        return Err(usage(format_args!("there is no experiment `{name}`; {advice}")));
    }
    Ok(Experiment::read(path, known)?)
}

/// A run's results as a page
#[derive(clap::Args)]
pub(crate) struct ReportArgs {
    /// Its id, as `haul lab list` shows it, or its folder or run.json; the newest, if left out
    run: Option<String>,
    /// Write it to this file in place of report.html in the run's folder; `-`: to standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// Writes a run's page, and says where it is.
pub(crate) fn report(args: &ReportArgs) -> Result<ExitCode, Box<dyn Error>> {
    let file = results::locate(&args.place.runs, args.run.as_deref()).map_err(unknown)?;
    let html = args.html.clone().unwrap_or_else(|| file.with_file_name(REPORT));
    let run = results::read(&file)?;
    if args.html.is_none() {
        capture_reports::write(file.parent().unwrap_or(Path::new("")), &run, || false);
    }
    save_report(&html, &run)?;
    if html != Path::new("-") {
        crate::print(format!("{}\n", html.display()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn compare_runs(asked: &Compare) -> Result<(), Box<dyn Error>> {
    let Compare { names, json, html, place } = asked;
    let to_stdout = |path: &&PathBuf| *path == Path::new("-");
    let printed = json.iter().chain(html).filter(to_stdout).count();
    if printed > 1 {
        return Err(usage("--json and --html cannot both go to standard output; name a file for one of them"));
    }
    let runs = names.iter().map(|name| find(place, Some(name))).collect::<Result<Vec<_>, _>>()?;
    let runs: Vec<(&str, &RunResult)> = names.iter().map(String::as_str).zip(&runs).collect();
    let change = compare::compare(&runs);
    let page = report_data::of_comparison(&runs, &change);
    if let Some(html) = html {
        report::save(html, &page)?;
    }
    if let Some(json) = json {
        results::write(json, &page)?;
    }
    if printed == 0 {
        crate::print(render_change(&change, look()).as_bytes())?;
    }
    Ok(())
}

/// The name of a run's page in its folder.
const REPORT: &str = "report.html";

/// Writes a run's page. It links to what lies where it is written.
fn save_report(html: &Path, run: &RunResult) -> Result<(), report::SaveError> {
    let folder = html.parent().unwrap_or(Path::new(""));
    report::save(html, &report_data::of_run(run, |file| folder.join(file).exists()))
}

/// The results of a run.
fn find(place: &Place, id: Option<&str>) -> Result<RunResult, Box<dyn Error>> {
    results::find(&place.runs, id).map_err(unknown)
}

/// A run that there is not is a slip of whoever typed it.
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
    text += "\nRuns\n";
    let listed = results::list(runs)?;
    if listed.is_empty() {
        writeln!(text, "  none yet in {}; `haul race --quick` makes one", runs.display())?;
    }
    for listed in listed {
        let line = match &listed.run {
            Ok(run) => run.summary(),
            Err(_) if !runs.join(&listed.id).join("run.json").exists() => {
                "no results: it is still going on, or was killed; its samples.csv has what it measured".to_owned()
            }
            Err(error) => error.to_string(),
        };
        text += &look.paragraph(&format!("  {:<36} ", listed.id), 39, &line);
    }
    crate::print(text.as_bytes())
}

/// The table for a person, and the results for a program.
fn show(run: &RunResult, Json { json }: &Json) -> Result<(), Box<dyn Error>> {
    let table = render(run, look());
    match json {
        Some(path) if path == Path::new("-") => {
            let _ = io::stderr().write_all(table.as_bytes());
            results::write(path, run)?;
        }
        Some(path) => {
            crate::print(table.as_bytes())?;
            results::write(path, run)?;
        }
        None => crate::print(table.as_bytes())?,
    }
    Ok(())
}

/// As wide as the terminal, and in colour on one.
fn look() -> Look {
    let terminal = io::stdout().is_terminal();
    let width = console::Term::stdout().size_checked().map_or(100, |(_, columns)| usize::from(columns));
    Look { width: width.min(120), colour: terminal && std::env::var_os("NO_COLOR").is_none() }
}
