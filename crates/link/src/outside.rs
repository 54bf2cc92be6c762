//! The gateway: the host of a network through which the others reach what is beyond it.
//!
//! The gateway is the far end of the link, so that its delay, rate and loss also apply on the way to a real server, as in
//! Mahimahi's shells. Beyond it is
//!
//! - **the outer link** ([`outer`]), if the program itself runs at the end of one: two links in series;
//! - **the machine's network** ([`passt`]), if wanted. That must change nothing on the machine: no forwarding, no address
//!   translation, no device that remains after a `kill -9`; and it must work for an ordinary user.
//!
//! No address of a host maps to the machine's loopback. Only the machine's resolver is reachable there: see [`dns`].

mod dns;
mod outer;
mod passt;

use std::{io, net::IpAddr};

use crate::{
    cable::CableError,
    host::{Host, HostError},
    outside::{dns::Resolvers, outer::Outer, passt::Passt},
    tun::TunError,
};

/// Why a host cannot reach the machine's network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutsideError {
    /// passt is not installed.
    #[error("`--outside` needs the program `passt`; install the package passt")]
    Missing,
    /// The machine has no network.
    #[error("no host can reach the outside: this machine has no default route")]
    Nowhere,
    /// passt failed.
    #[error("no host can reach the outside: passt failed: {0}")]
    Refused(String),
    /// passt did not get ready.
    #[error("no host can reach the outside: passt was not ready within {} s", passt::READY_TIMEOUT.as_secs())]
    Slow,
    /// The device could not be created.
    #[error(transparent)]
    Device(#[from] TunError),
    /// The cable to an outer link could not be connected.
    #[error(transparent)]
    Cable(#[from] CableError),
    /// A host could not be set up.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A step failed.
    #[error("cannot {what} for access to the outside: {error}")]
    Step {
        /// What was tried.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

fn step<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> OutsideError {
    move |error| OutsideError::Step { what, error: error.into() }
}

/// A gateway's way to what is beyond the network. Dropping it ends it.
#[derive(Debug)]
pub struct Outside {
    _resolvers: Option<Resolvers>,
    beyond: Beyond,
}

#[derive(Debug)]
enum Beyond {
    /// The machine's network.
    Machine(Passt),
    /// An outer link, over a cable with this number.
    Outer(Outer),
}

impl Outside {
    /// Joins `gateway` to the link at whose end the calling process runs, if there is one, and lets `client` use the
    /// machine's resolvers. Open it before the gateway's first cable is connected: the first device gets the default route.
    pub fn join_outer_link(gateway: &Host, client: &Host) -> Result<Option<Self>, OutsideError> {
        let Some(outer) = Outer::join(gateway)? else { return Ok(None) };
        Self::with(Beyond::Outer(outer), gateway, client).map(Some)
    }

    /// The same with the machine's network.
    pub fn open(gateway: &Host, client: &Host) -> Result<Self, OutsideError> {
        Self::with(Beyond::Machine(Passt::start(gateway)?), gateway, client)
    }

    fn with(beyond: Beyond, gateway: &Host, client: &Host) -> Result<Self, OutsideError> {
        gateway.forward()?;
        let address = match &beyond {
            Beyond::Machine(passt) => passt.address,
            Beyond::Outer(outer) => IpAddr::V4(outer.address().v4),
        };
        let resolvers = Resolvers::start(client, gateway, address).map_err(step("start the DNS proxy"))?;
        Ok(Self { _resolvers: resolvers, beyond })
    }

    /// Whether it is an outer link.
    pub fn is_outer_link(&self) -> bool {
        matches!(self.beyond, Beyond::Outer(_))
    }

    /// The number from which on the network's cables may be numbered.
    pub fn first_free(&self, count: u16) -> Option<u16> {
        match &self.beyond {
            Beyond::Machine(_) => crate::addresses::first_free(count),
            Beyond::Outer(outer) => crate::addresses::above(Some(outer.number()), count),
        }
    }
}
