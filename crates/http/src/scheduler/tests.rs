//! Rules of the scheduler, one by one. What random faults make of them together is tested in `model`.

use super::*;
use crate::wire::Keep;

struct Play {
    scheduler: Scheduler,
    now: Moment,
    jobs: u64,
}

impl Play {
    fn new(connections: usize, pipelining: Pipelining) -> Self {
        let limits = Limits { connections, pipelining, choice: Choice::default() };
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
            sending: false,
            class: Class::Small,
            bytes: 0,
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
                    Action::Retire(_) => {}
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
fn what_changes_something_keeps_out_of_the_pipelines_of_what_does_not() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let gets = play.asks(2);
    let put = play.ask(|shape| shape.safe = false);
    assert_eq!(play.run(), [(1, gets[0]), (1, gets[1]), (2, put)]);
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
            assert!(answered >= MOST_PASSED, "it does not push in");
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
