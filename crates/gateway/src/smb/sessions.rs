//! Which user's mount to start, to end, and who waits for it: decisions without I/O.
//!
//! A mount begins with its user's first session and ends some time after the last one. Samba asks before it lets a user
//! into the share (`root preexec`), says when the user leaves it (`root postexec`), and says nothing when its process for a
//! client dies. So a session belongs to a process, and ends with it as well.
//!
//! A mount that ends by itself takes what its sessions have open with it. Their processes are ended, so that clients
//! notice: they connect again, and get a new mount.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::vault::UserName;

/// Samba's process for one client.
pub(super) type Process = i32;

/// Who waits for an answer.
pub(super) type Ticket = u64;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Start this user's mount; then [`Sessions::mounted`] or [`Sessions::ended`].
    Start(UserName),
    /// End this user's mount; then [`Sessions::ended`].
    Stop(UserName),
    /// Let a user in, or not, for this reason.
    Answer(Ticket, Result<(), String>),
    /// Tell [`Sessions::process_ended`] when this process ends.
    Watch(Process),
    /// End this process.
    Disconnect(Process),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Mounted,
    Ending,
}

#[derive(Debug)]
struct User {
    state: State,
    waiting: Vec<(Process, Ticket)>,
    /// How often each process is in the share.
    inside: HashMap<Process, usize>,
    /// Since when nobody is.
    idle: Option<Instant>,
}

/// All users with a mount.
#[derive(Debug)]
pub(super) struct Sessions {
    users: HashMap<UserName, User>,
    idle: Duration,
}

impl Sessions {
    /// Mounts end after this time without a session.
    pub(super) fn new(idle: Duration) -> Self {
        Self { users: HashMap::new(), idle }
    }

    /// A process wants to let a user in.
    pub(super) fn begin(&mut self, user: &UserName, process: Process, ticket: Ticket) -> Vec<Action> {
        let mut actions = vec![Action::Watch(process)];
        let known = self.users.entry(user.clone()).or_insert_with(|| {
            actions.push(Action::Start(user.clone()));
            User { state: State::Starting, waiting: Vec::new(), inside: HashMap::new(), idle: None }
        });
        if known.state == State::Mounted {
            *known.inside.entry(process).or_default() += 1;
            known.idle = None;
            actions.push(Action::Answer(ticket, Ok(())));
        } else {
            known.waiting.push((process, ticket));
        }
        actions
    }

    /// A user has left the share.
    pub(super) fn end(&mut self, user: &UserName, process: Process, now: Instant) {
        let Some(user) = self.users.get_mut(user) else { return };
        if let Some(count) = user.inside.get_mut(&process) {
            *count -= 1;
            if *count == 0 {
                user.inside.remove(&process);
            }
            user.look_idle(now);
        }
    }

    /// A process has ended, and with it its sessions.
    pub(super) fn process_ended(&mut self, process: Process, now: Instant) {
        for user in self.users.values_mut() {
            user.waiting.retain(|(waiting, _)| *waiting != process);
            if user.inside.remove(&process).is_some() {
                user.look_idle(now);
            }
        }
    }

    /// A user's mount is there.
    pub(super) fn mounted(&mut self, user: &UserName, now: Instant) -> Vec<Action> {
        let Some(user) = self.users.get_mut(user).filter(|user| user.state == State::Starting) else {
            return Vec::new();
        };
        user.state = State::Mounted;
        let mut actions = Vec::new();
        for (process, ticket) in user.waiting.drain(..) {
            *user.inside.entry(process).or_default() += 1;
            actions.push(Action::Answer(ticket, Ok(())));
        }
        user.look_idle(now);
        actions
    }

    /// A user's mount has ended, or did not start, for this reason.
    pub(super) fn ended(&mut self, user: &UserName, why: &str) -> Vec<Action> {
        let Some(mut gone) = self.users.remove(user) else { return Vec::new() };
        let mut actions = gone.disconnect();
        match gone.state {
            State::Ending if !gone.waiting.is_empty() => {
                actions.push(Action::Start(user.clone()));
                gone.state = State::Starting;
                gone.idle = None;
                self.users.insert(user.clone(), gone);
            }
            State::Starting => {
                actions.extend(gone.waiting.drain(..).map(|(_, ticket)| Action::Answer(ticket, Err(why.to_owned()))));
            }
            State::Mounted | State::Ending => {}
        }
        actions
    }

    /// A user may no longer use the mount that was started for them, because their enrolment is another one or none.
    pub(super) fn revoke(&mut self, user: &UserName) -> Vec<Action> {
        let Some(known) = self.users.get_mut(user) else { return Vec::new() };
        let mut actions = known.disconnect();
        if known.state != State::Ending {
            known.state = State::Ending;
            actions.push(Action::Stop(user.clone()));
        }
        actions
    }

    /// Ends the mounts that nobody has used for long enough.
    pub(super) fn tick(&mut self, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        for (name, user) in &mut self.users {
            let is_over = user.idle.is_some_and(|since| now.saturating_duration_since(since) >= self.idle);
            if is_over && user.state == State::Mounted {
                user.state = State::Ending;
                actions.push(Action::Stop(name.clone()));
            }
        }
        actions
    }

