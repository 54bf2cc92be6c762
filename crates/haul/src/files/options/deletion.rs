//! Options for deletions by `haul sync`, and the limits on them.

use std::{error::Error, path::Path};

use dav::transfer::{Backup, Filter, Options};

use crate::files::session::location::{Location, location};
use crate::usage;

/// Deletions in TO.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Deletions")]
pub(crate) struct DeletionOptions {
    /// Delete files and folders in TO that are missing in FROM
    #[arg(long)]
    delete: bool,
    /// With --delete, also delete excluded files in TO
    #[arg(long, requires = "delete")]
    delete_excluded: bool,
    /// Delete nothing if there are more than N files and folders to delete
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
    /// Delete even after errors in reading or copying
    #[arg(long, requires = "delete")]
    ignore_errors: bool,
    /// Move replaced and deleted files into this folder, which is on the same side as TO
    #[arg(long, value_name = "DIR|URL")]
    backup_dir: Option<String>,
}

impl DeletionOptions {
    /// Applies these options to a transfer's.
    pub(crate) fn apply(&self, options: Options, to: &Location) -> Result<Options, Box<dyn Error>> {
        // With --delete-excluded, no folder inside TO is safe.
        let seen = if self.delete_excluded { Filter::default() } else { options.filter.clone() };
        let backup = self.backup_dir.as_deref().map(|text| backup(text, to, &seen)).transpose()?;
        let Self { delete, delete_excluded, max_delete, ignore_errors, .. } = *self;
        Ok(Options { delete, delete_excluded, max_delete, ignore_errors, backup, ..options })
    }
}

/// The backup folder: outside TO, or excluded by the filters.
fn backup(text: &str, to: &Location, filter: &Filter) -> Result<Backup, Box<dyn Error>> {
    let inside = || usage(format_args!("--backup-dir {text}: is inside TO; use another folder, or --exclude it"));
    let around = || usage(format_args!("--backup-dir {text}: contains TO; use another folder"));
    match (location(text).map_err(usage)?, to) {
        (Location::Local(folder), Location::Local(to)) => {
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
        (Location::Remote(folder), Location::Remote(to))
            if (&folder.origin, &folder.user) == (&to.origin, &to.user) =>
        {
            let path = folder.path.as_folder(true);
            if to.path.relative_to(&path).is_some() {
                return Err(around());
            }
            if path.relative_to(&to.path).is_some_and(|rest| !filter.leaves_out(rest)) {
                return Err(inside());
            }
            Ok(Backup::There(path))
        }
        _ => Err(usage(format_args!("--backup-dir {text}: must be on the same side as TO, and on the same server"))),
    }
}

/// A path with its links resolved; its last parts may be missing.
fn real(path: &Path) -> Result<std::path::PathBuf, Box<dyn Error>> {
    let whole = std::path::absolute(path)?;
    for above in whole.ancestors() {
        if let Ok(real) = above.canonicalize() {
            return Ok(real.join(whole.strip_prefix(above)?));
        }
    }
    Ok(whole)
}
