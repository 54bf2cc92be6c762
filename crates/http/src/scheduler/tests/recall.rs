//! Requests behind a slow response.

use super::*;

/// A connection with five requests, the first of which has a slow response: large, or stalled.
fn behind_a_slow_one(connections: usize, told: Option<u64>) -> (Harness, Vec<JobId>) {
    let mut harness = Harness::new(connections, Pipelining::Aggressive);
    let first = harness.asks(1)[0];
    harness.run();
    let others = harness.asks(4);
    assert_eq!(harness.run().len(), 4);
    if let Some(length) = told {
        let told = ResponseHead { version: Version::HTTP_11, length: Some(length), keep: None, last: false };
        harness.scheduler.head(ConnectionId(1), first, &told, harness.now);
    } else {
        harness.scheduler.stalled(ConnectionId(1), first, harness.now);
    }
    (harness, [vec![first], others].concat())
}

#[test]
fn requests_behind_a_slow_response_are_recalled_if_another_connection_is_free() {
    for (told, sent) in [(Some(LARGE + 1), false), (None, true)] {
        let (mut harness, jobs) = behind_a_slow_one(2, told);
        let call = Action::Recall { connection: ConnectionId(1), behind: jobs[0], sent };
        assert_eq!(harness.scheduler.actions(), [call]);
        // In the driver's order: the youngest first.
        let slow = Cause::Retired("slow");
        for job in jobs[1..].iter().rev() {
            harness.scheduler.returned(ConnectionId(1), *job, Sent::Something, &slow, harness.now);
        }
        let went: Vec<_> = harness.run();
        assert_eq!(went.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2; 4]);
        let next = harness.asks(1)[0];
        assert_eq!(harness.run(), [(2, next)], "no more requests go behind it");
        harness.answer(1, jobs[0], None);
        let next = harness.asks(1)[0];
        assert_eq!(harness.run(), [(1, next)], "after the slow response the connection is used again");
    }
}

#[test]
fn requests_behind_a_slow_response_stay_until_a_connection_is_free() {
    let (mut harness, jobs) = behind_a_slow_one(1, None);
    assert_eq!(harness.scheduler.actions(), []);
    let later = harness.asks(1)[0];
    assert_eq!(harness.run(), [], "and no more requests go there");
    harness.answer(1, jobs[0], None);
    assert_eq!(harness.run(), [(1, later)]);

    let mut harness = Harness::new(2, Pipelining::Aggressive);
    let post =
        harness.ask(|profile| (profile.is_repeatable, profile.is_pipelinable, profile.is_safe) = (false, false, false));
    let first = harness.asks(1)[0];
    harness.run();
    harness.asks(1);
    harness.run();
    harness.scheduler.stalled(ConnectionId(2), first, harness.now);
    assert_eq!(harness.scheduler.actions(), []);
    harness.answer(1, post, None);
    let call = Action::Recall { connection: ConnectionId(2), behind: first, sent: true };
    assert_eq!(harness.scheduler.actions(), [call], "the other connection has become idle");
}
