//! The histories of a connector's paths, shared by its connections.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::{net::TcpStream, time::Instant};

use super::{
    cookies,
    network::Network,
    path_history::{Event, PathHistory, Plan},
};
use crate::{stable_hash, tcp_info::TcpInfo};

/// The maximum number of paths; the least recently used makes room.
const MOST: usize = 512;

/// For how long after its deadline a trial counts that has no outcome: its connection may have been given up.
const MAX_TRIAL: Duration = Duration::from_secs(1);

/// The outcomes of a connector's attempts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// SYNs that requested a cookie.
    pub asked: u32,
    /// Connections whose SYN could carry data.
    pub tried: u32,
    /// Of those, connections whose data was acknowledged with the SYN, and that got a response.
    pub accepted: u32,
    /// Connections whose data was ignored, and sent again after the handshake: no gain and no loss.
    pub ignored: u32,
    /// SYNs with data or a request that got no SYN-ACK within the wait, where a plain SYN did.
    pub unanswered: u32,
    /// Connections that went silent after their SYN's data, where a plain connection got a response.
    pub swallowed: u32,
}

/// A path: from a network that this machine is in to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PathId {
    /// The network, as a hash of its routes and addresses.
    pub network: u64,
    /// The server.
    pub server: SocketAddr,
}

/// The histories of all paths.
#[derive(Debug, Default)]
pub struct Paths {
    inner: Mutex<Inner>,
    network: Network,
}

#[derive(Debug, Default)]
struct Inner {
    /// Each path's history, and when it was last used.
    known: BTreeMap<PathId, (PathHistory, f64)>,
    /// The deadlines of the first attempts on paths that are not proven. Parallel attempts share them, so that a path that
    /// does not work costs one wait, and not one more for those that begin during the first.
    trials: BTreeMap<PathId, Instant>,
    tally: Tally,
}

impl Inner {
    /// The deadline of the first attempt on this path, if its outcome is still open.
    fn trial(&self, id: &PathId, now: Instant) -> Option<Instant> {
        self.trials.get(id).copied().filter(|deadline| now < *deadline + MAX_TRIAL)
    }
}

impl Paths {
    /// The current network. If `private`, forgets the histories of all others.
    pub(super) fn enter_network(&self, private: bool) -> u64 {
        let network = self.network.now();
        if private {
            self.lock().known.retain(|way, _| way.network == network);
        }
        network
    }

    /// The history of a path.
    pub fn history(&self, id: &PathId) -> PathHistory {
        self.lock().known.get(id).map(|(history, _)| *history).unwrap_or_default()
    }

    /// All histories, to be kept for another run.
    pub fn all(&self) -> Vec<(PathId, PathHistory)> {
        self.lock().known.iter().map(|(way, (history, _))| (*way, *history)).collect()
    }

    /// Restores histories from an earlier run.
    pub fn remember(&self, known: impl IntoIterator<Item = (PathId, PathHistory)>) {
        let now = now();
        self.lock().known.extend(known.into_iter().take(MOST).map(|(way, history)| (way, (history, now))));
    }

    /// The outcomes so far.
    pub fn tally(&self) -> Tally {
        self.lock().tally
    }

    fn change<T>(&self, id: PathId, change: impl FnOnce(&mut PathHistory, &mut Tally, f64) -> T) -> T {
        let now = now();
        let mut inner = self.lock();
        let Inner { known, tally, .. } = &mut *inner;
        if known.len() >= MOST && !known.contains_key(&id) {
            let oldest = known.iter().min_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b)).map(|(way, _)| *way);
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let (history, used) = known.entry(id).or_default();
        *used = now;
        change(history, tally, now)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's access to the history of its path.
#[derive(Debug, Clone)]
pub(super) struct PathHandle {
    pub(super) paths: Arc<Paths>,
    pub(super) id: PathId,
    /// Whether to present only cookies granted on this path.
    pub(super) private: bool,
    /// Whether to record nothing, because the connection never tried to begin with data.
    pub(super) declined: bool,
}

impl PathHandle {
    /// How long an attempt waits for its SYN-ACK.
    pub(super) fn wait(&self) -> Duration {
        self.paths.history(&self.id).wait()
    }

    /// How to begin a connection now: plainly too while an earlier attempt is overdue.
    pub(super) fn plan(&self) -> Plan {
        let plan = self.paths.history(&self.id).plan(now());
        let at = Instant::now();
        let is_overdue = || self.paths.lock().trial(&self.id, at).is_some_and(|deadline| deadline <= at);
        if plan != (Plan::Data { proven: true }) && is_overdue() { Plan::Plain } else { plan }
    }

