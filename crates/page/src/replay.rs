//! Replay of a page: a server that answers for all its hosts, and a client that sends the recorded requests.
//!
//! A replay compares protocols ([`Protocol`]): the same requests with the same dependencies, over other connections and
//! other versions of HTTP. Everything else must stay the same:
//!
//! - The client is Longhaul's engine (`haul-http`), which also copies files. A protocol is a setting of it. So
//!   results apply to the engine that people use, not to one written for the benchmark.
//! - [`Order`] decides when a request may be sent, independently of the protocol: after the heads and ends that it
//!   waited for in the recording, and the computation in between. A connection opens when its first request is sent.
//! - The server ([`PageHandler`]) has every response ready in memory, so that only the network and the protocol take
//!   time. It plugs into `serve` ([`serve::Responder`]). It answers the requests of a browser as well, which may differ
//!   from the recorded ones.
//!
//! ```text
//!  Spec ──> Order: what may be sent now ──> load, by clients that share connections or do not
//!    │          ▲ heads, ends                   │ requests                  │ one Connector: cookies, tickets
//!    └──> PageHandler: answers ready in memory <───────┴─── cable ─────────────────┘
//! ```
//!
//! The second load counts. The first one, through the same [`Replay`], gets what an earlier visit leaves (a TCP Fast
//! Open cookie, TLS tickets), and closes its connections.

mod clients;
mod conditional;
mod handler;
mod held;
mod load;
mod nearest;
mod order;
mod protocol;
mod upgrade;
mod visits;

pub use handler::{PageHandler, TooLarge, WHICH, answers};
pub use load::{Load, Replay, ReplayError, Timing};
pub(crate) use nearest::Index;
pub use order::{Action, Order};
pub use protocol::{Http, Protocol, Session, UnknownProtocol};
pub use upgrade::over_tls;
pub use visits::visits;
