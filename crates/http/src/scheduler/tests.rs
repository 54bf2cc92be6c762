//! The rules of the scheduler, one by one. `tests/model` tests them together, with random faults.

mod connections;
mod parts;
mod recall;
mod requeue;

use std::collections::VecDeque;

use http::Request;

use super::*;
use crate::{
    Expected, Options, Step,
    connection_messages::{KeepAlive, Sent},
};

struct Play {
    scheduler: Scheduler,
    now: Moment,
    jobs: u64,
}

impl Play {
    fn new(connections: usize, pipelining: Pipelining) -> Self {
        let limits = Limits { connections, pipelining, choice: IdleChoice::default(), shares: false };
        let now = Moment { instant: Instant::now(), seconds: 0.0 };
        Self { scheduler: Scheduler::new(limits, PipeliningHistory::default()), now, jobs: 0 }
    }

    fn ask(&mut self, change: impl Fn(&mut Shape)) -> JobId {
        self.jobs += 1;
        let id = JobId(self.jobs);
        let expected = Expected { length: Some(self.jobs), ..Expected::default() };
        let options = Options { expected, ..Options::default() };
        let request = Request::get(format!("http://model/{}", self.jobs)).extension(options).body(()).unwrap();
        let mut shape = Shape {
            id,
            repeatable: true,
            pipelinable: true,
            safe: true,
            early: true,
            sending: false,
            class: Class::Small,
            bytes: 0,
            marks: Marks::of(&request),
            follower: None,
            is_follow_up: false,
        };
        change(&mut shape);
        self.scheduler.submit(shape, self.now);
        id
    }

    fn asks(&mut self, count: usize) -> Vec<JobId> {
        (0..count).map(|_| self.ask(|_| ())).collect()
    }

    /// Opens the connections that the scheduler asks for. Returns what it sends, and where.
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
                    Action::Retire(_) | Action::Recall { .. } => {}
                    Action::Send(id, job) => sent.push((id.0, job)),
                    other @ Action::Fail { .. } => panic!("{other:?}"),
                }
            }
        }
    }

    fn answer(&mut self, connection: u64, job: JobId, keep: Option<KeepAlive>) {
        let told = ResponseHead { version: Version::HTTP_11, length: Some(10), keep, last: false };
        self.scheduler.head(ConnectionId(connection), job, &told, self.now);
        self.scheduler.done(ConnectionId(connection), job, (100, 10), None, self.now);
    }
}

#[test]
fn non_idempotent_request_is_not_pipelined() {
    let mut play = Play::new(1, Pipelining::Aggressive);
    let first = play.asks(3);
    let post = play.ask(|shape| (shape.repeatable, shape.pipelinable) = (false, false));
    let behind = play.asks(1);
    let sent: Vec<JobId> = play.run().into_iter().map(|(_, job)| job).collect();
    assert_eq!(sent, [&first[..], &behind].concat(), "others are not queued behind it");
    for job in sent {
        play.answer(1, job, None);
    }
    assert_eq!(play.run(), [(1, post)]);
    play.asks(1);
    assert_eq!(play.run(), [], "nothing is pipelined behind it");
}

#[test]
fn large_exchanges_are_not_pipelined() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let large = play.ask(|shape| shape.class = Class::Large);
    assert_eq!(play.run(), [(1, large)]);
    let small = play.asks(5);
    assert_eq!(play.run(), small.into_iter().map(|job| (2, job)).collect::<Vec<_>>());
}

#[test]
fn part_queues_behind_a_part_but_not_before_older_requests() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let part = |play: &mut Play| play.ask(|shape| (shape.class, shape.bytes) = (Class::Part, 1 << 20));
    let parts = [(); 6].map(|()| part(&mut play));
    let sent = play.run();
    assert_eq!(sent, [(1, parts[0]), (2, parts[1]), (1, parts[2]), (2, parts[3])]);
    // A part of the expected size: those behind it are not recalled.
    let told = ResponseHead { version: Version::HTTP_11, length: Some(1 << 20), keep: None, last: false };
    play.scheduler.head(ConnectionId(1), parts[0], &told, play.now);
    assert_eq!(play.scheduler.actions(), []);
    assert!(play.scheduler.pipelining_history() == PipeliningHistory::default(), "no fault is recorded");
    let small = play.asks(1)[0];
    play.scheduler.done(ConnectionId(1), parts[0], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(1, parts[4])], "it is older");
    play.scheduler.done(ConnectionId(1), parts[2], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(1, parts[5])]);
    let later = part(&mut play);
    play.scheduler.done(ConnectionId(2), parts[1], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [], "a connection drains for the small request");
    play.scheduler.done(ConnectionId(2), parts[3], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(2, small)]);
    play.scheduler.done(ConnectionId(1), parts[4], (100, 1 << 20), None, play.now);
    assert_eq!(play.run(), [(1, later)]);
}

#[test]
fn unsafe_and_safe_requests_do_not_share_a_pipeline() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let gets = play.asks(2);
    let put = play.ask(|shape| shape.safe = false);
    assert_eq!(play.run(), [(1, gets[0]), (1, gets[1]), (2, put)]);
}

