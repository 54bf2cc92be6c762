//! How many connections are opened, when, and which requests new ones get.

use super::*;

#[test]
fn idle_connections_are_closed_after_the_timeout() {
    let mut play = Play::new(2, Pipelining::Off);
    let jobs = play.asks(2);
    play.run();
    play.answer(1, jobs[0], None);
    play.now.instant += Duration::from_secs(30);
    play.answer(2, jobs[1], None);
    play.now.instant += Duration::from_secs(31);
    play.scheduler.tick(Duration::from_mins(1), play.now);
    assert_eq!(play.scheduler.actions(), [Action::Retire(ConnectionId(1))]);
}

#[test]
fn refused_connections_lower_the_limit() {
    let mut play = Play::new(4, Pipelining::Off);
    let jobs = play.asks(4);
    assert_eq!(play.scheduler.actions().len(), 4);
    play.scheduler.opened(ConnectionId(1), Version::HTTP_11, play.now);
    for refused in 2..=4 {
        play.scheduler.open_failed(ConnectionId(refused), &Cause::Closed, play.now);
    }
    for job in &jobs[..3] {
        assert_eq!(play.run(), [(1, *job)]);
        play.answer(1, *job, None);
    }
    play.run();
    play.now.instant += Duration::from_secs(31);
    play.asks(1);
    assert_eq!(play.run().len(), 1, "after a while the limit is tested again");
}

#[test]
fn first_open_connection_leaves_requests_for_those_still_opening() {
    for (bytes, each) in [(2048, 14), (0, 20)] {
        let mut play = Play::new(6, Pipelining::Aggressive);
        for _ in 0..100 {
            play.ask(|shape| shape.bytes = bytes);
        }
        let mut sent = BTreeMap::<u64, usize>::new();
        assert_eq!(play.scheduler.actions().len(), 6);
        for id in 1..=6 {
            assert!(play.scheduler.opened(ConnectionId(id), Version::HTTP_11, play.now));
            for action in play.scheduler.actions() {
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
fn draining_connection_does_not_count_as_open() {
    let mut play = Play::new(2, Pipelining::Off);
    let job = play.asks(1)[0];
    play.run();
    let told = ResponseHead { version: Version::HTTP_11, length: Some(1 << 40), keep: None, last: true };
    play.scheduler.head(ConnectionId(1), job, &told, play.now);
    let waiting = play.asks(1)[0];
    for attempt in 2.. {
        match &play.scheduler.actions()[..] {
            [Action::Open(id, _)] => assert_eq!(id.0, attempt),
            [Action::Fail { job, outcome_unknown: false, .. }] if *job == waiting => break,
            other => panic!("{other:?}"),
        }
        play.scheduler.open_failed(ConnectionId(attempt), &Cause::Closed, play.now);
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
    let mut play = Play::new(6, Pipelining::Aggressive);
    play.asks(12);
    let mut under_way: VecDeque<(u64, JobId)> = play.run().into();
    let busy = |under_way: &VecDeque<(u64, JobId)>| {
        let mut busy: Vec<u64> = under_way.iter().map(|(connection, _)| *connection).collect();
        busy.sort_unstable();
        busy.dedup();
        busy.len()
    };
    // One response, and one more request, at this RTT.
    let go_on = |play: &mut Play, under_way: &mut VecDeque<(u64, JobId)>, ms, times| {
        for _ in 0..times {
            let (connection, job) = under_way.pop_front().unwrap();
            play.now.instant += Duration::from_millis(ms);
            play.scheduler.done(ConnectionId(connection), job, (100, 10), Some(round_trip(ms)), play.now);
            play.asks(1);
            under_way.extend(play.run());
        }
    };
    go_on(&mut play, &mut under_way, 330, 30);
    assert_eq!(busy(&under_way), 6, "this may be a short burst");
    go_on(&mut play, &mut under_way, 900, 40);
    assert_eq!(busy(&under_way), 2);

    // Large requests leave one of the two connections to small ones.
    let large = [(); 2].map(|()| play.ask(|shape| shape.class = Class::Large));
    let mut sent = 0;
    for _ in 0..120 {
        go_on(&mut play, &mut under_way, 900, 1);
        let now = under_way.iter().filter(|(_, job)| large.contains(job)).count();
        assert!(now <= 1, "{under_way:?}");
        sent += now;
    }
    assert!(sent > 0, "large requests do not starve");
    go_on(&mut play, &mut under_way, 210, 60);
    assert!(busy(&under_way) > 2, "the queue is gone");
}

#[test]
fn connection_gets_only_early_data_before_its_handshake_is_done() {
    let mut play = Play::new(1, Pipelining::Safe);
    let (put, get) = (play.ask(|shape| (shape.safe, shape.early) = (false, false)), play.ask(|_| ()));
    let late = play.ask(|shape| shape.early = false);
    let Some(Action::Open(connection, _)) = play.scheduler.actions().pop() else { panic!("none is opened") };
    play.scheduler.opens_early(connection);
    assert!(play.scheduler.opened(connection, Version::HTTP_3, play.now));
    assert_eq!(play.scheduler.actions(), [Action::Send(connection, get)]);
    play.scheduler.confirmed(connection, play.now);
    assert_eq!(play.scheduler.actions(), [Action::Send(connection, put), Action::Send(connection, late)]);
}

/// The connections that the scheduler opens.
fn opens(play: &mut Play) -> Vec<ConnectionId> {
    let open = |action| match action {
        Action::Open(id, _) => Some(id),
        Action::Send(..) => None,
        other => panic!("{other:?}"),
    };
    play.scheduler.actions().into_iter().filter_map(open).collect()
}

#[test]
fn first_connection_decides_whether_others_are_opened() {
    let shared = || {
        let mut play = Play::new(6, Pipelining::Off);
        play.scheduler.limits.shares = true;
        play.asks(5);
        let [first] = opens(&mut play)[..] else { panic!("not one") };
        assert!(play.scheduler.wake().is_some());
        (play, first)
    };
    // HTTP/2: no other connection is opened.
    let (mut play, first) = shared();
    play.asks(5);
    assert_eq!(opens(&mut play), []);
    assert!(play.scheduler.opened(first, Version::HTTP_2, play.now));
    assert_eq!((play.run().len(), play.scheduler.wake()), (10, None));
    // It is draining: again one goes first.
    play.scheduler.draining(first, &Cause::Closed, play.now);
    play.asks(5);
    assert_eq!(opens(&mut play).len(), 1);

    // HTTP/1.1: the others follow at once, also next time.
    let (mut play, first) = shared();
    assert!(play.scheduler.opened(first, Version::HTTP_11, play.now));
    assert_eq!(opens(&mut play).len(), 4);
    assert_eq!(play.scheduler.wake(), None);

    // It is late: the others are opened too.
    let (mut play, _) = shared();
    play.now.instant = play.scheduler.wake().unwrap();
    play.scheduler.tick(Duration::from_mins(1), play.now);
    assert_eq!(opens(&mut play).len(), 4);
    assert_eq!(play.scheduler.wake(), None, "no timer without a reason");

    // It fails: one more is opened.
    let (mut play, first) = shared();
    play.scheduler.opened(first, Version::HTTP_2, play.now);
    play.run();
    play.scheduler.closed(first, &Cause::Closed, &[], play.now);
    play.asks(3);
    let [second] = opens(&mut play)[..] else { panic!("not one") };
    play.scheduler.open_failed(second, &Cause::Closed, play.now);
    assert_eq!(opens(&mut play).len(), 1);
}
