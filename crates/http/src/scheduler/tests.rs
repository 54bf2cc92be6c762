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

struct Harness {
    scheduler: Scheduler,
    now: Moment,
    jobs: u64,
}

impl Harness {
    fn new(connections: usize, pipelining: Pipelining) -> Self {
        let limits = Limits {
            connections,
            unread_connections: 2,
            pipelining,
            choice: IdleChoice::default(),
            shares: false,
            patience: None,
        };
        let now = Moment { instant: Instant::now(), seconds: 0.0 };
        Self { scheduler: Scheduler::new(limits, PipeliningHistory::default()), now, jobs: 0 }
    }

    fn ask(&mut self, change: impl Fn(&mut RequestProfile)) -> JobId {
        self.jobs += 1;
        let id = JobId(self.jobs);
        let expected = Expected { length: Some(self.jobs), ..Expected::default() };
        let options = Options { expected, ..Options::default() };
        let request = Request::get(format!("http://model/{}", self.jobs)).extension(options).body(()).unwrap();
        let mut profile = RequestProfile {
            id,
            is_repeatable: true,
            repeats_after_silence: true,
            is_pipelinable: true,
            is_safe: true,
            may_be_early_data: true,
            is_sending: false,
            class: Class::Small,
            bytes: 0,
            marks: Marks::of(&request),
            follow_up: None,
            is_follow_up: false,
        };
        change(&mut profile);
        self.scheduler.submit(profile, self.now);
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
    let mut harness = Harness::new(1, Pipelining::Aggressive);
    let first = harness.asks(3);
    let post = harness.ask(|profile| (profile.is_repeatable, profile.is_pipelinable) = (false, false));
    let behind = harness.asks(1);
    let sent: Vec<JobId> = harness.run().into_iter().map(|(_, job)| job).collect();
    assert_eq!(sent, [&first[..], &behind].concat(), "others are not queued behind it");
    for job in sent {
        harness.answer(1, job, None);
    }
    assert_eq!(harness.run(), [(1, post)]);
    harness.asks(1);
    assert_eq!(harness.run(), [], "nothing is pipelined behind it");
}

#[test]
fn large_exchanges_are_not_pipelined() {
    let mut harness = Harness::new(2, Pipelining::Aggressive);
    let large = harness.ask(|profile| profile.class = Class::Large);
    assert_eq!(harness.run(), [(1, large)]);
    let small = harness.asks(5);
    assert_eq!(harness.run(), small.into_iter().map(|job| (2, job)).collect::<Vec<_>>());
}

#[test]
fn part_queues_behind_a_part_but_not_before_older_requests() {
    let mut harness = Harness::new(2, Pipelining::Aggressive);
    let part = |harness: &mut Harness| harness.ask(|profile| (profile.class, profile.bytes) = (Class::Part, 1 << 20));
    let parts = [(); 6].map(|()| part(&mut harness));
    let sent = harness.run();
    assert_eq!(sent, [(1, parts[0]), (2, parts[1]), (1, parts[2]), (2, parts[3])]);
    // A part of the expected size: those behind it are not recalled.
    let told = ResponseHead { version: Version::HTTP_11, length: Some(1 << 20), keep: None, last: false };
    harness.scheduler.head(ConnectionId(1), parts[0], &told, harness.now);
    assert_eq!(harness.scheduler.actions(), []);
    assert!(harness.scheduler.pipelining_history() == PipeliningHistory::default(), "no fault is recorded");
    let small = harness.asks(1)[0];
    harness.scheduler.done(ConnectionId(1), parts[0], (100, 1 << 20), None, harness.now);
    assert_eq!(harness.run(), [(1, parts[4])], "it is older");
    harness.scheduler.done(ConnectionId(1), parts[2], (100, 1 << 20), None, harness.now);
    assert_eq!(harness.run(), [(1, parts[5])]);
    let later = part(&mut harness);
    harness.scheduler.done(ConnectionId(2), parts[1], (100, 1 << 20), None, harness.now);
    assert_eq!(harness.run(), [], "a connection drains for the small request");
    harness.scheduler.done(ConnectionId(2), parts[3], (100, 1 << 20), None, harness.now);
    assert_eq!(harness.run(), [(2, small)]);
    harness.scheduler.done(ConnectionId(1), parts[4], (100, 1 << 20), None, harness.now);
    assert_eq!(harness.run(), [(1, later)]);
}

#[test]
fn unsafe_and_safe_requests_do_not_share_a_pipeline() {
    let mut harness = Harness::new(2, Pipelining::Aggressive);
    let gets = harness.asks(2);
    let put = harness.ask(|profile| profile.is_safe = false);
    assert_eq!(harness.run(), [(1, gets[0]), (1, gets[1]), (2, put)]);
}

#[test]
fn follow_up_goes_right_behind_its_upload_or_nowhere() {
    let look = |harness: &mut Harness, class| {
        let follow_up = JobId(1000 + harness.jobs);
        let put = harness
            .ask(|profile| (profile.is_safe, profile.class, profile.follow_up) = (false, class, Some(follow_up)));
        (put, follow_up)
    };
    let mut harness = Harness::new(1, Pipelining::Aggressive);
    let large = look(&mut harness, Class::Large);
    let small = look(&mut harness, Class::Small);
    assert_eq!(
        harness.run(),
        [(1, large.0), (1, large.1)],
        "only its follow-up shares the connection of a large request"
    );
    harness.answer(1, large.0, None);
    assert_eq!(harness.run(), [(1, small.0), (1, small.1)], "its follow-up delays nobody");
    let get = harness.asks(1)[0];
    assert_eq!(harness.run(), []);
    harness.answer(1, large.1, None);
    harness.answer(1, small.0, None);
    assert_eq!(harness.run(), [(1, get)], "behind the remaining follow-up");

    // The follow-up is not sent again with its upload.
    let last = look(&mut harness, Class::Small);
    harness.answer(1, small.1, None);
    harness.answer(1, get, None);
    assert_eq!(harness.run(), [(1, last.0), (1, last.1)]);
    harness.scheduler.closed(
        ConnectionId(1),
        &Cause::Closed,
        &[(last.0, Sent::Something), (last.1, Sent::Something)],
        harness.now,
    );
    let actions = harness.scheduler.actions();
    assert!(actions.iter().any(|action| matches!(action, Action::Fail { job, .. } if *job == last.1)), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Fail { job, .. } if *job == last.0)), "{actions:?}");

    // Also while another pipeline tests the server.
    let mut harness = Harness::new(2, Pipelining::Safe);
    let gets = harness.asks(2);
    assert_eq!(harness.run(), [(1, gets[0]), (1, gets[1])]);
    let (put, follow_up) = look(&mut harness, Class::Large);
    assert_eq!(harness.run(), [(2, put), (2, follow_up)]);

    // Without pipelining it fails at once.
    let mut harness = Harness::new(1, Pipelining::Off);
    let (put, follow_up) = look(&mut harness, Class::Small);
    let Some(Action::Open(id, _)) = harness.scheduler.actions().pop() else { panic!("no connection is opened") };
    harness.scheduler.opened(id, Version::HTTP_11, harness.now);
    let cause = Shared(Cause::Closed);
    let failed = Action::Fail { job: follow_up, cause, outcome_unknown: false };
    assert_eq!(harness.scheduler.actions(), [Action::Send(id, put), failed]);
}

