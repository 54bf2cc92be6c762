//! What our own requests may still do to a file after they have failed here, or were repeated. No I/O.
//!
//! A request without an answer may be carried out much later, when the program has saved the file again. The server then has
//! another version than that save replaces, and nobody else has changed anything.

use std::{collections::VecDeque, time::Duration};

use dav::{ETag, RemotePath};
use haul_http::digest::Digests;
use tokio::time::Instant;

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
    /// Whether it has ended here, without an answer.
    has_failed: bool,
    from: RemotePath,
    /// Where it goes, if it is not deleted.
    to: Option<RemotePath>,
    /// The version that was at its old path, and those that were stored there since.
    versions: Vec<ETag>,
    /// Versions that were put back at its old path.
    put_back: Vec<ETag>,
}

/// An upload that may have been carried out, or be carried out once more.
#[derive(Debug)]
struct Upload {
    path: RemotePath,
    sent: Instant,
    /// Whether it is one of a new file, so that it would bring a deleted one back.
    is_new: bool,
    content: Digests,
    /// The versions that were stored there since.
    versions: Vec<ETag>,
    /// Whether its file is gone, and somebody looks whether it comes back.
    is_watched: bool,
}

/// What a late request has done at a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// It has taken the file away.
    TakenAway,
    /// It has put the file there that its program still believes at this path.
    MovedFrom(RemotePath),
    /// The file was put back.
    PutBack,
}

