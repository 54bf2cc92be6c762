//! Rules of the scheduler, one by one. What random faults make of them together is tested in `model`.

mod parts;
mod slow;

use std::collections::VecDeque;

use super::*;
use crate::{
    Step,
    wire::{Keep, Sent},
};

struct Play {
    scheduler: Scheduler,
    now: Moment,
    jobs: u64,
}

impl Play {
    fn new(connections: usize, pipelining: Pipelining) -> Self {
        let limits = Limits { connections, pipelining, choice: Choice::default(), shares: false };
        let now = Moment { instant: Instant::now(), seconds: 0.0 };
        Self { scheduler: Scheduler::new(limits, Knowledge::default()), now, jobs: 0 }
    }

    fn ask(&mut self, change: impl Fn(&mut Shape)) -> JobId {
        self.jobs += 1;
        let id = JobId(self.jobs);
        let mut shape = Shape {
            id,
            repeatable: true,
            pipelinable: true,
            safe: true,
            early: true,
            sending: false,
            class: Class::Small,
            bytes: 0,
            follower: None,
            follows: false,
        };
        change(&mut shape);
        self.scheduler.submit(shape, self.now);
        id
    }

    fn asks(&mut self, count: usize) -> Vec<JobId> {
        (0..count).map(|_| self.ask(|_| ())).collect()
    }

    /// Opens what is to be opened; what is sent, on which connection.
    fn run(&mut self) -> Vec<(u64, JobId)> {
        let mut sent = Vec::new();
        loop {
            let actions = self.scheduler.actions();
            if actions.is_empty() {
                return sent;
            }
            for action in actions {
                match action {
                    Action::Open(id, _) => assert!(self.scheduler.opened(id, Version::HTTP_11, self.now)),
                    Action::Retire(_) | Action::CallBack { .. } => {}
                    Action::Send(id, job) => sent.push((id.0, job)),
                    other @ Action::Fail { .. } => panic!("{other:?}"),
                }
            }
        }
    }

    fn answer(&mut self, connection: u64, job: JobId, keep: Option<Keep>) {
        let told = Told { version: Version::HTTP_11, length: Some(10), keep, last: false };
        self.scheduler.head(ConnectionId(connection), job, &told, self.now);
        self.scheduler.done(ConnectionId(connection), job, (100, 10), None, self.now);
    }
}

#[test]
fn what_may_not_be_repeated_stands_alone() {
    let mut play = Play::new(1, Pipelining::Aggressive);
    let first = play.asks(3);
    let post = play.ask(|shape| (shape.repeatable, shape.pipelinable) = (false, false));
    let behind = play.asks(1);
    let sent: Vec<JobId> = play.run().into_iter().map(|(_, job)| job).collect();
    assert_eq!(sent, [&first[..], &behind].concat(), "others do not wait for it");
    for job in sent {
        play.answer(1, job, None);
    }
    assert_eq!(play.run(), [(1, post)]);
    play.asks(1);
    assert_eq!(play.run(), [], "nothing stands behind it");
}

#[test]
fn large_exchanges_keep_out_of_pipelines() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let large = play.ask(|shape| shape.class = Class::Large);
    assert_eq!(play.run(), [(1, large)]);
    let small = play.asks(5);
    assert_eq!(play.run(), small.into_iter().map(|job| (2, job)).collect::<Vec<_>>());
}

#[test]
fn one_part_waits_behind_another_and_makes_way_for_what_is_older() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let part = |play: &mut Play| play.ask(|shape| (shape.class, shape.bytes) = (Class::Part, 1 << 20));
    let parts = [(); 6].map(|()| part(&mut play));
    let sent = play.run();
    assert_eq!(sent, [(1, parts[0]), (2, parts[1]), (1, parts[2]), (2, parts[3])]);
    // It is as large as was expected: those behind it stay.
    let told = Told { version: Version::HTTP_11, length: Some(1 << 20), keep: None, last: false };
    play.scheduler.head(ConnectionId(1), parts[0], &told, play.now);
    assert_eq!(play.scheduler.actions(), []);
    assert!(play.scheduler.knowledge() == Knowledge::default(), "no fault");
    let small = play.asks(1)[0];
    play.scheduler.done(ConnectionId(1), parts[0], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(1, parts[4])], "it came before");
    play.scheduler.done(ConnectionId(1), parts[2], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(1, parts[5])]);
    let later = part(&mut play);
    play.scheduler.done(ConnectionId(2), parts[1], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [], "a connection runs empty for what is small");
    play.scheduler.done(ConnectionId(2), parts[3], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(2, small)]);
    play.scheduler.done(ConnectionId(1), parts[4], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(1, later)]);
}

