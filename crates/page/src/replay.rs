//! Replay of a page: a server that answers for all its hosts, and a client that sends the recorded requests.
//!
//! What is compared are ways to ask ([`Protocol`]): the same requests with the same dependencies, over other connections
//! and other versions of HTTP. So everything else must stay the same, and that decides how this works:
//!
//! - The client is Longhaul's engine (`haul-http`), which also copies files. A protocol is a setting of it. So results
//!   apply to the engine that people use, not to one written for the benchmark.
//! - What may be sent when is decided by [`Order`], which knows no way: a request waits for the heads and ends that it
//!   waited for when it was recorded, and then for the computation in between. Connections open when their first
//!   request is sent, all that can at the same time.
//! - The server ([`PageHandler`]) has every response ready in memory, so that only the network and the protocol take time.
//!   It plugs into `serve` ([`serve::Responder`]).
//!
//! ```text
//!  Spec ──> Order: what may be sent now ──> load: one client for each recorded connection, or one for all
//!    │          ▲ heads, ends                   │ requests                  │ one Connector: cookies, tickets
//!    └──> PageHandler: answers ready in memory <───────┴─── cable ─────────────────┘
//! ```
//!
//! The second load counts. The first one, through the same [`Replay`], gets what only an earlier visit provides (a TCP
//! Fast Open cookie, TLS tickets), and closes its connections.

mod handler;
mod independent;
mod load;
mod order;
mod protocol;

pub use handler::{PageHandler, TooLarge, WHICH, answers};
pub use independent::visits;
pub use load::{Load, Replay, ReplayError, Timing};
pub use order::{Action, Order};
pub use protocol::{Http, Protocol, Session, UnknownProtocol};
