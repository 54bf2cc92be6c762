//! What the server's folders contain, of one credential, for a short time.
//!
//! A listing answers a client's questions about members of its folder, also that there is no such member: Windows looks
//! for a file before it creates one, and in each folder for `desktop.ini`, macOS for `._` files. It answers for the time
//! `fresh` from when it was requested, and only questions for the same properties. What this credential's own requests
//! change is not answered from listings that were requested before the change was done. Every change has a number; a
//! listing knows nothing of names with a later one.
//!
//! Listings are large. They have a limit for each credential and one for all, and go when they are not believed any more.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

use bytes::Bytes;
use dav::RemotePath;

use crate::document::Document;

/// The largest answer that is kept.
pub(crate) const LARGEST: usize = 4 * 1024 * 1024;
/// The memory of a credential's listings, and of all, in bytes.
const OF_CREDENTIAL: usize = 12 * 1024 * 1024;
const OF_ALL: usize = 48 * 1024 * 1024;
/// The largest number of folders of a credential, and of changed names in each.
const FOLDERS: usize = 64;
const NAMES: usize = 10_000;
/// How many questions about members of a folder are passed on before the folder is listed.
const PATIENCE: u32 = 1;
/// How long a folder is not listed that is too large, or cannot be listed.
const REST: Duration = Duration::from_mins(1);

/// The memory of the listings of all credentials.
#[derive(Debug, Default)]
pub(crate) struct Room(AtomicUsize);

impl Room {
    pub(crate) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A document, and its part of the memory.
#[derive(Debug)]
struct Kept {
    document: Arc<Document>,
    size: usize,
    room: Arc<Room>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.size, Ordering::Relaxed);
    }
}

/// Folders of one credential.
#[derive(Debug)]
pub(crate) struct Listings {
    fresh: Duration,
    room: Arc<Room>,
    /// By path, without a final slash.
    folders: HashMap<RemotePath, Folder>,
    change: u64,
}

#[derive(Debug, Default)]
struct Folder {
    listing: Option<Listing>,
    /// The number of each name's last change.
    changed: HashMap<Vec<u8>, u64>,
    /// Names that are forgotten have at most this number.
    forgotten: u64,
    questions: u32,
    used: Option<Instant>,
    /// While somebody lists it, and after that was no use.
    rests_until: Option<Instant>,
}

#[derive(Debug)]
struct Listing {
    query: Bytes,
    /// None once it is old.
    kept: Option<Kept>,
    change: u64,
    asked: Instant,
}

/// What is known of a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Absent,
    /// The answer to the question.
    Here(Bytes),
    Unknown,
}

/// When a listing was requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    change: u64,
    asked: Instant,
}

impl Listings {
    pub(crate) fn new(fresh: Duration, room: Arc<Room>) -> Self {
        Self { fresh, room, folders: HashMap::new(), change: 0 }
    }

    /// Answers a question about one resource; without a `query`, whether it exists.
    pub(crate) fn member(&self, path: &RemotePath, query: Option<&Bytes>, now: Instant) -> Known {
        let Some((name, (folder, listing, document))) = path.name().zip(self.listing(path, now)) else {
            return Known::Unknown;
        };
        if folder.last_change(name) > listing.change {
            Known::Unknown
        } else if document.lacks(name) {
            Known::Absent
        } else if query == Some(&listing.query) {
            document.member(path).map_or(Known::Unknown, Known::Here)
        } else {
            Known::Unknown
        }
    }

    /// The listing that shows a path, if nothing is known to have changed what is there since.
    pub(crate) fn document(&self, path: &RemotePath, now: Instant) -> Option<Arc<Document>> {
        let (name, (folder, listing, document)) = path.name().zip(self.listing(path, now))?;
        (folder.last_change(name) <= listing.change).then(|| document.clone())
    }

