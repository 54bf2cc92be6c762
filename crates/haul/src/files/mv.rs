//! `haul mv`: rename and move on a server.

use serde::Serialize;

use super::{
    Outcome,
    on_server::{Carried, Verb, carry},
    options::{Manner, Way},
    place::{one_server, remotes},
    report::Report,
    session::Session,
};
use crate::usage;

/// Rename a file or folder on its server, or move several into a folder
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What is moved, and last where to
    #[arg(value_name = "URL", required = true, num_args = 2..)]
    urls: Vec<String>,
    #[command(flatten)]
    way: Way,
}

#[derive(Serialize)]
struct Done {
    moved: Vec<Carried>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let urls = remotes(&args.urls)?;
    let one = one_server(&urls)?;
    let Some((to, sources)) = urls.split_last() else { return Err(usage("name what is moved, and where to")) };
    let session = Session::open(one, &args.way, &Manner::default()).await?;
    let mut report = Report::new("mv", args.way.json.as_deref());
    let sources: Vec<_> = sources.iter().map(|source| source.path.clone()).collect();
    let moved = carry(&session, Verb::Move, &sources, &to.path, true, &mut report).await;
    report.finish(Done { moved })
}
