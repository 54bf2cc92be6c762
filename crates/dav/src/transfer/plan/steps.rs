//! What an upload's plan asks for, and what it hears of it.

use std::{
    collections::{HashMap, HashSet},
    time::SystemTime,
};

use haul_http::Expected;

use super::spelling::Node;
use crate::{
    ETag, Error, Precondition, RemotePath,
    transfer::{filter::Scope, spared::Spared, unchanged::Version},
};

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// List the folder.
    List(usize),
    /// Make the folder.
    Make(usize),
    /// Make the folder in the place of a file, in the state that this tells.
    Replace(usize, Precondition),
    /// Make the folder with these of its files in it.
    Fill(usize, Vec<usize>),
    /// Upload the file.
    Upload(usize, Before),
    /// The same, and look right behind it whether it is there.
    UploadAndLook(usize, Before),
    /// List the folder, and see whether these files are there.
    Check(usize, Vec<usize>),
    /// See whether the file is there.
    Look(usize),
    /// Compare the file with what is there.
    Compare(usize, There),
    /// See what in the folder is to be deleted: it is here no more, and a filter may leave something in it alone.
    CollectDeletable(RemotePath, Scope),
    /// Delete what an earlier run has left behind.
    Sweep(RemotePath, Precondition),
    /// See whether a folder that was made, and that nothing is put into, is there.
    Confirm(usize),
    /// Delete what is here no more, if the server has this name too beside it. Else the two names may be one there.
    DeleteTwin(RemotePath, Precondition, Vec<u8>),
    /// Give what is there under this name the name of something new.
    Rename(RemotePath, Node, There),
    /// Delete what is here no more.
    Delete(RemotePath, Precondition),
    /// The same with nothing else on its connection: the first try had no effect, though the server said that it had.
    DeleteAlone(RemotePath, Precondition),
    /// See which of these, all in one folder, are still there.
    Remaining(RemotePath, Vec<(RemotePath, Precondition)>),
}

/// What was at a file's place before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Before {
    Nothing,
    /// Nothing, if all is well: it was not looked yet.
    Unseen,
    /// A file, in the state that this tells.
    File(Precondition),
    /// A folder, which gives way.
    Folder,
}

/// What a listing says of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct There {
    pub(crate) folder: bool,
    pub(crate) length: Option<u64>,
    pub(crate) modified: Option<SystemTime>,
    pub(crate) etag: Option<ETag>,
    pub(crate) checksums: Vec<String>,
}

impl There {
    /// What tells this state from a later one.
    pub(crate) fn precondition(&self) -> Precondition {
        Precondition::of(self.etag.as_ref())
    }

    /// What the answer to a GET looks like.
    pub(crate) fn expected(&self) -> Expected {
        let etag = self.etag.as_ref().map(ToString::to_string);
        Expected { etag, length: self.length, modified: self.modified }
    }

    pub(crate) fn version(&self) -> Version<'_> {
        Version { length: self.length, modified: self.modified, etag: self.etag.as_ref() }
    }
}

impl There {
    pub(crate) fn from(entry: &crate::Entry) -> Self {
        let properties = &entry.properties;
        Self {
            folder: entry.path.is_folder(),
            length: properties.length,
            modified: properties.modified,
            etag: properties.etag.clone(),
            checksums: properties.checksums.clone(),
        }
    }
}

/// What was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    /// What the server calls it, if it said so.
    pub(crate) etag: Option<ETag>,
    /// Whether it was compared byte by byte already.
    pub(crate) compared: bool,
    /// What was there right after it.
    pub(crate) seen: Option<There>,
}

/// What a folder holds, by name.
pub(crate) type Listing = HashMap<Vec<u8>, There>;

/// What came of a step.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// None: there is no such folder.
    Listed(usize, Result<Option<Listing>, Error>),
    Made(usize, Result<bool, Error>),
    Replaced(usize, Result<(), Error>),
    /// The folder was made, with these files in it.
    Filled(usize, Vec<(usize, Sent)>),
    Uploaded(usize, Result<Sent, Error>),
    Checked(Vec<usize>, Result<Listing, Error>),
    /// Whether the file is the same here and there.
    Compared(usize, Result<bool, Error>),
    CollectedDeletable(RemotePath, Result<Deletable, Error>),
    Swept(RemotePath, Result<(), Error>),
    /// Whether the folder is there.
    Confirmed(usize, Result<bool, Error>),
    Deleted(RemotePath, Precondition, Result<(), Error>),
    /// Which of those that were deleted are still there.
    Remained(Vec<(RemotePath, Precondition)>, Result<HashSet<RemotePath>, Error>),
    /// What had a twin was left alone.
    Spared,
    /// What was at a name, and what is now at its new one; an error or nothing if it has still the old one.
    Renamed(RemotePath, Node, There, Result<Option<There>, Error>),
}

/// What of a folder is to be deleted.
#[derive(Debug, Default)]
pub(crate) struct Deletable {
    pub(crate) deletions: Vec<(RemotePath, Precondition)>,
    /// Whether that is all of it, as one deletion.
    pub(crate) whole: bool,
    /// How many files and folders go with it.
    pub(crate) count: u64,
}

/// What the user is to hear.
#[derive(Debug)]
pub(crate) enum News {
    Done(usize),
    Skipped(usize),
    Spared(usize, Spared),
    Made(usize),
    Swept(RemotePath),
    Deleted(RemotePath),
    /// Something has another name now.
    Renamed(RemotePath, Vec<u8>),
    /// The server does not list files that are there.
    Hides,
    Failed(String, Error),
}
