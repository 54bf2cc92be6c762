//! The second half of a move between two sides: the sources of what was copied are removed.
//!
//! A move is a copy, a look at the copy, and a deletion, in this order. Whatever ends it on the way leaves each file on at
//! least one side: before the deletion of its source, a file has been verified at the target (`Event::Done`), and the source
//! is compared with what it was before the copy. If it differs, somebody has changed it meanwhile, and both versions stay.
//! The caller must not remove anything after an interrupt, when `Done` may come before the verification.
//!
//! Folders are removed last, only when nothing failed, and only if nothing is left in them.

mod local;
mod remote;

use std::collections::HashMap;

pub use self::{local::LocalSources, remote::RemoteSources};
use super::AlreadyCopied;

/// The names under which a transfer reports files that have been copied and verified. If it could mean two files, neither
/// counts.
fn copied<'a, T>(files: &'a [T], name: impl Fn(&T) -> String, copied: &AlreadyCopied) -> Vec<&'a T> {
    let names: Vec<String> = files.iter().map(name).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *uses.entry(name).or_default() += 1;
    }
    let is_copied = |name: &String| copied.contains(name) && uses.get(name.as_str()) == Some(&1);
    files.iter().zip(&names).filter(|(_, name)| is_copied(name)).map(|(file, _)| file).collect()
}