#[test]
fn what_changes_something_keeps_out_of_the_pipelines_of_what_does_not() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let gets = play.asks(2);
    let put = play.ask(|shape| shape.safe = false);
    assert_eq!(play.run(), [(1, gets[0]), (1, gets[1]), (2, put)]);
}

#[test]
fn a_look_goes_right_behind_its_upload_or_nowhere() {
    let look = |play: &mut Play, class| {
        let follower = JobId(1000 + play.jobs);
        let put = play.ask(|shape| (shape.safe, shape.class, shape.follower) = (false, class, Some(follower)));
        (put, follower)
    };
    let mut play = Play::new(1, Pipelining::Aggressive);
    let large = look(&mut play, Class::Large);
    let small = look(&mut play, Class::Small);
    assert_eq!(play.run(), [(1, large.0), (1, large.1)], "nothing else shares the connection of a large one");
    play.answer(1, large.0, None);
    assert_eq!(play.run(), [(1, small.0), (1, small.1)], "its look is in nobody's way");
    let get = play.asks(1)[0];
    assert_eq!(play.run(), []);
    play.answer(1, large.1, None);
    play.answer(1, small.0, None);
    assert_eq!(play.run(), [(1, get)], "behind the look that is left");

    // It is not sent again with its upload.
    let last = look(&mut play, Class::Small);
    play.answer(1, small.1, None);
    play.answer(1, get, None);
    assert_eq!(play.run(), [(1, last.0), (1, last.1)]);
    play.scheduler.closed(
        ConnectionId(1),
        &Cause::Closed,
        &[(last.0, Sent::Something), (last.1, Sent::Something)],
        play.now,
    );
    let actions = play.scheduler.actions();
    assert!(actions.iter().any(|action| matches!(action, Action::Fail { job, .. } if *job == last.1)), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Fail { job, .. } if *job == last.0)), "{actions:?}");

    // While a server is tested by a pipeline elsewhere, too.
    let mut play = Play::new(2, Pipelining::Safe);
    let gets = play.asks(2);
    assert_eq!(play.run(), [(1, gets[0]), (1, gets[1])]);
    let (put, follower) = look(&mut play, Class::Large);
    assert_eq!(play.run(), [(2, put), (2, follower)]);

    // Where nothing may stand behind another it fails at once.
    let mut play = Play::new(1, Pipelining::Off);
    let (put, follower) = look(&mut play, Class::Small);
    let Some(Action::Open(id, _)) = play.scheduler.actions().pop() else { panic!("no connection is opened") };
    play.scheduler.opened(id, Version::HTTP_11, play.now);
    let cause = Shared(Cause::Closed);
    let failed = Action::Fail { job: follower, cause, undecided: false };
    assert_eq!(play.scheduler.actions(), [Action::Send(id, put), failed]);
}

#[test]
fn a_servers_last_requests_are_counted() {
    let mut play = Play::new(1, Pipelining::Aggressive);
    let first = play.asks(1)[0];
    play.run();
    let others = play.asks(2);
    play.run();
    // "Three more after this one": two are under way.
    play.answer(1, first, Some(Keep { idle: None, requests: Some(3) }));
    let more = play.asks(4);
    let sent = play.run();
    assert_eq!(sent.iter().filter(|(connection, _)| *connection == 1).count(), 1, "{sent:?}");
    assert_eq!(sent.len(), more.len(), "the rest goes to a successor, though one connection is the limit");
    // The farewell is no fault.
    play.answer(1, others[0], None);
    play.scheduler.closed(
        ConnectionId(1),
        &Cause::Retired("over"),
        &[(others[1], Sent::Something), (sent[0].1, Sent::Something)],
        play.now,
    );
    assert_eq!(play.scheduler.knowledge().allowed(Pipelining::Aggressive, 0.0).0, 256);
    assert_eq!(play.run().len(), 2, "they are sent again");
}

#[test]
fn an_idle_connection_that_the_server_is_about_to_close_is_left_alone() {
    let mut play = Play::new(2, Pipelining::Off);
    let first = play.asks(1)[0];
    play.run();
    play.answer(1, first, Some(Keep { idle: Some(Duration::from_secs(5)), requests: None }));
    play.now.instant += Duration::from_millis(3900);
    let second = play.asks(1)[0];
    assert_eq!(play.run(), [(1, second)]);
    play.answer(1, second, None);
    play.now.instant += Duration::from_millis(4100);
    let third = play.asks(1)[0];
    assert_eq!(play.run(), [(2, third)]);
}

