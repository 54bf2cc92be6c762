//! How many connections are opened, when, and which requests new ones get.

use std::collections::BTreeMap;

use super::*;

#[test]
fn connection_that_waits_for_its_reader_leaves_room_for_another() {
    let mut harness = Harness::new(2, Pipelining::Off);
    let large = |harness: &mut Harness| harness.ask(|profile| profile.class = Class::Large);
    let downloads = [large(&mut harness), large(&mut harness)];
    assert_eq!(harness.run(), [(1, downloads[0]), (2, downloads[1])]);
    let next = large(&mut harness);
    assert_eq!(harness.run(), [], "both are read");
    let lags = |harness: &mut Harness, connection, is_lagging| {
        harness.scheduler.reader_lags(ConnectionId(connection), is_lagging, harness.now);
    };
    lags(&mut harness, 1, true);
    assert_eq!(harness.run(), [(3, next)]);
    // Beyond their limit they count.
    let more = [(); 3].map(|()| large(&mut harness));
    lags(&mut harness, 2, true);
    assert_eq!(harness.run(), [(4, more[0])]);
    lags(&mut harness, 3, true);
    lags(&mut harness, 4, true);
    assert_eq!(harness.run(), [], "two may be unread beside two others");
    lags(&mut harness, 1, false);
    assert_eq!(harness.run(), []);
    harness.scheduler.done(ConnectionId(1), downloads[0], (100, 1 << 20), None, harness.now);
    assert_eq!(harness.run(), [(1, more[1])]);
}

#[test]
fn idle_connections_are_closed_after_the_timeout() {
    let mut harness = Harness::new(2, Pipelining::Off);
    let jobs = harness.asks(2);
    harness.run();
    harness.answer(1, jobs[0], None);
    harness.now.instant += Duration::from_secs(30);
    harness.answer(2, jobs[1], None);
    harness.now.instant += Duration::from_secs(31);
    harness.scheduler.tick(Duration::from_mins(1), harness.now);
    assert_eq!(harness.scheduler.actions(), [Action::Retire(ConnectionId(1))]);
}

#[test]
fn refused_connections_lower_the_limit() {
    let mut harness = Harness::new(4, Pipelining::Off);
    let jobs = harness.asks(4);
    assert_eq!(harness.scheduler.actions().len(), 4);
    harness.scheduler.opened(ConnectionId(1), Version::HTTP_11, harness.now);
    for refused in 2..=4 {
        harness.scheduler.open_failed(ConnectionId(refused), &Cause::Closed, harness.now);
    }
    for job in &jobs[..3] {
        assert_eq!(harness.run(), [(1, *job)]);
        harness.answer(1, *job, None);
    }
    harness.run();
    harness.now.instant += Duration::from_secs(31);
    harness.asks(1);
    assert_eq!(harness.run().len(), 1, "after a while the limit is tested again");
}

#[test]
fn first_open_connection_leaves_requests_for_those_still_opening() {
    for (bytes, each) in [(2048, 14), (0, 20)] {
        let mut harness = Harness::new(6, Pipelining::Aggressive);
        for _ in 0..100 {
            harness.ask(|profile| profile.bytes = bytes);
        }
        let mut sent = BTreeMap::<u64, usize>::new();
        assert_eq!(harness.scheduler.actions().len(), 6);
        for id in 1..=6 {
            assert!(harness.scheduler.opened(ConnectionId(id), Version::HTTP_11, harness.now));
            for action in harness.scheduler.actions() {
                match action {
                    Action::Send(id, _) => *sent.entry(id.0).or_default() += 1,
                    other => panic!("{other:?}"),
                }
            }
            if id == 1 {
                assert_eq!(sent[&1], each);
            }
        }
        assert_eq!(sent.values().sum::<usize>(), 100);
        let (least, most) = (sent.values().min().unwrap(), sent.values().max().unwrap());
        assert!(sent.len() >= 5 && *most <= 20 && (bytes == 0 || most - least <= 1), "{sent:?}");
    }
}

#[test]
fn waiting_request_fails_if_only_a_draining_connection_is_left() {
    let mut harness = Harness::new(2, Pipelining::Off);
    let job = harness.asks(1)[0];
    harness.run();
    let told = ResponseHead { version: Version::HTTP_11, length: Some(1 << 40), keep: None, last: true };
    harness.scheduler.head(ConnectionId(1), job, &told, harness.now);
    let waiting = harness.asks(1)[0];
    for attempt in 2.. {
        match &harness.scheduler.actions()[..] {
            [Action::Open(id, _)] => assert_eq!(id.0, attempt),
            [Action::Fail { job, outcome_unknown: false, .. }] if *job == waiting => break,
            other => panic!("{other:?}"),
        }
        harness.scheduler.open_failed(ConnectionId(attempt), &Cause::Closed, harness.now);
    }
}

/// `TCP_INFO` with this smoothed RTT in ms; the minimum is 200 ms.
fn round_trip(ms: u64) -> Window {
    let rtt = Duration::from_millis(ms);
    Window {
        bytes: 14_600,
        rto: rtt * 2,
        rtt,
        min_rtt: Some(Duration::from_millis(200)),
        in_flight_target: crate::pool::ByteCounts::default(),
    }
}

