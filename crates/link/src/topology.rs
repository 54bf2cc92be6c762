//! Hosts, routers and the cables between them: a network described in a file.
//!
//! ```toml
//! default = "client"            # where the command runs
//!
//! [host.client]
//! [host.router]
//! [host.server]
//! command = "python3 -m http.server 8000"
//!
//! [cable.access]
//! between = ["client", "router"]
//! rate = "20mbit"
//!
//! [cable.backbone]
//! between = ["router", "server"]
//! rtt = "80ms"
//! ```
//!
//! A [`Topology`] is the checked description, and knows the routes: each packet takes the way over the fewest cables, and of
//! several such ways the one with the shortest RTT. A host with several cables is a router. A [`Network`] is what runs.

mod file;
mod names;
mod network;

pub use file::TopologyError;
pub use names::{hide_resolvers, install as install_names};
pub use network::{Network, NetworkError};

use crate::spec::{Change, ChangeError, LinkSpec};

/// Maximum number of cables; each takes two threads.
pub const MAX_CABLES: usize = 256;

/// Hosts and cables. All hosts can reach one another.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// The hosts.
    pub hosts: Vec<HostPlan>,
    /// The cables.
    pub cables: Vec<CablePlan>,
    /// The index of the host on which the command runs.
    pub default: usize,
    /// The index of the host that leads outside (see [`crate::outside`]), if anything does.
    pub gateway: usize,
}

/// A host to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPlan {
    /// Its name, valid in DNS: lower-case letters, digits and hyphens.
    pub name: String,
    /// A command for `sh`, such as a server.
    pub command: Option<String>,
    /// Whether that command is a server, which listens before the default host's command starts.
    pub listens: bool,
}

/// A cable to be connected.
#[derive(Debug, Clone, PartialEq)]
pub struct CablePlan {
    /// Its name.
    pub name: String,
    /// The indices of its hosts: end A (the client's side: packets from here go up) and end B.
    pub ends: [usize; 2],
    /// What the cable does to packets.
    pub spec: LinkSpec,
}

/// A hop towards the network of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The host that has the route.
    pub host: usize,
    /// The cable whose network it leads to.
    pub to: usize,
    /// The cable to use, and the host at its other end.
    pub via: (usize, usize),
}

impl Topology {
    /// A client and a server, joined by one link.
    pub fn pair(spec: LinkSpec, server_command: Option<String>) -> Self {
        let host = |name: &str, command| HostPlan { name: name.to_owned(), command, listens: true };
        let link = CablePlan { name: "link".to_owned(), ends: [0, 1], spec };
        Self {
            hosts: vec![host("client", None), host("server", server_command)],
            cables: vec![link],
            default: 0,
            gateway: 1,
        }
    }

    /// The cables of a host, in the order of the file.
    pub fn cables_of(&self, host: usize) -> impl Iterator<Item = (usize, &CablePlan)> {
        self.cables.iter().enumerate().filter(move |(_, cable)| cable.ends.contains(&host))
    }

    /// Applies a change to the specs of the cables, and returns the index of the changed one.
    pub fn change(&self, specs: &mut [LinkSpec], change: &Change) -> Result<usize, ChangeError> {
        let names = || self.cables.iter().map(|cable| cable.name.as_str()).collect::<Vec<_>>().join(", ");
        let index = match &change.cable {
            Some(name) => self
                .cables
                .iter()
                .position(|cable| cable.name == *name)
                .ok_or_else(|| ChangeError::new(format!("there is no cable `{name}`; there are: {}", names())))?,
            None if self.cables.len() == 1 => 0,
            None => {
                let text = format!("`{change}` names no cable; write `CABLE.{change}` with one of: {}", names());
                return Err(ChangeError::new(text));
            }
        };
        let new = change.apply(&specs[index])?;
        // The devices keep the MTU with which they were created.
        let mtu = self.cables[index].spec.device_mtu();
        if new.device_mtu() > mtu {
            let text =
                format!("`{change}`: the MTU cannot grow beyond that at the start, {mtu}; start with a larger one");
            return Err(ChangeError::new(text));
        }
        specs[index] = new;
        Ok(index)
    }

    /// The routes of all hosts to the networks of the cables that they do not have themselves.
    pub fn routes(&self) -> Vec<Route> {
        let mut routes = Vec::new();
        for (to, target) in self.cables.iter().enumerate() {
            let distances = self.distances(&target.ends);
            for host in (0..self.hosts.len()).filter(|host| !target.ends.contains(host)) {
                let hop = |(cable, plan): (usize, &CablePlan)| {
                    let next = plan.other_end(host);
                    distances[next].map(|distance| (plan.longer(distance), cable, next))
                };
                if let Some((_, cable, next)) = self.cables_of(host).filter_map(hop).min() {
                    routes.push(Route { host, to, via: (cable, next) });
                }
            }
        }
        routes
    }

    /// The next hop of each host towards the gateway: the host, the cable, and the host at its other end.
    pub(crate) fn hops_to_gateway(&self) -> Vec<(usize, usize, usize)> {
        let distances = self.distances(&[self.gateway]);
        let hop = |host: usize| {
            let hops = self.cables_of(host).filter_map(|(cable, plan)| {
                let next = plan.other_end(host);
                distances[next].map(|distance| (plan.longer(distance), cable, next))
            });
            hops.min().map(|(_, cable, next)| (host, cable, next))
        };
        (0..self.hosts.len()).filter(|host| *host != self.gateway).filter_map(hop).collect()
    }

