//! `haul mkdir`: create folders.

use std::error::Error;

use dav::{Confirmed, Dav, RemotePath};
use serde::Serialize;

use crate::files::{Outcome, options::urls::UrlArgs, say_checked};

/// Create folders on a server
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Create missing parent folders, and ignore existing ones
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Done {
    made: Vec<String>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, paths, mut report) = args.named.open("mkdir").await?;
    let mut made = Vec::new();
    for path in paths {
        let path = path.as_folder(true);
        if let Err(error) = make(&session.dav, &path, args.parents, &mut made).await {
            report.fail(&path, error);
        }
    }
    report.finish(Done { made: made.iter().map(RemotePath::decoded).collect() })
}

/// Creates a folder. Tries the folder itself first: usually only that is missing, and it takes one round trip.
async fn make(dav: &Dav, path: &RemotePath, parents: bool, made: &mut Vec<RemotePath>) -> Result<(), Box<dyn Error>> {
    let mut next = path.clone();
    let mut missing = Vec::new();
    let new = loop {
        match dav.mkcol(&next).await {
            Ok(new) => break new,
            // 409: the parent is missing (RFC 4918 §9.3.1); some servers answer 404.
            Err(error) if parents && (error.is(409) || error.is(404)) => match next.parent() {
                Some(parent) if parent.name().is_some() => missing.push(std::mem::replace(&mut next, parent)),
                _ => return Err(error.into()),
            },
            Err(error) if !parents && error.is(409) => {
                return Err(format!("{path}: the parent folder does not exist (409); add -p to create it too").into());
            }
            Err(error) => return Err(error.into()),
        }
    };
    if new.is_none() && !parents {
        return Err(format!("{path}: exists already").into());
    }
    let mut keep = |path: RemotePath, done: Confirmed| {
        say_checked(done, format_args!("{path}: created"));
        made.push(path);
    };
    if let Some(done) = new {
        keep(next, done);
    }
    while let Some(next) = missing.pop() {
        if let Some(done) = dav.mkcol(&next).await? {
            keep(next, done);
        }
    }
    Ok(())
}
