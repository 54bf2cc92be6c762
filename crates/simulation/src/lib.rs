//! A WebDAV server and the network in front of it, in simulated time.
//!
//! Faults of what is written behind hide in the order of events: a request that the server carries out a minute after its
//! client has given up, a second copy of it, an answer that never comes, a program that is killed between two writes. A
//! test over real sockets meets few of these orders and repeats none. Here the real client runs (`haul_http`, `dav`, and
//! what is built on them), in one thread, under tokio's paused clock; only the other end of the connection is a model. An
//! hour passes in milliseconds, and a seed repeats a run. FoundationDB, TigerBeetle and Dropbox ("Testing sync at
//! Dropbox", 2020) test their engines so.
//!
//! ```text
//! client ── haul_http::Client::with_dialer(.., network.dialer()) ── Network: a fate for each request ── Server
//!                                                                                                        │
//! other clients ───────────── Network::server(): Server::store, remove, lock ──────────────────────────> │ every change
//! Oracle: what was confirmed to programs ─────────────── judge(server) ────────────────────────────────── ┘
//! ```
//!
//! - [`Network`] draws the [`Fate`] of each request, at rates that are drawn from the seed themselves: most runs see few
//!   kinds of faults, but each of them often ("swarm testing"). [`Network::end_faults`] ends them: a test then lets time
//!   pass and sees whether all comes to rest.
//! - [`Server`] is correct, and follows the RFCs or Apache where they differ ([`Profile`]). It records each change.
//! - [`Oracle`] knows what programs were told, and says what was lost.
//!
//! What a fate is drawn from is the request itself and how often it came before, not the order in which requests arrive: a
//! thread of the runtime that finishes sooner or later (tokio runs file operations on threads of their own) must not change
//! the fates of all that follows.

mod conditions;
mod fates;
mod network;
mod oracle;
mod random;
mod request;
mod server;
mod weather;

pub use fates::{Fate, Rates};
pub use network::Network;
pub use oracle::{Oracle, Renaming, original};
pub use random::{Random, fill};
pub use request::{Request, Response};
pub use server::{Author, Change, Lock, Profile, Server, Version};
pub use weather::{Spell, Weather};
