//! `haul link --compare A --compare B`: commands timed in turn on one link.
//!
//! The link and the server stay for the whole comparison. The commands take turns, and each round begins with another one,
//! so that a slow minute of the machine meets all of them. Linux keeps what it learnt of a path for later connections
//! (`tcp_metrics`), which would favour whoever comes second: that is off.

use std::{
    error::Error,
    fs,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::{
    command_times::{CommandComparison, CommandRun, CommandTimes},
    table::{render_commands, render_commands_as_markdown},
};
use link::{host::Host, sandbox::Sandbox};

use super::session::{NOT_EXECUTABLE, NOT_FOUND};

/// The number of runs of each command.
const RUNS: u32 = 10;

/// The number of runs of each command to warm up.
const WARMUP: u32 = 1;

/// The end of a command's standard error that is searched for a message, in bytes.
const MAX_SAID: u64 = 4096;

/// The setting that keeps a host from remembering what its connections learnt of the path.
pub(super) const NO_METRICS: (&str, &str) = ("net.ipv4.tcp_no_metrics_save", "1");

/// The options of a comparison.
#[derive(clap::Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct CompareOptions {
    /// Command to compare on the client host, run by sh; give it for each command, in place of one after `--`
    #[arg(id = "compare", long = "compare", value_name = "CMD", conflicts_with_all = ["command", "at"])]
    commands: Vec<String>,

    /// Number of runs of each command [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,

    /// Number of unmeasured runs of each command at the start [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=10_000))]
    warmup: Option<u32>,

    /// Also write the comparison as a Markdown table to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    export_markdown: Option<PathBuf>,

    /// Also write every run as CSV to FILE; `-` is standard output
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

impl CompareOptions {
    /// Whether there is something to compare. One command alone is a usage error, and so is an option without commands:
    /// clap requires no `--compare` beside a command that excludes it.
    pub(crate) fn is_given(&self) -> Result<bool, Box<dyn Error>> {
        let Self { commands, runs, warmup, export_markdown, csv } = self;
        let has_options = runs.is_some() || warmup.is_some() || export_markdown.is_some() || csv.is_some();
        match commands.len() {
            0 if has_options => {
                Err(crate::usage("--runs, --warmup, --export-markdown and --csv belong to --compare; add its commands"))
            }
            1 => Err(crate::usage("--compare needs at least two commands: --compare 'CMD' --compare 'CMD'")),
            count => Ok(count > 1),
        }
    }

    /// Refuses files that cannot be written, before anything is measured.
    pub(crate) fn check_files(&self, json: Option<&Path>) -> Result<(), Box<dyn Error>> {
        for path in [self.export_markdown.as_deref(), self.csv.as_deref(), json].into_iter().flatten() {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
                let why = if path.is_dir() { "it is a folder" } else { "its folder does not exist" };
                return Err(format!("cannot write {}: {why}", path.display()).into());
            }
        }
        Ok(())
    }
}

/// Commands to compare at the end of a link.
pub(crate) struct Compare<'a> {
    pub(crate) options: &'a CompareOptions,
    pub(crate) json: Option<&'a Path>,
    /// The link, for people.
    pub(crate) link: String,
}

