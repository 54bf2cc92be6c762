//! `haul ls`: list folders.
//!
//! One request lists a folder. A tree is listed with many requests in flight, which takes as many round trips as the tree
//! is deep; most servers refuse it in one request (`Depth: infinity`).
//!
//! Sorting needs all names of a folder in memory. `--unsorted` prints each entry as it arrives and keeps none, for folders
//! of millions of files.

use std::{cmp::Ordering, collections::BTreeMap, error::Error, time::SystemTime};

use console::Term;
use dav::{Dav, ETag, Entry, Properties, PropertySet, RemotePath, transfer::is_temporary};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use serde::{Serialize, Serializer};

use crate::files::{
    Outcome,
    options::{sizes::SizeFormat, urls::UrlArgs},
    results::Results,
    results::format,
    session::{Session, selection::Selected},
};

/// Maximum number of listings in flight. More would only wait in a queue.
const AT_ONCE: usize = 64;
/// Column width for lengths if the longest is unknown: up to a terabyte.
const WIDEST: usize = 12;
/// Bytes of output per write.
const PRINTED: usize = 16 * 1024;

/// List a folder on a server, as ls(1) does
///
/// URLs may have wildcards: `*` and `[abc]`, in quotes.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// One line per entry, with length and time
    #[arg(short, long)]
    long: bool,
    /// List subfolders recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Include temporary files of unfinished transfers
    #[arg(short, long)]
    all: bool,
    /// One entry per line, as without a terminal
    #[arg(short = '1')]
    one_per_line: bool,
    /// Sort by time, newest first
    #[arg(short = 't', conflicts_with = "unsorted")]
    by_time: bool,
    /// Do not sort; print each entry as it arrives, one per line
    #[arg(short = 'U', long)]
    unsorted: bool,
    #[command(flatten)]
    sizes: SizeFormat,
    #[command(flatten)]
    named: UrlArgs,
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
            path: entry.path.decoded(),
            name: entry.path.name().map(String::from_utf8_lossy).unwrap_or_default().into_owned(),
            kind: if folder { "folder" } else { "file" },
            bytes: entry.length.filter(|_| !folder),
            modified: entry.modified.map(format::rfc3339),
            etag: entry.etag.as_ref().map(ToString::to_string),
        }
    }
}

/// The part of an entry that is kept; there may be millions.
pub(super) struct Row {
    pub(super) path: RemotePath,
    pub(super) length: Option<u64>,
    modified: Option<SystemTime>,
    etag: Option<ETag>,
}

impl Row {
    pub(super) fn of(entry: &Entry) -> Self {
        let Properties { length, modified, etag, .. } = &entry.properties;
        Self { path: entry.path.clone(), length: *length, modified: *modified, etag: etag.clone() }
    }
}

/// Entries for a program, serialized one by one.
pub(super) struct Lines<'a>(pub(super) &'a Session, pub(super) Vec<Row>);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.1.iter().map(|row| Line::of(self.0, row)))
    }
}

/// A requested folder or file, and its entries.
pub(super) struct Listing {
    pub(super) asked: RemotePath,
    pub(super) entries: Vec<Row>,
    pub(super) misplaced: Vec<dav::PathError>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, selected, mut report) = args.named.select("ls").await?;
    let (matched, asked) = matched_files(selected);
    let mut output = Output {
        is_headed: args.recursive || asked.len() + matched.len() > 1,
        is_first: true,
        is_long: args.long,
        width: if args.one_per_line { 0 } else { terminal_width() },
        sizes: args.sizes,
        kept: args.named.connection.json.is_some().then(Vec::new),
    };
    for (asked, mut entries) in matched {
        if args.by_time {
            sort(&mut entries, true);
        }
        output.print(Listing { asked, entries, misplaced: Vec::new() }, &mut report)?;
    }
    let dav = &session.dav;
    let (all, levels) = (args.all, if args.recursive { usize::MAX } else { 1 });
    match (args.unsorted, args.recursive) {
        (true, false) => {
            for path in asked {
                stream(dav, path, all, &mut output, &mut report).await?;
            }
        }
        (true, true) => {
            list(dav, asked, (levels, all), &mut report, |listing, report| output.print(listing, report)).await?;
        }
        (false, _) => {
            let mut found = Vec::new();
            list(dav, asked, (levels, all), &mut report, |mut listing, _| {
                sort(&mut listing.entries, args.by_time);
                found.push(listing);
                Ok(())
            })
            .await?;
            found.sort_by(|a, b| a.asked.segments().cmp(b.asked.segments()));
            for listing in found {
                output.print(listing, &mut report)?;
            }
        }
    }
    report.finish(Found { entries: Lines(&session, output.kept.unwrap_or_default()) })
}