    /// The listing of the folder that a path is in.
    fn listing(&self, path: &RemotePath, now: Instant) -> Option<(&Folder, &Listing, &Arc<Document>)> {
        self.fresh_listing(&path.parent()?, now)
    }

    fn fresh_listing(&self, folder: &RemotePath, now: Instant) -> Option<(&Folder, &Listing, &Arc<Document>)> {
        let folder = self.folders.get(&folder.clone().as_folder(false))?;
        let listing = folder.listing.as_ref()?;
        let document = &listing.kept.as_ref()?.document;
        (now.saturating_duration_since(listing.asked) < self.fresh).then_some((folder, listing, document))
    }

    /// The listing of a folder, if nothing in it has changed.
    pub(crate) fn folder(&self, path: &RemotePath, query: &Bytes, now: Instant) -> Option<Bytes> {
        let (folder, listing, document) = self.fresh_listing(path, now)?;
        let is_unchanged = folder.forgotten.max(folder.changed.values().copied().max().unwrap_or(0)) <= listing.change;
        (is_unchanged && listing.query == *query).then(|| document.bytes())
    }

    /// A question about a member was asked. Returns whether its folder should be listed: after a few questions that no listing
    /// has answered, or when the listing that answers them is getting old. Nobody else is told so for a while.
    pub(crate) fn wants_listing(&mut self, path: &RemotePath, query: &Bytes, now: Instant) -> bool {
        let fresh = self.fresh;
        let Some(parent) = path.parent() else { return false };
        let folder = self.folder_mut(&parent, now);
        if folder.rests_until.is_some_and(|until| now < until) {
            return false;
        }
        let age = folder.listing.as_ref().filter(|listing| listing.query == *query);
        let age = age.map(|listing| now.saturating_duration_since(listing.asked));
        if age.is_some_and(|age| age < fresh / 2) {
            return false;
        }
        folder.questions += 1;
        let is_wanted = folder.questions > PATIENCE || age.is_some_and(|age| age < fresh * 2);
        if is_wanted {
            folder.rests_until = Some(now + REST);
        }
        is_wanted
    }

    /// Before a listing is requested.
    pub(crate) fn mark(&self, now: Instant) -> Mark {
        Mark { change: self.change, asked: now }
    }

    /// A folder was listed.
    pub(crate) fn listed(&mut self, path: &RemotePath, query: Bytes, mark: Mark, document: Arc<Document>) {
        self.forget_old(Instant::now());
        // Without room, its folder is not listed again for a while.
        let Some(kept) = self.keep(document) else { return };
        let folder = self.folder_mut(path, mark.asked);
        if folder.listing.as_ref().is_some_and(|known| known.asked > mark.asked) {
            return;
        }
        folder.changed.retain(|_, change| *change > mark.change);
        (folder.questions, folder.rests_until) = (0, None);
        folder.listing = Some(Listing { query, kept: Some(kept), change: mark.change, asked: mark.asked });
    }

