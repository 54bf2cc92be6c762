use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn path(name: &str) -> RemotePath {
    RemotePath::root().join(name.as_bytes(), false).unwrap()
}

fn token(n: u32) -> LockToken {
    LockToken::parse(&format!("urn:{n}")).unwrap()
}

const MINUTE: Duration = Duration::from_mins(1);

#[test]
fn each_policy_locks_new_and_existing_files_as_documented() {
    for (policy, new, existing) in
        [(LockPolicy::Never, false, false), (LockPolicy::OnEdit, false, true), (LockPolicy::Always, true, true)]
    {
        for (exists, locked) in [(false, new), (true, existing)] {
            let permit = Locks::new(policy).acquire(&path("a"), exists);
            assert_eq!(permit, if locked { LockPermit::Ask } else { LockPermit::Unlocked }, "{policy:?} {exists}");
        }
    }
}

#[test]
fn writers_of_one_file_share_its_lock() {
    let (mut locks, a, now) = (Locks::new(LockPolicy::OnEdit), path("a"), Instant::now());
    assert_eq!(locks.acquire(&a, true), LockPermit::Ask);
    assert_eq!(locks.acquire(&a, true), LockPermit::Wait);
    assert_eq!(locks.granted(&a, token(1), Some(MINUTE), now), None);
    assert_eq!(locks.permit(&a), Some(LockPermit::Locked(token(1))));
    assert_eq!(locks.release(&a), None);
    assert_eq!(locks.acquire(&a, true), LockPermit::Locked(token(1)));
    assert_eq!(locks.release(&a), None);
    assert_eq!(locks.release(&a), Some(LockAction::Unlock(a.clone(), token(1))));
    assert_eq!(locks.acquire(&a, true), LockPermit::Wait);
    assert_eq!(locks.unlocked(&a), Some(LockAction::Lock(a.clone())));
    assert_eq!(locks.granted(&a, token(2), Some(MINUTE), now), None);
    assert_eq!(locks.permit(&a), Some(LockPermit::Locked(token(2))));
}

#[test]
fn lock_is_refreshed_at_half_its_timeout() {
    let (mut locks, a, now) = (Locks::new(LockPolicy::Always), path("a"), Instant::now());
    locks.acquire(&a, true);
    locks.granted(&a, token(1), Some(MINUTE), now);
    assert_eq!(locks.wake(), Some(now + MINUTE / 2));
    assert_eq!(locks.due(now + MINUTE / 3), []);
    let refresh = LockAction::Refresh(a.clone(), token(1));
    assert_eq!(locks.due(now + MINUTE / 2).as_slice(), std::slice::from_ref(&refresh));
    assert_eq!((locks.due(now + MINUTE), locks.wake()), (vec![], None));
    // Half of the rest, then of what is granted anew.
    locks.unanswered(&a, now + MINUTE / 2);
    assert_eq!(locks.wake(), Some(now + MINUTE * 3 / 4));
    assert_eq!(locks.due(now + MINUTE).as_slice(), std::slice::from_ref(&refresh));
    locks.unanswered(&a, now + MINUTE * 2);
    assert_eq!(locks.wake(), Some(now + MINUTE * 2 + SHORTEST));
    assert_eq!(locks.due(now + MINUTE * 3), [refresh]);
    locks.refreshed(&a, None, now);
    assert_eq!(locks.wake(), None);
}

#[test]
fn lost_lock_is_acquired_again() {
    let (mut locks, a, now) = (Locks::new(LockPolicy::Always), path("a"), Instant::now());
    locks.acquire(&a, true);
    locks.granted(&a, token(1), Some(MINUTE), now);
    assert!(!locks.lost(&a, &token(7)), "an old lock's loss is not this one's");
    assert!(locks.lost(&a, &token(1)));
    assert_eq!((locks.permit(&a), locks.wake()), (None, None));
    assert_eq!(locks.acquire(&a, true), LockPermit::Ask);
    locks.granted(&a, token(2), Some(MINUTE), now);
    assert_eq!(locks.release(&a), None);
    assert_eq!(locks.release(&a), Some(LockAction::Unlock(a.clone(), token(2))));
}

#[test]
fn all_locks_are_released_at_the_end() {
    let (mut locks, now) = (Locks::new(LockPolicy::Always), Instant::now());
    for (n, name) in (0..).zip(["a", "b", "c"]) {
        locks.acquire(&path(name), false);
        if name != "c" {
            locks.granted(&path(name), token(n), Some(MINUTE), now);
        }
    }
    let unlock = |name, n| LockAction::Unlock(path(name), token(n));
    assert_eq!(locks.release_all(), [unlock("a", 0), unlock("b", 1)]);
    assert_eq!(locks.granted(&path("c"), token(2), None, now), Some(unlock("c", 2)));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Acquire,
    Release,
    Grant,
    Refuse,
    AnswerUnlock,
    AnswerRefresh,
    LoseAnswer,
    /// The server drops the lock: it ended, or was broken.
    Break,
    Later(u64),
}