/// The files that match patterns, by their folders: they are listed already. The rest is to be listed.
fn matched_files(selected: Vec<Selected>) -> (BTreeMap<RemotePath, Vec<Row>>, Vec<RemotePath>) {
    let (mut matched, mut asked) = (BTreeMap::<_, Vec<_>>::new(), Vec::new());
    for Selected { path, entry } in selected {
        match entry.zip(path.parent()) {
            Some((entry, folder)) if !path.is_folder() => matched.entry(folder).or_default().push(Row::of(&entry)),
            _ => asked.push(path),
        }
    }
    (matched, asked)
}

/// The state of the output, and the entries kept for the JSON.
struct Output {
    /// Whether to print each folder's name above its entries.
    is_headed: bool,
    is_first: bool,
    is_long: bool,
    /// The columns of the terminal; 0 prints one name per line.
    width: usize,
    sizes: SizeFormat,
    kept: Option<Vec<Row>>,
}

impl Output {
    /// Prints a folder's entries, in columns on a terminal.
    fn print(&mut self, listing: Listing, report: &mut Results) -> Result<(), Box<dyn Error>> {
        let Listing { asked, entries, misplaced } = listing;
        for why in misplaced {
            report.fail(&asked, why);
        }
        let text = if self.is_long { self.long(&entries) } else { self.short(&entries) };
        let head = self.head(&asked);
        report.print(&(head + &text))?;
        if let Some(kept) = &mut self.kept {
            kept.extend(entries);
        }
        Ok(())
    }

    fn short(&self, entries: &[Row]) -> String {
        let names: Vec<String> = entries.iter().map(name).collect();
        format::columns(&names, self.width)
    }

    fn long(&self, entries: &[Row]) -> String {
        let lengths: Vec<String> = entries.iter().map(|entry| self.length(entry)).collect();
        let widest = lengths.iter().map(String::len).max().unwrap_or_default();
        entries.iter().map(|entry| self.line(entry, widest)).collect()
    }

    fn length(&self, entry: &Row) -> String {
        match entry.length {
            Some(bytes) if !entry.path.is_folder() => self.sizes.print(bytes),
            _ => "-".to_owned(),
        }
    }

    /// An entry with its length, right-aligned to `widest`, and its time.
    fn line(&self, entry: &Row, widest: usize) -> String {
        let time = entry.modified.map_or_else(|| "-".to_owned(), format::minute);
        format!("{:>widest$}  {time:16}  {}\n", self.length(entry), name(entry))
    }

    /// The heading above the entries.
    fn head(&mut self, asked: &RemotePath) -> String {
        let gap = if self.is_headed && !std::mem::take(&mut self.is_first) { "\n" } else { "" };
        if self.is_headed && asked.is_folder() { format!("{gap}{asked}:\n") } else { gap.to_owned() }
    }
}

/// The width of the terminal on standard output, 0 without one.
fn terminal_width() -> usize {
    let terminal = Term::stdout();
    if terminal.is_term() { usize::from(terminal.size().1) } else { 0 }
}

/// Sorts by name, or the newest first; entries without a time come last.
fn sort(entries: &mut [Row], by_time: bool) {
    entries.sort_by(|a, b| {
        let times = if by_time { b.modified.cmp(&a.modified) } else { Ordering::Equal };
        times.then_with(|| a.path.name().cmp(&b.path.name()))
    });
}

