//! The `haul` program: the command line, and nothing else.

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
    Serve(serve::Args),
}

fn main() -> ExitCode {
    let done: Result<(), Box<dyn Error>> = match Haul::parse().command {
        Command::Serve(args) => serve::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("haul: {error}");
            ExitCode::FAILURE
        }
    }
}
