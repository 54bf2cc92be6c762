//! Requests that come back without a response.

use super::*;

#[test]
fn reconnecting_is_retried_only_if_the_server_was_there_before() {
    let mut play = Play::new(1, Pipelining::Off);
    let job = play.asks(1)[0];
    let failed = Action::Fail { job, cause: Shared(Cause::Closed), outcome_unknown: false };
    assert_eq!(play.scheduler.actions(), [Action::Open(ConnectionId(1), Duration::ZERO)]);
    play.scheduler.open_failed(ConnectionId(1), &Cause::Closed, play.now);
    assert_eq!(play.scheduler.actions(), [failed]);
    let job = play.asks(1)[0];
    play.run();
    play.scheduler.closed(ConnectionId(2), &Cause::Closed, &[(job, Sent::Something)], play.now);
    let mut pauses = Duration::ZERO;
    for attempt in 3.. {
        match &play.scheduler.actions()[..] {
            [Action::Open(id, pause)] if id.0 == attempt => pauses += *pause,
            [Action::Fail { .. }] => break,
            other => panic!("{other:?}"),
        }
        play.scheduler.open_failed(ConnectionId(attempt), &Cause::Closed, play.now);
    }
    assert_eq!(pauses, Duration::from_millis(200 + 400 + 800 + 1600 + 3200));
}

#[test]
fn suspect_request_is_retried_alone_and_fails_after_four_attempts() {
    let mut play = Play::new(1, Pipelining::Aggressive);
    let jobs = play.asks(2);
    assert_eq!(play.run().len(), 2);
    for life in 1..=4 {
        let unanswered = if life == 1 { &jobs[..] } else { &jobs[..1] };
        let unanswered: Vec<_> = unanswered.iter().map(|job| (*job, Sent::Something)).collect();
        play.scheduler.closed(ConnectionId(life), &Cause::Closed, &unanswered, play.now);
        if life == 4 {
            let failed = Action::Fail { job: jobs[0], cause: Shared(Cause::Closed), outcome_unknown: false };
            let actions = play.scheduler.actions();
            assert_eq!(actions[0], failed);
            assert!(matches!(actions[1..], [Action::Open(..)]), "the other request was not to blame: {actions:?}");
        } else {
            assert_eq!(play.run(), [(life + 1, jobs[0])]);
        }
    }
}

#[test]
fn reused_connection_does_not_count_against_its_request() {
    let mut play = Play::new(2, Pipelining::Off);
    play.asks(2);
    for (connection, job) in play.run() {
        play.answer(connection, job, None);
    }
    play.asks(1);
    // Two reused connections, and four of its own.
    for _ in 0..6 {
        let [(connection, job)] = play.run()[..] else { panic!("it is not sent") };
        play.scheduler.closed(ConnectionId(connection), &Cause::Closed, &[(job, Sent::Something)], play.now);
    }
    assert!(matches!(play.scheduler.actions()[..], [Action::Fail { .. }]));
}

#[test]
fn large_upload_is_not_retried_after_a_first_byte_timeout() {
    let late = Cause::TimedOut(Step::FirstByte, Duration::from_mins(1));
    let cut = Cause::TimedOut(Step::Send, Duration::from_mins(1));
    for (safe, class, cause, fails) in [
        (false, Class::Large, &late, true),
        (false, Class::Large, &cut, false),
        (false, Class::Small, &late, false),
        (true, Class::Large, &late, false),
    ] {
        for whole_connection in [false, true] {
            let mut play = Play::new(1, Pipelining::Safe);
            let job = play.ask(|shape| (shape.safe, shape.class) = (safe, class));
            assert_eq!(play.run(), [(1, job)]);
            if whole_connection {
                play.scheduler.closed(ConnectionId(1), cause, &[(job, Sent::Something)], play.now);
            } else {
                play.scheduler.returned(ConnectionId(1), job, Sent::Something, cause, play.now);
            }
            let failed = Action::Fail { job, cause: Shared(late.clone()), outcome_unknown: true };
            assert_eq!(play.scheduler.actions().contains(&failed), fails, "{safe} {class:?} {cause}");
        }
    }
}

#[test]
fn http_1_1_required_switches_the_origin_to_http_1() {
    let required = Cause::Http2 { code: 13, said: String::new() };
    for whole_connection in [false, true] {
        let mut play = Play::new(2, Pipelining::Aggressive);
        let job = play.asks(1)[0];
        assert_eq!(play.scheduler.actions(), [Action::Open(ConnectionId(1), Duration::ZERO)]);
        assert!(play.scheduler.opened(ConnectionId(1), Version::HTTP_2, play.now));
        assert_eq!(play.scheduler.actions(), [Action::Send(ConnectionId(1), job)]);
        assert!(!play.scheduler.is_serial_only());
        if whole_connection {
            play.scheduler.closed(ConnectionId(1), &required, &[(job, Sent::Nothing)], play.now);
            assert_eq!(play.scheduler.actions(), [Action::Open(ConnectionId(2), Duration::ZERO)]);
        } else {
            play.scheduler.returned(ConnectionId(1), job, Sent::Nothing, &required, play.now);
            let open = Action::Open(ConnectionId(2), Duration::ZERO);
            assert_eq!(play.scheduler.actions(), [Action::Retire(ConnectionId(1)), open]);
        }
        assert!(play.scheduler.is_serial_only());
        assert!(!play.scheduler.opened(ConnectionId(2), Version::HTTP_2, play.now), "it was dialled before the switch");
        assert_eq!(play.run(), [(3, job)]);
    }
}