#[test]
fn nothing_starves_behind_a_pipeline_that_never_ends() {
    let mut play = Play::new(1, Pipelining::Aggressive);
    play.asks(4);
    let mut under_way: VecDeque<JobId> = play.run().into_iter().map(|(_, job)| job).collect();
    let put = play.ask(|shape| shape.safe = false);
    for answered in 0..200 {
        let oldest = under_way.pop_front().unwrap();
        play.answer(1, oldest, None);
        play.asks(1);
        under_way.extend(play.run().into_iter().map(|(_, job)| job));
        if under_way.contains(&put) {
            assert!(answered >= plan::MOST_PASSED, "it does not push in");
            return;
        }
    }
    panic!("it never went");
}

#[test]
fn idle_connections_end_in_time() {
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
fn a_server_that_restarts_is_waited_for_and_one_that_never_was_is_not() {
    let mut play = Play::new(1, Pipelining::Off);
    let job = play.asks(1)[0];
    let failed = Action::Fail { job, cause: Shared(Cause::Closed), undecided: false };
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
fn what_a_connection_died_of_is_tried_alone_and_given_up_in_the_end() {
    let mut play = Play::new(1, Pipelining::Aggressive);
    let jobs = play.asks(2);
    assert_eq!(play.run().len(), 2);
    for life in 1..=4 {
        let unanswered = if life == 1 { &jobs[..] } else { &jobs[..1] };
        let unanswered: Vec<_> = unanswered.iter().map(|job| (*job, Sent::Something)).collect();
        play.scheduler.closed(ConnectionId(life), &Cause::Closed, &unanswered, play.now);
        if life == 4 {
            let failed = Action::Fail { job: jobs[0], cause: Shared(Cause::Closed), undecided: false };
            let actions = play.scheduler.actions();
            assert_eq!(actions[0], failed);
            assert!(matches!(actions[1..], [Action::Open(..)]), "the other one never had the chance: {actions:?}");
        } else {
            assert_eq!(play.run(), [(life + 1, jobs[0])]);
        }
    }
}

#[test]
fn a_connection_that_did_something_for_others_may_have_died_of_that() {
    let mut play = Play::new(2, Pipelining::Off);
    play.asks(2);
    for (connection, job) in play.run() {
        play.answer(connection, job, None);
    }
    play.asks(1);
    // Two that were used, and four of its own.
    for _ in 0..6 {
        let [(connection, job)] = play.run()[..] else { panic!("it is not sent") };
        play.scheduler.closed(ConnectionId(connection), &Cause::Closed, &[(job, Sent::Something)], play.now);
    }
    assert!(matches!(play.scheduler.actions()[..], [Action::Fail { .. }]));
}

#[test]
fn a_server_that_takes_few_connections_is_not_pressed() {
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
    assert_eq!(play.run().len(), 1, "after a while it is asked again");
}

#[test]
fn who_opens_first_leaves_some_for_those_that_are_on_their_way() {
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
fn a_large_upload_that_is_not_answered_in_time_is_not_sent_again() {
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
            let failed = Action::Fail { job, cause: Shared(late.clone()), undecided: true };
            assert_eq!(play.scheduler.actions().contains(&failed), fails, "{safe} {class:?} {cause}");
        }
    }
}

#[test]
fn a_server_that_wants_http_1_gets_it() {
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
        assert!(!play.scheduler.opened(ConnectionId(2), Version::HTTP_2, play.now), "it was begun before that");
        assert_eq!(play.run(), [(3, job)]);
    }
}

#[test]
fn a_connection_kept_for_a_request_that_found_another_is_free_again() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let posts = [0; 2].map(|_| play.ask(|shape| (shape.repeatable, shape.pipelinable) = (false, false)));
    assert_eq!(play.run().len(), 2);
    let put = play.ask(|shape| (shape.safe, shape.pipelinable) = (false, false));
    for _ in 0..plan::MOST_PASSED {
        play.scheduler.queue.front_mut().unwrap().passed += 1;
    }
    play.asks(1);
    assert!(play.scheduler.lines[&ConnectionId(1)].reserved == Some(put), "the test needs it to be kept");
    play.answer(2, posts[1], None);
    let went = play.run();
    assert_eq!(went[0], (2, put));
    play.answer(1, posts[0], None);
    assert_eq!(play.run().len(), 2 - went.len(), "the other one goes where there is room");
    assert!(play.scheduler.lines.values().all(|line| line.reserved.is_none()));
}

