//! A running network: the hosts and cables of a [`Topology`].

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Route, Topology};
use crate::{
    addresses::{Addresses, PREFIX, PREFIX6},
    cable::{Cable, CableError, Options, Traffic},
    host::{Host, HostError},
    lanes::Lanes,
    middleboxes::Middlebox,
    spec::{Change, ChangeError, LinkSpec, SpecError},
    tap::Tap,
};

/// Why a network could not be created or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A cable's description makes no sense, or its files cannot be read.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A cable could not be created or changed.
    #[error(transparent)]
    Cable(#[from] CableError),
    /// A host could not be set up.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A change makes no sense.
    #[error(transparent)]
    Change(#[from] ChangeError),
}

/// A running network. Dropping it disconnects its cables.
#[derive(Debug)]
pub struct Network {
    topology: Topology,
    hosts: Vec<Host>,
    cables: Vec<Cable>,
    /// What each cable is now.
    specs: Mutex<Vec<LinkSpec>>,
}

impl Network {
    /// Connects the topology's hosts, which have no cables yet, and sets up their routes.
    ///
    /// `lanes` are the stages of each cable's spec. The cables are numbered from `first_number` on. `tap` returns the
    /// capture at the end of a cable: host, cable. `continues` is asked before each step; its error ends the work.
    pub fn connect<E: From<NetworkError>>(
        topology: Topology,
        hosts: Vec<Host>,
        lanes: Vec<Lanes>,
        first_number: u16,
        mut tap: impl FnMut(usize, usize) -> Result<Option<Arc<Tap>>, E>,
        continues: impl Fn() -> Result<(), E>,
    ) -> Result<Self, E> {
        for (index, host) in hosts.iter().enumerate() {
            if topology.cables_of(index).nth(1).is_some() {
                host.forward().map_err(NetworkError::from)?;
                // With several ways, an answer may come from another side than its request. Old kernels lack the setting.
                for which in ["all", "default"] {
                    let _ = host.sysctl(&format!("net.ipv4.conf.{which}.rp_filter"), "0");
                }
            }
        }
        let mut cables = Vec::new();
        for (index, (plan, lanes)) in topology.cables.iter().zip(lanes).enumerate() {
            continues()?;
            let [a, b] = plan.ends;
            let taps = [tap(a, index)?, tap(b, index)?];
            let options = Options { number: first_number + index as u16, mtu: plan.spec.device_mtu(), taps };
            cables.push(Cable::connect(&hosts[a], &hosts[b], lanes, &options).map_err(NetworkError::from)?);
        }
        let specs = Mutex::new(topology.cables.iter().map(|cable| cable.spec.clone()).collect());
        let network = Self { topology, hosts, cables, specs };
        for route in network.topology.routes() {
            continues()?;
            network.set_route(&route, first_number)?;
        }
        Ok(network)
    }

    fn set_route(&self, route: &Route, first_number: u16) -> Result<(), NetworkError> {
        let network = Addresses::of(first_number + route.to as u16, 0);
        let (cable, next) = route.via;
        let gateway = self.address_at(next, cable);
        let host = &self.hosts[route.host];
        host.route(IpAddr::V4(network.v4), PREFIX, IpAddr::V4(gateway.v4))?;
        // Without IPv6 in the kernel, the cables carry IPv4 only.
        if let Err(error) = host.route(IpAddr::V6(network.v6), PREFIX6, IpAddr::V6(gateway.v6)) {
            tracing::warn!("a route without IPv6: {error}");
        }
        Ok(())
    }

    /// Leads everything that no cable's network has to the gateway, whose own default route leads outside.
    pub fn route_outside(&self) -> Result<(), NetworkError> {
        for (host, cable, next) in self.topology.hops_to_gateway() {
            // The first cable has the default route already.
            if self.topology.cables_of(host).next().is_some_and(|(first, _)| first == cable) {
                continue;
            }
            let to = self.address_at(next, cable);
            self.hosts[host].route(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0, IpAddr::V4(to.v4))?;
            if let Err(error) = self.hosts[host].route(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0, IpAddr::V6(to.v6)) {
                tracing::warn!("no way outside over IPv6: {error}");
            }
        }
        // Answers to translated addresses took the gateway's default route before.
        for (cable, plan) in self.topology.cables_of(self.topology.gateway) {
            let back = self.address_at(plan.other_end(self.topology.gateway), cable);
            for (network, prefix) in plan.spec.middlebox.iter().flat_map(Middlebox::public_networks) {
                let back = if network.is_ipv4() { IpAddr::V4(back.v4) } else { IpAddr::V6(back.v6) };
                self.hosts[self.topology.gateway].route(network, prefix, back)?;
            }
        }
        Ok(())
    }

    /// The hosts, in the order of the topology.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The cables, in the order of the topology.
    pub fn cables(&self) -> &[Cable] {
        &self.cables
    }

    /// What was built.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The addresses of a host: those on its first cable. `None` if it has no cable.
    pub fn address(&self, host: usize) -> Option<Addresses> {
        self.topology.cables_of(host).next().map(|(cable, _)| self.address_at(host, cable))
    }

    fn address_at(&self, host: usize, cable: usize) -> Addresses {
        let end = usize::from(self.topology.cables[cable].ends[1] == host);
        self.cables[cable].addresses()[end]
    }

    /// Applies changes, all or none of them. Returns the changed cables with what they are now.
    pub fn change(&self, changes: &[Change]) -> Result<Vec<(&str, LinkSpec)>, NetworkError> {
        let mut specs = self.specs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = specs.clone();
        let mut indices = Vec::new();
        for change in changes {
            let index = self.topology.change(&mut new, change)?;
            if !indices.contains(&index) {
                indices.push(index);
            }
        }
        let mut lanes = Vec::new();
        for index in &indices {
            new[*index].check_rereadable()?;
            lanes.push(new[*index].lanes()?);
            self.cables[*index].check()?;
        }
        for (index, lanes) in indices.iter().zip(lanes) {
            self.cables[*index].change(lanes)?;
        }
        *specs = new;
        let now = |index: usize| (self.topology.cables[index].name.as_str(), specs[index].clone());
        Ok(indices.into_iter().map(now).collect())
    }

    /// Disconnects all cables, and returns the counters of each. The kernel takes some 50 ms to remove a device, for many
    /// at a time as for one.
    pub fn disconnect(self) -> Result<Vec<[Traffic; 2]>, CableError> {
        std::thread::scope(|scope| {
            let ending: Vec<_> = self.cables.into_iter().map(|cable| scope.spawn(|| cable.disconnect())).collect();
            let ended = ending.into_iter().map(|cable| cable.join().unwrap_or_else(|panic| resume_unwind(panic)));
            ended.collect()
        })
    }
}
