//! `haul ls`: what is in a folder.
//!
//! One request lists a folder. For a tree, folders are listed many at a time, so that it costs as many round trips as
//! it is deep; in one request (`Depth: infinity`) most servers refuse it.

use std::{error::Error, fmt::Write, time::SystemTime};

use console::Term;
use dav::{Dav, ETag, Entry, Properties, RemotePath, Wanted};
use futures_util::{StreamExt, stream::FuturesUnordered};
use serde::{Serialize, Serializer};

use super::{Outcome, named::Named, report::Report, session::Session, show};

/// Listings under way at once. More would wait in a queue of the engine's or the server's.
const AT_ONCE: usize = 64;

/// List a folder on a server, as ls(1) does
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
    /// One line each, with length and time
    #[arg(short, long)]
    long: bool,
    /// Folders with all that is below them
    #[arg(short = 'R', long)]
    recursive: bool,
}

#[derive(Serialize)]
struct Found<'a> {
    entries: Lines<'a>,
}

/// An entry, for a program.
#[derive(Serialize)]
pub(super) struct Line {
    url: String,
    path: String,
    name: String,
    kind: &'static str,
    bytes: Option<u64>,
    modified: Option<String>,
    etag: Option<String>,
}

impl Line {
    pub(super) fn of(session: &Session, entry: &Row) -> Self {
        let folder = entry.path.is_folder();
        Self {
            url: session.url(&entry.path),
            path: entry.path.to_string(),
            name: entry.path.name().map(String::from_utf8_lossy).unwrap_or_default().into_owned(),
            kind: if folder { "folder" } else { "file" },
            bytes: entry.length.filter(|_| !folder),
            modified: entry.modified.map(show::rfc3339),
            etag: entry.etag.as_ref().map(ToString::to_string),
        }
    }
}

/// What is kept of an entry: there may be very many.
pub(super) struct Row {
    path: RemotePath,
    length: Option<u64>,
    modified: Option<SystemTime>,
    etag: Option<ETag>,
}

impl Row {
    pub(super) fn of(entry: &Entry) -> Self {
        let Properties { length, modified, etag, .. } = &entry.properties;
        Self { path: entry.path.clone(), length: *length, modified: *modified, etag: etag.clone() }
    }
}

/// Entries for a program, made one by one.
struct Lines<'a>(&'a Session, Vec<Row>);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.1.iter().map(|row| Line::of(self.0, row)))
    }
}

/// A folder, or a file that was asked for, and what the server says is there.
struct Listing {
    asked: RemotePath,
    entries: Vec<Row>,
    misplaced: Vec<dav::PathError>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, asked, mut report) = args.named.open("ls").await?;
    let headed = args.recursive || asked.len() > 1;
    let (mut rows, mut first) = (Vec::new(), true);
    // A lone folder's entries need no order but their own, a tree's folders stand in the order of their names.
    for listing in list(&session.dav, asked, args.recursive, &mut report).await {
        let Listing { asked, entries, misplaced } = listing;
        for why in misplaced {
            report.fail(&asked, why);
        }
        if !report.owns_stdout() {
            let is_folder = asked.is_folder();
            let text = if args.long { long(&entries) } else { short(&entries) };
            let head = if headed && is_folder { format!("{asked}:\n") } else { String::new() };
            let gap = if headed && !first { "\n" } else { "" };
            report.print(&format!("{gap}{head}{text}"))?;
        }
        first = false;
        if args.named.way.json.is_some() {
            rows.extend(entries);
        }
    }
    report.finish(Found { entries: Lines(&session, rows) })
}

/// Lists all of these, and what is below if asked to, in the order of their names.
async fn list(dav: &Dav, asked: Vec<RemotePath>, recursive: bool, report: &mut Report) -> Vec<Listing> {
    let mut waiting = asked;
    waiting.reverse();
    let (mut under_way, mut found) = (FuturesUnordered::new(), Vec::new());
    loop {
        while under_way.len() < AT_ONCE
            && let Some(path) = waiting.pop()
        {
            under_way.push(one(dav, path));
        }
        match under_way.next().await {
            None => break,
            Some(Err((path, error))) => report.fail(path, error),
            Some(Ok(listing)) => {
                if recursive {
                    let below = listing.entries.iter().map(|entry| &entry.path);
                    let below = below.filter(|path| path.is_folder() && !path.same_place(&listing.asked));
                    waiting.extend(below.cloned());
                }
                found.push(listing);
            }
        }
    }
    found.sort_by(|a, b| a.asked.segments().cmp(b.asked.segments()));
    found
}

/// Lists a folder, or a file.
async fn one(dav: &Dav, asked: RemotePath) -> Result<Listing, (RemotePath, dav::Error)> {
    let (mut entries, mut misplaced, mut is_folder) = (Vec::new(), Vec::new(), false);
    let listed = dav.list(&asked, dav::Depth::One, Wanted::LISTING, |entry| match entry {
        Ok(entry) if entry.path.same_place(&asked) && entry.path.is_folder() => is_folder = true,
        Ok(entry) => entries.push(Row::of(&entry)),
        Err(why) => misplaced.push(why),
    });
    if let Err(error) = listed.await {
        return Err((asked, error));
    }
    entries.sort_by(|a, b| a.path.name().cmp(&b.path.name()));
    let asked = asked.as_folder(is_folder);
    Ok(Listing { asked, entries, misplaced })
}

/// The name, with a `/` behind a folder's.
fn name(entry: &Row) -> String {
    let name = show::name(entry.path.name().unwrap_or(b"/"));
    if entry.path.is_folder() { name + "/" } else { name }
}

/// In columns on a terminal, a line each elsewhere.
fn short(entries: &[Row]) -> String {
    let names: Vec<String> = entries.iter().map(name).collect();
    let terminal = Term::stdout();
    let width = if terminal.is_term() { usize::from(terminal.size().1) } else { 0 };
    show::columns(&names, width)
}

fn long(entries: &[Row]) -> String {
    let length = |entry: &Row| match entry.length {
        Some(bytes) if !entry.path.is_folder() => bytes.to_string(),
        _ => "-".to_owned(),
    };
    let widest = entries.iter().map(|entry| length(entry).len()).max().unwrap_or_default();
    let mut text = String::new();
    for entry in entries {
        let time = entry.modified.map_or_else(|| "-".to_owned(), show::minute);
        let _ = writeln!(text, "{:>widest$}  {time:16}  {}", length(entry), name(entry));
    }
    text
}

/// What is at a path, or an error that says that there is nothing.
pub(super) async fn look(session: &Session, path: &RemotePath, wanted: Wanted) -> Result<Entry, Box<dyn Error>> {
    match session.dav.stat(path, wanted).await? {
        Some(entry) => Ok(entry),
        None => Err(format!("{path}: there is nothing of this name at {}", session.dav.requests().origin()).into()),
    }
}