    /// The users with a mount, and how many processes are in each.
    pub(super) fn all(&self) -> impl Iterator<Item = (&UserName, usize)> {
        self.users.iter().map(|(name, user)| (name, user.inside.len()))
    }
}

impl User {
    fn look_idle(&mut self, now: Instant) {
        if self.inside.is_empty() {
            self.idle.get_or_insert(now);
        }
    }

    fn disconnect(&mut self) -> Vec<Action> {
        let mut processes: Vec<_> = self.inside.drain().map(|(process, _)| process).collect();
        processes.sort_unstable();
        processes.into_iter().map(Action::Disconnect).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Action::*, *};

    const IDLE: Duration = Duration::from_mins(10);

    fn ann() -> UserName {
        "ann".parse().unwrap()
    }

    fn bob() -> UserName {
        "bob".parse().unwrap()
    }

    #[test]
    fn mount_starts_with_the_first_session_and_ends_after_the_last() {
        let (mut sessions, start) = (Sessions::new(IDLE), Instant::now());
        assert_eq!(sessions.begin(&ann(), 10, 1), [Watch(10), Start(ann())]);
        assert_eq!(sessions.begin(&ann(), 11, 2), [Watch(11)], "it is already starting");
        assert_eq!(sessions.mounted(&ann(), start), [Answer(1, Ok(())), Answer(2, Ok(()))]);
        assert_eq!(sessions.begin(&ann(), 11, 3), [Watch(11), Answer(3, Ok(()))]);
        sessions.end(&ann(), 11, start);
        sessions.process_ended(10, start);
        assert_eq!(sessions.tick(start + 2 * IDLE), [], "11 is there a second time");
        sessions.end(&ann(), 11, start + IDLE);
        assert_eq!(sessions.tick(start + IDLE + IDLE / 2), []);
        assert_eq!(sessions.tick(start + 2 * IDLE), [Stop(ann())]);
        assert_eq!(sessions.tick(start + 2 * IDLE), [], "once");
        assert_eq!(sessions.ended(&ann(), "stopped"), []);
        assert_eq!(sessions.all().count(), 0);
    }

    #[test]
    fn session_that_begins_while_the_mount_ends_gets_a_new_one() {
        let (mut sessions, start) = (Sessions::new(IDLE), Instant::now());
        sessions.begin(&ann(), 10, 1);
        sessions.mounted(&ann(), start);
        sessions.end(&ann(), 10, start);
        assert_eq!(sessions.tick(start + IDLE), [Stop(ann())]);
        assert_eq!(sessions.begin(&ann(), 12, 2), [Watch(12)]);
        assert_eq!(sessions.mounted(&ann(), start), [], "the old one does not count");
        assert_eq!(sessions.ended(&ann(), "stopped"), [Start(ann())]);
        assert_eq!(sessions.mounted(&ann(), start), [Answer(2, Ok(()))]);
        assert_eq!(sessions.tick(start + 9 * IDLE), [], "12 is inside");
    }

    #[test]
    fn mount_that_does_not_start_refuses_all_who_wait_and_is_tried_again() {
        let mut sessions = Sessions::new(IDLE);
        sessions.begin(&ann(), 10, 1);
        sessions.begin(&ann(), 11, 2);
        let why = || Err("401".to_owned());
        assert_eq!(sessions.ended(&ann(), "401"), [Answer(1, why()), Answer(2, why())]);
        assert_eq!(sessions.begin(&ann(), 10, 3), [Watch(10), Start(ann())]);
    }

    #[test]
    fn mount_that_dies_disconnects_its_users_and_no_others() {
        let (mut sessions, start) = (Sessions::new(IDLE), Instant::now());
        for (user, process) in [(ann(), 10), (ann(), 11), (bob(), 20)] {
            sessions.begin(&user, process, 1);
            sessions.mounted(&user, start);
        }
        assert_eq!(sessions.ended(&ann(), "killed"), [Disconnect(10), Disconnect(11)]);
        sessions.process_ended(10, start);
        assert_eq!(sessions.begin(&ann(), 12, 2), [Watch(12), Start(ann())]);
        assert_eq!(sessions.all().filter(|(user, inside)| **user == bob() && *inside == 1).count(), 1);
    }

    #[test]
    fn revoked_user_is_disconnected_at_once() {
        let (mut sessions, start) = (Sessions::new(IDLE), Instant::now());
        sessions.begin(&ann(), 10, 1);
        sessions.mounted(&ann(), start);
        assert_eq!(sessions.revoke(&ann()), [Disconnect(10), Stop(ann())]);
        assert_eq!(sessions.revoke(&ann()), []);
        assert_eq!(sessions.begin(&ann(), 10, 2), [Watch(10)], "waits for a mount with the new enrolment");
        assert_eq!(sessions.ended(&ann(), "stopped"), [Start(ann())]);
        assert_eq!(sessions.revoke(&bob()), []);
    }

    #[test]
    fn client_that_goes_while_the_mount_starts_leaves_it_idle() {
        let (mut sessions, start) = (Sessions::new(IDLE), Instant::now());
        sessions.begin(&ann(), 10, 1);
        sessions.process_ended(10, start);
        assert_eq!(sessions.mounted(&ann(), start), []);
        assert_eq!(sessions.tick(start + IDLE), [Stop(ann())]);
    }
}
