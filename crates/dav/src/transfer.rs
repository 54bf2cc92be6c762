//! Trees of files, here and there.
//!
//! `plan` decides what is to be done and in which order; `upload`, `download` and `remote` do it.

mod download;
mod holding;
mod plan;
mod upload;
mod walk;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

pub use download::download;
pub use upload::upload;

use crate::{Error, locks::Policy};

/// How files are moved.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders with all that is in them; otherwise a folder is an error.
    pub recursive: bool,
    /// What is in the one source folder goes into the target itself, as for a mirror, and not into a folder of the
    /// source's name there.
    pub contents: bool,
    /// Which files are locked before they are written.
    pub lock: Policy,
    /// What is compared after a file has been moved.
    pub verify: Verify,
    /// What is left alone because it is there already.
    pub skip: Skip,
    /// Uploads go to a temporary name first, and are renamed when they are whole.
    pub temporary: bool,
    /// What is there and not here is deleted (a mirror).
    pub delete: bool,
    /// Nothing is changed; what would be is told.
    pub dry_run: bool,
    /// Connections at a time.
    pub connections: usize,
    /// Who is named as a lock's owner.
    pub owner: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            recursive: false,
            contents: false,
            lock: Policy::Never,
            verify: Verify::Size,
            skip: Skip::Nothing,
            temporary: false,
            delete: false,
            dry_run: false,
            connections: 6,
            owner: "longhaul".into(),
        }
    }
}

/// What is compared after a file has been moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Verify {
    /// Nothing: the server's word is taken.
    None,
    /// The length that the server lists.
    #[default]
    Size,
    /// A digest, where the server gives one, or by reading it back.
    Digest,
}

/// Which files need not be moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Skip {
    /// All are moved.
    #[default]
    Nothing,
    /// Those of the same length that are not older than their original.
    SameSizeAndTime,
    /// Those of the same digest.
    SameDigest,
}

/// What happens, as it happens.
#[derive(Debug)]
pub enum Event<'a> {
    /// So much more has been found that is to be moved.
    Found { files: u64, bytes: u64 },
    /// Bytes of a file have moved; again if they had to be sent again.
    Moved { bytes: u64 },
    /// A file is there, whole.
    Done { path: &'a str, bytes: u64 },
    /// A file was there already.
    Skipped { path: &'a str, bytes: u64 },
    /// Something was deleted, or would be.
    Deleted { path: &'a str },
    /// A folder was made, or would be.
    Made { path: &'a str },
    /// Something was not done.
    Failed { path: &'a str, why: &'a Error },
    /// Something that the user should know.
    Note(&'a str),
}

/// Hears of what happens.
pub type Watch = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// What was done in all.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Files that were moved.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there already.
    pub skipped: u64,
    /// Folders that were made.
    pub folders: u64,
    /// Files and folders that were deleted.
    pub deleted: u64,
    /// What failed, by path, with the reason. What was not tried because its folder failed is named with that.
    pub failed: Vec<(String, Error)>,
    /// How long it took.
    pub took: Duration,
}

/// A name beside `name` for what is not whole yet, hidden and new each time. File systems take 255 bytes: of a long
/// name only a part is in it.
fn temporary_name(name: &[u8]) -> Vec<u8> {
    let random = RandomState::new().hash_one(name);
    let mut end = name.len().min(200);
    // Not within a character, where it is text.
    while end < name.len() && end > 190 && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    [b".", &name[..end], format!(".{random:016x}.part").as_bytes()].concat()
}