#[test]
fn follow_up_goes_right_behind_its_upload_or_nowhere() {
    let look = |play: &mut Play, class| {
        let follower = JobId(1000 + play.jobs);
        let put = play.ask(|shape| (shape.safe, shape.class, shape.follower) = (false, class, Some(follower)));
        (put, follower)
    };
    let mut play = Play::new(1, Pipelining::Aggressive);
    let large = look(&mut play, Class::Large);
    let small = look(&mut play, Class::Small);
    assert_eq!(play.run(), [(1, large.0), (1, large.1)], "only its follow-up shares the connection of a large request");
    play.answer(1, large.0, None);
    assert_eq!(play.run(), [(1, small.0), (1, small.1)], "its follow-up delays nobody");
    let get = play.asks(1)[0];
    assert_eq!(play.run(), []);
    play.answer(1, large.1, None);
    play.answer(1, small.0, None);
    assert_eq!(play.run(), [(1, get)], "behind the remaining follow-up");

    // The follow-up is not sent again with its upload.
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

    // Also while another pipeline tests the server.
    let mut play = Play::new(2, Pipelining::Safe);
    let gets = play.asks(2);
    assert_eq!(play.run(), [(1, gets[0]), (1, gets[1])]);
    let (put, follower) = look(&mut play, Class::Large);
    assert_eq!(play.run(), [(2, put), (2, follower)]);

    // Without pipelining it fails at once.
    let mut play = Play::new(1, Pipelining::Off);
    let (put, follower) = look(&mut play, Class::Small);
    let Some(Action::Open(id, _)) = play.scheduler.actions().pop() else { panic!("no connection is opened") };
    play.scheduler.opened(id, Version::HTTP_11, play.now);
    let cause = Shared(Cause::Closed);
    let failed = Action::Fail { job: follower, cause, outcome_unknown: false };
    assert_eq!(play.scheduler.actions(), [Action::Send(id, put), failed]);
}

#[test]
fn keep_alive_max_limits_the_requests_of_a_connection() {
    let mut play = Play::new(1, Pipelining::Aggressive);
    let first = play.asks(1)[0];
    play.run();
    let others = play.asks(2);
    play.run();
    // `max=3`: three more after this one, and two are in flight.
    play.answer(1, first, Some(KeepAlive { idle: None, requests: Some(3) }));
    let more = play.asks(4);
    let sent = play.run();
    assert_eq!(sent.iter().filter(|(connection, _)| *connection == 1).count(), 1, "{sent:?}");
    assert_eq!(sent.len(), more.len(), "the rest goes to a new connection, although the limit is one");
    // The announced end is no fault.
    play.answer(1, others[0], None);
    play.scheduler.closed(
        ConnectionId(1),
        &Cause::Retired("over"),
        &[(others[1], Sent::Something), (sent[0].1, Sent::Something)],
        play.now,
    );
    assert_eq!(play.scheduler.pipelining_history().allowed(Pipelining::Aggressive, 0.0).0, 256);
    assert_eq!(play.run().len(), 2, "they are sent again");
}

#[test]
fn connection_near_its_keep_alive_timeout_is_not_used() {
    let mut play = Play::new(2, Pipelining::Off);
    let first = play.asks(1)[0];
    play.run();
    play.answer(1, first, Some(KeepAlive { idle: Some(Duration::from_secs(5)), requests: None }));
    play.now.instant += Duration::from_millis(3900);
    let second = play.asks(1)[0];
    assert_eq!(play.run(), [(1, second)]);
    play.answer(1, second, None);
    play.now.instant += Duration::from_millis(4100);
    let third = play.asks(1)[0];
    assert_eq!(play.run(), [(2, third)]);
}

#[test]
fn queued_request_does_not_starve_behind_a_full_pipeline() {
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
            assert!(answered >= plan::MOST_PASSED, "it is not served before its turn");
            return;
        }
    }
    panic!("it never went");
}

#[test]
fn reserved_connection_is_released_if_its_request_went_elsewhere() {
    let mut play = Play::new(2, Pipelining::Aggressive);
    let posts = [0; 2].map(|_| play.ask(|shape| (shape.repeatable, shape.pipelinable) = (false, false)));
    assert_eq!(play.run().len(), 2);
    let put = play.ask(|shape| (shape.safe, shape.pipelinable) = (false, false));
    for _ in 0..plan::MOST_PASSED {
        play.scheduler.queue.front_mut().unwrap().passed += 1;
    }
    play.asks(1);
    assert!(play.scheduler.connections[&ConnectionId(1)].reserved == Some(put), "the test needs a reservation");
    play.answer(2, posts[1], None);
    let went = play.run();
    assert_eq!(went[0], (2, put));
    play.answer(1, posts[0], None);
    assert_eq!(play.run().len(), 2 - went.len(), "the other one goes to the free connection");
    assert!(play.scheduler.connections.values().all(|conn| conn.reserved.is_none()));
}
