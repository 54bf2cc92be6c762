//! Mirrors of a folder on one server to another server.

mod clocks;
mod deletions;
mod faults;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use dav::{
    Dav, Error,
    transfer::{Event, Options, Skip, Summary, Watch, relay},
};
use servers::{Double, behaviours::ALL};
use tokio::{sync::Notify, time::timeout};

use crate::common::{PATIENCE, Tree, client, deaf, mirror, noise, path};

const HOUR: Duration = Duration::from_hours(1);

/// A source and a target.
struct Pair {
    from: Double,
    to: Double,
}

impl Pair {
    async fn new() -> Self {
        Self { from: Double::start().await, to: Double::start().await }
    }

    /// Servers with these behaviours, by name.
    async fn behaving(from: &str, to: &str, seed: u64) -> Self {
        let make = |name: &str| (ALL.iter().find(|entry| entry.name == name).expect("a behaviour").make)(seed);
        Self {
            from: Double::with_behaviours(vec![make(from)]).await,
            to: Double::with_behaviours(vec![make(to)]).await,
        }
    }

    /// Puts files on the source, an hour old.
    fn lay_out(&self, files: &[(&str, &str)]) {
        for (name, content) in files {
            self.from.put(&format!("/up/{name}"), content.as_bytes(), HOUR);
        }
    }

    fn put_there(&self, files: &[(&str, &str)]) {
        for (name, content) in files {
            self.to.put(&format!("/up/{name}"), content.as_bytes(), HOUR);
        }
    }

    fn clients(&self) -> (Dav, Dav) {
        (client(self.from.address, |_| ()), client(self.to.address, |_| ()))
    }

    async fn sync(&self, options: &Options) -> Result<Summary, Error> {
        self.sync_watched(options, &deaf()).await
    }

    async fn sync_watched(&self, options: &Options, watch: &Watch) -> Result<Summary, Error> {
        let ((from, to), stop) = (self.clients(), Notify::new());
        let root = path("/up/");
        let synced = relay((&from, std::slice::from_ref(&root)), (&to, &root), options, &stop, watch);
        timeout(PATIENCE, synced).await.expect("the sync never ends")
    }

    /// The same; it must succeed and make the target equal to the source.
    async fn mirror(&self, options: &Options) -> Summary {
        let summary = self.sync(options).await.unwrap();
        assert!(summary.failed.is_empty(), "{:?}\n{}", summary.failed, self.to.log());
        assert!(self.from.files("/up") == self.to.files("/up"), "it is no mirror");
        summary
    }

    fn there(&self) -> Vec<String> {
        self.to.files("/up").into_keys().collect()
    }
}

/// As `haul sync`, without records.
fn sync() -> Options {
    Options { skip: Skip::SameSizeAndTime, ..mirror() }
}

fn deleting() -> Options {
    Options { delete: true, ..sync() }
}

/// Records the events, one line each.
fn hearing() -> (Watch, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let lines = heard.clone();
    let watch: Watch = Arc::new(move |event: Event<'_>| {
        let line = match event {
            Event::Done { path, .. } => format!("copied {path}"),
            Event::Deleted { path } => format!("deleted {path}"),
            Event::Made { path } => format!("made {path}"),
            Event::Failed { path, .. } => format!("failed {path}"),
            Event::Skipped { path, why, .. } => format!("skipped {path}: {why}"),
            Event::Note(text) => format!("note {text}"),
            _ => return,
        };
        lines.lock().unwrap().push(line);
    });
    (watch, heard)
}

fn sorted(heard: &Mutex<Vec<String>>) -> Vec<String> {
    let mut lines = std::mem::take(&mut *heard.lock().unwrap());
    lines.sort();
    lines
}

#[tokio::test]
async fn sync_copies_missing_and_different_files_and_deletes_the_rest() {
    let pair = Pair::new().await;
    pair.lay_out(&[("a", "1"), ("d/b%20c", "22"), ("d/e/%C3%BC%23", "333")]);
    pair.from.put("/up/large", &noise(1, 9_000_000), HOUR);
    pair.mirror(&sync()).await;
    let again = pair.mirror(&sync()).await;
    assert_eq!((again.files, again.skipped), (0, 4));

    pair.lay_out(&[("new", "4")]);
    pair.from.put("/up/a", b"77", HOUR);
    pair.from.remove("/up/d/e");
    pair.put_there(&[("extra/x/y", "")]);
    let kept = pair.sync(&sync()).await.unwrap();
    assert_eq!((kept.files, kept.deleted, pair.there().len()), (2, 0, 6), "nothing is deleted unasked");

    let (watch, heard) = hearing();
    let before = pair.to.files("/up");
    let would = pair.sync_watched(&Options { dry_run: true, ..deleting() }, &watch).await.unwrap();
    assert_eq!((would.files, would.deleted), (0, 2));
    assert!(before == pair.to.files("/up"), "a dry run changes nothing");
    let told: Vec<_> = sorted(&heard).into_iter().filter(|line| !line.starts_with("skipped")).collect();
    assert_eq!(told, ["deleted /up/d/e/", "deleted /up/extra/"]);
    assert_eq!(pair.mirror(&deleting()).await.deleted, 2);
}

