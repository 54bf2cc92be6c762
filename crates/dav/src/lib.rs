//! A WebDAV client for long links.
//!
//! WebDAV (RFC 4918) is HTTP with folders, properties and locks, and servers implement it differently. Which request to
//! send, what an answer means, what not to believe and in which order to transfer a tree: these decisions are plain data
//! and state machines, fed with bytes and times. So each can be tested without a server and attacked without a network.
//! [`Dav`] and [`transfer`] carry the decisions out, through [`haul_http`].
//!
//! ```no_run
//! use dav::{Dav, Depth, RemotePath, PropertySet};
//! use haul_http::{Client, Origin, Settings, auth::Authenticator};
//!
//! # async fn list() -> Result<(), Box<dyn std::error::Error>> {
//! let origin = Origin::of(&"https://dav.example.org/".parse()?)?;
//! let dav = Dav::new(Client::new(Settings::default(), Authenticator::default())?, origin);
//! let folder = RemotePath::from_url_path("/photos/")?;
//! dav.list(&folder, Depth::One, PropertySet::LISTING, |entry| match entry {
//!     Ok(entry) => println!("{} {:?}", entry.path, entry.properties.length),
//!     Err(error) => eprintln!("{error}"),
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```
//!
//! # How data passes through
//! [`Requests`] builds `http` requests for one server, with [`Precondition`] and [`If`]; [`Dav`] sends them. The body of a
//! listing goes piece by piece into [`Multistatus`], which returns an [`Entry`] for each resource as soon as it is
//! complete; the answer to LOCK into [`Properties::read`]; an error response into [`Failure`], which explains it.
//! [`Locks`] decides when to lock, refresh and unlock; [`siblings`] which files to fetch before they are read; [`Capabilities`] says what else a server supports.
//! `transfer::plan` decides which request of an upload may be sent when.
//!
//! # What is not trusted
//! Paths from a server become names of local files, so each goes through [`RemotePath`], from which nothing escapes. XML
//! is parsed with limits on everything, and a truncated answer is an error and never a short list.

/// The examples of the README are compiled with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod capabilities;
mod client;
mod content_encoding;
mod date;
mod error;
mod etag;
mod failure;
mod fence;
mod lock_token;
mod locks;
mod multistatus;
mod nextcloud;
mod path;
mod pattern;
mod precondition_codes;
mod preconditions;
mod properties;
mod qnames;
mod requests;
mod retry;
pub mod siblings;
mod terminal;
pub mod transfer;
mod xml;

pub use capabilities::{Capabilities, Chunking, ETags, Family};
pub use client::{Confirmed, Dav, Locked, RetryLimit, Stored};
pub use error::Error;
pub use etag::ETag;
pub use failure::{Failure, retry_after};
pub use fence::{AfterSilence, Fence};
pub use lock_token::LockToken;
pub use locks::{LockAction, LockPermit, LockPolicy, Locks};
pub use multistatus::{End, Entry, Item, Multistatus};
pub use path::{PathError, PathProblem, RemotePath};
pub use pattern::{Matches, Pattern};
pub use precondition_codes::{ConditionCode, ErrorBody, UnmetCondition};
pub use preconditions::{If, Precondition};
pub use properties::{ActiveLock, Lockable, Properties, Windows};
pub use qnames::QName;
pub use requests::{Depth, PropertySet, Requests, Setting};
pub use retry::Retry;
pub use terminal::terminal_safe;
pub use xml::{XmlError, XmlProblem};
