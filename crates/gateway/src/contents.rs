//! Contents of small files, of all credentials, in memory.
//!
//! A content is found only by the account that has fetched it, and only as the version that the server has just listed to that
//! account: with the same strong entity tag and length. It is used for [`LIFE`], because a listing does not show whether the
//! account may still read the file, and then it goes. If there is no room, what was not used for longest goes first.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};
use tokio::time::Instant;

use bytes::Bytes;
use dav::RemotePath;
use http::HeaderMap;

use crate::files::File;

/// The largest number of bytes, including what is being fetched.
const BYTES: u64 = 64 * 1024 * 1024;
/// The largest number of files.
const FILES: usize = 8192;

/// How long a content is used.
const LIFE: Duration = Duration::from_mins(1);

/// A file's content.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    /// Of the server's answer.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What is here of a file.
#[derive(Debug)]
pub(crate) enum Found<W> {
    Here(Content),
    /// It is being fetched.
    Coming(W),
    Missing,
}

/// The contents. `W` waits for one.
#[derive(Debug)]
pub(crate) struct Contents<W> {
    files: HashMap<Key, Entry<W>>,
    /// By their last use: those that are here.
    order: BTreeMap<u64, Key>,
    /// When each was asked for.
    ages: VecDeque<(Instant, Key)>,
    bytes: u64,
    clock: u64,
}

/// An account, and a path.
type Key = (u64, RemotePath);

#[derive(Debug)]
struct Entry<W> {
    file: File,
    state: State<W>,
    number: u64,
    asked: Instant,
}

#[derive(Debug)]
enum State<W> {
    Here(Content),
    Coming(W),
}

impl<W> Default for Contents<W> {
    fn default() -> Self {
        Self { files: HashMap::new(), order: BTreeMap::new(), ages: VecDeque::new(), bytes: 0, clock: 0 }
    }
}

impl<W: Clone> Contents<W> {
    /// The bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What is here of this version of a file.
    pub(crate) fn find(&mut self, account: u64, file: &File, now: Instant) -> Found<W> {
        self.clock += 1;
        let key = (account, file.path.clone());
        match self.files.get_mut(&key).filter(|entry| entry.is(file, now)) {
            Some(Entry { state: State::Here(content), number, .. }) => {
                self.order.remove(number);
                *number = self.clock;
                self.order.insert(self.clock, key);
                Found::Here(content.clone())
            }
            Some(Entry { state: State::Coming(wait), .. }) => Found::Coming(wait.clone()),
            None => Found::Missing,
        }
    }

    /// Makes room for a file that is to be fetched. Returns a number for [`arrives`](Self::arrives); none if it is here or being
    /// fetched, or if there is no room.
    pub(crate) fn expect(&mut self, account: u64, file: &File, wait: W, now: Instant) -> Option<u64> {
        self.forget_old(now);
        let key = (account, file.path.clone());
        match self.files.get(&key) {
            Some(Entry { state: State::Coming(_), .. }) => return None,
            Some(entry) if entry.is(file, now) => return None,
            Some(_) => self.remove(&key),
            None => {}
        }
        while self.bytes + file.facts.length > BYTES || self.files.len() >= FILES {
            let (_, oldest) = self.order.first_key_value()?;
            let oldest = oldest.clone();
            self.remove(&oldest);
        }
        self.clock += 1;
        self.bytes += file.facts.length;
        let entry = Entry { file: file.clone(), state: State::Coming(wait), number: self.clock, asked: now };
        self.ages.push_back((now, key.clone()));
        self.files.insert(key, entry);
        Some(self.clock)
    }

    /// Drops what is not used any more.
    fn forget_old(&mut self, now: Instant) {
        while let Some((asked, key)) = self.ages.pop_front_if(|(asked, _)| now >= *asked + LIFE) {
            let is_it = |entry: &Entry<W>| entry.asked == asked && matches!(entry.state, State::Here(_));
            if self.files.get(&key).is_some_and(is_it) {
                self.remove(&key);
            }
        }
    }

    /// A file was fetched, or could not be.
    pub(crate) fn arrives(&mut self, account: u64, path: &RemotePath, number: u64, content: Option<Content>) {
        let key = (account, path.clone());
        let Some(entry) = self.files.get_mut(&key).filter(|entry| entry.number == number) else { return };
        match content.filter(|content| content.body.len() as u64 == entry.file.facts.length) {
            Some(content) => {
                entry.state = State::Here(content);
                self.order.insert(number, key);
            }
            None => self.remove(&key),
        }
    }

