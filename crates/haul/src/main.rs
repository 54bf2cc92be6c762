//! The `haul` program: the command line, and nothing else.

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
    Link(Box<link::Args>),
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let done: Result<ExitCode, Box<dyn Error>> = match Haul::parse().command {
        Command::Link(args) => link::run(&args),
        Command::Serve(args) => serve::run(args).map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| {
        eprintln!("haul: {error}");
        ExitCode::FAILURE
    })
}
