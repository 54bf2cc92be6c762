//! The `haul` program: the command line, and nothing else.

mod lab;
mod link;
mod serve;

use std::error::Error;
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
        Command::Race(options) => lab::conduct("webdav-race", &options),
        Command::Lab(command) => lab::run(command),
        Command::Link(args) => link::run(&args),
        Command::Serve(args) => serve::run(args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("haul: {error}");
        ExitCode::FAILURE
    })
}
