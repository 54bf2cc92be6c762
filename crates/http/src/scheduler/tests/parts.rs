//! Where the parts of something large go.

use super::*;
use crate::pool::{Moved, Window};

#[test]
fn more_parts_wait_where_a_round_trip_brings_more() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let part = |play: &mut Play, bytes| play.ask(|shape| (shape.class, shape.bytes) = (Class::Part, bytes));
    let (wide, narrow) = (part(&mut play, 400_000), part(&mut play, 40_000));
    let others = [(); 8].map(|()| part(&mut play, 50_000));
    assert_eq!(play.run(), [(1, wide), (2, narrow), (2, others[0]), (1, others[1])]);

    let rtt = Duration::from_millis(100);
    let window = |received| {
        let ahead = Moved { sent: 0, received };
        Some(Window { bytes: 14_600, rto: 2 * rtt, rtt, least_rtt: Some(rtt), ahead })
    };
    play.scheduler.done(ConnectionId(2), narrow, (100, 40_000), window(80_000), play.now);
    assert_eq!(play.run(), [(2, others[2])], "one always waits behind another");
    play.scheduler.done(ConnectionId(1), wide, (100, 400_000), window(800_000), play.now);
    assert_eq!(play.run(), [3, 4, 5, 6, 7].map(|next| (1, others[next])), "two round trips bring them all");
}
