//! Page loads: specified, imported, recorded, replayed.
//!
//! The load time of a page depends less on its bytes than on its dependencies: which request waits for which response,
//! and for how many new connections. A [`Spec`] contains exactly that: the requests of one load, their sizes, their
//! connections, and what each waited for. It is a file that people can read and edit. Everything in this crate creates
//! one or runs one:
//!
//! ```text
//!  HAR, capture, 2013 manifests ──> import ──┐                  ┌──> schedule: depth, critical path, floor; waterfall
//!  a site, by headless Chromium ──> record ──┼──> Spec (file) ──┤
//!  a text editor ────────────────────────────┘                  └──> replay: server and client, over a real network
//! ```
//!
//! - [`spec`] reads, checks and writes the file. A checked spec can be replayed: it has no cycle, no missing request, and
//!   no head that is too small for its fields.
//! - [`import`] converts other files to specs, and notes its assumptions.
//! - [`mod@record`] loads a page in a [`browser`], and records its requests.
//! - [`schedule`](mod@schedule) calculates the load on an ideal network: the floor for measured loads.
//! - [`replay`] runs a spec: a server that answers for all its hosts, and a client that sends the recorded requests.
//! - [`Spec::repeat_view`] is what a browser with a warm cache still requests.
//! - Missing bodies are synthesised ([`Body`]): incompressible bytes, the same in every run. Missing HTML of the page
//!   itself becomes HTML that requests the rest ([`Spec::body`]).
//!
//! ```
//! use std::time::Duration;
//! use page::Spec;
//!
//! let page = Spec::find("wikipedia")?;
//! assert_eq!((page.requests.len(), page.depth()), (56, 5));
//! let rtt = Duration::from_millis(100);
//! assert!(page.floor(rtt, None) >= rtt * 5);
//! # Ok::<(), page::SpecError>(())
//! ```

mod body;
mod body_file;
pub mod browser;
mod cache;
mod head_padding;
pub mod import;
pub mod record;
pub mod replay;
pub mod schedule;
mod shipped;
pub mod spec;
pub mod speed_index;
mod synthetic_html;
pub mod waterfall;
pub mod waterfall_json;

pub use body::Body;
pub use cache::RepeatView;
pub use head_padding::PAD;
pub use schedule::{Connections, IdealNetwork, Schedule};
pub use shipped::SHIPPED;
pub use spec::{After, Hold, Priority, Request, Response, Spec, SpecError, Until};