    /// Forgets what is not believed any more.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        for listing in self.folders.values_mut().filter_map(|folder| folder.listing.as_mut()) {
            listing.kept.take_if(|_| now.saturating_duration_since(listing.asked) >= self.fresh);
        }
    }

    /// Makes room for a listing, and keeps it there.
    fn keep(&mut self, document: Arc<Document>) -> Option<Kept> {
        let (size, room) = (document.size(), self.room.clone());
        loop {
            let listings = self.folders.values_mut().filter_map(|folder| folder.listing.as_mut());
            let mut own: Vec<_> = listings.filter(|listing| listing.kept.is_some()).collect();
            let bytes: usize = own.iter().filter_map(|listing| listing.kept.as_ref()).map(|kept| kept.size).sum();
            let before = room.0.fetch_add(size, Ordering::Relaxed);
            if bytes + size <= OF_CREDENTIAL && before + size <= OF_ALL {
                return Some(Kept { document, size, room });
            }
            room.0.fetch_sub(size, Ordering::Relaxed);
            own.sort_by_key(|listing| listing.asked);
            own.first_mut()?.kept = None;
        }
    }

    /// A request may change what is at this path, or has done so: to be called before and after it.
    pub(crate) fn changes(&mut self, path: &RemotePath) {
        self.change += 1;
        let change = self.change;
        self.folders.retain(|folder, _| folder.relative_to(&path.clone().as_folder(true)).is_none());
        let parent = path.parent().map(|parent| parent.as_folder(false));
        if let Some((folder, name)) = parent.and_then(|parent| self.folders.get_mut(&parent)).zip(path.name()) {
            if folder.changed.len() >= NAMES {
                folder.changed.clear();
                folder.forgotten = change;
            }
            folder.changed.insert(name.to_vec(), change);
        }
    }

    fn folder_mut(&mut self, path: &RemotePath, now: Instant) -> &mut Folder {
        let path = path.clone().as_folder(false);
        if !self.folders.contains_key(&path) && self.folders.len() >= FOLDERS {
            let oldest = self.folders.iter().min_by_key(|(_, folder)| folder.used).map(|(path, _)| path.clone());
            oldest.map(|oldest| self.folders.remove(&oldest));
        }
        // Whatever was changed before is unknown to listings that were requested before.
        let change = self.change;
        let folder = self.folders.entry(path).or_insert_with(|| Folder { forgotten: change, ..Folder::default() });
        folder.used = Some(now);
        folder
    }
}

