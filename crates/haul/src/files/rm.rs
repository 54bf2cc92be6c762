//! `haul rm`: delete files and folders.
//!
//! On a server a single request deletes a folder with everything in it. So the command looks up every name first, all in
//! one round trip: a typing error should not be expensive. What wildcards match is shown first on a terminal, with a
//! question.

use dav::{Entry, If, Precondition, PropertySet, RemotePath};
use futures_util::{StreamExt, future::join_all, stream};
use serde::Serialize;

use crate::files::{
    Outcome,
    options::{DryRun, urls::UrlArgs},
    results::Results,
    results::format,
    say_checked,
    session::{Session, prompt},
};
use crate::say;

/// How many names are shown before a question.
const SHOWN: usize = 10;

/// Delete files on a server, and with -r folders
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Delete folders with everything in them
    #[arg(short, long)]
    recursive: bool,
    /// Ignore missing files, and do not ask before deleting what wildcards match
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Done {
    deleted: Vec<String>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, selected, mut report) = args.named.select("rm").await?;
    let looks = join_all(selected.iter().map(async |found| match &found.entry {
        Some(entry) => Ok(Some(entry.clone())),
        None => session.dav.stat(&found.path, PropertySet::LISTING).await,
    }));
    let (looks, mut targets) = (looks.await, Vec::new());
    for (path, found) in selected.iter().map(|found| &found.path).zip(looks) {
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
    if args.dry_run.dry_run {
        let lines: Vec<String> = targets.iter().map(|path| format!("delete {path}\n")).collect();
        report.print(&lines.concat())?;
        return report.finish(Done { deleted: targets.iter().map(RemotePath::decoded).collect() });
    }
    let is_matched = selected.iter().any(|found| found.entry.is_some());
    if is_matched && !args.force && !targets.is_empty() && !is_wanted(&targets, &mut report).await? {
        say("nothing was deleted");
        return report.finish(Done { deleted: Vec::new() });
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

/// Asks whether to delete what wildcards match, if somebody is there to answer.
async fn is_wanted(targets: &[RemotePath], report: &mut Results) -> std::io::Result<bool> {
    if !prompt::possible() {
        return Ok(true);
    }
    report.print_failures();
    for path in targets.iter().take(SHOWN) {
        say(path);
    }
    if targets.len() > SHOWN {
        say(format_args!("… and {} more (-n lists all)", targets.len() - SHOWN));
    }
    let folders = targets.iter().filter(|path| path.is_folder()).count() as u64;
    let files = targets.len() as u64 - folders;
    let with = match folders {
        0 => String::new(),
        _ => format!(" and {} with everything in them", format::count(folders, "folder")),
    };
    let answer = prompt::ask(&format!("Delete {}{with}? [y/N] ", format::count(files, "file"))).await?;
    Ok(matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"))
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
