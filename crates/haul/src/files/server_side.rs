//! Server-side copy and rename, with COPY and MOVE: no file content crosses the network.
//!
//! A COPY or MOVE with `Overwrite: T` replaces whatever is at the target, even a folder with everything in it (RFC 4918
//! §9.8.4). So the first request has `Overwrite: F`. Only if the server reports a conflict the target is looked up: a file
//! replaces a file, as with cp(1) and mv(1), and nothing else is replaced. An `If` header with the target's strong entity
//! tag (RFC 4918 §10.4) protects files that others create meanwhile. The extra round trip occurs only on conflict.

use std::{collections::HashSet, fmt, time::Instant};

use dav::{Confirmed, Dav, Entry, If, PropertySet, RemotePath};
use futures_util::{StreamExt, future::join, future::join_all, stream};
use serde::Serialize;

use crate::{
    files::{
        options::output::{Level, OutputOptions},
        results::{Results, format},
        say_checked,
        session::{Session, selection::Selected},
    },
    say,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Copy { recursive: bool, dry_run: bool },
    Move { dry_run: bool },
}

/// A file copied or moved, for programs.
#[derive(Serialize)]
pub(super) struct Relocated {
    from: String,
    to: String,
}

impl Relocated {
    fn of((from, to): (RemotePath, RemotePath)) -> Self {
        Self { from: from.decoded(), to: to.decoded() }
    }
}

/// Copies or moves `sources` into the folder `to`, or one source to that name.
pub(super) async fn relocate(
    session: &Session,
    verb: Verb,
    sources: Vec<Selected>,
    to: &RemotePath,
    report: &mut Results,
    output: &OutputOptions,
) -> Vec<Relocated> {
    let (dav, begin) = (&session.dav, Instant::now());
    let (recursive, dry_run, done) = match verb {
        Verb::Copy { recursive, dry_run } => (recursive, dry_run, "copied"),
        Verb::Move { dry_run } => (true, dry_run, "moved"),
    };
    let looks = join_all(sources.iter().map(async |source| match &source.entry {
        Some(entry) => Ok(Some(entry.clone())),
        None => dav.stat(&source.path, PropertySet::LISTING).await,
    }));
    let (found, target) = join(looks, dav.stat(to, PropertySet::LISTING)).await;
    let folder = match target {
        Ok(target) => target.is_some_and(|entry| entry.path.is_folder()),
        Err(error) => {
            report.fail(to, error);
            return Vec::new();
        }
    };
    if !folder && sources.len() > 1 {
        report.fail(to, format_args!("{to}: not found; several sources need an existing folder as the target"));
        return Vec::new();
    }
    let (mut steps, mut names) = (Vec::new(), HashSet::new());
    for (Selected { path: source, .. }, found) in sources.iter().zip(found) {
        match found.map_err(|error| error.to_string()).and_then(|found| step(source, found, to, folder, recursive)) {
            Ok((_, to)) if !names.insert(to.clone().as_folder(false)) => {
                report.fail(
                    source,
                    format_args!("{source}: another source is copied to {to} already; choose another name"),
                );
            }
            Ok(step) => steps.push(step),
            Err(why) => report.fail(source, why),
        }
    }
    if dry_run {
        let what = if matches!(verb, Verb::Copy { .. }) { "copy" } else { "move" };
        let lines: Vec<String> = steps.iter().map(|(from, to)| format!("{what} {from} to {to}\n")).collect();
        // A closed pipe is no error.
        let _ = report.print(&lines.concat());
        if output.level() > Level::Always {
            say(format_args!("{} would be {done}", counted(&steps)));
        }
        return steps.into_iter().map(Relocated::of).collect();
    }
    let results = steps.into_iter().map(|(from, to)| async move {
        let result = once(dav, verb, &from, &to).await;
        (from, to, result)
    });
    let mut results = stream::iter(results).buffered(session.settings.client.connections);
    let mut carried = Vec::new();
    while let Some((from, to, result)) = results.next().await {
        match result {
            Ok(known) => {
                say_checked(known, format_args!("{from}: {done} to {to}"));
                carried.push((from, to));
            }
            Err(why) => report.fail(from, why),
        }
    }
    drop(results);
    report.print_failures();
    if output.level() > Level::Always && !carried.is_empty() {
        let failed = sources.len() - carried.len();
        let failed = if failed > 0 { format!("; {failed} failed") } else { String::new() };
        say(format_args!("{} {done} on the server in {}{failed}", counted(&carried), format::took(begin.elapsed())));
    }
    carried.into_iter().map(Relocated::of).collect()
}

