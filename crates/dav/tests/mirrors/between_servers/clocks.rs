//! Detection of unchanged files despite the clock offsets of both servers.

use std::time::{Duration, SystemTime};

use dav::transfer::{Options, Skip};

use super::{HOUR, Pair, deleting, hearing, sorted, sync};
use crate::common::folder;

const MINUTES: i64 = 60;
const CLOCKS: [i64; 4] = [10 * MINUTES, -10 * MINUTES, 24 * 60 * MINUTES, 0];

#[tokio::test]
async fn changed_file_of_equal_length_is_copied_despite_clock_offsets() {
    for ahead in CLOCKS {
        for other in CLOCKS {
            let pair = Pair::new().await;
            pair.from.set_clock(ahead);
            pair.to.set_clock(other);
            pair.lay_out(&[("changed", "first"), ("same", "first")]);
            pair.mirror(&sync()).await;
            for (content, seconds) in [("other", 0), ("third", 3)] {
                pair.from.put_at("/up/changed", content.as_bytes(), seconds);
                let next = pair.mirror(&sync()).await;
                assert_eq!((next.files, next.skipped), (1, 1), "{ahead} {other} {content}");
            }
        }
    }
}

#[tokio::test]
async fn equal_time_means_unchanged_if_the_server_keeps_times() {
    for ahead in CLOCKS {
        let pair = Pair::new().await;
        pair.to.set_clock(ahead);
        pair.to.keep_times();
        // Too new for the time of its copy to prove anything.
        pair.from.put("/up/d/a", b"first", Duration::ZERO);
        pair.from.put("/up/d/b", b"first", HOUR);
        pair.mirror(&deleting()).await;
        let again = pair.mirror(&deleting()).await;
        assert_eq!((again.files, again.skipped), (0, 2), "{ahead}: {}", pair.to.log());
        let tried = pair.to.log().lines().filter(|line| line.contains("PUT /up/d/.")).count();
        assert!(tried <= 1, "what a server keeps is tried once: {}", pair.to.log());
        pair.from.put_at("/up/d/a", b"other", 5);
        assert_eq!(pair.mirror(&deleting()).await.files, 1, "{ahead}");
    }
}

#[tokio::test]
async fn copy_is_recognised_by_the_clock_offset_if_the_server_sets_times() {
    for ahead in CLOCKS {
        let pair = Pair::new().await;
        pair.to.set_clock(ahead);
        // Changed a minute ago: by a clock that is behind, its copy looks older.
        pair.from.put("/up/a", b"first", Duration::from_mins(1));
        pair.mirror(&sync()).await;
        assert_eq!(pair.mirror(&sync()).await.files, 0, "{ahead}: {}", pair.to.log());
        let would = pair.sync(&Options { dry_run: true, ..sync() }).await.unwrap();
        assert!(would.files <= 1 && pair.there() == ["a"], "a dry run tries nothing");
    }
}

#[tokio::test]
async fn equal_times_mean_nothing_if_the_server_sets_times() {
    let pair = Pair::new().await;
    pair.lay_out(&[("a", "first")]);
    pair.put_there(&[("a", "other")]);
    let time = pair.from.modified("/up/a");
    pair.to.set_modified("/up/a", time);
    assert_eq!(pair.mirror(&sync()).await.files, 1);
}

#[tokio::test]
async fn record_takes_precedence_over_clocks_and_times() {
    let (_kept, here) = folder();
    let options = Options { synced_versions: Some(here.join("seen")), ..deleting() };
    let pair = Pair::new().await;
    pair.to.set_clock(600);
    pair.from.put("/up/new", b"first", Duration::ZERO);
    pair.lay_out(&[("old", "first")]);
    pair.mirror(&options).await;
    assert_eq!(pair.mirror(&options).await.files, 0, "one is as new as its copy");
    // An older version of the same length is restored.
    pair.from.put("/up/old", b"zeroth", 2 * HOUR);
    pair.from.put("/up/old", b"older", 2 * HOUR);
    assert_eq!(pair.mirror(&options).await.files, 1);
    // Another version in the same second, with another entity tag.
    let time = pair.from.modified("/up/old");
    pair.from.put("/up/old", b"again", HOUR);
    pair.from.set_modified("/up/old", time);
    assert_eq!(pair.mirror(&options).await.files, 1);
    // Another writer has changed the copy.
    pair.to.put("/up/old", b"wrong", Duration::ZERO);
    assert_eq!(pair.mirror(&options).await.files, 1);
}

#[tokio::test]
async fn files_are_compared_by_content_without_common_digests() {
    let pair = Pair::new().await;
    let (long, other) = ("x".repeat(100_000), "y".repeat(100_000));
    pair.lay_out(&[("same", "first"), ("other", "first"), ("long", &long), ("longer", &long)]);
    pair.put_there(&[("same", "first"), ("other", "thirf"), ("long", &other), ("longer", &long)]);
    let (watch, heard) = hearing();
    let options = Options { skip: Skip::SameDigest, ..sync() };
    let summary = pair.sync_watched(&options, &watch).await.unwrap();
    assert_eq!((summary.files, summary.skipped), (2, 2));
    assert!(pair.from.files("/up") == pair.to.files("/up"));
    let notes = sorted(&heard).into_iter().filter(|line| line.starts_with("note")).count();
    assert_eq!(notes, 1, "it is told once what that costs");
}

#[tokio::test]
async fn existing_files_are_kept_as_requested() {
    use dav::transfer::KeepExisting;
    let none = KeepExisting::default();
    for (keep_existing, copied) in [
        (KeepExisting { existing: true, ..none }, vec!["missing"]),
        (KeepExisting { newer: true, ..none }, vec!["missing", "older"]),
        (KeepExisting { same_size: true, ..none }, vec!["longer", "missing"]),
    ] {
        let pair = Pair::new().await;
        pair.lay_out(&[("missing", "1"), ("older", "first"), ("newer", "first"), ("longer", "source")]);
        let now = SystemTime::now();
        for (name, content, hours) in [("older", "other", 5), ("newer", "other", 0), ("longer", "x", 0)] {
            pair.put_there(&[(name, content)]);
            pair.to.set_modified(&format!("/up/{name}"), now - hours * HOUR);
        }
        let (watch, heard) = hearing();
        pair.sync_watched(&Options { keep_existing, ..sync() }, &watch).await.unwrap();
        let told: Vec<_> =
            sorted(&heard).iter().filter_map(|line| line.strip_prefix("copied /up/").map(str::to_owned)).collect();
        assert_eq!(told, copied, "{keep_existing:?}");
    }
}