#[test]
fn a_connection_that_takes_no_more_does_not_stand_in_for_those_that_do_not_open() {
    let mut play = Play::new(2, Pipelining::Off);
    let job = play.asks(1)[0];
    play.run();
    let told = Told { version: Version::HTTP_11, length: Some(1 << 40), keep: None, last: true };
    play.scheduler.head(ConnectionId(1), job, &told, play.now);
    let waiting = play.asks(1)[0];
    for attempt in 2.. {
        match &play.scheduler.actions()[..] {
            [Action::Open(id, _)] => assert_eq!(id.0, attempt),
            [Action::Fail { job, undecided: false, .. }] if *job == waiting => break,
            other => panic!("{other:?}"),
        }
        play.scheduler.open_failed(ConnectionId(attempt), &Cause::Closed, play.now);
    }
}

/// What the kernel says of a connection with so many ms of round trip where 200 are the least.
fn round_trip(ms: u64) -> Window {
    let rtt = Duration::from_millis(ms);
    Window { bytes: 14_600, rto: rtt * 2, rtt, least_rtt: Some(Duration::from_millis(200)) }
}

#[test]
fn a_queue_that_stands_before_the_link_is_not_fed_by_more_connections_than_two() {
    let mut play = Play::new(6, Pipelining::Aggressive);
    play.asks(12);
    let mut under_way: VecDeque<(u64, JobId)> = play.run().into();
    let busy = |under_way: &VecDeque<(u64, JobId)>| {
        let mut busy: Vec<u64> = under_way.iter().map(|(connection, _)| *connection).collect();
        busy.sort_unstable();
        busy.dedup();
        busy.len()
    };
    // An answer, and one more to ask for, as long as this round trip is measured.
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
    assert_eq!(busy(&under_way), 6, "that may be a burst");
    go_on(&mut play, &mut under_way, 900, 40);
    assert_eq!(busy(&under_way), 2);

    // Something large leaves one of the two to what is small.
    let large = [(); 2].map(|()| play.ask(|shape| shape.class = Class::Large));
    let mut sent = 0;
    for _ in 0..120 {
        go_on(&mut play, &mut under_way, 900, 1);
        let now = under_way.iter().filter(|(_, job)| large.contains(job)).count();
        assert!(now <= 1, "{under_way:?}");
        sent += now;
    }
    assert!(sent > 0, "nor does it wait for ever");
    go_on(&mut play, &mut under_way, 210, 60);
    assert!(busy(&under_way) > 2, "the queue is gone");
}

#[test]
fn before_its_handshake_is_done_a_connection_gets_only_what_may_go_early() {
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

/// So many connections are to be opened.
fn opens(play: &mut Play) -> Vec<ConnectionId> {
    let open = |action| match action {
        Action::Open(id, _) => Some(id),
        Action::Send(..) => None,
        other => panic!("{other:?}"),
    };
    play.scheduler.actions().into_iter().filter_map(open).collect()
}

#[test]
fn where_one_connection_may_carry_all_it_goes_first() {
    let shared = || {
        let mut play = Play::new(6, Pipelining::Off);
        play.scheduler.limits.shares = true;
        play.asks(5);
        let [first] = opens(&mut play)[..] else { panic!("not one") };
        assert!(play.scheduler.wake().is_some());
        (play, first)
    };
    // It multiplexes, and no other is wanted.
    let (mut play, first) = shared();
    play.asks(5);
    assert_eq!(opens(&mut play), []);
    assert!(play.scheduler.opened(first, Version::HTTP_2, play.now));
    assert_eq!((play.run().len(), play.scheduler.wake()), (10, None));
    // The server takes no more on it: again one goes first.
    play.scheduler.draining(first, &Cause::Closed, play.now);
    play.asks(5);
    assert_eq!(opens(&mut play).len(), 1);

    // It does not, and the others follow at once; that is remembered.
    let (mut play, first) = shared();
    assert!(play.scheduler.opened(first, Version::HTTP_11, play.now));
    assert_eq!(opens(&mut play).len(), 4);
    assert_eq!(play.scheduler.wake(), None);

    // It stays away: the others are tried beside it.
    let (mut play, _) = shared();
    play.now.instant = play.scheduler.wake().unwrap();
    play.scheduler.tick(Duration::from_mins(1), play.now);
    assert_eq!(opens(&mut play).len(), 4);
    assert_eq!(play.scheduler.wake(), None, "nobody is woken for nothing");

    // It fails: one more is tried.
    let (mut play, first) = shared();
    play.scheduler.opened(first, Version::HTTP_2, play.now);
    play.run();
    play.scheduler.closed(first, &Cause::Closed, &[], play.now);
    play.asks(3);
    let [second] = opens(&mut play)[..] else { panic!("not one") };
    play.scheduler.open_failed(second, &Cause::Closed, play.now);
    assert_eq!(opens(&mut play).len(), 1);
}
