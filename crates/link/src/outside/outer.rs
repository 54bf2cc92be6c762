//! Two links in series: a link whose gateway joins it to the link at whose end the program runs.
//!
//! A cable without delay leads from the gateway into the network namespace in which the program was started: the end of the
//! outer link. That host forwards. The other hosts of the outer network know nothing of the inner one, so the cable
//! translates its addresses to one of the network that the outer link already has, which leads back to this end. Packets
//! pass both links unchanged otherwise: a connection is one connection from end to end. Mahimahi's nested shells are joined
//! in the same way, with the kernel's address translation.

use std::net::IpAddr;

use nix::errno::Errno;

use super::{OutsideError, step};
use crate::{
    addresses::{self, Addresses, NETWORKS},
    cable::{Cable, CableError, Options},
    host::Host,
    middleboxes::Middlebox,
    spec::LinkSpec,
    tun::TunError,
};

/// How often another number is tried. Links that start in parallel at the same end take the same one.
const ATTEMPTS: u16 = 100;

/// The cable from a gateway to the end of an outer link.
#[derive(Debug)]
pub(super) struct Outer {
    cable: Cable,
    number: u16,
}

impl Outer {
    /// Joins the gateway to the outer link; `None` if there is none, or if it cannot be changed from here.
    pub(super) fn join(gateway: &Host) -> Result<Option<Self>, OutsideError> {
        let (Some(outer), Some(first)) = (addresses::own(), addresses::first_free(1)) else { return Ok(None) };
        for number in first..NETWORKS.min(first.saturating_add(ATTEMPTS)) {
            let end = match Host::current(number) {
                Ok(end) => end,
                Err(error) => {
                    // For example, the command has dropped its capabilities.
                    tracing::debug!("not joined to the outer link: {error}");
                    return Ok(None);
                }
            };
            if let Err(error) = end.forward() {
                tracing::debug!("not joined to the outer link: {error}");
                return Ok(None);
            }
            // Beyond the two ends of the outer cable.
            let public = Addresses::of(outer, 3 + (number % 250) as u8);
            let nat = format!("nat:address={},address6={}", public.v4, public.v6);
            let middlebox =
                nat.parse::<Middlebox>().map_err(|error| step("translate addresses")(std::io::Error::other(error)))?;
            let lanes = LinkSpec { middlebox: vec![middlebox], ..LinkSpec::default() }.lanes();
            let lanes = lanes.map_err(|error| step("translate addresses")(std::io::Error::other(error)))?;
            let cable = match Cable::connect(gateway, &end, lanes, &Options { number, ..Options::default() }) {
                Err(CableError::Tun(TunError::Step { error, .. }))
                    if error.raw_os_error() == Some(Errno::EBUSY as i32) =>
                {
                    continue;
                }
                cable => cable?,
            };
            let gateway = cable.addresses()[0];
            end.route(IpAddr::V4(public.v4), 32, IpAddr::V4(gateway.v4))?;
            if let Err(error) = end.route(IpAddr::V6(public.v6), 128, IpAddr::V6(gateway.v6)) {
                tracing::warn!("an outer link without IPv6: {error}");
            }
            return Ok(Some(Self { cable, number }));
        }
        Ok(None)
    }

    /// The gateway's addresses on the cable.
    pub(super) fn address(&self) -> Addresses {
        self.cable.addresses()[0]
    }

    /// The number of the cable.
    pub(super) fn number(&self) -> u16 {
        self.number
    }
}
