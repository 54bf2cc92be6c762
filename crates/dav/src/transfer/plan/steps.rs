//! The steps of an upload, and their outcomes.

use std::collections::{HashMap, HashSet};

use super::spelling::Node;
use crate::{
    ETag, Error, Precondition, RemotePath,
    transfer::{FileFacts, SkipReason, filter::Scope},
};

/// A step of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// List the folder.
    List(usize),
    /// Create the folder.
    Make(usize),
    /// Replace a file by the folder, if the precondition holds.
    Replace(usize, Precondition),
    /// Create the folder with these files in it (bulk upload).
    Fill(usize, Vec<usize>),
    /// Upload the file.
    Upload(usize, Before),
    /// Upload the file, and look it up right behind.
    UploadAndLook(usize, Before),
    /// List the folder, to verify these files.
    Check(usize, Vec<usize>),
    /// Look up the file.
    Look(usize),
    /// Compare the file with its remote entry.
    Compare(usize, RemoteEntry),
    /// Collect what to delete in a folder that no longer exists locally; a filter may exclude something in it.
    CollectDeletable(RemotePath, Scope),
    /// Delete a stale temporary file.
    Sweep(RemotePath, Precondition),
    /// Look up a created folder that stays empty.
    Confirm(usize),
    /// Delete something that no longer exists locally, if the server also lists the third name; otherwise both names
    /// may be the same file.
    DeleteTwin(RemotePath, Precondition, Vec<u8>),
    /// Rename a remote entry to the name of a new local one.
    Rename(RemotePath, Node, RemoteEntry),
    /// Delete something that no longer exists locally.
    Delete(RemotePath, Precondition),
    /// Delete it on a connection of its own: a first deletion was confirmed but had no effect.
    DeleteAlone(RemotePath, Precondition),
    /// Check which of these, all in one folder, still exist.
    Remaining(RemotePath, Vec<(RemotePath, Precondition)>),
}

/// What an upload replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// Presumably nothing: the server was not asked yet.
    Unseen,
    /// A file, with the precondition for its version.
    File(Precondition),
    /// A folder, which is deleted.
    Folder,
}

/// A listed file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteEntry {
    pub(crate) is_folder: bool,
    pub(crate) facts: FileFacts,
}

impl RemoteEntry {
    pub(crate) fn from(entry: &crate::Entry) -> Self {
        Self { is_folder: entry.path.is_folder(), facts: FileFacts::of(entry.properties.clone()) }
    }

    /// The precondition for this version.
    pub(crate) fn precondition(&self) -> Precondition {
        Precondition::of(self.facts.etag.as_ref())
    }
}

/// An uploaded file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    /// Its entity tag, if the server sent one.
    pub(crate) etag: Option<ETag>,
    /// Whether its content was compared already.
    pub(crate) compared: bool,
    /// The remote entry right after the upload.
    pub(crate) seen: Option<RemoteEntry>,
}

/// The contents of a folder, by name.
pub(crate) type Listing = HashMap<Vec<u8>, RemoteEntry>;

/// The outcome of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// None: the folder does not exist.
    Listed(usize, Result<Option<Listing>, Error>),
    Made(usize, Result<bool, Error>),
    Replaced(usize, Result<(), Error>),
    /// The folder was created with these files in it.
    Filled(usize, Vec<(usize, Sent)>),
    Uploaded(usize, Result<Sent, Error>),
    Checked(Vec<usize>, Result<Listing, Error>),
    /// Whether the file is equal on both sides.
    Compared(usize, Result<bool, Error>),
    CollectedDeletable(RemotePath, Result<Deletable, Error>),
    Swept(RemotePath, Result<(), Error>),
    /// Whether the folder exists.
    Confirmed(usize, Result<bool, Error>),
    Deleted(RemotePath, Precondition, Result<(), Error>),
    /// Which of the deleted paths still exist.
    Remained(Vec<(RemotePath, Precondition)>, Result<HashSet<RemotePath>, Error>),
    /// A doubtful deletion was not carried out.
    NotDeleted,
    /// The entry under the old name, and the one now under the new name; none or an error if it was not renamed.
    Renamed(RemotePath, Node, RemoteEntry, Result<Option<RemoteEntry>, Error>),
}

/// What to delete in a folder.
#[derive(Debug, Default)]
pub(crate) struct Deletable {
    pub(crate) deletions: Vec<(RemotePath, Precondition)>,
    /// Whether that is the whole folder, as one deletion.
    pub(crate) whole: bool,
    /// Number of files and folders that are deleted.
    pub(crate) count: u64,
}

/// What the user should be told.
#[derive(Debug)]
pub(crate) enum PlanEvent {
    Done(usize),
    Skipped(usize),
    Kept(usize, SkipReason),
    Made(usize),
    Swept(RemotePath),
    Deleted(RemotePath),
    /// Something was renamed on the server.
    Renamed(RemotePath, Vec<u8>),
    /// The server hides files.
    HidesFiles,
    Failed(String, Error),
}
