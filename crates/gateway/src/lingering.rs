//! Locks that outlive their UNLOCK by a moment, because the same client will probably take them again.
//!
//! A program that saves a file every now and then locks and unlocks it each time: two round trips and what has to wait for
//! them. So the UNLOCK of an edited file is acknowledged and kept for [`LINGER`]. If the same credential asks for the same
//! lock in that time, it has it; nobody else can have written the file in between. The lock is released when the time is over,
//! and before any other request for the file, for a folder above it or for something below it, whoever sends it: to the clients
//! of this gateway it looks released. Others at the server see it a moment longer.
//!
//! A lock is handed out again for [`REUSE`] after the server granted it, and only if it lasts ten times as long: the client,
//! which refreshes it by the time that it was told, is mistaken by a tenth at most.

use std::time::Duration;

use tokio::time::Instant;

use dav::{Properties, RemotePath, transfer::name_key};

use crate::{
    file_answer::FileAnswer,
    redirector::{Edit, Locked},
};

/// How long a lock is kept after its UNLOCK.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How long after the server has granted it a lock is handed out again.
const REUSE: Duration = Duration::from_mins(1);
/// The largest number of such locks; at it, a lock is released at once.
const MOST: usize = 256;

/// A lock that its client has released. `H` is the account that has it, `L` is a request.
#[derive(Debug)]
pub(crate) struct Held<H, L> {
    pub(crate) holder: H,
    pub(crate) path: RemotePath,
    pub(crate) locked: Locked,
    /// When the server granted it.
    pub(crate) granted: Instant,
    pub(crate) edit: Edit<L>,
    /// The client's UNLOCK.
    pub(crate) unlock: L,
    number: u64,
}

/// The locks of all credentials that linger.
#[derive(Debug)]
pub(crate) struct Lingering<H, L> {
    held: Vec<Held<H, L>>,
    next: u64,
}

impl<H, L> Default for Lingering<H, L> {
    fn default() -> Self {
        Self { held: Vec::new(), next: 0 }
    }
}

/// Whether this lock may linger: it is exclusive and lasts long enough.
pub(crate) fn may_linger(locked: &Locked, granted: Instant, now: Instant) -> bool {
    let read = Properties::read(&locked.body).map(|properties| properties.locks).unwrap_or_default();
    let lasts = |lock: &dav::ActiveLock| lock.timeout.is_none_or(|timeout| timeout >= REUSE * 10);
    matches!(&*read, [lock] if !lock.shared && lasts(lock)) && now < granted + REUSE
}

impl<H: PartialEq, L> Lingering<H, L> {
    /// A client has released a lock. Returns its number; none if there are too many.
    pub(crate) fn add(
        &mut self,
        (holder, path): (H, RemotePath),
        (locked, granted): (Locked, Instant),
        edit: Edit<L>,
        unlock: L,
    ) -> Result<u64, L> {
        if self.held.len() >= MOST {
            return Err(unlock);
        }
        self.next += 1;
        let number = self.next;
        self.held.push(Held { holder, path, locked, granted, edit, unlock, number });
        Ok(number)
    }

    /// What the server says about the file by now.
    pub(crate) fn shows(&mut self, number: u64, answer: Option<FileAnswer>) {
        if let Some(held) = self.held.iter_mut().find(|held| held.number == number) {
            held.edit.shown = answer;
        }
    }

    /// A request is about to touch these paths. Returns the locks to release before; `goes_on`: the request goes on with
    /// that lock.
    pub(crate) fn touch<'a>(
        &mut self,
        paths: impl IntoIterator<Item = &'a RemotePath>,
        goes_on: impl Fn(&Held<H, L>) -> bool,
    ) -> Vec<Held<H, L>> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let touched: Vec<_> = paths.into_iter().map(place).collect();
        let is_due = |held: &mut Held<H, L>| {
            let at = place(&held.path);
            touched.iter().any(|path| at.starts_with(path) || path.starts_with(&at)) && !goes_on(held)
        };
        self.held.extract_if(.., is_due).collect()
    }

    /// What the server says about a file whose lock this account holds.
    pub(crate) fn shown(&self, holder: &H, path: &RemotePath, now: Instant) -> Option<FileAnswer> {
        let held = self.held.iter().find(|held| held.holder == *holder && held.path.same_place(path))?;
        held.edit.shown.clone().filter(|answer| answer.is_fresh(now))
    }

    /// The client takes the lock again. An error has the lock to release instead, since it is too old.
    pub(crate) fn take(
        &mut self,
        holder: &H,
        path: &RemotePath,
        now: Instant,
    ) -> Option<Result<Held<H, L>, Held<H, L>>> {
        let at = self.held.iter().position(|held| held.holder == *holder && held.path.same_place(path))?;
        let held = self.held.swap_remove(at);
        Some(if now < held.granted + REUSE { Ok(held) } else { Err(held) })
    }

    /// The time of a lock is over. Returns it if nobody has taken or released it since.
    pub(crate) fn expire(&mut self, number: u64) -> Option<Held<H, L>> {
        let at = self.held.iter().position(|held| held.number == number)?;
        Some(self.held.swap_remove(at))
    }

    /// All locks of an account: they are to be released.
    pub(crate) fn of(&mut self, holder: &H) -> Vec<Held<H, L>> {
        self.held.extract_if(.., |held| held.holder == *holder).collect()
    }

    /// How many locks an account holds.
    pub(crate) fn count(&self, holder: &H) -> usize {
        self.held.iter().filter(|held| held.holder == *holder).count()
    }
}