    /// Until when an attempt that begins now waits for its SYN-ACK.
    pub(super) fn deadline(&self) -> Instant {
        let (history, now) = (self.paths.history(&self.id), Instant::now());
        let own = now + history.wait();
        if history.plan(self::now()) == (Plan::Data { proven: true }) {
            return own;
        }
        let mut inner = self.paths.lock();
        let deadline = inner.trial(&self.id, now).unwrap_or(own);
        inner.trials.retain(|_, deadline| now < *deadline + MAX_TRIAL);
        inner.trials.insert(self.id, deadline);
        deadline
    }

    pub(super) fn record(&self, event: Event) {
        if self.declined {
            return;
        }
        self.end_trial();
        self.paths.change(self.id, |history, tally, now| {
            history.record(event, now);
            match event {
                Event::Answered => tally.accepted += 1,
                Event::Ignored => tally.ignored += 1,
                Event::Unanswered => tally.unanswered += 1,
                Event::Swallowed => tally.swallowed += 1,
                Event::Granted | Event::NotGranted | Event::Forgotten => {}
            }
        });
    }

    /// An attempt was answered, or has failed.
    pub(super) fn end_trial(&self) {
        self.paths.lock().trials.remove(&self.id);
    }

    /// A cookie was granted to this local address.
    pub(super) fn granted(&self, ours: IpAddr) {
        self.record(Event::Granted);
        self.mark(ours);
    }

    /// Whether the kernel's cookie may be presented: in private mode only if it was granted on this path.
    pub(super) fn may_show(&self, stream: &TcpStream) -> bool {
        let known = self.paths.history(&self.id).cookie;
        let held = || stream.local_addr().ok().and_then(|ours| self.cookie(ours.ip()));
        !self.private || (known != 0 && held() == Some(known))
    }

    /// Notes the kernel's cookie as granted on this path.
    fn mark(&self, ours: IpAddr) {
        if self.private {
            let cookie = self.cookie(ours).unwrap_or(0);
            self.paths.change(self.id, |history, _, _| history.cookie = cookie);
        }
    }

    fn cookie(&self, ours: IpAddr) -> Option<u64> {
        let cookie = cookies::cookie(ours, self.id.server).ok()??;
        Some(stable_hash("longhaul.cookie/1", &[&cookie]).max(1))
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Tally)) {
        self.paths.change(self.id, |_, tally, _| count(tally));
    }

    pub(super) fn round_trip(&self, rtt: Duration) {
        self.paths.change(self.id, |history, _, _| history.round_trip(rtt));
    }

    /// Records the RTT, and the cookie, which the server may have renewed.
    pub(super) fn record_tcp_info(&self, stream: &TcpStream) {
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::time::advance;

    use super::{super::path_history::State, *};

    fn path(paths: &Arc<Paths>) -> PathHandle {
        let id = PathId { network: 1, server: (Ipv4Addr::LOCALHOST, 80).into() };
        PathHandle { paths: paths.clone(), id, private: false, declined: false }
    }

    #[tokio::test(start_paused = true)]
    async fn parallel_attempts_share_one_wait_until_there_is_an_outcome() {
        let paths = Arc::default();
        let (first, second) = (path(&paths), path(&paths));
        first.record(Event::Granted);
        let deadline = first.deadline();
        advance((deadline - Instant::now()) / 2).await;
        assert_eq!((second.deadline(), second.plan()), (deadline, Plan::Data { proven: false }));
        advance(deadline - Instant::now()).await;
        // Overdue, although no outcome is known.
        assert_eq!(second.plan(), Plan::Plain);
        first.record(Event::Unanswered);
        assert_eq!((second.plan(), paths.history(&first.id).state(now())), (Plan::Plain, State::Blackholed));
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_that_was_given_up_does_not_stop_later_ones() {
        let paths = Arc::default();
        let path = path(&paths);
        path.record(Event::Granted);
        let deadline = path.deadline();
        advance(deadline - Instant::now() + MAX_TRIAL).await;
        assert_eq!(path.plan(), Plan::Data { proven: false });
        assert!(path.deadline() > deadline);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_on_a_proven_path_wait_for_themselves() {
        let paths = Arc::default();
        let path = path(&paths);
        path.record(Event::Answered);
        let deadline = path.deadline();
        advance(Duration::from_millis(30)).await;
        assert_eq!(path.deadline(), deadline + Duration::from_millis(30));
        advance(deadline - Instant::now()).await;
        assert_eq!(path.plan(), Plan::Data { proven: true });
    }
}
