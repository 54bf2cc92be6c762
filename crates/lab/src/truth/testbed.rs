//! Three hosts in a row, with a tap at three places.
//!
//! ```text
//! client ──┬── link 0 ── router ──┬── link 1 ──┬── server
//!          ╰ tap "client"         ╰ "middle"   ╰ "server"
//! ```
//!
//! The router is a host that forwards packets in its kernel, as a real one does, so that the capture in the middle is one
//! of a machine between the two ends.

use std::{net::Ipv4Addr, path::Path, sync::Arc};

use link::{
    cable::{Cable, Options},
    host::Host,
    tap::Tap,
};

use super::{VANTAGES, measure::SNAPLEN, scenario::Scenario};
use crate::{machine, testbed::TestbedError};

/// The hosts and links of one run.
pub(crate) struct Testbed {
    pub(crate) client: Host,
    pub(crate) server: Host,
    pub(crate) router: Host,
    cables: [Cable; 2],
    taps: Vec<Arc<Tap>>,
}

impl Testbed {
    /// Creates them; the captures go to `folder`.
    pub(crate) fn create(scenario: &Scenario, folder: &Path) -> Result<Self, TestbedError> {
        let (client, router, server) = (Host::new("client")?, Host::new("router")?, Host::new("server")?);
        router.forward()?;
        let tap = |name: &str| Tap::create(&folder.join(name).with_extension("pcapng"), name, Some(SNAPLEN));
        let taps = VANTAGES.map(tap).into_iter().map(|tap| tap.map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        let link = |index: usize| scenario.links[index].lanes();
        let near = Options { taps: [taps.first().cloned(), None], ..Options::default() };
        let far = Options { number: 1, taps: [taps.get(1).cloned(), taps.get(2).cloned()], ..Options::default() };
        let cables =
            [Cable::connect(&client, &router, link(0)?, &near)?, Cable::connect(&router, &server, link(1)?, &far)?];
        // Competing downloads may run on the router, with the client's settings.
        let at_client = &scenario.client.sysctls;
        for (host, sysctls) in [(&client, at_client), (&router, at_client), (&server, &scenario.server.sysctls)] {
            host.sysctl(machine::CONGESTION_CONTROL, &scenario.congestion_control)?;
            for (name, value) in sysctls {
                host.sysctl(name, value)?;
            }
        }
        Ok(Self { client, server, router, cables, taps })
    }

    /// The server's address.
    pub(crate) fn address(&self) -> Ipv4Addr {
        self.cables[1].addresses()[1].v4
    }

    /// Whether the links still carry packets.
    pub(crate) fn check(&self) -> Result<(), TestbedError> {
        Ok(self.cables.iter().try_for_each(Cable::check)?)
    }

    /// Tears everything down, and completes the captures. Returns the packets that the emulator was too slow to take.
    pub(crate) fn end(self) -> Result<u64, TestbedError> {
        let mut drops = 0;
        for cable in self.cables {
            drops += cable.disconnect()?.iter().map(|direction| direction.device_drops).sum::<u64>();
        }
        for tap in self.taps {
            if let Some(tap) = Arc::into_inner(tap) {
                tap.finish()?;
            }
        }
        Ok(drops)
    }
}