/// How many files and folders these are.
fn counted(steps: &[(RemotePath, RemotePath)]) -> String {
    let folders = steps.iter().filter(|(from, _)| from.is_folder()).count();
    let counts = [(steps.len() - folders, "file"), (folders, "folder")];
    let counts = counts.into_iter().filter(|(number, _)| *number > 0 || steps.is_empty());
    counts.map(|(number, noun)| format::count(number as u64, noun)).collect::<Vec<_>>().join(" and ")
}

/// Source and target of one copy or move.
fn step(
    source: &RemotePath,
    found: Option<Entry>,
    to: &RemotePath,
    folder: bool,
    recursive: bool,
) -> Result<(RemotePath, RemotePath), String> {
    let Some(found) = found else { return Err(format!("{source}: not found")) };
    let is_folder = found.path.is_folder();
    if is_folder && !recursive {
        return Err(format!("{source}: is a folder; add -r to copy it with everything in it"));
    }
    if !is_folder && !folder && to.is_folder() {
        return Err(format!("{to}: not found"));
    }
    let from = source.clone().as_folder(is_folder);
    let to = match source.name() {
        None => return Err(format!("{source}: is the server's root and cannot be copied or moved")),
        Some(name) if folder => to.join(name, is_folder).map_err(|error| error.to_string())?,
        Some(_) => to.clone().as_folder(is_folder),
    };
    if to.same_place(&from) {
        return Err(format!("{from}: source and target are the same"));
    }
    if is_folder && to.relative_to(&from).is_some() {
        return Err(format!("{from}: the target {to} is inside the source"));
    }
    Ok((from, to))
}

/// Why a copy or move failed.
enum Stop {
    Failed(dav::Error),
    InTheWay(RemotePath, &'static str),
}

impl From<dav::Error> for Stop {
    fn from(error: dav::Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::InTheWay(path, what) => {
                write!(f, "{path}: {what} exists already; choose another name")
            }
        }
    }
}

async fn once(dav: &Dav, verb: Verb, from: &RemotePath, to: &RemotePath) -> Result<Confirmed, Stop> {
    let send = async |overwrite, claims: &If| match verb {
        Verb::Copy { .. } => dav.copy(from, to, overwrite, claims).await,
        Verb::Move { .. } => dav.rename(from, to, overwrite, claims).await,
    };
    let none = If::default();
    match send(false, &none).await {
        Err(error) if error.is(412) => {}
        other => return Ok(other?),
    }
    match dav.stat(to, PropertySet::LISTING).await? {
        Some(there) if there.path.is_folder() => Err(Stop::InTheWay(to.clone(), "a folder")),
        Some(_) if from.is_folder() => Err(Stop::InTheWay(to.clone(), "a file")),
        Some(there) => {
            let Some(tag) = there.properties.etag else { return Ok(send(true, &none).await?) };
            match send(true, &dav.claim_unchanged(&none, to, &tag)).await {
                // Some servers answer 412 to every `If` with an entity tag.
                Err(error) if error.is(412) && dav.is_still(to, &tag).await => Ok(send(true, &none).await?),
                other => Ok(other?),
            }
        }
        None => Ok(send(true, &none).await?),
    }
}