/// A path, as a server may compare it.
fn place(path: &RemotePath) -> Vec<Vec<u8>> {
    path.segments().map(name_key).collect()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::redirector::{Saver, Template};

    fn path(text: &str) -> RemotePath {
        RemotePath::from_url_path(text).unwrap()
    }

    fn locked(scope: &str, timeout: &str) -> Locked {
        let body = format!(
            "<D:prop xmlns:D=\"DAV:\"><D:lockdiscovery><D:activelock><D:lockscope><D:{scope}/></D:lockscope>\
             <D:timeout>{timeout}</D:timeout></D:activelock></D:lockdiscovery></D:prop>"
        );
        Locked { token: "<urn:1>".into(), headers: HeaderMap::new(), body: body.into() }
    }

    fn add(lingering: &mut Lingering<u8, u32>, holder: u8, at: &str, granted: Instant) -> u64 {
        let edit = Edit::new(Template { saver: Saver::Redirector, body: Bytes::new(), timeout: None });
        lingering.add((holder, path(at)), (locked("exclusive", "Second-3600"), granted), edit, 7).unwrap()
    }

    #[test]
    fn lock_is_taken_again_once_by_its_holder_and_for_a_while() {
        let (mut lingering, now) = (Lingering::default(), Instant::now());
        add(&mut lingering, 1, "/f/a", now);
        assert!(lingering.take(&2, &path("/f/a"), now).is_none() && lingering.take(&1, &path("/f/b"), now).is_none());
        assert_eq!(lingering.take(&1, &path("/f/a"), now).unwrap().unwrap().unlock, 7);
        assert!(lingering.take(&1, &path("/f/a"), now).is_none());
        add(&mut lingering, 1, "/f/a", now);
        assert!(lingering.take(&1, &path("/f/a"), now + REUSE).unwrap().is_err(), "it is to be released");
    }

    #[test]
    fn whoever_touches_the_file_releases_the_lock() {
        let now = Instant::now();
        for (touched, releases) in [
            ("/f/a", true),
            ("/F/A.", true),
            ("/f/", true),
            ("/", true),
            ("/f/a/b", true),
            ("/f/ab", false),
            ("/g", false),
        ] {
            let mut lingering = Lingering::default();
            add(&mut lingering, 1, "/f/a", now);
            assert_eq!(lingering.touch([&path(touched)], |_| false).len(), usize::from(releases), "{touched}");
            assert_eq!(lingering.count(&1), usize::from(!releases));
        }
        let mut lingering = Lingering::default();
        add(&mut lingering, 1, "/f/a", now);
        assert!(lingering.touch([&path("/f/a")], |held| held.holder == 1).is_empty());
        assert_eq!(lingering.touch([&path("/x"), &path("/f/a")], |held| held.holder == 2).len(), 1);
    }

    #[test]
    fn time_releases_only_the_lock_that_it_was_for() {
        let (mut lingering, now) = (Lingering::default(), Instant::now());
        let first = add(&mut lingering, 1, "/a", now);
        lingering.take(&1, &path("/a"), now);
        let second = add(&mut lingering, 1, "/a", now);
        assert!(lingering.expire(first).is_none() && lingering.expire(second).is_some());
        add(&mut lingering, 1, "/a", now);
        add(&mut lingering, 2, "/b", now);
        assert_eq!(lingering.of(&1).len(), 1);
        assert_eq!((lingering.count(&1), lingering.count(&2)), (0, 1));
    }

    #[test]
    fn only_exclusive_locks_that_last_linger() {
        let now = Instant::now();
        let may = |scope, timeout| may_linger(&locked(scope, timeout), now, now);
        assert!(may("exclusive", "Second-3600") && may("exclusive", "Infinite"));
        assert!(!may("shared", "Second-3600") && !may("exclusive", "Second-180"));
        assert!(!may_linger(&locked("exclusive", "Second-3600"), now, now + REUSE));
        assert!(!may_linger(&Locked { body: Bytes::new(), ..locked("exclusive", "") }, now, now), "not known");
    }

    #[test]
    fn number_of_locks_is_bounded() {
        let (mut lingering, now) = (Lingering::default(), Instant::now());
        for number in 0..MOST {
            add(&mut lingering, 1, &format!("/{number}"), now);
        }
        let edit = Edit::new(Template { saver: Saver::Redirector, body: Bytes::new(), timeout: None });
        assert_eq!(lingering.add((1, path("/x")), (locked("exclusive", "Infinite"), now), edit, 8), Err(8));
    }
}
