//! What a middlebox remembers about connections: a table that cannot grow without bound.

use std::{collections::BTreeMap, time::Instant};

use crate::headers::Flow;

/// How many connections a middlebox remembers.
const MOST: usize = 4096;

/// What is remembered about each connection, or about whatever else `K` tells apart. When the table
/// is full, the one unused for the longest makes room.
///
/// A tree and not a hash table, so that going through it has one order in every run.
#[derive(Debug)]
pub(super) struct Flows<T, K = Flow>(BTreeMap<K, (Instant, T)>);

impl<T, K> Default for Flows<T, K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T, K: Ord + Copy> Flows<T, K> {
    /// What is remembered of a connection that is being used.
    pub(super) fn get(&mut self, flow: &K, now: Instant) -> Option<&mut T> {
        let (used, memory) = self.0.get_mut(flow)?;
        *used = now;
        Some(memory)
    }

    /// Remembers a connection; returns the one that made room, if one had to.
    pub(super) fn insert(&mut self, flow: K, memory: T, now: Instant) -> Option<(K, T)> {
        let mut evicted = None;
        if self.0.len() >= MOST && !self.0.contains_key(&flow) {
            let oldest = self.0.iter().min_by_key(|(flow, (used, _))| (*used, **flow)).map(|(flow, _)| *flow);
            evicted = oldest.and_then(|oldest| self.remove(&oldest).map(|memory| (oldest, memory)));
        }
        self.0.insert(flow, (now, memory));
        evicted
    }

    pub(super) fn remove(&mut self, flow: &K) -> Option<T> {
        self.0.remove(flow).map(|(_, memory)| memory)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut T)> {
        self.0.iter_mut().map(|(flow, (_, memory))| (flow, memory))
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use etherparse::ip_number;

    use super::*;

    #[test]
    fn the_connection_unused_for_the_longest_makes_room() {
        let start = Instant::now();
        let at = |n: u32| start + Duration::from_millis(1) * n;
        let flow = |n: u32| Flow {
            protocol: ip_number::TCP,
            client: (Ipv4Addr::from(n), 1).into(),
            server: (Ipv4Addr::LOCALHOST, 2).into(),
        };
        let mut flows = Flows::default();
        for n in 0..MOST as u32 {
            assert_eq!(flows.insert(flow(n), n, at(n)), None);
        }
        assert_eq!(flows.get(&flow(0), at(9000)), Some(&mut 0));
        assert_eq!(flows.insert(flow(7), 70, at(9000)), None);
        assert_eq!(flows.insert(flow(5000), 5000, at(9001)), Some((flow(1), 1)));
        assert_eq!(flows.0.len(), MOST);
    }
}
