//! What is kept of packets until a page is written: not more than a page can carry.
//!
//! A capture may have more packets than memory, and a browser gives up before. So only the connections whose
//! transfers lost most keep theirs, in that order, as long as they fit. What was once too little worth is never taken
//! in again: so it does not depend on which thread came first.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::trace::Trace;
use crate::{collect, report::Connection, timeline::Timeline};

/// How many packets a page carries.
pub const PACKETS: u64 = 250_000;

/// A connection's packets, for as long as they are kept.
pub(crate) type Slot = Arc<Mutex<Option<Trace>>>;

/// How much was lost, for how long it took, and whatever tells connections apart.
type Worth = (Duration, Duration, Reverse<(u32, SocketAddr, SocketAddr)>);

/// Keeps packets for a page; one for all captures that it shows.
#[derive(Debug, Default)]
pub struct Keeper(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    slots: BTreeMap<Worth, (u64, Slot)>,
    packets: u64,
    /// The most that was turned away.
    floor: Option<Worth>,
}

impl Keeper {
    /// Keeps the packets of a connection that was explained, unless it lost too little.
    pub(crate) fn keep(
        &self,
        connection: &collect::Connection,
        timeline: &Timeline,
        explained: &Connection,
    ) -> Option<Slot> {
        let worst = explained.transfers.iter().max_by_key(|transfer| (transfer.avoidable(), transfer.duration))?;
        let name = Reverse((explained.packet, explained.client, explained.server));
        let worth = (worst.avoidable(), worst.duration, name);
        let count = explained.packets.min(PACKETS);
        let slot = Slot::default();
        let mut room = self.shelf();
        if room.floor.is_some_and(|floor| worth <= floor) {
            return None;
        }
        room.packets += count;
        room.slots.insert(worth, (count, Arc::clone(&slot)));
        room.make_room();
        drop(room);
        let from = u64::try_from(worst.start.as_nanos()).unwrap_or(u64::MAX);
        let trace = Trace::of(connection, timeline, PACKETS, from);
        // It may have been turned away meanwhile.
        let room = self.shelf();
        let kept = room.slots.contains_key(&worth);
        if kept && let Ok(mut place) = slot.lock() {
            *place = Some(trace);
        }
        kept.then_some(slot)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    fn make_room(&mut self) {
        while self.packets > PACKETS
            && let Some((worth, (count, slot))) = self.slots.pop_first()
        {
            self.packets -= count;
            self.floor = self.floor.max(Some(worth));
            if let Ok(mut place) = slot.lock() {
                *place = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PACKETS, Shelf, Slot, Worth};
    use std::{cmp::Reverse, net::Ipv4Addr, time::Duration};

    fn worth(lost: u64) -> Worth {
        let end = (Ipv4Addr::LOCALHOST, 1).into();
        (Duration::from_secs(lost), Duration::from_secs(lost), Reverse((1, end, end)))
    }

    #[test]
    fn those_that_lost_least_go_first() {
        let mut shelf = Shelf::default();
        for (lost, count) in [(3, PACKETS / 2), (1, PACKETS / 4), (2, PACKETS / 2)] {
            shelf.packets += count;
            shelf.slots.insert(worth(lost), (count, Slot::default()));
            shelf.make_room();
        }
        let kept: Vec<u64> = shelf.slots.keys().map(|worth| worth.0.as_secs()).collect();
        assert_eq!((kept, shelf.floor), (vec![2, 3], Some(worth(1))));
    }
}
