//! Deletions by a mirror, and their limits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use dav::transfer::{Backup, Filter, Options, Rule};
use servers::{Double, Fault, behaviours::ALL};

use super::{Pair, deleting, hearing, sorted, sync};
use crate::common::path;

fn excluding(patterns: &[&str]) -> Filter {
    let rules: Vec<_> = patterns.iter().map(|pattern| Rule { include: false, pattern: (*pattern).into() }).collect();
    Filter::new(&rules).unwrap()
}

#[tokio::test]
async fn excluded_files_and_their_folders_are_kept() {
    let pair = Pair::new().await;
    pair.lay_out(&[("a", "1"), ("b.tmp", "new"), ("cache/x", "new"), ("big", "123456"), ("d/c", "3")]);
    pair.put_there(&[
        ("b.tmp", "old"),
        ("cache/y", ""),
        ("big", "1"),
        ("gone/deep/x.tmp", ""),
        ("gone/deep/y", ""),
        ("gone/z", ""),
        ("whole/y", ""),
    ]);
    let filter = excluding(&["*.tmp", "/cache/"]).sizes(None, Some(5));
    let summary = pair.sync(&Options { filter: filter.clone(), ..deleting() }).await.unwrap();
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert_eq!(pair.there(), ["a", "b.tmp", "big", "cache/y", "d/c", "gone/deep/x.tmp"]);
    assert_eq!(pair.to.files("/up")["big"], b"1", "it is left out by its size at the source");
    assert_eq!(summary.deleted, 3);

    let options = Options { filter, delete_excluded: true, ..deleting() };
    pair.sync(&options).await.unwrap();
    assert_eq!(pair.there(), ["a", "d/c"]);
}

#[tokio::test]
async fn excluded_folders_are_created_for_included_files() {
    let pair = Pair::new().await;
    pair.lay_out(&[("d/a.jpg", "1"), ("d/b.txt", "2"), ("none/c.txt", "3")]);
    pair.put_there(&[("d/old.jpg", ""), ("d/old.txt", ""), ("none/old.jpg", "")]);
    let rules = [(true, "*.jpg"), (false, "**")].map(|(include, pattern)| Rule { include, pattern: pattern.into() });
    let filter = Filter::new(&rules).unwrap();
    let summary = pair.sync(&Options { filter, ..deleting() }).await.unwrap();
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    assert_eq!(pair.there(), ["d/a.jpg", "d/old.txt"]);
    assert!(pair.to.folders("/up/none").len() == 1, "a folder that is left out stays");
}

#[tokio::test]
async fn failed_listing_prevents_deletions_without_ignore_errors() {
    for broken in ["/up/d", "/up/d/"] {
        for ignores in [false, true] {
            let pair = Pair::new().await;
            pair.lay_out(&[("a", "1"), ("d/b", "2"), ("e/c", "3")]);
            pair.put_there(&[("d/b", "2"), ("d/mine", ""), ("e/extra", ""), ("extra/x", "")]);
            let refused = broken.to_owned();
            pair.from.script(move |method, path, _| {
                (method == "PROPFIND" && path.trim_end_matches('/') == refused.trim_end_matches('/'))
                    .then_some(Fault::Respond(403, ""))
            });
            let options = Options { ignore_errors: ignores, ..deleting() };
            let summary = pair.sync(&options).await.unwrap();
            assert_eq!(summary.failed.len(), 1, "{:?}", summary.failed);
            assert!(pair.there().contains(&"d/mine".to_owned()) && pair.there().contains(&"d/b".to_owned()));
            let extras = pair.there().iter().filter(|name| name.contains("extra")).count();
            assert_eq!((summary.deleted, extras), if ignores { (2, 0) } else { (0, 2) });
        }
    }
}

