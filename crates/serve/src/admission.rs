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
//!
//! The same holds for requests in flight, of which HTTP/2 and HTTP/3 have many on a connection: beyond the limit, the
//! connection with most of them goes. If the server is working on all, the new request is refused.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::activity::{Activity, EvictionRank};
use crate::budget::{Budget, Held};
use crate::fd_limit::Capacity;
use crate::status::{Metric, Watched};

/// Minimum interval between warnings about the connection limit.
const WARN_INTERVAL: Duration = Duration::from_mins(1);

/// Maximum number of requests in flight from one address: they hold less than 64 MiB.
const REQUESTS_OF_ADDRESS: usize = 512;

/// How often a waiting connection checks again for one to evict.
const ADMIT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Maximum number of connections.
    limit: usize,
    /// Maximum number of requests in flight.
    requests: usize,
    pub(crate) all: Arc<Held>,
    table: Mutex<Table>,
    /// A connection has ended.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    connections: HashMap<u64, Connection>,
    addresses: HashMap<IpAddr, Address>,
    /// Connections that were closed for others.
    evicted: u64,
    warned_at: Option<Instant>,
}

/// The connections of one address.
#[derive(Debug)]
struct Address {
    connections: usize,
    held: Arc<Held>,
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
    pub(crate) fn new(Capacity { connections, requests }: Capacity) -> Arc<Self> {
        let (table, freed) = (Mutex::default(), Notify::new());
        Arc::new(Admission { limit: connections.max(1), requests, all: Held::of_all(), table, freed })
    }

    /// Maximum number of requests in flight from one address.
    pub(crate) fn requests_of_address(&self) -> usize {
        self.requests.div_ceil(2).min(REQUESTS_OF_ADDRESS)
    }

