//! `haul probe`: what a server and a path offer, and what Longhaul makes of it.
use super::{Outcome, options::Way, place::remote};

/// Find out what a server offers, and how Longhaul will use it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A folder on the server, or a file
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    way: Way,
}
pub(super) async fn run(args: Args) -> Outcome {
    Ok(std::process::ExitCode::SUCCESS)
}