#[tokio::test]
async fn failed_copy_or_target_listing_prevents_deletions() {
    for (method, at) in [("PUT", "/up/d/b"), ("PROPFIND", "/up/d")] {
        let pair = Pair::new().await;
        pair.lay_out(&[("a", "1"), ("d/b", "2")]);
        pair.put_there(&[("d/c", ""), ("extra", "")]);
        pair.to.script(move |asked, path, _| (asked == method && path == at).then_some(Fault::Respond(403, "")));
        let summary = pair.sync(&deleting()).await.unwrap();
        assert!(!summary.failed.is_empty() && summary.deleted == 0);
        assert!(pair.there().contains(&"extra".to_owned()) && pair.there().contains(&"d/c".to_owned()));
    }
    // A source file that cannot be downloaded.
    let pair = Pair::new().await;
    pair.lay_out(&[("a", "1"), ("d/b", "2")]);
    pair.put_there(&[("extra", ""), ("d/b", "3")]);
    pair.from.script(|method, path, _| (method == "GET" && path == "/up/d/b").then_some(Fault::Respond(403, "")));
    let summary = pair.sync(&deleting()).await.unwrap();
    assert_eq!((summary.failed.len(), summary.deleted), (1, 0));
    assert_eq!(pair.to.files("/up")["d/b"], b"3", "what could not be copied stays what it was");
}

#[tokio::test]
async fn deletion_is_counted_only_if_confirmed() {
    for liar in [1, usize::MAX] {
        let pair = Pair::new().await;
        pair.lay_out(&[("a", "1")]);
        pair.put_there(&[("a", "1"), ("x", ""), ("y/z", "")]);
        let asked = Arc::new(AtomicUsize::new(0));
        // The server confirms the deletion, but has not deleted the file.
        pair.to.script(move |method, path, _| {
            let lies = method == "DELETE" && path == "/up/x" && asked.fetch_add(1, Ordering::SeqCst) < liar;
            lies.then_some(Fault::RespondWithBody(204, ""))
        });
        let (watch, heard) = hearing();
        let summary = pair.sync_watched(&deleting(), &watch).await.unwrap();
        let told = sorted(&heard);
        assert!(told.contains(&"deleted /up/y/".to_owned()));
        if liar == 1 {
            assert!(summary.failed.is_empty() && summary.deleted == 2 && pair.there() == ["a"]);
        } else {
            assert_eq!((summary.failed.len(), summary.deleted), (1, 1));
            assert!(
                !told.contains(&"deleted /up/x".to_owned()) && told.contains(&"failed /up/x".to_owned()),
                "{told:?}"
            );
        }
    }
}

#[tokio::test]
async fn another_writers_version_is_neither_overwritten_nor_deleted() {
    let pair = Pair::new().await;
    pair.lay_out(&[("a", "longer"), ("b", "1")]);
    pair.put_there(&[("a", "old"), ("b", "1"), ("x", "old")]);
    pair.to.script(|method, path, _| match (method, path) {
        ("PUT", "/up/a") => Some(Fault::OverwrittenByOther("/up/a")),
        ("DELETE", "/up/x") => Some(Fault::OverwrittenByOther("/up/x")),
        _ => None,
    });
    let summary = pair.sync(&Options { ignore_errors: true, ..deleting() }).await.unwrap();
    assert_eq!((summary.failed.len(), summary.deleted), (2, 0), "{:?}", summary.failed);
    let there = pair.to.files("/up");
    assert_eq!((there["a"].len(), there["x"].len()), (1000, 1000), "they are theirs");
}

#[tokio::test]
async fn max_delete_limits_deletions() {
    let pair = Pair::new().await;
    pair.lay_out(&[("a", "1")]);
    pair.put_there(&[("b", ""), ("x/c", ""), ("x/y/d", "")]);
    for dry_run in [true, false] {
        let summary = pair.sync(&Options { max_delete: Some(4), dry_run, ..deleting() }).await.unwrap();
        assert!(summary.deleted == 0 && summary.failed[0].1.to_string().contains("5 files and folders"), "{summary:?}");
    }
    assert_eq!(pair.there().len(), 4);
    let summary = pair.sync(&Options { max_delete: Some(5), ..deleting() }).await.unwrap();
    assert!(summary.failed.is_empty() && pair.there() == ["a"]);
}

