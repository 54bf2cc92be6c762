//! Three users at one gateway: nothing of one reaches another.
//!
//! The server gives each user other content under the same names, so that an answer which crosses over is seen, and
//! records what it gets. Each attack has a control: the same request works where it should.

mod apache;
mod bound;
mod caches;
mod connections;
mod http2;
mod journal;
mod locks;
#[path = "../common/passwords.rs"]
mod passwords;
mod paths;
mod raw;
mod smuggling;
mod upstream;