impl Folder {
    fn last_change(&self, name: &[u8]) -> u64 {
        self.changed.get(name).copied().unwrap_or(0).max(self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Duration = Duration::from_secs(4);

    fn path(text: &str) -> RemotePath {
        RemotePath::from_url_path(text).unwrap()
    }

    fn document(members: &[&str]) -> Arc<Document> {
        let response = |href: String| format!("<response><href>{href}</href></response>");
        let members: String = members.iter().map(|name| response(format!("/f/{name}"))).collect();
        let text = format!("<multistatus xmlns=\"DAV:\">{}{members}</multistatus>", response("/f/".into()));
        Arc::new(Document::parse(text.into(), &path("/f/")).unwrap())
    }

    fn query(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn a_listing_answers_for_its_members_while_it_is_fresh() {
        let (mut listings, start) = (Listings::new(FRESH, Arc::default()), Instant::now());
        let all = query("");
        let mark = listings.mark(start);
        listings.listed(&path("/f/"), all.clone(), mark, document(&["a"]));
        assert!(matches!(listings.member(&path("/f/a"), Some(&all), start), Known::Here(_)));
        assert_eq!(listings.member(&path("/f/a"), Some(&query("<x/>")), start), Known::Unknown);
        assert_eq!(listings.member(&path("/f/b"), Some(&query("<x/>")), start), Known::Absent);
        assert_eq!(listings.member(&path("/f/b"), None, start), Known::Absent);
        assert_eq!(listings.member(&path("/g/b"), None, start), Known::Unknown);
        assert_eq!(listings.member(&path("/f/b"), None, start + FRESH), Known::Unknown);
        assert!(listings.folder(&path("/f/"), &all, start).is_some());
    }

    #[test]
    fn own_changes_are_not_answered_from_older_listings() {
        let (mut listings, start) = (Listings::new(FRESH, Arc::default()), Instant::now());
        let all = query("");
        let first = listings.mark(start);
        listings.listed(&path("/f/"), all.clone(), first, document(&["a"]));
        listings.changes(&path("/f/b"));
        let during = listings.mark(start);
        assert_eq!(listings.member(&path("/f/b"), None, start), Known::Unknown);
        assert_eq!(listings.member(&path("/f/c"), None, start), Known::Absent);
        assert!(listings.folder(&path("/f/"), &all, start).is_none());
        listings.changes(&path("/f/b"));
        listings.listed(&path("/f/"), all.clone(), during, document(&["a"]));
        assert_eq!(listings.member(&path("/f/b"), None, start), Known::Unknown, "it was requested before the end");
        let after = listings.mark(start);
        listings.listed(&path("/f/"), all.clone(), after, document(&["a", "b"]));
        assert!(matches!(listings.member(&path("/f/b"), Some(&all), start), Known::Here(_)));
        listings.changes(&path("/"));
        assert_eq!(listings.member(&path("/f/c"), None, start), Known::Unknown, "the folder may be another now");
        let before = listings.mark(start);
        listings.changes(&path("/f/new"));
        listings.listed(&path("/f/"), all, before, document(&["a"]));
        assert_eq!(listings.member(&path("/f/new"), None, start), Known::Unknown, "the folder was not known yet");
    }

    #[test]
    fn a_folder_is_listed_after_some_questions_and_before_its_listing_is_old() {
        let (mut listings, start) = (Listings::new(FRESH, Arc::default()), Instant::now());
        let all = query("");
        assert!(!listings.wants_listing(&path("/f/a"), &all, start));
        assert!(listings.wants_listing(&path("/f/b"), &all, start));
        assert!(!listings.wants_listing(&path("/f/c"), &all, start), "somebody does it");
        let mark = listings.mark(start);
        listings.listed(&path("/f/"), all.clone(), mark, document(&[]));
        assert!(!listings.wants_listing(&path("/f/c"), &all, start + FRESH / 4));
        assert!(listings.wants_listing(&path("/f/c"), &all, start + FRESH * 3 / 4));
        assert!(!listings.wants_listing(&path("/f/c"), &all, start + FRESH * 3 / 4));
    }

    #[test]
    fn listings_take_bounded_memory_and_only_while_they_are_fresh() {
        // Longer than the test takes.
        const FRESH: Duration = Duration::from_mins(10);
        let (room, start) = (Arc::<Room>::default(), Instant::now());
        let names: Vec<String> = (0..3000).map(|number| format!("a-file-{number}")).collect();
        let large = document(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut accounts: Vec<_> = (0..40).map(|_| Listings::new(FRESH, room.clone())).collect();
        for listings in &mut accounts {
            for folder in 0..10 {
                let mark = listings.mark(start + Duration::from_millis(folder));
                listings.listed(&path(&format!("/{folder}/")), query(""), mark, large.clone());
                assert!(room.bytes() <= OF_ALL);
            }
        }
        assert!(room.bytes() > OF_ALL - OF_CREDENTIAL, "control: {}", room.bytes());
        let first = &mut accounts[0];
        assert!(first.folder(&path("/9/"), &query(""), start).is_some(), "the newest stays");
        assert!(first.folder(&path("/0/"), &query(""), start).is_none(), "the oldest went");
        for listings in &mut accounts {
            listings.forget_old(start + FRESH * 2);
        }
        assert_eq!(room.bytes(), 0);
        // When it was listed is still known.
        assert!(accounts[0].wants_listing(&path("/9/a"), &query(""), start + FRESH));
        let mark = accounts[0].mark(start);
        accounts[0].listed(&path("/9/"), query(""), mark, large);
        accounts.clear();
        assert_eq!(room.bytes(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let (mut listings, start) = (Listings::new(FRESH, Arc::default()), Instant::now());
        for number in 0..1000 {
            listings.wants_listing(&path(&format!("/{number}/a")), &query(""), start);
        }
        assert!(listings.folders.len() <= FOLDERS);
        let mark = listings.mark(start);
        listings.listed(&path("/f/"), query(""), mark, document(&[]));
        for number in 0..=NAMES {
            listings.changes(&path(&format!("/f/{number}")));
        }
        assert_eq!(listings.member(&path("/f/0"), None, start), Known::Unknown);
        assert!(listings.folders[&path("/f")].changed.len() <= NAMES);
    }
}
