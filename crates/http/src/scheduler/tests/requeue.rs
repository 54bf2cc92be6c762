//! Requests that come back without a response.

use super::*;

#[test]
fn reconnecting_is_retried_only_if_the_server_was_there_before() {
    let mut harness = Harness::new(1, Pipelining::Off);
    let job = harness.asks(1)[0];
    let failed = Action::Fail { job, cause: Shared(Cause::Closed), outcome_unknown: false };
    assert_eq!(harness.scheduler.actions(), [Action::Open(ConnectionId(1), Duration::ZERO)]);
    harness.scheduler.open_failed(ConnectionId(1), &Cause::Closed, harness.now);
    assert_eq!(harness.scheduler.actions(), [failed]);
    let job = harness.asks(1)[0];
    harness.run();
    harness.scheduler.closed(ConnectionId(2), &Cause::Closed, &[(job, Sent::Something)], harness.now);
    let mut pauses = Duration::ZERO;
    for attempt in 3.. {
        match &harness.scheduler.actions()[..] {
            [Action::Open(id, pause)] if id.0 == attempt => pauses += *pause,
            [Action::Fail { .. }] => break,
            other => panic!("{other:?}"),
        }
        harness.scheduler.open_failed(ConnectionId(attempt), &Cause::Closed, harness.now);
    }
    assert_eq!(pauses, Duration::from_millis(200 + 400 + 800 + 1600 + 3200));
}

#[test]
fn suspect_request_is_retried_alone_and_fails_after_four_attempts() {
    let mut harness = Harness::new(1, Pipelining::Aggressive);
    let jobs = harness.asks(2);
    assert_eq!(harness.run().len(), 2);
    for life in 1..=4 {
        let unanswered = if life == 1 { &jobs[..] } else { &jobs[..1] };
        let unanswered: Vec<_> = unanswered.iter().map(|job| (*job, Sent::Something)).collect();
        harness.scheduler.closed(ConnectionId(life), &Cause::Closed, &unanswered, harness.now);
        if life == 4 {
            let failed = Action::Fail { job: jobs[0], cause: Shared(Cause::Closed), outcome_unknown: false };
            let actions = harness.scheduler.actions();
            assert_eq!(actions[0], failed);
            assert!(matches!(actions[1..], [Action::Open(..)]), "the other request was not to blame: {actions:?}");
        } else {
            assert_eq!(harness.run(), [(life + 1, jobs[0])]);
        }
    }
}

#[test]
fn reused_connection_does_not_count_against_its_request() {
    let mut harness = Harness::new(2, Pipelining::Off);
    harness.asks(2);
    for (connection, job) in harness.run() {
        harness.answer(connection, job, None);
    }
    harness.asks(1);
    // Two reused connections, and four of its own.
    for _ in 0..6 {
        let [(connection, job)] = harness.run()[..] else { panic!("it is not sent") };
        harness.scheduler.closed(ConnectionId(connection), &Cause::Closed, &[(job, Sent::Something)], harness.now);
    }
    assert!(matches!(harness.scheduler.actions()[..], [Action::Fail { .. }]));
}

#[test]
fn a_change_that_the_server_may_still_carry_out_is_not_retried() {
    let late = Cause::TimedOut(Step::FirstByte, Duration::from_mins(1));
    let cut = Cause::TimedOut(Step::Send, Duration::from_mins(1));
    for (repeats, cause, fails) in [(false, &late, true), (false, &cut, false), (true, &late, false)] {
        for whole_connection in [false, true] {
            let mut harness = Harness::new(1, Pipelining::Safe);
            let job = harness.ask(|profile| profile.repeats_after_silence = repeats);
            assert_eq!(harness.run(), [(1, job)]);
            if whole_connection {
                harness.scheduler.closed(ConnectionId(1), cause, &[(job, Sent::Something)], harness.now);
            } else {
                harness.scheduler.returned(ConnectionId(1), job, Sent::Something, cause, harness.now);
            }
            let failed = Action::Fail { job, cause: Shared(late.clone()), outcome_unknown: true };
            assert_eq!(harness.scheduler.actions().contains(&failed), fails, "{repeats} {cause}");
        }
    }
}

#[test]
fn http_1_1_required_switches_the_origin_to_http_1() {
    let required = Cause::Http2 { code: 13, said: String::new() };
    for whole_connection in [false, true] {
        let mut harness = Harness::new(2, Pipelining::Aggressive);
        let job = harness.asks(1)[0];
        assert_eq!(harness.scheduler.actions(), [Action::Open(ConnectionId(1), Duration::ZERO)]);
        assert!(harness.scheduler.opened(ConnectionId(1), Version::HTTP_2, harness.now));
        assert_eq!(harness.scheduler.actions(), [Action::Send(ConnectionId(1), job)]);
        assert!(!harness.scheduler.is_serial_only());
        if whole_connection {
            harness.scheduler.closed(ConnectionId(1), &required, &[(job, Sent::Nothing)], harness.now);
            assert_eq!(harness.scheduler.actions(), [Action::Open(ConnectionId(2), Duration::ZERO)]);
        } else {
            harness.scheduler.returned(ConnectionId(1), job, Sent::Nothing, &required, harness.now);
            let open = Action::Open(ConnectionId(2), Duration::ZERO);
            assert_eq!(harness.scheduler.actions(), [Action::Retire(ConnectionId(1)), open]);
        }
        assert!(harness.scheduler.is_serial_only());
        assert!(
            !harness.scheduler.opened(ConnectionId(2), Version::HTTP_2, harness.now),
            "it was dialled before the switch"
        );
        assert_eq!(harness.run(), [(3, job)]);
    }
}

#[test]
fn a_request_is_not_sent_again_after_the_callers_patience() {
    let mut harness = Harness::new(1, Pipelining::Aggressive);
    harness.scheduler.limits.patience = Some(Duration::from_secs(12));
    let job = harness.asks(1)[0];
    let silent = Cause::TimedOut(Step::FirstByte, Duration::from_secs(6));
    for life in 1..=2 {
        assert_eq!(harness.run(), [(life, job)]);
        harness.now.instant += Duration::from_secs(6);
        harness.scheduler.closed(ConnectionId(life), &silent, &[(job, Sent::Something)], harness.now);
    }
    assert_eq!(harness.scheduler.actions(), [Action::Fail { job, cause: Shared(silent), outcome_unknown: false }]);
}

#[test]
fn the_queue_fails_when_nothing_is_heard_for_the_callers_patience() {
    let mut harness = Harness::new(1, Pipelining::Off);
    harness.scheduler.limits.patience = Some(Duration::from_secs(6));
    let jobs = harness.asks(3);
    assert_eq!(harness.run(), [(1, jobs[0])]);
    harness.now.instant += Duration::from_secs(5);
    harness.answer(1, jobs[0], None);
    assert_eq!(harness.run(), [(1, jobs[1])]);
    harness.now.instant += Duration::from_secs(3);
    let late = harness.ask(|_| ());
    harness.now.instant += Duration::from_secs(3);
    let silent = Cause::TimedOut(Step::FirstByte, Duration::from_secs(6));
    harness.scheduler.closed(ConnectionId(1), &silent, &[(jobs[1], Sent::Something)], harness.now);
    let actions = harness.scheduler.actions();
    let failed = |job| Action::Fail { job, cause: Shared(silent.clone()), outcome_unknown: false };
    assert!(actions.contains(&failed(jobs[1])) && actions.contains(&failed(jobs[2])), "{actions:?}");
    assert!(!actions.contains(&failed(late)), "it has not waited for so long: {actions:?}");
}
