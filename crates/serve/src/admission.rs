//! Which connections a server has, when it cannot have all that come.
//!
//! A server that waits for a free place lets a few clients keep all others out: they need only connect and be silent.
//! So a newcomer is always let in, and another connection is closed for it:
//!
//! - It is one of the **address** that has the most, so that one client cannot push another out. An address is a
//!   network for IPv6 (/64), which is what one client commonly has. No address gets all: above three quarters, it
//!   competes with itself alone.
//! - Of those it is the one that would be missed least ([`Worth`]): idle the longest, or else the slowest.
//! - A connection that the server is working for is not closed. If all of them are, newcomers wait until one is done,
//!   in the kernel's queue.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::activity::{Activity, Worth};

/// How often the operator is told that there are too many connections.
const TOLD: Duration = Duration::from_mins(1);

/// After which time a newcomer looks again.
const AGAIN: Duration = Duration::from_millis(100);

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Connections at once.
    most: usize,
    table: Mutex<Table>,
    /// A connection has ended.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    places: HashMap<u64, Place>,
    /// How many of them each address has.
    addresses: HashMap<IpAddr, usize>,
    told: Option<Instant>,
}

#[derive(Debug)]
struct Place {
    address: IpAddr,
    activity: Arc<Activity>,
    evicted: CancellationToken,
}

/// A connection's place among others, until dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    number: u64,
    admission: Arc<Admission>,
    pub(crate) activity: Arc<Activity>,
    /// The connection is to be closed for another.
    pub(crate) evicted: CancellationToken,
}

impl Admission {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Admission { most: most.max(1), table: Mutex::default(), freed: Notify::new() })
    }

    /// Makes a place for a client, at the cost of another if need be.
    pub(crate) async fn admit(self: &Arc<Self>, client: IpAddr) -> Seat {
        let address = network(client);
        loop {
            let freed = self.freed.notified();
            if let Some(seat) = self.try_admit(address) {
                return seat;
            }
            // One that the server works for may also come to wait for its client.
            let _ = timeout(AGAIN, freed).await;
        }
    }

    fn try_admit(self: &Arc<Self>, address: IpAddr) -> Option<Seat> {
        let mut table = self.table();
        let own = table.addresses.get(&address).copied().unwrap_or(0);
        if own >= (self.most * 3).div_ceil(4) {
            // If all of them are worked for, there may yet be a place.
            let made = table.evict(Some(address));
            if !made && table.places.len() >= self.most {
                return None;
            }
        } else if table.places.len() >= self.most && !table.evict(None) {
            return None;
        }
        let (number, activity, evicted) = (table.next, Activity::new(), CancellationToken::new());
        table.next += 1;
        *table.addresses.entry(address).or_default() += 1;
        let place = Place { address, activity: Arc::clone(&activity), evicted: evicted.clone() };
        table.places.insert(number, place);
        Some(Seat { number, admission: Arc::clone(self), activity, evicted })
    }

    /// Closes a connection, since the system has no room for another.
    pub(crate) fn make_room(&self) {
        self.table().evict(None);
    }

    /// Whether more than half of the places are taken.
    pub(crate) fn is_crowded(&self) -> bool {
        self.table().places.len() > self.most / 2
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Closes the connection that would be missed least, of an address or of those that have most. Returns whether there
    /// was one to close.
    fn evict(&mut self, of: Option<IpAddr>) -> bool {
        // The busiest address may have nothing that can be closed: then it is another's turn.
        let count = |place: &Place| self.addresses.get(&place.address).copied().unwrap_or(0);
        let candidates = self.places.iter().filter(|(_, place)| of.is_none_or(|address| place.address == address));
        let ranked = candidates.map(|(number, place)| (place.activity.worth(), count(place), *number));
        let closable = ranked.filter(|(worth, ..)| *worth != Worth::Working);
        let chosen = closable.min_by(|(a, a_count, _), (b, b_count, _)| b_count.cmp(a_count).then(a.cmp(b)));
        let Some((worth, count, number)) = chosen else { return false };
        let Some(place) = self.remove(number) else { return false };
        tracing::debug!("closing a connection from {} for another: {worth:?}", place.address);
        if self.told.is_none_or(|told| told.elapsed() > TOLD) {
            self.told = Some(Instant::now());
            let address = place.address;
            tracing::warn!(
                "too many connections, {count} of them from {address}: idle and slow ones are closed for new ones"
            );
        }
        place.evicted.cancel();
        true
    }

    fn remove(&mut self, number: u64) -> Option<Place> {
        let place = self.places.remove(&number)?;
        if let Some(count) = self.addresses.get_mut(&place.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&place.address);
            }
        }
        Some(place)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.admission.table().remove(self.number);
        self.admission.freed.notify_waiters();
    }
}