/// A server's view of one client's locks, and the requests under way.
#[derive(Default)]
struct Server {
    locks: HashMap<RemotePath, LockToken>,
    locking: Vec<RemotePath>,
    unlocking: Vec<(RemotePath, LockToken)>,
    refreshing: Vec<(RemotePath, LockToken)>,
    granted: u32,
}

impl Server {
    fn receive(&mut self, actions: impl IntoIterator<Item = LockAction>) {
        for action in actions {
            match action {
                LockAction::Lock(path) => self.lock(path),
                LockAction::Refresh(path, token) => self.refreshing.push((path, token)),
                LockAction::Unlock(path, token) => self.unlocking.push((path, token)),
            }
        }
    }

    fn lock(&mut self, path: RemotePath) {
        assert!(!self.locking.contains(&path), "asked twice for {path}");
        assert!(!self.unlocking.iter().any(|(other, _)| *other == path), "asked while giving back {path}");
        self.locking.push(path);
    }
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        3 => Just(Step::Acquire),
        3 => Just(Step::Release),
        4 => Just(Step::Grant),
        1 => Just(Step::Refuse),
        3 => Just(Step::AnswerUnlock),
        2 => Just(Step::AnswerRefresh),
        1 => Just(Step::LoseAnswer),
        1 => Just(Step::Break),
        2 => (1..50_u64).prop_map(Step::Later),
    ];
    prop::collection::vec((0..3_usize, step), 0..80)
}

proptest! {
    #[test]
    fn random_operations_leave_no_lock(steps in steps()) {
        let paths = ["a", "b", "c"].map(path);
        let (mut locks, mut server, mut now) = (Locks::new(LockPolicy::Always), Server::default(), Instant::now());
        let mut writers = [0_usize; 3];
        for (which, step) in steps {
            let path = &paths[which];
            match step {
                Step::Acquire => {
                    writers[which] += 1;
                    match locks.acquire(path, true) {
                        LockPermit::Ask => server.lock(path.clone()),
                        LockPermit::Unlocked => prop_assert!(false, "policy always"),
                        LockPermit::Locked(_) | LockPermit::Wait => {}
                    }
                }
                Step::Release if writers[which] > 0 => {
                    writers[which] -= 1;
                    server.receive(locks.release(path));
                }
                Step::Grant if !server.locking.is_empty() => {
                    let path = server.locking.remove(which % server.locking.len());
                    // What was lost to the client may still stand at the server: only one it knows counts.
                    server.granted += 1;
                    server.locks.insert(path.clone(), token(server.granted));
                    server.receive(locks.granted(&path, token(server.granted), Some(MINUTE), now));
                }
                Step::Refuse if !server.locking.is_empty() => {
                    let path = server.locking.remove(which % server.locking.len());
                    writers[paths.iter().position(|known| *known == path).unwrap()] = 0;
                    locks.refused(&path);
                }
                Step::AnswerUnlock if !server.unlocking.is_empty() => {
                    let (path, token) = server.unlocking.remove(which % server.unlocking.len());
                    if server.locks.get(&path) == Some(&token) {
                        server.locks.remove(&path);
                    }
                    server.receive(locks.unlocked(&path));
                }
                Step::AnswerRefresh if !server.refreshing.is_empty() => {
                    let (path, token) = server.refreshing.remove(which % server.refreshing.len());
                    if server.locks.get(&path) == Some(&token) {
                        locks.refreshed(&path, Some(MINUTE), now);
                    } else {
                        locks.lost(&path, &token);
                    }
                }
                Step::LoseAnswer if !server.refreshing.is_empty() => {
                    let (path, _) = server.refreshing.remove(which % server.refreshing.len());
                    locks.unanswered(&path, now);
                }
                Step::Break => drop(server.locks.remove(path)),
                Step::Later(seconds) => {
                    now += Duration::from_secs(seconds);
                    server.receive(locks.due(now));
                    prop_assert!(locks.wake().is_none_or(|wake| wake > now && wake <= now + MINUTE / 2));
                }
                _ => {}
            }
        }
        server.receive(locks.release_all());
        while let Some(path) = server.locking.pop() {
            server.granted += 1;
            server.locks.insert(path.clone(), token(server.granted));
            server.receive(locks.granted(&path, token(server.granted), None, now));
        }
        for (path, token) in std::mem::take(&mut server.unlocking) {
            if server.locks.get(&path) == Some(&token) {
                server.locks.remove(&path);
            }
            prop_assert_eq!(locks.unlocked(&path), None);
        }
        prop_assert!(server.locks.is_empty(), "{:?}", server.locks);
        prop_assert!(locks.held.is_empty(), "{:?}", locks.held);
    }
}
