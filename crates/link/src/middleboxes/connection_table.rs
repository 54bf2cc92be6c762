//! The connection table of a middlebox, of bounded size.

use std::{collections::BTreeMap, time::Instant};

use crate::headers::Flow;

/// Maximum number of connections in a table.
const MAX: usize = 4096;

/// A `T` for each connection, or for each other key `K`. A full table evicts the least recently used entry.
///
/// A tree and not a hash table, so that iteration has the same order in every run.
#[derive(Debug)]
pub(super) struct Flows<T, K = Flow>(BTreeMap<K, (Instant, T)>);

impl<T, K> Default for Flows<T, K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T, K: Ord + Copy> Flows<T, K> {
    /// The entry of a connection; marks it as used.
    pub(super) fn get(&mut self, flow: &K, now: Instant) -> Option<&mut T> {
        let (used, entry) = self.0.get_mut(flow)?;
        *used = now;
        Some(entry)
    }

    /// Adds an entry; returns the evicted one, if any.
    pub(super) fn insert(&mut self, flow: K, entry: T, now: Instant) -> Option<(K, T)> {
        let mut evicted = None;
        if self.0.len() >= MAX && !self.0.contains_key(&flow) {
            let oldest = self.0.iter().min_by_key(|(flow, (used, _))| (*used, **flow)).map(|(flow, _)| *flow);
            evicted = oldest.and_then(|oldest| self.remove(&oldest).map(|entry| (oldest, entry)));
        }
        self.0.insert(flow, (now, entry));
        evicted
    }

    pub(super) fn remove(&mut self, flow: &K) -> Option<T> {
        self.0.remove(flow).map(|(_, entry)| entry)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut T)> {
        self.0.iter_mut().map(|(flow, (_, entry))| (flow, entry))
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use etherparse::ip_number;

    use super::*;

    #[test]
    fn full_table_evicts_the_least_recently_used_connection() {
        let start = Instant::now();
        let at = |n: u32| start + Duration::from_millis(1) * n;
        let flow = |n: u32| Flow {
            protocol: ip_number::TCP,
            client: (Ipv4Addr::from(n), 1).into(),
            server: (Ipv4Addr::LOCALHOST, 2).into(),
        };
        let mut flows = Flows::default();
        for n in 0..MAX as u32 {
            assert_eq!(flows.insert(flow(n), n, at(n)), None);
        }
        assert_eq!(flows.get(&flow(0), at(9000)), Some(&mut 0));
        assert_eq!(flows.insert(flow(7), 70, at(9000)), None);
        assert_eq!(flows.insert(flow(5000), 5000, at(9001)), Some((flow(1), 1)));
        assert_eq!(flows.0.len(), MAX);
    }
}