/// Lists folders down to so many levels, and passes on each complete listing.
pub(super) async fn list(
    dav: &Dav,
    asked: Vec<RemotePath>,
    (levels, all): (usize, bool),
    report: &mut Results,
    mut each: impl FnMut(Listing, &mut Results) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut waiting: Vec<_> = asked.into_iter().rev().map(|path| (path, levels)).collect();
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < AT_ONCE
            && let Some((path, levels)) = waiting.pop()
        {
            under_way.push(one(dav, path, all).map(move |listed| (levels, listed)));
        }
        match under_way.next().await {
            None => return Ok(()),
            Some((_, Err((path, error)))) => report.fail(path, error),
            Some((levels, Ok(listing))) => {
                if levels > 1 {
                    let below = listing.entries.iter().map(|entry| &entry.path);
                    let below = below.filter(|path| path.is_folder() && !path.same_place(&listing.asked));
                    waiting.extend(below.map(|path| (path.clone(), levels.saturating_sub(1))));
                }
                each(listing, report)?;
            }
        }
    }
}

/// Lists a folder, or a file.
pub(super) async fn one(dav: &Dav, asked: RemotePath, all: bool) -> Result<Listing, (RemotePath, dav::Error)> {
    let (mut entries, mut misplaced, mut is_folder) = (Vec::new(), Vec::new(), false);
    let listed = dav.list(&asked, dav::Depth::One, PropertySet::LISTING, |entry| match entry {
        Ok(entry) if entry.path.same_place(&asked) && entry.path.is_folder() => is_folder = true,
        Ok(entry) if is_shown(all, &asked, &entry.path) => entries.push(Row::of(&entry)),
        Ok(_) => {}
        Err(why) => misplaced.push(why),
    });
    if let Err(error) = listed.await {
        return Err((asked, error));
    }
    let asked = asked.as_folder(is_folder);
    Ok(Listing { asked, entries, misplaced })
}

/// Lists a folder or a file, and prints each entry as it arrives.
async fn stream(
    dav: &Dav,
    asked: RemotePath,
    all: bool,
    output: &mut Output,
    report: &mut Results,
) -> Result<(), Box<dyn Error>> {
    let (mut text, mut printed, mut misplaced) = (String::new(), Ok(()), Vec::new());
    let mut is_headed = false;
    let listed = dav.list(&asked, dav::Depth::One, PropertySet::LISTING, |entry| {
        let row = match entry {
            Ok(entry) if is_shown(all, &asked, &entry.path) => Row::of(&entry),
            Ok(_) => return,
            Err(why) => return misplaced.push(why),
        };
        if !std::mem::replace(&mut is_headed, true) {
            let is_file = row.path.same_place(&asked) && !row.path.is_folder();
            text += &output.head(&asked.clone().as_folder(!is_file));
        }
        if row.path.same_place(&asked) && row.path.is_folder() {
            return;
        }
        text += &if output.is_long { output.line(&row, WIDEST) } else { name(&row) + "\n" };
        if let Some(kept) = &mut output.kept {
            kept.push(row);
        }
        if text.len() >= PRINTED && printed.is_ok() {
            printed = report.print(&text);
            text.clear();
        }
    });
    let listed = listed.await;
    printed?;
    report.print(&text)?;
    for why in misplaced {
        report.fail(&asked, why);
    }
    if let Err(error) = listed {
        report.fail(&asked, error);
    }
    Ok(())
}

/// Whether to show an entry: temporary files only if requested.
fn is_shown(all: bool, asked: &RemotePath, path: &RemotePath) -> bool {
    all || path.same_place(asked) || !path.name().is_some_and(is_temporary)
}

/// The name; folders end in `/`.
pub(super) fn name(entry: &Row) -> String {
    let name = format::name(entry.path.name().unwrap_or(b"/"));
    if entry.path.is_folder() { name + "/" } else { name }
}

/// The entry at a path, or an error.
pub(super) async fn look(session: &Session, path: &RemotePath, wanted: PropertySet) -> Result<Entry, Box<dyn Error>> {
    match session.dav.stat(path, wanted).await? {
        Some(entry) => Ok(entry),
        None => Err(format!("{path}: not found at {}", session.dav.requests().origin()).into()),
    }
}