    /// The distance of each host from the nearest of these; `None` if there is no way.
    fn distances(&self, from: &[usize]) -> Vec<Option<Distance>> {
        let mut distances = vec![None; self.hosts.len()];
        for host in from {
            distances[*host] = Some(Distance::default());
        }
        // Bellman and Ford: no way has more cables than there are hosts.
        for _ in 0..self.hosts.len() {
            let before = distances.clone();
            for cable in &self.cables {
                for [from, to] in [cable.ends, [cable.ends[1], cable.ends[0]]] {
                    let longer = before[from].map(|distance| cable.longer(distance));
                    distances[to] = [distances[to], longer].into_iter().flatten().min();
                }
            }
            if before == distances {
                break;
            }
        }
        distances
    }
}

/// Cables, then nanoseconds of RTT.
type Distance = (usize, u128);

impl CablePlan {
    fn other_end(&self, host: usize) -> usize {
        if self.ends[0] == host { self.ends[1] } else { self.ends[0] }
    }

    fn longer(&self, (cables, rtt): Distance) -> Distance {
        (cables + 1, rtt + self.spec.rtt.total().as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hosts 0 to `hosts`, and cables of these ends and RTTs in milliseconds.
    fn topology(hosts: usize, cables: &[(usize, usize, u64)]) -> Topology {
        let host = |n| HostPlan { name: format!("h{n}"), command: None, listens: true };
        let cable = |(n, (a, b, rtt)): (usize, &(usize, usize, u64))| {
            let rtt = format!("{rtt}ms").parse().unwrap();
            CablePlan { name: format!("c{n}"), ends: [*a, *b], spec: LinkSpec { rtt, ..LinkSpec::default() } }
        };
        let cables = cables.iter().enumerate().map(cable).collect();
        Topology { hosts: (0..hosts).map(host).collect(), cables, default: 0, gateway: 0 }
    }

    fn via(topology: &Topology, host: usize, to: usize) -> Option<(usize, usize)> {
        topology.routes().into_iter().find(|route| (route.host, route.to) == (host, to)).map(|route| route.via)
    }

    #[test]
    fn routes_have_the_fewest_cables_and_then_the_shortest_rtt() {
        // 0 ─ 1 ─ 2 ─ 3, where 1 ─ 2 is doubled, and a long way 1 ─ 4 ─ 3 of as many cables.
        let net = topology(5, &[(0, 1, 1), (1, 2, 9), (1, 2, 3), (2, 3, 5), (1, 4, 4), (4, 3, 5)]);
        assert_eq!(via(&net, 0, 3), Some((0, 1)));
        assert_eq!(via(&net, 1, 3), Some((2, 2)), "the shorter of two parallel cables");
        assert_eq!(via(&net, 0, 0), None, "its own network needs no route");
        assert_eq!(via(&net, 3, 0), Some((3, 2)), "5 + 3 ms are shorter than 5 + 4 ms");
    }

    #[test]
    fn change_needs_the_name_of_a_cable_if_there_are_several() {
        let change = |net: &Topology, text: &str| {
            let mut specs: Vec<_> = net.cables.iter().map(|cable| cable.spec.clone()).collect();
            net.change(&mut specs, &text.parse().unwrap()).map(|index| (index, specs[index].to_string()))
        };
        let net = topology(3, &[(0, 1, 1), (1, 2, 9)]);
        assert_eq!(change(&net, "c1.loss=1%"), Ok((1, "9ms RTT, loss 1%".to_owned())));
        assert!(change(&net, "loss=1%").unwrap_err().to_string().contains("write `CABLE.loss=1%` with one of: c0, c1"));
        assert!(change(&net, "c2.loss=1%").unwrap_err().to_string().contains("no cable `c2`; there are: c0, c1"));
        let pair = Topology::pair(LinkSpec::default(), None);
        let growing = change(&pair, "mtu=1501").unwrap_err().to_string();
        assert!(growing.contains("cannot grow beyond that at the start, 1500"), "{growing}");
        let jumbo = LinkSpec { mtu: "9000".parse().ok(), ..LinkSpec::default() };
        assert!(change(&Topology::pair(jumbo, None), "mtu=1501").is_ok());
        assert_eq!(change(&pair, "rtt=1ms").unwrap(), change(&pair, "link.rtt=1ms").unwrap());
    }

    proptest! {
        /// Packets reach every network from everywhere, and never circle.
        #[test]
        fn routes_lead_to_their_network(
            parents in proptest::collection::vec(any::<proptest::sample::Index>(), 1..12),
            more in proptest::collection::vec((0usize..12, 0usize..12, 0u64..5), 0..8),
        ) {
            let hosts = parents.len() + 1;
            let tree = parents.iter().enumerate().map(|(n, parent)| (parent.index(n + 1), n + 1, n as u64 % 3));
            let more = more.into_iter().map(|(a, b, rtt)| (a % hosts, b % hosts, rtt)).filter(|(a, b, _)| a != b);
            let net = topology(hosts, &tree.chain(more).collect::<Vec<_>>());
            let routes = net.routes();
            for to in 0..net.cables.len() {
                for start in 0..hosts {
                    let (mut host, mut hops) = (start, 0);
                    while !net.cables[to].ends.contains(&host) {
                        let route = routes.iter().find(|route| (route.host, route.to) == (host, to)).unwrap();
                        prop_assert!(net.cables[route.via.0].ends.contains(&host));
                        host = route.via.1;
                        hops += 1;
                        prop_assert!(hops <= hosts);
                    }
                }
            }
        }
    }
}
