//! The `haul` program: the command line, and nothing else.

mod lab;
mod link;
mod serve;

use std::error::Error;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// HTTP and WebDAV over long links: measure it, explain it, make it fast.
#[derive(Parser)]
#[command(name = "haul", version)]
struct Haul {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Race WebDAV clients over emulated links: the experiment webdav-race
    Race(Box<lab::RunOptions>),
    #[command(subcommand)]
    Lab(lab::Command),
    Link(Box<link::Args>),
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let done: Result<ExitCode, Box<dyn Error>> = match Haul::parse().command {
        Command::Race(options) => lab::race(&options),
        Command::Lab(command) => lab::run(command),
        Command::Link(args) => link::run(&args),
        Command::Serve(args) => serve::run(args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| match error.downcast::<clap::Error>() {
        Ok(wrong_usage) => wrong_usage.exit(),
        Err(error) => {
            say(error);
            ExitCode::FAILURE
        }
    })
}

/// Says something to the person before the terminal. Where that is gone there is nobody to say it to,
/// and what is being done matters more.
fn say(what: impl Display) {
    let _ = writeln!(io::stderr(), "haul: {what}");
}