    /// Drops what an account has.
    pub(crate) fn forget(&mut self, account: u64) {
        let of_account: Vec<_> = self.files.keys().filter(|(owner, _)| *owner == account).cloned().collect();
        for key in &of_account {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.files.remove(key) {
            self.bytes -= entry.file.facts.length;
            self.order.remove(&entry.number);
        }
    }
}

impl<W> Entry<W> {
    /// Whether it is this version of the file.
    fn is(&self, file: &File, now: Instant) -> bool {
        let (own, listed) = (&self.file.facts, &file.facts);
        own.etag.is(&listed.etag) && own.length == listed.length && now < self.asked + LIFE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Files, tests::listing};

    fn file(name: &str, length: u64) -> File {
        let listing = listing(&[name.to_owned()], length);
        let files = Files::parse(listing.as_bytes(), &RemotePath::from_url_path("/f/").unwrap());
        files.get(name.as_bytes()).unwrap().1.clone()
    }

    fn now() -> Instant {
        Instant::now()
    }

    fn content(length: usize) -> Content {
        Content { headers: HeaderMap::new(), body: vec![7; length].into() }
    }

    fn store(contents: &mut Contents<()>, account: u64, file: &File) {
        let number = contents.expect(account, file, (), now()).unwrap();
        let length = usize::try_from(file.facts.length).unwrap();
        contents.arrives(account, &file.path, number, Some(content(length)));
    }

    #[test]
    fn content_is_found_by_its_account_as_its_version() {
        let (mut contents, a) = (Contents::default(), file("a", 3));
        assert!(matches!(contents.find(1, &a, now()), Found::Missing));
        let number = contents.expect(1, &a, (), now()).unwrap();
        assert!(
            matches!(contents.find(1, &a, now()), Found::Coming(())) && contents.expect(1, &a, (), now()).is_none()
        );
        contents.arrives(1, &a.path, number, Some(content(3)));
        assert!(matches!(contents.find(1, &a, now()), Found::Here(_)) && contents.expect(1, &a, (), now()).is_none());
        assert!(matches!(contents.find(2, &a, now()), Found::Missing), "another account's");
        let longer = File { facts: file("a", 4).facts, ..a.clone() };
        let changed = File { facts: file("b", 3).facts, ..a.clone() };
        assert!(
            matches!(contents.find(1, &longer, now()), Found::Missing)
                && matches!(contents.find(1, &changed, now()), Found::Missing)
        );
        store(&mut contents, 1, &changed);
        assert!(
            matches!(contents.find(1, &a, now()), Found::Missing)
                && matches!(contents.find(1, &changed, now()), Found::Here(_))
        );
        assert_eq!(contents.bytes, 3);
        assert!(matches!(contents.find(1, &changed, now() + LIFE), Found::Missing));
        store(&mut contents, 2, &a);
        assert_eq!((contents.bytes, contents.ages.len()), (6, 3));
        assert!(contents.expect(1, &changed, (), now() + LIFE).is_some(), "it is fetched anew");
        assert_eq!((contents.bytes, contents.ages.len()), (3, 1), "the old ones have gone");
    }

    #[test]
    fn what_has_not_arrived_is_not_kept() {
        let (mut contents, a) = (Contents::default(), file("a", 3));
        for arrived in [None, Some(content(2)), Some(content(4))] {
            let number = contents.expect(1, &a, (), now()).unwrap();
            contents.arrives(1, &a.path, number + 1, Some(content(3)));
            assert!(matches!(contents.find(1, &a, now()), Found::Coming(())), "it was another fetch");
            contents.arrives(1, &a.path, number, arrived);
            assert!(matches!(contents.find(1, &a, now()), Found::Missing));
        }
        let number = contents.expect(1, &a, (), now()).unwrap();
        contents.forget(1);
        contents.arrives(1, &a.path, number, Some(content(3)));
        assert!(
            matches!(contents.find(1, &a, now()), Found::Missing) && contents.bytes == 0 && contents.order.is_empty()
        );
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let mut contents = Contents::default();
        let quarter = BYTES / 4;
        for name in ["a", "b", "c", "d"] {
            store(&mut contents, 1, &file(name, quarter));
        }
        assert!(matches!(contents.find(1, &file("a", quarter), now()), Found::Here(_)));
        store(&mut contents, 2, &file("e", quarter));
        assert!(matches!(contents.find(1, &file("b", quarter), now()), Found::Missing));
        assert!(matches!(contents.find(1, &file("a", quarter), now()), Found::Here(_)));
        assert!(contents.bytes <= BYTES);
        for name in ["f", "g", "h", "i"] {
            assert!(contents.expect(3, &file(name, quarter), (), now()).is_some());
        }
        assert!(contents.expect(3, &file("j", 1), (), now()).is_none(), "all of it is being fetched");
    }
}