impl Compare<'_> {
    /// Runs the commands on `host` and prints the comparison. Returns the exit status: 1 if a run failed.
    pub(super) fn run(
        &self,
        host: &Host,
        sandbox: &Sandbox,
        equip: impl Fn(&mut Command),
    ) -> Result<i32, Box<dyn Error>> {
        let (runs, warmup) = (self.options.runs.unwrap_or(RUNS), self.options.warmup.unwrap_or(WARMUP));
        let commands = &self.options.commands;
        let mut times: Vec<CommandTimes> = commands
            .iter()
            .map(|command| CommandTimes { command: command.clone(), ..CommandTimes::default() })
            .collect();
        let runner = Runner { host, sandbox, equip, said: sandbox.scratch().join("stderr") };
        let progress = progress(u64::from(runs + warmup) * commands.len() as u64);
        let mut interrupted = None;
        'rounds: for round in 0..runs + warmup {
            for turn in 0..commands.len() {
                let index = (turn + round as usize) % commands.len();
                progress.set_message(commands[index].clone());
                let run = runner.run(&commands[index])?;
                if let Some(signal) = sandbox.termination_signal() {
                    interrupted = Some(signal);
                    break 'rounds;
                }
                progress.inc(1);
                if run.exit_status != 0 && times[index].failures() == 0 && (round == 0 || round >= warmup) {
                    let said = runner.last_line().map_or_else(String::new, |line| format!(": {line}"));
                    let status = run.exit_status;
                    progress.suspend(|| {
                        crate::say(format_args!("`{}` failed (exit status {status}){said}", commands[index]));
                    });
                }
                if matches!(run.exit_status, NOT_FOUND | NOT_EXECUTABLE) {
                    progress.finish_and_clear();
                    return Ok(run.exit_status);
                }
                if round >= warmup {
                    times[index].runs.push(run);
                }
            }
        }
        progress.finish_and_clear();
        let has_failed = times.iter().any(|command| command.failures() > 0);
        let comparison = CommandComparison { link: self.link.clone(), warmup, commands: times };
        if let Some(signal) = interrupted {
            let done: usize = comparison.commands.iter().map(|command| command.runs.len()).sum();
            crate::say(format_args!("stopped after {done} of {} runs", runs as usize * commands.len()));
            return Ok(128 + signal);
        }
        self.publish(&comparison)?;
        Ok(i32::from(has_failed))
    }

    /// Prints the table, unless a file goes to standard output, and writes the files.
    fn publish(&self, comparison: &CommandComparison) -> Result<(), Box<dyn Error>> {
        let CompareOptions { export_markdown, csv, .. } = self.options;
        let json = || -> io::Result<Vec<u8>> { Ok(format!("{:#}\n", comparison.json()).into_bytes()) };
        let markdown = || Ok(render_commands_as_markdown(comparison).into_bytes());
        let rows = || comparison.csv();
        let files: [(_, Content<'_>); 3] =
            [(export_markdown.as_deref(), &markdown), (csv.as_deref(), &rows), (self.json, &json)];
        if files.iter().all(|(path, _)| *path != Some(Path::new("-"))) {
            crate::print(render_commands(comparison, crate::lab::look()).as_bytes())?;
        }
        for (path, content) in files {
            let Some(path) = path else { continue };
            let written = content().and_then(|content| output::write(path, |to| to.write_all(&content)));
            written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// What makes the content of a file.
type Content<'a> = &'a dyn Fn() -> io::Result<Vec<u8>>;

/// What runs a command once.
struct Runner<'a, F> {
    host: &'a Host,
    sandbox: &'a Sandbox,
    equip: F,
    /// The file for its standard error.
    said: PathBuf,
}

impl<F: Fn(&mut Command)> Runner<'_, F> {
    fn run(&self, text: &str) -> Result<CommandRun, Box<dyn Error>> {
        let mut command = Command::new("sh");
        command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&self.said)?);
        (self.equip)(&mut command);
        self.host.attach(&mut command);
        let start = Instant::now();
        let child = command.spawn().map_err(|error| format!("cannot run sh: {error}"))?;
        let exit_status = self.sandbox.wait_for(&child);
        Ok(CommandRun { seconds: start.elapsed().as_secs_f64(), exit_status })
    }

    /// The last line that the command wrote to standard error.
    fn last_line(&self) -> Option<String> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = fs::File::open(&self.said).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_SAID))).ok()?;
        let mut text = Vec::new();
        file.take(MAX_SAID).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }
}

/// A bar on a terminal; nothing elsewhere.
fn progress(runs: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
    let style = "{bar:20} {pos}/{len} runs, about {eta} left  {wide_msg}";
    bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}
