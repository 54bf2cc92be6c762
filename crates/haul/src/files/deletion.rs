//! What a mirror deletes, and what keeps it from deleting too much.

/// What is deleted in TO.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Deletions")]
pub(super) struct Deletion {
    /// Delete in TO what is not in FROM
    #[arg(long)]
    pub(super) delete: bool,
    /// With --delete, delete in TO also what the filters leave out
    #[arg(long, requires = "delete")]
    pub(super) delete_excluded: bool,
}
