//! Scripted WebDAV servers for tests.
//!
//! A [`Double`] listens on loopback, keeps its files in memory, and goes wrong on demand. Real servers do not answer
//! in the wrong order, lose requests or send wrong digests when a test would like them to.
//!
//! It is told what to do in one of two ways. A [`Script`] is asked before each request what is to go wrong with it (a
//! [`Fault`]): for tests of one fault at one place. [`behaviours`] are what a server *is like*: it has no ETags, its
//! clock is ahead, it answers as it is done. They go together, draw from a seed, and are listed for tables of all that
//! may happen ([`behaviours::ALL`], [`behaviours::VALIDATORS`]).

pub mod behaviour;
pub mod behaviours;
mod connection;
mod content;
mod digest_auth;
mod digest_headers;
mod double;
pub mod nextcloud;
mod paths;
mod proppatch;
mod representation;
mod verbs;
mod wire;

pub use behaviour::Behaviour;
pub use content::noise;
pub use digest_auth::DigestAuth;
pub use digest_headers::StatedDigests;
pub use double::{Double, Fault, Manner, Reports, Script};
pub use paths::{decode, encode};
