//! Happy Eyeballs (RFC 8305): which address to try, and when.
//!
//! Some of a host's addresses may not respond. Trying them one after another costs a full timeout for each silent one;
//! trying all at once opens connections that nobody uses. So the attempts start [`ATTEMPT_DELAY`] apart, alternating
//! between the families, and the first handshake that completes wins. When an attempt fails, the next starts at once.
//!
//! The resolver (`getaddrinfo`) has already sorted the addresses (RFC 6724) and returns both families together. So the
//! Resolution Delay of §3 does not apply.
//!
//! [`Race`] decides, without sockets and clocks; [`run`] connects.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream::FuturesUnordered};

/// The Connection Attempt Delay of RFC 8305 §5 and §8.
pub(crate) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The attempts to reach one host. The race ends when one succeeds, or when all have failed.
#[derive(Debug)]
pub(crate) struct Race<E> {
    waiting: VecDeque<SocketAddr>,
    running: usize,
    /// When the next attempt may start.
    next_start: Option<Instant>,
    failures: Vec<(SocketAddr, E)>,
}

/// The next step of a race.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Try this address, then call `next` again.
    Start(SocketAddr),
    /// Wait for an attempt to end, or until this time, then call `next` again.
    Wait(Option<Instant>),
    /// All attempts have failed.
    Lost,
}

impl<E> Race<E> {
    /// A race for these addresses, given in the resolver's order.
    pub(crate) fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { waiting: interleave(addresses), running: 0, next_start: None, failures: Vec::new() }
    }

    /// The next step at this time.
    pub(crate) fn next(&mut self, now: Instant) -> Move {
        match self.next_start {
            Some(start) if self.running > 0 && now < start && !self.waiting.is_empty() => Move::Wait(Some(start)),
            _ => match self.waiting.pop_front() {
                Some(address) => {
                    self.running += 1;
                    self.next_start = Some(now + ATTEMPT_DELAY);
                    Move::Start(address)
                }
                None if self.running > 0 => Move::Wait(None),
                None => Move::Lost,
            },
        }
    }

    /// An attempt has failed; the next may start at once.
    pub(crate) fn failed(&mut self, address: SocketAddr, error: E) {
        self.running -= 1;
        self.next_start = None;
        self.failures.push((address, error));
    }
}

/// Alternates between the families, beginning with the resolver's first choice and keeping its order within each (RFC
/// 8305 §4). Removes duplicates.
fn interleave(addresses: impl IntoIterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let mut families: [VecDeque<SocketAddr>; 2] = Default::default();
    let mut first = None;
    for address in addresses {
        let first = *first.get_or_insert(address.is_ipv6());
        let family = &mut families[usize::from(address.is_ipv6() != first)];
        if !family.contains(&address) {
            family.push_back(address);
        }
    }
    let [mut first, mut other] = families;
    let mut order = VecDeque::with_capacity(first.len() + other.len());
    while !first.is_empty() || !other.is_empty() {
        order.extend(first.pop_front());
        order.extend(other.pop_front());
    }
    order
}

/// The winner and the duration of its own attempt; or all failures.
pub(crate) type Outcome<S> = Result<(SocketAddr, S, Duration), Vec<(SocketAddr, io::Error)>>;