/// The requests whose outcome is unknown.
#[derive(Debug, Default)]
pub(crate) struct LateChanges {
    requests: VecDeque<Request>,
    uploads: VecDeque<Upload>,
    /// Where new files are being uploaded.
    creating: Vec<RemotePath>,
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
        self.forget_old(now);
        if self.requests.len() >= MOST {
            self.requests.pop_front();
        }
        self.next += 1;
        let (from, to, versions) = (from.clone(), to.cloned(), version.cloned().into_iter().collect());
        let request =
            Request { number: self.next, sent: now, has_failed: false, from, to, versions, put_back: Vec::new() };
        self.requests.push_back(request);
        self.next
    }

    fn forget_old(&mut self, now: Instant) {
        self.requests.retain(|request| now.saturating_duration_since(request.sent) < LONGEST);
        self.uploads.retain(|upload| now.saturating_duration_since(upload.sent) < LONGEST);
    }

    /// A renaming is sent again, for another version of its file.
    pub(crate) fn sends(&mut self, number: u64, version: &ETag) {
        if let Some(request) = self.requests.iter_mut().find(|request| request.number == number) {
            request.versions.push(version.clone());
        }
    }

    /// A request is over: it is not carried out later.
    pub(crate) fn settled(&mut self, number: u64) {
        self.requests.retain(|request| request.number != number);
    }

    /// A request has ended without an answer, unless it is settled.
    pub(crate) fn failed(&mut self, number: u64) {
        if let Some(request) = self.requests.iter_mut().find(|request| request.number == number) {
            request.has_failed = true;
        }
    }

    /// A version was stored, which a late request may find instead of its own.
    pub(crate) fn stored(&mut self, now: Instant, path: &RemotePath, version: &ETag) {
        self.forget_old(now);
        for request in self.requests.iter_mut().filter(|request| request.from == *path && request.to.is_some()) {
            request.versions.push(version.clone());
        }
        for upload in self.uploads.iter_mut().filter(|upload| upload.path == *path) {
            upload.versions.push(version.clone());
        }
    }

    /// The upload of a new file begins.
    pub(crate) fn creates(&mut self, path: &RemotePath) {
        self.creating.push(path.clone());
    }

    /// It has ended, and its outcome is noted.
    pub(crate) fn created(&mut self, path: &RemotePath) {
        if let Some(at) = self.creating.iter().position(|creating| creating == path) {
            self.creating.swap_remove(at);
        }
    }

    /// An upload, perhaps of a new file, may have been carried out without our knowledge, or a copy of it may be later.
    pub(crate) fn expect_upload(&mut self, now: Instant, path: &RemotePath, content: Digests, is_new: bool) {
        self.forget_old(now);
        if self.uploads.len() >= MOST {
            self.uploads.pop_front();
        }
        let path = path.clone();
        self.uploads.push_back(Upload { path, sent: now, is_new, content, versions: Vec::new(), is_watched: false });
    }

    /// The contents that such an upload may have put at a path as this version; none while a new file is being
    /// uploaded there.
    pub(crate) fn uploads(&mut self, now: Instant, path: &RemotePath, version: &ETag) -> Vec<Digests> {
        self.forget_old(now);
        if self.creating.contains(path) {
            return Vec::new();
        }
        let at = self.uploads.iter().filter(|upload| upload.path == *path);
        let is_other = |upload: &&Upload| !upload.versions.iter().any(|stored| stored.resembles(version));
        at.filter(is_other).map(|upload| upload.content.clone()).collect()
    }

    /// A file has lost its name. Returns whether to look from now on whether a late upload brings it back.
    pub(crate) fn begin_watch(&mut self, now: Instant, path: &RemotePath) -> bool {
        let is_new = !self.is_watched(now, path);
        let mut uploads = self.uploads.iter_mut().filter(|upload| upload.is_new && upload.path == *path).peekable();
        let begins = is_new && uploads.peek().is_some();
        uploads.for_each(|upload| upload.is_watched = true);
        begins
    }

    /// Whether to look on.
    pub(crate) fn is_watched(&mut self, now: Instant, path: &RemotePath) -> bool {
        self.forget_old(now);
        self.uploads.iter().any(|upload| upload.path == *path && upload.is_watched)
    }

    /// A file of this version was renamed to this path. It may have been there before.
    pub(crate) fn renamed_to(&mut self, path: &RemotePath, version: Option<&ETag>) {
        for request in self.requests.iter_mut().filter(|request| request.from == *path && request.to.is_some()) {
            request.versions.extend(version.cloned());
        }
        self.uploads.retain(|upload| upload.path != *path);
    }

    /// Why this version is at a path now, or none, if a late request of our own may be the reason.
    pub(crate) fn reason(&self, now: Instant, path: &RemotePath, version: Option<&ETag>) -> Option<Late> {
        let failed = self
            .requests
            .iter()
            .filter(|request| request.has_failed && now.saturating_duration_since(request.sent) < LONGEST);
        let is_one_of = |versions: &[ETag], version: &ETag| versions.iter().any(|one| one.resembles(version));
        failed.into_iter().find_map(|request| match version {
            None => (request.from == *path).then_some(Late::TakenAway),
            Some(version) if request.to.as_ref() == Some(path) && is_one_of(&request.versions, version) => {
                Some(Late::MovedFrom(request.from.clone()))
            }
            Some(version) => (request.from == *path && is_one_of(&request.put_back, version)).then_some(Late::PutBack),
        })
    }

    /// A file that a late request had moved away was put back, as this version.
    pub(crate) fn put_back(&mut self, path: &RemotePath, version: &ETag) {
        for request in self.requests.iter_mut().filter(|request| request.from == *path) {
            request.put_back.push(version.clone());
        }
    }

    /// Whether a version at the old path of a request was stored there after the request.
    pub(crate) fn is_newer(&self, from: &RemotePath, version: &ETag) -> bool {
        let of_path = self.requests.iter().filter(|request| request.from == *from);
        of_path.flat_map(|request| request.versions.iter().skip(1)).any(|one| one.resembles(version))
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
    fn what_has_failed_may_have_been_carried_out() {
        let (mut late, new, file, now) = (LateChanges::default(), path("/file.new"), path("/file"), Instant::now());
        let number = late.expect(now, &new, Some(&tag("1")), Some(&file));
        assert_eq!(late.reason(now, &file, Some(&tag("1"))), None, "it still waits for its answer");
        late.failed(number);
        let moved = Some(Late::MovedFrom(new.clone()));
        assert_eq!(late.reason(now, &file, Some(&tag("1"))), moved);
        assert_eq!(late.reason(now, &new, None), Some(Late::TakenAway));
        assert_eq!(late.reason(now, &file, Some(&tag("2"))), None);
        assert_eq!(late.reason(now, &file, None), None);
        late.stored(now, &new, &tag("2"));
        late.stored(now, &file, &tag("3"));
        assert_eq!(late.reason(now, &file, Some(&tag("2"))), moved);
        assert_eq!(late.reason(now, &file, Some(&tag("3"))), None);
        assert!(late.is_newer(&new, &tag("2")) && !late.is_newer(&new, &tag("1")));
        late.put_back(&new, &tag("4"));
        assert_eq!(late.reason(now, &new, Some(&tag("4"))), Some(Late::PutBack));
        late.settled(number);
        late.failed(number);
        assert_eq!(late.reason(now, &file, Some(&tag("1"))), None);
        assert_eq!(late.reason(now, &new, None), None);
    }

    #[test]
    fn version_belongs_to_the_request_that_names_it() {
        let (mut late, new, file, now) = (LateChanges::default(), path("/new"), path("/file"), Instant::now());
        let [first, second] = ["1", "2"].map(|version| late.expect(now, &new, Some(&tag(version)), Some(&file)));
        late.failed(first);
        late.sends(second, &tag("3"));
        assert_eq!(late.reason(now, &file, Some(&tag("3"))), None, "the first has not sent it");
        late.failed(second);
        assert_eq!(late.reason(now, &file, Some(&tag("3"))), Some(Late::MovedFrom(new.clone())));
        assert!(!late.is_newer(&new, &tag("4")));
        late.renamed_to(&new, Some(&tag("4")));
        assert!(late.is_newer(&new, &tag("4")), "another file has the old name");
    }

    #[test]
    fn only_what_was_not_stored_here_was_brought_back() {
        let (mut late, file, now) = (LateChanges::default(), path("/file"), Instant::now());
        let content = Digests::of(b"content", &[haul_http::digest::Algorithm::Sha256]);
        assert!(!late.begin_watch(now, &file), "nothing is expected");
        late.creates(&file);
        late.expect_upload(now, &file, content.clone(), true);
        assert!(late.uploads(now, &file, &tag("1")).is_empty(), "it may be the one that is being stored");
        late.stored(now, &file, &tag("1"));
        late.created(&file);
        assert!(late.uploads(now, &file, &tag("1")).is_empty() && late.uploads(now, &path("/f"), &tag("2")).is_empty());
        assert_eq!(late.uploads(now, &file, &tag("2")), [content]);
        assert!(late.begin_watch(now, &file) && !late.begin_watch(now, &file) && late.is_watched(now, &file));
        assert!(!late.is_watched(now + LONGEST, &file));
        late.expect_upload(now, &file, Digests::of(b"", &[]), true);
        late.renamed_to(&file, None);
        assert!(late.uploads(now, &file, &tag("2")).is_empty() && !late.begin_watch(now, &file));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let (mut late, begin) = (LateChanges::default(), Instant::now());
        let fail = |late: &mut LateChanges, at, name: &str| {
            let number = late.expect(at, &path(name), None, None);
            late.failed(number);
        };
        for number in 0..=MOST {
            fail(&mut late, begin, &format!("/{number}"));
        }
        assert_eq!(late.reason(begin, &path("/0"), None), None);
        assert_eq!(late.reason(begin, &path("/1"), None), Some(Late::TakenAway));
        assert_eq!(late.reason(begin + LONGEST, &path("/1"), None), None);
        fail(&mut late, begin + LONGEST, "/file");
        assert_eq!(late.requests.len(), 1);
    }
}
