//! `haul tree`: a folder as a tree.

use std::fmt::Write;

use dav::RemotePath;
use serde::Serialize;

use crate::files::{
    Outcome,
    ls::{Lines, Row, name},
    options::{sizes::SizeFormat, urls::UrlArgs},
    results::format,
    walk::{Tree, walk_each},
};

/// Show folders with everything in them, as tree(1) does
///
/// URLs may have wildcards: `*` and `[abc]`, in quotes.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Maximum number of levels
    #[arg(short = 'L', long = "max-depth", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    levels: Option<u64>,
    /// Print the size of each file
    #[arg(short, long)]
    size: bool,
    /// Include temporary files of unfinished transfers
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    sizes: SizeFormat,
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Found<'a> {
    entries: Lines<'a>,
}

pub(super) async fn run(args: Args) -> Outcome {
    let (session, selected, mut report) = args.named.select("tree").await?;
    let levels = args.levels.map_or(usize::MAX, |levels| usize::try_from(levels).unwrap_or(usize::MAX));
    let (mut all, mut gap) = (Vec::new(), "");
    let sizes = (args.size || args.sizes.is_human_readable()).then_some(args.sizes);
    walk_each(&session.dav, selected, (levels, args.all), &mut report, |Tree { root, mut rows }, report| {
        rows.sort_by(|a, b| a.path.segments().cmp(b.path.segments()));
        let below: &[Row] = if root.is_folder() { &rows } else { &[] };
        report.print(&format!("{gap}{root}\n{}", draw(&root, below, sizes)))?;
        gap = "\n";
        all.extend(rows);
        Ok(())
    })
    .await?;
    if gap.is_empty() {
        return report.finish(Found { entries: Lines(&session, all) });
    }
    let folders = all.iter().filter(|row| row.path.is_folder()).count() as u64;
    let (files, bytes) = (all.len() as u64 - folders, all.iter().filter(|row| !row.path.is_folder()));
    let bytes = bytes.filter_map(|row| row.length).fold(0, u64::saturating_add);
    let (folders, files) = (format::count(folders, "folder"), format::count(files, "file"));
    report.print(&format!("\n{folders}, {files}, {}\n", format::size(bytes)))?;
    report.finish(Found { entries: Lines(&session, all) })
}

/// Lines for what is below `root`, which is sorted: each entry is followed by what is in it.
fn draw(root: &RemotePath, rows: &[Row], sizes: Option<SizeFormat>) -> String {
    let depth = |row: &Row| row.path.relative_to(root).map_or(0, Iterator::count).saturating_sub(1);
    // From the end: whether a sibling follows.
    let (mut is_last, mut following) = (vec![false; rows.len()], Vec::new());
    for (number, row) in rows.iter().enumerate().rev() {
        let depth = depth(row);
        following.resize(depth + 1, false);
        is_last[number] = !std::mem::replace(&mut following[depth], true);
    }
    let lengths: Vec<String> = rows.iter().map(|row| length(row, sizes)).collect();
    let widest = lengths.iter().map(String::len).max().unwrap_or_default();
    let (mut text, mut above) = (String::new(), Vec::new());
    for ((row, is_last), length) in rows.iter().zip(is_last).zip(lengths) {
        above.resize(depth(row), true);
        text.extend(above.iter().map(|is_last| if *is_last { "    " } else { "│   " }));
        text += if is_last { "└── " } else { "├── " };
        if sizes.is_some() {
            let _ = write!(text, "[{length:>widest$}]  ");
        }
        text += &name(row);
        text.push('\n');
        above.push(is_last);
    }
    text
}

fn length(row: &Row, sizes: Option<SizeFormat>) -> String {
    match (row.length.filter(|_| !row.path.is_folder()), sizes) {
        (Some(bytes), Some(sizes)) => sizes.print(bytes),
        _ => "-".to_owned(),
    }
}