/// Runs a race. It drops the attempts that lose, and all attempts when the future is dropped.
pub(crate) async fn run<S, F>(
    addresses: impl IntoIterator<Item = SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
) -> Outcome<S>
where
    F: Future<Output = io::Result<S>>,
{
    let mut race = Race::new(addresses);
    let mut attempts = FuturesUnordered::new();
    loop {
        let now = tokio::time::Instant::now();
        let until = match race.next(now.into_std()) {
            Move::Start(address) => {
                let attempt = attempt(address);
                attempts.push(async move { (address, attempt.await, now.elapsed()) });
                continue;
            }
            Move::Wait(until) => until,
            Move::Lost => return Err(race.failures),
        };
        let turn = async {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = turn => {}
            Some((address, ended, took)) = attempts.next() => match ended {
                Ok(socket) => return Ok((address, socket, took)),
                Err(error) => race.failed(address, error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn address(v6: bool, number: u8) -> SocketAddr {
        let ip = if v6 { [0, 0, 0, 0, 0, 0, 0, u16::from(number)].into() } else { [127, 0, 0, number].into() };
        SocketAddr::new(ip, 443)
    }

    #[derive(Debug, Clone, Copy)]
    enum Fate {
        Wins(u64),
        Fails(u64),
        Silent,
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![
            (0..2000_u64).prop_map(Fate::Wins),
            (0..2000_u64).prop_map(Fate::Fails),
            (0..2000_u64).prop_map(Fate::Fails),
            Just(Fate::Silent),
        ]
    }

    fn addresses() -> impl Strategy<Value = Vec<SocketAddr>> {
        prop::collection::vec((any::<bool>(), 1..9_u8).prop_map(|(v6, number)| address(v6, number)), 0..12)
    }

    proptest! {
        #[test]
        fn address_families_alternate(addresses in addresses()) {
            let order = Vec::from(interleave(addresses.clone()));
            for v6 in [false, true] {
                let mut sorted: Vec<_> = addresses.iter().filter(|a| a.is_ipv6() == v6).collect();
                let mut seen = Vec::new();
                sorted.retain(|a| !seen.contains(a) && { seen.push(*a); true });
                prop_assert!(order.iter().filter(|a| a.is_ipv6() == v6).eq(sorted));
            }
            prop_assert_eq!(order.first(), addresses.first());
            let turns = order.iter().filter(|a| a.is_ipv6()).count().min(order.iter().filter(|a| a.is_ipv4()).count());
            for pair in order.chunks(2).take(turns) {
                prop_assert_ne!(pair[0].is_ipv6(), pair[1].is_ipv6());
            }
        }

        /// A whole race in simulated time, with random outcomes. Longer than 60 lines: one loop over the race's moves.
        #[test]
        fn first_success_wins_and_only_all_failures_fail(
            fates in prop::collection::hash_map((any::<bool>(), 1..9_u8).prop_map(|(v6, n)| address(v6, n)), fate(), 0..10),
        ) {
            let order = Vec::from(interleave(fates.keys().copied()));
            let begin = Instant::now();
            let mut now = begin;
            let mut race = Race::new(fates.keys().copied());
            let mut started: Vec<(SocketAddr, Instant)> = Vec::new();
            let mut running: HashMap<SocketAddr, Instant> = HashMap::new();
            let mut last_failure = None;
            let ends = |running: &HashMap<SocketAddr, Instant>| {
                running.iter().filter_map(|(address, since)| match fates[address] {
                    Fate::Wins(after) | Fate::Fails(after) => Some((*since + Duration::from_millis(after), *address)),
                    Fate::Silent => None,
                }).min()
            };
            let won = loop {
                match race.next(now) {
                    Move::Start(address) => {
                        if let Some((_, before)) = started.last() {
                            let gap = now - *before;
                            prop_assert!(gap >= ATTEMPT_DELAY || last_failure == Some(now), "{:?}", gap);
                        }
                        // One failure starts one attempt.
                        last_failure = None;
                        started.push((address, now));
                        running.insert(address, now);
                    }
                    Move::Wait(until) => {
                        prop_assert!(!running.is_empty());
                        prop_assert_eq!(until.is_some(), started.len() < order.len());
                        prop_assert!(until.is_none() || last_failure != Some(now), "a failure starts the next attempt at once");
                        match (ends(&running), until) {
                            (Some((at, address)), until) if until.is_none_or(|until| at <= until) => {
                                now = at;
                                if let Fate::Wins(_) = fates[&address] {
                                    break Some(address);
                                }
                                running.remove(&address);
                                race.failed(address, ());
                                last_failure = Some(now);
                            }
                            (_, Some(until)) => {
                                prop_assert!(until > now && until <= now + ATTEMPT_DELAY);
                                now = until;
                            }
                            // All are silent: the caller's timeout ends the race.
                            (_, None) => break None,
                        }
                    }
                    Move::Lost => {
                        prop_assert_eq!(race.failures.len(), order.len());
                        prop_assert!(fates.values().all(|fate| matches!(fate, Fate::Fails(_))));
                        break None;
                    }
                }
            };
            prop_assert!(started.iter().map(|(address, _)| address).eq(&order[..started.len()]));
            if won.is_none() {
                prop_assert_eq!(started.len(), order.len());
                prop_assert!(!fates.values().any(|fate| matches!(fate, Fate::Wins(_))));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silent_address_costs_one_attempt_delay() {
        let begin = tokio::time::Instant::now();
        let dropped = std::sync::Arc::new(());
        let (winner, (), took) = run([address(true, 1), address(false, 1)], |to| {
            let held = dropped.clone();
            async move {
                tokio::time::sleep(if to.is_ipv6() { Duration::MAX } else { Duration::from_millis(30) }).await;
                drop(held);
                Ok(())
            }
        })
        .await
        .unwrap();
        assert_eq!((winner, took), (address(false, 1), Duration::from_millis(30)));
        assert_eq!(begin.elapsed(), ATTEMPT_DELAY + Duration::from_millis(30));
        assert_eq!(std::sync::Arc::strong_count(&dropped), 1);
    }

    #[tokio::test]
    async fn refused_address_starts_the_next_attempt_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        // Bound but not listening: connections are refused, and no other process can take the port.
        let closed = [tokio::net::TcpSocket::new_v6().unwrap(), tokio::net::TcpSocket::new_v4().unwrap()];
        closed[0].bind("[::1]:0".parse().unwrap()).unwrap();
        closed[1].bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let bad = [closed[0].local_addr().unwrap(), closed[1].local_addr().unwrap()];

        let (winner, stream, _) = run([bad[0], good], tokio::net::TcpStream::connect).await.unwrap();
        assert_eq!((winner, stream.peer_addr().unwrap()), (good, good));
        let failures = run(bad, tokio::net::TcpStream::connect).await.unwrap_err();
        assert_eq!(failures.iter().map(|(address, _)| *address).collect::<Vec<_>>(), bad);
        assert!(failures.iter().all(|(_, error)| error.kind() == io::ErrorKind::ConnectionRefused));
    }
}
