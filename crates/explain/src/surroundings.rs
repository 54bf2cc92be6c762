//! What the rest of a capture says about a connection's path: how much other connections sent meanwhile, how long
//! packets took, and how long they took at best.
//!
//! A connection alone cannot tell a long path from a full queue, nor an idle sender from one whose link is busy with
//! somebody else's packets. All connections of its client together often can.

use std::{collections::HashMap, net::IpAddr, ops::Range};

use crate::side::{PerSide, Side};

/// The width of a bin, in nanoseconds.
pub(crate) const BIN: u64 = 50_000_000;

/// The time for which the shortest delay is kept, in nanoseconds: a busy server answers thousands in a second.
const DELAY_BIN: u64 = 10_000_000;

/// The maximum number of bins of a client and of delays of a path; beyond it, the older half is forgotten.
const MAX_SAMPLES: usize = 1 << 16;

/// The maximum number of clients, and of paths, that are observed.
const MAX_PLACES: usize = 1 << 16;

/// How far from a moment a measured delay still describes it, in nanoseconds.
const NEAR: u64 = 1_000_000_000;

/// What other packets say about a connection's path.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Bytes of all connections of the client that were sent by each side, by bin: its number since the epoch, and the sum.
    pub(crate) load: PerSide<Vec<(u64, u64)>>,
    /// Round-trip times between the capture point and each side: when they ended, and how long they took.
    delays: PerSide<Vec<(u64, u64)>>,
    /// The shortest of them, from any connection between the same hosts.
    pub(crate) least: PerSide<Option<u64>>,
}

impl Surroundings {
    /// How much longer than at best packets took to a side and back between two times, at the least; in nanoseconds.
    pub(crate) fn extra_delay(&self, side: Side, from: u64, to: u64) -> u64 {
        let (delays, Some(least)) = (&self.delays[side], self.least[side]) else { return 0 };
        // Those that were under way between the two times.
        let begin = delays.partition_point(|(end, _)| *end < from);
        let under_way = delays[begin..].iter().take_while(|(end, took)| end - took <= to);
        let extra = |(_, took): &(u64, u64)| took.saturating_sub(least);
        if let Some(extra) = under_way.map(extra).min() {
            return extra;
        }
        let before = begin.checked_sub(1).map(|index| &delays[index]);
        before.filter(|(end, _)| end + NEAR >= from).map_or(0, extra)
    }
}

/// Collects what the connections of a capture say about each other.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    clients: HashMap<IpAddr, usize>,
    loads: Vec<PerSide<Vec<(u64, u64)>>>,
    /// The number of connections of each client.
    connections: Vec<u32>,
    paths: HashMap<(IpAddr, IpAddr), usize>,
    delays: Vec<Delays>,
}

#[derive(Debug, Default)]
struct Delays {
    samples: PerSide<Vec<(u64, u64)>>,
    least: PerSide<Option<u64>>,
}

/// Where a connection's packets are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    client: usize,
    path: usize,
}

/// How long a side took to answer, as seen from the capture point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) side: Side,
    pub(crate) took: u64,
    /// The part of it in which its TCP answered without delay: what is longer than the shortest time was a queue.
    pub(crate) prompt: Option<u64>,
}

impl Collected {
    /// The place of the connections between these hosts; none if there are too many.
    pub(crate) fn place(&mut self, client: IpAddr, server: IpAddr) -> Option<Place> {
        let (clients, paths) = (self.clients.len(), self.paths.len());
        if clients.max(paths) >= MAX_PLACES && !self.paths.contains_key(&(client, server)) {
            return None;
        }
        let place = Place {
            client: *self.clients.entry(client).or_insert(clients),
            path: *self.paths.entry((client, server)).or_insert(paths),
        };
        if place.client == self.loads.len() {
            self.loads.push(PerSide::default());
            self.connections.push(0);
        }
        self.connections[place.client] += 1;
        if place.path == self.delays.len() {
            self.delays.push(Delays::default());
        }
        Some(place)
    }

    /// A packet of this size passed.
    pub(crate) fn add(&mut self, place: Place, from: Side, now: u64, bytes: u64) {
        let bins = &mut self.loads[place.client][from];
        match bins.last_mut() {
            Some((bin, sum)) if *bin == now / BIN => *sum += bytes,
            _ => push(bins, (now / BIN, bytes)),
        }
    }

    /// A side answered.
    pub(crate) fn answered(&mut self, place: Place, now: u64, answer: Answer) {
        let Answer { side, took, prompt } = answer;
        let delays = &mut self.delays[place.path];
        if let Some(prompt) = prompt {
            let samples = &mut delays.samples[side];
            match samples.last_mut() {
                Some((end, shortest)) if now / DELAY_BIN == *end / DELAY_BIN => {
                    if prompt < *shortest {
                        (*end, *shortest) = (now, prompt);
                    }
                }
                _ => push(samples, (now, prompt)),
            }
        }
        let least = &mut delays.least[side];
        *least = Some(least.map_or(took, |least| least.min(took)));
    }

    /// What was collected of a place in this time.
    pub(crate) fn within(&self, place: Place, time: &Range<u64>) -> Surroundings {
        let delays = &self.delays[place.path];
        let part = |samples: &[(u64, u64)], from: u64, to: u64| {
            let [begin, end] = [from, to].map(|limit| samples.partition_point(|(at, _)| *at < limit));
            samples[begin..end.max(begin)].to_vec()
        };
        // A connection alone shares no link.
        let is_alone = self.connections[place.client] < 2;
        Surroundings {
            load: if is_alone {
                PerSide::default()
            } else {
                PerSide::of(|side| part(&self.loads[place.client][side], time.start / BIN, time.end / BIN + 1))
            },
            delays: PerSide::of(|side| part(&delays.samples[side], time.start.saturating_sub(NEAR), time.end + NEAR)),
            least: delays.least,
        }
    }
}

fn push(samples: &mut Vec<(u64, u64)>, one: (u64, u64)) {
    if samples.len() == MAX_SAMPLES {
        samples.drain(..MAX_SAMPLES / 2);
    }
    samples.push(one);
}
