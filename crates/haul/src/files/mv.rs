//! `haul mv`: rename and move files on a server.

use serde::Serialize;

use crate::files::{
    Outcome,
    options::urls::UrlArgs,
    server_side::{Relocated, Verb, relocate},
};
use crate::usage;

/// Rename a file or folder on a server, or move several into a folder
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Done {
    moved: Vec<Relocated>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, paths, mut report) = args.named.open("mv").await?;
    let Some((to, sources @ [_, ..])) = paths.split_last() else {
        return Err(usage("give at least one source, and the target last"));
    };
    let moved = relocate(&session, Verb::Move, sources, to, true, &mut report).await;
    report.finish(Done { moved })
}
