//! `haul du`: how much is in folders.

use std::{cmp::Ordering, collections::HashMap};

use dav::RemotePath;
use serde::Serialize;

use crate::files::{
    Outcome,
    ls::Row,
    options::{sizes::SizeFormat, urls::UrlArgs},
    results::format,
    walk::{Tree, walk_each},
};
use crate::say;

/// Show how many bytes are in folders, as du(1) does
///
/// Adds up the sizes that the server lists. URLs may have wildcards: `*` and `[abc]`, in quotes.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Print folders down to this many levels below the named one; all are counted
    #[arg(short = 'd', long, value_name = "N")]
    max_depth: Option<usize>,
    /// Print only the named folders; the same as -d 0
    #[arg(short, long, conflicts_with = "max_depth")]
    summarize: bool,
    #[command(flatten)]
    sizes: SizeFormat,
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Found {
    entries: Vec<Usage>,
}

/// What is in a folder, with everything below.
#[derive(Serialize)]
struct Usage {
    url: String,
    path: String,
    bytes: u64,
    files: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Total {
    bytes: u64,
    files: u64,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, selected, mut report) = args.named.select("du").await?;
    let max_depth = if args.summarize { 0 } else { args.max_depth.unwrap_or(usize::MAX) };
    let (mut found, mut unsized_files) = (Vec::new(), 0);
    walk_each(&session.dav, selected, (usize::MAX, true), &mut report, |Tree { root, rows }, report| {
        unsized_files += rows.iter().filter(|row| row.length.is_none() && !row.path.is_folder()).count();
        let mut totals: Vec<_> = totals(&root, &rows).into_iter().collect();
        totals.retain(|(path, _)| path.relative_to(&root).is_some_and(|names| names.count() <= max_depth));
        totals.sort_by(|(a, _), (b, _)| contents_first(a, b));
        for (path, Total { bytes, files }) in totals {
            report.print(&format!("{}\t{path}\n", args.sizes.print(bytes)))?;
            found.push(Usage { url: session.url(&path), path: path.decoded(), bytes, files });
        }
        Ok(())
    })
    .await?;
    if unsized_files > 0 {
        let files = format::count(unsized_files as u64, "file");
        say(format_args!("the server lists {files} without a size, counted as 0 bytes"));
    }
    report.finish(Found { entries: found })
}

/// What is in each folder, or in the file itself.
fn totals(root: &RemotePath, rows: &[Row]) -> HashMap<RemotePath, Total> {
    let mut totals = HashMap::from([(root.clone(), Total::default())]);
    for row in rows {
        if row.path.is_folder() {
            totals.entry(row.path.clone()).or_default();
            continue;
        }
        let mut place = if row.path.same_place(root) { Some(root.clone()) } else { row.path.parent() };
        while let Some(folder) = place.filter(|folder| folder.relative_to(root).is_some()) {
            let total = totals.entry(folder.clone()).or_default();
            total.bytes = total.bytes.saturating_add(row.length.unwrap_or(0));
            total.files += 1;
            place = folder.parent();
        }
    }
    totals
}

/// The order of du(1): a folder after what is in it.
fn contents_first(a: &RemotePath, b: &RemotePath) -> Ordering {
    let different = a.segments().zip(b.segments()).map(|(a, b)| a.cmp(b)).find(|order| order.is_ne());
    different.unwrap_or_else(|| b.segments().count().cmp(&a.segments().count()))
}
