//! Faults during copies between two servers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dav::transfer::{Options, Verify};
use servers::Fault;

use super::{HOUR, Pair, deleting, sync};
use crate::common::noise;

#[tokio::test]
async fn truncated_response_is_requested_again() {
    for size in [1000, 9_000_000] {
        for verify in [Verify::Size, Verify::Digest] {
            let pair = Pair::new().await;
            pair.from.put("/up/file", &noise(1, size), HOUR);
            let cut = Arc::new(AtomicUsize::new(0));
            pair.from.script(move |method, _, _| {
                (method == "GET" && cut.fetch_add(1, Ordering::SeqCst) == 0).then_some(Fault::TruncateResponse)
            });
            let summary = pair.sync(&Options { verify, ..deleting() }).await.unwrap();
            let there = pair.to.files("/up");
            let is_there = there.get("file") == Some(&noise(1, size));
            assert!(is_there == summary.failed.is_empty(), "{size}: {:?}\n{}", summary.failed, pair.to.log());
            assert!(there.is_empty() || is_there, "half a file stays");
            pair.from.clear_faults();
            pair.mirror(&deleting()).await;
        }
    }
}

#[tokio::test]
async fn unreadable_source_file_is_reported_and_the_rest_copied() {
    for fault in [Fault::Respond(500, ""), Fault::Reset, Fault::TruncateResponse, Fault::Silence, Fault::LengthTooLong]
    {
        let pair = Pair::new().await;
        for number in 0..20 {
            pair.from.put(&format!("/up/f{number}"), &noise(number, 1000), HOUR);
        }
        pair.from.put("/up/bad", &noise(99, 1000), HOUR);
        pair.to.put("/up/bad", b"as it was", HOUR);
        let wrong = fault.clone();
        pair.from.script(move |method, path, _| (method == "GET" && path == "/up/bad").then(|| wrong.clone()));
        let summary = pair.sync(&deleting()).await.unwrap();
        let named: Vec<_> = summary.failed.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(named, ["/up/bad"], "{fault:?}");
        assert_eq!((pair.there().len(), &pair.to.files("/up")["bad"][..]), (21, &b"as it was"[..]), "{fault:?}");
    }
}

#[tokio::test]
async fn file_with_changed_length_is_reported() {
    for (size, later) in [(1000, 1500), (1000, 10), (9_000_000, 9_000_100)] {
        let pair = Arc::new(Pair::new().await);
        pair.from.put("/up/file", &noise(1, size), HOUR);
        let (changing, once) = (Arc::downgrade(&pair), Arc::new(AtomicUsize::new(0)));
        // Changed between the listing and the GET, by the target's script.
        pair.to.script(move |method, _, _| {
            if method == "PROPFIND"
                && once.fetch_add(1, Ordering::SeqCst) == 0
                && let Some(pair) = changing.upgrade()
            {
                std::thread::spawn(move || pair.from.put("/up/file", &noise(2, later), Duration::ZERO)).join().unwrap();
            }
            None
        });
        let summary = pair.sync(&deleting()).await.unwrap();
        let there = pair.to.files("/up");
        let is_right = there.get("file") == Some(&noise(2, later));
        assert!(is_right || summary.failed.len() == 1 && there.is_empty(), "{size}: {:?}", summary.failed);
        pair.mirror(&deleting()).await;
    }
}

#[tokio::test]
async fn copy_is_staged_and_locked_on_request() {
    use dav::LockPolicy;
    for options in [Options { temporary: true, ..deleting() }, Options { lock: LockPolicy::Always, ..deleting() }] {
        let pair = Pair::new().await;
        pair.lay_out(&[("a", "1"), ("d/b", "22")]);
        pair.put_there(&[("a", "old")]);
        pair.mirror(&options).await;
        let log = pair.to.log();
        assert!(if options.temporary { log.contains("MOVE /up/") } else { log.contains("LOCK /up/") });
        assert_eq!(pair.to.locks(), 0);
    }
}

#[tokio::test]
async fn upload_with_lost_response_is_confirmed_by_a_lookup() {
    let pair = Pair::new().await;
    for number in 0..20 {
        pair.from.put(&format!("/up/f{number}"), &noise(number, 1000), HOUR);
    }
    let lost = Arc::new(AtomicUsize::new(0));
    pair.to.script(move |method, _, _| {
        (method == "PUT" && lost.fetch_add(1, Ordering::SeqCst) % 7 == 3).then_some(Fault::ResetAfterProcessing)
    });
    let summary = pair.mirror(&sync()).await;
    assert_eq!(summary.files, 20);
}

#[tokio::test]
async fn source_error_is_reported_for_small_and_large_files() {
    for size in [1000, 9_000_000] {
        let pair = Pair::new().await;
        pair.from.put("/up/file", &noise(1, size), HOUR);
        pair.from.script(|method, _, _| (method == "GET").then_some(Fault::Respond(403, "")));
        let summary = pair.sync(&deleting()).await.unwrap();
        let told = summary.failed[0].1.to_string();
        assert!(told.contains("GET /up/file") && told.contains("403"), "{size}: {told}");
        assert!(pair.there().is_empty());
    }
}
