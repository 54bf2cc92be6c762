//! The connection limit, and which connection to close when it is reached.
//!
//! A server that stops accepting at its limit lets a few clients lock out all others: they connect and stay silent. So a
//! new connection is always accepted, and an existing one is evicted for it:
//!
//! - It belongs to the **address** with the most connections, so that one client cannot evict another's. For IPv6 an
//!   address is a /64, which is what one client commonly has. No address gets all connections: above three quarters of
//!   the limit, it competes only with itself.
//! - Among those, it has the lowest [`EvictionRank`]: idle the longest, or else the slowest.
//! - A connection with a request that the server is working on is not evicted. If all are, new connections wait in the
//!   kernel's accept queue.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::activity::{Activity, EvictionRank};

/// Minimum interval between warnings about the connection limit.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// How often a waiting connection checks again for one to evict.
const ADMIT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Maximum number of connections.
    limit: usize,
    table: Mutex<Table>,
    /// A connection has ended.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    connections: HashMap<u64, Connection>,
    /// Number of connections per address.
    addresses: HashMap<IpAddr, usize>,
    warned_at: Option<Instant>,
}

#[derive(Debug)]
struct Connection {
    address: IpAddr,
    activity: Arc<Activity>,
    evicted: CancellationToken,
}

/// An admitted connection, until dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    number: u64,
    admission: Arc<Admission>,
    pub(crate) activity: Arc<Activity>,
    /// Cancelled when the connection is evicted.
    pub(crate) evicted: CancellationToken,
}

impl Admission {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Admission { limit: limit.max(1), table: Mutex::default(), freed: Notify::new() })
    }

    /// Admits a client's connection, and evicts another one if the limit is reached.
    pub(crate) async fn admit(self: &Arc<Self>, client: IpAddr) -> ConnectionGuard {
        let address = network(client);
        loop {
            let freed = self.freed.notified();
            if let Some(guard) = self.try_admit(address) {
                return guard;
            }
            // A working connection may also become evictable without ending.
            let _ = timeout(ADMIT_RETRY_INTERVAL, freed).await;
        }
    }

    fn try_admit(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionGuard> {
        let mut table = self.table();
        let own = table.addresses.get(&address).copied().unwrap_or(0);
        if own >= (self.limit * 3).div_ceil(4) {
            // If all of them are working, the limit may still have room.
            let evicted = table.evict(Some(address));
            if !evicted && table.connections.len() >= self.limit {
                return None;
            }
        } else if table.connections.len() >= self.limit && !table.evict(None) {
            return None;
        }
        let (number, activity, evicted) = (table.next, Activity::new(), CancellationToken::new());
        table.next += 1;
        *table.addresses.entry(address).or_default() += 1;
        let connection = Connection { address, activity: Arc::clone(&activity), evicted: evicted.clone() };
        table.connections.insert(number, connection);
        Some(ConnectionGuard { number, admission: Arc::clone(self), activity, evicted })
    }

    /// Evicts a connection, because the system has no resources for another one.
    pub(crate) fn make_room(&self) {
        self.table().evict(None);
    }

    /// Whether more than half of the limit is in use.
    pub(crate) fn is_crowded(&self) -> bool {
        self.table().connections.len() > self.limit / 2
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Evicts the connection with the lowest rank, of an address or of those with the most connections. Returns whether
    /// there was one to evict.
    fn evict(&mut self, of: Option<IpAddr>) -> bool {
        // If the address with the most connections has none to evict, the next address is tried.
        let count = |connection: &Connection| self.addresses.get(&connection.address).copied().unwrap_or(0);
        let candidates =
            self.connections.iter().filter(|(_, connection)| of.is_none_or(|address| connection.address == address));
        let ranked =
            candidates.map(|(number, connection)| (connection.activity.eviction_rank(), count(connection), *number));
        let closable = ranked.filter(|(rank, ..)| *rank != EvictionRank::Working);
        let chosen = closable.min_by(|(a, a_count, _), (b, b_count, _)| b_count.cmp(a_count).then(a.cmp(b)));
        let Some((rank, count, number)) = chosen else { return false };
        let Some(connection) = self.remove(number) else { return false };
        tracing::debug!("closing a connection from {} to admit another: {rank:?}", connection.address);
        if self.warned_at.is_none_or(|warned_at| warned_at.elapsed() > WARN_INTERVAL) {
            self.warned_at = Some(Instant::now());
            let address = connection.address;
            tracing::warn!(
                "connection limit reached, with {count} connections from {address}: closing idle and slow connections for new ones"
            );
        }
        connection.evicted.cancel();
        true
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        if let Some(count) = self.addresses.get_mut(&connection.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&connection.address);
            }
        }
        Some(connection)
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.admission.table().remove(self.number);
        self.admission.freed.notify_waiters();
    }
}

