//! Which existing files at the target to keep.

use dav::transfer::{KeepExisting, Options, Skip};

/// Which existing files at the target to keep.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
#[command(next_help_heading = "Files to copy")]
pub(crate) struct ExistingFiles {
    /// Skip files that exist at the target
    #[arg(long)]
    ignore_existing: bool,
    /// Skip files that are newer at the target, in whole seconds, and those of the same size that are not older
    #[arg(short, long)]
    update: bool,
    /// Skip files with the same size at the target, whatever their times
    #[arg(long)]
    size_only: bool,
}

impl ExistingFiles {
    /// Applies these options to a transfer's.
    pub(crate) fn apply(self, options: Options) -> Options {
        let keep_existing =
            KeepExisting { existing: self.ignore_existing, newer: self.update, same_size: self.size_only };
        // With equal times, a file of the same size is unchanged.
        let skip = if self.update && options.skip == Skip::Nothing { Skip::SameSizeAndTime } else { options.skip };
        Options { keep_existing, skip, ..options }
    }
}
