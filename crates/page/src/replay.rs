//! Replaying a page: a server that answers for all its hosts, and a client that asks as the page's load did.
//!
//! What is compared are ways to ask ([`Over`]): the same requests with the same dependencies, over other connections
//! and other versions of HTTP. So everything else must stay the same, and that decides how this works:
//!
//! - The client is Longhaul's engine (`haul-http`), the one that copies files. A way is a setting of it. No engine was
//!   written for the benchmark, and what is found here holds for what people use.
//! - What may be sent when is decided by [`Order`], which knows no way: a request waits for the heads and ends that it
//!   waited for when it was recorded, and then for the computation in between. Connections open when their first
//!   request is sent, all that can at the same time.
//! - The server ([`Site`]) has every answer ready, so that its time is that of the network and of the protocol. It
//!   stands behind the doors of `serve` ([`serve::Responder`]).
//!
//! ```text
//!  Spec ──> Order: what may be sent now ──> load: one client for each recorded connection, or one for all
//!    │          ▲ heads, ends                   │ requests                  │ one Connector: cookies, tickets
//!    └──> Site: answers ready in memory <───────┴─── cable ─────────────────┘
//! ```
//!
//! The load that counts is the second: the first one, through the same [`Replay`], brings what only an earlier visit
//! can leave (TCP Fast Open's cookie, TLS tickets), and leaves its connections closed.

mod load;
mod order;
mod over;
mod site;
mod visits;

pub use load::{Load, Replay, ReplayError, Timing};
pub use order::{Action, Order};
pub use over::{Http, Over, Session, UnknownWay};
pub use site::{Site, TooLarge, WHICH, answers};
pub use visits::visits;
