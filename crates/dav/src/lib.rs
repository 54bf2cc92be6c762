//! A WebDAV client for long links.
//!
//! WebDAV (RFC 4918) is HTTP with folders, properties and locks, and a good deal of freedom, which its servers have
//! used. What to send, what the answers mean, what must not be believed and in which order a tree is moved are plain
//! data and state machines here, fed with bytes and times, so that each can be tested without a server and attacked
//! without a network. [`Dav`] and [`transfer`] carry out what they say, through [`haul_http`].
//!
//! # How data passes through
//! [`Requests`] makes `http` requests for one server, guarded by [`Guard`] and [`If`], and [`Dav`] sends them. A
//! listing's body goes, piece by piece as it arrives, into [`Multistatus`], which gives an [`Entry`] for each resource
//! as soon as it is whole; the answer to LOCK into [`Properties::read`]; a refusal into [`Failure`], which explains it.
//! [`Locks`] says when to lock, refresh and unlock; [`Abilities`] what else a server can do. `transfer::plan` says which
//! request of an upload may go when.
//!
//! # What is not believed
//! Paths from a server become names of files here, so each goes through [`RemotePath`], out of which nothing
//! escapes. XML is read with bounds on everything, and an answer that is cut off is an error and never a short list.

mod abilities;
mod client;
mod clock;
mod cloud;
mod coding;
mod compare;
mod condition;
mod date;
mod error;
mod etag;
mod failure;
mod gate;
mod guard;
mod listing;
mod lock_token;
mod locks;
mod lost;
mod multistatus;
mod names;
mod path;
mod properties;
mod put;
mod requests;
pub mod transfer;
mod xml;

pub use abilities::{Abilities, Chunking, ETags, Family};
pub use client::{Dav, Locked};
pub use condition::{Code, Condition, Refusal};
pub use error::Error;
pub use etag::ETag;
pub use failure::{Failure, retry_after};
pub use guard::{Guard, If};
pub use lock_token::LockToken;
pub use locks::{Action, Locks, Permit, Policy};
pub use lost::Done;
pub use multistatus::{End, Entry, Item, Multistatus};
pub use names::Name;
pub use path::{PathError, RemotePath, Unfit, harmless};
pub use properties::{ActiveLock, Lockable, Properties, Windows};
pub use put::Stored;
pub use requests::{Depth, Requests, Setting, Wanted};
pub use xml::{Problem, XmlError};