#[tokio::test]
async fn interrupted_sync_continues_in_the_next_run() {
    let pair = Pair::new().await;
    let names: Vec<String> = (0..300).map(|number| format!("d{}/f{number}", number % 7)).collect();
    for (number, name) in names.iter().enumerate() {
        pair.from.put(&format!("/up/{name}"), &noise(number, 1000 + number), HOUR);
    }
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let (stop, seen) = (Arc::new(Notify::new()), count.clone());
    let bell = stop.clone();
    let watch: Watch = Arc::new(move |event: Event<'_>| {
        if matches!(event, Event::Done { .. }) && seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 30 {
            bell.notify_one();
        }
    });
    let ((from, to), root) = (pair.clients(), path("/up/"));
    let options = deleting();
    let synced = relay((&from, std::slice::from_ref(&root)), (&to, &root), &options, &stop, &watch);
    let stopped = timeout(PATIENCE, synced).await.unwrap().unwrap();
    assert_eq!(stopped.deleted, 0);
    // The target server also goes down during the next run.
    let killed = async {
        while pair.to.files("/up").len() < 200 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        pair.to.kill().await;
    };
    let (cut, ()) = tokio::join!(pair.sync(&options), killed);
    pair.to.restart().await;
    for (name, content) in pair.to.files("/up") {
        assert!(pair.from.files("/up").get(&name) == Some(&content), "{name} is half there");
    }
    drop(cut);
    pair.mirror(&options).await;
    assert_eq!(pair.mirror(&options).await.files, 0);
}

#[tokio::test]
async fn swapped_or_lost_responses_never_go_unnoticed() {
    let sides = ["answers as done", "swaps two answers", "answers one twice", "drops a GET", "does one, and resets"];
    for (number, odd) in sides.into_iter().enumerate() {
        for (from, to) in [(odd, "honest"), ("honest", odd), (odd, odd)] {
            let pair = Pair::behaving(from, to, number as u64).await;
            let files: Tree =
                (0..40).map(|number| (format!("d{}/f{number}", number % 5), noise(number, 700))).collect();
            for (name, content) in &files {
                pair.from.put(&format!("/up/{name}"), content, HOUR);
                // Half of the files exist already, some with other content.
                if content[0] % 2 == 0 {
                    let there = if content[1] % 2 == 0 { content.clone() } else { noise(7, 700) };
                    pair.to.put(&format!("/up/{name}"), &there, 2 * HOUR);
                }
            }
            pair.put_there(&[("d0/extra", "x"), ("d9/extra", "x"), ("more", "x")]);
            pair.from.arm();
            pair.to.arm();
            let summary = pair.sync(&deleting()).await.unwrap();
            let there = pair.to.files("/up");
            let named = |name: &str| summary.failed.iter().any(|(path, _)| path.contains(name) || path == "/up/");
            for (name, content) in &files {
                assert!(there.get(name) == Some(content) || named(name), "{from} to {to}: {name} is wrong, unseen");
            }
            let extra = there.keys().filter(|name| !files.contains_key(*name)).count();
            assert!(extra == 0 || !summary.failed.is_empty(), "{from} to {to}: extras stay, unseen: {there:?}");
            assert!(summary.deleted <= 3 && summary.deleted + extra as u64 >= 3, "{from} to {to}: {summary:?}");
        }
    }
}

#[tokio::test]
async fn sync_onto_itself_or_into_itself_is_refused() {
    let double = Double::start().await;
    for name in ["/a/b/x", "/a/y", "/c/z"] {
        double.put(name, b"1", HOUR);
    }
    let before = double.files("/");
    let dav = client(double.address, |_| ());
    for (source, target) in [("/a/", "/a/"), ("/a/", "/a/b/"), ("/a/", "/a/new/"), ("/a/b/", "/a/"), ("/a/", "/A/")] {
        let (source, target, stop) = (path(source), path(target), Notify::new());
        let synced = relay((&dav, &[source]), (&dav, &target), &deleting(), &stop, &deaf()).await;
        let told = synced.unwrap_err().to_string();
        assert!(told.contains("nothing was changed"), "{told}");
        assert!(double.files("/") == before && double.folders("/").len() == 3);
    }
    let (source, target) = (path("/a/"), path("/c/"));
    let synced = relay((&dav, &[source]), (&dav, &target), &deleting(), &Notify::new(), &deaf()).await.unwrap();
    assert_eq!((synced.files, synced.deleted), (2, 1));
    assert!(double.files("/a") == double.files("/c"));
}
