//! What our own renamings and deletions may still do to a file after they have failed here. No I/O.
//!
//! A request without an answer may be carried out much later, when the program has saved the file again. The server then has
//! another version than that save replaces, and nobody else has changed anything.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use dav::{ETag, RemotePath};

/// How long a request may be on its way. Linux gives up a connection whose peer is silent after about 15 minutes
/// (`tcp_retries2`), and a box between may hold it on top of that.
const LONGEST: Duration = Duration::from_hours(1);
/// How many requests are remembered.
const MOST: usize = 1000;

/// A request that takes a file away from a path.
#[derive(Debug)]
struct Request {
    number: u64,
    sent: Instant,
    from: RemotePath,
    /// Where it goes, if it is not deleted.
    to: Option<RemotePath>,
    /// The versions that have been at its old path since.
    versions: Vec<ETag>,
}

/// The requests whose outcome is unknown.
#[derive(Debug, Default)]
pub(crate) struct LateChanges {
    requests: VecDeque<Request>,
    next: u64,
}

impl LateChanges {
    /// A renaming of a file, which is this version by now, or a deletion is about to be sent. Returns its number.
    pub(crate) fn expect(
        &mut self,
        now: Instant,
        from: &RemotePath,
        version: Option<&ETag>,
        to: Option<&RemotePath>,
    ) -> u64 {
        self.next += 1;
        let (from, to, versions) = (from.clone(), to.cloned(), version.cloned().into_iter().collect());
        self.requests.push_back(Request { number: self.next, sent: now, from, to, versions });
        self.requests.retain(|request| now.saturating_duration_since(request.sent) < LONGEST);
        if self.requests.len() > MOST {
            self.requests.pop_front();
        }
        self.next
    }

    /// A request is over: it is not carried out later.
    pub(crate) fn settled(&mut self, number: u64) {
        self.requests.retain(|request| request.number != number);
    }

    /// A version was stored, which a late request may find instead of its own.
    pub(crate) fn stored(&mut self, path: &RemotePath, version: &ETag) {
        for request in self.requests.iter_mut().filter(|request| request.from == *path && request.to.is_some()) {
            request.versions.push(version.clone());
        }
    }

    /// Whether one of them may be the reason that this version is at a path now, or none.
    pub(crate) fn may_have_left(&self, path: &RemotePath, version: Option<&ETag>) -> bool {
        self.requests.iter().any(|request| match version {
            None => request.from == *path,
            Some(version) => request.to.as_ref() == Some(path) && request.versions.iter().any(|it| it.is(version)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> RemotePath {
        RemotePath::from_url_path(name).expect("it is one")
    }

    fn tag(name: &str) -> ETag {
        ETag::parse(&format!("\"{name}\"")).expect("it is one")
    }

    #[test]
    fn what_is_not_settled_may_have_been_carried_out() {
        let (mut late, new, file) = (LateChanges::default(), path("/file.new"), path("/file"));
        let number = late.expect(Instant::now(), &new, Some(&tag("1")), Some(&file));
        assert!(late.may_have_left(&file, Some(&tag("1"))) && late.may_have_left(&new, None));
        assert!(!late.may_have_left(&file, Some(&tag("2"))) && !late.may_have_left(&file, None));
        late.stored(&new, &tag("2"));
        late.stored(&file, &tag("3"));
        assert!(late.may_have_left(&file, Some(&tag("2"))) && !late.may_have_left(&file, Some(&tag("3"))));
        late.settled(number);
        assert!(!late.may_have_left(&file, Some(&tag("1"))) && !late.may_have_left(&new, None));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let (mut late, begin) = (LateChanges::default(), Instant::now());
        for number in 0..=MOST {
            late.expect(begin, &path(&format!("/{number}")), None, None);
        }
        assert!(!late.may_have_left(&path("/0"), None) && late.may_have_left(&path("/1"), None));
        late.expect(begin + LONGEST, &path("/file"), None, None);
        assert!(!late.may_have_left(&path("/1"), None) && late.may_have_left(&path("/file"), None));
    }
}