#[test]
fn standing_queue_limits_the_connections_to_two() {
    let mut harness = Harness::new(6, Pipelining::Aggressive);
    harness.asks(12);
    let mut in_flight: VecDeque<(u64, JobId)> = harness.run().into();
    let busy = |in_flight: &VecDeque<(u64, JobId)>| {
        let mut busy: Vec<u64> = in_flight.iter().map(|(connection, _)| *connection).collect();
        busy.sort_unstable();
        busy.dedup();
        busy.len()
    };
    // One response, and one more request, at this RTT.
    let go_on = |harness: &mut Harness, in_flight: &mut VecDeque<(u64, JobId)>, ms, times| {
        for _ in 0..times {
            let (connection, job) = in_flight.pop_front().unwrap();
            harness.now.instant += Duration::from_millis(ms);
            harness.scheduler.done(ConnectionId(connection), job, (100, 10), Some(round_trip(ms)), harness.now);
            harness.asks(1);
            in_flight.extend(harness.run());
        }
    };
    go_on(&mut harness, &mut in_flight, 330, 30);
    assert_eq!(busy(&in_flight), 6, "this may be a short burst");
    go_on(&mut harness, &mut in_flight, 900, 40);
    assert_eq!(busy(&in_flight), 2);

    // Large requests leave one of the two connections to small ones.
    let large = [(); 2].map(|()| harness.ask(|profile| profile.class = Class::Large));
    let mut sent = 0;
    for _ in 0..120 {
        go_on(&mut harness, &mut in_flight, 900, 1);
        let now = in_flight.iter().filter(|(_, job)| large.contains(job)).count();
        assert!(now <= 1, "{in_flight:?}");
        sent += now;
    }
    assert!(sent > 0, "large requests do not starve");
    go_on(&mut harness, &mut in_flight, 210, 60);
    assert!(busy(&in_flight) > 2, "the queue is gone");
}

#[test]
fn connection_gets_only_early_data_before_its_handshake_is_done() {
    let mut harness = Harness::new(1, Pipelining::Safe);
    let (put, get) =
        (harness.ask(|profile| (profile.is_safe, profile.may_be_early_data) = (false, false)), harness.ask(|_| ()));
    let late = harness.ask(|profile| profile.may_be_early_data = false);
    let Some(Action::Open(connection, _)) = harness.scheduler.actions().pop() else { panic!("none is opened") };
    harness.scheduler.opens_early(connection);
    assert!(harness.scheduler.opened(connection, Version::HTTP_3, harness.now));
    assert_eq!(harness.scheduler.actions(), [Action::Send(connection, get)]);
    harness.scheduler.confirmed(connection, harness.now);
    assert_eq!(harness.scheduler.actions(), [Action::Send(connection, put), Action::Send(connection, late)]);
}

/// The connections that the scheduler opens.
fn opens(harness: &mut Harness) -> Vec<ConnectionId> {
    let open = |action| match action {
        Action::Open(id, _) => Some(id),
        Action::Send(..) => None,
        other => panic!("{other:?}"),
    };
    harness.scheduler.actions().into_iter().filter_map(open).collect()
}

#[test]
fn first_connection_decides_whether_others_are_opened() {
    let shared = || {
        let mut harness = Harness::new(6, Pipelining::Off);
        harness.scheduler.limits.shares = true;
        harness.asks(5);
        let [first] = opens(&mut harness)[..] else { panic!("not one") };
        assert!(harness.scheduler.wake().is_some());
        (harness, first)
    };
    // HTTP/2: no other connection is opened.
    let (mut harness, first) = shared();
    harness.asks(5);
    assert_eq!(opens(&mut harness), []);
    assert!(harness.scheduler.opened(first, Version::HTTP_2, harness.now));
    assert_eq!((harness.run().len(), harness.scheduler.wake()), (10, None));
    // It is draining: again one goes first.
    harness.scheduler.draining(first, &Cause::Closed, harness.now);
    harness.asks(5);
    assert_eq!(opens(&mut harness).len(), 1);

    // HTTP/1.1: the others follow at once, also next time.
    let (mut harness, first) = shared();
    assert!(harness.scheduler.opened(first, Version::HTTP_11, harness.now));
    assert_eq!(opens(&mut harness).len(), 4);
    assert_eq!(harness.scheduler.wake(), None);

    // It is late: the others are opened too.
    let (mut harness, _) = shared();
    harness.now.instant = harness.scheduler.wake().unwrap();
    harness.scheduler.tick(Duration::from_mins(1), harness.now);
    assert_eq!(opens(&mut harness).len(), 4);
    assert_eq!(harness.scheduler.wake(), None, "no timer without a reason");

    // It fails: one more is opened.
    let (mut harness, first) = shared();
    harness.scheduler.opened(first, Version::HTTP_2, harness.now);
    harness.run();
    harness.scheduler.closed(first, &Cause::Closed, &[], harness.now);
    harness.asks(3);
    let [second] = opens(&mut harness)[..] else { panic!("not one") };
    harness.scheduler.open_failed(second, &Cause::Closed, harness.now);
    assert_eq!(opens(&mut harness).len(), 1);
}