#[test]
fn keep_alive_max_limits_the_requests_of_a_connection() {
    let mut harness = Harness::new(1, Pipelining::Aggressive);
    let first = harness.asks(1)[0];
    harness.run();
    let others = harness.asks(2);
    harness.run();
    // `max=3`: three more after this one, and two are in flight.
    harness.answer(1, first, Some(KeepAlive { idle: None, requests: Some(3) }));
    let more = harness.asks(4);
    let sent = harness.run();
    assert_eq!(sent.iter().filter(|(connection, _)| *connection == 1).count(), 1, "{sent:?}");
    assert_eq!(sent.len(), more.len(), "the rest goes to a new connection, although the limit is one");
    // The announced end is no fault.
    harness.answer(1, others[0], None);
    harness.scheduler.closed(
        ConnectionId(1),
        &Cause::Retired("over"),
        &[(others[1], Sent::Something), (sent[0].1, Sent::Something)],
        harness.now,
    );
    assert_eq!(harness.scheduler.pipelining_history().allowed(Pipelining::Aggressive, 0.0).0, 256);
    assert_eq!(harness.run().len(), 2, "they are sent again");
}

#[test]
fn connection_near_its_keep_alive_timeout_is_not_used() {
    let mut harness = Harness::new(2, Pipelining::Off);
    let first = harness.asks(1)[0];
    harness.run();
    harness.answer(1, first, Some(KeepAlive { idle: Some(Duration::from_secs(5)), requests: None }));
    harness.now.instant += Duration::from_millis(3900);
    let second = harness.asks(1)[0];
    assert_eq!(harness.run(), [(1, second)]);
    harness.answer(1, second, None);
    harness.now.instant += Duration::from_millis(4100);
    let third = harness.asks(1)[0];
    assert_eq!(harness.run(), [(2, third)]);
}

#[test]
fn queued_request_does_not_starve_behind_a_full_pipeline() {
    let mut harness = Harness::new(1, Pipelining::Aggressive);
    harness.asks(4);
    let mut in_flight: VecDeque<JobId> = harness.run().into_iter().map(|(_, job)| job).collect();
    let put = harness.ask(|profile| profile.is_safe = false);
    for answered in 0..200 {
        let oldest = in_flight.pop_front().unwrap();
        harness.answer(1, oldest, None);
        harness.asks(1);
        in_flight.extend(harness.run().into_iter().map(|(_, job)| job));
        if in_flight.contains(&put) {
            assert!(answered >= plan::MAX_PASSED, "it is not served before its turn");
            return;
        }
    }
    panic!("it never went");
}

#[test]
fn reserved_connection_is_released_if_its_request_went_elsewhere() {
    let mut harness = Harness::new(2, Pipelining::Aggressive);
    let posts = [0; 2].map(|_| harness.ask(|profile| (profile.is_repeatable, profile.is_pipelinable) = (false, false)));
    assert_eq!(harness.run().len(), 2);
    let put = harness.ask(|profile| (profile.is_safe, profile.is_pipelinable) = (false, false));
    for _ in 0..plan::MAX_PASSED {
        harness.scheduler.queue.front_mut().unwrap().passed += 1;
    }
    harness.asks(1);
    assert!(
        harness.scheduler.connections.get(ConnectionId(1)).unwrap().reserved == Some(put),
        "the test needs a reservation"
    );
    harness.answer(2, posts[1], None);
    let went = harness.run();
    assert_eq!(went[0], (2, put));
    harness.answer(1, posts[0], None);
    assert_eq!(harness.run().len(), 2 - went.len(), "the other one goes to the free connection");
    assert!(harness.scheduler.connections.values().all(|conn| conn.reserved.is_none()));
}
