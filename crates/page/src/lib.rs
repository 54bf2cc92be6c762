//! Page loads: written down, imported, recorded, replayed.
//!
//! How long a page takes is decided less by its bytes than by its shape: which request had to wait for which response,
//! and how many connections had to be opened before it could be sent. A [`Spec`] is that shape, and nothing else: the
//! requests of one load, their sizes, the connections they went over, and what each waited for. It is a file that a
//! person can read and change, and everything in this room either makes one or runs one:
//!
//! ```text
//!  HAR, capture, 2013 manifests ──> import ──┐                  ┌──> schedule: depth, critical path, floor; waterfall
//!  a site, by headless Chromium ──> record ──┼──> Spec (file) ──┤
//!  a text editor ────────────────────────────┘                  └──> replay: server and client, over a real network
//! ```
//!
//! - [`spec`] reads, checks and writes the file. What has passed can be replayed: no cycle, no missing request, no head
//!   too small for what stands in it.
//! - [`import`] makes specs of what others wrote down, and says what it had to assume.
//! - [`mod@record`] has [`browser`] load a page and listens to what it asks for.
//! - [`schedule`](mod@schedule) is the load on an ideal network: it gives a measured load the floor to be compared
//!   with.
//! - [`replay`] runs one: a server that answers for all its hosts, and a client that asks as the load did.
//! - Bodies that nobody kept are synthesised ([`Body`]): bytes that no compression shrinks, the same in every run; of a
//!   page's HTML, HTML that asks for the rest ([`Spec::body`]).

mod body;
pub mod browser;
mod document;
mod head;
pub mod import;
pub mod json;
pub mod record;
pub mod replay;
pub mod schedule;
mod shipped;
pub mod spec;
pub mod text;

pub use body::Body;
pub use head::PAD;
pub use schedule::{Connections, Schedule, Way};
pub use shipped::SHIPPED;
pub use spec::{After, Request, Response, Spec, SpecError, Until};
