//! Sizes as ls(1) and du(1) print them.

use crate::files::results::format;

/// How to print sizes. `-h` is theirs here, so that help has only its long option.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub(crate) struct SizeFormat {
    /// Print sizes with a unit, as in 1.5 MiB, instead of in bytes
    #[arg(short = 'h', long)]
    human_readable: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl SizeFormat {
    pub(crate) fn print(self, bytes: u64) -> String {
        if self.human_readable { format::size(bytes) } else { bytes.to_string() }
    }

    /// Whether a unit was requested.
    pub(crate) fn is_human_readable(self) -> bool {
        self.human_readable
    }
}
