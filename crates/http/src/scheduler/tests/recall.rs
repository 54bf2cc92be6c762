//! Requests behind a slow response.

use super::*;

/// A connection with five requests, the first of which has a slow response: large, or stalled.
fn behind_a_slow_one(connections: usize, told: Option<u64>) -> (Play, Vec<JobId>) {
    let mut play = Play::new(connections, Pipelining::Aggressive);
    let first = play.asks(1)[0];
    play.run();
    let others = play.asks(4);
    assert_eq!(play.run().len(), 4);
    if let Some(length) = told {
        let told = ResponseHead { version: Version::HTTP_11, length: Some(length), keep: None, last: false };
        play.scheduler.head(ConnectionId(1), first, &told, play.now);
    } else {
        play.scheduler.stalled(ConnectionId(1), first, play.now);
    }
    (play, [vec![first], others].concat())
}

#[test]
fn requests_behind_a_slow_response_are_recalled_if_another_connection_is_free() {
    for (told, sent) in [(Some(LARGE + 1), false), (None, true)] {
        let (mut play, jobs) = behind_a_slow_one(2, told);
        let call = Action::Recall { connection: ConnectionId(1), behind: jobs[0], sent };
        assert_eq!(play.scheduler.actions(), [call]);
        // In the driver's order: the youngest first.
        let slow = Cause::Retired("slow");
        for job in jobs[1..].iter().rev() {
            play.scheduler.returned(ConnectionId(1), *job, Sent::Something, &slow, play.now);
        }
        let went: Vec<_> = play.run();
        assert_eq!(went.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2; 4]);
        let next = play.asks(1)[0];
        assert_eq!(play.run(), [(2, next)], "no more requests go behind it");
        play.answer(1, jobs[0], None);
        let next = play.asks(1)[0];
        assert_eq!(play.run(), [(1, next)], "after the slow response the connection is used again");
    }
}

#[test]
fn requests_behind_a_slow_response_stay_until_a_connection_is_free() {
    let (mut play, jobs) = behind_a_slow_one(1, None);
    assert_eq!(play.scheduler.actions(), []);
    let later = play.asks(1)[0];
    assert_eq!(play.run(), [], "and no more requests go there");
    play.answer(1, jobs[0], None);
    assert_eq!(play.run(), [(1, later)]);

    let mut play = Play::new(2, Pipelining::Aggressive);
    let post = play.ask(|shape| (shape.repeatable, shape.pipelinable, shape.safe) = (false, false, false));
    let first = play.asks(1)[0];
    play.run();
    play.asks(1);
    play.run();
    play.scheduler.stalled(ConnectionId(2), first, play.now);
    assert_eq!(play.scheduler.actions(), []);
    play.answer(1, post, None);
    let call = Action::Recall { connection: ConnectionId(2), behind: first, sent: true };
    assert_eq!(play.scheduler.actions(), [call], "the other connection has become idle");
}
