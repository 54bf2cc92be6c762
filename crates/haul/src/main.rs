//! The `haul` program: the command line, and nothing else.

mod explain;
mod files;
mod gateway;
mod lab;
mod link;
mod listening;
mod manual;
mod page;
mod parent;
mod serve;

use std::{
    error::Error,
    ffi::OsString,
    fmt::Display,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};

use ::units::Span;
use clap::{FromArgMatches, Parser, Subcommand, error::ErrorKind};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// What is logged unless `HAUL_LOG` says otherwise.
/// (The crate fuser warns of every operation that a mount does not have.)
const LOG: &str = "warn,fuser=error";

/// HTTP and WebDAV over long links: measure it, explain it, make it fast.
#[derive(Parser)]
#[command(name = "haul", version)]
struct Haul {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Race WebDAV clients over emulated links (experiment webdav-race)
    Race(Box<lab::RunOptions>),
    #[command(subcommand)]
    Lab(lab::Command),
    /// Write a run's report: one HTML file
    Report(lab::ReportArgs),
    Link(Box<link::Args>),
    Explain(Box<explain::Args>),
    #[command(subcommand)]
    Page(page::Command),
    #[command(flatten)]
    Files(files::Command),
    Serve(serve::Args),
    Gateway(Box<gateway::Args>),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// Into this folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Write the book's command pages instead
        #[arg(long, hide = true)]
        markdown: bool,
    },
}

fn main() -> ExitCode {
    parent::end_with_parent();
    let asked = std::env::var("HAUL_LOG").unwrap_or_default();
    let filter = if asked.is_empty() { LOG } else { &asked }.parse().unwrap_or_else(|error| {
        say(format_args!("HAUL_LOG={asked} is not understood ({error}), so it is as if it were {LOG}"));
        LOG.parse::<Targets>().unwrap_or_default()
    });
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry().with(filter).with(lines).init();
    let arguments = match files::mount_helper_arguments(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(why) => {
            say(why);
            return ExitCode::FAILURE;
        }
    };
    let done: Result<ExitCode, Box<dyn Error>> = match parse(arguments).command {
        Command::Race(options) => lab::race(&options),
        Command::Lab(command) => lab::run(command),
        Command::Report(args) => lab::report(&args),
        Command::Link(args) => link::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Page(command) => page::run(command),
        Command::Files(command) => files::run(command),
        Command::Serve(args) => serve::run(args).map(|()| ExitCode::SUCCESS),
        Command::Gateway(args) => gateway::run(*args),
        Command::Completions { shell } => manual::completions(shell).map(|()| ExitCode::SUCCESS),
        Command::Man { folder, markdown: false } => manual::man_pages(&folder).map(|()| ExitCode::SUCCESS),
        Command::Man { folder, markdown: true } => manual::command_pages(&folder).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| match error.downcast::<clap::Error>() {
        Ok(wrong_usage) => wrong_usage.exit(),
        Err(error) => {
            say(error);
            ExitCode::FAILURE
        }
    })
}

fn parse(arguments: Vec<OsString>) -> Haul {
    Haul::from_arg_matches(&manual::command().get_matches_from(arguments)).unwrap_or_else(|error| error.exit())
}

/// A usage error for options that contradict each other, in the form and with the exit status of clap's own.
fn usage(error: impl Display) -> Box<dyn Error> {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n")).into()
}

/// Parses a timeout, which must not be zero.
fn timeout(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if span.0.is_zero() { Err("nothing happens in no time: write a time like 30s".into()) } else { Ok(span) }
}

/// The columns to print in: `COLUMNS`, else the terminal's, else 80.
fn columns() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    let terminal = || console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    asked.or_else(terminal).unwrap_or(80)
}

/// Prints to standard output; a reader that has gone (`| head`) is no error.
fn print(text: &[u8]) -> Result<(), Box<dyn Error>> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| format!("cannot print the results: {error}").into()),
    }
}

/// Prints a message to standard error; a failure to do so is ignored. Control characters, as in file names and server
/// messages, are escaped.
fn say(what: impl Display) {
    let text = what.to_string();
    let lines: Vec<String> = text.split('\n').map(|line| dav::terminal_safe(line.as_bytes()).to_string()).collect();
    let _ = writeln!(io::stderr(), "haul: {}", lines.join("\n"));
}