#[tokio::test]
async fn files_and_folders_replace_each_other_with_delete() {
    let pair = Pair::new().await;
    pair.lay_out(&[("file", "1"), ("folder/x", "2"), ("folder/y/z", "3")]);
    pair.put_there(&[("file/inside", ""), ("folder", "was a file")]);
    let summary = pair.sync(&sync()).await.unwrap();
    let named: Vec<_> = summary.failed.iter().map(|(path, why)| (path.as_str(), why.to_string())).collect();
    assert_eq!(named.len(), 4, "{named:?}");
    assert!(named.iter().all(|(_, why)| why.contains("on the server and a f")), "{named:?}");
    assert_eq!(pair.there(), ["file/inside", "folder"]);
    let filtered = Options { filter: excluding(&["*.tmp"]), ignore_errors: true, ..deleting() };
    pair.sync(&filtered).await.unwrap();
    assert_eq!(pair.there(), ["file/inside", "folder"], "what a filter may leave out is not replaced");
    pair.mirror(&deleting()).await;
    assert_eq!(pair.there(), ["file", "folder/x", "folder/y/z"]);
}

#[tokio::test]
async fn backup_keeps_what_is_replaced_and_deleted() {
    let pair = Pair::new().await;
    pair.lay_out(&[("a", "new content")]);
    pair.put_there(&[("a", "old"), ("x/y", "deleted"), ("z", "deleted")]);
    let backup = Some(Backup::There(path("/kept/deep/")));
    pair.mirror(&Options { backup, ..deleting() }).await;
    let kept: Vec<_> = pair.to.files("/kept/deep").into_iter().map(|(name, content)| (name, content.len())).collect();
    assert_eq!(kept, [("a".to_owned(), 3), ("x/y".to_owned(), 7), ("z".to_owned(), 7)]);
}

#[tokio::test]
async fn temporary_files_are_never_content() {
    let pair = Pair::new().await;
    let ours = [".a.0123456789abcdef.part", ".a.fedcba9876543210.upload", ".haul-upload-0123456789abcdef"];
    pair.lay_out(&[("a", "1")]);
    for name in ours {
        pair.lay_out(&[(name, "half")]);
        pair.put_there(&[(&name.replace(".a", ".b").replace("-0", "-1"), "another's")]);
    }
    let summary = pair.sync(&deleting()).await.unwrap();
    assert_eq!((summary.files, summary.deleted, pair.there().len()), (1, 0, 4), "{:?}", pair.there());
}

#[tokio::test]
async fn hidden_source_file_is_not_deleted_at_the_target() {
    let make = |name: &str| (ALL.iter().find(|entry| entry.name == name).expect("a behaviour").make)(0);
    let pair = Pair { from: Double::with_behaviours(vec![make("hides dotfiles")]).await, to: Double::start().await };
    pair.lay_out(&[("a", "1"), (".hidden", "2")]);
    pair.put_there(&[(".hidden", "2"), (".extra", "3")]);
    let summary = pair.sync(&deleting()).await.unwrap();
    assert_eq!((summary.failed.len(), summary.deleted), (1, 1), "{:?}", summary.failed);
    assert_eq!(pair.there(), [".hidden", "a"]);
}

#[tokio::test]
async fn colliding_names_at_the_target_are_reported() {
    let make = |name: &str| (ALL.iter().find(|entry| entry.name == name).expect("a behaviour").make)(0);
    for spares in [false, true] {
        let pair = Pair { from: Double::start().await, to: Double::with_behaviours(vec![make("folds case")]).await };
        pair.lay_out(&[("d/Case", "one"), ("d/case", "two"), ("d/other", "3")]);
        let summary = pair.sync(&Options { ignore_errors: spares, ..deleting() }).await.unwrap();
        assert_eq!(summary.failed.len(), 1, "{:?}", summary.failed);
        assert!(summary.failed[0].1.to_string().contains("does not distinguish"), "{}", summary.failed[0].1);
        let there = pair.to.files("/up");
        assert_eq!((there.len(), &there["d/Case"][..]), (2, &b"one"[..]));
    }
}
