//! Executing an experiment and showing what it measured: the command line's side of [`lab::execution`].
//!
//! Wrong options and missing programs are reported before the run's folder is created. Results are shown even if they
//! cannot be written.

use std::{
    error::Error,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Instant, SystemTime},
};

use lab::{
    custom::CustomServer,
    estimate,
    execution::{Executed, Execution, Observer},
    experiment::{Experiment, Plan},
    live::{Live, Stage},
    machine,
    results::{self, CreatedPaths, RunFolder, check_outlives_run},
    run::Event,
    servers::{self, ChooseError, Server},
    testbed,
};
use link::sandbox;
use report::live::Listener;
use units::{Span, rounded::count as counted};

use super::{
    Format, JsonOutput, RunOptions, capture_reports, consent, interrupt::Interrupt, live::LivePublisher,
    progress::Progress, save_report, show, usage,
};
use crate::say;

/// The options of every command that executes an experiment.
#[derive(clap::Args)]
pub(crate) struct ExecuteOptions {
    /// Time limit of one sample, preparation included
    #[arg(long, alias = "patience", value_name = "DURATION", default_value = "5min", value_parser = crate::timeout)]
    pub(super) timeout: Span,

    /// Seed of everything random: contents of files, order of contenders
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,

    /// Start a run of an hour or more without asking
    #[arg(long, short)]
    pub(super) yes: bool,

    /// Serve a live report on 127.0.0.1 and print its URL
    #[arg(long)]
    pub(super) open: bool,

    #[command(flatten)]
    pub(super) json: JsonOutput,
}

/// Runs an experiment given by its name or file.
pub(super) fn run(name: &str, options: &RunOptions) -> Result<ExitCode, Box<dyn Error>> {
    let (mut experiment, plan) = options.part.plan(name)?;
    let server = choose_server(&mut experiment, options)?;
    experiment.tls &= !options.plain;
    if experiment.tls && !server.tls() {
        let name = server.name();
        say(format_args!("the command of {name} has no {{cert}} and {{key}}, so everything uses HTTP without TLS"));
        experiment.tls = false;
    }
    execute(&experiment, &plan, server.as_ref(), options.part.quick, &options.folder.results, &options.execute)
}

/// The server of the options, or the first of the experiment's that is installed.
fn choose_server(experiment: &mut Experiment, options: &RunOptions) -> Result<Box<dyn Server>, Box<dyn Error>> {
    let mut names = options.server.as_ref().map_or_else(|| experiment.servers.clone(), |name| vec![name.clone()]);
    if let Some(command) = &options.with_server {
        let server = CustomServer::by_command(command);
        let server = server.map_err(|error| usage(format_args!("--with-server: {error}")))?;
        names = vec![server.name().to_owned()];
        experiment.custom_servers.push(Arc::new(server));
    }
    servers::choose(&names, &experiment.custom_servers).map_err(|error| match error {
        ChooseError::Unknown { .. } => usage(error),
        error => error.into(),
    })
}

/// Runs an experiment, shows its results and writes them to a new folder in `runs`.
pub(crate) fn execute(
    experiment: &Experiment,
    plan: &Plan,
    server: &dyn Server,
    quick: bool,
    runs: &Path,
    options: &ExecuteOptions,
) -> Result<ExitCode, Box<dyn Error>> {
    let samples = counted(plan.cells.len() as u64 * u64::from(plan.samples), "sample");
    consent::ask(&samples, estimate::run_time(plan, experiment.tls), options.yes)?;
    let (started, began) = (SystemTime::now(), Instant::now());
    // The sandbox has a loopback interface of its own, so this listens before entering it.
    let listener = options.open.then(Listener::bind).transpose();
    let listener = listener.map_err(|error| format!("cannot listen on 127.0.0.1: {error}"))?;
    let sandbox = sandbox::enter()?;
    let created = Arc::new(CreatedPaths::default());
    let interrupt = Interrupt::new(created.clone());
    let (on_signal, on_cancel) = (interrupt.clone(), interrupt.clone());
    sandbox.on_signal(move |_| on_signal.request())?;

    let mut folder = RunFolder::create(runs, &experiment.name, started, created)?;
    check_outlives_run(&folder.results())?;
    if let Some(json) = options.json.file() {
        check_outlives_run(json)?;
    }
    let scratch =
        testbed::furnish(&sandbox).map_err(|error| format!("cannot mount a tmpfs on {}: {error}", testbed::RUN))?;
    machine::check_memory(plan, &scratch)?;
    if let Some(listener) = &listener {
        say(format_args!("live report: {}", listener.url()));
    }
    let live = Live::new(experiment, plan, experiment.tls, started);
    let publisher = LivePublisher::start(live, folder.path(), listener, began, move || on_cancel.request())
        .map_err(|error| format!("cannot publish the state of the run: {error}"))?;
    let execution = Execution {
        experiment,
        plan,
        server,
        sample_timeout: options.timeout,
        seed: options.seed,
        is_quick: quick,
        command: command_line(),
        started,
        scratch: &scratch,
        cancel: interrupt.flag(),
    };
    let mut display = Display { publisher: &publisher, progress: Progress::new(plan) };
    let executed = execution.execute(&mut folder, &mut display)?;
    drop(display);
    finish(&executed, &folder, publisher, &options.json)
}

/// Shows and writes the results.
fn finish(
    executed: &Executed,
    folder: &RunFolder,
    publisher: LivePublisher,
    json: &JsonOutput,
) -> Result<ExitCode, Box<dyn Error>> {
    let Executed { result, halt, is_measured } = executed;
    let written = results::write(&folder.results(), result);
    let shown = show(result, Format::Text, json);
    capture_reports::write(folder.path(), result, || halt.is_some());
    let reported = save_report(&folder.report(), result);
    publisher.finish();

    // A terminal already shows it, in the table.
    if let Some(disturbance) = result.disturbance().filter(|_| !io::stdout().is_terminal()) {
        say(disturbance);
    }
    let path = folder.path().display();
    written.map_err(|error| {
        format!("{error}; the results are shown above and not stored, the samples are in {path}/samples.csv")
    })?;
    shown.map_err(|error| format!("{error}; the results are in {path}"))?;
    reported.map_err(|error| format!("{error}; the results are shown above and stored in {path}"))?;
    match halt {
        Some(halt) => Err(format!("{halt}; the results so far are shown above and stored in {path}").into()),
        None if !is_measured => {
            Err(format!("nothing could be measured; the reasons are shown above and stored in {path}").into())
        }
        None => {
            say(format_args!("results: {path}, report: {}", folder.report().display()));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Shows a run's progress on the terminal and to its watchers.
struct Display<'a> {
    publisher: &'a LivePublisher,
    progress: Progress,
}

impl Observer for Display<'_> {
    fn on_stage(&mut self, stage: Stage) {
        self.publisher.on_stage(stage);
        self.progress.on_stage(stage);
    }

    fn on_event(&mut self, event: &Event<'_>) {
        self.publisher.on_event(event);
        self.progress.on_event(event);
    }
}

/// The command line, quoted for a shell.
pub(super) fn command_line() -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:@%+".contains(c);
    let quoted = |word: String| {
        let plain = !word.is_empty() && word.chars().all(is_plain);
        if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("haul".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

impl JsonOutput {
    /// Where the JSON goes, if anywhere.
    pub(super) fn path(&self) -> Option<&Path> {
        self.json.as_deref()
    }

    /// The file for the JSON, unless that is standard output.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.json.as_ref().filter(|json| json.as_path() != Path::new("-"))
    }
}
