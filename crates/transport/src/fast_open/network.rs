//! The current network, identified by the machine's default routes and addresses (rtnetlink(7)).
//!
//! Two networks with the same private addresses differ in their gateway's link-layer address, if the kernel knows it; a
//! machine that moves between them must not present the first one's cookie in the second. A change that is no move,
//! such as a second interface, counts as a new network too: a forgotten cookie costs one round trip, a remembered one
//! could cost privacy.

use std::{
    collections::BTreeSet,
    sync::Mutex,
    time::{Duration, Instant},
};

use super::netlink::{ROUTE, ask, attributes};
use crate::stable_hash;

/// How long a result is cached: connections made together are in one network.
const FRESH: Duration = Duration::from_millis(500);

/// `struct ifaddrmsg`, `struct rtmsg` and `struct ndmsg`: how long they are.
const ADDRESS: usize = 8;
const ROUTES: usize = 12;
const NEIGHBOUR: usize = 12;

/// The network, with a short-lived cache.
#[derive(Debug, Default)]
pub(super) struct Network(Mutex<Option<(Instant, u64)>>);

impl Network {
    /// A hash of the current network. If the kernel reports nothing, all networks are the same.
    pub(super) fn now(&self) -> u64 {
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match *last {
            Some((at, number)) if at.elapsed() < FRESH => number,
            _ => {
                let number = number();
                *last = Some((Instant::now(), number));
                number
            }
        }
    }
}

/// A hash of everything that distinguishes networks.
fn number() -> u64 {
    let dump = |kind: u16| ask(ROUTE, kind, libc::NLM_F_DUMP, &[0; 16]).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut gateways = BTreeSet::new();
    for route in dump(libc::RTM_GETROUTE) {
        // Default routes have a destination of zero bits; take their gateway and device.
        let Some((&[_, 0, ..], rest)) = route.split_at_checked(ROUTES) else { continue };
        let told = attributes(rest).filter(|(kind, _)| matches!(*kind, libc::RTA_GATEWAY | libc::RTA_OIF));
        let told: Vec<_> = told.map(|(kind, value)| (kind, value.to_vec())).collect();
        gateways.extend(told.iter().filter(|(kind, _)| *kind == libc::RTA_GATEWAY).map(|(_, value)| value.clone()));
        seen.insert((0, told));
    }
    for address in dump(libc::RTM_GETADDR) {
        let Some(([_, bits, _, scope, device @ ..], rest)) = address.split_at_checked(ADDRESS) else { continue };
        // Host-scope addresses are the same everywhere. IPv6 privacy addresses come and go, so only the prefix counts.
        if *scope == libc::RT_SCOPE_HOST {
            continue;
        }
        let told = attributes(rest).filter(|(kind, _)| *kind == libc::IFA_ADDRESS);
        let network = usize::from(bits / 8).min(16);
        let prefix = |value: &[u8]| if value.len() == 16 { value[..network].to_vec() } else { value.to_vec() };
        seen.insert((1, told.map(|(_, value)| (device[0].into(), prefix(value))).collect()));
    }
    for neighbour in dump(libc::RTM_GETNEIGH) {
        let Some((_, rest)) = neighbour.split_at_checked(NEIGHBOUR) else { continue };
        let told: Vec<_> = attributes(rest).collect();
        let of = |kind: u16| told.iter().find(|(this, _)| *this == kind).map(|(_, value)| value.to_vec());
        if let (Some(address), Some(link)) = (of(libc::NDA_DST), of(libc::NDA_LLADDR))
            && gateways.contains(&address)
        {
            seen.insert((2, vec![(0, address), (0, link)]));
        }
    }
    let mut parts = Vec::new();
    for (kind, attributes) in &seen {
        parts.push(vec![*kind, u8::try_from(attributes.len()).unwrap_or(u8::MAX)]);
        parts.extend(attributes.iter().flat_map(|(kind, value)| [kind.to_be_bytes().to_vec(), value.clone()]));
    }
    let parts: Vec<&dyn AsRef<[u8]>> = parts.iter().map(|part| part as _).collect();
    stable_hash("longhaul.network/1", &parts)
}
