//! `haul race` and `haul lab`: experiments, run, shown and compared.

mod progress;

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use clap::Subcommand;
use lab::{
    assemble::{Circumstances, assemble},
    compare, contenders,
    experiment::{Experiment, Known, Selection, nearest},
    machine,
    results::{self, Calibration, RunResult},
    run::Run,
    servers::{self, Server},
    table::{Look, render, render_change},
};
use link::{calibrate::calibrate, sandbox, units::Span};

use crate::lab::progress::Progress;

/// The experiments that come with the program: name and text.
const EXPERIMENTS: [(&str, &str); 1] = [("webdav-race", include_str!("../../../experiments/webdav-race.toml"))];

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
    /// Say what differs between two runs beyond noise
    Compare {
        /// The earlier run: its id or folder
        then: String,
        /// The later run
        now: String,
        #[command(flatten)]
        place: Place,
    },
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

    /// The server: apache, nginx or embedded; the first that is installed, if left out
    #[arg(long, value_name = "NAME")]
    server: Option<String>,

    /// Plain HTTP in place of HTTPS
    #[arg(long)]
    plain: bool,

    /// The most time for one sample
    #[arg(long, value_name = "TIME", default_value = "5min")]
    patience: Span,

    /// Seed of everything random: the files' bytes, the order of the contenders
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    json: Json,
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
        let one = contenders::all().iter().find(|one| one.name == contender);
        if let Some(one) = one {
            one.with(&[(setting.to_owned(), 1)].into()).map_err(|error| error.to_string())?;
        }
        Ok(Self { contender: contender.to_owned(), setting: setting.to_owned(), values })
    }
}

pub(crate) fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    match command {
        Command::Run { experiment, options } => conduct(&experiment, &options),
        Command::List { place } => list(&place.runs).map(|()| ExitCode::SUCCESS),
        Command::Show { run, place, json } => {
            let run = results::find(&place.runs, run.as_deref())?;
            show(&run, &json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Compare { then, now, place } => {
            let [then, now] = [then, now].map(|id| results::find(&place.runs, Some(&id)));
            crate::print(render_change(&compare::compare(&then?, &now?), look()).as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs an experiment from its text to its table.
pub(crate) fn conduct(experiment: &str, options: &RunOptions) -> Result<ExitCode, Box<dyn Error>> {
    let mut experiment = read(experiment)?;
    for sweep in &options.sweep {
        experiment.sweep(&sweep.contender, &sweep.setting, &sweep.values)?;
    }
    let plan = experiment.plan(&Selection {
        quick: options.quick,
        networks: options.network.clone(),
        workloads: options.workload.clone(),
        contenders: options.contender.clone(),
        samples: options.samples,
    })?;
    let server = choose_server(&experiment, options.server.as_deref())?;
    let started = SystemTime::now();
    let sandbox = sandbox::enter()?;
    lab::world::furnish()?;
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    sandbox.on_signal(move |_| flag.store(true, Ordering::Relaxed))?;

    let folder = results::create_folder(&options.place.runs, &experiment.name, started)?;
    let captures = folder.join("captures");
    fs::create_dir(&captures).map_err(|error| format!("cannot make the folder {}: {error}", captures.display()))?;
    let mut progress = Progress::new(&plan);
    progress.say("measuring how true the emulator is here");
    let calibration = Calibration::from(&calibrate()?);
    let host = machine::record(&plan, server.as_ref())?;
    let run = Run {
        plan: &plan,
        server: server.as_ref(),
        tls: !options.plain,
        seed: options.seed,
        patience: options.patience.into(),
        scratch: sandbox.scratch(),
        captures: &captures,
        cancel: cancel.clone(),
    };
    let outcomes = run.run(|event| progress.show(&event));
    progress.end();

    let settings = [
        ("server", server.name().to_owned()),
        ("tls", (!options.plain).to_string()),
        ("seed", options.seed.to_string()),
        ("quick", options.quick.to_string()),
        ("samples", plan.samples.to_string()),
        ("root", sandbox::is_root().to_string()),
    ];
    let circumstances = Circumstances {
        started,
        host,
        calibration: Some(calibration),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        tls: !options.plain,
        seed: options.seed,
    };
    let result = assemble(&experiment, &plan, &outcomes, circumstances);
    results::write(&folder.join("run.json"), &result)?;
    results::write_samples(&folder.join("samples.csv"), &plan, &outcomes)?;
    show(&result, &options.json)?;
    eprintln!("haul: kept in {}", folder.display());
    if cancel.load(Ordering::Relaxed) {
        return Err("interrupted; what was measured until then is kept and shown".into());
    }
    let measured = result.cells.iter().any(|cell| !cell.samples_s.is_empty());
    if measured { Ok(ExitCode::SUCCESS) } else { Err("nothing could be measured; the table says why".into()) }
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
        let advice = nearest(name, ours).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err(format!("there is no experiment `{name}`{advice}").into());
    }
    Ok(Experiment::read(path, known)?)
}

/// The server asked for, or the first of the experiment's that is installed.
fn choose_server(experiment: &Experiment, name: Option<&str>) -> Result<Box<dyn Server>, Box<dyn Error>> {
    let names = name.map_or_else(|| experiment.servers.clone(), |name| vec![name.to_owned()]);
    let mut missing = None;
    for name in &names {
        let Some(server) = servers::all().into_iter().find(|server| server.name() == name) else {
            let all: Vec<_> = servers::all().iter().map(|server| server.name()).collect();
            return Err(format!("there is no server `{name}`; there are {}", all.join(", ")).into());
        };
        match server.missing() {
            None => return Ok(server),
            Some(what) => missing = Some(what),
        }
    }
    Err(missing.map_or_else(|| "the experiment names no server".into(), |missing| missing.to_string().into()))
}

fn list(runs: &Path) -> Result<(), Box<dyn Error>> {
    let mut text = String::from("Experiments\n");
    for (name, _) in EXPERIMENTS {
        let experiment = read(name)?;
        writeln!(text, "  {name:<24} {}", experiment.question)?;
    }
    text += "\nRuns\n";
    let listed = results::list(runs)?;
    if listed.is_empty() {
        writeln!(text, "  none yet in {}; `haul race --quick` makes one", runs.display())?;
    }
    for listed in listed {
        let line = match &listed.run {
            Ok(run) => format!("{} cells, {} claims judged", run.cells.len(), run.claims.len()),
            Err(error) => error.to_string(),
        };
        writeln!(text, "  {:<36} {line}", listed.id)?;
    }
    crate::print(text.as_bytes())
}

/// The table for a person, and the results for a program.
fn show(run: &RunResult, Json { json }: &Json) -> Result<(), Box<dyn Error>> {
    let table = render(run, look());
    match json {
        Some(path) if path == Path::new("-") => {
            io::stderr().write_all(table.as_bytes())?;
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