    /// Whether a request that has begun on this connection may go on. Beyond the limit, another connection is closed for
    /// it, if there is one.
    pub(crate) fn admits_request(&self, activity: &Arc<Activity>) -> bool {
        let (most, of_address) = (self.requests, self.requests_of_address());
        let budget = &activity.budget;
        let fits = budget.address.requests() <= of_address && budget.all.requests() <= most;
        fits || self.table().shed(activity, of_address, most)
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
        let own = table.count(address);
        if own >= (self.limit * 3).div_ceil(4) {
            // If all of them are working, the limit may still have room.
            let evicted = table.evict(Some(address));
            if !evicted && table.connections.len() >= self.limit {
                return None;
            }
        } else if table.connections.len() >= self.limit && !table.evict(None) {
            return None;
        }
        let (number, evicted) = (table.next, CancellationToken::new());
        table.next += 1;
        let entry = table.addresses.entry(address);
        let entry = entry.or_insert_with(|| Address { connections: 0, held: Held::of_address() });
        entry.connections += 1;
        let activity = Activity::new(Budget::new(Arc::clone(&entry.held), Arc::clone(&self.all)));
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

impl Watched for Admission {
    fn metrics(&self) -> Vec<Metric> {
        let table = self.table();
        let (connections, evicted) = (table.connections.len() as u64, table.evicted);
        drop(table);
        let all = &self.all;
        let metric = |name, help, value| Metric { name, help, value };
        vec![
            metric("longhaul_serve_connections", "Connections of clients.", connections),
            metric(
                "longhaul_serve_requests",
                "Requests in flight; one with a long head counts for several.",
                all.requests() as u64,
            ),
            metric("longhaul_serve_held_bytes", "Bytes of requests and responses in memory.", all.bytes() as u64),
            metric("longhaul_serve_requests_total", "Requests of clients.", all.begun() as u64),
            metric("longhaul_serve_refused_total", "Requests that a limit has refused.", all.refused() as u64),
            metric(
                "longhaul_serve_evicted_total",
                "Connections that were closed because a limit was reached.",
                evicted,
            ),
        ]
    }
}

impl Table {
    fn count(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).map_or(0, |address| address.connections)
    }

    /// Requests in flight of an address, or of all. Those of an evicted connection are about to end.
    fn requests(&self, of: Option<IpAddr>) -> usize {
        let connections = self.connections.values().filter(|connection| of.is_none_or(|of| connection.address == of));
        connections.map(|connection| connection.activity.budget.requests()).sum()
    }

    /// Evicts connections with many requests until these limits are kept. Returns whether that could be done without this
    /// connection.
    fn shed(&mut self, activity: &Arc<Activity>, of_address: usize, most: usize) -> bool {
        let own = self.connections.iter().find(|(_, connection)| Arc::ptr_eq(&connection.activity, activity));
        let Some((own, address)) = own.map(|(number, connection)| (*number, connection.address)) else { return false };
        loop {
            let of = if self.requests(Some(address)) > of_address {
                Some(address)
            } else if self.requests(None) > most {
                // Of the address with most requests.
                let busiest = self.connections.values().max_by_key(|c| c.activity.budget.address.requests());
                busiest.map(|connection| connection.address)
            } else {
                return true;
            };
            let candidates = self.connections.iter().filter(|(_, connection)| Some(connection.address) == of);
            let ranked = candidates.map(|(number, connection)| {
                let activity = &connection.activity;
                (Reverse(activity.budget.requests()), activity.eviction_rank(), *number)
            });
            let chosen = ranked.filter(|(_, rank, _)| *rank != EvictionRank::Working).min();
            let Some((Reverse(requests), _, number)) = chosen else { return false };
            let Some(connection) = self.remove(number) else { return false };
            self.warn(|| {
                let address = connection.address;
                format!("too many requests at once: closing a connection from {address} that has {requests}")
            });
            self.evict_now(&connection);
            if number == own {
                return false;
            }
        }
    }

    /// Warns, but not all the time.
    fn warn(&mut self, what: impl FnOnce() -> String) {
        if self.warned_at.is_none_or(|warned_at| warned_at.elapsed() > WARN_INTERVAL) {
            self.warned_at = Some(Instant::now());
            tracing::warn!("{}", what());
        }
    }

    /// Evicts the connection with the lowest rank, of an address or of those with the most connections. Returns whether
    /// there was one to evict.
    fn evict(&mut self, of: Option<IpAddr>) -> bool {
        // If the address with the most connections has none to evict, the next address is tried.
        let count = |connection: &Connection| self.count(connection.address);
        let candidates =
            self.connections.iter().filter(|(_, connection)| of.is_none_or(|address| connection.address == address));
        let ranked =
            candidates.map(|(number, connection)| (connection.activity.eviction_rank(), count(connection), *number));
        let closable = ranked.filter(|(rank, ..)| *rank != EvictionRank::Working);
        let chosen = closable.min_by(|(a, a_count, _), (b, b_count, _)| b_count.cmp(a_count).then(a.cmp(b)));
        let Some((rank, count, number)) = chosen else { return false };
        let Some(connection) = self.remove(number) else { return false };
        tracing::debug!("closing a connection from {} to admit another: {rank:?}", connection.address);
        self.warn(|| {
            let address = connection.address;
            format!("connection limit reached, with {count} connections from {address}: closing idle and slow connections for new ones")
        });
        self.evict_now(&connection);
        true
    }

    fn evict_now(&mut self, connection: &Connection) {
        self.evicted += 1;
        connection.evicted.cancel();
    }

    fn remove(&mut self, number: u64) -> Option<Connection> {
        let connection = self.connections.remove(&number)?;
        if let Some(address) = self.addresses.get_mut(&connection.address) {
            address.connections -= 1;
            if address.connections == 0 {
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

    fn admission(connections: usize) -> Arc<Admission> {
        Admission::new(Capacity { connections, requests: 100 })
    }

    /// Admits a connection if that needs no waiting.
    fn admit(admission: &Arc<Admission>, address: [u8; 4]) -> Option<ConnectionGuard> {
        admission.admit(address.into()).now_or_never()
    }

    fn evicted(guards: &[ConnectionGuard]) -> Vec<usize> {
        (0..guards.len()).filter(|at| guards[*at].evicted.is_cancelled()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn longest_idle_connection_of_the_address_with_most_is_evicted() {
        let admission = admission(8);
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
        let admission = admission(8);
        let guards: Vec<_> = (0..20).map(|_| admit(&admission, A).unwrap()).collect();
        assert_eq!(evicted(&guards).len(), 14, "six of eight are its own");
        let other = [admit(&admission, B).unwrap(), admit(&admission, B).unwrap()];
        assert_eq!((evicted(&guards).len(), evicted(&other).len()), (14, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_connection_is_evicted_before_faster_and_working_ones() {
        let admission = admission(4);
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
        let admission = admission(1);
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

    #[tokio::test(start_paused = true)]
    async fn connection_with_most_unread_responses_is_closed_for_more_requests() {
        let admission = admission(8);
        let connect = |address| admit(&admission, address).unwrap();
        let (greedy, other, elsewhere) = (connect(A), connect(A), connect(B));
        let request = |guard: &ConnectionGuard| {
            let request = RequestGuard::new(&guard.activity);
            let waiting = WaitingForClient::for_reader(&guard.activity);
            admission.admits_request(&guard.activity).then_some((request, waiting))
        };
        let held: Vec<_> = (0..40).map(|_| request(&greedy).unwrap()).collect();
        let some: Vec<_> = (0..10).map(|_| request(&other).unwrap()).collect();
        let theirs: Vec<_> = (0..30).map(|_| request(&elsewhere).unwrap()).collect();
        assert!(evicted(&[greedy, other, elsewhere]).is_empty(), "50 of an address are allowed");
        drop((held, some, theirs));

        let (greedy, other, elsewhere) = (connect(A), connect(A), connect(B));
        let held: Vec<_> = (0..40).map(|_| request(&greedy).unwrap()).collect();
        let some: Vec<_> = (0..11).map(|_| request(&other).unwrap()).collect();
        assert!(greedy.evicted.is_cancelled() && !other.evicted.is_cancelled() && !elsewhere.evicted.is_cancelled());
        assert!(request(&greedy).is_none(), "it is about to end");
        drop((held, some));
        // The server is working on these: a further one is refused.
        let working: Vec<_> = (0..50).map(|_| RequestGuard::new(&elsewhere.activity)).collect();
        assert!(admission.admits_request(&elsewhere.activity) && request(&elsewhere).is_none());
        drop(working);
        assert!(request(&elsewhere).is_some() && !elsewhere.evicted.is_cancelled());
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
