//! Which connections get the ranges of a large file.

use super::*;
use crate::pool::{ByteCounts, Window};

#[test]
fn connection_with_more_bytes_per_round_trip_queues_more_parts() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let part = |play: &mut Play, bytes| play.ask(|shape| (shape.class, shape.bytes) = (Class::Part, bytes));
    let (wide, narrow) = (part(&mut play, 400_000), part(&mut play, 40_000));
    let others = [(); 8].map(|()| part(&mut play, 50_000));
    assert_eq!(play.run(), [(1, wide), (2, narrow), (2, others[0]), (1, others[1])]);

    let rtt = Duration::from_millis(100);
    let window = |received| {
        let in_flight_target = ByteCounts { sent: 0, received };
        Some(Window { bytes: 14_600, rto: 2 * rtt, rtt, min_rtt: Some(rtt), in_flight_target })
    };
    play.scheduler.done(ConnectionId(2), narrow, (100, 40_000), window(80_000), play.now);
    assert_eq!(play.run(), [(2, others[2])], "one part is always queued behind another");
    play.scheduler.done(ConnectionId(1), wide, (100, 400_000), window(800_000), play.now);
    assert_eq!(play.run(), [3, 4, 5, 6, 7].map(|next| (1, others[next])), "all fit into two round trips");
}

/// A standing queue lowers six connections to two; parts use one of them, and queue as deep as before.
#[test]
fn parts_queue_as_deep_on_fewer_connections() {
    let mut play = Play::new(6, Pipelining::Aggressive);
    let window = |rtt, received| {
        let (in_flight_target, rtt) = (ByteCounts { sent: 0, received }, Duration::from_millis(rtt));
        Some(Window { bytes: 14_600, rto: rtt, rtt, min_rtt: Some(Duration::from_millis(100)), in_flight_target })
    };
    let part = |play: &mut Play| play.ask(|shape| (shape.class, shape.bytes) = (Class::Part, 20_000));
    for _ in 0..6 {
        part(&mut play);
    }
    let mut under_way: VecDeque<_> = play.run().into();
    let goes_on = |play: &mut Play, under_way: &mut VecDeque<(u64, JobId)>, window, times| {
        for _ in 0..times {
            let (connection, job) = under_way.pop_front().unwrap();
            play.now.instant += Duration::from_millis(200);
            play.scheduler.done(ConnectionId(connection), job, (100, 20_000), window, play.now);
            part(play);
            part(play);
            under_way.extend(play.run());
        }
        let mut busy: Vec<_> = under_way.iter().map(|(connection, _)| *connection).collect();
        busy.sort_unstable();
        busy.dedup();
        (busy.len(), under_way.len())
    };
    let (busy, deep) = goes_on(&mut play, &mut under_way, window(900, 400_000), 60);
    assert!(busy == 6 && deep > 60, "wide windows cause a queue at any number of connections: {busy} {deep}");
    let (busy, deep) = goes_on(&mut play, &mut under_way, window(900, 100_000), 150);
    assert!(busy == 1 && deep == 4, "{busy} {deep}");
}
