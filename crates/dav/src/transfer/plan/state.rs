//! The state of a plan: of its files and folders, of what can start, and of what is in flight.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{
    folders::{Awaiting, Made},
    steps::{Before, RemoteEntry, Sent, Step},
};
use crate::{Precondition, RemotePath};

/// The uploads of files. Maps and sets hold few of them.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    /// Number of uploads of each file.
    pub(super) tries: Vec<u8>,
    /// What was sent and is not verified yet.
    pub(super) sent: Vec<Option<Sent>>,
    /// Files that are being compared, with their remote entry.
    pub(super) candidates: HashMap<usize, RemoteEntry>,
    /// The remote entries of files that are to be overwritten; shows whether an upload had an effect.
    pub(super) overwritten: HashMap<usize, RemoteEntry>,
    /// Files that replace folders.
    pub(super) replacing: HashSet<usize>,
    /// Files that were sent optimistically, and their remote entries once known.
    pub(super) optimistic: HashMap<usize, Option<RemoteEntry>>,
}

/// Steps and uploads that can start.
#[derive(Debug, Default)]
pub(super) struct Queues {
    pub(super) steps: VecDeque<Step>,
    pub(super) small: VecDeque<(usize, Before)>,
    pub(super) large: VecDeque<(usize, Before)>,
}

/// Files that are looked up right behind their uploads.
#[derive(Debug, Default)]
pub(super) struct LookupsBehind {
    /// That is done for this many of the last files.
    pub(super) limit: usize,
    pub(super) in_flight: HashSet<usize>,
}

/// What a mirror deletes at its end.
#[derive(Debug, Default)]
pub(super) struct DeletionState {
    pub(super) planned: Vec<(RemotePath, Precondition)>,
    /// Deletions of what may be the same file as a new one, whose name is the third.
    pub(super) doubtful: Vec<(RemotePath, Precondition, Vec<u8>)>,
    /// Number of files and folders that all of them delete.
    pub(super) count: u64,
    pub(super) started: bool,
    /// Whether anything has failed, so that deletions are skipped.
    pub(super) has_failures: bool,
    /// What the server says that it has deleted.
    pub(super) confirmed: Vec<(RemotePath, Precondition)>,
    /// What was deleted a second time.
    pub(super) retried: HashSet<RemotePath>,
}

#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub(super) requests: usize,
    pub(super) large: usize,
    /// Bytes of small files.
    pub(super) bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct FolderState {
    /// Number of unfinished files that the verification of this folder waits for.
    pub(super) open: usize,
    /// Uploaded files to verify.
    pub(super) unverified: Vec<usize>,
    /// Whether files are looked up one by one.
    pub(super) singly: bool,
    pub(super) children: Vec<usize>,
    pub(super) files: Vec<usize>,
    pub(super) made: Made,
    /// What waits until the folder is created again.
    pub(super) awaiting: Vec<Awaiting>,
}
