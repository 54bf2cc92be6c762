//! The ways that a connector knows, shared by its connections.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use super::{
    cookies,
    memory::{Event, Memory, Plan},
    network::Network,
};
use crate::tcp_info::TcpInfo;

/// So many ways are remembered; the one unused for longest makes room.
const MOST: usize = 512;

/// What became of all attempts of a connector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// SYNs that asked for a cookie.
    pub asked: u32,
    /// Connections whose SYN could carry data.
    pub tried: u32,
    /// Of those, how many had it acknowledged with the SYN, and were answered.
    pub accepted: u32,
    /// How many had it ignored, and sent it again after the handshake: nothing gained and nothing lost.
    pub ignored: u32,
    /// SYNs, with data or asking for a cookie, that were not answered within the bounded wait, where a plain one was.
    pub unanswered: u32,
    /// Connections whose SYN's data was followed by silence, where a plain connection was answered.
    pub swallowed: u32,
}

/// A way: a network that we are in, by a number that tells it from others, and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Way {
    /// The network, by a number made of its routes and addresses.
    pub network: u64,
    /// The server.
    pub server: SocketAddr,
}

/// The ways that are known.
#[derive(Debug, Default)]
pub struct Paths {
    inner: Mutex<Inner>,
    network: Network,
}

#[derive(Debug, Default)]
struct Inner {
    /// What is known of each, and when it was last used.
    known: BTreeMap<Way, (Memory, f64)>,
    tally: Tally,
}

impl Paths {
    /// The network that we are in. If nothing may be known of others, what was is forgotten here, and by the kernel
    /// where it lets us.
    pub(super) fn enter(&self, private: bool) -> u64 {
        let network = self.network.now();
        if private {
            self.lock().known.retain(|way, _| way.network == network);
        }
        network
    }

    /// What is known of a way.
    pub fn memory(&self, way: &Way) -> Memory {
        self.lock().known.get(way).map(|(memory, _)| *memory).unwrap_or_default()
    }

    /// All that is known, to be kept for another run.
    pub fn all(&self) -> Vec<(Way, Memory)> {
        self.lock().known.iter().map(|(way, (memory, _))| (*way, *memory)).collect()
    }

    /// Tells what is known from earlier.
    pub fn remember(&self, known: impl IntoIterator<Item = (Way, Memory)>) {
        let now = now();
        self.lock().known.extend(known.into_iter().take(MOST).map(|(way, memory)| (way, (memory, now))));
    }

    /// What became of all attempts so far.
    pub fn tally(&self) -> Tally {
        self.lock().tally
    }

    fn change<T>(&self, way: Way, change: impl FnOnce(&mut Memory, &mut Tally, f64) -> T) -> T {
        let now = now();
        let mut inner = self.lock();
        let Inner { known, tally } = &mut *inner;
        if known.len() >= MOST && !known.contains_key(&way) {
            let oldest = known.iter().min_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b)).map(|(way, _)| *way);
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let (memory, used) = known.entry(way).or_default();
        *used = now;
        change(memory, tally, now)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One way, for a connection on it.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) paths: Arc<Paths>,
    pub(super) way: Way,
    /// Whether only cookies given on this way are shown.
    pub(super) private: bool,
    /// Nothing is learned from a connection that was never meant to begin with data.
    pub(super) declined: bool,
}

impl Path {
    pub(super) fn plan(&self) -> Plan {
        self.paths.memory(&self.way).plan(now())
    }

    pub(super) fn wait(&self) -> Duration {
        self.paths.memory(&self.way).wait()
    }

    pub(super) fn happened(&self, event: Event) {
        if self.declined {
            return;
        }
        self.paths.change(self.way, |memory, tally, now| {
            memory.happened(event, now);
            match event {
                Event::Answered => tally.accepted += 1,
                Event::Ignored => tally.ignored += 1,
                Event::Unanswered => tally.unanswered += 1,
                Event::Swallowed => tally.swallowed += 1,
                Event::Granted | Event::NotGranted | Event::Forgotten => {}
            }
        });
    }

    /// A cookie was given for connections from this address of ours.
    pub(super) fn granted(&self, ours: IpAddr) {
        self.happened(Event::Granted);
        self.mark(ours);
    }

    /// Whether the cookie that the kernel would show was given on this way, if that matters.
    pub(super) fn may_show(&self, stream: &TcpStream) -> bool {
        let known = self.paths.memory(&self.way).cookie;
        let held = || stream.local_addr().ok().and_then(|ours| self.cookie(ours.ip()));
        !self.private || (known != 0 && held() == Some(known))
    }

    /// Knows the kernel's cookie again: it is from this connection, and so from this network.
    fn mark(&self, ours: IpAddr) {
        if self.private {
            let cookie = self.cookie(ours).unwrap_or(0);
            self.paths.change(self.way, |memory, _, _| memory.cookie = cookie);
        }
    }

    fn cookie(&self, ours: IpAddr) -> Option<u64> {
        let cookie = cookies::cookie(ours, self.way.server).ok()??;
        let mut hasher = DefaultHasher::new();
        cookie.hash(&mut hasher);
        Some(hasher.finish().max(1))
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Tally)) {
        self.paths.change(self.way, |_, tally, _| count(tally));
    }

    pub(super) fn round_trip(&self, rtt: Duration) {
        self.paths.change(self.way, |memory, _, _| memory.round_trip(rtt));
    }

    /// Takes the RTT from the kernel, and the cookie, which may have come anew.
    pub(super) fn see(&self, stream: &TcpStream) {
        if let Ok(info) = TcpInfo::of(stream)
            && !info.rtt.is_zero()
        {
            self.round_trip(info.min_rtt.unwrap_or(info.rtt));
        }
        if let Ok(ours) = stream.local_addr() {
            self.mark(ours.ip());
        }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
