//! Scripted WebDAV servers for tests.
//!
//! A [`Double`] is a test double: it listens on loopback, keeps its files in memory, and misbehaves on demand. Real
//! servers do not reorder responses, lose requests or send wrong digests when a test needs it.
//!
//! There are two ways to make it misbehave. A [`Script`] is called before each request and returns a [`Fault`], for
//! tests of one fault in one place. A [`Behaviour`] is a property of the whole server: it has no ETags, its clock is
//! ahead, it answers out of order. Behaviours can be combined, draw from a seed, and are listed for tables of all
//! combinations ([`behaviours::ALL`], [`behaviours::VALIDATORS`]).
//!
//! [`Apache`] is a real server. A [`LateProxy`] does to the requests for one what networks do, and a [`HoldingLink`] keeps one
//! request.

mod apache;
mod behaving_connection;
pub mod behaviour;
pub mod behaviours;
mod content;
mod dead_properties;
mod digest_auth;
mod digest_headers;
mod double;
mod holding_link;
mod late_proxy;
mod message;
mod names_and_validators;
pub mod nextcloud;
mod paths;
mod scripted_connection;
mod verbs;

pub use apache::Apache;
pub use behaviour::Behaviour;
pub use content::noise;
pub use digest_auth::DigestAuth;
pub use digest_headers::UploadDigests;
pub use double::{Double, Fault, Script, ServerProfile, SyncReports};
pub use holding_link::HoldingLink;
pub use late_proxy::LateProxy;
pub use paths::{decode, encode};