/// The address that counts as one client.
fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => {
            let network = Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64));
            IpAddr::V6(network)
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{RequestGuard, WaitingForClient};
    use futures_util::FutureExt;

    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [10, 0, 0, 2];

    /// Admits a connection if that needs no waiting.
    fn admit(admission: &Arc<Admission>, address: [u8; 4]) -> Option<ConnectionGuard> {
        admission.admit(address.into()).now_or_never()
    }

    fn evicted(guards: &[ConnectionGuard]) -> Vec<usize> {
        (0..guards.len()).filter(|at| guards[*at].evicted.is_cancelled()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_connection_of_the_address_with_most_is_evicted() {
        let admission = Admission::new(8);
        let other = admit(&admission, B).unwrap();
        let mut guards = Vec::new();
        for _ in 0..5 {
            guards.push(admit(&admission, A).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let others: Vec<_> = (0..2).map(|_| admit(&admission, B).unwrap()).collect();
        assert!(evicted(&guards).is_empty());
        let _newcomer = admit(&admission, B).unwrap();
        assert_eq!(evicted(&guards), [0]);
        assert!(!other.evicted.is_cancelled() && evicted(&others).is_empty());
    }

    #[tokio::test]
    async fn one_address_gets_at_most_three_quarters() {
        let admission = Admission::new(8);
        let guards: Vec<_> = (0..20).map(|_| admit(&admission, A).unwrap()).collect();
        assert_eq!(evicted(&guards).len(), 14, "six of eight are its own");
        let other = [admit(&admission, B).unwrap(), admit(&admission, B).unwrap()];
        assert_eq!((evicted(&guards).len(), evicted(&other).len()), (14, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_connection_is_evicted_before_faster_and_working_ones() {
        let admission = Admission::new(4);
        let guards: Vec<_> = (0..3).map(|_| admit(&admission, A).unwrap()).collect();
        let _busy: Vec<_> = guards.iter().map(|guard| RequestGuard::new(&guard.activity)).collect();
        let _waiting =
            [WaitingForClient::for_body(&guards[1].activity), WaitingForClient::for_reader(&guards[2].activity)];
        tokio::time::advance(Duration::from_secs(5)).await;
        guards[1].activity.moved(10_000);
        guards[2].activity.moved(10);
        let first = admit(&admission, A).unwrap();
        assert_eq!(evicted(&guards), [2]);
        let _busy = RequestGuard::new(&first.activity);
        let second = admit(&admission, A).unwrap();
        assert_eq!(evicted(&guards), [1, 2]);
        let _busy = RequestGuard::new(&second.activity);
        assert!(admit(&admission, A).is_some(), "above its share, since the others leave room");
    }

    #[tokio::test(start_paused = true)]
    async fn new_connection_waits_while_all_are_working() {
        let admission = Admission::new(1);
        let guard = admit(&admission, A).unwrap();
        let busy = RequestGuard::new(&guard.activity);
        assert!(admit(&admission, A).is_none() && admit(&admission, B).is_none());
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.admit(A.into()).await }
        });
        tokio::task::yield_now().await;
        drop((busy, guard));
        assert!(!waiting.await.unwrap().evicted.is_cancelled());
        assert!(admission.table().connections.is_empty() && admission.table().addresses.is_empty());
    }

    #[test]
    fn ipv6_addresses_of_one_64_count_as_one_client() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
