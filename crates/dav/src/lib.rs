//! A WebDAV client for long links.
//!
//! WebDAV (RFC 4918) is HTTP with folders, properties and locks, and a good deal of freedom, which its servers have
//! used. What to send, what the answers mean, what must not be believed and in which order a tree is moved are plain
//! data and state machines here, fed with bytes and times, so that each can be tested without a server and attacked
//! without a network. [`Dav`] and [`transfer`] carry out what they say, through [`haul_http`].
//!
//! # How data passes through
//! [`Requests`] makes `http` requests for one server, guarded by [`Precondition`] and [`If`], and [`Dav`] sends them. A
//! listing's body goes, piece by piece as it arrives, into [`Multistatus`], which gives an [`Entry`] for each resource
//! as soon as it is whole; the answer to LOCK into [`Properties::read`]; a refusal into [`Failure`], which explains it.
//! [`Locks`] says when to lock, refresh and unlock; [`Capabilities`] what else a server can do. `transfer::plan` says which
//! request of an upload may go when.
//!
//! # What is not believed
//! Paths from a server become names of files here, so each goes through [`RemotePath`], out of which nothing
//! escapes. XML is read with bounds on everything, and an answer that is cut off is an error and never a short list.

mod capabilities;
mod client;
mod content_encoding;
mod date;
mod error;
mod etag;
mod failure;
mod lock_token;
mod locks;
mod multistatus;
mod nextcloud;
mod path;
mod precondition_codes;
mod preconditions;
mod properties;
mod qnames;
mod requests;
pub mod transfer;
mod xml;

pub use capabilities::{Capabilities, Chunking, ETags, Family};
pub use client::{Confirmed, Dav, Locked, Stored, compare::same_digest};
pub use error::Error;
pub use etag::ETag;
pub use failure::{Failure, retry_after};
pub use lock_token::LockToken;
pub use locks::{LockAction, LockPermit, LockPolicy, Locks};
pub use multistatus::{End, Entry, Item, Multistatus};
pub use path::{PathError, PathProblem, RemotePath, terminal_safe};
pub use precondition_codes::{ConditionCode, ErrorBody, UnmetCondition};
pub use preconditions::{If, Precondition};
pub use properties::{ActiveLock, Lockable, Properties, Windows};
pub use qnames::QName;
pub use requests::{Depth, Requests, Setting, Wanted};
pub use xml::{XmlError, XmlProblem};
