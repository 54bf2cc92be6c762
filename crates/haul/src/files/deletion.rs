//! What a mirror deletes, and what keeps it from deleting too much.

use std::{error::Error, path::Path};

use dav::transfer::{Backup, Filter, Options};

use super::place::{Place, place};
use crate::usage;

/// What is deleted in TO.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Deletions")]
pub(super) struct Deletion {
    /// Delete in TO what is not in FROM
    #[arg(long)]
    delete: bool,
    /// With --delete, delete in TO also what the filters leave out
    #[arg(long, requires = "delete")]
    delete_excluded: bool,
    /// Delete nothing if more than N files and folders would be deleted
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
    /// Delete although something could not be read or copied
    #[arg(long, requires = "delete")]
    ignore_errors: bool,
    /// Keep what would be replaced or deleted in this folder, on the side of TO
    #[arg(long, value_name = "DIR|URL")]
    backup_dir: Option<String>,
}

impl Deletion {
    /// Options of a transfer, with what was chosen here.
    pub(super) fn apply(&self, options: Options, to: &Place) -> Result<Options, Box<dyn Error>> {
        // What is left out is deleted too: then there is no place in TO.
        let seen = if self.delete_excluded { Filter::default() } else { options.filter.clone() };
        let backup = self.backup_dir.as_deref().map(|text| backup(text, to, &seen)).transpose()?;
        let Self { delete, delete_excluded, max_delete, ignore_errors, .. } = *self;
        Ok(Options { delete, delete_excluded, max_delete, ignore_errors, backup, ..options })
    }
}

/// The folder that backups go to: beside what is mirrored, or in it where the filters leave it out.
fn backup(text: &str, to: &Place, filter: &Filter) -> Result<Backup, Box<dyn Error>> {
    let inside = || {
        usage(format_args!(
            "--backup-dir {text}: it is in TO, and would be mirrored itself: name another folder, or --exclude it"
        ))
    };
    let around = || usage(format_args!("--backup-dir {text}: TO is in it: name another folder"));
    match (place(text).map_err(usage)?, to) {
        (Place::Here(folder), Place::Here(to)) => {
            let (folder, to) = (real(&folder)?, real(to)?);
            if to.starts_with(&folder) {
                return Err(around());
            }
            if let Ok(rest) = folder.strip_prefix(&to)
                && !filter.leaves_out(rest.iter().map(std::ffi::OsStr::as_encoded_bytes))
            {
                return Err(inside());
            }
            Ok(Backup::Here(folder))
        }
        (Place::There(folder), Place::There(to)) if (&folder.origin, &folder.user) == (&to.origin, &to.user) => {
            let path = folder.path.as_folder(true);
            if to.path.relative_to(&path).is_some() {
                return Err(around());
            }
            if path.relative_to(&to.path).is_some_and(|rest| !filter.leaves_out(rest)) {
                return Err(inside());
            }
            Ok(Backup::There(path))
        }
        _ => Err(usage(format_args!("--backup-dir {text}: name a folder on the side of TO, on the same server"))),
    }
}

/// A path without links, of which the end need not be there yet.
fn real(path: &Path) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let whole = std::path::absolute(path)?;
    for above in whole.ancestors() {
        if let Ok(real) = above.canonicalize() {
            return Ok(real.join(whole.strip_prefix(above)?));
        }
    }
    Ok(whole)
}
