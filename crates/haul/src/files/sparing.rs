//! Which files at the target are left alone.

use dav::transfer::{Options, Skip, Spare};

/// Which files at the target are left alone.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
#[command(next_help_heading = "Which files are copied")]
pub(super) struct Sparing {
    /// Skip files that exist at the target, whatever they are
    #[arg(long)]
    ignore_existing: bool,
    /// Skip files that are newer at the target
    #[arg(short, long)]
    update: bool,
    /// Skip files of the same size at the target, whatever their times are
    #[arg(long)]
    size_only: bool,
}

impl Sparing {
    /// Options of a transfer, with what was chosen here.
    pub(super) fn apply(self, options: Options) -> Options {
        let spare = Spare { existing: self.ignore_existing, newer: self.update, same_size: self.size_only };
        // A file that is not newer at the target, and not older either, need not be copied.
        let skip = if self.update && options.skip == Skip::Nothing { Skip::SameSizeAndTime } else { options.skip };
        Options { spare, skip, ..options }
    }
}
