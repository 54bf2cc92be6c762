//! Whole trees, in as few round trips as the server allows.
//!
//! One request lists a tree (`Depth: infinity`), but many servers refuse it (RFC 4918 §9.1), and some answer with one level
//! as if that were all. So the first level is requested beside it, for use after a refusal; and an answer that has folders
//! and nothing in them is not believed. Then the folders of each level are listed together.

use std::error::Error;

use dav::{Dav, Depth, PropertySet, RemotePath};
use futures_util::future::join;

use crate::files::{
    ls::{Listing, Row, list, one},
    results::Results,
    session::selection::Selected,
};

/// A folder with what is below, or a file.
pub(super) struct Tree {
    /// As a folder's path or a file's.
    pub(super) root: RemotePath,
    /// The entries below, or that of the file itself.
    pub(super) rows: Vec<Row>,
}

/// The trees at these paths down to so many levels, without those whose root cannot be listed. `all`: with temporary files.
/// What cannot be listed is reported. Each is passed on before the next one is requested.
pub(super) async fn walk_each(
    dav: &Dav,
    selected: Vec<Selected>,
    (levels, all): (usize, bool),
    report: &mut Results,
    mut each: impl FnMut(Tree, &mut Results) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    for Selected { path, .. } in selected {
        let Some(rows) = walk(dav, &path, levels, all, report).await else { continue };
        let is_file = rows.iter().any(|row| row.path.same_place(&path));
        each(Tree { root: path.as_folder(!is_file), rows }, report)?;
    }
    Ok(())
}

async fn walk(dav: &Dav, root: &RemotePath, levels: usize, all: bool, report: &mut Results) -> Option<Vec<Row>> {
    let tree = async { if levels == usize::MAX { at_once(dav, root, all).await } else { None } };
    let first = match join(tree, one(dav, root.clone(), all)).await {
        (Some(tree), _) => return Some(tree),
        (None, Ok(first)) => first,
        (None, Err((path, error))) => {
            report.fail(path, error);
            return None;
        }
    };
    let folders = first.entries.iter().map(|row| row.path.clone()).filter(RemotePath::is_folder);
    let (waiting, mut rows) = (if levels > 1 { folders.collect() } else { Vec::new() }, Vec::new());
    add(&mut rows, first, report);
    let each = |listing, report: &mut Results| {
        add(&mut rows, listing, report);
        Ok(())
    };
    if let Err(error) = list(dav, waiting, (levels.saturating_sub(1), all), report, each).await {
        report.fail(root, error);
    }
    Some(rows)
}

fn add(rows: &mut Vec<Row>, listing: Listing, report: &mut Results) {
    for why in listing.misplaced {
        report.fail(&listing.asked, why);
    }
    rows.extend(listing.entries);
}

/// The tree in one request; none if the server does not answer it, or the answer may lack something.
async fn at_once(dav: &Dav, root: &RemotePath, all: bool) -> Option<Vec<Row>> {
    let (mut rows, mut is_deep, mut has_folders, mut is_sound) = (Vec::new(), false, false, true);
    let listed = dav.list(root, Depth::Infinity, PropertySet::LISTING, |entry| match entry {
        Ok(entry) if entry.path.same_place(root) && entry.path.is_folder() => {}
        Ok(entry) => {
            is_deep |= entry.path.relative_to(root).is_some_and(|names| names.count() > 1);
            has_folders |= entry.path.is_folder();
            if all || !entry.path.name().is_some_and(dav::transfer::is_temporary) {
                rows.push(Row::of(&entry));
            }
        }
        Err(_) => is_sound = false,
    });
    listed.await.ok().filter(|()| is_sound && (is_deep || !has_folders)).map(|()| rows)
}
