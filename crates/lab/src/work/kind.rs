//! The kinds of work, and what is known of each before it is done.

use std::fmt;

use link::units::Size;
use serde::Serialize;

/// What there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Work {
    /// Bring files to the server that it does not have.
    Upload {
        /// How many.
        files: u32,
        /// The size of each.
        size: Size,
    },
    /// Bring folders full of files to the server, which has neither.
    Tree {
        /// How many folders, beside one another.
        folders: u32,
        /// How many files, shared out among them.
        files: u32,
        /// The size of each file.
        size: Size,
    },
    /// Bring files from the server, into an empty folder.
    Download {
        /// How many.
        files: u32,
        /// The size of each.
        size: Size,
    },
    /// Show what is in a folder, with size and time of each entry.
    List {
        /// How many entries it has.
        entries: u32,
    },
    /// Save a file in place, again and again; each save begins when the last is confirmed.
    Edit {
        /// How often.
        times: u32,
        /// The size of the file.
        size: Size,
    },
}

impl Work {
    /// How many things are done one by one: files, listings, saves.
    pub fn steps(self) -> u32 {
        match self {
            Self::Upload { files, .. } | Self::Tree { files, .. } | Self::Download { files, .. } => files,
            Self::List { .. } => 1,
            Self::Edit { times, .. } => times,
        }
    }

    /// Whether it brings files to the server.
    pub fn writes(self) -> bool {
        matches!(self, Self::Upload { .. } | Self::Tree { .. } | Self::Edit { .. })
    }

    /// What one of them is called.
    pub fn step(self) -> &'static str {
        match self {
            Self::Upload { .. } | Self::Tree { .. } | Self::Download { .. } => "file",
            Self::List { .. } => "listing",
            Self::Edit { .. } => "save",
        }
    }

    /// The bytes of the files that cross the link; a listing has none.
    pub fn payload(self) -> u64 {
        match self {
            Self::Upload { size, .. }
            | Self::Tree { size, .. }
            | Self::Download { size, .. }
            | Self::Edit { size, .. } => u64::from(self.steps()).saturating_mul(size.as_bytes()),
            Self::List { .. } => 0,
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = |n: u32| if n == 1 { "file" } else { "files" };
        match self {
            Self::Upload { files: n, size } => write!(f, "upload {n} {} of {size}", files(*n)),
            Self::Tree { folders, files: n, size } => {
                let folders_word = if *folders == 1 { "folder" } else { "folders" };
                write!(f, "upload {n} {} of {size} in {folders} {folders_word}", files(*n))
            }
            Self::Download { files: n, size } => write!(f, "download {n} {} of {size}", files(*n)),
            Self::List { entries } => write!(f, "list a folder of {entries} entries"),
            Self::Edit { times, size } => write!(f, "save a file of {size} in place {times} times"),
        }
    }
}