/// What counts as one client.
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
    use crate::activity::{Busy, Waiting};
    use futures_util::FutureExt;

    const A: [u8; 4] = [10, 0, 0, 1];
    const B: [u8; 4] = [10, 0, 0, 2];

    /// A seat, if there is one without waiting.
    fn admit(admission: &Arc<Admission>, address: [u8; 4]) -> Option<Seat> {
        admission.admit(address.into()).now_or_never()
    }

    fn evicted(seats: &[Seat]) -> Vec<usize> {
        (0..seats.len()).filter(|at| seats[*at].evicted.is_cancelled()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn newcomer_takes_the_place_of_the_longest_idle_of_the_address_with_most() {
        let admission = Admission::new(8);
        let other = admit(&admission, B).unwrap();
        let mut seats = Vec::new();
        for _ in 0..5 {
            seats.push(admit(&admission, A).unwrap());
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let others: Vec<_> = (0..2).map(|_| admit(&admission, B).unwrap()).collect();
        assert!(evicted(&seats).is_empty());
        let _newcomer = admit(&admission, B).unwrap();
        assert_eq!(evicted(&seats), [0]);
        assert!(!other.evicted.is_cancelled() && evicted(&others).is_empty());
    }

    #[tokio::test]
    async fn one_address_leaves_room_for_others() {
        let admission = Admission::new(8);
        let seats: Vec<_> = (0..20).map(|_| admit(&admission, A).unwrap()).collect();
        assert_eq!(evicted(&seats).len(), 14, "six of eight are its own");
        let other = [admit(&admission, B).unwrap(), admit(&admission, B).unwrap()];
        assert_eq!((evicted(&seats).len(), evicted(&other).len()), (14, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn slowest_is_closed_before_a_faster_one_and_before_one_that_is_worked_for() {
        let admission = Admission::new(4);
        let seats: Vec<_> = (0..3).map(|_| admit(&admission, A).unwrap()).collect();
        let _busy: Vec<_> = seats.iter().map(|seat| Busy::new(&seat.activity)).collect();
        let _waiting = [Waiting::for_body(&seats[1].activity), Waiting::for_reader(&seats[2].activity)];
        tokio::time::advance(Duration::from_secs(5)).await;
        seats[1].activity.moved(10_000);
        seats[2].activity.moved(10);
        let first = admit(&admission, A).unwrap();
        assert_eq!(evicted(&seats), [2]);
        let _busy = Busy::new(&first.activity);
        let second = admit(&admission, A).unwrap();
        assert_eq!(evicted(&seats), [1, 2]);
        let _busy = Busy::new(&second.activity);
        assert!(admit(&admission, A).is_some(), "above its share, since the others leave room");
    }

    #[tokio::test(start_paused = true)]
    async fn newcomer_waits_while_all_are_worked_for() {
        let admission = Admission::new(1);
        let seat = admit(&admission, A).unwrap();
        let busy = Busy::new(&seat.activity);
        assert!(admit(&admission, A).is_none() && admit(&admission, B).is_none());
        let waiting = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.admit(A.into()).await }
        });
        tokio::task::yield_now().await;
        drop((busy, seat));
        assert!(!waiting.await.unwrap().evicted.is_cancelled());
        assert!(admission.table().places.is_empty() && admission.table().addresses.is_empty());
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
