//! Which connections get the ranges of a large file.

use super::*;
use crate::pool::{ByteCounts, Window};

#[test]
fn connection_with_more_bytes_per_round_trip_queues_more_parts() {
    let mut harness = Harness::new(2, Pipelining::Aggressive);
    let part =
        |harness: &mut Harness, bytes| harness.ask(|profile| (profile.class, profile.bytes) = (Class::Part, bytes));
    let (wide, narrow) = (part(&mut harness, 400_000), part(&mut harness, 40_000));
    let others = [(); 8].map(|()| part(&mut harness, 50_000));
    assert_eq!(harness.run(), [(1, wide), (2, narrow), (2, others[0]), (1, others[1])]);

    let rtt = Duration::from_millis(100);
    let window = |received| {
        let in_flight_target = ByteCounts { sent: 0, received };
        Some(Window { bytes: 14_600, rto: 2 * rtt, rtt, min_rtt: Some(rtt), in_flight_target })
    };
    harness.scheduler.done(ConnectionId(2), narrow, (100, 40_000), window(80_000), harness.now);
    assert_eq!(harness.run(), [(2, others[2])], "one part is always queued behind another");
    harness.scheduler.done(ConnectionId(1), wide, (100, 400_000), window(800_000), harness.now);
    assert_eq!(harness.run(), [3, 4, 5, 6, 7].map(|next| (1, others[next])), "all fit into two round trips");
}

/// A standing queue lowers six connections to two; parts use one of them, and queue as deep as before.
#[test]
fn parts_queue_as_deep_on_fewer_connections() {
    let mut harness = Harness::new(6, Pipelining::Aggressive);
    let window = |rtt, received| {
        let (in_flight_target, rtt) = (ByteCounts { sent: 0, received }, Duration::from_millis(rtt));
        Some(Window { bytes: 14_600, rto: rtt, rtt, min_rtt: Some(Duration::from_millis(100)), in_flight_target })
    };
    let part = |harness: &mut Harness| harness.ask(|profile| (profile.class, profile.bytes) = (Class::Part, 20_000));
    for _ in 0..6 {
        part(&mut harness);
    }
    let mut in_flight: VecDeque<_> = harness.run().into();
    let goes_on = |harness: &mut Harness, in_flight: &mut VecDeque<(u64, JobId)>, window, times| {
        for _ in 0..times {
            let (connection, job) = in_flight.pop_front().unwrap();
            harness.now.instant += Duration::from_millis(200);
            harness.scheduler.done(ConnectionId(connection), job, (100, 20_000), window, harness.now);
            part(harness);
            part(harness);
            in_flight.extend(harness.run());
        }
        let mut busy: Vec<_> = in_flight.iter().map(|(connection, _)| *connection).collect();
        busy.sort_unstable();
        busy.dedup();
        (busy.len(), in_flight.len())
    };
    let (busy, deep) = goes_on(&mut harness, &mut in_flight, window(900, 400_000), 60);
    assert!(busy == 6 && deep > 60, "wide windows cause a queue at any number of connections: {busy} {deep}");
    let (busy, deep) = goes_on(&mut harness, &mut in_flight, window(900, 100_000), 150);
    assert!(busy == 1 && deep == 4, "{busy} {deep}");
}
