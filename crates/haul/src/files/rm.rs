//! `haul rm`: delete files and folders.
//!
//! On a server a single request deletes a folder with everything in it. So the command looks up every name first, all in
//! one round trip: a typing error should not be expensive.

use dav::{Entry, If, Precondition, PropertySet, RemotePath};
use futures_util::{StreamExt, future::join_all, stream};
use serde::Serialize;

use crate::files::{Outcome, options::urls::UrlArgs, say_checked, session::Session};

/// Delete files on a server, and with -r folders
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Delete folders with everything in them
    #[arg(short, long)]
    recursive: bool,
    /// Ignore missing files
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Done {
    deleted: Vec<String>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, paths, mut report) = args.named.open("rm").await?;
    let looks = paths.iter().map(|path| session.dav.stat(path, PropertySet::LISTING));
    let (looks, mut targets) = (join_all(looks).await, Vec::new());
    for (path, found) in paths.iter().zip(looks) {
        match found {
            Ok(Some(entry)) => match fit(&entry, args.recursive) {
                Ok(()) => targets.push(path.clone().as_folder(entry.path.is_folder())),
                Err(why) => report.fail(path, format_args!("{path}: {why}")),
            },
            Ok(None) if args.force => {}
            Ok(None) => report.fail(path, format_args!("{path}: not found")),
            Err(error) => report.fail(path, error),
        }
    }
    let deletions = targets.into_iter().map(|path| delete(&session, path));
    let mut deletions = stream::iter(deletions).buffered(session.settings.client.connections);
    let mut deleted = Vec::new();
    while let Some((path, result)) = deletions.next().await {
        match result {
            Err(error) if !(args.force && error.is(404)) => report.fail(path, error),
            Ok(done) => {
                say_checked(done, format_args!("{path}: deleted"));
                deleted.push(path.decoded());
            }
            Err(_) => deleted.push(path.decoded()),
        }
    }
    drop(deletions);
    report.finish(Done { deleted })
}

/// Checks whether an entry may be deleted.
fn fit(entry: &Entry, recursive: bool) -> Result<(), &'static str> {
    match entry.path.is_folder() {
        true if entry.path.name().is_none() => Err("is the server's root; name the folders in it instead"),
        true if !recursive => Err("is a folder; add -r to delete it with everything in it"),
        _ => Ok(()),
    }
}

async fn delete(session: &Session, path: RemotePath) -> (RemotePath, Result<dav::Confirmed, dav::Error>) {
    let result = session.dav.delete(&path, &Precondition::None, &If::default()).await;
    (path, result)
}
