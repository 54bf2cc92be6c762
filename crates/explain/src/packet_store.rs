//! The packets that a page shows: a bounded number, from the connections that lost the most time.
//!
//! A capture may have more packets than memory, and a browser more than it can show. So only the connections whose
//! transfers lost most keep their packets, in that order, as long as they fit. Once a connection has been dropped, no
//! connection that lost less is stored, so that the result does not depend on the order in which threads finish.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::{collect::CapturedConnection, critical_path::timeline::Timeline, packet_trace::PacketTrace};

/// The maximum number of packets that a page shows.
pub(crate) const MAX_PACKETS: u64 = 250_000;

/// A connection's packets, for as long as they are kept.
pub(crate) type Slot = Arc<Mutex<Option<PacketTrace>>>;

/// The rank of a connection: the avoidable time of its worst transfer, that transfer's duration, and then anything that
/// tells connections apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LossRank {
    avoidable: Duration,
    duration: Duration,
    connection: Reverse<(u32, SocketAddr, SocketAddr)>,
}

impl LossRank {
    pub(crate) fn new(avoidable: Duration, duration: Duration, connection: &CapturedConnection) -> Self {
        let packet = connection.segments.first().map_or(0, |segment| segment.number);
        Self { avoidable, duration, connection: Reverse((packet, connection.ends.client, connection.ends.server)) }
    }
}

/// Stores packets for a page; one store serves all captures of the page.
#[derive(Debug, Default)]
pub struct PacketStore(Mutex<Ranking>);

#[derive(Debug, Default)]
struct Ranking {
    slots: BTreeMap<LossRank, (u64, Slot)>,
    packets: u64,
    /// The highest rank that was dropped.
    floor: Option<LossRank>,
}

impl PacketStore {
    /// Stores the packets of an explained connection, unless it lost too little. If they are too many, those from
    /// `from` on are stored.
    pub(crate) fn keep(
        &self,
        connection: &CapturedConnection,
        timeline: &Timeline,
        rank: LossRank,
        from: Duration,
    ) -> Option<Slot> {
        let count = (connection.segments.len() as u64).min(MAX_PACKETS);
        let slot = Slot::default();
        let mut ranking = self.ranking();
        if ranking.floor.is_some_and(|floor| rank <= floor) {
            return None;
        }
        ranking.packets += count;
        ranking.slots.insert(rank, (count, Arc::clone(&slot)));
        ranking.make_room();
        drop(ranking);
        let from = u64::try_from(from.as_nanos()).unwrap_or(u64::MAX);
        let trace = PacketTrace::of(connection, timeline, MAX_PACKETS, from);
        // Another thread may have dropped the slot meanwhile.
        let ranking = self.ranking();
        let is_kept = ranking.slots.contains_key(&rank);
        if is_kept && let Ok(mut content) = slot.lock() {
            *content = Some(trace);
        }
        is_kept.then_some(slot)
    }

    fn ranking(&self) -> MutexGuard<'_, Ranking> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ranking {
    fn make_room(&mut self) {
        while self.packets > MAX_PACKETS
            && let Some((rank, (count, slot))) = self.slots.pop_first()
        {
            self.packets -= count;
            self.floor = self.floor.max(Some(rank));
            if let Ok(mut content) = slot.lock() {
                *content = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LossRank, MAX_PACKETS, Ranking, Slot};
    use std::{cmp::Reverse, net::Ipv4Addr, time::Duration};

    fn rank(seconds: u64) -> LossRank {
        let end = (Ipv4Addr::LOCALHOST, 1).into();
        let avoidable = Duration::from_secs(seconds);
        LossRank { avoidable, duration: avoidable, connection: Reverse((1, end, end)) }
    }

    #[test]
    fn ranking_drops_connections_that_lost_least_when_full() {
        let mut ranking = Ranking::default();
        for (lost, count) in [(3, MAX_PACKETS / 2), (1, MAX_PACKETS / 4), (2, MAX_PACKETS / 2)] {
            ranking.packets += count;
            ranking.slots.insert(rank(lost), (count, Slot::default()));
            ranking.make_room();
        }
        let kept: Vec<u64> = ranking.slots.keys().map(|rank| rank.avoidable.as_secs()).collect();
        assert_eq!((kept, ranking.floor), (vec![2, 3], Some(rank(1))));
    }
}
