//! Round trips on the link under test that follow one another: what a client far from its server waits for, whatever
//! happens on its LAN, in its box and in the server.
//!
//! The client's end of the link sends data in response to nothing, or to data of the other end, which then has taken a
//! round trip. So two sends of which one waits for the answer to the other are at least a round-trip time (RTT) apart.
//! The count is the smallest number of intervals, each an RTT long, that cover all of these sends. The sends of a chain of
//! requests, each of which waits for the answer before, are in as many intervals, so that the count is never less than
//! the longest chain. Requests beside a chain share its intervals.
//!
//! The server's work and a slow LAN make the gaps between intervals longer, and not their number. Both would count in
//! the time divided by the RTT.
//!
//! It is an upper bound. A long upload, which sends all the time, has as many intervals as RTTs; so may requests in the
//! background, which nobody waits for, if they are sent while the chain pauses for more than an RTT.
//!
//! Rejected: the time in which a request is unanswered, which includes the server's work; and the causes of `explain`,
//! which are estimates where requests overlap, and are known only after the claims are judged.

use std::time::Duration;

use capture::{
    Direction, Error, Packet, Source,
    tcp::{Flags, Segment},
};

/// Counts them, given the sends in the order of their times.
#[derive(Debug)]
struct Counter {
    interval: Duration,
    end: Option<Duration>,
    count: u64,
}

impl Counter {
    /// The intervals are shorter than the RTT by a hundredth, so that clocks that differ by some microseconds do not put
    /// an answer's request and the next one into the same.
    fn new(rtt: Duration) -> Self {
        Self { interval: rtt.mul_f64(0.99), end: None, count: 0 }
    }

    fn sent(&mut self, at: Duration) {
        if self.end.is_none_or(|end| at >= end) {
            self.end = Some(at + self.interval);
            self.count += 1;
        }
    }
}

/// The number in a capture at the client's end, from `began` on for `took`; none without delay.
pub(crate) fn count(
    packets: &mut impl Source,
    began: Duration,
    took: Duration,
    rtt: Duration,
) -> Result<Option<u64>, Error> {
    if rtt.is_zero() {
        return Ok(None);
    }
    let mut counter = Counter::new(rtt);
    while let Some(packet) = packets.next()? {
        if (began..=began + took).contains(&packet.time) && is_send(&packet) {
            counter.sent(packet.time);
        }
    }
    Ok(Some(counter.count))
}

/// Whether the client sends something that has an answer. QUIC encrypts its acknowledgements, so they count too.
fn is_send(packet: &Packet) -> bool {
    let has_data = |segment: Segment| segment.data > 0 || segment.flags.has(Flags::SYN);
    let is_datagram = || packet.udp().is_some_and(|(.., data)| !data.is_empty());
    packet.direction == Some(Direction::Outbound) && Segment::of(packet).map_or_else(is_datagram, has_data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RTT: Duration = Duration::from_millis(20);

    fn counted(sends_ms: impl IntoIterator<Item = u64>) -> u64 {
        let mut counter = Counter::new(RTT);
        sends_ms.into_iter().for_each(|ms| counter.sent(Duration::from_millis(ms)));
        counter.count
    }

    #[test]
    fn requests_at_once_share_a_round_trip() {
        assert_eq!(counted([]), 0);
        assert_eq!(counted([5, 6, 7, 24]), 1);
        assert_eq!(counted([5, 25, 45]), 3, "each waits for the one before");
        assert_eq!(counted([5, 40, 75]), 3, "work of the server adds none");
    }

    #[test]
    fn requests_behind_an_acknowledged_one_share_the_next_round_trips() {
        // LOCK, PUT; then UNLOCK in the background, while the next file's LOCK and PUT follow.
        assert_eq!(counted([0, 22, 43, 45, 67]), 4);
    }

    /// A chain of requests, each after the answer to the one before, and other requests at any time.
    fn sends() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
        let chain = prop::collection::vec(20_u64..70, 1..30);
        (chain, prop::collection::vec(0_u64..1500, 0..60)).prop_map(|(gaps, others)| {
            let chain = gaps.iter().scan(0, |now, gap| {
                *now += gap;
                Some(*now)
            });
            (chain.collect(), others)
        })
    }

    proptest! {
        #[test]
        fn count_is_never_less_than_a_chain((chain, others) in sends()) {
            let mut all = [chain.clone(), others].concat();
            all.sort_unstable();
            let count = counted(all.iter().copied());
            prop_assert!(count >= chain.len() as u64);
            prop_assert!(count <= all.len() as u64);
        }
    }
}
